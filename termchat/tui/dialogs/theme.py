"""All themes; the highlighted one is shown at once, on the chat and on a sample."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Label

from termchat.text import one_line
from termchat.tui.dialogs.base import ARROWS, ListDialog
from termchat.tui.draw.ink import BLANK, Ink, Line
from termchat.tui.draw.lines_view import Sheet
from termchat.tui.draw.marks import ACCENT, MUTED, STRONG, TEXT, bar, column
from termchat.tui.keys import dialogs
from termchat.tui.panels.ribbon import legend_line
from termchat.tui.themes.library import ThemeChooser
from termchat.tui.themes.theme_file import AUTO

_NAME = 18
_GROUND = "code_background"
_CODE, _PLAIN, _SAID = (Ink(color, _GROUND) for color in ("code_keyword", "code", "code_comment"))
_FOLLOWS = "match the terminal"
_LIMITS = {
    "none": "NO_COLOR is set, so bold, underline and reverse replace colours.",
    "16": "This terminal has 16 colours; these themes use its own palette.",
}


class ThemePicker(ListDialog[str]):
    """Its result is the name of the chosen theme, or "auto". `preview` shows one; the caller undoes that after Esc."""

    DEFAULT_CSS = """
    ThemePicker { align: right middle; background: transparent; }
    ThemePicker > Vertical { width: 46; max-height: 32; }
    ThemePicker Sheet { height: 7; margin-top: 1; }
    ThemePicker.-tight Sheet { display: none; }
    """
    TITLE = "Themes"
    HINTS = (("list-up", "shows"), ("theme-keep", "keeps"), ("close", "cancels"))
    KEYS = "THEMES"
    BINDINGS = [*ARROWS, *(key.binding for key in dialogs.THEMES)]  # noqa: RUF012

    def __init__(self, chooser: ThemeChooser, preview: Callable[[str], None]) -> None:
        super().__init__(chooser.current().palette)
        self._chooser, self._preview = chooser, preview
        shown = chooser.library.all() if chooser.library.depth != "none" else ()
        self._names = [AUTO, *sorted(shown, key=self._rank)]
        self._sample = Sheet(lambda: list(sample_lines()), id="sample")

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Label(self.TITLE, classes="title", markup=False)
            yield self.picker
            yield self._sample
            yield Label("", classes="problem", markup=False)
            limit = _LIMITS.get(self._chooser.library.depth, "")
            yield Label(dialogs.hint(*self.HINTS, before=limit), classes="hint", markup=False)

    def on_mount(self) -> None:
        self._sample.paint_with(self._palette)
        wanted = self._chooser.wanted
        self.picker.show(len(self._names), self._names.index(wanted) if wanted in self._names else 0)
        self.say("; ".join(map(str, self._chooser.library.problems)))

    def action_move(self, how: str) -> None:
        super().action_move(how)
        self._preview(self._chosen)
        palette = self._chooser.of(self._chosen).palette
        self.picker.paint_with(palette)
        self._sample.paint_with(palette)

    def action_keep(self) -> None:
        self.dismiss(self._chosen)

    def draw(self, rows: range, chosen: int, width: int) -> list[Line]:
        return [self._line(self._names[row], chosen=row == chosen) for row in rows]

    @property
    def _chosen(self) -> str:
        return self._names[self.picker.chosen]

    def _line(self, name: str, *, chosen: bool) -> Line:
        kept = "●" if name == self._chooser.wanted else " "
        palette = self._chooser.of(name).palette
        kind = _FOLLOWS if name == AUTO else "dark" if palette.dark else "light"
        runs = ((f"{kept} ", ACCENT), (column(one_line(name, _NAME), _NAME), STRONG if chosen else TEXT), (kind, MUTED))
        return Line(runs, "panel" if chosen else "")

    def _rank(self, name: str) -> tuple[bool, str]:
        return not self._chooser.of(name).palette.dark, name


def sample_lines() -> Iterable[Line]:
    """A little of everything: who speaks, what stands out, code, a bar, and the heat."""
    yield Line(((" you  ", Ink("user", bold=True)), ("Write a story.", TEXT)), "panel")
    yield Line(((" model ", Ink("reply")), ("Once upon a time a ", TEXT), ("fox", STRONG), (" met …", TEXT)))
    yield Line(((" def ", _CODE), ("fox", Ink("code_name", _GROUND)), ("():  ", _PLAIN), ("# sly", _SAID)), _GROUND)
    marks = (("stamp", "changed"), ("success", "fine"), ("warning", "warning"), ("error", "error"), ("link", "link"))
    yield Line(tuple((f" {word}", Ink(color)) for color, word in marks))
    yield Line(((" k ", ACCENT), ("top_k  ", TEXT), *bar(0.4, 16), ("   left 23", MUTED)))
    yield BLANK
    yield Line(((" ", TEXT), *legend_line("probability").runs))
