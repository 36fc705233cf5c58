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
}


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
