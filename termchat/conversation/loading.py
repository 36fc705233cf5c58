"""Reading the store's file: a chat as it was, the records of a reply, and one token of it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from termchat.conversation import columns
from termchat.conversation.database import StoreError
from termchat.conversation.session import Breakpoint, ModelRef, SessionInfo, StoredSession, View
from termchat.conversation.tree import Conversation, Node
from termchat.decoding.records import Token
from termchat.decoding.samplers import Tuning

Rows = Callable[[int], Iterable[tuple[int, bytes]]]
"""The records of a reply from a place on, in order: place and record. Places grow, not always by one."""


def load(db: sqlite3.Connection, session: str) -> StoredSession | None:
    """A chat as it was, or None where there is no such."""
    row = next(_named(db, "SELECT * FROM sessions WHERE id = ?", session), None)
    if row is None:
        return None
    conversation = Conversation(row["system"], raw=bool(row["raw"]))
    conversation.title = row["title"]
    packed = _packed(db, session)
    for found in list(_named(db, "SELECT * FROM nodes WHERE session = ? ORDER BY number", session)):
        _grow(db, session, conversation, found, packed)
    leaf, nodes = row["leaf"], conversation.nodes
    if leaf not in nodes or conversation.is_hidden(leaf):
        leaf = max((node.number for node in conversation.leaves()), default=None)
    conversation.leaf = leaf
    # A file that nobody could write yet may still be of an older schema.
    info = SessionInfo(
        id=session,
        created=columns.to_seconds(row["created"]),
        updated=columns.to_seconds(row["updated"]),
        model=columns.to_settings(row["model"], ModelRef()),
        tuning=columns.to_settings(row["tuning"], Tuning()),
        breakpoints=columns.to_settings(row.get("breakpoints", ""), (), tuple[Breakpoint, ...]),
        view=columns.to_settings(row.get("view", ""), View()),
        named=bool(row.get("named", 0)),
    )
    return StoredSession(info, conversation, tuple(number for number, node in nodes.items() if not node.done))


def records(db: sqlite3.Connection, session: str, number: int) -> Iterator[tuple[bool, bytes]]:
    """The records of a reply in order, each with whether it is a Start whose prompt is the path before its node."""
    statement = "SELECT on_path, record FROM records WHERE session = ? AND node = ? ORDER BY seq"
    for on_path, blob in db.execute(statement, (session, number)):
        yield bool(on_path), blob


def read_through(db: sqlite3.Connection, session: str) -> None:
    """Reads all records of a chat, without a look at what is in them."""
    for _ in db.execute("SELECT record FROM records WHERE session = ? ORDER BY node, seq", (session,)):
        pass


def rows(db: sqlite3.Connection, session: str, number: int) -> Rows:
    """The records of a reply by their place in the file."""
    statement = "SELECT seq, record FROM records WHERE session = ? AND node = ? AND seq >= ? ORDER BY seq"
    return lambda place: db.execute(statement, (session, number, place))


def first_token(rows: Rows, place: int = 0) -> tuple[int, Token] | None:
    """The first token from a place on, and its own place."""
    for found, blob in rows(place):
        if isinstance(record := columns.to_record(blob), Token):
            return found, record
    return None


def token_of_step(rows: Rows, step: int) -> Token | None:
    """The token of that step, found in a few looks.

    From one token to a later one there are at least as many places as steps, so a look so many places ahead never passes by
    the one that is wanted, and lands right on it where nothing else was written in between.
    """
    found = first_token(rows)
    while found is not None and found[1].step < step:
        place, token = found
        found = first_token(rows, place + step - token.step)
    return found[1] if found is not None and found[1].step == step else None


def _packed(db: sqlite3.Connection, session: str) -> dict[int, bytes]:
    """The replies that are there as they are held in memory, made from just the records that are there now."""
    if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'replies'").fetchone():
        return {}  # a file that nobody could write yet, of an older schema
    counts = dict(db.execute("SELECT node, count(*) FROM records WHERE session = ? GROUP BY node", (session,)))
    found = db.execute("SELECT node, records, packed FROM replies WHERE session = ?", (session,))
    return {node: packed for node, records, packed in found if counts.get(node) == records}


def _grow(
    db: sqlite3.Connection, session: str, conversation: Conversation, row: dict[str, Any], packed: dict[int, bytes]
) -> None:
    """Puts a node in its place, with what its records say."""
    number, parent, at = row["number"], row["parent"], row["at"]
    nodes = conversation.nodes
    if parent is not None and (parent not in nodes or at > len(nodes[parent].ids)):
        return  # what it grew from was lost with a damaged file
    node = Node(number, parent, at, row["role"], text=row["text"])
    node.prompt_ids, node.whole = columns.to_ids(row["prompt_ids"]), bool(row["whole"])
    node.name, node.deleted = row.get("name", ""), bool(row.get("deleted", 0))
    node.omitted = columns.to_omission(row.get("omitted", ""))
    conversation.attach(node)
    if number in packed and columns.to_reply(node, packed[number]):
        return
    next_step: int | None = None
    for _, blob in records(db, session, number):
        try:
            record = columns.to_record(blob)
        except StoreError:
            continue  # damaged: as if it were lost
        if isinstance(record, Token):
            if next_step is not None and record.step != next_step:
                return  # tokens before it were lost: it did not follow what is left
            next_step = record.step + 1
        node.add(record)


def _named(db: sqlite3.Connection, statement: str, session: str) -> Iterator[dict[str, Any]]:
    cursor = db.execute(statement, (session,))
    names = [column[0] for column in cursor.description]
    return (dict(zip(names, row, strict=True)) for row in cursor)
