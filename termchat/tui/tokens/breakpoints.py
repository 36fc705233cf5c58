"""Breakpoints and stop rules: conditions at which every reply of the chat pauses or ends."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest

from textual.suggester import SuggestFromList
from textual.widget import Widget
from textual.widgets import Input

from termchat.chat.service import Chat
from termchat.conversation.session import Breakpoint
from termchat.decoding.conditions import EXAMPLES, Condition, ConditionError, format_condition, parse
from termchat.text import one_line
from termchat.tui.dialogs.base import ARROWS, ListDialog
from termchat.tui.draw.field import Field
from termchat.tui.draw.ink import Ink, Line
from termchat.tui.draw.marks import ACCENT, MUTED, TEXT, column
from termchat.tui.keys.dialogs import BREAKPOINTS
from termchat.tui.themes.theme_file import Palette

_ACTIONS = {
    "pause": ("pauses at  ", Ink("stamp")),
    "stop": ("stops  at  ", Ink("warning")),
    "ignore": ("ignores    ", Ink("stamp")),
}


def rule_lines(rules: Sequence[tuple[Condition, bool]], width: int, *, selected: int) -> list[Line]:
    """A line each: whether it is on, what it does, and when."""
    lines = []
    for index, (condition, enabled) in enumerate(rules):
        does, ink = _ACTIONS[condition.action]
        words = format_condition(condition).removeprefix("stop ").removeprefix("ignore ")
        text = one_line(words, max(width - 15, 4))
        box = "[x] " if enabled else "[ ] "
        runs = ((box, ACCENT), (does, ink if enabled else MUTED), (text, TEXT if enabled else MUTED))
        lines.append(Line(runs, "panel" if index == selected else ""))
    return lines


class BreakpointsDialog(ListDialog[None]):
    """The list, and a line in which one more is typed. What was done counts at once, also for a reply that is running."""

    DEFAULT_CSS = "BreakpointsDialog > Vertical { width: 76; max-height: 24; }"
    TITLE = "Breakpoints and stop rules"
    HINT = "stop RULE ends the reply, RULE pauses it."
    HINTS = (
        ("rule-enter", "adds the rule, or turns the selected one on or off"),
        ("rule-delete", "deletes it"), ("close", "closes"),
    )  # fmt: skip
    KEYS = "BREAKPOINTS"
    BINDINGS = [*ARROWS, *(key.binding for key in BREAKPOINTS)]  # noqa: RUF012

    def __init__(self, chat: Chat, palette: Palette) -> None:
        super().__init__(palette)
        self._chat = chat

    def inputs(self) -> Iterable[Widget]:
        yield Field(
            placeholder="entropy > 3", suggester=SuggestFromList([*EXAMPLES, *map("stop {}".format, EXAMPLES[:-1])])
        )

    def on_mount(self) -> None:
        super().on_mount()
        self._show()

    def draw(self, rows: range, chosen: int, width: int) -> list[Line]:
        rules = [(one.condition, one.enabled) for one in self._chat.breakpoints[rows.start : rows.stop]]
        if rules:
            return rule_lines(rules, width, selected=chosen - rows.start)
        half = width // 2
        pairs = (
            f"{column(one, half)}{other}" for one, other in zip_longest(EXAMPLES[::2], EXAMPLES[1::2], fillvalue="")
        )
        return [Line(((one_line(pair, width), MUTED),)) for pair in ("for example:", *pairs)]

    def on_input_changed(self) -> None:
        self.say("")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        rules = self._chat.breakpoints
        if not event.value.strip():
            self._set(_turned(rules, self.picker.chosen))
            return
        try:
            condition = parse(event.value)
        except ConditionError as error:
            self.say(str(error))
            return
        event.input.clear()
        if all(rule.condition != condition for rule in rules):
            rules = (*rules, Breakpoint(condition))
        self._set(rules)
        self.picker.show(len(rules), next(at for at, rule in enumerate(rules) if rule.condition == condition))

    def action_drop(self) -> None:
        self._set(tuple(rule for at, rule in enumerate(self._chat.breakpoints) if at != self.picker.chosen))

    def _set(self, rules: tuple[Breakpoint, ...]) -> None:
        if rules != self._chat.breakpoints:
            self._chat.set_breakpoints(rules)
        self._show()

    def _show(self) -> None:
        self.picker.show(len(self._chat.breakpoints))


def _turned(rules: tuple[Breakpoint, ...], at: int) -> tuple[Breakpoint, ...]:
    return tuple(Breakpoint(rule.condition, rule.enabled != (place == at)) for place, rule in enumerate(rules))
