"""The widget that panels are: lines that do what a click on them says, of which only those that changed are drawn again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import zip_longest

from textual import events, on
from textual.color import Color
from textual.containers import Horizontal, Vertical
from textual.geometry import Region, Size
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from termchat.tui.draw.ink import BLANK, MARGIN, Ink, Line, Paint, Run
from termchat.tui.terminal.screens import Settled, touch
from termchat.tui.themes.theme_file import Palette

_ANY = Color(0, 0, 0)
"""The background that Textual's filters are told; every cell here has its own."""


class Row(Horizontal, Settled):
    """Widgets side by side that cover it. It is hidden itself: below a dialog, Textual would draw all of it in every frame."""

    DEFAULT_CSS = "Row, Row > Column { visibility: hidden; } Row > * { visibility: visible; }"


class Column(Vertical, Settled):
    """The same for widgets one above the other."""

    DEFAULT_CSS = "Column, Column > Row { visibility: hidden; } Column > * { visibility: visible; }"


class Clickable(Widget):
    """A widget of lines whose runs may do something (see `Ink.does`). The last of the bases: style sheets see the first only.

    A subclass knows the lines (`line_at`), and passes them through `underlined` before it draws them.
    """

    _hovered: tuple[int, str] = (-1, "")
    """The number of the line under the mouse, and the action that a click there runs."""

    @property
    def first_line(self) -> int:
        """The number of the line on the widget's first row."""
        return 0

    def line_at(self, number: int) -> Line | None:
        raise NotImplementedError

    def ink_at(self, x: int, y: int) -> Ink | None:
        """Return the ink on a cell of the widget, None where no run is."""
        line = self.line_at(self.first_line + y)
        return line.ink_at(x - MARGIN) if line is not None else None

    def underlined(self, number: int, line: Line) -> Line:
        """Underline the words that do what a click would do now, but not the space around them."""
        at, does = self._hovered
        if number != at:
            return line
        runs: list[Run] = []
        for text, ink in line.runs:
            if ink.does == does and (word := text.strip()):
                before, after = text.split(word)
                runs += [(before, ink), (word, ink._replace(underline=True)), (after, ink)]
            else:
                runs.append((text, ink))
        return line._replace(runs=tuple(runs))

    @on(events.Click)
    async def act(self, event: events.Click) -> None:
        ink = self.ink_at(event.x, event.y)
        if event.button == 1 and ink is not None and ink.does and self.text_selection is None:
            event.stop()
            event.prevent_default()  # a second click soon after would select text
            await self.app.run_action(ink.does, self.screen)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        ink = self.ink_at(event.x, event.y)
        does = ink.does if ink is not None else ""
        self._hover(self.first_line + event.y if does else -1, does)

    def on_leave(self) -> None:
        self._hover(-1, "")

    def _hover(self, number: int, does: str) -> None:
        if self._hovered == (number, does):
            return
        before, self._hovered = self._hovered[0], (number, does)
        for y in {before - self.first_line, number - self.first_line}:
            if 0 <= y < self.size.height:
                touch(self, Region(0, y, self.size.width, 1))


class LinesView(Clickable, Settled):
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
        self._drawn: dict[int, tuple[Line, Strip]] = {}
        """The lines that were drawn last: below a dialog, all are drawn whenever one changes."""
        self._paint: Paint | None = None

    def paint_with(self, palette: Palette) -> None:
        self._paint = Paint(palette)
        self._drawn.clear()
        self.refresh()

    def on_resize(self) -> None:
        self.post_message(self.Laid())

    @property
    def room(self) -> int:
        """Cells of a line between the margins."""
        return max(self.size.width - 2, 0)

    def show_lines(self, lines: Sequence[Line]) -> None:
        before, self._lines = self._lines, lines
        changed = [y for y, (line, old) in enumerate(zip_longest(lines, before, fillvalue=BLANK)) if line != old]
        if not changed:
            return
        width, height = self.size
        regions: list[Region] = []
        for y in filter(range(height).__contains__, changed):
            first = regions.pop().y if regions and regions[-1].bottom == y else y
            regions.append(Region(0, first, width, y + 1 - first))
        if regions:
            touch(self, *regions)

    def line_at(self, number: int) -> Line:
        return self._lines[number] if number < len(self._lines) else BLANK

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        if self._paint is None:
            return Strip.blank(width)
        line = self.underlined(y, self.line_at(y))
        drawn, strip = self._drawn.get(y, (None, Strip([])))
        if line != drawn or strip.cell_length != width:
            strip = self._paint.strip(line if line.ground else line._replace(ground=self.GROUND), width)
            for line_filter in self.get_line_filters():
                strip = strip.apply_filter(line_filter, _ANY)
            self._drawn[y] = line, strip
        return strip

    def render_lines(self, crop: Region) -> list[Strip]:
        """Render the lines without the border and padding that Textual would draw, as there are none."""
        return [self.render_line(y).crop(crop.x, crop.right) for y in crop.line_range]


class Slip(LinesView):
    """Lines that take the room they need, and none when there are none. Each new height costs a layout."""

    DEFAULT_CSS = "Slip { height: auto; display: none; }"

    def show_lines(self, lines: Sequence[Line]) -> None:
        if len(lines) != len(self._lines):
            self.styles.height = len(lines)
            self.display = bool(lines)
        super().show_lines(lines)


class Sheet(LinesView):
    """Lines on a dialog that `fill` makes for the room there is."""

    GROUND = "surface"

    def __init__(self, fill: Callable[[], Sequence[Line]], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._fill = fill
        self._filled = Size()

    def show(self) -> None:
        self.show_lines(self._fill())

    def render_lines(self, crop: Region) -> list[Strip]:
        """Render lines for the room there is, already in the first frame of a new size."""
        if self.size != self._filled:
            self._filled = self.size
            self._lines = self._fill()
        return super().render_lines(crop)
