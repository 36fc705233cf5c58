"""What is in the store's file: its tables, and the statements that change them.

Chats are in `sessions`, `nodes`, `prompts` and `records`; nothing else is ever needed to read one. `history` has the messages
that were written, for the composer, `unsent` the drafts and queues. The other tables are derived from the chats (see `derived`)
and are made again where they are missing: `tallies` counts, `texts` has what is listed and previewed, `found` is the full-text
index of these texts, folded; `replies` has what a chat needs in memory, so that opening a long one reads no record.
"""

from __future__ import annotations

import contextlib
import sqlite3
from bisect import bisect_left
from collections.abc import Collection, Iterator

# --- what a column gives, whatever is in it: SQLite keeps any value in any column ---------------------------------------


def text_of(column: str) -> str:
    """Return the SQL of a column as text."""
    return f"coalesce(CAST({column} AS TEXT), '')"


def count_of(column: str) -> str:
    """Return the SQL of a column as a whole number that is not negative."""
    return f"max(coalesce(CAST({column} AS INTEGER), 0), 0)"


SOUND_NODE = """typeof(nodes.number) = 'integer' AND nodes.number BETWEEN 1 AND 2147483647
    AND typeof(at) = 'integer' AND at BETWEEN 0 AND 2147483647 AND (parent IS NULL OR typeof(parent) = 'integer')
    AND role IN ('user', 'assistant') AND typeof(prompt_ids) = 'blob' AND length(prompt_ids) % 4 = 0"""
"""The SQL of whether a row of `nodes` has a place in a tree. Any other is as if it were lost."""
BLOB = "CAST(record AS BLOB)"
"""The SQL of a record's bytes."""
LONGEST_KEPT = 64_000
"""Characters of a message in the history at most."""
LONGEST_TITLE = 10_000
"""Characters of a title that are read."""

APPLICATION_ID = 0x74636874
"""`PRAGMA application_id`: "tcht". Files of versions before the first release do not have it."""

VERSION = 1
"""`PRAGMA user_version`."""

COLUMNS = {
    # `deleted`: seconds since the epoch when it was, NULL if it was not. `named`: a person gave the title.
    "sessions": (
        "id TEXT PRIMARY KEY", "title TEXT NOT NULL", "created REAL NOT NULL", "updated REAL NOT NULL",
        "system TEXT NOT NULL", "raw INTEGER NOT NULL", "model TEXT NOT NULL", "tuning TEXT NOT NULL", "leaf INTEGER",
        "breakpoints TEXT NOT NULL DEFAULT '[]'", "view TEXT NOT NULL DEFAULT '{}'",
        "deleted REAL", "named INTEGER NOT NULL DEFAULT 0",
    ),
    "nodes": (
        "session TEXT NOT NULL", "number INTEGER NOT NULL", "parent INTEGER", "at INTEGER NOT NULL",
        "role TEXT NOT NULL", "text TEXT NOT NULL", "prompt_ids BLOB NOT NULL", "whole INTEGER NOT NULL",
        "name TEXT NOT NULL DEFAULT ''", "deleted INTEGER NOT NULL DEFAULT 0", "omitted TEXT NOT NULL DEFAULT ''",
    ),
    # `on_path` marks a Start whose prompt_ids were left out, because they are the ids of the path before its node.
    "records": (
        "seq INTEGER PRIMARY KEY", "session TEXT NOT NULL", "node INTEGER NOT NULL", "on_path INTEGER NOT NULL",
        "record BLOB NOT NULL",
    ),
    "history": ("seq INTEGER PRIMARY KEY", "text TEXT NOT NULL UNIQUE"),
    # `session` may be one that is not in `sessions`: a chat without a message, see `unsent_rows.OWN`. `queue` is a JSON list.
    "unsent": ("session TEXT PRIMARY KEY", "draft TEXT NOT NULL", "queue TEXT NOT NULL"),
    # Of first turns with another system prompt than their chat began with.
    "prompts": ("session TEXT NOT NULL", "node INTEGER NOT NULL", "system TEXT NOT NULL"),
}  # fmt: skip
"""The tables that a damaged file is searched for."""

CHATS = ("sessions", "nodes", "records")
"""The tables that every file has."""

OF_CHATS = (*CHATS, "prompts")

KEYS = {"nodes": ("PRIMARY KEY (session, number)",), "prompts": ("PRIMARY KEY (session, node)",)}

OWNER = {
    "sessions": "id", "nodes": "session", "records": "session", "prompts": "session", "replies": "session",
    "unsent": "session",
}  # fmt: skip
"""The column that says to which session a row belongs."""

