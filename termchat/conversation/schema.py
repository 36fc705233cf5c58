"""What is in the store's file: tables, what each version of the schema brought, and what is derived.

Chats are in `sessions`, `nodes` and `records`; nothing else is ever needed to read one. The other tables are derived from
these (see `index`) and are made anew wherever they are missing: `tallies` counts, `texts` has what is searched, `found` is
its full-text index, `stale` names texts that it has in an older way; `replies` has what a chat needs in memory, so that
opening a long one reads no record.
"""

from __future__ import annotations

VERSION = 7
"""Of the schema, kept in `PRAGMA user_version`."""

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
}  # fmt: skip
"""The tables. What a version adds stands at the end and has a default, so that rows of an older file fit as they are."""

KEYS = {"nodes": ("PRIMARY KEY (session, number)",)}

OWNER = {"sessions": "id", "nodes": "session", "records": "session", "replies": "session"}
"""The column that says to which session a row belongs."""

ADDED: dict[int, dict[str, tuple[str, ...]]] = {
    2: {"sessions": ("breakpoints", "view"), "nodes": ("name", "deleted")},
    3: {"sessions": ("deleted", "named")},
    4: {"nodes": ("omitted",)},
}
"""The columns that a version brought, by table."""

_REMOVED = """CREATE TRIGGER text_removed AFTER DELETE ON texts BEGIN
            INSERT INTO found (found, rowid, text) VALUES ('delete', old.id, old.text);
            UPDATE tallies SET turns = turns - old.turns, tokens = tokens - old.tokens WHERE number = old.id >> 32;
        END"""

MADE = {
    1: ("CREATE INDEX records_of_node ON records (session, node)",),
    3: (
        "CREATE INDEX sessions_by_use ON sessions (updated)",
        """CREATE TABLE tallies (
            number INTEGER PRIMARY KEY, session TEXT NOT NULL UNIQUE,
            turns INTEGER NOT NULL DEFAULT 0, tokens INTEGER NOT NULL DEFAULT 0)""",
        # A text's id is its chat's number and its node's, see `index.text_id`; node 0 is the title. `turns` is 1 for what a
        # person wrote; `whole` is the number of a reply's ids from which on all of its text is shown.
        """CREATE TABLE texts (
            id INTEGER PRIMARY KEY, text TEXT NOT NULL, turns INTEGER NOT NULL, tokens INTEGER NOT NULL,
            whole INTEGER NOT NULL)""",
        """CREATE VIRTUAL TABLE found USING fts5 (
            text, content='texts', content_rowid='id', prefix='1 2 3', tokenize='unicode61 remove_diacritics 2')""",
        """CREATE TRIGGER text_added AFTER INSERT ON texts BEGIN
            INSERT INTO found (rowid, text) VALUES (new.id, new.text);
            UPDATE tallies SET turns = turns + new.turns, tokens = tokens + new.tokens WHERE number = new.id >> 32;
        END""",
        _REMOVED,
    ),
    # A reply that has ended, as it is held in memory, and how many records it was made from.
    4: (
        """CREATE TABLE replies (
            session TEXT NOT NULL, node INTEGER NOT NULL, records INTEGER NOT NULL, packed BLOB NOT NULL,
            PRIMARY KEY (session, node)) WITHOUT ROWID""",
    ),
    # Since then characters stand apart in `texts` where a script has no spaces, see `wordless`; all are made anew.
    5: (
        "DROP TRIGGER text_removed",
        "DELETE FROM texts",
        "DELETE FROM tallies",
        "INSERT INTO found (found) VALUES ('delete-all')",
        _REMOVED,
    ),
    # Since then more scripts have their characters apart, and emoji are found. Texts that may have any wait to be made anew
    # from themselves, see `index.mark_anew`.
    6: (
        "CREATE TABLE stale (text INTEGER PRIMARY KEY)",
        "INSERT INTO stale SELECT id FROM texts WHERE length(text) < length(CAST(text AS BLOB))",
    ),
    # Since then characters stand in pairs where a script has no spaces. Texts that may have any wait as above.
    7: ("INSERT OR IGNORE INTO stale SELECT id FROM texts WHERE length(text) < length(CAST(text AS BLOB))",),
}
"""What else a version brought, in order."""
