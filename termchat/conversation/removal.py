"""Chats that a person deleted are hidden first, and gone for good a week later."""

from __future__ import annotations

import sqlite3
import time

from termchat.conversation import index
from termchat.conversation.schema import OWNER

KEPT_S = 7 * 86400.0
"""How long a deleted chat can be brought back, in seconds."""


def purge(db: sqlite3.Connection, session: str) -> None:
    """Removes a chat for good."""
    index.remove(db, session)
    for table, owner in OWNER.items():
        db.execute(f"DELETE FROM {table} WHERE {owner} = ?", (session,))


def purge_expired(db: sqlite3.Connection) -> None:
    """Removes the chats that were deleted long ago, each in a transaction of its own."""
    limit = (time.time() - KEPT_S,)
    for (session,) in db.execute("SELECT id FROM sessions WHERE deleted < ?", limit).fetchall():
        db.execute("BEGIN IMMEDIATE")
        if db.execute("SELECT 1 FROM sessions WHERE id = ? AND deleted < ?", (session, *limit)).fetchone():
            purge(db, session)
        db.execute("COMMIT")
