"""The transcript widget: all turns of a chat, in a look, and the token cursor in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from textual import events
from textual.color import Color
from textual.geometry import Offset, Region
from textual.message import Message
from textual.reactive import reactive
from textual.selection import Selection

from termchat.conversation.tree import Conversation, Node, Span
from termchat.tui.draw.ink import MARGIN, Paint
from termchat.tui.terminal.compositor import touch
from termchat.tui.themes.theme_file import Palette
from termchat.tui.transcript.cursor.cursor import Move
from termchat.tui.transcript.cursor.token_order import TokenRef
from termchat.tui.transcript.document import Anchor
from termchat.tui.transcript.looks import Look, TokenLook
from termchat.tui.transcript.selection import copied
from termchat.tui.transcript.turn_source import Part
from termchat.tui.transcript.view import DocumentView


class TranscriptView(DocumentView):
    """Shows the path of a conversation, and follows its end while the reader is at the end.

    `look` is how replies are shown: "reading" (their Markdown) or token by token, coloured by a measure. A change of look,
    palette or size keeps the line at the top where it is. While there is a cursor, only the cursor and the reader scroll.
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
        """The cursor is on another token, or there is none any more (`ref` is None)."""

        def __init__(self, ref: TokenRef | None) -> None:
            super().__init__()
            self.ref = ref

    def __init__(
        self, palette: Palette, *, name: str | None = None, id: str | None = None, classes: str | None = None
    ) -> None:
        super().__init__(palette, name=name, id=id, classes=classes)
        self._subject: Conversation | Node | None = None
        self._token_look: TokenLook = "probability"
        self._reading_before = False
        self.pointing = False
        """Whether there is a cursor, or one is being opened."""

    # --- the chat ----------------------------------------------------------------------------------------------------

    @property
    def palette(self) -> Palette:
        return self._paint.palette

    @palette.setter
    def palette(self, palette: Palette) -> None:
        self._paint = Paint(palette)
        self._background = Color.parse(palette.background)
        self._document.repaint()
        self.refresh()

    @property
    def line_count(self) -> int:
        """Lines of the whole transcript; partly an estimate until everything is laid out."""
        return self._document.height

    def show(self, conversation: Conversation, *, running: bool = True) -> None:
        """Shows the path of the conversation. `running`: a last reply without an end is still being written.

        Another conversation is shown at its end; in the same one, a reader who has scrolled up stays where they are.
        """
        self._show(conversation, lambda: self._document.show(conversation, running=running))

    def show_reply(self, spans: Sequence[Span], *, running: bool = True) -> None:
        """Shows one reply, or the end of one, without a title; another one, which begins with another node, at its end."""
        first = spans[0].node if spans else None
        self._show(first, lambda: self._document.show_reply(spans, running=running))

    def _show(self, subject: Conversation | Node | None, show: Callable[[], None]) -> None:
        if subject is not self._subject:
            self._subject = subject
            self.close_cursor()
            self._document.clear()
            self.following = True
        anchor = self._document.anchor(self._top)
        show()
        self._place(lambda: self._document.reach(anchor, self._rows))
        self._keep_cursor()
        self.refresh()

    def grew(self, number: int) -> None:
        """Takes in what is new in node `number` of the path: tokens, a settings record, or its end."""
        height = self._document.height
        changed = self._document.update(number)
        if changed is None:
            return
        top = self._top
        if self.scroll_target_y < self.scroll_y:  # the reader has just started to scroll up
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

    def toggle_thoughts(self, number: int | None = None) -> bool:
        """Opens or folds the thoughts of the reply with a node, or of the last one that has some (None); False where there are
        none, and in a token look."""
        anchor = self._document.anchor(self._top)
        if self.look != "reading" or not self._document.toggle_thoughts(number):
            return False
        self._place(lambda: self._document.reach(anchor, self._rows))
        self.refresh()
        return True

    def token_of(self, anchor: Anchor) -> TokenRef | None:
        """The token that a character of a reply belongs to; None in a message, and where the path does not reach it."""
        return self._document.track.at(*anchor)

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

    # --- the token cursor --------------------------------------------------------------------------------------------

    @property
    def cursor(self) -> TokenRef | None:
        return self._cursor.ref

    @property
    def cursor_reply(self) -> list[Span]:
        """The parts of the reply with the cursor, each with as many tokens as the path reaches."""
        if self._cursor.ref is None:
            return []
        return [Span(stretch.node, stretch.reached) for stretch in self._document.track.turn_of(self._cursor.ref)]

    def open_cursor(self) -> None:
        """Puts the cursor on the newest token in view, in a token look; the view no longer follows the end.

        Does nothing where there is no token, or where there is a cursor already.
        """
        if self._cursor.ref is None and self._document.track.last() is not None:
            self._begin_pointing()
            self._move_cursor_to(self._cursor.newest(self._top, self._top + self._rows))

    def close_cursor(self) -> None:
        """Removes the cursor, and returns to the reading look if the cursor has replaced that."""
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
        """Puts the cursor on a token; where the path does not reach it, on the last one of its node or of the chat."""
        nearest = self._document.track.nearest(ref)
        if nearest is not None:
            self._begin_pointing()
            self._move_cursor_to(nearest)

    def move_cursor(self, how: Move) -> None:
        """Moves the cursor; it stays where there is nothing that way."""
        if self._cursor.ref is not None:
            self._move(lambda: self._cursor.move(how))

    def on_click(self, event: events.Click) -> None:
        if self.is_on_hint(event.x, event.y):
            event.stop()
            self.follow()
            return
        if self.look == "reading" or event.button != 1 or self.text_selection is not None:
            return
        ref = self._cursor.at(self._top + event.y, event.x - MARGIN)
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
        """Moves the cursor, scrolls it into view, and posts `CursorMoved`."""
        before, rows = self._cursor.ref, self._cursor.rows()
        height, anchor = self._document.height, self._document.anchor(self._top)
        move()
        moved = self._document.height != height  # laying out on the way has moved lines
        self._show_cursor(anchor if moved else None)
        if moved:
            touch(self, self.size.region)
        if self._cursor.ref != before:
            self._touch(rows + self._cursor.rows())
            self.post_message(self.CursorMoved(self._cursor.ref))

    def _keep_cursor(self) -> None:
        """Finds the cursor's token again after a new layout, or the nearest one if the path no longer reaches it."""
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

    # --- the reader --------------------------------------------------------------------------------------------------

    def action_scroll_end(self) -> None:
        self.follow()

    def watch_look(self, look: Look) -> None:
        if look == "reading":  # it has no cursor
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
        last = self._document.height - 1
        start = selection.start if selection.start is not None else Offset(0, 0)
        end = selection.end if selection.end is not None else Offset(-1, last)
        lines = range(start.y, min(end.y, last) + 1)
        return copied(self._document, lines, start.x, end.x if end.y <= last else -1), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        self.refresh()
