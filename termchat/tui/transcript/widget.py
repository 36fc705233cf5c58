"""The transcript widget: one line-API scroll view over all turns."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

from rich.segment import Segment
from textual import events
from textual.color import Color
from textual.geometry import Region, Size
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.scrollbar import ScrollBar
from textual.selection import Selection
from textual.strip import Strip
from textual.timer import Timer
from textual.widget import Widget

from termchat.conversation.tree import Conversation
from termchat.tui.compositor import QuickBar, touch
from termchat.tui.themes import Palette
from termchat.tui.transcript.document import Document
from termchat.tui.transcript.ink import MARGIN, Ink, Paint
from termchat.tui.transcript.turn import Look

HINT = " ↓ new "
HINT_INK = Ink("accent", ground="panel")
SLICE = 0.004
"""Seconds of layout at a time for what nobody looks at yet."""
_MOST_DRAWN = 400
"""Lines kept ready for the terminal."""


class Transcript(ScrollView, can_focus=True):
    """Shows the path of a conversation, and follows its end while the reader is at the end.

    `look` is how replies are shown: "reading" (their Markdown) or "probability" (their tokens, coloured). A change of look,
    palette or size keeps the line at the top where it is.
    """

    ALLOW_SELECT = True
    DEFAULT_CSS = """
    Transcript {
        background: $background;
        color: $foreground;
        overflow-x: hidden;
        overflow-y: scroll;
        scrollbar-size-vertical: 1;
    }
    """
    look: reactive[Look] = reactive[Look]("reading", init=False, repaint=False)
    following: reactive[bool] = reactive(True, init=False, repaint=False)

    def __init__(
        self, palette: Palette, *, name: str | None = None, id: str | None = None, classes: str | None = None
    ) -> None:
        super().__init__(name=name, id=id, classes=classes)
        self._paint = Paint(palette)
        self._background = Color.parse(palette.background)
        self._document = Document(0, "reading")
        self._conversation: Conversation | None = None
        self._unseen = False
        self._drawn: dict[tuple[int, int, int], tuple[Strip, Strip]] = {}
        self._moving = False
        self._bar_place = (0, 0, 0)
        self._worker: Timer | None = None
        self.is_complete = False
        """Whether everything is laid out."""

    # --- what the app does -------------------------------------------------------------------------------------------

    @property
    def palette(self) -> Palette:
        """The colours. Setting another repaints everything."""
        return self._paint.palette

    @palette.setter
    def palette(self, palette: Palette) -> None:
        self._paint = Paint(palette)
        self._background = Color.parse(palette.background)
        self._drawn.clear()
        self.refresh()

    @property
    def line_count(self) -> int:
        """Lines of the whole transcript; partly an estimate while not everything is laid out."""
        return self._document.height

    def show(self, conversation: Conversation, *, running: bool = True) -> None:
        """Reads the path of the conversation. `running`: a last reply without an end is still being written.

        Another conversation is shown from its end; otherwise a reader who has scrolled up stays where they are.
        """
        if conversation is not self._conversation:
            self._conversation = conversation
            self._document.turns = []
            self.following = True
        anchor = self._document.anchor(self._top)
        self._document.show(conversation, self._paint, running=running)
        self._place(lambda: self._document.reach(anchor, self._rows))
        self.refresh()

    def grew(self, number: int) -> None:
        """Node `number` of the path has more tokens, another settings record, or its end."""
        height = self._document.height
        changed = self._document.update(number, self._paint)
        if changed is None:
            return
        top = self._top
        if self.scroll_target_y < self.scroll_y:  # the reader has just begun to scroll up
            self.following = False
        if self.following:
            self._move_to(max(self._document.height - self._rows, 0))
        else:
            self._resize_document()
            self._note_unseen(True)
        if self._top == top:
            bottom = min(max(height, self._document.height), top + self._rows)
            if bottom > max(changed, top):
                first = max(changed, top)
                touch(self, Region(0, first - top, self.size.width, bottom - first))

    def follow(self) -> None:
        """Goes to the end, and stays there while the transcript grows."""
        self.following = True
        self._place(lambda: self._top)

    def line_text(self, y: int) -> str:
        """The text on line `y` of the transcript, "" where nothing is laid out."""
        line = self._document.line(y)
        return line.text if line is not None else ""

    # --- what a reader does ------------------------------------------------------------------------------------------

    def action_scroll_end(self) -> None:
        """The End key: back to the newest line."""
        self.follow()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Lays out what comes into view, and sees whether the reader has left the end or come back to it."""
        y = round(new_value)
        if round(old_value) != y:
            touch(self, self.size.region)
            self._move_bar()
        if self._moving or not self.is_mounted:
            return
        settled = self._document.settle(y, self._rows)
        if settled != y or self._document.height != self.virtual_size.height:
            self._move_to(settled)
        self.following = self._top >= self._document.height - self._rows

    def watch_following(self, following: bool) -> None:
        """Back at the end, nothing is unseen."""
        if following:
            self._note_unseen(False)

    def watch_look(self, look: Look) -> None:
        """Makes everything anew in the other look."""
        anchor = self._document.anchor(self._top)
        self._document.change_look(look)
        self._place(lambda: self._document.reach(anchor, self._rows))
        self.refresh()

    def on_resize(self, event: events.Resize) -> None:
        """Lays out anew for another width; another height only shows more or less."""
        event.stop()
        top = self._document.anchor(self._top)
        if self._document.width != self.size.width:
            self._document.resize(self.size.width)
            self._place(lambda: self._document.reach(top, self._rows))
        else:
            self._place(lambda: self._document.settle(self._top, self._rows))
        self.refresh()

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """The selected text."""
        first = selection.start.y if selection.start is not None else 0
        last = selection.end.y if selection.end is not None else self._document.height - 1
        lines = []
        for y in range(first, min(last, self._document.height - 1) + 1):
            begin, end = selection.get_span(y) or (0, -1)
            text = self.line_text(y)
            lines.append(text[max(begin - MARGIN, 0) : len(text) if end == -1 else max(end - MARGIN, 0)].rstrip())
        return "\n".join(lines), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        """Repaints what is selected, or was."""
        self.refresh()

    # --- drawing -----------------------------------------------------------------------------------------------------

    def render_lines(self, crop: Region) -> list[Strip]:
        """Lines straight from their cache: there is no border or padding that Textual would have to draw around them."""
        selection, top, filters = self.text_selection, self._top, self.get_line_filters()
        begin, end = crop.column_span
        if len(self._drawn) > _MOST_DRAWN:
            self._drawn.clear()
        strips = []
        for y in crop.line_range:
            strip = self._view_line(y, top, selection)
            source, drawn = self._drawn.get((top + y, begin, end), (None, strip))
            if source is not strip:
                drawn = strip.apply_offsets(0, top + y)
                for line_filter in filters:
                    drawn = drawn.apply_filter(line_filter, self._background)
                drawn = drawn.crop_extend(begin, end, None)
                self._drawn[top + y, begin, end] = strip, drawn
            strips.append(drawn)
        return strips

    def render_line(self, y: int) -> Strip:
        """One line of the view."""
        return self._view_line(y, self._top, self.text_selection).apply_offsets(0, self._top + y)

    def _view_line(self, y: int, top: int, selection: Selection | None) -> Strip:
        line = top + y
        strip = self._document.strip(line, self._paint) or Strip.blank(self.size.width, self._paint.style(Ink()))
        if selection is not None and (span := selection.get_span(line)) is not None:
            strip = self._selected(strip, *span)
        if self._unseen and y == self._rows - 1:
            strip = self._hinted(strip)
        return strip

    def _selected(self, strip: Strip, begin: int, end: int) -> Strip:
        cells = strip.index_to_cell_position
        start, stop = cells(begin), strip.cell_length if end == -1 else cells(end)
        left, chosen, right = strip.crop(0, start), strip.crop(start, stop), strip.crop(stop)
        style = self.screen.get_component_rich_style("screen--selection")
        plain = [Segment(text, (old or style) + style) for text, old, _ in chosen]
        return Strip.join([left, Strip(plain), right])

    def _hinted(self, strip: Strip) -> Strip:
        room = self.size.width - len(HINT) - MARGIN
        hint = Strip([Segment(HINT, self._paint.style(HINT_INK)), Segment(" " * MARGIN, self._paint.style(Ink()))])
        return Strip.join([strip.adjust_cell_length(room), hint]) if room > 0 else strip

    @property
    def vertical_scrollbar(self) -> ScrollBar:
        """The scroll bar, made when it is first needed."""
        if self._vertical_scrollbar is None:
            self._vertical_scrollbar = bar = QuickBar(vertical=True, name="vertical")
            bar.display = False
            self.app._start_widget(self, bar)
        return self._vertical_scrollbar

    # --- place -------------------------------------------------------------------------------------------------------

    @property
    def _top(self) -> int:
        return self.scroll_offset.y

    @property
    def _rows(self) -> int:
        return max(self.size.height, 1)

    def _place(self, reach: Callable[[], int]) -> None:
        """Lays out what is visible: the end while following, else what `reach` lays out and says is the first line."""
        if self._document.width <= 0:
            return
        y = self._document.reach_end(self._rows) if self.following else reach()
        if not self.following and y > (last := max(self._document.height - self._rows, 0)):
            y = self._document.settle(last, self._rows)
        self._move_to(y)
        self._work_later()

    def _move_to(self, y: int) -> None:
        """Line `y` is the first one shown, without animation."""
        self._moving = True
        try:
            self._resize_document()
            if self._top != y:
                self.app.animator.force_stop_animation(self, "scroll_y")
                self.scroll_target_y = self.scroll_y = y
        finally:
            self._moving = False

    def _resize_document(self) -> None:
        """Tells the scroll bar how long the transcript is. Nothing else on the screen depends on it: no layout."""
        size = Size(self.size.width, self._document.height)
        if size != self.virtual_size:
            self.set_reactive(Widget.virtual_size, size)
            self._move_bar()

    def _move_bar(self) -> None:
        """Tells the scroll bar, which costs as much to paint as all the lines, only what one would see: half a row."""
        lines = max(self._document.height, 1)
        place = (2 * self._rows * self._top // lines, 2 * self._rows**2 // lines, self._rows)
        if place != self._bar_place:
            self._bar_place = place
            bar = self.vertical_scrollbar
            bar.window_virtual_size, bar.window_size, bar.position = lines, self._rows, self._top

    def _note_unseen(self, unseen: bool) -> None:
        if self._unseen != unseen:
            self._unseen = unseen
            self.refresh_line(self._top + self._rows - 1)

    def _work_later(self) -> None:
        """Lays out the rest in small pieces."""
        self.is_complete = False
        if self._worker is None:
            self._worker = self.set_interval(1 / 30, self.work)
        self._worker.resume()

    def work(self) -> None:
        """Lays out a little of what nobody has looked at yet; a timer calls it until there is nothing left."""
        if self.app.animator.is_being_animated(self, "scroll_y"):
            return
        deadline = perf_counter() + SLICE
        top = self._document.settle(self._top, self._rows)
        y, done = self._document.work_on(top, lambda: perf_counter() > deadline)
        if self.following:
            y = self._document.reach_end(self._rows)
        moved = y != self._top
        self._move_to(y)
        if moved:
            self.refresh()
        self.is_complete = done
        if done and self._worker is not None:
            self._worker.pause()
