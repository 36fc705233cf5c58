"""The view of a document: draws the lines in sight, and keeps its place while the rest is laid out around them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from time import perf_counter
from typing import TYPE_CHECKING

from rich.cells import cell_len, split_text
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.geometry import Region, Size
from textual.reactive import reactive
from textual.selection import Selection
from textual.strip import Strip
from textual.timer import Timer
from textual.widget import Widget

from termchat.tui.draw.clicking import Clickable
from termchat.tui.draw.ink import MARGIN, Ink, Line, Paint
from termchat.tui.terminal.compositor import touch
from termchat.tui.terminal.screens import frame_is_due
from termchat.tui.terminal.scrolling import QuickScrollView
from termchat.tui.themes.theme_file import Palette
from termchat.tui.transcript.cursor.cursor import Cursor
from termchat.tui.transcript.document import Anchor, Document
from termchat.tui.transcript.hits import CURRENT, HIT, forced_on, found_on, loops_on

if TYPE_CHECKING:
    from termchat.tui.transcript.hits import Finding

HINT_INK = Ink("accent", ground="panel")
CURSOR = Ink("background", ground="cursor", bold=True)
CURSOR_BETWEEN = Ink("cursor", bold=True, underline=True)
"""On a cell of another token's text, where the cursor's own token has no text and comes before it."""
FORCED = Style(underline=True)
"""In the reading look, on what a person forced."""
LOOP = Ink("text", ground="panel")
"""In the reading look the ground of text that is there again and again; a token look keeps its colors."""
SLICE = 0.004
"""Seconds of layout at a time for lines out of sight."""
_TRIES = 5
"""Laying out what comes into view may move it again; after so many rounds enough of it is laid out."""


class DocumentView(QuickScrollView, Clickable, can_focus=True):
    """Draws the visible part of a document, and keeps its place while the document is laid out.

    `following`: the view stays at the end while the document grows. Scrolling leaves a token cursor where it is.
    """

    following: reactive[bool] = reactive(True, init=False, repaint=False)

    def __init__(
        self, palette: Palette, *, name: str | None = None, id: str | None = None, classes: str | None = None
    ) -> None:
        super().__init__(name=name, id=id, classes=classes)
        self._paint = Paint(palette)
        self._background = Color.parse(palette.background)
        self._document = Document(0, "reading")
        self._cursor = Cursor(self._document)
        self._unseen = 0
        """Lines below the view, once some of them came after the reader had left the end."""
        self._moving = self._working = False
        self._bar_place = (0, 0, 0)
        self._worker: Timer | None = None
        self.is_complete = False
        """Whether everything is laid out."""
        self.finding: Finding | None = None
        """The search whose hits are marked; None while there is none."""

    # --- drawing -----------------------------------------------------------------------------------------------------

    def render_lines(self, crop: Region) -> list[Strip]:
        # Without the border and padding that Textual would draw, as there are none, and without offsets for the selection:
        # Textual takes those from `render_line`, and they cost more than all else.
        selection, top, filters = self.text_selection, self._top, self.get_line_filters()
        begin, end = crop.column_span
        strips = []
        for y in crop.line_range:
            strip = self._view_line(y, top, selection)
            for line_filter in filters:
                strip = strip.apply_filter(line_filter, self._background)
            strips.append(strip.crop_extend(begin, end, None))
        return strips

    def render_line(self, y: int) -> Strip:
        return self._view_line(y, self._top, self.text_selection).apply_offsets(0, self._top + y)

    def _view_line(self, y: int, top: int, selection: Selection | None) -> Strip:
        line = top + y
        strip = self._hovered_strip(line) or self._document.strip(line, self._paint)
        strip = strip or Strip.blank(self.size.width, self._paint.style(Ink()))
        strip = self._pointed(self._forced(self._looping(strip, line), line), line)
        if self.finding is not None:
            strip = self._marked(strip, line, self.finding)
        if selection is not None and (span := selection.get_span(line)) is not None:
            strip = self._selected(strip, *span)
        if self._unseen and y == self._rows - 1:
            strip = self._hinted(strip)
        return strip

    def _hovered_strip(self, number: int) -> Strip | None:
        if number != self._hovered[0] or (line := self._document.line(number)) is None:
            return None
        return self._paint.strip(self.underlined(number, line), self.size.width)

    def _pointed(self, strip: Strip, line: int) -> Strip:
        if not self._cursor.spots or (found := self._document.find(line)) is None:
            return strip
        for spot in self._cursor.on(*found):
            begin, end = spot.begin + MARGIN, spot.end + MARGIN
            hides = spot.own or strip.crop(begin, end).text.isspace()
            strip = restyled(strip, begin, end, self._paint.style(CURSOR if hides else CURSOR_BETWEEN))
        return strip

    def _forced(self, strip: Strip, line: int) -> Strip:
        """The strip with what a person forced marked; in a token look it is marked already."""
        if self._document.look == "reading":
            cells = strip.index_to_cell_position
            for begin, end in forced_on(self._document, line):
                strip = restyled(strip, cells(begin), cells(end), FORCED)
        return strip

    def _looping(self, strip: Strip, line: int) -> Strip:
        """The strip with what is there again and again in italics."""
        cells = strip.index_to_cell_position
        ground = self._paint.style(LOOP).bgcolor if self._document.look == "reading" else None
        for begin, end in loops_on(self._document, line):
            style = Style(italic=True, bgcolor=ground)
            strip = restyled(strip, cells(begin), cells(end), style)
        return strip

    def _marked(self, strip: Strip, line: int, finding: Finding) -> Strip:
        cells = strip.index_to_cell_position
        for begin, end, current in found_on(self._document, line, finding):
            style = self._paint.style(CURRENT if current else HIT)
            strip = restyled(strip, cells(begin), cells(end), style)
        return strip

    def _selected(self, strip: Strip, begin: int, end: int) -> Strip:
        cells = strip.index_to_cell_position
        style = self.screen.get_component_rich_style("screen--selection")
        return restyled(strip, cells(begin), strip.cell_length if end == -1 else cells(end), style)

    def _hinted(self, strip: Strip) -> Strip:
        room = self.size.width - len(self._hint) - MARGIN
        hint = Strip(
            [Segment(self._hint, self._paint.style(HINT_INK)), Segment(" " * MARGIN, self._paint.style(Ink()))]
        )
        return Strip.join([strip.adjust_cell_length(room), hint]) if room > 0 else strip

    @property
    def _hint(self) -> str:
        """The mark at the lower edge that says how many lines are below; shown once some of them are new."""
        below = max(self._document.height - self._top - self._rows, 0)
        return f" ↓ {below} line{'s' if below != 1 else ''} "

    def is_on_hint(self, x: int, y: int) -> bool:
        begin = self.size.width - len(self._hint) - MARGIN
        return bool(self._unseen) and y == self._rows - 1 and begin <= x < self.size.width - MARGIN

    # --- clicks ------------------------------------------------------------------------------------------------------

    @property
    def first_line(self) -> int:
        return self._top

    def line_at(self, number: int) -> Line | None:
        return self._document.line(number)

    def ink_at(self, x: int, y: int) -> Ink | None:
        return None if self.is_on_hint(x, y) else super().ink_at(x, y)

    # --- scrolling ---------------------------------------------------------------------------------------------------

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        y = round(new_value)
        if round(old_value) != y:
            if not self._working:
                touch(self, self.size.region)
            self._move_bar()
        if self._moving or not self.is_mounted:
            return
        settled = self._document.settle(y, self._rows)
        if settled != y or self._document.height != self.virtual_size.height:
            self._move_to(settled)
        self.following = self._cursor.ref is None and self._is_at_end

    def watch_following(self, following: bool) -> None:
        if following:
            self._note_unseen(0)

    # --- place -------------------------------------------------------------------------------------------------------

    @property
    def _top(self) -> int:
        return self.scroll_offset.y

    @property
    def _rows(self) -> int:
        return max(self.size.height, 1)

    @property
    def _is_at_end(self) -> bool:
        return self._top >= self._document.height - self._rows

    def _place(self, reach: Callable[[], int]) -> None:
        """Lays out the visible lines: the end while following, else those of `reach`, which returns the first of them."""
        if self._document.width <= 0:
            return
        y = self._document.reach_end(self._rows) if self.following else reach()
        if not self.following and y > (last := max(self._document.height - self._rows, 0)):
            y = self._document.settle(last, self._rows)
        self._move_to(y)
        self._work_later()

    def _move_to(self, y: int) -> None:
        """Makes line `y` the first one in view, without animation."""
        self._moving = True
        try:
            self._resize_document()
            if self._top != y:
                self.app.animator.force_stop_animation(self, "scroll_y")
                self.scroll_target_y = self.scroll_y = y
        finally:
            self._moving = False

    def _show_cursor(self, anchor: Anchor | None) -> None:
        """Scrolls the cursor into view: by as few lines as possible where it is near, else to the middle.

        `anchor` is the first character in view, given where that may be on another line by now.
        """
        rows = self._rows
        top = self._top if anchor is None else self._document.reach(anchor, rows)
        for _ in range(_TRIES):
            begin, end = self._cursor.rows()[0], self._cursor.rows()[-1]
            if end >= top + rows:
                top = min(end - rows + 1, begin) if end < top + 2 * rows else begin - rows // 2
            if begin < top:
                top = begin if begin >= top - rows else begin - rows // 2
            top = self._document.settle(max(min(top, self._document.height - rows), 0), rows)
            if top <= self._cursor.rows()[0] < top + rows:
                break
        self._move_to(top)

    def _touch(self, rows: Iterable[int]) -> None:
        visible = {y - self._top for y in rows if 0 <= y - self._top < self._rows}
        if visible:
            touch(self, *(Region(0, y, self.size.width, 1) for y in visible))

    def _resize_document(self) -> None:
        """Takes over the document's height. Only the scroll bar depends on it, so that no layout is needed."""
        size = Size(self.size.width, self._document.height)
        if size != self.virtual_size:
            self.set_reactive(Widget.virtual_size, size)
            self._move_bar()

    def _move_bar(self) -> None:
        """Moves the scroll bar where that shows, by half a row or more: to paint it costs as much as to paint all the lines."""
        lines = max(self._document.height, self._rows)  # where all is in view the bar is full
        place = (2 * self._rows * self._top // lines, 2 * self._rows**2 // lines, self._rows)
        if place != self._bar_place:
            self._bar_place = place
            bar = self.vertical_scrollbar
            bar.window_virtual_size, bar.window_size, bar.position = lines, self._rows, self._top

    def _note_unseen(self, unseen: int) -> None:
        if self._unseen != unseen:
            self._unseen = unseen
            self.refresh_line(self._top + self._rows - 1)

    def _work_later(self) -> None:
        """Lays out the rest in small pieces, beside the frames."""
        self.is_complete = False
        if self._worker is None:
            self._worker = self.set_interval(1 / 30, self.work)
        self._worker.resume()

    def work(self) -> None:
        """Lays out some of the lines out of sight; a timer calls this until none is left."""
        if frame_is_due(self.screen) or self.app.animator.is_being_animated(self, "scroll_y"):
            return
        deadline = perf_counter() + SLICE
        height = self._document.height
        top = self._document.settle(self._top, self._rows)
        seen = self._document.find(top)
        y, done = self._document.work_on(top, lambda: perf_counter() > deadline)
        if self.following:
            y = self._document.reach_end(self._rows)
        self._working = True  # the lines in view stay as they are, under other numbers
        try:
            self._move_to(y)
        finally:
            self._working = False
        if self._document.find(self._top) != seen or self.text_selection is not None:
            touch(self, self.size.region)
        elif self._unseen and self._document.height != height:  # the mark's number is another
            touch(self, Region(0, self._rows - 1, self.size.width, 1))
        self.is_complete = done
        if done and self._worker is not None:
            self._worker.pause()

    # --- other places ------------------------------------------------------------------------------------------------

    def follow(self) -> None:
        """Goes to the end, and stays there while the document grows."""
        self.following = True
        self._place(lambda: self._top)

    @property
    def place(self) -> tuple[Anchor, bool]:
        """The first character in view, and whether the view follows the end: for `return_to`."""
        return self._document.anchor(self._top), self.following

    def return_to(self, place: tuple[Anchor, bool]) -> None:
        anchor, following = place
        if following:
            self.follow()
        else:
            self._go(lambda: self._document.reach(anchor, self._rows))

    def bring(self, anchor: Anchor) -> None:
        """Brings the line of a character into view: to the middle, if it was out of sight."""
        top, before, height = self._top, self._document.anchor(self._top), self._document.height
        y = self._document.reach(anchor, 1)
        if self._document.height != height:  # laying out on the way has moved lines
            top = self._document.reach(before, self._rows)
            y = self._document.reach(anchor, 1)
        if top <= y < top + self._rows:
            self._go(lambda: top)
        else:
            self._go(lambda: self._document.settle(max(y - self._rows // 2, 0), self._rows))

    def row_of(self, turn: int) -> int:
        """The row of the view with the head of a turn; 0 where that is out of sight."""
        row = self._head(turn) - self._top
        return row if 0 <= row < self._rows else 0

    def hold(self, turn: int, row: int) -> None:
        """Brings the head of a turn to a row of the view, or as near as the number of lines allows."""

        def reach() -> int:
            self._document.reach(Anchor(turn, -1), self._rows)
            return self._document.settle(max(self._head(turn) - row, 0), self._rows)

        self._go(reach)

    def _head(self, turn: int) -> int:
        return self._document.top_of(turn) + (turn > 0)  # an empty line separates it from the turn before

    def jump(self, turns: int) -> None:
        """Brings the start of a turn to the top: of this one, or of one so many turns away; after the last comes the end."""
        document = self._document
        if not document.turns:
            return
        index = document.turn_at(self._top)
        if turns > 0 or self._top == document.reach(Anchor(index, -1), self._rows):
            index += turns
        if index >= len(document.turns):
            self.follow()
        else:
            self._go(lambda: document.reach(Anchor(max(index, 0), -1), self._rows))

    def found(self) -> None:
        """Draws the hits of a search again, which have changed."""
        touch(self, self.size.region)

    def _go(self, reach: Callable[[], int]) -> None:
        self.following = False
        self._place(reach)
        self.following = self._cursor.ref is None and self._is_at_end
        touch(self, self.size.region)


def restyled(strip: Strip, start: int, stop: int, style: Style) -> Strip:
    """The strip with a style on top of those of its cells, from one cell to another.

    Not by `Strip.crop`, which separates a character from the marks that combine with it.
    """
    segments, used = [], 0
    for text, old, _ in strip:
        before, rest = _cut(text, start - used)
        chosen, after = _cut(rest, stop - max(start, used))
        parts = ((before, old), (chosen, (old or style) + style), (after, old))
        segments += [Segment(part, its) for part, its in parts if part]
        used += cell_len(text)
    return Strip(segments, strip.cell_length)


def _cut(text: str, cell: int) -> tuple[str, str]:
    """The text before a cell, and the text from there on."""
    if cell <= 0:
        return "", text
    return (text, "") if cell >= cell_len(text) else split_text(text, cell)
