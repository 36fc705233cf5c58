"""The store's file as a database: how it is made and opened, and what its errors mean."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from functools import partial
from pathlib import Path
from typing import NamedTuple

from termchat import regular_files
from termchat.conversation.store import store_files
from termchat.conversation.store.schema import APPLICATION_ID, CHATS, COLUMNS, DERIVED, KEYS, VERSION

BUSY_S = 2.0
"""How long another process may hold the file before a write counts as failed."""

REASONS = {
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_READONLY: "the file or its folder is read-only",
    sqlite3.SQLITE_CANTOPEN: "the file cannot be opened",
    sqlite3.SQLITE_PERM: "permission denied",
    sqlite3.SQLITE_BUSY: "another program has locked it",
    sqlite3.SQLITE_LOCKED: "another program has locked it",
    sqlite3.SQLITE_IOERR: "the disk rejected the data",
    sqlite3.SQLITE_CORRUPT: "the file is damaged",
    sqlite3.SQLITE_NOTADB: "the file is damaged",
}


_IDENTITY = """SELECT (SELECT application_id FROM pragma_application_id), (SELECT user_version FROM pragma_user_version),
    (SELECT group_concat(name, '/') FROM sqlite_master WHERE type = 'table')"""
"""In one statement, as another process may be making the tables."""

_SQLITE = (3, 34, 0)
"""The first SQLite with the `trigram` tokenizer, that searches need."""

as_text = partial(str, encoding="utf-8", errors="replace")
"""For `text_factory`: a damaged byte leaves a mark, and does not keep a whole list from being read."""


class StoreNotice(NamedTuple):
    """Something about the saved chats that a person should read."""

    message: str
    hint: str = ""


class StoreError(Exception):
    """The store cannot be used or read. `hint` says what to do."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message, self.hint = message, hint


def is_damage(error: BaseException) -> bool:
    """Return whether the file itself is broken, and not only out of reach."""
    return isinstance(error, sqlite3.Error) and _error_code(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def explain_error(error: Exception, path: Path) -> str:
    """Explain an error in a line for people."""
    if isinstance(error, StoreError):
        return error.message
    if isinstance(error, OSError):
        return f"{error.strerror or error} ({error.filename or path})"
    return f"{REASONS.get(_error_code(error), str(error))} ({path})"


def connect_file(path: Path) -> sqlite3.Connection:
    """Open the file for writing; make it, its folder and its tables where they are missing.

    Raises:
        StoreError: the file is of another version of termchat or of another program, or not a regular file; or this SQLite is
            too old.
        sqlite3.Error, OSError: it cannot be opened or written.
    """
    _check_kinds(path)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Only a new file is opened here: closing any descriptor of a database drops all locks this process has on it.
    with contextlib.suppress(FileExistsError):
        os.close(os.open(store_files.resolve_link(path), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    store_files.set_modes(path)
    db = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None)
    db.text_factory = as_text
    try:
        if not _check_schema(db, path):
            _create_tables(db, path)
        _add_tables(db)  # a file from before the first release may lack one
        _start_wal(db)
    except BaseException:
        db.close()
        raise
    return db


def _start_wal(db: sqlite3.Connection) -> None:
    """Have changes written to a log ahead; here SQLite itself waits for no other process that does the same."""
    end = time.monotonic() + BUSY_S
    while True:
        try:
            db.execute("PRAGMA journal_mode=WAL").fetchone()
            return
        except sqlite3.OperationalError as error:
            if _error_code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                raise
            time.sleep(0.01)


def connect_to_read(path: Path) -> sqlite3.Connection:
    """Open the file for reading, also in a read-only folder, and on a full disk. Raises as `connect_file` does."""
    _check_kinds(path)
    address = f"{path.absolute().as_uri()}?mode=ro"
    try:
        return _open_checked(address, path)
    except sqlite3.OperationalError as error:
        may_write = os.access(path.parent, os.W_OK, effective_ids=os.access in os.supports_effective_ids)
        # For a reader, too, SQLite makes an index of the log; without a log it can do without.
        if may_write and not (
            _error_code(error) in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL) and store_files.has_no_log(path)
        ):
            raise
        return _open_checked(f"{address}&immutable=1", path)


def _error_code(error: BaseException) -> int:
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def _check_kinds(path: Path) -> None:
    """Refuse all but regular files: opening a pipe would block, and a device keeps nothing."""
    if sqlite3.sqlite_version_info < _SQLITE:
        raise StoreError(
            f"SQLite {sqlite3.sqlite_version} of this Python is too old to save chats (3.34 is the first that works)",
            "Run termchat with a newer Python.",
        )
    file = store_files.resolve_link(path)
    beside = [file.with_name(file.name + suffix) for suffix in store_files.BESIDE]
    for named, found in ((path, file), *zip(beside, beside, strict=True)):
        if kind := regular_files.odd_kind(found):
            raise StoreError(
                f"{named} is {kind}; termchat needs a regular file for its chats",
                "Move it away; termchat then creates a new file.",
            )


def _open_checked(address: str, path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(address, uri=True, timeout=BUSY_S, isolation_level=None)
    db.text_factory = as_text
    try:
        _check_schema(db, path)
    except BaseException:
        db.close()
        raise
    return db


def _check_schema(db: sqlite3.Connection, path: Path) -> bool:
    """Return whether the file has its tables; False for one that nothing was written to yet.

    Raises:
        StoreError: the file is of another program, or of another version of termchat.
    """
    application, version, names = db.execute(_IDENTITY).fetchone()
    tables = set((names or "").split("/"))
    if not names and not application and not version:
        return False
    if not tables >= set(CHATS) or application not in (0, APPLICATION_ID):
        raise StoreError(f"{path} is a database of another program", "Give termchat another file for its chats.")
    if application == 0:
        raise StoreError(
            f"{path} was written by a development version of termchat (schema {version}), which this one does not read",
            "Export it with the version that wrote it: `termchat sessions export …`, then move the file away.",
        )
    if version > VERSION:
        raise StoreError(
            f"{path} was written by a newer termchat (schema {version}; this one knows {VERSION})",
            "Update termchat, or give it another file.",
        )
    return True


def _add_tables(db: sqlite3.Connection) -> None:
    for table, columns in COLUMNS.items():
        db.execute(f"CREATE TABLE IF NOT EXISTS {table} ({', '.join((*columns, *KEYS.get(table, ())))})")


def _create_tables(db: sqlite3.Connection, path: Path) -> None:
    with db:
        db.execute("BEGIN IMMEDIATE")
        if not _check_schema(db, path):
            _add_tables(db)
            for statement in DERIVED:
                db.execute(statement)
            db.execute(f"PRAGMA application_id={APPLICATION_ID}")
            db.execute(f"PRAGMA user_version={VERSION}")
