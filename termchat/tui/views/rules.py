"""Breakpoints and stop rules as lines."""

from __future__ import annotations

from collections.abc import Sequence

from termchat.decoding.conditions import Condition, describe
from termchat.text import one_line
from termchat.tui.draw.ink import Ink, Line
from termchat.tui.draw.marks import ACCENT, MUTED, TEXT

_ACTIONS = {"pause": ("pauses", Ink("stamp")), "stop": ("stops ", Ink("warning"))}


def rule_lines(rules: Sequence[tuple[Condition, bool]], width: int, *, selected: int) -> list[Line]:
    """A line each: whether it is on, what it does, and when."""
    lines = []
    for index, (condition, enabled) in enumerate(rules):
        does, ink = _ACTIONS[condition.action]
        words = describe(condition).removeprefix("stop ")
        text = one_line(words, max(width - 15, 4))
        box = "[x] " if enabled else "[ ] "
        runs = ((box, ACCENT), (f"{does} at  ", ink if enabled else MUTED), (text, TEXT if enabled else MUTED))
        lines.append(Line(runs, "panel" if index == selected else ""))
    return lines
