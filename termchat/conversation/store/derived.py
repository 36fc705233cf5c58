"""What is derived from chats so that many can be listed, searched and previewed at once: how much is in each, and their texts.

It is kept up to date by the same writes that change a chat: a message at once, a reply when it has ended, nothing while tokens
stream. What is missing is made from the records (see `complete`), for chats that were copied from a damaged file. Branches that
a person deleted are not in it.
"""

from __future__ import annotations

import contextlib
import json
import re
import sqlite3
import unicodedata
from collections import Counter
from time import monotonic
from typing import NamedTuple

import msgspec

from termchat.conversation.node import Node
from termchat.conversation.session import SessionSummary
from termchat.conversation.store import codec
from termchat.conversation.store.database import StoreError
from termchat.conversation.store.schema import BLOB, SOUND_NODE, text_of
from termchat.decoding.escapes import well_formed

_PAD = "  "
"""Ends each text of the index, so that a trigram begins at each of its characters."""

_ACCENTED = "\u0530"
"""Scripts before this character (Latin, Greek, Cyrillic) are searched without accents; elsewhere these make other letters."""


_UNSEEN = "[\xad\u200b\ufe00-\ufe0f\ufeff\U000e0100-\U000e01ef]"
"""Places where a line may break, and variants of characters: not searched."""


class _Folding(dict[int, str]):
    """For `str.translate`: each character without case and accents, white space as a space. Always one for one."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        base = unicodedata.normalize("NFD", char)[0]
        folded = (base if base < _ACCENTED else char).casefold()
        if char.isspace() or code < 32:
            folded = " "
        self[code] = folded if len(folded) == 1 else char
        return self[code]


_FOLDING = _Folding()


def normalise_shown(text: str) -> str:
    """Return the text as snippets show it, character by character as long as `folded`."""
    return text if text.isascii() else re.sub(_UNSEEN, "", unicodedata.normalize("NFKC", text))


def fold_text(text: str) -> str:
    """Return the text as it is searched: full width, ligatures, case and accents do not matter."""
    return normalise_shown(text).translate(_FOLDING)


TITLE = 0
"""The node number of a chat's title."""

ADD = "INSERT OR IGNORE INTO texts (id, text, turns, tokens, whole) VALUES (?, ?, ?, ?, ?)"
ADD_FOLDED = "INSERT OR REPLACE INTO found (rowid, folded) VALUES (?, ?)"
OF_CHAT = "id BETWEEN ?1 << 32 AND (?1 << 32) + 4294967295"

MISSING = """SELECT id FROM sessions
    WHERE typeof(id) = 'text' AND NOT EXISTS (SELECT 1 FROM tallies WHERE session = sessions.id) LIMIT 1"""

HIDDEN = """WITH RECURSIVE gone (number) AS (
        SELECT number FROM nodes WHERE session = ?1 AND deleted
        UNION SELECT nodes.number FROM nodes JOIN gone ON nodes.parent = gone.number WHERE nodes.session = ?1)
    SELECT number FROM gone"""


TITLE_OF = f"SELECT {text_of('title')} FROM sessions WHERE id = ?"
NODES = f"SELECT number, parent, role, {text_of('text')} FROM nodes WHERE session = ? AND {SOUND_NODE}"

UNFINISHED = """SELECT session, nodes.number FROM json_each(?1) JOIN tallies ON session = value JOIN nodes USING (session)
    WHERE role = 'assistant' AND NOT EXISTS (SELECT 1 FROM texts WHERE id = (tallies.number << 32) + nodes.number)"""
"""Replies of some chats of which there is no text, hidden ones among them."""


class ReplyText(NamedTuple):
    """The text of a reply, how many tokens it has, from how many on all of the text is shown, and whether it ended."""

    text: str
    tokens: int
    whole: int
    ended: bool


def text_id(tally: int, node: int) -> int:
    """Return the id of a node's text: the number of the chat's tally, then the node's."""
    return tally << 32 | node


def read_reply(db: sqlite3.Connection, session: str, number: int) -> ReplyText:
    """Read the text of the reply in a node, as far as its records can be read."""
    node = Node(number, None, 0, "assistant")
    statement = f"SELECT {BLOB} FROM records WHERE session = ? AND node = ? ORDER BY seq"
    with contextlib.suppress(StoreError):
        for (blob,) in db.execute(statement, (session, number)):
            node.add(codec.to_record(blob))
    return ReplyText(well_formed(node.text()), len(node.ids), node.count_kept(), node.done)


