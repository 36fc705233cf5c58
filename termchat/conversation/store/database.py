"""The store's file as a database: how it is made, opened and brought up to date, and what its errors mean."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from functools import partial
from pathlib import Path

from termchat.conversation.store import store_files
from termchat.conversation.store.schema import ADDED, COLUMNS, KEYS, MADE, VERSION

BUSY_S = 2.0
"""How long another process may hold the file before a write counts as failed."""

REASONS = {
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_READONLY: "the file or its folder is read-only",
    sqlite3.SQLITE_CANTOPEN: "the file cannot be opened",
    sqlite3.SQLITE_PERM: "there is no permission",
    sqlite3.SQLITE_BUSY: "another program keeps it locked",
    sqlite3.SQLITE_LOCKED: "another program keeps it locked",
    sqlite3.SQLITE_IOERR: "the disk does not take the data",
}


as_text = partial(str, encoding="utf-8", errors="replace")
"""For `text_factory`: a damaged byte leaves a mark, and does not keep a whole list from being read."""


class StoreError(Exception):
    """The store cannot be used or read. `hint` says what to do."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message, self.hint = message, hint


class DamageError(StoreError):
    """What was asked could not be read because the file, or its index, is broken; it is being mended."""


def is_damage(error: sqlite3.Error) -> bool:
    """Whether the file itself is broken, and not only out of reach, nor only the index of its texts."""
    return _code(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB) and not is_index_damage(error)


def is_index_damage(error: sqlite3.Error) -> bool:
    """Whether it is the full-text index that is broken; it can be made anew from the texts."""
    return getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_CORRUPT_VTAB


def explain(error: Exception, path: Path) -> str:
    """Why the file could not be used, in a line for people."""
    if isinstance(error, StoreError):
        return error.message
    if isinstance(error, OSError):
        return f"{error.strerror or error} ({error.filename or path})"
    reason = REASONS.get(_code(error), str(error)) if isinstance(error, sqlite3.Error) else str(error)
    return f"{reason} ({path})"


def connect(path: Path) -> sqlite3.Connection:
    """Opens the file for writing; makes it, its folder and its tables where they are not there.

    Raises:
        StoreError: the file is of a newer termchat, or of another program, or it is none, but a folder or a pipe.
        sqlite3.Error, OSError: it cannot be opened or written.
    """
    _check_kinds(path)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Only a new file is opened here: closing any descriptor of a database drops all locks this process has on it.
    with contextlib.suppress(FileExistsError):
        os.close(os.open(store_files.real(path), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    store_files.set_modes(path)
    db = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None)
    try:
        if _version(db, path) == 0:
            _create(db, path)
        db.execute("PRAGMA journal_mode=WAL").fetchone()
    except BaseException:
        db.close()
        raise
    return db


def upgrade(path: Path) -> Path | None:
    """Brings a file of an older schema to this one; returns where it is kept as it was, or None if there was nothing to do.

    All or nothing: where it fails, the file is still the old one. Raises as `connect` does.
    """
    if not path.exists():
        return None
    _check_kinds(path)
    with contextlib.closing(sqlite3.connect(path, timeout=BUSY_S, isolation_level=None)) as db:
        if _version(db, path) in (0, VERSION):
            return None
        db.execute("BEGIN IMMEDIATE")  # closing without a COMMIT takes all of it back
        before = _version(db, path)
        if before == VERSION:
            return None  # another process was faster
        kept = _back_up(path, before)
        for version in range(before + 1, VERSION + 1):
            for table, names in ADDED.get(version, {}).items():
                for column in COLUMNS[table]:
                    if column.split()[0] in names:
                        db.execute(f"ALTER TABLE {table} ADD COLUMN {column}")
            _make(db, version)
        db.execute(f"PRAGMA user_version={VERSION}")
        db.execute("COMMIT")
    return kept


def empty() -> bytes:
    """A store without a chat, as a file has it."""
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        _create(db, Path(":memory:"))
        return db.serialize()


def version_of(db: sqlite3.Connection) -> int:
    """Of the schema that the file has; a file that nobody could write yet may still have an older one."""
    (found,) = db.execute("PRAGMA user_version").fetchone()
    return int(found)


def connect_to_read(path: Path) -> sqlite3.Connection:
    """Opens the file for reading, also in a folder that nobody may write, and on a full disk. Raises as `connect` does."""
    _check_kinds(path)
    address = f"{path.absolute().as_uri()}?mode=ro"
    try:
        return _opened(address, path)
    except sqlite3.OperationalError as error:
        may_write = os.access(path.parent, os.W_OK, effective_ids=os.access in os.supports_effective_ids)
        # For a reader, too, SQLite makes an index of the log; without a log it can do without.
        if may_write and not (
            _code(error) in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL) and store_files.has_no_log(path)
        ):
            raise
        return _opened(f"{address}&immutable=1", path)


def _code(error: sqlite3.Error) -> int:
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def _check_kinds(path: Path) -> None:
    """Refuses what is no regular file: a pipe would be waited for without end, and a device keeps nothing."""
    file = store_files.real(path)
    beside = [file.with_name(file.name + suffix) for suffix in store_files.BESIDE]
    for named, found in ((path, file), *zip(beside, beside, strict=True)):
        if kind := store_files.odd_kind(found):
            raise StoreError(f"{named} is {kind}, and no file for chats", "Move it away; a new file is made there.")


def _opened(address: str, path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(address, uri=True, timeout=BUSY_S, isolation_level=None)
    db.text_factory = as_text
    try:
        _version(db, path)
    except BaseException:
        db.close()
        raise
    return db


def _version(db: sqlite3.Connection, path: Path) -> int:
    found = version_of(db)
    if found > VERSION:
        raise StoreError(
            f"{path} was written by a newer termchat (schema {found}; this one knows {VERSION})",
            "Update termchat, or give it another file.",
        )
    tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if tables if found == 0 else not tables >= COLUMNS.keys():
        raise StoreError(f"{path} is a database of another program", "Give termchat another file for its chats.")
    return found


def _back_up(path: Path, version: int) -> Path:
    """A copy of the file beside it, whole or not there. Whoever calls holds the file, so that one name is enough; what a
    process that was killed here left by that name is replaced.
    """
    kept = path.with_name(f"{path.name}.schema-{version}")
    part = kept.with_name(f".{kept.name}.part")
    store_files.remove_all(part)
    try:
        os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))  # for nobody else to read
        with (
            contextlib.closing(connect_to_read(path)) as source,
            contextlib.closing(sqlite3.connect(part, isolation_level=None)) as copy,
        ):
            source.backup(copy)
            copy.execute("PRAGMA journal_mode=DELETE").fetchone()  # one file, without a log beside it
        os.replace(part, kept)
    except BaseException:
        store_files.remove_all(part)
        raise
    return kept


def _make(db: sqlite3.Connection, version: int) -> None:
    for statement in MADE.get(version, ()):
        db.execute(statement)


def _create(db: sqlite3.Connection, path: Path) -> None:
    db.execute("BEGIN IMMEDIATE")
    try:
        if _version(db, path) == 0:
            for table, columns in COLUMNS.items():
                db.execute(f"CREATE TABLE {table} ({', '.join((*columns, *KEYS.get(table, ())))})")
            for version in range(1, VERSION + 1):
                _make(db, version)
            db.execute(f"PRAGMA user_version={VERSION}")
        db.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            db.execute("ROLLBACK")
        raise
