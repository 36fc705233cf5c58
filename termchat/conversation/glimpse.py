"""The last texts of a saved chat, without reading the records of its replies where their texts are known."""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

from termchat.conversation import index
from termchat.conversation.database import version_of
from termchat.conversation.tree import Role
from termchat.conversation.wordless import together

LEAF = "SELECT leaf FROM sessions WHERE id = ?"
SKELETON = "SELECT number, parent, at, role, deleted FROM nodes WHERE session = ?"
TEXT = """SELECT texts.text, tokens, whole FROM texts WHERE id =
    ((SELECT number FROM tallies WHERE session = ?1) << 32) + ?2"""


class _Bone(NamedTuple):
    """A node of the tree, without its flesh."""

    number: int
    parent: int | None
    at: int
    role: Role
    deleted: bool


def last_texts(db: sqlite3.Connection, session: str, limit: int) -> list[tuple[Role, str]] | None:
    """Roles and texts of the last turns of the path that was shown; None where only its tree can say which that is."""
    if version_of(db) < 3:
        return None
    row = db.execute(LEAF, (session,)).fetchone()
    nodes = {bone.number: bone for bone in map(_Bone._make, db.execute(SKELETON, (session,)))}
    path = _path(nodes, row[0]) if row is not None else []
    if path is None:
        return None
    turns: list[tuple[Role, str]] = []
    below: _Bone | None = None
    for bone in path:
        text = _text(db, session, bone, below)
        if turns and bone.role == "assistant" and turns[-1][0] == "assistant":
            turns[-1] = ("assistant", text + turns[-1][1])
        elif len(turns) == limit:
            break
        else:
            turns.append((bone.role, text))
        below = bone
    return turns[::-1]


def _path(nodes: dict[int, _Bone], leaf: int | None) -> list[_Bone] | None:
    """From the leaf to the root. None where it cannot be walked, or a part of it is hidden."""
    if leaf not in nodes:
        return None if nodes else []
    path: list[_Bone] = []
    at: int | None = leaf
    while at is not None:
        bone = nodes.get(at)
        if bone is None or bone.deleted or len(path) > len(nodes):
            return None
        path.append(bone)
        at = bone.parent
    return path


def _text(db: sqlite3.Connection, session: str, bone: _Bone, below: _Bone | None) -> str:
    """What a node adds to the chat, cut where the next one on the path grows from it."""
    row = db.execute(TEXT, (session, bone.number)).fetchone()
    if bone.role == "user":
        if row is not None:
            return together(row[0])
        (text,) = db.execute(
            "SELECT text FROM nodes WHERE session = ? AND number = ?", (session, bone.number)
        ).fetchone()
        return str(text)
    if row is not None and (below is None or below.at >= row[2]) and not _goes_on(below):
        return together(row[0])
    count = None if below is None else below.at
    return index.said(db, session, bone.number, count, continued=_goes_on(below)).text


def _goes_on(below: _Bone | None) -> bool:
    """Whether the reply goes on in the next node."""
    return below is not None and below.role == "assistant"
