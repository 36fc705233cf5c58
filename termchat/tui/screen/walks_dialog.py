"""The dialog that starts walks: Enter alone starts four."""

from __future__ import annotations

from collections.abc import Iterable

from textual.widget import Widget
from textual.widgets import Label

from termchat.chat.service import Chat
from termchat.decoding.group import GroupKind
from termchat.decoding.plan_words import read, write
from termchat.decoding.plans import NO_KNOB, PLANS, PlanField
from termchat.decoding.samplers import KNOBS
from termchat.decoding.setting import Value
from termchat.decoding.walk_plan import PRESETS, PlanError, WalkPlan, shown_value
from termchat.text import cells, erase_last, one_line, show_piece
from termchat.tui.context import ScreenContext
from termchat.tui.draw.form import Form, FormKeys
from termchat.tui.draw.ink import Ink, Line, Run, doing
from termchat.tui.draw.list_dialog import ListDialog
from termchat.tui.draw.marks import ACCENT, FAINT, MUTED, STRONG, TEXT, column, length, prose
from termchat.tui.keys.tables import START
from termchat.tui.screen.walks_view import NOTHING, begin_walks

_NAME = 9
_SHOWN = 50
"""Cells of the message that is replied to."""
_KIND = PlanField(name="kind", label="kind", kind="choice", default="walks", choices=tuple(PLANS))


class WalkForm(Form):
    """The fields of a plan, below a row for its kind. Values are texts, as they are typed, by kind and field; `typed` is None
    until the selected one is changed letter by letter.
    """

    KEYS = "START WALKS"

    def __init__(self, chat: Chat, kind: GroupKind = "walks") -> None:
        super().__init__()
        self.kind, self._chat = kind, chat
        self._initial: dict[GroupKind, dict[str, str]] = {
            kind: {field.name: field.typed_default for field in (_KIND, *plan.fields)} for kind, plan in PLANS.items()
        }
        runs = PRESETS["temperature"].group.runs
        self._initial["grid"] |= {"values": _list_values("temperature"), "runs": str(runs)}
        self.values = {kind: initial | {"kind": kind} for kind, initial in self._initial.items()}

    @property
    def fields(self) -> tuple[PlanField, ...]:
        return (_KIND, *(field for field in PLANS[self.kind].fields if field.label))

    @property
    def field(self) -> PlanField:
        return self.fields[self.at]

    @property
    def value(self) -> str:
        """The text of the selected row."""
        return self.values[self.kind][self.field.name]

    @property
    def argument(self) -> str:
        """The argument of the command that does the same."""
        return write(self.kind, self.values[self.kind])

    def find_refusal(self, kind: GroupKind) -> str:
        """Return why the engine cannot make a kind; "" if it can."""
        return "; ".join(self._chat.find_refusal("beams" if kind == "beams" else "walks") or ())

    def read(self) -> WalkPlan:
        """Read the plan as the command does, so that both are refused in one place.

        Raises:
            PlanError: it cannot be walked like this, or not by the engine.
        """
        if refusal := self.find_refusal(self.kind):
            raise PlanError(refusal)
        return read(self.kind, self.argument).plan

    def choose(self, at: int) -> None:
        """Select a row."""
        self.at, self.typed = min(max(at, 0), len(self.fields) - 1), None

    def set(self, value: Value) -> None:
        """Set the text of the selected row; another knob of a grid brings the values of its exercise."""
        if self.at == 0:
            self.kind = next(kind for kind in PLANS if kind == value)
            return
        values, name, is_new = self.values[self.kind], self.field.name, value != self.value
        values[name] = str(value)
        if is_new and self.kind == "grid" and self.field.kind == "choice":
            values[self.fields[self.at + 1].name] = _list_values(str(value)) if value != NO_KNOB else ""

    def press(self, key: str, character: str | None) -> bool:
        if key == "space" and self.field.kind == "text":
            self.type_text(" ")
            return True
        return super().press(key, character)

    def takes(self, text: str) -> bool:
        field = self.field
        if field.kind == "text":
            return text.isprintable()
        return not field.choices and all(one.isdecimal() or (field.kind == "float" and one in ".-") for one in text)

    def type_text(self, text: str) -> None:
        """Type a text, in place of a number that was not typed."""
        is_replaced = self.typed is None and self.field.kind != "text"
        self.typed = text if is_replaced else self.value + text
        self.set(self.typed)

    def do_move(self, by: int) -> None:
        field = self.field
        self.typed = None
        if field.choices:
            self.set(field.choices[(field.choices.index(self.value) + by) % len(field.choices)])
        elif field.kind != "text":
            try:
                number = float(self.value)
            except ValueError:
                number = max(field.low, 0)
            self.set(f"{field.moved(number, by):g}")

    def do_erase(self) -> None:
        if not self.field.choices:
            self.typed = erase_last(self.value)
            self.set(self.typed)

    def do_reset(self) -> None:
        is_written = self.field.kind == "text" and self.value
        self.set("" if is_written else self._initial[self.kind][self.field.name])

    def do_step(self, by: int) -> None:
        self.choose((self.at + by) % len(self.fields))

    def render_row(self, field: PlanField, width: int, *, here: bool) -> Line:
        """Render a field with its value: few choices all of them, each of which a click takes."""
        at, value = self.fields.index(field), self.values[self.kind][field.name]
        runs: list[Run] = [("▌ " if here else "  ", ACCENT), (column(field.label, _NAME), STRONG if here else MUTED)]
        strong = Ink("accent", bold=True)
        if 0 < len(field.choices) <= len(PLANS):
            for choice in field.choices:
                name, ink = choice, MUTED
                if field is _KIND:
                    kind = next(kind for kind in PLANS if kind == choice)
                    name, ink = PLANS[kind].name, FAINT if self.find_refusal(kind) else MUTED
                run = (f"[{name}]", strong) if choice == value else (f" {name} ", ink)
                runs += doing(f"pick({at}, {choice!r})", [run])
        else:
            room = max(width - length(runs) - 4, 4)
            shown = value if cells(value) < room else "…" + value[-room + 2 :]
            before, after = ("‹", " ›") if here and field.kind != "text" else (" ", "")
            cursor = "▏" if here and not field.choices else ""
            runs.append((f"{before}{shown}{cursor}{after}", strong if here else TEXT))
            runs.append(("" if value else f" {field.none}", MUTED))
        return Line(tuple(runs))


