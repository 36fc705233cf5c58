"""Store files as earlier versions of termchat made them, word for word."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

TABLES = {
    1: """
        CREATE TABLE sessions (id TEXT PRIMARY KEY, title TEXT NOT NULL, created REAL NOT NULL, updated REAL NOT NULL,
            system TEXT NOT NULL, raw INTEGER NOT NULL, model TEXT NOT NULL, tuning TEXT NOT NULL, leaf INTEGER);
        CREATE TABLE nodes (session TEXT NOT NULL, number INTEGER NOT NULL, parent INTEGER, at INTEGER NOT NULL,
            role TEXT NOT NULL, text TEXT NOT NULL, prompt_ids BLOB NOT NULL, whole INTEGER NOT NULL,
            PRIMARY KEY (session, number));
        CREATE TABLE records (seq INTEGER PRIMARY KEY, session TEXT NOT NULL, node INTEGER NOT NULL,
            on_path INTEGER NOT NULL, record BLOB NOT NULL);
        CREATE INDEX records_of_node ON records (session, node);
    """,
    2: """
        CREATE TABLE sessions (id TEXT PRIMARY KEY, title TEXT NOT NULL, created REAL NOT NULL, updated REAL NOT NULL,
            system TEXT NOT NULL, raw INTEGER NOT NULL, model TEXT NOT NULL, tuning TEXT NOT NULL, leaf INTEGER,
            breakpoints TEXT NOT NULL DEFAULT '[]', view TEXT NOT NULL DEFAULT '{}');
        CREATE TABLE nodes (session TEXT NOT NULL, number INTEGER NOT NULL, parent INTEGER, at INTEGER NOT NULL,
            role TEXT NOT NULL, text TEXT NOT NULL, prompt_ids BLOB NOT NULL, whole INTEGER NOT NULL,
            name TEXT NOT NULL DEFAULT '', deleted INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (session, number));
        CREATE TABLE records (seq INTEGER PRIMARY KEY, session TEXT NOT NULL, node INTEGER NOT NULL,
            on_path INTEGER NOT NULL, record BLOB NOT NULL);
        CREATE INDEX records_of_node ON records (session, node);
    """,
    3: """
        CREATE TABLE sessions (id TEXT PRIMARY KEY, title TEXT NOT NULL, created REAL NOT NULL, updated REAL NOT NULL,
            system TEXT NOT NULL, raw INTEGER NOT NULL, model TEXT NOT NULL, tuning TEXT NOT NULL, leaf INTEGER,
            breakpoints TEXT NOT NULL DEFAULT '[]', view TEXT NOT NULL DEFAULT '{}',
            deleted REAL, named INTEGER NOT NULL DEFAULT 0);
        CREATE TABLE nodes (session TEXT NOT NULL, number INTEGER NOT NULL, parent INTEGER, at INTEGER NOT NULL,
            role TEXT NOT NULL, text TEXT NOT NULL, prompt_ids BLOB NOT NULL, whole INTEGER NOT NULL,
            name TEXT NOT NULL DEFAULT '', deleted INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (session, number));
        CREATE TABLE records (seq INTEGER PRIMARY KEY, session TEXT NOT NULL, node INTEGER NOT NULL,
            on_path INTEGER NOT NULL, record BLOB NOT NULL);
        CREATE INDEX records_of_node ON records (session, node);
        CREATE INDEX sessions_by_use ON sessions (updated);
        CREATE TABLE tallies (
            number INTEGER PRIMARY KEY, session TEXT NOT NULL UNIQUE,
            turns INTEGER NOT NULL DEFAULT 0, tokens INTEGER NOT NULL DEFAULT 0);
        CREATE TABLE texts (
            id INTEGER PRIMARY KEY, text TEXT NOT NULL, turns INTEGER NOT NULL, tokens INTEGER NOT NULL,
            whole INTEGER NOT NULL);
        CREATE VIRTUAL TABLE found USING fts5 (
            text, content='texts', content_rowid='id', prefix='1 2 3', tokenize='unicode61 remove_diacritics 2');
        CREATE TRIGGER text_added AFTER INSERT ON texts BEGIN
            INSERT INTO found (rowid, text) VALUES (new.id, new.text);
            UPDATE tallies SET turns = turns + new.turns, tokens = tokens + new.tokens WHERE number = new.id >> 32;
        END;
        CREATE TRIGGER text_removed AFTER DELETE ON texts BEGIN
            INSERT INTO found (found, rowid, text) VALUES ('delete', old.id, old.text);
            UPDATE tallies SET turns = turns - old.turns, tokens = tokens - old.tokens WHERE number = old.id >> 32;
        END;
    """,
}
TABLES[4] = (
    TABLES[3].replace(
        "deleted INTEGER NOT NULL DEFAULT 0, PRIMARY KEY",
        "deleted INTEGER NOT NULL DEFAULT 0, omitted TEXT NOT NULL DEFAULT '', PRIMARY KEY",
    )
    + """
        CREATE TABLE replies (
            session TEXT NOT NULL, node INTEGER NOT NULL, records INTEGER NOT NULL, packed BLOB NOT NULL,
            PRIMARY KEY (session, node)) WITHOUT ROWID;
"""
)
TABLES[5] = TABLES[4]
TABLES[6] = TABLES[5] + "CREATE TABLE stale (text INTEGER PRIMARY KEY);"


def to_version(path: Path, version: int) -> None:
    """Puts a file of an earlier schema, with the same chats, in the place of one of today's."""
    today = path.rename(path.with_name("today.db"))
    with closing(sqlite3.connect(path, isolation_level=None)) as old:
        old.execute("PRAGMA journal_mode=WAL").fetchone()
        old.executescript(TABLES[version])
        old.execute("ATTACH ? AS today", (str(today),))
        for table in ("sessions", "nodes", "records"):
            names = ",".join(row[1] for row in old.execute(f"PRAGMA main.table_info({table})"))
            old.execute(f"INSERT INTO main.{table} ({names}) SELECT {names} FROM today.{table} ORDER BY rowid")
        old.execute(f"PRAGMA user_version={version}")
    path.chmod(0o600)
    today.unlink()
