"""Whether the database of chats is well, without touching it."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path
from typing import NamedTuple

from termchat.conversation.database import StoreError, connect_to_read, explain, version_of


class Health(NamedTuple):
    """How many chats there are, without deleted ones, how large their file is in bytes, and what is wrong ("" if nothing)."""

    chats: int
    size: int
    problem: str = ""


def check(path: Path) -> Health | None:
    """Reads the whole file once; None where there is none."""
    try:
        size = path.stat().st_size
        with contextlib.closing(connect_to_read(path)) as db:
            (said,) = db.execute("PRAGMA quick_check(1)").fetchone()
            hidden = " WHERE deleted IS NULL" if version_of(db) >= 3 else ""
            (chats,) = db.execute("SELECT count(*) FROM sessions" + hidden).fetchone()
            return Health(int(chats), size, "" if said == "ok" else f"it is damaged: {said}")
    except FileNotFoundError:
        return None
    except (sqlite3.Error, StoreError, OSError) as error:
        return Health(0, 0, explain(error, path))
