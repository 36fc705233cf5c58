"""Texts that are asked for above the composer, and the earlier message that is edited in it.

The line has three uses: what to find, how the next reply begins, and the texts of the knob that is selected in TUNE. Another
message is edited in the composer, and named among the notices; the line is free for the others meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from rich.cells import cell_len
from textual import events
from textual.app import ComposeResult
from textual.widget import Widget
from textual.widgets import Input

from termchat.chat.changes import Notice
from termchat.conversation.tree import HEAD, Conversation, Span
from termchat.decoding.escapes import escape, unescape
from termchat.text import one_line
from termchat.tui.context import ScreenContext
from termchat.tui.draw.field import Field
from termchat.tui.draw.ink import Ink, Line
from termchat.tui.draw.lines_view import LinesView, Row
from termchat.tui.draw.marks import ACCENT
from termchat.tui.keys.key import Label
from termchat.tui.keys.tables import name_of
from termchat.tui.transcript.document import Anchor

_STRONG = ACCENT._replace(bold=True)
_GOES_ON = 1 / 15
"""Seconds between parts of a long search."""


def strip_line(word: str, text: str, rest: str, room: int, does: str = "") -> Line:
    """Render a label, foreign text, and what can be done about it."""
    quoted = one_line(text, max(room - cell_len(word) - cell_len(rest) - 4, 8)) if text else ""
    runs = (
        (f"{word} ", _STRONG._replace(does=does)),
        (f"{quoted}  " if quoted else " ", Ink(does=does)),
        (rest, Ink("muted")),
    )
    return Line(runs, "panel")


class MessageEdit:
    """Earlier messages in the composer, one at a time; the draft comes back afterwards. A changed one that is left stays so."""

    def __init__(self, context: ScreenContext) -> None:
        self._context = context
        self._conversation: Conversation | None = None
        """The chat whose messages are edited; None while none is."""
        self._messages: Sequence[Sequence[Span]] = ()
        self._written: dict[int, str] = {}
        self._place = context.transcript.place
        self._at = 0
        """The message that is edited, counted from the first."""

    @property
    def labels(self) -> list[Label]:
        """The keys of the message that is edited."""
        if self._conversation is None or self._context.focused is not self._context.composer:
            return []
        keys = ("Enter", "apply on a new branch"), (name_of("back"), "back"), (name_of("edit"), "earlier")
        return [Label(name, does) for name, does in keys]

    def edit(self, node: int | None) -> None:
        """Edit the message that a node is part of; without one your last, in token mode the reply under the cursor; again, the
        previous message, and after the first the last."""
        context, tree, tokens = self._context, self._context.chat.conversation, self._context.tokens
        is_open = self._conversation is not None
        if is_open and node is None:
            if not self.step(-1):
                self.step(len(self._messages) - 1)
            return
        if not is_open:
            self._messages = [*([] if tree.raw else [[Span(tree.head, 0)]]), *tree.turn_spans()]
            if node is None and (place := tokens.place) is not None:
                node = place.node.number
            if tokens.is_open:
                tokens.leave()
        places = [
            at
            for at, spans in enumerate(self._messages)
            if any(span.node.number == node if node is not None else span.node.role == "user" for span in spans)
        ]
        if places and is_open:
            self.step(places[-1] - self._at)
        elif places:
            composer = context.composer
            self._conversation, self._written, self._place = tree, {}, context.transcript.place
            composer.beyond, composer.aside = self.step, composer.message
            self._show(places[-1])
            context.set_focus(composer)  # not focus(): the very next key is for it
        elif not is_open:
            context.tell(Notice("no message to edit yet"))

    def step(self, by: int) -> bool:
        """Go to the previous or next message; return False at the ends."""
        if not 0 <= self._at + by < len(self._messages):
            return False
        if self._context.composer.message != self._text(self._at):
            self._written[self._at] = self._context.composer.message
        self._show(self._at + by)
        return True

    def follow_chat(self) -> None:
        """End the edit if another chat is shown."""
        if self._conversation not in (None, self._context.chat.conversation):
            self._end()

    def close(self) -> bool:
        """Restore the draft and the scroll position; return False if no message is edited."""
        if self._conversation is None:
            return False
        self._end()
        self._context.transcript.return_to(self._place)
        return True

    def _end(self) -> None:
        composer, self._conversation = self._context.composer, None
        composer.beyond, composer.sends_blank = lambda _: False, False
        draft, composer.aside = composer.draft, None
        composer.put(draft)
        self._context.show_soon()

    def send(self, text: str) -> bool:
        """Send the edited message on a branch of its own; return False if none is edited."""
        self.follow_chat()
        tree = self._conversation
        if tree is None:
            return False
        self._end()
        context, message = self._context, self._messages[self._at]
        forks, node = context.chat.forks, message[0].node
        if node.role == "assistant":
            context.transcript.follow()
            forks.replace_reply(message, text)
            return True

        def branch(whole: str) -> None:
            if context.chat.conversation is not tree:  # while its files were read
                context.composer.give_back(whole)
                return
            context.transcript.follow()
            if node.number == HEAD:
                forks.edit_system(whole)
            else:
                forks.edit_message(node, whole)

        context.composer.hand_over(text, branch)
        return True

    def render_lines(self, room: int) -> list[Line]:
        """Render which message is edited, and what the keys do; nothing while none is."""
        if self._conversation is None:
            return []
        node, head = self._messages[self._at][0].node, self._messages[0][0].node.number == HEAD
        which = f"{self._at + (not head)} of {len(self._messages) - head}"
        if node.number == HEAD:
            what, does = "editing the system prompt", "Enter sends your first message again, on a new branch"
            if self._conversation.leaf is None:
                does = "Enter saves it"
        elif node.role == "user":
            what, does = f"editing message {which}", "Enter sends it as a new branch"
        else:
            what, does = f"editing reply {which}", "Enter applies the edit on a new branch"
        return [strip_line(what, "", one_line(f"{does}, ↑ ↓ selects another", room - len(what) - 2), room)]

    def _text(self, at: int) -> str:
        return "".join(span.node.text(span.count) for span in self._messages[at])

    def _show(self, at: int) -> None:
        context, self._at = self._context, at
        number = self._messages[at][0].node.number
        context.composer.sends_blank = number == HEAD
        context.composer.put(self._written.get(at, self._text(at)))
        for turn, parts in enumerate(context.transcript.parts()):
            if any(part.node.number == number for part in parts):
                context.transcript.bring(Anchor(turn, -1))
                break
        context.show_soon()


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


class AskLine(Row):
    """A question, the field, and a remark."""

    DEFAULT_CSS = """
    AskLine { height: 1; display: none; }
    AskLine LinesView { width: auto; }
    AskLine Input, AskLine Input:focus { height: 1; width: 1fr; border: none; padding: 0 1; background: $panel; }
    """

    def __init__(self, context: ScreenContext) -> None:
        super().__init__()
        self.context = context
        self._field, self._asked, self._remark = Field(), LinesView(), LinesView()
        self._use: Literal["", "find", "beginning", "texts"] = ""
        self._search: ChatSearch | None = None
        self._query = ""
        """The text that was searched for last."""

    def compose(self) -> ComposeResult:
        yield self._asked
        yield self._field
        yield self._remark

    @property
    def home(self) -> Widget | None:
        """The field, while something is asked."""
        return self._field if self._use else None

    @property
    def edits_knob(self) -> bool:
        """Whether it asks for texts of a knob."""
        return self._use == "texts"

    @property
    def labels(self) -> list[Label]:
        """The keys of the line; none where nothing is asked, or TUNE says which."""
        back = Label(name_of("back"), "back")
        if self._use == "find":
            return [Label("↑ ↓", "move"), Label("Enter", "stay there"), back]
        return [Label("Enter", "accept"), back] if self._use == "beginning" else []

    def remark(self, text: str, color: str = "muted") -> None:
        _show_text(self._remark, text, Ink(color))

    def follow_chat(self) -> None:
        if self._search is not None:
            self._search.follow_chat()

    def close(self) -> bool:
        """Close the line; return False if nothing is asked."""
        if not self._use:
            return False
        self.leave(stays=False)
        self.context.take_keyboard()
        return True

    def leave(self, *, stays: bool = True) -> None:
        """Close the line, as when another widget has got the keyboard; a search that `stays` does so at its hit."""
        if self._use == "texts":
            self.context.knobs.error = ""
        search, self._search = self._search, None
        self._use, self.display = "", False
        if search is not None:
            self._query = search.query
            search.end(stays=stays)

    # --- the uses ----------------------------------------------------------------------------------------------------

    def ask_beginning(self) -> None:
        """Ask how the next reply begins."""
        hint = "first words of the reply; \\n is a line break"
        self._open("beginning", "next reply starts with", escape(self.context.chat.beginning), hint)

    def ask_texts(self) -> None:
        """Ask for the texts of the knob that is selected in TUNE, one by one."""
        self.context.knobs.error = ""
        self._open("texts", "", "", "text that ends the reply; \\n is a line break; type it again to remove it")
        self._list_texts()

    def find(self) -> None:
        """Open the search; pressed again, go to the next hit."""
        if self._search is not None:
            self._search.step(1)
        elif self.context.chat.conversation.leaf is None:
            self.context.tell(Notice("the chat is empty"))
        else:
            hint = f"↑ ↓ or {name_of('find')} moves, Enter stays there, {name_of('back')} goes back"
            self._open("find", "find", self._query, hint)
            self._search = ChatSearch(self, self.context)
            self._search.look_for(self._query)

    def on_key(self, event: events.Key) -> None:
        by, tune, text = {"up": -1, "down": 1}.get(event.key), self.context.knobs, self._field.value
        if self._search is not None and by is not None:
            self._search.step(by)
        elif self._use == "texts" and event.key == "backspace" and not text:
            tune.drop_text()
            self._list_texts()
        elif self._use == "texts" and event.key == "tab":
            if text and tune.selected == "stop":
                tune.toggle_stop_after(text)
                self._list_texts(clear=not tune.error)
        else:
            return
        event.stop()
        event.prevent_default()

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        if self._search is not None:
            self._search.look_for(event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if self._use == "texts" and event.value:
            self.context.knobs.write(event.value)
            self._list_texts(clear=not self.context.knobs.error)
        elif self._use:
            begins = self._use == "beginning"
            self.leave()
            self.context.take_keyboard()
            if begins:
                self.context.chat.begin_with(unescape(event.value))

    def _list_texts(self, *, clear: bool = False) -> None:
        knobs = self.context.knobs
        knob = knobs.field
        listed = f"{'stop before' if knob.name == 'stop' else knob.name}  {knob.show(getattr(knobs.tuning, knob.name))}"
        if knob.name == "stop" and (after := knobs.stops_after):
            listed += f"   after  {knob.show(after)}"
        _show_text(self._asked, one_line(listed, self.context.size.width // 2), _STRONG)
        if clear:
            self._field.clear()
        self.context.show_knobs()

    def _open(self, use: Literal["find", "beginning", "texts"], question: str, value: str, placeholder: str) -> None:
        self.leave()
        self._use, self.display = use, True
        self._field.placeholder, self._field.value = placeholder, value
        self._field.cursor_position = len(value)
        self._field.select_all()
        _show_text(self._asked, question, _STRONG)
        self.remark("")
        self.screen.set_focus(self._field)  # not focus(): the very next key is for it


def _show_text(view: LinesView, text: str, ink: Ink) -> None:
    width = cell_len(text)
    view.styles.width = width + 2 if width else 0
    view.show_lines([Line(((text, ink),))] if width else [])
