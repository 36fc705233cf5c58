"""Messages that were written before, the walk through them with the arrows, and the file that keeps them: a line of JSON
each, which several termchat may write at once.

It is a file of its own, and not a question to the store of chats, because it holds what was typed: commands, paths that
stand for files, messages that were taken back or edited away. Whole lines are appended under a lock; a file that grew to twice
what is kept is written anew under the same lock.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Lock, Thread

import msgspec

from termchat.tui.draw.background import Aside

if sys.platform != "win32":
    import fcntl

ENTRIES = 2_000
"""The most messages that are kept."""
_LONGEST = 4_000_000
"""Characters of the longest message that is kept while the app runs."""
LARGEST = 64_000
"""Bytes of the largest message that is kept in the file; a longer one is forgotten with the session."""
BYTES = 1_000_000
"""Bytes of messages that are kept when the file is written anew."""
PATIENCE = 2.0
"""Seconds that a message waits for another termchat which writes."""


class History:
    """The oldest first, each text once. With a `file` they are kept between sessions.

    The file is read in a thread that `begin` starts, and written in another; the event loop touches no disk.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._texts: dict[str, None] = {}
        self._reading: Aside[Sequence[str]] | None = None

    def begin(self) -> None:
        """Reads what was kept."""
        if self._file is not None and self._reading is None:
            file = self._file
            self._reading = Aside(lambda: (read(file),))

    def add(self, text: str) -> None:
        """The newest message."""
        self._take_read()
        if not text.strip() or len(text) > _LONGEST:
            return
        again = next(reversed(self._texts), None) == text
        self._put([text])
        if self._file is not None and not again:
            append(self._file, text)

    @property
    def texts(self) -> list[str]:
        """All, the newest first."""
        self._take_read()
        return list(reversed(self._texts))

    def walk(self, typed: str) -> Walk:
        """The way back through all that contain what is typed."""
        return Walk(self.texts, typed)

    def _take_read(self) -> None:
        """Puts what was read before what was written since."""
        if self._reading is None:
            return
        self._reading.join(0.05)  # it is read long before anybody asks
        if not self._reading.running:
            for read in self._reading.take():
                newer, self._texts = self._texts, {}
                self._put([*read, *newer])

    def _put(self, texts: Iterable[str]) -> None:
        for text in texts:
            self._texts.pop(text, None)
            self._texts[text] = None
        while len(self._texts) > ENTRIES:
            del self._texts[next(iter(self._texts))]


class Walk:
    """A place among the messages that contain `typed`, case aside unless it has capitals; `typed` itself is the newest."""

    def __init__(self, texts: Sequence[str], typed: str) -> None:
        self.typed = typed
        self._found = [typed, *(text for text in texts if text != typed and matches(text, typed))]
        self._at = 0

    @property
    def text(self) -> str:
        """The message it stands at."""
        return self._found[self._at]

    @property
    def is_back(self) -> bool:
        """Whether it is back at what was typed."""
        return self._at == 0

    def move(self, older: bool) -> bool:
        """To the next older message, or the next newer; False where there is none."""
        at = self._at + (1 if older else -1)
        if not 0 <= at < len(self._found):
            return False
        self._at = at
        return True


def matches(text: str, typed: str) -> bool:
    """Whether a message contains what is typed; small letters stand for capitals, too."""
    return typed in text or (typed.islower() and typed in text.lower())


# --- the file -----------------------------------------------------------------------------------------------------


class _Entry(msgspec.Struct):
    text: str


_DECODER = msgspec.json.Decoder(_Entry)


def read(file: Path) -> list[str]:
    """The messages that are kept, the oldest first. Damaged lines are passed over; what cannot be read is empty."""
    try:
        with file.open("rb") as opened:
            opened.seek(max(os.fstat(opened.fileno()).st_size - 2 * BYTES, 0))
            data = opened.read(3 * BYTES)
    except OSError:
        return []
    return [text for text, _ in _entries(data)]


def append(file: Path, text: str) -> None:
    """Adds a message, in a thread: the disk may be slow. The program ends when it is written."""
    global _writer
    _waiting.put((file, text))
    with _lock:
        if _writer is None:
            _writer = Thread(target=_write_all, name="history")
            _writer.start()


_waiting: SimpleQueue[tuple[Path, str]] = SimpleQueue()
_lock = Lock()
_writer: Thread | None = None


def _write_all() -> None:
    global _writer
    while True:
        with _lock:
            try:
                file, text = _waiting.get_nowait()
            except Empty:
                _writer = None
                return
        with contextlib.suppress(OSError):  # without a history the chat is the same
            write(file, text)


def write(file: Path, text: str) -> None:
    """Adds a message, now; one that is too long is not kept.

    Raises:
        OSError: it cannot be written.
    """
    line = b'{"text":' + msgspec.json.encode(text.encode("utf-8", "replace").decode()) + b"}\n"
    if len(line) > LARGEST:
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    with _locked(file) as descriptor:
        length = os.fstat(descriptor).st_size
        torn = length > 0 and os.pread(descriptor, 1, length - 1) != b"\n"
        os.write(descriptor, b"\n" * torn + line)
        if length > 2 * BYTES:
            _shorten(file, descriptor)


@contextlib.contextmanager
def _locked(file: Path) -> Iterator[int]:
    """The file, open to be appended to, which nobody else writes or replaces meanwhile."""
    while True:
        descriptor = os.open(file, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            if sys.platform != "win32":
                _lock_soon(descriptor)
            if _is_there(file, descriptor):  # else another has put a shorter one in its place
                yield descriptor
                return
        finally:
            os.close(descriptor)


def _lock_soon(descriptor: int) -> None:
    """Locks a file; whoever holds it is done in a moment, or was stopped, and then nobody waits for it to go on."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                raise
            time.sleep(0.01)


def _is_there(file: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(file), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _shorten(file: Path, descriptor: int) -> None:
    """Puts the newest messages in the place of all."""
    length = os.fstat(descriptor).st_size
    newest = list(_entries(os.pread(descriptor, 3 * BYTES, max(length - 3 * BYTES, 0))))
    kept: dict[str, bytes] = {}
    room = BYTES
    for text, line in reversed(newest):
        room -= len(line) if text not in kept else 0
        if room < 0 or len(kept) == ENTRIES:
            break
        kept.setdefault(text, line)
    part = file.with_name(f".{file.name}.part")
    with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as written:
        written.write(b"".join(reversed(kept.values())))  # or an error: os.write may write a part, and not say so
    part.replace(file)


def _entries(data: bytes) -> Iterator[tuple[str, bytes]]:
    """The texts of whole lines, and the lines."""
    for line in data.splitlines(keepends=True):
        with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError):
            yield _DECODER.decode(line).text, line if line.endswith(b"\n") else line + b"\n"
