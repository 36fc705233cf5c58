"""A line of text input."""

from __future__ import annotations

from typing import Any

from rich.highlighter import Highlighter
from rich.text import Text
from textual.widgets.input import Selection

from termchat.text import character_around, in_place
from termchat.tui.terminal.screens import WordInput


class _Sanitized(Highlighter):
    """Draws marks in place of characters that would reach the terminal as commands; the text keeps its length."""

    def highlight(self, text: Text) -> None:
        text.plain = in_place(text.plain)


class Field(WordInput):
    """Textual's input, which would send a pasted escape sequence to the terminal. Its value stays as it was pasted.

    The cursor goes from one character to the next as a reader counts them, and what is deleted is whole ones.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.highlighter = _Sanitized()

    def validate_selection(self, selection: Selection) -> Selection:
        start, end = super().validate_selection(selection)
        forward = end > self.selection.end
        return Selection(character_around(self.value, start)[forward], character_around(self.value, end)[forward])

    def replace(self, text: str, start: int, end: int) -> None:
        if start != end:
            first, last = sorted((start, end))
            start, end = character_around(self.value, first)[0], character_around(self.value, last)[1]
        super().replace(text, start, end)
