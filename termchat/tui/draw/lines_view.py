"""The widget that panels are: so many lines, of which only those that changed are drawn again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from textual import events
from textual.color import Color
from textual.containers import Horizontal, Vertical
from textual.geometry import Region, Size
from textual.message import Message
from textual.strip import Strip

from termchat.tui.draw.ink import BLANK, MARGIN, Ink, Line, Paint, Run
from termchat.tui.terminal.compositor import Settled, touch
from termchat.tui.themes.theme_file import Palette

_ANY = Color(0, 0, 0)
"""The background that Textual's filters are told; every cell here has its own."""


class Row(Horizontal, Settled):
    """Widgets beside each other that cover it; hidden itself, since Textual would draw all of it below them, every frame."""

    DEFAULT_CSS = "Row, Row > Column { visibility: hidden; } Row > * { visibility: visible; }"


class Column(Vertical, Settled):
    """Widgets below each other, likewise."""

    DEFAULT_CSS = "Column, Column > Row { visibility: hidden; } Column > * { visibility: visible; }"


class LinesView(Settled):
    """Lines from the top; its size is the style sheet's, never the content's. `GROUND` fills what has no ground of its own.

    It may have neither border nor padding. It says when it has another size: what it should show may be other lines then.
    A click on what `does` something (see `Ink`) has the screen do it; that is underlined while the mouse is over it.
    """

    ALLOW_SELECT = False
    DEFAULT_CSS = "LinesView { height: 1; width: 1fr; }"
    GROUND = "background"

    class Laid(Message):
        """There is another room for lines; of many such messages one will do."""

        def can_replace(self, message: Message) -> bool:
            """Whoever laid out what, all of it is drawn."""
            return isinstance(message, LinesView.Laid)

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._lines: Sequence[Line] = ()
        self._strips: dict[int, Strip] = {}
        self._paint: Paint | None = None
        self._pointed: tuple[int, str] = (-1, "")
        """The line that the mouse is on, and what a click there does."""

    def paint_with(self, palette: Palette) -> None:
        """Draws in other colours from now on."""
        self._paint = Paint(palette)
        self._strips.clear()
        self.refresh()

    def on_resize(self) -> None:
        """Says so."""
        self.post_message(self.Laid())

    @property
    def room(self) -> int:
        """Cells of a line between the margins."""
        return max(self.size.width - 2, 0)

    def show_lines(self, lines: Sequence[Line]) -> None:
        """Puts up other lines."""
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
        """A line of the widget, from the cache if it was drawn at this width."""
        return self._strip(y, self.size.width)

    def _strip(self, y: int, width: int) -> Strip:
        if self._paint is None:
            return Strip.blank(width)
        strip = self._strips.get(y)
        if strip is None or strip.cell_length != width:
            line = _at(self._lines, y)
            if y == self._pointed[0]:
                line = line._replace(runs=tuple(_underlined(line.runs, self._pointed[1])))
            strip = self._paint.strip(line if line.ground else line._replace(ground=self.GROUND), width)
            for line_filter in self.get_line_filters():
                strip = strip.apply_filter(line_filter, _ANY)
            self._strips[y] = strip
        return strip

    def ink_at(self, x: int, y: int) -> Ink | None:
        """The ink on a cell of the widget; None where no run is."""
        return _at(self._lines, y).ink_at(x - MARGIN)

    async def _on_click(self, event: events.Click) -> None:
        """Has the screen do what is clicked."""
        ink = self.ink_at(event.x, event.y)
        if event.button == 1 and ink is not None and ink.does:
            event.stop()
            await self.app.run_action(ink.does, self.screen)

    def _on_mouse_move(self, event: events.MouseMove) -> None:
        """Shows what can be clicked."""
        ink = self.ink_at(event.x, event.y)
        self._point(event.y if ink is not None and ink.does else -1, ink.does if ink is not None else "")

    def on_leave(self) -> None:
        """The mouse is elsewhere."""
        self._point(-1, "")

    def _point(self, y: int, does: str) -> None:
        if self._pointed == (y, does):
            return
        changed = {self._pointed[0], y} - {-1}
        self._pointed = (y, does)
        for at in changed:
            self._strips.pop(at, None)
        regions = [Region(0, at, self.size.width, 1) for at in changed if at < self.size.height]
        if regions:
            touch(self, *regions)

    def render_lines(self, crop: Region) -> list[Strip]:
        """Lines as they are: there is no border or padding, so that Textual's way of drawing those is not needed."""
        width = self.size.width
        strips = [self._strip(y, width) for y in crop.line_range]
        if crop.x == 0 and crop.width == width:
            return strips
        return [strip.crop(crop.x, crop.right) for strip in strips]


class Rule(LinesView):
    """A thin line."""

    def on_resize(self) -> None:
        """As long as there is room."""
        self.show_lines([Line((("─" * self.room, Ink("border")),))])


class Slip(LinesView):
    """Lines that take just the room they need, and none when there are none. A new height costs a layout: for rare things."""

    DEFAULT_CSS = "Slip { height: auto; display: none; }"

    def show_lines(self, lines: Sequence[Line]) -> None:
        """Puts up other lines, and makes room for them."""
        if len(lines) != len(self._lines):
            self.styles.height = len(lines)
            self.display = bool(lines)
        super().show_lines(lines)


def _at(lines: Sequence[Line], y: int) -> Line:
    return lines[y] if y < len(lines) else BLANK


def _underlined(runs: Iterable[Run], does: str) -> Iterator[Run]:
    """The runs; the words of those that do that are underlined, not the space around them."""
    for text, ink in runs:
        word = text.strip() if ink.does == does else ""
        if not word:
            yield text, ink
            continue
        before, after = text.split(word)
        yield from ((before, ink), (word, ink._replace(underline=True)), (after, ink))


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
