"""What of a reply a constraint was told of, and what that cost the model."""

from __future__ import annotations

import math
from typing import NamedTuple

from termchat.conversation.tree import Conversation, Node
from termchat.decoding.constraint import NOT_YET, Constraint
from termchat.text import show_piece

_BENT = math.log(2)
"""Nats from which a token stands out: the constraint took more than half of the mass."""


class StandingReply(NamedTuple):
    """`data` are the bytes that have to match. `cost` is the sum of −log(mass kept) in nats, None where an engine did not
    tell it; `bent` the tokens at which the constraint took more than half of the mass, the most first. `dropped` says why it
    is no longer applied, "" where it is."""

    constraint: Constraint
    data: bytes
    cost: float | None
    bent: tuple[str, ...]
    dropped: str


def standing_reply(conversation: Conversation, node: Node, index: int) -> StandingReply | None:
    """Return the reply before token `index` of its piece `node`; None where no constraint is in force there, as in thoughts."""
    record = node.settings_before(index)
    if record is None or record.constraint is None or record.constraint_begun == NOT_YET:
        return None
    data, cost, bent, skip = bytearray(), 0.0, list[tuple[float, str]](), record.constraint_begun
    told = True
    for span in conversation.find_reply(node.number):
        count = index if span.node is node else span.count
        columns, first = span.node.tokens, min(skip, span.count)
        skip -= first
        if first >= count:
            continue
        begin = columns.ends[first - 1] if first else 0
        data += columns.data[begin : columns.ends[count - 1]]
        for at in range(first, count):
            told = told and (columns.allowed[at] > 0 or columns.forced[at] > 0)
            cost += columns.bent[at]
            if columns.bent[at] > _BENT:
                piece = columns[at].bytes.decode("utf-8", "replace")
                bent.append((-columns.bent[at], show_piece(piece).strip() or "␣"))
    pieces = tuple(piece for _, piece in sorted(bent))
    return StandingReply(record.constraint, bytes(data), cost if told else None, pieces, record.constraint_dropped)
