"""What was written and not sent: of each chat, and of the one without a message that every process begins with."""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Sequence
from typing import NamedTuple

from termchat.conversation.node import LARGEST_MESSAGE
from termchat.conversation.store import codec
from termchat.conversation.store.schema import text_of

OWN = f"new {secrets.token_hex(8)}"
"""Stands for this process's chat without a message, where an id stands for a saved one."""


class UnsentRow(NamedTuple):
    """What the composer had, and what waited for a reply, the next one first."""

    session: str
    text: str
    queue: Sequence[str]


def read(db: sqlite3.Connection, where: str, value: str) -> list[UnsentRow]:
    """Read rows, the newest first."""
    columns = f"{text_of('session')}, {text_of('draft')}, {text_of('queue')}"
    rows = db.execute(f"SELECT {columns} FROM unsent WHERE {where} ORDER BY rowid DESC", (value,))
    return [
        UnsentRow(session, text[:LARGEST_MESSAGE], codec.to_settings(queue, (), tuple[str, ...]))
        for session, text, queue in rows
    ]
