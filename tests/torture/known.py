"""What has to be in the store after a kill, as far as the killed process said so; and whether it is there."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import msgspec

from termchat.conversation.store.store import Store, StoreError
from termchat.conversation.tree import Node
from termchat.decoding.records import Finished, Record
from tests.torture.traces import Fault, no_lock

LIMIT_S = 1.0
"""Of a reply that streams, no more than this may be gone, but for what the machine stood still meanwhile."""

Place = tuple[str, int]
"""A session and the number of a node in it."""


class Kept(NamedTuple):
    """A node as the store gives it back."""

    digest: str
    marks: list[int]
    finished: bool


class Loss(NamedTuple):
    """What a kill cost: seconds from the oldest thing that is gone to the kill, and how many things."""

    seconds: float = 0.0
    things: int = 0


def mark(record: Record) -> int:
    """What a record is known by."""
    return crc32(msgspec.msgpack.encode(record))


def digest(node: Node, marks: Sequence[int]) -> str:
    """What a whole turn is known by: its place, its words, its ids, and all its records."""
    prompt = list(node.prompt_ids) if node.role == "user" else []
    told = (node.number, node.parent, node.at, node.role, node.written, prompt, node.whole, list(marks))
    return sha256(repr(told).encode()).hexdigest()[:16]


def sound(path: Path) -> dict[Place, Kept]:
    """All that is in the store at `path`, read as the next start would.

    Raises:
        Fault: the file is damaged or locked, or the store cannot be opened or read.
    """
    if not path.exists():
        return {}
    no_lock(path)
    with contextlib.closing(sqlite3.connect(path)) as db:
        said = [row[0] for row in db.execute("PRAGMA integrity_check")]
    if said != ["ok"]:
        raise Fault("corrupt store", f"{path}: {said[:3]}")
    store = Store.open(path)
    try:
        return _all_of(store)
    except StoreError as error:
        raise Fault("corrupt store", f"{path}: {error}") from error
    finally:
        if not store.close(30):
            raise Fault("start", f"{path} takes nothing: {store.problem()}")
        damage = [notice.message for notice in store.notices() if "damaged" in notice.message]
        if damage:
            raise Fault("corrupt store", damage[0])


def _all_of(store: Store) -> dict[Place, Kept]:
    found = {}
    for summary in store.sessions(100_000):
        for number, node in store.load(summary.id).conversation.nodes.items():
            records = list(store.records(summary.id, number)) if node.role == "assistant" else []
            marks = [mark(record) for record in records]
            ended = bool(records) and isinstance(records[-1], Finished)
            found[summary.id, number] = Kept(digest(node, marks), marks, ended)
    return found


class Known:
    """What a home has to hold, from round to round.

    `whole` are the turns whose end the disk has acknowledged. `told` are the records that the store was given, with the
    `monotonic` time of each; a node without any has an empty list.
    """

    def __init__(self) -> None:
        self.whole: dict[Place, str] = {}
        self.nodes: dict[Place, float] = {}
        self.told: dict[Place, list[tuple[int, float]]] = {}

    def check(self, found: dict[Place, Kept], ended: float | None, limit: float = LIMIT_S) -> Loss:
        """What is gone; `ended` is when the process was killed, None where nothing killed it; `limit` in seconds.

        Raises:
            Fault: a finished turn is not what it was, a record is another one, or more is gone than may be.
        """
        for place, wanted in self.whole.items():
            kept = found.get(place)
            if kept is None or kept.digest != wanted:
                raise Fault("finished turn lost", f"{place} is {'gone' if kept is None else 'another one'}")
        lost: list[float] = []
        for place, at in self.nodes.items():
            if place not in found:
                lost.append(at)
            lost += self._lost(place, found[place].marks if place in found else [])
        if lost and ended is None:
            raise Fault("tokens lost", f"{len(lost)} things are gone of an app that ended in order")
        loss = Loss(ended - min(lost), len(lost)) if lost and ended is not None else Loss()
        if loss.seconds > limit:
            raise Fault("tokens lost", f"{loss.things} things, the oldest {loss.seconds:.2f} s before the end")
        self._settle(found)
        return loss

    def _lost(self, place: Place, marks: Sequence[int]) -> Iterable[float]:
        told = self.told.get(place, [])
        same = list(marks[: len(told)]) == [made for made, _ in told[: len(marks)]]
        if not same or len(marks) > len(told) + 1:  # it may end between giving a record and saying so
            raise Fault("corrupt store", f"the records of {place} are not those that were given")
        return [at for _, at in told[len(marks) :]]

    def _settle(self, found: dict[Place, Kept]) -> None:
        """From now on all that is there has to stay; nobody asks any more for what is gone."""
        self.whole = {place: kept.digest for place, kept in found.items()}
        self.nodes.clear()
        self.told.clear()
