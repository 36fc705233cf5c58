"""One process at a time: a lock file that the system releases when its holder ends, however it ends."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import sleep

from filelock import FileLock, Timeout

from termchat import regular_files

_NO_LOCKS = frozenset({errno.ENOLCK, errno.EOPNOTSUPP})
"""What file systems without locks answer: there two processes are not kept apart, but one is not refused either."""
_LOOK_AGAIN = 0.1


@contextmanager
def locked(path: Path, waiting: Callable[[str], None]) -> Iterator[None]:
    """Holds the lock file at `path`, whose folder must exist. The file is removed with the lock.

    While another process holds it, `waiting` is called about ten times a second with that process's id ("" if unknown); it
    ends the wait by raising.

    Raises:
        OSError: the file cannot be made.
    """
    lock = FileLock(path)
    _acquire(lock, path, waiting)
    try:
        with suppress(OSError):  # Windows lets nobody write a locked file
            path.write_text(str(os.getpid()), "ascii")
        yield
    finally:
        with suppress(
            OSError
        ):  # first, as whoever then locks the removed file notices; on Windows `release` removes it
            path.unlink()
        lock.release()


def _acquire(lock: FileLock, path: Path, waiting: Callable[[str], None]) -> None:
    while True:
        try:
            lock.acquire(timeout=0)
        except Timeout:
            waiting(_holder(path))
            sleep(_LOOK_AGAIN)
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            return
        else:
            return


def _holder(path: Path) -> str:
    try:
        text = regular_files.read(path, 20).decode("ascii", "replace")
    except OSError:
        return ""
    return text if text.isdecimal() else ""
