"""The store's file as a file: what is at its path and beside it, its modes, and where a damaged one goes.

NAME.broken                     a mark: NAME was found damaged, and is repaired when it is next opened
NAME.damaged-<time>             a damaged file that was set aside
NAME.damaged-<time>.unread      a mark: its chats were not copied into the new file yet
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from pathlib import Path

from termchat import regular_files

NEW_S = 10.0
"""In seconds, the age to which an empty file is taken for one that is being made."""

UNREAD, BROKEN = ".unread", ".broken"
"""The suffixes of the marks."""

BESIDE = ("-journal", "-wal", "-shm")
"""What SQLite adds to a database's name for the files that it keeps beside it."""

_MARK = 100
"""Bytes of the longest mark."""


def identify_file(path: Path) -> tuple[int, int] | None:
    """Return device and inode: whether the path still is the opened file. None without a file."""
    with contextlib.suppress(OSError):
        found = path.stat()
        return found.st_dev, found.st_ino
    return None


def resolve_link(path: Path) -> Path:
    """Return the file itself where the path is a link to it: beside that one SQLite keeps its log."""
    return Path(os.path.realpath(path))


def has_no_log(path: Path) -> bool:
    """Return whether the file's write-ahead log is missing or empty."""
    file = resolve_link(path)
    try:
        return file.with_name(file.name + "-wal").stat().st_size == 0
    except FileNotFoundError:
        return True


def set_modes(path: Path) -> None:
    """Keep others out; make what SQLite keeps beside a file that was read-only for a time as writable as it is again."""
    with contextlib.suppress(OSError):
        mode = path.stat().st_mode
        if mode & 0o077:
            path.chmod(0o600)
        file = resolve_link(path)
        for suffix in ("-wal", "-shm"):
            beside = file.with_name(file.name + suffix)
            if mode & stat.S_IWUSR and beside.exists() and not beside.stat().st_mode & stat.S_IWUSR:
                beside.chmod(0o600)


def is_emptied(path: Path) -> bool:
    """Return whether the file is empty, and not because another process creates it at this moment."""
    try:
        found = path.stat()
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_size == 0 and abs(time.time() - found.st_mtime) > NEW_S


def drop_log(path: Path, log: tuple[int, int] | None) -> None:
    """Remove the write-ahead log at the path if it is the one with this identity, left by a file that is gone.

    SQLite takes it for the log of whatever file is there by then, and would write the old pages over the new ones.
    """
    if log is not None and identify_file(path.with_name(path.name + "-wal")) == log:
        for suffix in ("-wal", "-shm"):
            with contextlib.suppress(OSError):
                path.with_name(path.name + suffix).unlink()


def mark_broken(path: Path, damaged: tuple[int, int] | None) -> None:
    """Have the file repaired when it is next opened, if it still is the one of this identity."""
    if damaged is not None and identify_file(path) == damaged:
        with contextlib.suppress(OSError), regular_files.opened(path.with_name(path.name + BROKEN), "wb") as mark:
            mark.write(_format_identity(damaged))


def is_broken(path: Path) -> bool:
    """Return whether the file is marked as damaged; remove a mark that is about a file which is gone."""
    mark, found = path.with_name(path.name + BROKEN), identify_file(path)
    try:
        marked = regular_files.read(mark, _MARK)
    except OSError:
        return False
    if found is not None and marked == _format_identity(found):
        return True
    with contextlib.suppress(OSError):
        mark.unlink()
    return False


def _format_identity(identity: tuple[int, int]) -> bytes:
    return "{}:{}".format(*identity).encode("ascii")


def mark_of(aside: Path) -> Path:
    """Return the mark of a file that was set aside and not yet copied from."""
    return aside.with_name(aside.name + UNREAD)


def set_aside(path: Path) -> Path:
    """Rename a damaged file, and what belongs to it, to NAME.damaged-<time>; return the new path.

    NAME.damaged-<time>.unread stands beside it until somebody has taken along what it still gives.
    """
    aside = _marked_name(path)
    try:
        for suffix in ("-wal", "-shm", ""):  # the file last: a log that stays behind would be written into the next one
            with contextlib.suppress(FileNotFoundError):
                path.with_name(path.name + suffix).rename(aside.with_name(aside.name + suffix))
    finally:
        if not aside.exists():  # another process was faster, or it may not be moved
            with contextlib.suppress(OSError):
                mark_of(aside).unlink()
    with contextlib.suppress(OSError):
        path.with_name(path.name + BROKEN).unlink()
    with contextlib.suppress(OSError):
        aside.chmod(0o600)  # a damaged file was never opened, which is when others are kept out
    return aside


def _marked_name(path: Path) -> Path:
    """Choose a name for a damaged file. Its mark is created with it, so that no other process takes the same name."""
    name, count = f"{path.name}.damaged-{time.strftime('%Y%m%d-%H%M%S')}", 1
    while True:
        aside = path.with_name(name if count == 1 else f"{name}-{count}")
        if not aside.exists():
            with contextlib.suppress(FileExistsError):
                os.close(os.open(mark_of(aside), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
                return aside
        count += 1
