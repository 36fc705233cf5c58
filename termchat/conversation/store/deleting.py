"""Copies of chats within the store, and chats that are removed for good."""

from __future__ import annotations

import sqlite3
import time

from termchat.conversation.store import derived
from termchat.conversation.store.schema import OWNER

COPY = (
    """INSERT INTO sessions
        (id, title, created, updated, system, raw, model, tuning, leaf, breakpoints, view, deleted, named)
        SELECT :copy, title, created, updated, system, raw, model, tuning, leaf, breakpoints, view, NULL, named
        FROM sessions WHERE id = :session""",
    """INSERT INTO nodes SELECT :copy, number, parent, at, role, text, prompt_ids, whole, name, deleted, omitted
        FROM nodes WHERE session = :session AND number < :number""",
    """INSERT INTO prompts SELECT :copy, node, system FROM prompts WHERE session = :session AND node < :number""",
    """INSERT INTO records (session, node, on_path, record) SELECT :copy, node, on_path, record
        FROM records WHERE session = :session AND node < :number AND seq <= :seq ORDER BY seq""",
    """INSERT INTO replies SELECT :copy, node, records, packed
        FROM replies WHERE session = :session AND node < :number""",
)
"""A copy of a chat as it was before node :number and up to record :seq. A packed reply counts with all of its records alone."""

ALL = 2**63 - 1
"""More than any node or record has as its number."""

KEPT_S = 7 * 86400.0
"""How long a deleted chat can be restored, in seconds."""


def copy_session(db: sqlite3.Connection, to: str, session: str, before: int = ALL, seq: int = ALL) -> None:
    """Copy a chat as it was before the node `before`, with the records up to place `seq`."""
    for statement in COPY:
        db.execute(statement, {"session": session, "copy": to, "number": before, "seq": seq})


def purge_session(db: sqlite3.Connection, session: str) -> None:
    derived.remove_tally(db, session)
    for table, owner in OWNER.items():
        db.execute(f"DELETE FROM {table} WHERE {owner} = ?", (session,))


def purge_expired(db: sqlite3.Connection) -> None:
    """Remove the chats that were deleted more than `KEPT_S` ago, each in a transaction of its own."""
    limit = (time.time() - KEPT_S,)
    for (session,) in db.execute("SELECT id FROM sessions WHERE deleted < ?", limit).fetchall():
        with db:
            db.execute("BEGIN IMMEDIATE")
            if db.execute("SELECT 1 FROM sessions WHERE id = ? AND deleted < ?", (session, *limit)).fetchone():
                purge_session(db, session)
