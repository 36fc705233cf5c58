"""What was written and not sent: of each chat, and of the one without a message that every process begins with."""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from termchat.conversation.node import LARGEST_MESSAGE
from termchat.conversation.store import codec
from termchat.conversation.store.schema import text_of

_NEW = "new"
OWN = f"{_NEW} {secrets.token_hex(8)}"
"""Stands for this process's chat without a message, where an id stands for a saved one."""


class UnsentRow(NamedTuple):
    """What the composer had, and what waited for a reply, the next one first."""

    session: str
    text: str
    queue: Sequence[str]


def find_unsent(db: sqlite3.Connection, session: str) -> UnsentRow:
    return next(_select_rows(db, "session = ?", session), UnsentRow(session, "", ()))


def of_others(db: sqlite3.Connection) -> list[UnsentRow]:
    """Those of other processes' chats without a message, the newest first."""
    rows = _select_rows(db, "session LIKE ? ORDER BY rowid DESC", f"{_NEW} %")
    return [row for row in rows if row.session != OWN]


def _select_rows(db: sqlite3.Connection, where: str, value: str) -> Iterator[UnsentRow]:
    columns = f"{text_of('session')}, {text_of('draft')}, {text_of('queue')}"
    for session, text, queue in db.execute(f"SELECT {columns} FROM unsent WHERE {where}", (value,)):
        yield UnsentRow(session, text[:LARGEST_MESSAGE], codec.to_settings(queue, (), tuple[str, ...]))
