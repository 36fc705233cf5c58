"""The transcript widget: the turns of a chat in a look, drawn line by line, and the token cursor in them."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from time import perf_counter
from typing import TYPE_CHECKING

from rich.cells import cell_len, split_text
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.color import Color
from textual.geometry import Offset, Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.selection import Selection
from textual.strip import Strip
from textual.timer import Timer
from textual.widget import Widget

from termchat.conversation.tree import Conversation, Node, Span
from termchat.tui.draw.ink import MARGIN, Ink, Line, Paint
from termchat.tui.draw.lines_view import Clickable
from termchat.tui.terminal.screens import QuickScrollView, frame_is_due, touch
from termchat.tui.themes.theme_file import Palette
from termchat.tui.transcript.blocks import Block
from termchat.tui.transcript.cursor import Cursor, Move
from termchat.tui.transcript.document import Anchor, Document
from termchat.tui.transcript.looks import Look, TokenLook
from termchat.tui.transcript.selection import copy_text, find_hits
from termchat.tui.transcript.tokens import TokenRef
from termchat.tui.transcript.turn_source import Part

if TYPE_CHECKING:
    from termchat.tui.transcript.hits import Finding

HINT_INK = Ink("accent", ground="panel")
CURSOR = Ink("background", ground="cursor", bold=True)
CURSOR_BETWEEN = Ink("cursor", bold=True, underline=True)
"""On a cell of another token's text, where the cursor's own token has no text and comes before it."""
_ANY = Color(0, 0, 0)
"""The background for Textual's filters; every cell here has its own."""
FORCED = Style(underline=True)
"""In the reading look, on what a person forced; in a token look it is marked already."""
LOOP = Ink("text", ground="panel")
"""In the reading look the ground of text that is repeated; a token look keeps its colors."""
HIT = Ink("background", ground="stamp")
CURRENT = Ink("background", ground="accent", bold=True, underline=True)
SLICE = 0.004
"""Seconds of layout at a time for lines out of sight."""
PAINTED = 1000
"""Lines that are kept as they are painted."""
_TRIES = 5
"""Laying out what comes into view may move it again; after so many rounds enough of it is laid out."""


