"""What a damaged store still gives: every row that can be read and makes sense is taken along, wherever the damage is."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from pathlib import Path

from termchat.conversation import beginning, columns, rows
from termchat.conversation.database import StoreError, as_text
from termchat.conversation.files import UNREAD, mark_of
from termchat.conversation.schema import COLUMNS
from termchat.conversation.session import ModelRef
from termchat.conversation.statements import ADD_SESSION
from termchat.decoding.records import Start
from termchat.decoding.samplers import Tuning

_TYPES: dict[str, type | tuple[type, ...]] = {"TEXT": str, "INTEGER": int, "REAL": (int, float), "BLOB": bytes}

_TITLE = 60
_UNNAMED = "SELECT DISTINCT session FROM nodes WHERE session NOT IN (SELECT id FROM sessions)"
_FIRST_WORDS = "SELECT substr(text, 1, 1000) FROM nodes WHERE session = ? AND role = 'user' ORDER BY number LIMIT 1"
_FIRST_RECORD = "SELECT record FROM records WHERE session = ? ORDER BY seq LIMIT 1"


def unread(path: Path) -> list[Path]:
    """Files that were set aside and not yet looked through, perhaps because the process that began to was ended."""
    marks = sorted(path.parent.glob(f"{path.name}.damaged-*{UNREAD}"))
    found = (mark.with_name(mark.name.removesuffix(UNREAD)) for mark in marks)
    return [aside for aside in found if aside.exists()]  # a mark is there a moment before its file


def rescue(damaged: Path, db: sqlite3.Connection) -> int | None:
    """Copies into `db` what a file that was set aside still gives, all of it or nothing; the number of chats among it.

    None where another process was faster. Where it fails it can be done again.

    Raises:
        sqlite3.Error: `db` takes nothing, or the damaged file cannot even be opened.
    """
    mark = mark_of(damaged)
    db.execute("BEGIN IMMEDIATE")
    try:
        count = _copy(damaged, db) if mark.exists() else None
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise
    if count is not None:
        with contextlib.suppress(OSError):
            mark.unlink()
    return count


def _copy(damaged: Path, db: sqlite3.Connection) -> int:
    with contextlib.closing(sqlite3.connect(f"{damaged.absolute().as_uri()}?mode=ro", uri=True)) as source:
        if beginning.knows_tables(source):
            return _take(source, db)
    with contextlib.suppress(OSError), beginning.mended(damaged) as source:
        return _take(source, db)
    return 0  # there is no room for a copy; the file stays where it is, for other tools


def _take(source: sqlite3.Connection, db: sqlite3.Connection) -> int:
    source.text_factory = as_text
    chats = set()
    for table in COLUMNS:
        for row in rows.read(source, table):
            if _makes_sense(table, row):
                rows.insert(db, table, row)
                if table == "nodes":  # of a chat without a turn there is nothing to read
                    chats.add(row[0])
    for (session,) in db.execute(_UNNAMED).fetchall():
        _name(db, session)
    return len(chats)


def _name(db: sqlite3.Connection, session: str) -> None:
    """Gives a chat that lost its own row another one, from what its id and its turns tell; its settings are gone."""
    (words,) = db.execute(_FIRST_WORDS, (session,)).fetchone() or ("",)
    (blob,) = db.execute(_FIRST_RECORD, (session,)).fetchone() or (None,)
    start = columns.to_record(blob) if blob is not None else None
    model, raw = ModelRef(), False
    if isinstance(start, Start):
        model, raw = ModelRef(start.model.name, identity=start.model), start.raw
    try:
        begun = time.mktime(time.strptime(session[:15], "%Y%m%d-%H%M%S"))
    except (ValueError, OverflowError):
        begun = time.time()
    settings = columns.from_settings(model), columns.from_settings(Tuning())
    db.execute(ADD_SESSION, (session, " ".join(words.split())[:_TITLE], begun, "", int(raw), *settings))


def _makes_sense(table: str, row: tuple[object, ...]) -> bool:
    """Whether a row holds what its columns may hold; a page that was written over can give anything."""
    if len(row) > len(COLUMNS[table]):
        return False
    for column, value in zip(COLUMNS[table], row, strict=False):
        kind = _TYPES[column.split()[1]]
        if not isinstance(value, kind) and (value is not None or "NOT NULL" in column):
            return False
    if table == "records":
        try:
            columns.to_record(row[-1])  # type: ignore[arg-type]
        except StoreError:
            return False
    return table != "nodes" or len(row[6]) % 4 == 0  # type: ignore[arg-type]
