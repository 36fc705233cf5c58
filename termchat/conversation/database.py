"""The store's file: how it is made, opened and brought up to date, its modes, and what to do with one that is damaged."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
import time
from pathlib import Path

from termchat.conversation.schema import ADDED, COLUMNS, KEYS, MADE, VERSION

BUSY_S = 2.0
"""How long another process may hold the file before a write counts as failed."""

NEW_S = 10.0
"""In seconds, the age to which an empty file is taken for one that is being made."""

UNREAD = ".unread"
"""What is added to the name of a file that was set aside, for an empty one that says it was not looked through yet."""

BESIDE = ("-journal", "-wal", "-shm")
"""What SQLite adds to a database's name for the files that it keeps beside it."""

REASONS = {
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_READONLY: "the file or its folder is read-only",
    sqlite3.SQLITE_CANTOPEN: "the file cannot be opened",
    sqlite3.SQLITE_PERM: "there is no permission",
    sqlite3.SQLITE_BUSY: "another program keeps it locked",
    sqlite3.SQLITE_LOCKED: "another program keeps it locked",
    sqlite3.SQLITE_IOERR: "the disk does not take the data",
}


_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
"""What may stand where a file should."""


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


def identity(path: Path) -> tuple[int, int] | None:
    """Device and inode: whether the path still is the file that was opened. None when there is no file."""
    with contextlib.suppress(OSError):
        found = path.stat()
        return found.st_dev, found.st_ino
    return None


def real(path: Path) -> Path:
    """The file itself where the path is a link to it: beside that one SQLite keeps its log."""
    return Path(os.path.realpath(path))


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
        os.close(os.open(real(path), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    _set_modes(path)
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
    """Opens the file for reading, also in a folder that nobody may write. Raises as `connect` does."""
    _check_kinds(path)
    address = f"{path.absolute().as_uri()}?mode=ro"
    try:
        return _opened(address, path)
    except sqlite3.OperationalError:
        if os.access(path.parent, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
            raise
        return _opened(f"{address}&immutable=1", path)


def is_emptied(path: Path) -> bool:
    """Whether there is a file with nothing in it, and not because another process makes it at this moment."""
    try:
        found = path.stat()
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_size == 0 and abs(time.time() - found.st_mtime) > NEW_S


def drop_log(path: Path, log: tuple[int, int] | None) -> None:
    """Removes the write-ahead log at the path if it is the one with this identity, left by a file that is gone.

    SQLite takes it for the log of whatever file is there by then, and would write the old pages over the new ones.
    """
    if log is not None and identity(path.with_name(path.name + "-wal")) == log:
        for suffix in ("-wal", "-shm"):
            with contextlib.suppress(OSError):
                path.with_name(path.name + suffix).unlink()


def remove_all(path: Path) -> None:
    """Removes a database with what SQLite keeps beside it, as far as it is there and can be removed."""
    for suffix in ("", *BESIDE):
        with contextlib.suppress(OSError):
            path.with_name(path.name + suffix).unlink()


def set_aside(path: Path) -> Path:
    """Renames a damaged file, and what belongs to it, to NAME.damaged-<time>; returns the new path.

    NAME.damaged-<time>.unread stands beside it until somebody has taken along what it still gives.
    """
    stamp = time.strftime("%Y%m%d-%H%M%S")
    aside = path.with_name(f"{path.name}.damaged-{stamp}")
    count = 1
    while aside.exists():
        count += 1
        aside = path.with_name(f"{path.name}.damaged-{stamp}-{count}")
    os.close(os.open(aside.with_name(aside.name + UNREAD), os.O_CREAT | os.O_WRONLY, 0o600))
    for suffix in ("-wal", "-shm", ""):  # the file last: a log that stays behind would be written into the next one
        with contextlib.suppress(FileNotFoundError):
            path.with_name(path.name + suffix).rename(aside.with_name(aside.name + suffix))
    with contextlib.suppress(OSError):
        aside.chmod(0o600)  # a damaged file was never opened, which is when others are kept out
    return aside


def _code(error: sqlite3.Error) -> int:
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def _check_kinds(path: Path) -> None:
    """Refuses what is no regular file: a pipe would be waited for without end, and a device keeps nothing."""
    file = real(path)
    beside = [file.with_name(file.name + suffix) for suffix in BESIDE]
    for named, found in ((path, file), *zip(beside, beside, strict=True)):
        if kind := _odd_kind(found):
            raise StoreError(f"{named} is {kind}, and no file for chats", "Move it away; a new file is made there.")


def _odd_kind(path: Path) -> str | None:
    """What is at the path, where that is neither a file nor nothing."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return "a link to nothing" if path.is_symlink() else None
    return None if stat.S_ISREG(mode) else _KINDS.get(stat.S_IFMT(mode), "no regular file")


def _opened(address: str, path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(address, uri=True, timeout=BUSY_S, isolation_level=None)
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
    if found == 0 and db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        raise StoreError(f"{path} is a database of another program", "Give termchat another file for its chats.")
    return found


def _back_up(path: Path, version: int) -> Path:
    """A copy of the file beside it, whole or not there. Whoever calls holds the file, so that one name is enough; what a
    process that was killed here left by that name is replaced.
    """
    kept = path.with_name(f"{path.name}.schema-{version}")
    part = kept.with_name(f".{kept.name}.part")
    remove_all(part)
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
        remove_all(part)
        raise
    return kept


def _set_modes(path: Path) -> None:
    """Keeps others out; makes what SQLite keeps beside a file that was read-only for a time as writable as it is again."""
    with contextlib.suppress(OSError):
        mode = path.stat().st_mode
        if mode & 0o077:
            path.chmod(0o600)
        for suffix in ("-wal", "-shm"):
            beside = path.with_name(path.name + suffix)
            if mode & stat.S_IWUSR and beside.exists() and not beside.stat().st_mode & stat.S_IWUSR:
                beside.chmod(0o600)


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
