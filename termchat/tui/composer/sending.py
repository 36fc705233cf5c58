"""Sends messages: reads the files they name, refuses long ones, counts tokens; also the queue, the history, the editor."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, NamedTuple

from textual.message import Message
from textual.timer import Timer

from termchat.chat.changes import Notice
from termchat.conversation.node import LARGEST_MESSAGE, is_too_large
from termchat.text import size
from termchat.tui.composer.composer import Composer
from termchat.tui.composer.history import History
from termchat.tui.draw.background import BackgroundTask
from termchat.tui.screen.parts import Parts
from termchat.tui.slash.parsing import parted

if TYPE_CHECKING:
    from termchat.chat.sizing import Size, Sizing
    from termchat.tui.composer.mentions import Included

_AT_REST = 0.25
"""Seconds without a key after which a message is counted."""


@dataclass
class FilesRead(Message):
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


class Sending:
    def __init__(self, parts: Parts, history: History) -> None:
        self._parts, self._screen, self._chat = parts, parts.screen, parts.chat
        self._composer, self._edge, self._do, self._tell = parts.composer, parts.desk.edge, parts.do, parts.tell
        self._sizing: Sizing | None = None
        self._timer: Timer | None = None
        self._sending: list[_Outgoing] = []
        self._reading: BackgroundTask[None] | None = None
        self._stands: tuple[object, ...] = ()
        self._composer.earlier = history
        self._composer.take_back = self.take_back
        self._composer.hand_over = self._hand_over

    def begin(self) -> None:
        from termchat.chat.sizing import Sizing  # not needed before the first frame
        from termchat.tui.composer.mentions import Paths

        composer = self._composer
        composer.sources = [*composer.sources, Paths(lambda: composer.post_message(Composer.Learnt()))]
        self._sizing = Sizing(self._chat)
        self._timer = self._screen.set_interval(_AT_REST, self._count, pause=True)
        self._composer.earlier.begin()

    # --- sending -----------------------------------------------------------------------------------------------------

    def send(self, text: str, written: str = "") -> None:
        """`written` is the text with labels for what is attached."""
        self._sending.append(_Outgoing(text, written or text, self._say))
        self._send_next()

    def _hand_over(self, text: str, to: Callable[[str], object]) -> None:
        self._sending.append(_Outgoing(text, self._composer.attachments.fold(text), to))
        self._send_next()

    def _send_next(self) -> None:
        """Sends what was written, in order: a message whose files are being read holds up those behind it."""
        while self._sending and self._reading is None:
            text, written, _ = self._sending[0]
            if "@" not in written:
                self._send(text)
            else:
                self._read(text, written, sends=True)

    def _send(self, text: str) -> None:
        if is_too_large(text):
            problem = f"message too long: {len(text):,} characters"
            self._refuse(self._sending[0].text, problem, f"at most {LARGEST_MESSAGE:,}; shorten it or send it in parts")
            return
        _, written, to = self._sending.pop(0)
        self._composer.attachments.remember(text, written)
        to(text)

    def _say(self, text: str) -> None:
        self._parts.transcript.follow()  # whoever sends a message wants to see where it goes
        self._do(lambda: self._chat.send(text))

    def _read(self, text: str, written: str, *, sends: bool) -> None:
        """In a thread: the disk may be slow."""

        def work() -> Iterator[None]:
            from termchat.tui.composer.mentions import Unreadable, include

            try:
                gathered = FilesRead(written, text, include(written, text), "", sends)
            except Unreadable as problem:
                gathered = FilesRead(written, text, None, str(problem), sends)
            self._screen.post_message(gathered)
            yield

        self._reading = BackgroundTask(work)

    def gathered(self, read: FilesRead) -> None:
        """Sends a message with its files, or counts it; what cannot be read goes back to whoever wrote it."""
        self._reading = None
        if not read.sends:
            if read.included is not None:
                self._ask(read.written, read.included.text, read.included.files)
            else:
                self._edge.say(read.problem, "warning")
        elif read.included is not None:
            self._send(read.included.text)
        else:
            self._refuse(read.message, read.problem, "nothing was sent")
        self._send_next()

    def _refuse(self, message: str, problem: str, hint: str) -> None:
        """Gives the next message to be sent back to its author."""
        del self._sending[0]
        self._composer.give_back(message)
        self._tell(Notice(problem, hint, "warning"))

    # --- counting ----------------------------------------------------------------------------------------------------

    def changed(self) -> None:
        if self._timer is None:
            return
        if self._composer.is_blank:
            self._edge.say("")
            self._timer.pause()
        else:
            self._edge.fade()
            self._timer.reset()
            self._timer.resume()

    def follow(self) -> None:
        """Counts again if the number may differ after a change of the chat."""
        chat = self._chat
        stands = (
            chat.phase in ("idle", "no model", "failed"),
            chat.conversation,
            chat.conversation.leaf,
            chat.host.loaded,
        )
        if stands != self._stands:
            self._stands = stands
            self.changed()

    def _count(self) -> None:
        assert self._timer is not None
        self._timer.pause()
        written = self._composer.text
        if not written.strip() or parted(written) is not None:  # a command is for nobody but us
            self._edge.say("")
        elif "@" not in written:
            self._ask(written, self._composer.message, ())
        elif self._reading is None:
            self._read(self._composer.message, written, sends=False)

    def _ask(self, written: str, message: str, files: tuple[tuple[str, int], ...]) -> None:
        named = "".join(f", with {PurePath(name).name} {size(length)}" for name, length in files)

        def hear(counted: Size | None) -> None:
            if self._composer.text != written:
                return
            if counted is None:
                self._edge.say("")
            else:
                self._edge.say(_said(counted) + named, "muted" if counted.fits else "error")

        assert self._sizing is not None
        self._sizing.ask_size(message, hear)

    # --- the queue, what was written before, the editor --------------------------------------------------------------

    def take_back(self, number: int = -1) -> bool:
        """Puts a message that waits in the queue into the empty composer; False where there is none."""
        queue = self._chat.turns.queue
        if not queue:
            return False
        self._do(lambda: self._composer.put(self._chat.turns.take_back(number % len(queue))))
        return True

    def browse_queue(self) -> None:
        from termchat.tui.composer.history_dialog import QueueDialog  # not needed before the first frame

        def closed(number: int | None) -> None:
            if number is not None and number < len(self._chat.turns.queue):
                text = self._chat.turns.take_back(number)
                self._do(lambda: self._composer.give_back(text))

        self._parts.open(QueueDialog(self._parts.palette(), self._chat, self._do), closed)

    def browse_history(self) -> None:
        from termchat.tui.composer.history_dialog import HistoryDialog  # not needed before the first frame

        def closed(text: str | None) -> None:
            if text is not None:
                self._composer.put(text)

        texts = self._composer.earlier.texts
        self._parts.open(HistoryDialog(self._parts.palette(), texts, self._composer.message), closed)

    async def edit(self) -> None:
        from termchat.external_editor import EditorError  # not needed before the first frame
        from termchat.tui.composer import editor

        composer, before = self._composer, self._composer.message
        try:
            edited = await editor.edit(before, self._screen.app.suspend)
        except EditorError as problem:
            self._tell(Notice(problem.message, problem.hint, "warning"))
            return
        if edited != before:
            composer.put(edited)
            if not edited.strip():
                self._tell(Notice("the editor returned an empty message", "undo restores your text"))


def _said(counted: Size) -> str:
    tokens = f"{'about ' if counted.about else ''}{counted.tokens:,} token{'s' * (counted.tokens != 1)}"
    if counted.around != "nothing":
        tokens += f" with {counted.around}"
    if not counted.fits:
        return f"{tokens}, {counted.tokens - counted.free:,} over the free context"
    share = 100 * counted.tokens / max(counted.free, 1)
    return f"{tokens}, {f'{share:.0f}' if share >= 1 else 'under 1'}% of the free context"
