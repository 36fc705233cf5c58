"""The beginning of a damaged store, made anew: without it SQLite reads nothing of a file whose other pages are whole.

The first 100 bytes are the file's header, the rest of its first page says where each table begins. A new store has the same
header but for a few numbers, and its tables begin where those of any file do that this schema was made in from the start.
"""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from termchat.conversation import database, files
from termchat.conversation.schema import COLUMNS

_HEADER = 100
_PAGE_SIZE, _VERSIONS, _PAGES = slice(16, 18), slice(18, 20), slice(28, 32)
"""Where the header has the size of a page, how the file is written and read, and how many pages there are."""
_LOGGED = b"\2\2"
"""Written and read with a write-ahead log."""


def knows_tables(db: sqlite3.Connection) -> bool:
    """Whether SQLite finds the tables of chats in a file; from then on it reads also one that was cut off."""
    try:
        db.execute("PRAGMA writable_schema=ON")
        found = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    except sqlite3.DatabaseError:
        return False
    return found >= COLUMNS.keys()


@contextlib.contextmanager
def mended(damaged: Path) -> Iterator[sqlite3.Connection]:
    """A copy of the file and its log, with a new header; with all of a new first page where that is not enough.

    Raises:
        OSError: it cannot be copied.
    """
    copy = damaged.with_name(f".{damaged.name}.part")
    files.remove_all(copy)  # what a process that was killed here has left
    try:
        copy.touch(0o600)
        shutil.copyfile(damaged, copy)
        log = damaged.with_name(damaged.name + "-wal")
        if log.exists():
            shutil.copyfile(log, copy.with_name(copy.name + "-wal"))
        first = _first_page(copy.stat().st_size)
        for kept in (_HEADER, len(first)):
            with copy.open("r+b") as file:
                file.write(first[:kept])
            with contextlib.closing(sqlite3.connect(copy, isolation_level=None)) as db:
                if knows_tables(db) or kept == len(first):
                    yield db
                    return
    finally:
        files.remove_all(copy)


def _first_page(size: int) -> bytes:
    """Of a new store, in a file of so many bytes."""
    page = bytearray(database.empty())
    length = int.from_bytes(page[_PAGE_SIZE], "big")
    page[_VERSIONS] = _LOGGED
    page[_PAGES] = (size // length).to_bytes(4, "big")
    return bytes(page[:length])