def _list_values(knob: str) -> str:
    """List the values of the exercise with a knob."""
    exercise = PRESETS.get(knob)
    values = exercise.group.knobs[0].values if exercise is not None else ()
    return " ".join(shown_value(KNOBS[knob], value) for value in values)


class WalksDialog(FormKeys[WalkForm], ListDialog[PlanField, WalkPlan]):
    """Asks for a plan of replies to the `draft`, else to the prompt at hand."""

    DEFAULT_CSS = """
    WalksDialog > Vertical { width: 84; height: 19; max-height: 100%; }
    WalksDialog #walks-where { color: $muted; height: 1; }
    WalksDialog #details { height: 4; }
    WalksDialog.-detailed.-low #details { display: block; height: 3; margin-top: 0; }
    """
    KEYS = WalkForm.KEYS
    TITLE = "Walks: several replies at once"
    HINTS = (
        ("start-before", "selects"), ("start-less", "or typing changes"), ("start-walks", "starts"), ("close", "closes"),
    )  # fmt: skip
    BINDINGS = [key.binding for key in START if key.id == "start-walks"]  # noqa: RUF012
    AUTO_FOCUS = TWICE = INDENT = ""
    BESIDE = 1 << 20

    def __init__(self, context: ScreenContext, kind: GroupKind, draft: str) -> None:
        super().__init__(context.palette)
        self._where, self.form = _describe_prompt(context, draft), WalkForm(context.chat, kind)
        self.problem = one_line(self.form.find_refusal(kind), 200)
        self.set_rows(self.form.fields)

    def inputs(self) -> Iterable[Widget]:
        yield Label(one_line(self._where or NOTHING, 80), id="walks-where", markup=False)

    def line(self, row: PlanField, width: int, *, chosen: bool) -> Line:
        return self.form.render_row(row, width, here=chosen)

    def render_details(self, row: PlanField, width: int, height: int) -> list[Line]:
        """Render the help of a row, how many replies the plan makes, and the command that does the same."""
        form, summary = self.form, ""
        try:
            group = read(form.kind, form.argument).plan.group
        except PlanError:
            pass
        else:
            summary = f"{group.size} replies"
            if group.beams is not None:
                summary = f"the best{f' {group.size}' if group.size > 1 else ''} of {group.beams.width} beams"
            elif group.kind == "grid" and group.runs > 1:
                summary += f": {group.size // group.runs} cells with {group.runs} runs each"
        same = one_line(f"same command: /{PLANS[form.kind].command} {form.argument}", width)
        help_lines = prose(row.help if form.at else PLANS[form.kind].about, width, MUTED)
        return [*help_lines[: max(height - 2, 1)], Line(((summary, TEXT),)), Line(((same, MUTED),))]

    def moved(self) -> None:
        self.form.choose(self.picker.chosen)
        self.show_form()

    def action_pick(self, at: int, choice: str) -> None:
        self.form.choose(at)
        self.form.set(choice)
        self.show_form()

    def action_start(self) -> None:
        try:
            plan = self.form.read()
            if not self._where:
                raise PlanError("write a message first")
        except PlanError as error:
            self.say("; ".join(filter(None, (error.message, error.hint))))
            return
        if self.is_current:  # a second Enter in the same burst does nothing
            self.dismiss(plan)

    def show_form(self) -> None:
        self.set_rows(self.form.fields, self.form.at)
        try:
            self.form.read()
            self.say("")
        except PlanError as error:
            self.say(error.message)


def _describe_prompt(context: ScreenContext, draft: str) -> str:
    """Describe the prompt of the walks; "" for none."""
    if (place := context.tokens.place) is not None:
        texts = place.node.tokens.texts
        piece = f" {show_piece(texts[place.at])}" if place.at < len(texts) else ""
        return f"continue the reply from token {place.at + 1}{piece}"
    if draft:
        return f"replies to your draft: {one_line(draft, _SHOWN)}"
    path = context.chat.conversation.find_path()
    message = next((span.node.written for span in reversed(path) if span.node.role == "user"), "")
    return f"new replies to: {one_line(message, _SHOWN)}" if message else ""


def open_dialog(context: ScreenContext, kind: GroupKind) -> None:
    """Open the dialog for the token under the cursor, else for the draft. Running replies out of sight are shown instead."""
    hidden = context.chat.walks.hidden
    if hidden is not None and kind == "walks":
        context.chat.walks.open(hidden.group.number)
        return
    composer = context.composer
    draft = "" if context.tokens.is_open or composer.is_blank else composer.message

    def closed(plan: WalkPlan | None) -> None:
        if plan is None:
            return
        if draft:
            composer.earlier.add(draft)
            composer.clear()
        begin_walks(context, plan, draft)

    context.open(WalksDialog(context, kind, draft), closed)
