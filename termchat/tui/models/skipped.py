"""Files and folders that are not in the list of models, and why."""

from __future__ import annotations

from collections.abc import Iterable

from termchat.models.disk.discovery import Skipped
from termchat.text import home
from termchat.tui.dialogs.base import ReadListing
from termchat.tui.draw.ink import Ink, Line
from termchat.tui.draw.marks import MUTED, TEXT, prose
from termchat.tui.themes.theme_file import Palette


class SkippedDialog(ReadListing):
    TITLE = "Skipped files"

    def __init__(self, palette: Palette, skipped: Iterable[Skipped]) -> None:
        super().__init__(palette)
        self._skipped = list(skipped)

    def made(self, width: int) -> list[Line]:
        lines: list[Line] = []
        for one in self._skipped:
            lines += prose(home(one.path), width, TEXT)
            lines += [Line((("  ", MUTED), *line.runs)) for line in prose(one.reason, width - 2, Ink("warning"))]
        return lines
