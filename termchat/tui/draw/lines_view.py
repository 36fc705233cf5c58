"""The widget that panels are: lines, of which only those that changed are drawn again."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from textual.color import Color
from textual.containers import Horizontal, Vertical
from textual.geometry import Region, Size
from textual.message import Message
from textual.strip import Strip

from termchat.tui.draw.clicking import Clickable
from termchat.tui.draw.ink import BLANK, Ink, Line, Paint
from termchat.tui.terminal.compositor import Settled, Sized, touch
from termchat.tui.themes.theme_file import Palette

_ANY = Color(0, 0, 0)
"""The background that Textual's filters are told; every cell here has its own."""


class Row(Horizontal, Settled):
    """Widgets side by side that cover it. It is hidden itself: Textual would draw all of it below them in every frame."""

    DEFAULT_CSS = "Row, Row > Column { visibility: hidden; } Row > * { visibility: visible; }"


class Column(Vertical, Settled):
    """The same for widgets one above the other."""

    DEFAULT_CSS = "Column, Column > Row { visibility: hidden; } Column > * { visibility: visible; }"


class LinesView(Sized, Clickable):
    """Lines from the top; its size is the style sheet's, never the content's. `GROUND` fills what has no ground of its own.

    It may have neither border nor padding. `Laid` says that its size is another, and so may be the lines it should show.
    """

    ALLOW_SELECT = False
    DEFAULT_CSS = "LinesView { height: 1; width: 1fr; }"
    GROUND = "background"

    class Laid(Message):
        """The room for lines has changed; one such message stands for all that wait."""

        def can_replace(self, message: Message) -> bool:
            return isinstance(message, LinesView.Laid)

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._lines: Sequence[Line] = ()
        self._strips: dict[int, Strip] = {}
        self._paint: Paint | None = None

    def paint_with(self, palette: Palette) -> None:
        self._paint = Paint(palette)
        self._strips.clear()
        self.refresh()

    def on_resize(self) -> None:
        self.post_message(self.Laid())

    @property
    def room(self) -> int:
        """Cells of a line between the margins."""
        return max(self.size.width - 2, 0)

    def show_lines(self, lines: Sequence[Line]) -> None:
        before, self._lines = self._lines, lines
        changed = [y for y in range(max(len(lines), len(before))) if _at(lines, y) != _at(before, y)]
        if not changed:
            return
        for y in changed:
            self._strips.pop(y, None)
        width, height = self.size
        regions = [Region(0, y, width, 1) for y in changed if y < height]
        if regions:
            touch(self, *regions)

    def render_line(self, y: int) -> Strip:
        return self._strip(y, self.size.width)

    def _strip(self, y: int, width: int) -> Strip:
        if self._paint is None:
            return Strip.blank(width)
        strip = self._strips.get(y)
        if strip is None or strip.cell_length != width:
            line = self.underlined(y, _at(self._lines, y))
            strip = self._paint.strip(line if line.ground else line._replace(ground=self.GROUND), width)
            for line_filter in self.get_line_filters():
                strip = strip.apply_filter(line_filter, _ANY)
            self._strips[y] = strip
        return strip

    def line_at(self, number: int) -> Line:
        return _at(self._lines, number)

    def redraw(self, number: int) -> None:
        self._strips.pop(number, None)
        super().redraw(number)

    def render_lines(self, crop: Region) -> list[Strip]:
        """The lines without the border and padding that Textual would draw, as there are none."""
        width = self.size.width
        strips = [self._strip(y, width) for y in crop.line_range]
        if crop.x == 0 and crop.width == width:
            return strips
        return [strip.crop(crop.x, crop.right) for strip in strips]


class Rule(LinesView):
    """A thin line."""

    def on_resize(self) -> None:
        self.show_lines([Line((("─" * self.room, Ink("border")),))])


class Slip(LinesView):
    """Lines that take the room they need, and none when there are none. Each new height costs a layout."""

    DEFAULT_CSS = "Slip { height: auto; display: none; }"

    def show_lines(self, lines: Sequence[Line]) -> None:
        if len(lines) != len(self._lines):
            self.styles.height = len(lines)
            self.display = bool(lines)
        super().show_lines(lines)


def _at(lines: Sequence[Line], y: int) -> Line:
    return lines[y] if y < len(lines) else BLANK


class Sheet(LinesView):
    """Lines on a dialog that `fill` makes for the room there is: already for the first frame."""

    GROUND = "surface"

    def __init__(self, fill: Callable[[], Sequence[Line]], *, id: str) -> None:
        super().__init__(id=id)
        self._fill = fill
        self._filled = Size()

    def show(self) -> None:
        self.show_lines(self._fill())

    def render_lines(self, crop: Region) -> list[Strip]:
        if self.size != self._filled:
            self._filled = self.size
            self._strips.clear()
            self._lines = self._fill()
        return super().render_lines(crop)
