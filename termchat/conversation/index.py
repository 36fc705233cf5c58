"""What is derived from chats so that many can be listed and searched at once: how much is in each, and their texts.

It is kept up to date by the same writes that change a chat: a message at once, a reply when it has ended, none of it while
tokens stream. What is missing is made from the records (see `complete`): for files of an older schema, for chats that were
saved from a damaged file. Texts that an older termchat marked for the index are marked as they are now (see `mark_anew`), and
found as they were until then. Branches that a person deleted are not in it.
"""

from __future__ import annotations

import builtins
import sqlite3
from collections.abc import Iterator
from time import monotonic
from typing import NamedTuple

import msgspec

from termchat.conversation import columns
from termchat.conversation.database import StoreError, is_index_damage
from termchat.conversation.node import Node
from termchat.conversation.wordless import apart, together
from termchat.decoding.escapes import well_formed
from termchat.decoding.records import Failed, Finished

TITLE = 0
"""The node number of a chat's title."""

ADD = "INSERT OR IGNORE INTO texts (id, text, turns, tokens, whole) VALUES (?, ?, ?, ?, ?)"
OF_CHAT = "id BETWEEN ?1 << 32 AND (?1 << 32) + 4294967295"

MISSING = """SELECT id FROM sessions WHERE NOT EXISTS (SELECT 1 FROM tallies WHERE session = sessions.id) LIMIT 1"""

STALE = """SELECT stale.text, texts.text, turns, tokens, whole
    FROM stale LEFT JOIN texts ON id = stale.text ORDER BY stale.text DESC LIMIT 1"""

HIDDEN = """WITH RECURSIVE gone (number) AS (
        SELECT number FROM nodes WHERE session = ?1 AND deleted
        UNION SELECT nodes.number FROM nodes JOIN gone ON nodes.parent = gone.number WHERE nodes.session = ?1)
    SELECT number FROM gone"""


class _Piece(msgspec.Struct, frozen=True, array_like=True, tag="token", gc=False):
    """The beginning of a `Token`, up to its text."""

    step: int
    position: int
    id: int
    bytes: builtins.bytes
    text: str


class _Start(msgspec.Struct, frozen=True, array_like=True, tag="start"):
    """Nothing of a `Start`."""


class _Settings(msgspec.Struct, frozen=True, array_like=True, tag="settings"):
    """Nothing of a `Settings`."""


class _Prefill(msgspec.Struct, frozen=True, array_like=True, tag="prefill"):
    """Nothing of a `Prefill`."""


_decode = msgspec.msgpack.Decoder(_Piece | _Start | _Settings | _Prefill | Finished | Failed).decode
"""Reads of a record only what a text needs, in a fraction of the time."""


class Said(NamedTuple):
    """The text of a reply, how many tokens it has, from how many on all of the text is shown, and whether it ended."""

    text: str
    tokens: int
    whole: int
    ended: bool


def text_id(tally: int, node: int) -> int:
    """The id of a node's text: the number of the chat's tally, then the node's."""
    return tally << 32 | node


def said(db: sqlite3.Connection, session: str, number: int, count: int | None = None, continued: bool = False) -> Said:
    """What the reply in a node says, or what its first `count` tokens say, as far as it can be read; see `Node.continued`."""
    texts: list[str] = []
    end: Finished | Failed | None = None
    for blob in _blobs(db, session, number):
        try:
            record = _decode(blob)
        except msgspec.MsgspecError:
            break
        if isinstance(record, _Piece):
            texts.append(record.text)
        elif isinstance(record, (Finished, Failed)):
            end = end if isinstance(end, Finished) else record
    if isinstance(end, Finished) and end.reason == "stop":
        return _said_before_stop(db, session, number, count, continued)
    held = end.held if isinstance(end, Finished) and (count is None or count >= len(texts)) else ""
    text = "".join(texts if count is None else texts[:count]) + held
    return Said(well_formed(text), len(texts), len(texts), end is not None)


def begin(db: sqlite3.Connection, session: str) -> None:
    """A tally for a new chat, and its title."""
    db.execute("INSERT OR IGNORE INTO tallies (session) SELECT id FROM sessions WHERE id = ?", (session,))
    retitle(db, session)


def retitle(db: sqlite3.Connection, session: str) -> None:
    """The chat's title, anew."""
    tally = _tally(db, session)
    if tally is not None:
        (title,) = db.execute("SELECT title FROM sessions WHERE id = ?", (session,)).fetchone()
        _replace(db, text_id(tally, TITLE), title, 0, 0, 0)


def add(db: sqlite3.Connection, session: str, number: int) -> None:
    """The text of a node that is complete, anew; nothing where there is no such node."""
    tally = _tally(db, session)
    row = db.execute("SELECT role, text FROM nodes WHERE session = ? AND number = ?", (session, number)).fetchone()
    if tally is not None and row is not None:
        _add(db, session, tally, number, *row)


def add_if_missing(db: sqlite3.Connection, session: str, number: int) -> None:
    """The text of a node that something grows from now: of a reply whose end was never written it is not there yet."""
    tally = _tally(db, session)
    if tally is not None and _known(db, tally, number) is None:
        add(db, session, number)


