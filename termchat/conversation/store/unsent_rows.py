"""What was written and not sent: of each chat, and of the one without a message that every process begins with."""

from __future__ import annotations

import os
import secrets
import sqlite3
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from termchat.conversation.store import codec

_NEW = "new"
OWN = f"{_NEW} {os.getpid()} {secrets.token_hex(4)}"
"""Stands for this process's chat without a message, where an id stands for a saved one."""


class UnsentRow(NamedTuple):
    """What the composer had, and what waited for a reply, the next one first."""

    session: str
    text: str
    queue: Sequence[str]


def of(db: sqlite3.Connection, session: str) -> UnsentRow:
    return next(_rows(db, "session = ?", session), UnsentRow(session, "", ()))


def abandoned(db: sqlite3.Connection) -> list[UnsentRow]:
    """Those of chats without a message whose process has ended, the newest first."""
    rows = _rows(db, "session LIKE ? ORDER BY rowid DESC", f"{_NEW} %")
    return [row for row in rows if row.session != OWN and not _runs(row.session)]


def _rows(db: sqlite3.Connection, where: str, value: str) -> Iterator[UnsentRow]:
    for session, text, queue in db.execute(f"SELECT session, draft, queue FROM unsent WHERE {where}", (value,)):
        yield UnsentRow(session, text, codec.to_settings(queue, (), tuple[str, ...]))


def _runs(new: str) -> bool:
    """Whether the process of a chat without a message runs; where that cannot be told, it does not."""
    number = new.split()[1]
    if sys.platform == "win32" or not number.isdecimal() or int(number) == os.getpid():
        return False
    try:
        os.kill(int(number), 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return True