DERIVED = (
    "CREATE INDEX records_of_node ON records (session, node)",
    "CREATE INDEX sessions_by_use ON sessions (updated)",
    """CREATE TABLE tallies (
        number INTEGER PRIMARY KEY, session TEXT NOT NULL UNIQUE,
        turns INTEGER NOT NULL DEFAULT 0, tokens INTEGER NOT NULL DEFAULT 0)""",
    # A text's id is its chat's number and its node's, see `derived.text_id`; node 0 is the title. `turns` is 1 for what a
    # person wrote; `whole` is the number of a reply's ids from which on all of its text is shown.
    """CREATE TABLE texts (
        id INTEGER PRIMARY KEY, text TEXT NOT NULL, turns INTEGER NOT NULL, tokens INTEGER NOT NULL,
        whole INTEGER NOT NULL)""",
    "CREATE VIRTUAL TABLE found USING fts5 (folded, tokenize='trigram')",
    """CREATE TRIGGER text_added AFTER INSERT ON texts BEGIN
        UPDATE tallies SET turns = turns + new.turns, tokens = tokens + new.tokens WHERE number = new.id >> 32;
    END""",
    """CREATE TRIGGER text_removed AFTER DELETE ON texts BEGIN
        DELETE FROM found WHERE rowid = old.id;
        UPDATE tallies SET turns = turns - old.turns, tokens = tokens - old.tokens WHERE number = old.id >> 32;
    END""",
    # A reply that has ended, as it is held in memory, and how many records it was made from.
    """CREATE TABLE replies (
        session TEXT NOT NULL, node INTEGER NOT NULL, records INTEGER NOT NULL, packed BLOB NOT NULL,
        PRIMARY KEY (session, node)) WITHOUT ROWID""",
)
"""Indexes, and what is derived."""


def read(db: sqlite3.Connection, table: str, sessions: Collection[str] | None = None) -> Iterator[tuple[object, ...]]:
    """Yield the rows of a table, of some sessions or of all; skip damaged ones."""
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
    """Return the first row id after `place`, where nothing can be read, from which on rows can be read again."""

    def reads(rowid: int) -> bool:
        with contextlib.suppress(sqlite3.DatabaseError):
            found = db.execute(
                f"SELECT rowid, * FROM {table} WHERE rowid >= ? ORDER BY rowid LIMIT 1", (rowid,)
            ).fetchone()
            return found is None or found[0] >= rowid
        return False

    for step in (1 << power for power in range(62)):
        if place + step >= 1 << 62:
            return None
        if reads(place + step):
            passed = range(place + step // 2 + 1, place + step)
            return place + step // 2 + 1 + bisect_left(passed, True, key=reads)
    return None


def insert_row(db: sqlite3.Connection, table: str, row: tuple[object, ...]) -> None:
    """Add a row that `read` gave, unless it is there."""
    db.execute(f"INSERT OR IGNORE INTO {table} VALUES ({','.join('?' * len(row))})", row)


ADD_SESSION = """INSERT INTO sessions (id, title, created, updated, system, raw, model, tuning)
    VALUES (?1, ?2, ?3, ?3, ?4, ?5, ?6, ?7)"""
RENAME = """UPDATE sessions SET title = ?2, named = 1 WHERE id = ?1"""
DATE = "UPDATE sessions SET created = ?2, updated = ?3 WHERE id = ?1"
UPDATE_SESSION = """UPDATE sessions SET updated = ?2, leaf = coalesce(?3, leaf), tuning = coalesce(?4, tuning),
    model = coalesce(?5, model), breakpoints = coalesce(?6, breakpoints), view = coalesce(?7, view) WHERE id = ?1"""
HIDE = "UPDATE sessions SET deleted = ?2 WHERE id = ?1"
ADD_NODE = """INSERT INTO nodes (session, number, parent, at, role, text, prompt_ids, whole, name, deleted, omitted)
    SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11 WHERE EXISTS (SELECT 1 FROM sessions WHERE id = ?1)"""
ADD_PROMPT = """INSERT INTO prompts (session, node, system)
    SELECT ?1, ?2, ?3 WHERE EXISTS (SELECT 1 FROM nodes WHERE session = ?1 AND number = ?2)"""
UPDATE_NODE = """UPDATE nodes SET name = coalesce(?3, name), deleted = coalesce(?4, deleted)
    WHERE session = ?1 AND number = ?2"""
ADD_RECORD = """INSERT INTO records (session, node, on_path, record)
    SELECT ?1, ?2, ?3, ?4 WHERE EXISTS (SELECT 1 FROM nodes WHERE session = ?1 AND number = ?2)"""
PACK_REPLY = """INSERT OR REPLACE INTO replies (session, node, records, packed)
    SELECT ?1, ?2, (SELECT count(*) FROM records WHERE session = ?1 AND node = ?2), ?3
    WHERE EXISTS (SELECT 1 FROM nodes WHERE session = ?1 AND number = ?2)"""
KEEP_UNSENT = "INSERT OR REPLACE INTO unsent (session, draft, queue) VALUES (?1, ?2, ?3)"
DROP_UNSENT = "DELETE FROM unsent WHERE session = ?1"
MESSAGES = f"SELECT {text_of('text')} FROM history WHERE length(text) <= {LONGEST_KEPT} ORDER BY seq"
ADD_MESSAGE = "INSERT OR REPLACE INTO history (text) VALUES (?2)"
TRIM_HISTORY = """DELETE FROM history WHERE seq <= (SELECT seq FROM history ORDER BY seq DESC LIMIT 1 OFFSET ?2)"""
