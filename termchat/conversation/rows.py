"""Whole rows of the store's tables: read around whatever is damaged, and put into another file."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Collection, Iterator

from termchat.conversation.schema import COLUMNS, OWNER


def read(db: sqlite3.Connection, table: str, sessions: Collection[str] | None = None) -> Iterator[tuple[object, ...]]:
    """The rows of a table, of some sessions or of all; what is damaged is passed over."""
    wanted, values = "", tuple(sessions or ())
    if sessions is not None:
        wanted = f"AND {OWNER[table]} IN ({','.join('?' * len(values))})"
    place: int | None = 0
    while place is not None:
        found = db.cursor()
        try:
            found.execute(f"SELECT rowid, * FROM {table} WHERE rowid >= ? {wanted} ORDER BY rowid", (place, *values))
            for rowid, *row in found:
                if rowid < place:
                    raise sqlite3.DatabaseError("the pages lead in a circle")
                place = rowid + 1
                yield tuple(row)
            return
        except sqlite3.DatabaseError:
            place = _readable_from(db, table, place)


def _readable_from(db: sqlite3.Connection, table: str, place: int) -> int | None:
    """The first row id found behind `place`, where nothing can be read, from which on there is something to read again."""

    def reads(rowid: int) -> bool:
        with contextlib.suppress(sqlite3.DatabaseError):
            found = db.execute(
                f"SELECT rowid, * FROM {table} WHERE rowid >= ? ORDER BY rowid LIMIT 1", (rowid,)
            ).fetchone()
            return found is None or found[0] >= rowid
        return False

    step = 1
    while not reads(place + step):
        step *= 2
        if place + step >= 1 << 62:
            return None
    low, high = place + step // 2, place + step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reads(middle) else (middle, high)
    return high


def insert(db: sqlite3.Connection, table: str, row: tuple[object, ...]) -> None:
    """Adds a row that `read` gave, perhaps of an older file, unless it is there."""
    names = ",".join(column.split()[0] for column in COLUMNS[table][: len(row)])
    db.execute(f"INSERT OR IGNORE INTO {table} ({names}) VALUES ({','.join('?' * len(row))})", row)
