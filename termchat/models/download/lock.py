"""One at a time: a lock on a file that the system gives back when its holder ends, however it ends."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from pathlib import Path
from time import sleep
from types import TracebackType

if sys.platform == "win32":
    import msvcrt

    _TAKEN = frozenset({errno.EACCES, errno.EDEADLK})
    _FAR = 1 << 30  # Windows locks bytes, not files, and nobody can read a locked one: the number must stay readable

    def _take(descriptor: int) -> None:
        os.lseek(descriptor, _FAR, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        os.lseek(descriptor, 0, os.SEEK_SET)
else:
    import fcntl

    _TAKEN = frozenset({errno.EACCES, errno.EAGAIN})

    def _take(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


_NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP})
"""What file systems answer that know no locks: then two at once are not kept apart, but one is not refused either."""
_LOOK_AGAIN = 0.1


class Lock:
    """Holds the lock file at `path` while entered; the folder must be there. The file goes when the lock does.

    Entering waits; `waiting` is called about ten times a second with the process that holds the lock ("" if it did not say),
    and ends the wait by raising.

    Raises:
        OSError: the file cannot be made.
    """

    def __init__(self, path: Path, waiting: Callable[[str], None]) -> None:
        self._path, self._waiting = path, waiting
        self._descriptor = -1

    def __enter__(self) -> None:
        while not self._held():
            self._waiting(self._holder())
            sleep(_LOOK_AGAIN)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if sys.platform == "win32":  # which removes no open file
            os.close(self._descriptor)
            self._remove()
        else:  # removed first: whoever takes the lock of a removed file notices
            self._remove()
            os.close(self._descriptor)

    def _held(self) -> bool:
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            _take(descriptor)
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                os.close(descriptor)
                if error.errno in _TAKEN:
                    return False
                raise
        if not self._is_still_there(descriptor):
            os.close(descriptor)
            return False
        os.truncate(descriptor, 0)
        os.write(descriptor, str(os.getpid()).encode())
        self._descriptor = descriptor
        return True

    def _is_still_there(self, descriptor: int) -> bool:
        """Whether the file that was locked is the one of that name, and not one its holder just removed."""
        try:
            return os.path.samestat(os.fstat(descriptor), self._path.stat())
        except FileNotFoundError:
            return False

    def _holder(self) -> str:
        try:
            text = self._path.read_bytes()[:20].decode("ascii", "replace")
        except OSError:
            return ""
        return text if text.isdecimal() else ""

    def _remove(self) -> None:
        try:
            self._path.unlink()
        except OSError:
            return  # another has it open: it is theirs to remove
