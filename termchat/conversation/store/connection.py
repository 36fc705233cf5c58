"""The store's file as the writer holds it: opened, made anew where it is damaged, and followed where it is replaced."""

from __future__ import annotations

import contextlib
import enum
import sqlite3
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from termchat.conversation.store import database, repair, schema, store_files


class StoreNotice(msgspec.Struct, frozen=True):
    """Something about the saved chats that a person should read."""

    message: str
    hint: str = ""


class Left(enum.IntEnum):
    """What is left to do to the file's contents beside writing what is queued."""

    NOTHING = 0
    OLDER = 1
    """Something is there in an older way, and is of use so: nobody waits for it."""
    MISSING = 2
    """Something that lists and searches read may not be there at all."""


class HeldFile:
    """The file at a path and the one connection that writes to it; `tell` is called with what there is to tell.

    `db` is None while it is not open. `left` is what nobody has made sure of since it was opened.
    `salvaging` says that chats are still in a file that was set aside. The other methods raise what `database.connect` does.
    """

    def __init__(self, path: Path, tell: Callable[[StoreNotice], None]) -> None:
        self._given, self._tell = path, tell
        self._path = path
        self.db: sqlite3.Connection | None = None
        self.left = Left.NOTHING
        self.salvaging = False
        self._file: tuple[int, int] | None = None
        self._log: tuple[int, int] | None = None
        self._written: set[str] = set()
        self._rescued: dict[str, list[tuple[object, ...]]] = {}

    def connection(self) -> sqlite3.Connection:
        """The open connection, to the file that is at the path now."""
        if self.db is not None and store_files.identity(self._given) != self._file:
            # Somebody removed or replaced the file: what this process wrote goes along to the one that is there now.
            self._rescued = {table: list(schema.read(self.db, table, self._written)) for table in schema.COLUMNS}
            self.close()
        db = self.db or self._opened()
        if self.salvaging:
            self._salvage(db)
        self._restore(db)
        return db

    def committed(self, sessions: Iterable[str]) -> None:
        """Changes of these sessions are in the file now."""
        self._log = store_files.identity(self._path.with_name(self._path.name + "-wal"))
        self._written.update(sessions)

    def start_anew(self) -> None:
        """Sets the damaged file aside, starts a new one and keeps what can be read of the old."""
        self.close()
        if store_files.identity(self._path) != self._file:
            return  # another process has done so already
        self.salvaging = True
        store_files.set_aside(self._path)
        self.connection()

    def close(self) -> None:
        """Closes the connection; the next `connection` opens another one."""
        db, self.db = self.db, None
        if db is not None:
            with contextlib.suppress(sqlite3.Error):
                db.close()
            if store_files.identity(self._path) != self._file:
                store_files.drop_log(self._path, self._log)

    def _opened(self) -> sqlite3.Connection:
        self._path = store_files.real(self._given)
        if store_files.is_emptied(self._path):
            store_files.set_aside(self._path)
        self.salvaging = bool(repair.unread(self._path))
        self._file = store_files.identity(self._path)
        self._upgrade()
        self.db = database.connect(self._given)
        self._file = store_files.identity(self._path)
        self.left = Left.MISSING
        return self.db

    def _upgrade(self) -> None:
        kept = database.upgrade(self._path)
        if kept is not None:
            self._tell(StoreNotice("The saved chats were brought to this version's format.", f"As they were: {kept}"))

    def _restore(self, db: sqlite3.Connection) -> None:
        if not any(self._rescued.values()):
            return
        db.execute("BEGIN IMMEDIATE")
        there = set(db.execute("SELECT DISTINCT session, node FROM records"))  # salvaged by another process
        for table, found in self._rescued.items():
            for row in found:
                if table != "records":
                    schema.insert(db, table, row)
                elif row[1:3] not in there:
                    schema.insert(db, table, (None, *row[1:]))
        db.execute("COMMIT")
        self._rescued = {}
        self._tell(StoreNotice(f"The chats' file was removed: {self._path}", "This chat was written again."))

    def _salvage(self, db: sqlite3.Connection) -> None:
        """Takes along what the files that were set aside still give."""
        for aside in repair.unread(self._path):
            count = repair.rescue(aside, db)
            if count is not None:
                message = f"The file of saved chats was damaged. It is now {aside}; a new one was started."
                self._tell(StoreNotice(message, _kept(count)))
                self.left = Left.MISSING
        self.salvaging = False


def _kept(chats: int) -> str:
    if chats == 0:
        return "Nothing of it could be kept."
    said = "1 chat could be read from it and was" if chats == 1 else f"{chats:,} chats could be read from it and were"
    return f"{said} kept."
