"""Lines on a dialog."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from textual.geometry import Region, Size
from textual.strip import Strip

from termchat.tui.transcript.ink import Line
from termchat.tui.widgets.lines import LinesView


class Sheet(LinesView):
    """Lines on a dialog, which `fill` makes for the room there is: in the first frame, not behind it."""

    GROUND = "surface"

    def __init__(self, fill: Callable[[], Sequence[Line]], *, id: str) -> None:
        super().__init__(id=id)
        self._fill = fill
        self._filled = Size()

    def show(self) -> None:
        """Fills it anew."""
        self.show_lines(self._fill())

    def render_lines(self, crop: Region) -> list[Strip]:
        """The lines for the room there is."""
        if self.size != self._filled:
            self._filled = self.size
            self._strips.clear()
            self._lines = self._fill()
        return super().render_lines(crop)
