"""Groups of replies for tests: their records as they come from the engine, interleaved."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from termchat.chat.reply_group import ReplyGroup
from termchat.conversation.tree import Conversation, Node
from termchat.decoding.group import Group
from termchat.decoding.records import Beam, Beams, Ranked, Ranking, Reason, Record
from tests.made_records import stream

NUMBER = 2**52 + 7


def group(size: int, number: int = NUMBER, **more: Any) -> Group:
    return Group(number, more.pop("kind", "walks"), size, **more)


def ids_of(of: ReplyGroup, walk: int) -> list[int]:
    """The tokens of a walk since the place where its group begins."""
    return [i for span in of.list_spans(walk) for i in span.node.ids[: span.count]]


def siblings(chat: Conversation, count: int, parent: Node | None = None, at: int | None = None) -> list[Node]:
    """Replies that are still empty, from one place."""
    before = parent or chat.nodes[chat.leaf or 0]
    place = before.count_kept() if at is None else at
    return [chat.grow_node("assistant", parent=before.number, at=place) for _ in range(count)]


def walked(prompt: list[int], walk: int, of: Group, pieces: list[bytes], reason: Reason | None = "end") -> list[Record]:
    """The records of one walk."""
    records = stream(prompt, pieces, seed=42 + walk, reason=reason)
    begun = msgspec.structs.replace(records[0], group=of)
    return [msgspec.structs.replace(record, walk=walk) for record in (begun, *records[1:])]


def interleaved(streams: Sequence[Sequence[Record]]) -> Iterator[tuple[int, Record]]:
    """One record of each walk in turn, and whose it is."""
    for at in range(max(map(len, streams))):
        yield from ((walk, records[at]) for walk, records in enumerate(streams) if at < len(records))


def beams(step: int) -> Beams:
    kept = [
        Beam(place, 0, 10 * step + place, f" b{place}", -0.5 - place, -0.25 - place, place == 1) for place in (0, 1)
    ]
    return Beams(step, kept, [Beam(2, min(step, 1), 99, " dropped", -7.0, -3.5)])


def ranking(size: int) -> Ranking:
    return Ranking([Ranked(walk, -0.5 * walk, -0.5 * walk, 3, f"answer {walk % 2}", 2) for walk in range(size)])