def with_unfinished(db: sqlite3.Connection, found: list[SessionSummary]) -> list[SessionSummary]:
    """Add the tokens of replies that are still streaming, or were cut off by a kill, to the counts of chats."""
    more: Counter[str] = Counter()
    for session, number in db.execute(UNFINISHED, (json.dumps([one.id for one in found]),)).fetchall():
        if (number,) not in db.execute(HIDDEN, (session,)).fetchall():
            more[session] += read_reply(db, session, number).tokens
    return [msgspec.structs.replace(one, tokens=one.tokens + more[one.id]) if more[one.id] else one for one in found]


def begin_tally(db: sqlite3.Connection, session: str) -> None:
    """Add a tally for a new chat, and its title."""
    db.execute("INSERT OR IGNORE INTO tallies (session) SELECT id FROM sessions WHERE id = ?", (session,))
    update_title(db, session)


def update_title(db: sqlite3.Connection, session: str) -> None:
    tally = _find_tally(db, session)
    if tally is not None:
        (title,) = db.execute(TITLE_OF, (session,)).fetchone()
        set_text(db, text_id(tally, TITLE), title, 0, 0, 0)


def add(db: sqlite3.Connection, session: str, number: int) -> None:
    """Set the text of a complete node; do nothing for an unknown one."""
    tally = _find_tally(db, session)
    row = db.execute(f"{NODES} AND number = ?", (session, number)).fetchone()
    if tally is not None and row is not None:
        _add(db, session, tally, number, *row[2:])


def add_if_missing(db: sqlite3.Connection, session: str, number: int) -> None:
    """Add the text of a node that has a child now: that of a reply whose end was never written is missing."""
    tally = _find_tally(db, session)
    if tally is None or db.execute("SELECT 1 FROM texts WHERE id = ?", (text_id(tally, number),)).fetchone() is None:
        add(db, session, number)


def refresh(db: sqlite3.Connection, session: str) -> None:
    """Bring a chat's texts in line with its nodes, after some were hidden or restored, or for the first time."""
    begin_tally(db, session)
    tally = _find_tally(db, session)
    if tally is None:
        return
    hidden = {number for (number,) in db.execute(HIDDEN, (session,))}
    known = {text & 0xFFFFFFFF for (text,) in db.execute(f"SELECT id FROM texts WHERE {OF_CHAT}", (tally,))} - {TITLE}
    nodes = db.execute(NODES, (session,)).fetchall()
    parents = {parent for _, parent, _, _ in nodes}
    for number in known & hidden:
        db.execute("DELETE FROM texts WHERE id = ?", (text_id(tally, number),))
    for number, _, role, text in nodes:
        if number not in hidden and number not in known:
            _add(db, session, tally, number, role, text, partly=number in parents)


def remove_tally(db: sqlite3.Connection, session: str) -> None:
    tally = _find_tally(db, session)
    if tally is not None:
        db.execute(f"DELETE FROM texts WHERE {OF_CHAT}", (tally,))
        db.execute("DELETE FROM tallies WHERE number = ?", (tally,))


def complete_index(db: sqlite3.Connection, seconds: float) -> bool:
    """Index chats without a tally for about `seconds`, one transaction each; return whether more are left."""
    end = monotonic() + seconds
    while (found := db.execute(MISSING).fetchone()) is not None:
        if monotonic() > end:
            return True
        db.execute("BEGIN IMMEDIATE")
        refresh(db, found[0])
        db.execute("COMMIT")
    return False


def _add(
    db: sqlite3.Connection, session: str, tally: int, number: int, role: str, text: str, partly: bool = True
) -> None:
    if role == "user":
        set_text(db, text_id(tally, number), text, 1, 0, 0)
        return
    reply = read_reply(db, session, number)
    if reply.ended or partly:
        set_text(db, text_id(tally, number), reply.text, 0, reply.tokens, reply.whole)


def set_text(db: sqlite3.Connection, number: int, text: str, turns: int, tokens: int, whole: int) -> None:
    """Set a text by its id, see `text_id`."""
    db.execute("DELETE FROM texts WHERE id = ?", (number,))
    db.execute(ADD, (number, text, turns, tokens, whole))
    db.execute(ADD_FOLDED, (number, fold_text(text) + _PAD))


def _find_tally(db: sqlite3.Connection, session: str) -> int | None:
    row = db.execute("SELECT number FROM tallies WHERE session = ?", (session,)).fetchone()
    return int(row[0]) if row is not None else None
