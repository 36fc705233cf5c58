"""The transcript widget: all turns of a chat, in a look, and the token cursor in them."""

from __future__ import annotations

from collections.abc import Callable

from rich.cells import cell_len
from rich.style import Style
from textual import events
from textual.color import Color
from textual.geometry import Region
from textual.message import Message
from textual.reactive import reactive
from textual.selection import Selection
from textual.strip import Strip

from termchat.conversation.tree import Conversation, Span
from termchat.tui.draw.ink import MARGIN, Paint
from termchat.tui.terminal.compositor import touch
from termchat.tui.themes.theme_file import Palette
from termchat.tui.transcript.cursor.cursor import Move
from termchat.tui.transcript.cursor.token_order import TokenRef
from termchat.tui.transcript.document import Anchor
from termchat.tui.transcript.looks import Look, TokenLook
from termchat.tui.transcript.selection import copied
from termchat.tui.transcript.view import MovingView, restyled

_UNDER_MOUSE = Style(underline=True)


class ClickingView(MovingView):
    """A view whose runs may do something (see `Ink`): a click has the screen do it; under the mouse they are underlined."""

    _over: tuple[int, str] = (-1, "")
    """The line of the document that the mouse is on, and what a click does there."""

    async def _on_click(self, event: events.Click) -> None:
        """Has the screen do what is clicked."""
        does = self._does(event.x, event.y)
        if does and event.button == 1 and self.text_selection is None:
            event.stop()
            event.prevent_default()  # a second click, soon after, selects nothing
            await self.app.run_action(does, self.screen)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Shows what can be clicked."""
        does = self._does(event.x, event.y)
        self._go_over(self._top + event.y if does else -1, does)

    def on_leave(self) -> None:
        """The mouse is elsewhere."""
        self._go_over(-1, "")

    def _does(self, x: int, y: int) -> str:
        """What a click on a cell of the view does, "" for nothing."""
        line = self._document.line(self._top + y) if not self.is_on_hint(x, y) else None
        ink = line.ink_at(x - MARGIN) if line is not None else None
        return ink.does if ink is not None else ""

    def _go_over(self, line: int, does: str) -> None:
        before, self._over = self._over[0], (line, does)
        changed = [y for y in {before - self._top, line - self._top} if 0 <= y < self._rows]
        if changed:
            touch(self, *(Region(0, y, self.size.width, 1) for y in changed))

    def _view_line(self, y: int, top: int, selection: Selection | None) -> Strip:
        strip = super()._view_line(y, top, selection)
        at, does = self._over
        line = self._document.line(at) if at == top + y else None
        end = MARGIN
        for text, ink in line.runs if line is not None else ():
            begin, end = end, end + cell_len(text)
            if ink.does == does:
                word = text.strip()
                begin += cell_len(text[: text.index(word)])
                strip = restyled(strip, begin, begin + cell_len(word), _UNDER_MOUSE)
        return strip


class TranscriptView(ClickingView):
    """Shows the path of a conversation, and follows its end while the reader is at the end.

    `look` is how replies are shown: "reading" (their Markdown) or, token by token, coloured by a measure. A change of look,
    palette or size keeps the line at the top where it is. With a cursor nothing moves but by it and by the reader.
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
    look: reactive[Look] = reactive[Look]("reading", init=False, repaint=False)

    class CursorMoved(Message):
        """The cursor is on another token, or there is none any more."""

        def __init__(self, ref: TokenRef | None) -> None:
            super().__init__()
            self.ref = ref

    def __init__(
        self, palette: Palette, *, name: str | None = None, id: str | None = None, classes: str | None = None
    ) -> None:
        super().__init__(palette, name=name, id=id, classes=classes)
        self._conversation: Conversation | None = None
        self._token_look: TokenLook = "probability"
        self._reading_before = False
        self.pointing = False
        """Whether there is a cursor, or is about to be."""

    # --- what the app does -------------------------------------------------------------------------------------------

    @property
    def palette(self) -> Palette:
        """The colours. Setting another repaints everything."""
        return self._paint.palette

    @palette.setter
    def palette(self, palette: Palette) -> None:
        self._paint = Paint(palette)
        self._background = Color.parse(palette.background)
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
            self.close_cursor()
            self._document.turns = []
            self.following = True
        anchor = self._document.anchor(self._top)
        self._document.show(conversation, self._paint, running=running)
        self._place(lambda: self._document.reach(anchor, self._rows))
        self._keep_cursor()
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
            self._note_unseen(max(self._document.height - top - self._rows, 0))
        self._cursor.find()
        if self._top == top:
            bottom = min(max(height, self._document.height), top + self._rows)
            if bottom > max(changed, top):
                first = max(changed, top)
                touch(self, Region(0, first - top, self.size.width, bottom - first))

    def line_text(self, y: int) -> str:
        """The text on line `y` of the transcript, "" where nothing is laid out."""
        line = self._document.line(y)
        return line.text if line is not None else ""

    @property
    def looks(self) -> tuple[Look, TokenLook]:
        """The look that there is without a cursor, and the one that there is with one."""
        return ("reading" if self._reading_before else self.look), self._token_look

    @looks.setter
    def looks(self, looks: tuple[Look, TokenLook]) -> None:
        without, self._token_look = looks
        self.look = without

    # --- the token cursor --------------------------------------------------------------------------------------------

    @property
    def cursor(self) -> TokenRef | None:
        """The token that the cursor is on; None while there is no cursor."""
        return self._cursor.ref

    @property
    def cursor_reply(self) -> list[Span]:
        """The parts of the reply that the cursor is in, each with as many tokens as can be reached."""
        if self._cursor.ref is None:
            return []
        return [Span(stretch.node, stretch.reached) for stretch in self._document.track.turn_of(self._cursor.ref)]

    def open_cursor(self) -> None:
        """Puts the cursor on the newest token in view, in a token look; the view does not follow the end any more.

        Nothing happens where there is no token, or where there is a cursor already.
        """
        if self._cursor.ref is None and self._document.track.last() is not None:
            self._begin_pointing()
            self._move_cursor_to(self._cursor.newest(self._top, self._top + self._rows))

    def close_cursor(self) -> None:
        """Takes the cursor away, and goes back to the reading look if that was left for it."""
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
        """Puts the cursor on that token; where the path does not reach it, on the last one of its node or of the chat."""
        nearest = self._document.track.nearest(ref)
        if nearest is not None:
            self._begin_pointing()
            self._move_cursor_to(nearest)

    def move_cursor(self, how: Move) -> None:
        """Moves the cursor; where there is nothing that way it stays. Raises KeyError for a way there is not."""
        if self._cursor.ref is not None:
            self._move(lambda: self._cursor.move(how))

    def on_click(self, event: events.Click) -> None:
        """A click on a token puts the cursor there; one on what is said to be new below goes there."""
        if self.is_on_hint(event.x, event.y):
            event.stop()
            self.follow()
            return
        if self.look == "reading" or event.button != 1 or self.text_selection is not None:
            return
        ref = self._cursor.pointer.at(self._top + event.y, event.x - MARGIN)
        if ref is not None:
            event.stop()
            self.set_cursor(ref)

    def _begin_pointing(self) -> None:
        if self._cursor.ref is None:
            self.pointing = True
            self._reading_before = self.look == "reading"
            if self._reading_before:
                self.look = self._token_look
            self.following = False

    def _move_cursor_to(self, ref: TokenRef | None) -> None:
        self._move(lambda: self._cursor.put(ref))

    def _move(self, move: Callable[[], None]) -> None:
        """Moves the cursor, shows it, and says so."""
        before, rows = self._cursor.ref, self._cursor.rows()
        height, anchor = self._document.height, self._document.anchor(self._top)
        move()
        moved = self._document.height != height  # by what was laid out on the way
        self._show_cursor(anchor if moved else None)
        if moved:
            touch(self, self.size.region)
        if self._cursor.ref != before:
            self._touch(rows + self._cursor.rows())
            self.post_message(self.CursorMoved(self._cursor.ref))

    def _keep_cursor(self) -> None:
        """After something was laid out anew: finds the cursor's token again, or the nearest where the path has left it."""
        ref = self._cursor.ref
        if ref is None:
            return
        nearest = self._document.track.nearest(ref)
        if nearest is None:
            self.close_cursor()
        elif nearest == ref:
            self._cursor.find()
            self._show_cursor(None)
        else:
            self._cursor.put(nearest)
            self._show_cursor(None)
            self.post_message(self.CursorMoved(nearest))

    # --- what a reader does ------------------------------------------------------------------------------------------

    def action_scroll_end(self) -> None:
        """The End key: back to the newest line."""
        self.follow()

    def watch_look(self, look: Look) -> None:
        """Makes everything anew in the other look. The reading look has no cursor."""
        if look == "reading":
            self._reading_before = False
            self.close_cursor()
        else:
            self._token_look = look
        anchor = self._document.anchor(self._top) if not self.following else Anchor(0, -1)
        self._document.change_look(look)
        self._place(lambda: self._document.reach(anchor, self._rows))
        self._keep_cursor()
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
        self._keep_cursor()
        self.refresh()

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """The text that the selection stands for."""
        first = selection.start.y if selection.start is not None else 0
        last = selection.end.y if selection.end is not None else self._document.height - 1
        lines = range(first, min(last, self._document.height - 1) + 1)
        return copied(self._document, lines, lambda y: selection.get_span(y) or (0, -1)), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        """Repaints what is selected, or was."""
        self.refresh()
