"""Breakpoints and stop rules: conditions at which every reply of the chat pauses or ends."""

from __future__ import annotations

from itertools import zip_longest

from textual.suggester import SuggestFromList

from termchat.chat.service import Chat
from termchat.conversation.session import Breakpoint
from termchat.decoding.conditions import EXAMPLES, ConditionError, format_condition, parse
from termchat.text import one_line
from termchat.tui.draw.ink import Ink, Line
from termchat.tui.draw.list_dialog import ListDialog
from termchat.tui.draw.marks import ACCENT, MUTED, TEXT, column
from termchat.tui.themes.theme_file import Palette

_ACTIONS = {
    "pause": ("pauses at  ", Ink("stamp")),
    "stop": ("stops  at  ", Ink("warning")),
    "ignore": ("ignores    ", Ink("stamp")),
}


class BreakpointsDialog(ListDialog[Breakpoint, None]):
    """The breakpoints and stop rules of the chat, and a field for one more. Changes apply at once, also to a running reply."""

    DEFAULT_CSS = "BreakpointsDialog > Vertical { width: 76; max-height: 24; }"
    TITLE = "Breakpoints and stop rules"
    FIELD = "entropy > 3"
    HINT = "stop RULE ends the reply, RULE pauses it."
    HINTS = (
        ("rule-enter", "adds the rule, or turns the selected one on or off"),
        ("rule-delete", "deletes it"), ("close", "closes"),
    )  # fmt: skip
    KEYS = "BREAKPOINTS"

    def __init__(self, chat: Chat, palette: Palette) -> None:
        super().__init__(palette)
        self._chat = chat
        self.field.suggester = SuggestFromList([*EXAMPLES, *map("stop {}".format, EXAMPLES[:-1])])
        self.set_rows(chat.breakpoints)

    def line(self, row: Breakpoint, width: int, *, chosen: bool) -> Line:
        """Render a rule: whether it is on, what it does, and when."""
        does, ink = _ACTIONS[row.condition.action]
        words = format_condition(row.condition).removeprefix("stop ").removeprefix("ignore ")
        text = one_line(words, max(width - 15, 4))
        box = "[x] " if row.enabled else "[ ] "
        return Line(((box, ACCENT), (does, ink if row.enabled else MUTED), (text, TEXT if row.enabled else MUTED)))

    def empty_lines(self, width: int) -> list[Line]:
        half = width // 2
        pairs = zip_longest(EXAMPLES[::2], EXAMPLES[1::2], fillvalue="")
        texts = ("for example:", *(f"{column(one, half)}{other}" for one, other in pairs))
        return [Line(((one_line(text, width), MUTED),)) for text in texts]

    def search(self, text: str) -> None:
        self.say("")

    def enter(self, text: str) -> None:
        """Add the typed rule and highlight it; without one, turn the highlighted rule on or off."""
        rules, chosen = self._chat.breakpoints, self.picker.chosen
        if not text.strip():
            self._set_rules(
                tuple(Breakpoint(rule.condition, rule.enabled != (at == chosen)) for at, rule in enumerate(rules))
            )
            return
        try:
            condition = parse(text)
        except ConditionError as error:
            self.say(str(error))
            return
        self.field.clear()
        if all(rule.condition != condition for rule in rules):
            rules = (*rules, Breakpoint(condition))
        self._set_rules(rules, next(at for at, rule in enumerate(rules) if rule.condition == condition))

    def action_drop(self) -> None:
        self._set_rules(tuple(rule for at, rule in enumerate(self._chat.breakpoints) if at != self.picker.chosen))

    def _set_rules(self, rules: tuple[Breakpoint, ...], at: int | None = None) -> None:
        if rules != self._chat.breakpoints:
            self._chat.set_breakpoints(rules)
        self.set_rows(self._chat.breakpoints, at)
