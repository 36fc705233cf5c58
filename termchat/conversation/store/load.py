"""Reads a whole chat, or records of it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

from termchat.conversation.node import Omission
from termchat.conversation.session import ModelRef, Session, View
from termchat.conversation.store import codec, unsent_rows
from termchat.conversation.store.database import StoreError
from termchat.conversation.store.schema import BLOB, LONGEST_TITLE, SOUND_NODE, text_of
from termchat.conversation.tree import Conversation, Node
from termchat.conversation.unsent import Queued
from termchat.decoding.records import Token
from termchat.text import one_line

_INFO = f"""SELECT {text_of("title")} AS title, created, updated, {text_of("system")} AS system,
    raw, {text_of("model")} AS model, {text_of("tuning")} AS tuning, CAST(leaf AS INTEGER) AS leaf,
    {text_of("breakpoints")} AS breakpoints, {text_of("view")} AS view, named
    FROM sessions WHERE id = ?"""

_NODES = f"""SELECT number, parent, at, role, {text_of("text")} AS text, prompt_ids, whole,
    {text_of("name")} AS name, deleted, {text_of("omitted")} AS omitted,
    (SELECT {text_of("system")} FROM prompts WHERE session = nodes.session AND node = nodes.number) AS system
    FROM nodes WHERE session = ? AND {SOUND_NODE} ORDER BY number"""
_PATH = f"""WITH RECURSIVE path (node, above, hidden, author) AS (
        SELECT number, parent, deleted, role FROM nodes
        WHERE session = ?1 AND number = (SELECT leaf FROM sessions WHERE id = ?1) AND {SOUND_NODE}
        UNION SELECT number, parent, deleted, role FROM path JOIN nodes ON number = above
        WHERE session = ?1 AND {SOUND_NODE})
    SELECT node, above, hidden, author FROM path"""
"""The nodes of the path that is shown, the leaf first: number, parent, whether it is deleted, role."""
_NEWEST_NODE = f"SELECT coalesce(max(number), 0) FROM nodes WHERE session = ? AND {SOUND_NODE}"


Rows = Callable[[int], Iterable[tuple[int, bool, bytes]]]
"""Reads the records of a reply from a place on, see `records`. Places grow, not always by one."""


def load(db: sqlite3.Connection, session: str, most: int | None = None) -> Session | None:
    """Load the chat with this id, if any; with `most` the end of the path that is shown, up to so many nodes, from a message
    on, and what grew from these nodes. It is whole where its path is shorter, or may be damaged.

    Raises:
        StoreError: nothing of it can be read.
    """
    row = next(_read_named(db, _INFO, session), None)
    if row is None:
        return None
    conversation = Conversation(row["system"], raw=bool(row["raw"]))
    conversation.title = row["title"][:LONGEST_TITLE]
    packed = _read_packed(db, session)
    end = set[int]() if most is None else _find_end(db, session, most)
    for node in list(_read_named(db, _NODES, session)):
        if end and node["number"] in end and node["parent"] not in end:
            node |= {"parent": None, "at": 0}
        elif end and node["parent"] not in end:
            continue
        _grow_node(db, session, conversation, node, packed)
    if not end <= conversation.nodes.keys():
        return load(db, session)
    leaf, nodes = row["leaf"], conversation.nodes
    if not nodes and db.execute("SELECT 1 FROM nodes WHERE session = ?", (session,)).fetchone() is not None:
        problem = f"the chat {one_line(row['title'], 60) or session} is damaged: none of its messages can be read"
        raise StoreError(problem, f"To delete it: termchat sessions rm {session}")
    for each in nodes.values():
        if each.omitted is not None and each.omitted.summary not in (None, *nodes):
            each.omitted = None
    if leaf not in nodes or conversation.is_hidden(leaf):
        leaf = max((node.number for node in conversation.list_leaves()), default=None)
    conversation.leaf = leaf
    for unsent in unsent_rows.read(db, "session = ?", session):
        conversation.unsent.draft = unsent.text
        conversation.unsent.queue.extend(map(Queued, unsent.queue))
    return Session(
        id=session,
        created=codec.to_seconds(row["created"]),
        updated=codec.to_seconds(row["updated"]),
        model=codec.to_settings(row["model"], ModelRef()),
        tuning=codec.to_tuning(row["tuning"]),
        breakpoints=codec.to_breakpoints(row["breakpoints"]),
        view=codec.to_settings(row["view"], View()),
        named=bool(row["named"]),
        conversation=conversation,
    )


def _find_end(db: sqlite3.Connection, session: str, most: int) -> set[int]:
    """Find the last nodes of the path that is shown, at most so many, from a message on; none where all are to be loaded."""
    path = db.execute(_PATH, (session,)).fetchall()
    if len(path) <= most or path[-1][1] is not None or any(deleted for _, _, deleted, _ in path):
        return set()
    end = path[:most]
    while end and end[-1][3] != "user":  # a part of a reply alone is no turn
        end.pop()
    return {number for number, *_ in end}


def read_to(db: sqlite3.Connection, session: str) -> tuple[int, int]:
    """Return the newest node of a chat, and the newest record."""
    (node,) = db.execute(_NEWEST_NODE, (session,)).fetchone()
    (seq,) = db.execute("SELECT coalesce(max(seq), 0) FROM records WHERE session = ?", (session,)).fetchone()
    return node, seq


def load_records(
    db: sqlite3.Connection, session: str, number: int, place: int = 0
) -> Iterator[tuple[int, bool, bytes]]:
    """Read the records of a reply in order, from a place on: place, whether it is a Start whose prompt is the path before its
    node, and the record."""
    statement = f"SELECT seq, on_path, {BLOB} FROM records WHERE session = ? AND node = ? AND seq >= ? ORDER BY seq"
    for seq, on_path, blob in db.execute(statement, (session, number, place)):
        yield seq, bool(on_path), blob


def first_token(rows: Rows, place: int = 0) -> tuple[int, Token] | None:
    """Read the first token from a place on; return it with its own place."""
    for found, _, blob in rows(place):
        with suppress(StoreError):  # damaged: as if it were lost
            if isinstance(record := codec.to_record(blob), Token):
                return found, record
    return None


def token_of_step(rows: Rows, step: int) -> Token | None:
    """Read the token of a step in a few looks.

    From one token to a later one there are at least as many places as steps, so a look so many places ahead never passes by
    the one that is wanted, and lands right on it where nothing else was written in between. Where other replies were, there
    are several places a step: looks go twice as far until one has passed it by, then half as far.
    """
    found, places = first_token(rows), 1
    while found is not None and found[1].step < step:
        place, token = found
        ahead = first_token(rows, place + places * (step - token.step))
        if places > 1 and (ahead is None or ahead[1].step > step):
            places //= 2
        else:
            found, places = ahead, places * 2
    return found[1] if found is not None and found[1].step == step else None


def _read_packed(db: sqlite3.Connection, session: str) -> dict[int, bytes]:
    """Read the packed replies that were made from just the records that are there now."""
    counts = dict(db.execute("SELECT node, count(*) FROM records WHERE session = ? GROUP BY node", (session,)))
    found = db.execute("SELECT node, records, CAST(packed AS BLOB) FROM replies WHERE session = ?", (session,))
    return {node: packed for node, records, packed in found if counts.get(node) == records}


def _grow_node(
    db: sqlite3.Connection, session: str, conversation: Conversation, row: dict[str, Any], packed: dict[int, bytes]
) -> None:
    """Attach a node to its parent and add its records."""
    number, parent, at = row["number"], row["parent"], row["at"]
    nodes = conversation.nodes
    if parent is not None and (parent not in nodes or at > len(nodes[parent].ids)):
        return  # what it grew from was lost with a damaged file
    node = Node(number, parent, at, row["role"], text=row["text"])
    node.prompt_ids.frombytes(row["prompt_ids"])
    node.whole, node.name, node.deleted = bool(row["whole"]), row["name"], bool(row["deleted"])
    node.omitted, node.system = codec.to_settings(row["omitted"], None, Omission), row["system"]
    conversation.attach_node(node)
    if number in packed and codec.to_reply(node, packed[number]):
        return
    next_step: int | None = None
    for _, _, blob in load_records(db, session, number):
        try:
            record = codec.to_record(blob)
        except StoreError:
            continue  # damaged: as if it were lost
        if isinstance(record, Token):
            if next_step is not None and record.step != next_step:
                return  # tokens before it were lost: it did not follow what is left
            next_step = record.step + 1
        node.add(record)


def _read_named(db: sqlite3.Connection, statement: str, *values: object) -> Iterator[dict[str, Any]]:
    cursor = db.execute(statement, values)
    names = [column[0] for column in cursor.description]
    return (dict(zip(names, row, strict=True)) for row in cursor)
