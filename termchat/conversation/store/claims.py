"""Which process is writing to which chat at this moment.

Each chat has its byte in a file beside the store's, which the process that writes a reply keeps locked. The system takes the
lock away when the process ends, however it ends. Where files cannot be locked nobody is known to write.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from hashlib import blake2b
from pathlib import Path

from termchat.conversation.store import store_files

if sys.platform != "win32":
    import fcntl

SUFFIX = ".writers"
"""Added to the name of the store's file."""


class Claims:
    """The locks of this process. Any thread may call."""

    def __init__(self, store: Path) -> None:
        file = store_files.resolve_link(store)  # others may come by another way
        self._path = file.with_name(file.name + SUFFIX)
        self._file: int | None = None
        self._held: dict[str, set[int]] = {}
        self._mutex = threading.Lock()

    def hold_claim(self, session: str, reply: int) -> None:
        """Lock a reply of a chat for writing by this process, or other work without an end of its own (0)."""
        with self._mutex:
            if session in self._held or self._lock_byte(session):
                self._held.setdefault(session, set()).add(reply)

    def let_go(self, session: str, reply: int) -> None:
        """Release a reply that is written; the chat is released with its last one."""
        with self._mutex:
            replies = self._held.get(session, set())
            replies.discard(reply)
            if session in self._held and not replies:
                del self._held[session]
                self._unlock_byte(session)

    def is_elsewhere(self, session: str) -> bool:
        """Return whether another process writes to a chat."""
        with self._mutex:
            if session in self._held or not self._path.exists():
                return False
            locked = self._lock_byte(session)
            if locked:
                self._unlock_byte(session)
            return locked is False

    def close(self) -> None:
        with self._mutex:
            self._held.clear()
            if self._file is not None:
                os.close(self._file)
                self._file = None

    def _lock_byte(self, session: str) -> bool | None:
        """Lock a chat's byte; return False where another process has, None where that cannot be done."""
        if sys.platform == "win32":
            return None
        try:
            if self._file is None:
                self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
        except OSError:
            return None
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _find_place(session))
        except (BlockingIOError, PermissionError):
            return False
        except OSError:
            return None
        return True

    def _unlock_byte(self, session: str) -> None:
        if sys.platform != "win32" and self._file is not None:
            with contextlib.suppress(OSError):
                fcntl.lockf(self._file, fcntl.LOCK_UN, 1, _find_place(session))


def _find_place(session: str) -> int:
    """Return the byte of a chat: far beyond the end of the file, which stays empty, and seldom the same for two."""
    return int.from_bytes(blake2b(session.encode("utf-8", "replace"), digest_size=7).digest())