def refresh(db: sqlite3.Connection, session: str) -> None:
    """Brings a chat's texts in line with its nodes: after some were hidden or came back, or where there are none yet."""
    begin(db, session)
    tally = _tally(db, session)
    if tally is None:
        return
    hidden = {number for (number,) in db.execute(HIDDEN, (session,))}
    known = {text & 0xFFFFFFFF for (text,) in db.execute(f"SELECT id FROM texts WHERE {OF_CHAT}", (tally,))} - {TITLE}
    nodes = db.execute("SELECT number, parent, role, text FROM nodes WHERE session = ?", (session,)).fetchall()
    parents = {parent for _, parent, _, _ in nodes}
    for number in known & hidden:
        _change(db, "DELETE FROM texts WHERE id = ?", (text_id(tally, number),))
    for number, _, role, text in nodes:
        if number not in hidden and number not in known:
            _add(db, session, tally, number, role, text, partly=number in parents)


def remove(db: sqlite3.Connection, session: str) -> None:
    """Forgets all that is derived from a chat."""
    tally = _tally(db, session)
    if tally is not None:
        _change(db, f"DELETE FROM texts WHERE {OF_CHAT}", (tally,))
        db.execute("DELETE FROM tallies WHERE number = ?", (tally,))


def rebuild(db: sqlite3.Connection, *_: object) -> None:
    """Makes the full-text index anew from the texts."""
    db.execute("INSERT INTO found (found) VALUES ('rebuild')")


def complete(db: sqlite3.Connection, seconds: float) -> bool:
    """Works for about `seconds` on chats that have nothing derived yet, one transaction each; whether more are left."""
    end = monotonic() + seconds
    while (found := db.execute(MISSING).fetchone()) is not None:
        if monotonic() > end:
            return True
        db.execute("BEGIN IMMEDIATE")
        refresh(db, found[0])
        db.execute("COMMIT")
    return False


def mark_anew(db: sqlite3.Connection, seconds: float) -> bool:
    """Works for about `seconds` on texts that are marked in an older way, the newest first, in one transaction, which is
    not made to be on the disk at once: it can be done again. Whether more are left."""
    if not waits(db):
        return False
    end = monotonic() + seconds
    db.execute("PRAGMA synchronous=NORMAL")
    db.execute("BEGIN IMMEDIATE")
    left = True
    while left and monotonic() < end:
        left = _mark_anew(db)
    db.execute("COMMIT")
    return left


def waits(db: sqlite3.Connection) -> bool:
    """Whether there are texts that are still marked in an older way."""
    return db.execute("SELECT 1 FROM stale LIMIT 1").fetchone() is not None


def _mark_anew(db: sqlite3.Connection) -> bool:
    """Marks the newest text that is marked in an older way as it is now, where that differs; whether there was one."""
    row = db.execute(STALE).fetchone()
    if row is None:
        return False
    number, marked, *counts = row
    if marked is not None and apart(text := together(marked)) != marked:
        _replace(db, number, text, *counts)
    db.execute("DELETE FROM stale WHERE text = ?", (number,))
    return True


def _add(
    db: sqlite3.Connection, session: str, tally: int, number: int, role: str, text: str, partly: bool = True
) -> None:
    if role == "user":
        _replace(db, text_id(tally, number), text, 1, 0, 0)
        return
    found = said(db, session, number)
    if found.ended or partly:
        _replace(db, text_id(tally, number), found.text, 0, found.tokens, found.whole)


def _replace(db: sqlite3.Connection, number: int, text: str, turns: int, tokens: int, whole: int) -> None:
    _change(db, "DELETE FROM texts WHERE id = ?", (number,))
    _change(db, ADD, (number, apart(text), turns, tokens, whole))


def _change(db: sqlite3.Connection, statement: str, values: tuple[object, ...]) -> None:
    """Changes `texts`; a full-text index that turns out to be broken is made anew."""
    try:
        db.execute(statement, values)
    except sqlite3.DatabaseError as error:
        if not is_index_damage(error):
            raise
        rebuild(db)
        db.execute(statement, values)


def _tally(db: sqlite3.Connection, session: str) -> int | None:
    row = db.execute("SELECT number FROM tallies WHERE session = ?", (session,)).fetchone()
    return int(row[0]) if row is not None else None


def _known(db: sqlite3.Connection, tally: int, number: int) -> int | None:
    row = db.execute("SELECT id FROM texts WHERE id = ?", (text_id(tally, number),)).fetchone()
    return int(row[0]) if row is not None else None


def _blobs(db: sqlite3.Connection, session: str, number: int) -> Iterator[bytes]:
    statement = "SELECT record FROM records WHERE session = ? AND node = ? ORDER BY seq"
    return (blob for (blob,) in db.execute(statement, (session, number)))


def _said_before_stop(db: sqlite3.Connection, session: str, number: int, count: int | None, continued: bool) -> Said:
    """The same for a reply that a stop sequence ended: which of its tokens are shown takes all of their records."""
    node = Node(number, None, 0, "assistant")
    node.continued = continued
    for blob in _blobs(db, session, number):
        try:
            node.add(columns.to_record(blob))
        except StoreError:
            break
    return Said(well_formed(node.text(count)), len(node.ids), node.kept(), True)
