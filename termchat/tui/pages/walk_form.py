"""The form of the dialog that starts walks: the kind of plan, and the fields of the kind. It writes the argument of the command
that does the same, so that both are read and refused in one place. No widget.
"""

from __future__ import annotations

from collections.abc import Callable

from termchat.decoding.group import GroupKind
from termchat.decoding.plan_words import Asked, read, write
from termchat.decoding.plans import NO_KNOB, PLANS, PlanField
from termchat.decoding.samplers import KNOBS
from termchat.decoding.setting import Value
from termchat.decoding.walk_plan import PRESETS, PlanError, shown_value
from termchat.text import cells, erase_last
from termchat.tui.draw.form import Form
from termchat.tui.draw.ink import Ink, Line, Run, doing
from termchat.tui.draw.marks import ACCENT, FAINT, MUTED, STRONG, TEXT, column, length

_NAME = 9
_KIND = PlanField(name="kind", label="kind", kind="choice", default="walks", choices=tuple(PLANS))


def _values_of(knob: str) -> str:
    """Return the values of the exercise with a knob."""
    exercise = PRESETS.get(knob)
    values = exercise.group.knobs[0].values if exercise is not None else ()
    return " ".join(shown_value(KNOBS[knob], value) for value in values)


class WalkForm(Form):
    """The first row is that of the kind. `refused` returns why the engine cannot make a kind, "" if it can.

    Values are texts, as they are typed; `typed` is None until the selected one is changed letter by letter.
    """

    KEYS = "START WALKS"

    def __init__(self, kind: GroupKind = "walks", refused: Callable[[GroupKind], str] = lambda _: "") -> None:
        super().__init__()
        self.kind = kind
        self._refused = refused
        self._rows = {kind: tuple(field for field in plan.fields if field.label) for kind, plan in PLANS.items()}
        self._initial = {kind: {field.name: field.typed_default for field in rows} for kind, rows in self._rows.items()}
        runs = PRESETS["temperature"].group.runs
        self._initial["grid"] |= {"values": _values_of("temperature"), "runs": str(runs)}
        self._values = {kind: dict(values) for kind, values in self._initial.items()}

    @property
    def fields(self) -> tuple[PlanField, ...]:
        return (_KIND, *self._rows[self.kind])

    @property
    def field(self) -> PlanField:
        return self.fields[self.at]

    @property
    def help(self) -> str:
        """The help of the selected row."""
        return self.field.help if self.at else PLANS[self.kind].about

    @property
    def argument(self) -> str:
        """The argument of the command that does the same."""
        return write(self.kind, self._values[self.kind])

    def read(self) -> Asked:
        """Read the plan.

        Raises:
            PlanError: it cannot be walked like this.
        """
        return read(self.kind, self.argument)

    @property
    def refusal(self) -> str:
        """Why the engine cannot make this kind; "" if it can."""
        return self._refused(self.kind)

    @property
    def problem(self) -> str:
        if self.refusal:
            return self.refusal
        try:
            self.read()
        except PlanError as error:
            return error.message
        return ""

    @property
    def summary(self) -> str:
        """How many replies it makes; "" if it is refused."""
        try:
            group = self.read().plan.group
        except PlanError:
            return ""
        if group.beams is not None:
            return f"the best{f' {group.size}' if group.size > 1 else ''} of {group.beams.width} beams"
        if group.kind == "grid" and group.runs > 1:
            return f"{group.size} replies: {group.size // group.runs} cells with {group.runs} runs each"
        return f"{group.size} replies"

    def choose(self, at: int) -> None:
        """Select a row."""
        self.at, self.typed = min(max(at, 0), len(self.fields) - 1), None

    def set(self, value: Value) -> None:
        """Set the text of the selected row; another knob of a grid brings the values of its exercise."""
        if self.at == 0:
            self.kind = next(kind for kind in PLANS if kind == value)
            return
        before, self._values[self.kind][self.field.name] = self._typed_value(self.at), str(value)
        if self.kind == "grid" and self.field.kind == "choice" and value != before:
            self._values["grid"][self.fields[self.at + 1].name] = _values_of(str(value)) if value != NO_KNOB else ""

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
        before = self._typed_value(self.at) if self.field.kind == "text" else ""
        self.typed = (before if self.typed is None else self.typed) + text
        self.set(self.typed)

    def do_move(self, by: int) -> None:
        field, value = self.field, self._typed_value(self.at)
        self.typed = None
        if field.choices:
            self.set(field.choices[(field.choices.index(value) + by) % len(field.choices)])
        elif field.kind != "text":
            try:
                number = float(value)
            except ValueError:
                number = max(field.low, 0)
            self.set(f"{field.moved(number, by):g}")

    def do_erase(self) -> None:
        if not self.field.choices:
            self.typed = erase_last(self._typed_value(self.at))
            self.set(self.typed)

    def do_reset(self) -> None:
        is_written = self.field.kind == "text" and self._typed_value(self.at) != ""
        default = self._initial[self.kind][self.field.name] if self.at else _KIND.typed_default
        self.set("" if is_written else default)
        if self.typed is not None:
            self.typed = self._typed_value(self.at)

    def _typed_value(self, at: int) -> str:
        return self.kind if at == 0 else self._values[self.kind][self.fields[at].name]

    def lines(self, width: int) -> list[Line]:
        return [self._render_line(at, field, width) for at, field in enumerate(self.fields)]

    def _render_line(self, at: int, field: PlanField, width: int) -> Line:
        here = at == self.at
        value = self._typed_value(at)
        runs: list[Run] = [("▌ " if here else "  ", ACCENT), (column(field.label, _NAME), STRONG if here else MUTED)]
        if 0 < len(field.choices) <= len(PLANS):
            for choice in field.choices:
                name = PLANS[choice].name if at == 0 else choice  # type: ignore[index]
                ink = FAINT if at == 0 and self._refused(choice) else MUTED  # type: ignore[arg-type]
                ink = Ink("accent", bold=True) if choice == value else ink
                runs += doing(f"pick({at}, {choice!r})", [(f"[{name}]" if choice == value else f" {name} ", ink)])
        else:
            room = max(width - length(runs) - 4, 4)
            shown = value if cells(value) < room else "…" + value[-room + 2 :]
            writes, arrows = not field.choices, here and field.kind != "text"
            ink = Ink("accent", bold=True) if here else TEXT
            runs.append(
                (f"{'‹' if arrows else ' '}{shown}{'▏' if here and writes else ''}{' ›' if arrows else ''}", ink)
            )
            runs.append(("" if value else f" {field.none}", MUTED))
        return Line(tuple(runs), "panel" if here else "")
