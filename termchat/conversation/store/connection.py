"""The store's file as the writer has it open: repaired when it is opened, and followed where it is replaced."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterable
from pathlib import Path

from termchat.conversation.store import database, repair, schema, store_files
from termchat.conversation.store.database import StoreNotice


class OpenFile:
    """The file at a path and the one connection that writes to it; `tell` is called with notices.

    `db` is None while it is not open. `incomplete` says that lists and searches may lack chats, see `derived.complete`. The
    methods raise what `database.connect` does.
    """

    def __init__(self, path: Path, tell: Callable[[StoreNotice], None]) -> None:
        self._given, self._tell = path, tell
        self._path = path
        self.db: sqlite3.Connection | None = None
        self.incomplete = False
        self._file: tuple[int, int] | None = None
        self._log: tuple[int, int] | None = None
        self._written: set[str] = set()
        self._rescued: dict[str, list[tuple[object, ...]]] = {}

    def connection(self) -> sqlite3.Connection:
        """Return the open connection to the file that is at the path now."""
        if self.db is not None and store_files.identify_file(self._given) != self._file:
            # Somebody removed or replaced the file: what this process wrote goes along to the one that is there now.
            self._rescued = {table: list(schema.read(self.db, table, self._written)) for table in schema.OF_CHATS}
            self.close()
        if self.db is None:
            self._open()
        assert self.db is not None
        self._restore(self.db)
        return self.db

    def committed(self, sessions: Iterable[str]) -> None:
        """Note that changes of these sessions are in the file now."""
        self._log = store_files.identify_file(self._path.with_name(self._path.name + "-wal"))
        self._written.update(sessions)

    def close(self, error: BaseException | None = None) -> None:
        """Close the connection, after an error perhaps; the next `connection` opens another one."""
        if error is not None and database.is_damage(error):
            store_files.mark_broken(self._path, self._file)
        db, self.db = self.db, None
        if db is not None:
            with contextlib.suppress(sqlite3.Error):
                db.close()
            if store_files.identify_file(self._path) != self._file:
                store_files.drop_log(self._path, self._log)

    def _open(self) -> None:
        """Open the file. A damaged one is set aside first, and a new one gets the chats that can be read from it."""
        self._path = store_files.resolve_link(self._given)
        if store_files.is_emptied(self._path) or store_files.is_broken(self._path):
            store_files.set_aside(self._path)
        try:
            db = database.connect_file(self._given)
        except sqlite3.DatabaseError as error:
            if not database.is_damage(error):
                raise
            store_files.set_aside(self._path)
            db = database.connect_file(self._given)
        self._file = store_files.identify_file(self._path)
        try:
            # Perhaps a process that set them aside was ended before it copied their chats.
            for aside in repair.list_unread(self._path):
                if (count := repair.rescue_rows(aside, db)) is not None:
                    message = f"The file of saved chats was damaged. It is now {aside}; a new one was started."
                    chats = "1 chat" if count == 1 else f"{count:,} chats"
                    hint = f"{chats} could be recovered." if count else "Nothing could be recovered."
                    self._tell(StoreNotice(message, hint))
        except BaseException:
            db.close()
            raise
        self.db, self.incomplete = db, True

    def _restore(self, db: sqlite3.Connection) -> None:
        if not any(self._rescued.values()):
            return
        db.execute("BEGIN IMMEDIATE")
        there = set(db.execute("SELECT DISTINCT session, node FROM records"))  # salvaged by another process
        for table, found in self._rescued.items():
            for row in found:
                if table != "records":
                    schema.insert_row(db, table, row)
                elif row[1:3] not in there:
                    schema.insert_row(db, table, (None, *row[1:]))
        db.execute("COMMIT")
        self._rescued = {}
        self._tell(StoreNotice(f"The file of saved chats was removed: {self._path}", "This chat was saved again."))
