"""What can still be read from a damaged store: its chats are copied into a new one, row by row."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from pathlib import Path
from typing import NamedTuple

from termchat.conversation.session import ModelRef
from termchat.conversation.store import codec, schema
from termchat.conversation.store.database import StoreError, as_text, connect_to_read, explain_error
from termchat.conversation.store.schema import ADD_SESSION, COLUMNS
from termchat.conversation.store.store_files import UNREAD, mark_of
from termchat.decoding.records import Start
from termchat.decoding.samplers import Tuning


class Health(NamedTuple):
    """The number of chats without deleted ones, the size of their file in bytes, and its fault ("" if it has none)."""

    chats: int
    size: int
    problem: str = ""


def check(path: Path) -> Health | None:
    """Read the whole file once, if it exists."""
    try:
        size = path.stat().st_size
        with contextlib.closing(connect_to_read(path)) as db:
            (said,) = db.execute("PRAGMA quick_check(1)").fetchone()
            (chats,) = db.execute("SELECT count(*) FROM sessions WHERE deleted IS NULL").fetchone()
            return Health(int(chats), size, "" if said == "ok" else f"it is damaged: {said}")
    except FileNotFoundError:
        return None
    except (sqlite3.Error, StoreError, OSError) as error:
        return Health(0, 0, explain_error(error, path))


_TYPES: dict[str, type | tuple[type, ...]] = {"TEXT": str, "INTEGER": int, "REAL": (int, float), "BLOB": bytes}

_TITLE = 60
_UNNAMED = "SELECT DISTINCT session FROM nodes WHERE session NOT IN (SELECT id FROM sessions)"
_FIRST_WORDS = "SELECT substr(text, 1, 1000) FROM nodes WHERE session = ? AND role = 'user' ORDER BY number LIMIT 1"
_FIRST_RECORD = "SELECT record FROM records WHERE session = ? ORDER BY seq LIMIT 1"


def list_unread(path: Path) -> list[Path]:
    """List files that were set aside and not yet copied from, perhaps because a process was ended before it did."""
    marks = sorted(path.parent.glob(f"{path.name}.damaged-*{UNREAD}"))
    found = (mark.with_name(mark.name.removesuffix(UNREAD)) for mark in marks)
    return [aside for aside in found if aside.is_file()]  # a mark is there a moment before its file


def rescue_rows(damaged: Path, db: sqlite3.Connection) -> int | None:
    """Copy the readable rows of a file that was set aside into `db`, all or nothing; return the number of chats.

    None where another process was faster. Where it fails it can be done again.

    Raises:
        sqlite3.Error: `db` takes nothing, or the damaged file cannot even be opened.
    """
    mark = mark_of(damaged)
    with db:
        db.execute("BEGIN IMMEDIATE")
        count = _copy_rows(damaged, db) if mark.exists() else None
    if count is not None:
        with contextlib.suppress(OSError):
            mark.unlink()
    return count


def _copy_rows(damaged: Path, db: sqlite3.Connection) -> int:
    """Copy every row that makes sense; return the number of chats among them, 0 where SQLite finds no tables in the file."""
    chats = set()
    with contextlib.closing(sqlite3.connect(f"{damaged.absolute().as_uri()}?mode=ro", uri=True)) as source:
        source.text_factory = as_text
        with contextlib.suppress(sqlite3.DatabaseError):
            source.execute("PRAGMA writable_schema=ON")  # so that it reads also a file that was cut off
            source.execute("SELECT name FROM sqlite_master").fetchall()
        for table in COLUMNS:
            for row in schema.read(source, table):
                if _makes_sense(table, row):
                    schema.insert_row(db, table, row)
                    if table == "nodes":  # of a chat without a turn there is nothing to read
                        chats.add(row[0])
    for (session,) in db.execute(_UNNAMED).fetchall():
        _name_chat(db, session)
    return len(chats)


def _name_chat(db: sqlite3.Connection, session: str) -> None:
    """Make a row for a chat that lost its own, from its id and its turns; its settings are gone."""
    (words,) = db.execute(_FIRST_WORDS, (session,)).fetchone() or ("",)
    (blob,) = db.execute(_FIRST_RECORD, (session,)).fetchone() or (None,)
    start = codec.to_record(blob) if blob is not None else None
    model, raw = ModelRef(), False
    if isinstance(start, Start):
        model, raw = ModelRef(start.model.name, identity=start.model), start.raw
    try:
        begun = time.mktime(time.strptime(session[:15], "%Y%m%d-%H%M%S"))
    except (ValueError, OverflowError):
        begun = time.time()
    settings = codec.from_settings(model), codec.from_settings(Tuning())
    db.execute(ADD_SESSION, (session, " ".join(words.split())[:_TITLE], begun, "", int(raw), *settings))


def _makes_sense(table: str, row: tuple[object, ...]) -> bool:
    """Return whether a row has values that its columns may have; a page that was written over can give anything."""
    if len(row) != len(COLUMNS[table]):
        return False
    for column, value in zip(COLUMNS[table], row, strict=True):
        kind = _TYPES[column.split()[1]]
        if not isinstance(value, kind) and (value is not None or "NOT NULL" in column):
            return False
    if table == "records":
        try:
            codec.to_record(row[-1])  # type: ignore[arg-type]
        except StoreError:
            return False
    return table != "nodes" or len(row[6]) % 4 == 0  # type: ignore[arg-type]
