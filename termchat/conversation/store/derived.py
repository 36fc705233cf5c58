"""What is derived from chats so that many can be listed, searched and previewed at once: how much is in each, and their texts.

It is brought in line with a chat in the transaction that changes it (see `refresh`): a message at once, a reply when it has
ended, nothing while tokens stream. What is missing is made from the records (see `complete_index`), for chats that were
copied from a damaged file. Branches that a person deleted are not in it.
"""

from __future__ import annotations

import contextlib
import json
import re
import sqlite3
import unicodedata
from collections import Counter
from time import monotonic

import msgspec

from termchat.conversation.node import Node
from termchat.conversation.session import SessionSummary
from termchat.conversation.store import codec, load
from termchat.conversation.store.database import StoreError
from termchat.conversation.store.schema import BLOB, SOUND_NODE, text_of
from termchat.decoding.escapes import well_formed
from termchat.decoding.records import Failed, Finished, Ranking

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
ADD_TALLY = "INSERT OR IGNORE INTO tallies (session) SELECT id FROM sessions WHERE id = ?"
DROP_TEXT = "DELETE FROM texts WHERE id = ((SELECT number FROM tallies WHERE session = ?1) << 32) + ?2"
"""Of a reply that ended: it may be there as far as it was when something grew from it."""

MISSING = """SELECT id FROM sessions
    WHERE typeof(id) = 'text' AND NOT EXISTS (SELECT 1 FROM tallies WHERE session = sessions.id) LIMIT 1"""

_GONE = """WITH RECURSIVE gone (number) AS (
        SELECT number FROM nodes WHERE session = ?1 AND deleted
        UNION SELECT nodes.number FROM nodes JOIN gone ON nodes.parent = gone.number WHERE nodes.session = ?1)"""
HIDDEN = f"{_GONE} SELECT number FROM gone"
DROP_HIDDEN = f"{_GONE} DELETE FROM texts WHERE id IN (SELECT (?2 << 32) + number FROM gone)"
UNINDEXED = f"""{_GONE} SELECT number, role, {text_of("text")}, number IN (SELECT parent FROM nodes WHERE session = ?1)
    FROM nodes WHERE session = ?1 AND {SOUND_NODE} AND number NOT IN gone
    AND NOT EXISTS (SELECT 1 FROM texts WHERE id = (?2 << 32) + number)"""
"""Nodes without a text, each with whether others grew from it."""

TITLES = f"""SELECT {text_of("title")}, (SELECT text FROM texts WHERE id = ?2 << 32) FROM sessions WHERE id = ?1"""
"""The title of a chat, and as it is in the index."""
NEWEST_RECORD = f"SELECT {BLOB} FROM records WHERE session = ? AND node = ? ORDER BY seq DESC LIMIT 1"

UNFINISHED = """SELECT session, nodes.number FROM json_each(?1) JOIN tallies ON session = value JOIN nodes USING (session)
    WHERE role = 'assistant' AND NOT EXISTS (SELECT 1 FROM texts WHERE id = (tallies.number << 32) + nodes.number)"""
"""Replies of some chats of which there is no text, hidden ones among them."""


def text_id(tally: int, node: int) -> int:
    """Return the id of a node's text: the number of the chat's tally, then the node's."""
    return tally << 32 | node


def read_reply(db: sqlite3.Connection, session: str, number: int) -> Node:
    """Read the reply in a node, as far as its records can be read."""
    node = Node(number, None, 0, "assistant")
    with contextlib.suppress(StoreError):
        for _, _, blob in load.load_records(db, session, number):
            node.add(codec.to_record(blob))
    return node


def with_unfinished(db: sqlite3.Connection, summaries: list[SessionSummary]) -> list[SessionSummary]:
    """Add the tokens of replies that are still streaming, or were cut off by a kill, to the counts of chats."""
    more: Counter[str] = Counter()
    for session, number in db.execute(UNFINISHED, (json.dumps([one.id for one in summaries]),)).fetchall():
        if (number,) not in db.execute(HIDDEN, (session,)).fetchall():
            more[session] += len(read_reply(db, session, number).ids)
    return [
        msgspec.structs.replace(one, tokens=one.tokens + more[one.id]) if more[one.id] else one for one in summaries
    ]


def refresh(db: sqlite3.Connection, session: str) -> None:
    """Bring a chat's texts in line with its nodes, after some were hidden or restored, or for the first time."""
    db.execute(ADD_TALLY, (session,))
    tally = _find_tally(db, session)
    if tally is None:
        return
    title, indexed = db.execute(TITLES, (session, tally)).fetchone()
    if title != indexed:
        set_text(db, text_id(tally, TITLE), title, 0, 0, 0)
    db.execute(DROP_HIDDEN, (session, tally))
    for number, role, text, is_parent in db.execute(UNINDEXED, (session, tally)).fetchall():
        if role == "user":
            set_text(db, text_id(tally, number), text, 1, 0, 0)
        elif is_parent or _is_ended(db, session, number):
            node = read_reply(db, session, number)
            set_text(db, text_id(tally, number), well_formed(node.text()), 0, len(node.ids), node.count_kept())


def remove_tally(db: sqlite3.Connection, session: str) -> None:
    """Remove a chat from the index."""
    tally = _find_tally(db, session)
    if tally is not None:
        db.execute("DELETE FROM texts WHERE id BETWEEN ?1 << 32 AND (?1 << 32) + 4294967295", (tally,))
        db.execute("DELETE FROM tallies WHERE number = ?", (tally,))


def complete_index(db: sqlite3.Connection, seconds: float) -> bool:
    """Index chats without a tally for about `seconds`, one transaction each; return whether more are left."""
    end = monotonic() + seconds
    while (found := db.execute(MISSING).fetchone()) is not None:
        if monotonic() > end:
            return True
        with db:
            db.execute("BEGIN IMMEDIATE")
            refresh(db, found[0])
    return False


def _is_ended(db: sqlite3.Connection, session: str, number: int) -> bool:
    """Return whether the newest record of a reply is one that comes with its end or behind it."""
    (blob,) = db.execute(NEWEST_RECORD, (session, number)).fetchone() or (b"",)
    with contextlib.suppress(StoreError):
        return isinstance(codec.to_record(blob), (Finished, Failed, Ranking))
    return False


def set_text(db: sqlite3.Connection, number: int, text: str, turns: int, tokens: int, whole: int) -> None:
    """Set a text by its id, see `text_id`."""
    db.execute("DELETE FROM texts WHERE id = ?", (number,))
    db.execute(ADD, (number, text, turns, tokens, whole))
    db.execute(ADD_FOLDED, (number, fold_text(text) + _PAD))


def _find_tally(db: sqlite3.Connection, session: str) -> int | None:
    row = db.execute("SELECT number FROM tallies WHERE session = ?", (session,)).fetchone()
    return int(row[0]) if row is not None else None
