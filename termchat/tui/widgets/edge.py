"""The upper edge of the composer, with a word on what is written."""

from __future__ import annotations

from rich.cells import cell_len

from termchat.text import one_line
from termchat.tui.draw.ink import Ink, Line
from termchat.tui.draw.lines_view import LinesView

_RULE, _FADED = Ink("border"), Ink("border", italic=True)
_BEHIND = 2
"""Cells of the line behind the word."""


class Edge(LinesView):
    """A thin line with a text at its right."""

    def __init__(self) -> None:
        super().__init__(id="edge")
        self._said, self._ink = "", _RULE

    def say(self, said: str, color: str = "muted") -> None:
        """Shows another text, "" for none. It may be foreign."""
        self._said, self._ink = said, Ink(color)
        self._draw()

    def fade(self) -> None:
        """What is said is no longer so."""
        if self._said and self._ink is not _FADED:
            self._said, self._ink = self._said + " …", _FADED
            self._draw()

    def on_resize(self) -> None:
        """As long as there is room."""
        self._draw()

    def _draw(self) -> None:
        said = one_line(self._said, max(self.room - _BEHIND - 4, 0))
        if not said:
            self.show_lines([Line((("─" * self.room, _RULE),))])
            return
        before = "─" * (self.room - _BEHIND - cell_len(said) - 2)
        self.show_lines([Line(((f"{before} ", _RULE), (said, self._ink), (" " + "─" * _BEHIND, _RULE)))])
