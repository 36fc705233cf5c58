"""Stores as earlier versions left them, full of chats."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import NamedTuple

import msgspec

from termchat.conversation.store import codec
from termchat.decoding.records import Record
from tests.conversation.older_stores import TABLES
from tests.made_records import stream

ROLES = ("assistant", "user")
CHATS, TURNS, TOKENS = 30, 2, 40
SAID = "ที่นี่สวย 👍"
"""What a person says in each turn: only today's index has each part of it."""


MARKED = {
    5: SAID,
    6: "ท\ue000\uee35\ue000\uee48\x1fน\ue000\uee35\ue000\uee48\x1fส\x1fว\x1fย \x1f\ue01f\ue44d\x1f",
}
"""The same as versions have it in their index that did so in another way than today's."""


class Old(NamedTuple):
    """The bytes of a file, and the records of each reply in it by session and node."""

    data: bytes
    records: dict[tuple[str, int], list[Record]]


@cache
def old(version: int, folder: Path) -> Old:
    """A store of a version, made in a folder."""
    path = folder / f"schema-{version}.db"
    held: dict[tuple[str, int], list[Record]] = {}
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.executescript(f"{TABLES[version]}; PRAGMA user_version={version}")
        db.execute("BEGIN")
        for chat in range(CHATS):
            session, last = f"2025-{chat:04}", 2 * TURNS
            db.execute(
                """INSERT INTO sessions (id, title, created, updated, system, raw, model, tuning, leaf)
                VALUES (?, ?, 1, 2, '', 0, '{}', '{}', ?)""",
                (session, f"chat {chat}", last),
            )
            for number in range(1, last + 1):
                asks = number % 2 == 1
                ids = [chat, number] if asks else []
                parent, at = (number - 1 or None), 0 if number == 1 else TOKENS if asks else 2
                db.execute(
                    "INSERT INTO nodes (session, number, parent, at, role, text, prompt_ids, whole) VALUES (?,?,?,?,?,?,?,0)",
                    (session, number, parent, at, ROLES[asks], SAID * asks, codec.from_ids(ids)),
                )  # fmt: skip
                if not asks:
                    records = stream([chat, number], [b"word "] * TOKENS)
                    held[session, number] = records
                    rows = ((session, number, msgspec.msgpack.encode(record)) for record in records)
                    db.executemany("INSERT INTO records (session, node, on_path, record) VALUES (?, ?, 0, ?)", rows)
        if version in MARKED:  # what else has to be brought up to date
            rows = enumerate(dict.fromkeys(session for session, _ in held), start=1)
            for tally, session in rows:
                db.execute("INSERT INTO tallies (number, session) VALUES (?, ?)", (tally, session))
                for number in range(1, 2 * TURNS + 1):
                    text, turns, tokens = (MARKED[version], 1, 0) if number % 2 else ("word " * TOKENS, 0, TOKENS)
                    values = (tally << 32 | number, text, turns, tokens, tokens)
                    db.execute("INSERT INTO texts (id, text, turns, tokens, whole) VALUES (?, ?, ?, ?, ?)", values)
        db.execute("COMMIT")
        db.execute("PRAGMA journal_mode=WAL")  # as every version left it
    return Old(path.read_bytes(), held)