class TranscriptView(QuickScrollView, Clickable, can_focus=True):
    """Shows the path of a conversation, and follows its end while the reader is at the end.

    `look` is how replies are shown: "reading" (their Markdown) or token by token, coloured by a measure. A change of look,
    palette or size keeps the line at the top where it is. `following`: the view stays at the end while the document grows.
    While there is a cursor, only the cursor and the reader scroll; scrolling leaves a cursor where it is.
    """

    ALLOW_SELECT = True
    DEFAULT_CSS = """
    TranscriptView {
        background: $background;
        color: $foreground;
        overflow-x: hidden;
        overflow-y: scroll;
        scrollbar-size-vertical: 1;
    }
    """
    following: reactive[bool] = reactive(True, init=False, repaint=False)
    look: reactive[Look] = reactive[Look]("reading", init=False, repaint=False)

    class CursorMoved(Message):
        """The cursor is on another token, or closed (`ref` is None)."""

        def __init__(self, ref: TokenRef | None) -> None:
            super().__init__()
            self.ref = ref

    def __init__(self, palette: Palette) -> None:
        super().__init__()
        self._paint = Paint(palette)
        self._painted: dict[int, tuple[Line, Strip]] = {}
        """The lines that were painted last, by their identity."""
        self._subject: Conversation | Node | None = None
        self._document = Document(0, "reading")
        self._cursor = Cursor(self._document)
        self._unseen = 0
        """Lines below the view, once some of them came after the reader had left the end."""
        self._moving = False
        self._bar_place = (0, 0, 0)
        self.is_complete = False
        """Whether everything is laid out."""
        self.finding: Finding | None = None
        """The search whose hits are marked."""
        self._token_look: TokenLook = "probability"
        self._reading_before = False
        self.pointing = False
        """Whether there is a cursor, or one is being opened."""

    def on_mount(self) -> None:
        self._worker: Timer = self.set_interval(1 / 30, self.work, pause=True)

    # --- the chat ----------------------------------------------------------------------------------------------------

    @property
    def palette(self) -> Palette:
        return self._paint.palette

    @palette.setter
    def palette(self, palette: Palette) -> None:
        self._paint = Paint(palette)
        self._painted.clear()
        self.refresh()

    @property
    def line_count(self) -> int:
        """Lines of the whole transcript; partly an estimate until everything is laid out."""
        return self._document.height

    def show(self, conversation: Conversation, *, running: bool = True) -> None:
        """Show the path of the conversation. `running`: a last reply without an end is still being written.

        Another conversation is shown at its end; in the same one, a reader who has scrolled up stays where they are.
        """
        anchor = self._turn_to(conversation)
        self._document.show(conversation, running=running)
        self._lay_out(anchor)

    def show_reply(self, spans: Sequence[Span], *, running: bool = True) -> None:
        """Show one reply, or the end of one, without a title; another one, which begins with another node, at its end."""
        anchor = self._turn_to(spans[0].node if spans else None)
        self._document.show_reply(spans, running=running)
        self._lay_out(anchor)

    def _turn_to(self, subject: Conversation | Node | None) -> Anchor:
        """Drop the document of another chat or reply; return the first character in view."""
        if subject is not self._subject:
            self._subject = subject
            self.close_cursor()
            self._document.turns = []
            self.following = True
        return self._document.anchor()

    def _lay_out(self, anchor: Anchor | None) -> None:
        """Lay out the end while following, else the lines from a character on, or the lines in view (None); draw all."""
        document = self._document
        document.rows = max(self.size.height, 1)
        if document.width > 0:
            self._show_from(document.top if anchor is None or self.following else document.find_line(anchor))
        self._keep_cursor()
        self.refresh()

    def grew(self, number: int) -> None:
        """Read on in node `number` of the path: tokens, a settings record, or its end."""
        document = self._document
        height, top, rows = document.height, document.top, document.rows
        changed = document.update(number)
        if changed is None:
            return
        if self.scroll_target_y < self.scroll_y:  # the reader has just started to scroll up
            self.following = False
        if self.following:
            document.show_end()
        self._scroll()
        if not self.following:
            self._note_unseen(max(document.height - document.top - rows, 0))
        self._cursor.find()
        first, bottom = max(changed, top), min(max(height, document.height), top + rows)
        if document.top == top and bottom > first:
            touch(self, Region(0, first - top, self.size.width, bottom - first))

    def toggle_thoughts(self, number: int | None = None) -> bool:
        """Open or fold the thoughts of the reply with a node, or of the last one that has some (None); return False without
        any, and in a token look."""
        anchor = self._document.anchor()
        if self.look != "reading" or not self._document.toggle_thoughts(number):
            return False
        self._lay_out(anchor)
        return True

    def token_of(self, anchor: Anchor) -> TokenRef | None:
        """Return the token that a character of a reply belongs to; None in a message, and where the path does not reach it."""
        return self._document.track.find_token(*anchor)

    def parts(self) -> list[tuple[Part, ...]]:
        return [turn.parts for turn in self._document.turns]

    @property
    def looks(self) -> tuple[Look, TokenLook]:
        """The look without a cursor, and the one with a cursor."""
        return ("reading" if self._reading_before else self.look), self._token_look

    @looks.setter
    def looks(self, looks: tuple[Look, TokenLook]) -> None:
        without, self._token_look = looks
        self.look = without

    def watch_look(self, look: Look) -> None:
        if look == "reading":  # it has no cursor
            self._reading_before = False
            self.close_cursor()
        else:
            self._token_look = look
        anchor = self._document.anchor()
        self._document.change_look(look)
        self._lay_out(anchor)

    def on_resize(self, event: events.Resize) -> None:
        event.stop()
        anchor: Anchor | None = None
        if self._document.width != self.size.width:
            anchor = self._document.anchor()
            self._document.resize(self.size.width)
            self._painted.clear()
        self._lay_out(anchor)

    # --- drawing -----------------------------------------------------------------------------------------------------

    def render_lines(self, crop: Region) -> list[Strip]:
        # Without the border and padding that Textual would draw, as there are none, and without offsets for the selection:
        # Textual takes those from `render_line`, and they cost more than all else.
        selection, filters = self.text_selection, self.get_line_filters()
        begin, end = crop.column_span
        strips = []
        for y in crop.line_range:
            strip = self._view_line(y, selection)
            for line_filter in filters:
                strip = strip.apply_filter(line_filter, _ANY)
            strips.append(strip.crop_extend(begin, end, None))
        return strips

    def render_line(self, y: int) -> Strip:
        return self._view_line(y, self.text_selection).apply_offsets(0, self._document.top + y)

    def _view_line(self, y: int, selection: Selection | None) -> Strip:
        number = self._document.top + y
        if (place := self._document.find(number)) is not None:
            strip = self._paint_line(self.underlined(number, place[0].lines[place[1]]))
            for begin, end, style in self._overlays(*place, strip):
                strip = restyle(strip, begin, end, style)
        else:
            strip = Strip.blank(self.size.width, self._paint.style(Ink()))
        if selection is not None and (span := selection.get_span(number)) is not None:
            cells = strip.index_to_cell_position
            style = self.screen.get_component_rich_style("screen--selection")
            strip = restyle(strip, cells(span[0]), strip.cell_length if span[1] == -1 else cells(span[1]), style)
        if self._unseen and y == self._document.rows - 1:
            room = self.size.width - len(self._hint) - MARGIN
            hint = Segment(self._hint, self._paint.style(HINT_INK)), Segment(" " * MARGIN, self._paint.style(Ink()))
            strip = Strip.join([strip.adjust_cell_length(room), Strip(hint)]) if room > 0 else strip
        return strip

    def _paint_line(self, line: Line) -> Strip:
        """Paint a line, unless it was one of the last."""
        if id(line) not in self._painted:
            if len(self._painted) == PAINTED:
                del self._painted[next(iter(self._painted))]
            self._painted[id(line)] = line, self._paint.strip(line, self._document.width)
        return self._painted[id(line)][1]

    def _overlays(self, block: Block, row: int, strip: Strip) -> Iterator[tuple[int, int, Style]]:
        """Yield the cells of a line with a style on top of theirs: repeated and forced text, the cursor, hits."""
        source, cells, reading = block.source, strip.index_to_cell_position, self.look == "reading"
        loop = Style(italic=True, bgcolor=self._paint.style(LOOP).bgcolor if reading else None)
        for _, begin, end in find_hits(block, row, source.loops):
            yield cells(begin), cells(end), loop
        for _, begin, end in find_hits(block, row, source.forced) if reading else ():
            yield cells(begin), cells(end), FORCED
        for spot in self._cursor.spots:
            if spot.block is block and spot.row == row:
                begin, end = spot.begin + MARGIN, spot.end + MARGIN
                hides = spot.own or strip.crop(begin, end).text.isspace()
                yield begin, end, self._paint.style(CURSOR if hides else CURSOR_BETWEEN)
        if self.finding is not None:
            current = self.finding.current
            for hit, begin, end in find_hits(block, row, self.finding.hits(source.number)):
                ink = CURRENT if current == (source.number, hit) else HIT
                yield cells(begin), cells(end), self._paint.style(ink)

    @property
    def _hint(self) -> str:
        """The mark at the lower edge that says how many lines are below; shown once some of them are new."""
        below = max(self._document.height - self._document.top - self._document.rows, 0)
        return f" ↓ {below} line{'s' if below != 1 else ''} "

    def is_on_hint(self, x: int, y: int) -> bool:
        begin = self.size.width - len(self._hint) - MARGIN
        return bool(self._unseen) and y == self._document.rows - 1 and begin <= x < self.size.width - MARGIN

    def redraw_hits(self) -> None:
        touch(self, self.size.region)

    # --- the mouse ---------------------------------------------------------------------------------------------------

    @property
    def first_line(self) -> int:
        return self._document.top

    def line_at(self, number: int) -> Line | None:
        return self._document.line(number)

    def ink_at(self, x: int, y: int) -> Ink | None:
        return None if self.is_on_hint(x, y) else super().ink_at(x, y)

    def on_click(self, event: events.Click) -> None:
        if self.is_on_hint(event.x, event.y):
            event.stop()
            self.follow()
            return
        if self.look == "reading" or event.button != 1 or self.text_selection is not None:
            return
        ref = self._cursor.find_token(self._document.top + event.y, event.x - MARGIN)
        if ref is not None:
            event.stop()
            self.set_cursor(ref)

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        last = self._document.height - 1
        start = selection.start if selection.start is not None else Offset(0, 0)
        end = selection.end if selection.end is not None else Offset(-1, last)
        lines = range(start.y, min(end.y, last) + 1)
        return copy_text(self._document, lines, start.x, end.x if end.y <= last else -1), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        self.refresh()

    # --- the token cursor --------------------------------------------------------------------------------------------

    @property
    def cursor(self) -> TokenRef | None:
        return self._cursor.ref

    @property
    def cursor_reply(self) -> list[Span]:
        """The parts of the reply with the cursor, each with as many tokens as the path reaches."""
        ref, track = self._cursor.ref, self._document.track
        return (
            [Span(part.node, part.reached) for part in track.list_parts(track.turn_of(ref))] if ref is not None else []
        )

    def open_cursor(self) -> None:
        """Put the cursor on the newest token in view, in a token look; the view no longer follows the end.

        Does nothing where there is no token, or where there is a cursor already.
        """
        if self._cursor.ref is None and self._document.track.last() is not None:
            self._begin_pointing()
            self._move_cursor(self._cursor.find_newest())

    def close_cursor(self) -> None:
        """Remove the cursor, and return to the reading look if the cursor has replaced that."""
        if self._cursor.ref is None:
            return
        touch(self, self.size.region)
        self._cursor.put(None)
        self.pointing = False
        self.post_message(self.CursorMoved(None))
        if self._reading_before and self.look != "reading":
            self.look = "reading"
        self.following = self._is_at_end

    def set_cursor(self, ref: TokenRef) -> None:
        """Put the cursor on a token; where the path does not reach it, on the last one of its node or of the chat."""
        nearest = self._document.track.nearest(ref)
        if nearest is not None:
            self._begin_pointing()
            self._move_cursor(nearest)

    def move_cursor(self, how: Move) -> None:
        """Move the cursor to the next token that way, if any."""
        if self._cursor.ref is not None:
            self._move_cursor(how)

    def _begin_pointing(self) -> None:
        if self._cursor.ref is None:
            self.pointing = True
            self._reading_before = self.look == "reading"
            if self._reading_before:
                self.look = self._token_look
            self.following = False

    def _move_cursor(self, to: Move | TokenRef | None) -> None:
        """Move the cursor, scroll it into view, and post `CursorMoved`."""
        before, rows = self._cursor.ref, self._visible_rows()
        if isinstance(to, str):
            self._cursor.move(to)
        else:
            self._cursor.put(to)
        self._show_cursor()
        if self._cursor.ref != before:
            rows |= self._visible_rows()
            if rows:
                touch(self, *(Region(0, y, self.size.width, 1) for y in rows))
            self.post_message(self.CursorMoved(self._cursor.ref))

    def _visible_rows(self) -> set[int]:
        """Return the rows of the view that the cursor is on."""
        top = self._document.top
        return {y - top for y in self._cursor.rows() if 0 <= y - top < self._document.rows}

    def _keep_cursor(self) -> None:
        """Find the cursor's token again after a new layout, or the nearest one if the path no longer reaches it."""
        ref = self._cursor.ref
        if ref is None:
            return
        nearest = self._document.track.nearest(ref)
        if nearest is None:
            self.close_cursor()
            return
        if nearest == ref:
            self._cursor.find()  # up and down keep to its column
        else:
            self._cursor.put(nearest)
            self.post_message(self.CursorMoved(nearest))
        self._show_cursor()

    def _show_cursor(self) -> None:
        """Scroll the cursor into view: by as few lines as possible where it is near, else to the middle."""
        document = self._document
        for _ in range(_TRIES):
            top, rows, lines = document.top, document.rows, self._cursor.rows()
            begin, end = lines[0], lines[-1]
            if end >= top + rows:
                top = min(end - rows + 1, begin) if end < top + 2 * rows else begin - rows // 2
            if begin < top:
                top = begin if begin >= top - rows else begin - rows // 2
            document.show_line(max(top, 0))
            if document.top <= self._cursor.rows()[0] < document.top + rows:
                break
        self._scroll()

    # --- scrolling ---------------------------------------------------------------------------------------------------

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        if self._moving or not self.is_mounted:
            return
        y = round(new_value)
        if round(old_value) != y:
            touch(self, self.size.region)
        self._document.rows = max(self.size.height, 1)  # of a resize this comes first
        self._document.show_line(y)
        self._scroll()
        self.following = self._cursor.ref is None and self._is_at_end

    def watch_following(self, following: bool) -> None:
        if following:
            self._note_unseen(0)

    def action_scroll_end(self) -> None:
        self.follow()

    @property
    def _is_at_end(self) -> bool:
        return self._document.top >= self._document.height - self._document.rows

    def _scroll(self, *, draws: bool = True) -> None:
        """Scroll to the document's first line in view, without animation; `draws` unless the lines in view stay the same."""
        top, size = self._document.top, Size(self.size.width, self._document.height)
        if size != self.virtual_size:  # only the scroll bar depends on it, so that no layout is needed
            self.set_reactive(Widget.virtual_size, size)
        if self.scroll_offset.y != top:
            self._moving = True
            self.app.animator.force_stop_animation(self, "scroll_y")
            self.scroll_target_y = self.scroll_y = top
            self._moving = False
            if draws:
                touch(self, self.size.region)
        lines, rows = (
            max(self._document.height, self._document.rows),
            self._document.rows,
        )  # all in view: the bar is full
        place = (2 * rows * top // lines, 2 * rows**2 // lines, rows)
        if place != self._bar_place:  # by half a row or more: to paint the bar costs as much as to paint all the lines
            self._bar_place = place
            bar = self.vertical_scrollbar
            bar.window_virtual_size, bar.window_size, bar.position = lines, rows, top

    def _note_unseen(self, unseen: int) -> None:
        if self._unseen != unseen:
            self._unseen = unseen
            self.refresh_line(self._document.top + self._document.rows - 1)

    def work(self) -> None:
        """Lay out some of the lines out of sight; a timer calls this until none is left."""
        if frame_is_due(self.screen) or self.app.animator.is_being_animated(self, "scroll_y"):
            return
        document, deadline = self._document, perf_counter() + SLICE
        height = document.height
        self.is_complete = document.lay_more(lambda: perf_counter() > deadline)
        self._scroll(draws=self.text_selection is not None)  # else the lines in view stay, under other numbers
        if self._unseen and document.height != height:  # the mark's number is another
            touch(self, Region(0, document.rows - 1, self.size.width, 1))
        gc.freeze()  # the lines stay: a full collection over them would stop the screen
        if self.is_complete:
            self._worker.pause()

    # --- other places ------------------------------------------------------------------------------------------------

    def follow(self) -> None:
        """Go to the end, and stay there while the document grows."""
        self.following = True
        self._show_from(0)

    @property
    def place(self) -> tuple[Anchor, bool]:
        """The first character in view, and whether the view follows the end: for `return_to`."""
        return self._document.anchor(), self.following

    def return_to(self, place: tuple[Anchor, bool]) -> None:
        anchor, following = place
        if following:
            self.follow()
        else:
            self._go_to(self._document.find_line(anchor))

    def bring(self, anchor: Anchor) -> None:
        """Bring the line of a character into view: to the middle, if it was out of sight."""
        y, top, rows = self._document.find_line(anchor), self._document.top, self._document.rows
        self._go_to(top if top <= y < top + rows else max(y - rows // 2, 0))

    def row_of(self, turn: int) -> int:
        """Return the row of the view with the head of a turn; 0 where that is out of sight."""
        row = self._document.find_line(Anchor(turn, -1)) - self._document.top
        return row if 0 <= row < self._document.rows else 0

    def hold(self, turn: int, row: int) -> None:
        """Bring the head of a turn to a row of the view, or as near as the number of lines allows."""
        self._go_to(max(self._document.find_line(Anchor(turn, -1)) - row, 0))

    def jump(self, turns: int) -> None:
        """Bring the start of a turn to the top: of this one, or of one so many turns away; after the last comes the end."""
        document = self._document
        if not document.turns:
            return
        index = document.anchor().turn
        head = document.find_line(Anchor(index, -1))
        if turns > 0 or document.top == head:
            index += turns
        if index >= len(document.turns):
            self.follow()
        else:
            self._go_to(document.find_line(Anchor(max(index, 0), -1)))

    def _go_to(self, y: int) -> None:
        self.following = False
        self._show_from(y)
        self.following = self._cursor.ref is None and self._is_at_end
        touch(self, self.size.region)

    def _show_from(self, y: int) -> None:
        """Show the lines from line `y` on, or while following the last ones; the rest is laid out beside the frames."""
        if self._document.width > 0:
            if self.following:
                self._document.show_end()
            else:
                self._document.show_line(y)
            self._scroll()
            self.is_complete = False
            self._worker.resume()


def restyle(strip: Strip, start: int, stop: int, style: Style) -> Strip:
    """Put a style on top of those of a strip's cells, from one cell to another.

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
    """Split a text at a cell."""
    if cell <= 0:
        return "", text
    return (text, "") if cell >= cell_len(text) else split_text(text, cell)
