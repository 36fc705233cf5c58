"""A line of text input."""

from __future__ import annotations

import re
from typing import Any

from rich.highlighter import Highlighter
from rich.text import Text
from textual.widgets import Input
from textual.widgets.input import Selection

from termchat.text import character_around, in_place, word_letters

_WORD = re.compile(r"(?<=\W)\w")
"""The start of a word behind another."""


class _Sanitized(Highlighter):
    """Draws marks in place of characters that would reach the terminal as commands; the text keeps its length."""

    def highlight(self, text: Text) -> None:
        text.plain = in_place(text.plain)


class Field(Input):
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

    def action_cursor_left_word(self, select: bool = False) -> None:
        self._move(self._word_left, select)

    def action_cursor_right_word(self, select: bool = False) -> None:
        self._move(self._word_right, select)

    def action_delete_left_word(self) -> None:
        start, end = self.selection
        self.delete(start if start != end else self._word_left, end)

    def action_delete_right_word(self) -> None:
        start, end = self.selection
        self.delete(start, end if start != end else self._word_right)

    def _move(self, end: int, select: bool) -> None:
        self.selection = Selection(self.selection.start if select else end, end)

    @property
    def _word_left(self) -> int:
        starts = list(_WORD.finditer(word_letters(self.value[: self.cursor_position])))
        return starts[-1].start() if starts else 0

    @property
    def _word_right(self) -> int:
        found = _WORD.search(word_letters(self.value), self.cursor_position + 1)
        return found.start() if found else len(self.value)
