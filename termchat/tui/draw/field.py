"""A line of text input."""

from __future__ import annotations

from typing import Any

from rich.highlighter import Highlighter
from rich.text import Text
from textual.widgets import Input

from termchat.text import in_place


class _Sanitized(Highlighter):
    """Draws marks in place of characters that would reach the terminal as commands; the text keeps its length."""

    def highlight(self, text: Text) -> None:
        text.plain = in_place(text.plain)


class Field(Input):
    """Textual's input, which would send a pasted escape sequence to the terminal. Its value stays as it was pasted."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.highlighter = _Sanitized()
