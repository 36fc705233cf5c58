"""The composer of a chat: it sends messages with the files they name, counts tokens, and keeps the draft with the chat."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, NamedTuple

from textual import work
from textual.message import Message
from textual.timer import Timer

from termchat.chat.changes import Notice
from termchat.chat.service import Chat
from termchat.conversation.node import LARGEST_MESSAGE, is_too_large
from termchat.text import size
from termchat.tui.composer.command_text import parted
from termchat.tui.composer.composer import Composer, Edge
from termchat.tui.composer.history import History
from termchat.tui.draw.background import BackgroundTask
from termchat.tui.transcript import TranscriptView

if TYPE_CHECKING:
    from termchat.chat.sizing import Size, Sizing
    from termchat.tui.composer.mentions import Included

_AT_REST = 0.25
"""Seconds without a key after which a message is counted."""
_KEPT_AFTER = 0.4
"""Seconds after a key in which the draft is kept, so that a kill loses no more."""


@dataclass
class FilesRead(Message, bubble=False):
    """A thread has read the files of a message, or reports why it could not."""

    written: str
    message: str
    included: Included | None
    problem: str
    sends: bool


class _Outgoing(NamedTuple):
    """A message, the same with labels for what is attached, and who takes it."""

    text: str
    written: str
    to: Callable[[str], object]


class ChatComposer(Composer):
    """Sends messages in order. What it holds is kept with the chat that is shown, and comes back with that."""

    def __init__(self, chat: Chat, transcript: TranscriptView, *, placeholder: str, keymap: Mapping[str, str]) -> None:
        super().__init__(placeholder=placeholder, keymap=keymap)
        self._chat, self._transcript = chat, transcript
        self.earlier = History(chat.session.store)
        self.edge = Edge()
        self._sizing: Sizing | None = None
        self._counting: Timer | None = None
        self._counted: tuple[object, ...] = ()
        """The state of the chat that the number of tokens depends on."""
        self._sending: list[_Outgoing] = []
        self._reading: BackgroundTask[None] | None = None
        self._session = chat.session
        """The session whose draft is shown."""
        self._keeping: Timer | None = None
        self._abandoned: BackgroundTask[str] | None = None

    def on_mount(self) -> None:
        if self._session.conversation.unsent.draft:  # before anything can be typed, since this takes its place
            self.open(self._session.conversation.unsent.draft)
        self.call_after_refresh(self._begin)

    def _begin(self) -> None:
        from termchat.chat.sizing import Sizing  # not needed before the first frame
        from termchat.tui.composer.mentions import Paths

        self.sources = [*self.sources, Paths(lambda: self.post_message(Composer.Learnt()))]
        self._sizing = Sizing(self._chat)
        self._counting = self.set_interval(_AT_REST, self._count, pause=True)
        self.earlier.begin()
        store = self._chat.session.store
        if store is not None and not self._chat.lesson:  # what was left in a chat without a message
            self._abandoned = BackgroundTask(
                lambda: [store.abandoned()], lambda: self.call_later(self._give_back_abandoned)
            )

    def _give_back_abandoned(self) -> None:
        assert self._abandoned is not None
        self._chat.blank.give_back(*self._abandoned.take())
        self.follow_chat()

    def on_text_area_changed(self) -> None:
        self._count_later()
        if self._keeping is None:
            self._keeping = self.set_timer(_KEPT_AFTER, self.keep_draft)

    def follow_chat(self) -> None:
        """Switch drafts if another chat is shown, take in what could not be sent, and count again if the number may differ."""
        shown, chat = self._chat.session, self._chat
        unsent = shown.conversation.unsent
        if shown is not self._session:
            self.keep_draft()
            self._session = shown
            if unsent.draft != self.draft:
                self.open(unsent.draft)
        if unsent.returned:
            self.give_back(unsent.returned)
            unsent.returned = ""
            self.keep_draft()
        counted = (
            chat.phase in ("idle", "no model", "failed"),
            chat.conversation,
            chat.conversation.leaf,
            chat.host.loaded,
        )
        if counted != self._counted:
            self._counted = counted
            self._count_later()

    def keep_draft(self) -> None:
        self._keeping = None
        self._session.keep_draft(self.draft)

    # --- sending -----------------------------------------------------------------------------------------------------

    def send(self, text: str, written: str = "") -> None:
        """Send a message; `written` is the text with labels for what is attached."""
        self._sending.append(_Outgoing(text, written or text, self._say))
        self._send_next()

    def hand_over(self, text: str, to: Callable[[str], object]) -> None:
        """Add the files that a text names, and call `to` with the whole."""
        self._sending.append(_Outgoing(text, self.attachments.fold(text), to))
        self._send_next()

    def _send_next(self) -> None:
        """Send what was written, in order: a message whose files are being read holds up those behind it."""
        while self._sending and self._reading is None:
            text, written, _ = self._sending[0]
            if "@" not in written:
                self._send(text)
            else:
                self._read(text, written, sends=True)

    def _send(self, text: str) -> None:
        if is_too_large(text):
            problem = f"message too long: {len(text):,} characters"
            self._give_back(
                self._sending[0].text, problem, f"at most {LARGEST_MESSAGE:,}; shorten it or send it in parts"
            )
            return
        _, written, to = self._sending.pop(0)
        self.attachments.remember(text, written)
        to(text)

    def _say(self, text: str) -> None:
        self._transcript.follow()  # whoever sends a message wants to see where it goes
        self._chat.send(text)

    def _read(self, text: str, written: str, *, sends: bool) -> None:
        """Read the files in a thread: the disk may be slow."""

        def work() -> Iterator[None]:
            from termchat.tui.composer.mentions import Unreadable, include

            try:
                read = FilesRead(written, text, include(written, text), "", sends)
            except Unreadable as problem:
                read = FilesRead(written, text, None, str(problem), sends)
            self.post_message(read)
            yield

        self._reading = BackgroundTask(work)

    def on_files_read(self, read: FilesRead) -> None:
        """Send a message with its files, or count it; what cannot be read goes back to the person."""
        self._reading = None
        if not read.sends:
            if read.included is not None:
                self._ask_size(read.written, read.included.text, read.included.files)
            else:
                self.edge.say(read.problem, "warning")
        elif read.included is not None:
            self._send(read.included.text)
        else:
            self._give_back(read.message, read.problem, "nothing was sent")
        self._send_next()

    def _give_back(self, message: str, problem: str, hint: str) -> None:
        """Give the next message to be sent back to the person."""
        del self._sending[0]
        self.give_back(message)
        self._chat.add_changes(Notice(problem, hint, "warning"))

    def take_back(self, number: int = -1) -> bool:
        """Put a message that waits in the queue into the empty field; False if there is none."""
        queue = self._chat.turns.queue
        if queue:
            self.put(self._chat.turns.take_back(number % len(queue)))
        return bool(queue)

    @work(group="editor", exclusive=True)
    async def edit_outside(self) -> None:
        """Have the message written in the person's own editor."""
        from termchat.external_editor import EditorError  # not needed before the first frame
        from termchat.tui.composer import editor

        before = self.message
        try:
            edited = await editor.edit(before, self.app.suspend)
        except EditorError as problem:
            self._chat.add_changes(Notice(problem.message, problem.hint, "warning"))
            return
        if edited != before:
            self.put(edited)
            if not edited.strip():
                self._chat.add_changes(Notice("the editor returned an empty message", "undo restores your text"))

    # --- counting ----------------------------------------------------------------------------------------------------

    def _count_later(self) -> None:
        if self._counting is None:
            return
        if self.is_blank:
            self.edge.say("")
            self._counting.pause()
        else:
            self.edge.fade()
            self._counting.reset()
            self._counting.resume()

    def _count(self) -> None:
        assert self._counting is not None
        self._counting.pause()
        written = self.text
        if not written.strip() or parted(written) is not None:  # a command is for nobody but us
            self.edge.say("")
        elif "@" not in written:
            self._ask_size(written, self.message, ())
        elif self._reading is None:
            self._read(self.message, written, sends=False)

    def _ask_size(self, written: str, message: str, files: tuple[tuple[str, int], ...]) -> None:
        named = "".join(f", with {PurePath(name).name} {size(length)}" for name, length in files)

        def hear(counted: Size | None) -> None:
            if self.text != written:
                return
            if counted is None:
                self.edge.say("")
            else:
                self.edge.say(_describe_size(counted) + named, "muted" if counted.fits else "error")

        assert self._sizing is not None
        self._sizing.ask_size(message, hear)


def _describe_size(counted: Size) -> str:
    tokens = f"{'about ' if counted.about else ''}{counted.tokens:,} token{'s' * (counted.tokens != 1)}"
    if counted.around != "nothing":
        tokens += f" with {counted.around}"
    if not counted.fits:
        return f"{tokens}, {counted.tokens - counted.free:,} over the free context"
    share = 100 * counted.tokens / max(counted.free, 1)
    return f"{tokens}, {f'{share:.0f}' if share >= 1 else 'under 1'}% of the free context"
