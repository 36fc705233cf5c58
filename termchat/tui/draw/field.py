"""A line that a person types or pastes."""

from __future__ import annotations

from rich.text import Text
from textual.widgets import Input

from termchat.text import in_place


class Field(Input):
    """Textual's input, which would write to the terminal what was pasted. Its value stays as it is; marks are drawn."""

    @property
    def _value(self) -> Text:
        return Text(in_place(self.value), no_wrap=True, overflow="ignore", end="")
