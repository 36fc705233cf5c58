"""A reply as JSON, with a line for each value."""

from __future__ import annotations

from termchat.tui.dialogs.list_dialog import ReadDialog
from termchat.tui.draw.ink import Line
from termchat.tui.draw.marks import prose
from termchat.tui.themes.theme_file import Palette


class JsonView(ReadDialog):
    TITLE = "The last reply as JSON"

    def __init__(self, palette: Palette, text: str) -> None:
        super().__init__(palette)
        self._text = text

    def made(self, width: int) -> list[Line]:
        return [line for row in self._text.split("\n") for line in prose(row, width)]
