"""The dialog that starts walks: Enter alone starts four."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from textual.widget import Widget
from textual.widgets import Label

from termchat.decoding.group import GroupKind
from termchat.decoding.plans import PLANS
from termchat.decoding.walk_plan import PlanError, WalkPlan
from termchat.text import one_line
from termchat.tui.draw.dialog import Dialog
from termchat.tui.draw.form import FormKeys
from termchat.tui.draw.ink import Line
from termchat.tui.draw.lines_view import Sheet
from termchat.tui.draw.marks import MUTED, TEXT, prose
from termchat.tui.keys.tables import START
from termchat.tui.pages.walk_form import WalkForm
from termchat.tui.themes.theme_file import Palette


class WalksDialog(FormKeys[WalkForm], Dialog[WalkPlan]):
    """The result is a plan. `where` describes the prompt, `missing` is the reason for none, `refused` returns the reason
    for which the engine cannot make a kind, "" if it can."""

    DEFAULT_CSS = """
    WalksDialog > Vertical { width: 84; }
    WalksDialog #walks-form { height: 6; margin-top: 1; }
    WalksDialog #walks-help { height: 3; margin-top: 1; }
    WalksDialog #walks-where, WalksDialog #walks-same { color: $muted; height: 1; }
    """
    KEYS = WalkForm.KEYS
    TITLE = "Walks: several replies at once"
    HINTS = (
        ("start-before", "selects"), ("start-less", "or typing changes"), ("start-walks", "starts"), ("close", "closes"),
    )  # fmt: skip
    BINDINGS = [key.binding for key in START if key.id in ("start-walks", "start-before", "start-after")]  # noqa: RUF012
    AUTO_FOCUS = ""

    def __init__(
        self,
        palette: Palette,
        where: str,
        kind: GroupKind = "walks",
        missing: str = "",
        refused: Callable[[GroupKind], str] = lambda _: "",
    ) -> None:
        super().__init__()
        self._palette, self._where, self._missing = palette, where, missing
        self.form = WalkForm(kind, refused)
        self.problem = one_line(self.form.refusal, 200)
        self._sheet = Sheet(lambda: self.form.lines(self._sheet.room), id="walks-form")
        self._help = Sheet(self._help_lines, id="walks-help")

    def body(self) -> Iterable[Widget]:
        yield Label(one_line(self._where, 80), id="walks-where", markup=False)
        yield self._sheet
        yield self._help
        yield self.message_label()
        yield Label(self._same, id="walks-same", markup=False)

    def on_mount(self) -> None:
        self._sheet.paint_with(self._palette)
        self._help.paint_with(self._palette)

    def action_step(self, by: int) -> None:
        self.form.choose((self.form.at + by) % len(self.form.fields))
        self.show_form()

    def action_pick(self, at: int, choice: str) -> None:
        self.form.choose(at)
        self.form.set(choice)
        self.show_form()

    def action_start(self) -> None:
        if self.form.refusal or self._missing:
            self.say(self.form.refusal or self._missing)
            return
        try:
            plan = self.form.read().plan
        except PlanError as error:
            self.say("; ".join(filter(None, (error.message, error.hint))))
            return
        if self.is_current:  # a second Enter in the same burst does nothing
            self.dismiss(plan)

    def show_form(self) -> None:
        self._sheet.show()
        self._help.show()
        self.say(self.form.problem)
        self.put("#walks-same", self._same)

    @property
    def _same(self) -> str:
        """The command that does the same."""
        return one_line(f"same command: /{PLANS[self.form.kind].command} {self.form.argument}", 80)

    def _help_lines(self) -> list[Line]:
        lines = prose(self.form.help, self._help.room, MUTED)
        return [*lines, Line(((self.form.summary, TEXT),))]
