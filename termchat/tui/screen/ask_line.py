"""The line above the composer in which a text is asked for, and the strip above that, which says what goes on.

It has three uses: what to find, how the next reply begins, and another message to edit. That message is written in the
composer; the strip names it, and the line is free for the others meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len
from textual import events
from textual.widgets import Input

from termchat.chat.changes import Notice
from termchat.conversation.tree import HEAD, Span
from termchat.decoding.escapes import escape, unescape
from termchat.text import one_line
from termchat.tui.context import ScreenContext
from termchat.tui.draw.field import Field
from termchat.tui.draw.ink import Ink, Line
from termchat.tui.draw.lines_view import Column, LinesView, Row, Slip
from termchat.tui.draw.marks import ACCENT
from termchat.tui.keys.key import Label
from termchat.tui.keys.tables import name_of
from termchat.tui.transcript.document import Anchor

if TYPE_CHECKING:
    from textual.widget import AwaitMount, Widget

_STRONG = ACCENT._replace(bold=True)
_GOES_ON = 1 / 15
"""Seconds between parts of a long search."""


class MessageEdit:
    """Earlier messages in the composer, one at a time; the draft comes back afterwards. A changed one that is left stays so."""

    def __init__(self, line: AskLine, context: ScreenContext) -> None:
        self._line, self._chat = line, context.chat
        self._transcript, self._composer = context.transcript, context.composer
        self._conversation = tree = context.chat.conversation
        self._messages = [*([] if tree.raw else [[Span(tree.head, 0)]]), *tree.turn_spans()]
        self._written: dict[int, str] = {}
        self._place = context.transcript.place
        self._at = -1
        """The message that is edited, counted from the first; -1 before one is."""

    @property
    def is_stale(self) -> bool:
        """Whether another chat is shown."""
        return self._chat.conversation is not self._conversation

    def open(self, node: int | None) -> bool:
        """Open the message that `node` is part of, else your last one, else the system prompt; return False without any."""
        places = [
            at
            for at, spans in enumerate(self._messages)
            if any(span.node.number == node if node is not None else span.node.role == "user" for span in spans)
        ]
        if not places:
            return False
        if self._at < 0:
            self._composer.beyond = self.step
            self._composer.aside = self._composer.message
            self._show(places[-1])
        else:
            self.step(places[-1] - self._at)
        return True

    def step(self, by: int) -> bool:
        """Go to the previous or next message; return False at the ends."""
        if not 0 <= self._at + by < len(self._messages):
            return False
        if self._composer.message != self._text(self._at):
            self._written[self._at] = self._composer.message
        self._show(self._at + by)
        return True

    def step_back(self) -> None:
        """Go to the previous message; before the first comes the last."""
        if not self.step(-1):
            self.step(len(self._messages) - 1)

    def end(self, *, returns: bool) -> None:
        """Restore the draft; with `returns` also the scroll position."""
        self._composer.beyond = lambda _: False
        self._composer.sends_blank = False
        draft, self._composer.aside = self._composer.draft, None
        self._composer.put(draft)
        if returns and not self.is_stale:
            self._transcript.return_to(self._place)

    def send(self, text: str) -> None:
        """Send the message on a branch of its own."""
        message, forks = self._messages[self._at], self._chat.forks
        node = message[0].node
        self.end(returns=False)
        if node.role == "assistant":
            self._transcript.follow()
            forks.replace_reply(message, text)
            return

        def branch(whole: str) -> None:
            if self.is_stale:  # while its files were read
                self._composer.give_back(whole)
                return
            self._transcript.follow()
            if node.number == HEAD:
                forks.edit_system(whole)
            else:
                forks.edit_message(node, whole)

        self._composer.hand_over(text, branch)

    def render_line(self, room: int) -> Line:
        """Render which message is edited, and what the keys do."""
        node, head = self._messages[self._at][0].node, self._messages[0][0].node.number == HEAD
        which = f"{self._at + (not head)} of {len(self._messages) - head}"
        if node.number == HEAD:
            what = "editing the system prompt"
            does = "Enter sends your first message again, on a new branch"
            if self._conversation.leaf is None:
                does = "Enter saves it"
        elif node.role == "user":
            what, does = f"editing message {which}", "Enter sends it as a new branch"
        else:
            what, does = f"editing reply {which}", "Enter applies the edit on a new branch"
        hints = (
            f"{does}, Esc cancels, ↑ ↓ or {name_of('edit')} selects another",
            f"{does}, Esc cancels",
            "Esc cancels",
        )
        return _strip_line(what, "", next((hint for hint in hints if len(what) + len(hint) + 4 <= room), ""), room)

    def _text(self, at: int) -> str:
        return "".join(span.node.text(span.count) for span in self._messages[at])

    def _show(self, at: int) -> None:
        self._at = at
        number = self._messages[at][0].node.number
        self._composer.sends_blank = number == HEAD
        self._composer.put(self._written.get(at, self._text(at)))
        for turn, parts in enumerate(self._transcript.parts()):
            if any(part.node.number == number for part in parts):
                self._transcript.bring(Anchor(turn, -1))
                break
        self._line.show()


class ChatSearch:
    """A search in the chat, while its line is open. In token mode the cursor goes to the first token of each hit in a reply."""

    def __init__(self, line: AskLine, context: ScreenContext) -> None:
        from termchat.tui.transcript.hits import Finding  # not needed before the first frame

        self._line, self._tokens = line, context.tokens
        self._transcript = view = context.tokens.transcript
        self._place, self._cursor = view.place, view.cursor
        self._hits = view.finding = Finding()
        self._hits.read(view.parts())
        self.query = ""
        self._worker = line.set_interval(_GOES_ON, self._go_on, pause=True)

    def follow_chat(self) -> None:
        if self._hits.read(self._transcript.parts()):
            self._show()

    def look_for(self, query: str) -> None:
        self.query = query
        self._hits.look_for(query, self._place[0])
        self._show(moved=True)

    def step(self, by: int) -> None:
        """Go to the next (1) or previous (-1) hit."""
        self._hits.step(by)
        self._show(moved=True)

    def end(self, *, stays: bool) -> None:
        """Remove the marks; return to where the search started unless it `stays`."""
        self._worker.stop()
        self._transcript.finding = None
        if stays:
            self._transcript.redraw_hits()
        elif self._cursor is not None and self._tokens.is_open:
            self._transcript.set_cursor(self._cursor)
            self._tokens.show()
        else:
            self._transcript.return_to(self._place)

    def _go_on(self) -> None:
        # A chat that is too long to be searched at once is searched part by part.
        before = self._hits.at
        self._hits.go_on()
        self._show(moved=self._hits.at != before)

    def _show(self, *, moved: bool = False) -> None:
        """Show the hits and their number; with `moved` go to the current one."""
        hits, view = self._hits, self._transcript
        (self._worker.resume if hits.is_going_on else self._worker.pause)()
        if not hits.query.strip():
            self._line.remark("")
        elif hits.at is not None:
            self._line.remark(f"{hits.at + 1:,} of {hits.count:,}{'…' * hits.is_going_on}")
        elif hits.is_going_on:
            self._line.remark("…")
        else:
            self._line.remark("not found", "warning")
        if moved and hits.current is not None:
            turn, (begin, _) = hits.current
            anchor = Anchor(turn, begin)
            token = view.token_of(anchor) if self._tokens.is_open else None
            if token is not None:
                view.set_cursor(token)
                self._tokens.show()
            else:
                view.bring(anchor)
        view.redraw_hits()


class AskLine(Column):
    """The strip, and the line: a question, the field, a remark. Its widgets are mounted with the first use, so that no frame
    waits for them."""

    DEFAULT_CSS = """
    AskLine { height: auto; }
    AskLine > Row { height: 1; display: none; }
    AskLine.-open > Row { display: block; }
    AskLine #asked, AskLine #remark { width: auto; }
    AskLine Input, AskLine Input:focus { height: 1; width: 1fr; border: none; padding: 0 1; background: $panel; }
    """

    def __init__(self, context: ScreenContext) -> None:
        super().__init__()
        self.display = False
        self.context = context
        self._field = Field()
        self._strip, self._asked, self._remark = Slip(id="strip"), LinesView(id="asked"), LinesView(id="remark")
        self._mounted: AwaitMount | None = None
        self._edit: MessageEdit | None = None
        self._search: ChatSearch | None = None
        self._query = ""
        """The text that was searched for last."""

    @property
    def is_open(self) -> bool:
        """Whether the field is there."""
        return self.has_class("-open")

    @property
    def home(self) -> Widget | None:
        """The field, while it is there."""
        return self._field if self.is_open else None

    @property
    def labels(self) -> list[Label]:
        """The keys of the line, or of the message that is edited; none where nothing is asked."""
        back = Label(name_of("back"), "back")
        if self._search is not None:
            return [Label("↑ ↓", "move"), Label("Enter", "stay there"), back]
        if self.is_open:
            return [Label("Enter", "accept"), back]
        if self._edit is not None and self.context.focused is self.context.composer:
            return [Label("Enter", "apply on a new branch"), back, Label(name_of("edit"), "earlier")]
        return []

    def remark(self, text: str, color: str = "muted") -> None:
        _show_text(self._remark, text, Ink(color))

    def show(self) -> None:
        """Show the strip: the message that is edited, and how the next reply begins."""
        context, room = self.context, self.context.size.width - 2
        lines = [self._edit.render_line(room)] if self._edit is not None else []
        if (text := context.chat.prefill) is not None:
            word = "next reply starts with" if text else "next reply starts freely"
            lines.append(_strip_line(word, text, "/prefill changes it", room, "prefill"))
        if lines:
            self._mount_views()
        self._strip.show_lines(lines)

    def follow_chat(self) -> None:
        """Follow a change of the chat; another chat ends the edit of a message."""
        if self._search is not None:
            self._search.follow_chat()
        if self._edit is not None and self._edit.is_stale:
            self._edit.end(returns=False)
            self._edit = None
        self.show()

    def close(self) -> bool:
        """Close the innermost use; return False without any."""
        if self.is_open:
            self._close_field(stays=False)
            self.context.take_keyboard()
        elif self._edit is not None:
            self._edit.end(returns=True)
            self._edit = None
            self.show()
        else:
            return False
        return True

    def leave(self, widget: Widget) -> None:
        """Close the field if another widget has got the keyboard, as by a click; a search stays at its hit."""
        if self.is_open and widget is not self._field:
            self._close_field(stays=True)

    # --- the uses ----------------------------------------------------------------------------------------------------

    def edit(self, node: int | None) -> None:
        """Open a message for editing: the one that a node is part of; without one your last, in token mode the reply under the
        cursor; again, the previous message."""
        if self._edit is not None:
            if node is None:
                self._edit.step_back()
            else:
                self._edit.open(node)
            return
        context, edit = self.context, MessageEdit(self, self.context)
        if node is None and (place := context.tokens.place) is not None:
            node = place.node.number
        if context.tokens.is_open:
            context.tokens.leave()
        if not edit.open(node):
            context.tell(Notice("no message to edit yet"))
            return
        self._edit = edit
        context.set_focus(context.composer)  # not focus(): the very next key is for it
        self.show()

    def send_edited(self, text: str) -> bool:
        """Send a text as the new version of the edited message; return False if none is being edited."""
        edit, self._edit = self._edit, None
        if edit is None or edit.is_stale:
            return False
        edit.send(text)
        self.show()
        return True

    async def ask_beginning(self) -> None:
        """Ask how the next reply begins."""
        await self._mount_views()
        self._close_field(stays=True)
        hint = "first words of the reply; \\n is a line break"
        self._open_field("next reply starts with", escape(self.context.chat.beginning), hint)

    async def find(self) -> None:
        """Open the search; pressed again, go to the next hit."""
        if self._search is not None:
            self._search.step(1)
        elif self.context.chat.conversation.leaf is None:
            self.context.tell(Notice("the chat is empty"))
        else:
            await self._mount_views()
            hint = f"↑ ↓ or {name_of('find')} moves, Enter stays there, {name_of('back')} goes back"
            self._open_field("find", self._query, hint)
            self._search = ChatSearch(self, self.context)
            self._search.look_for(self._query)

    def on_key(self, event: events.Key) -> None:
        by = {"up": -1, "down": 1}.get(event.key)
        if self._search is not None and by is not None:
            event.stop()
            event.prevent_default()
            self._search.step(by)

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        if self._search is not None:
            self._search.look_for(event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if self.is_open:
            begins = self._search is None
            self._close_field(stays=True)
            self.context.take_keyboard()
            if begins:
                self.context.chat.begin_with(unescape(event.value))

    def _mount_views(self) -> AwaitMount:
        if self._mounted is None:
            self.display = True
            self._mounted = self.mount(self._strip, Row(self._asked, self._field, self._remark))
            for view in (self._strip, self._asked, self._remark):
                view.paint_with(self.context.palette)
        return self._mounted

    def _open_field(self, question: str, value: str, placeholder: str) -> None:
        self.add_class("-open")
        self._field.placeholder = placeholder
        self._field.value = value
        self._field.cursor_position = len(value)
        self._field.select_all()
        _show_text(self._asked, question, _STRONG)
        self.remark("")
        self.screen.set_focus(self._field)  # not focus(): the very next key is for it

    def _close_field(self, *, stays: bool) -> None:
        self.remove_class("-open")
        search, self._search = self._search, None
        if search is not None:
            self._query = search.query
            search.end(stays=stays)


def _show_text(view: LinesView, text: str, ink: Ink) -> None:
    width = cell_len(text)
    view.styles.width = width + 2 if width else 0
    view.show_lines([Line(((text, ink),))] if width else [])


def _strip_line(word: str, text: str, rest: str, room: int, does: str = "") -> Line:
    """Render a label, foreign text, and what can be done about it."""
    quoted = one_line(text, max(room - cell_len(word) - cell_len(rest) - 4, 8)) if text else ""
    runs = (
        (f"{word} ", _STRONG._replace(does=does)),
        (f"{quoted}  " if quoted else " ", Ink(does=does)),
        (rest, Ink("muted")),
    )
    return Line(runs, "panel")
