"""The report on a replay that differs: the first token that is not the same, its fields, both distributions, how close it was,
and why."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from termchat.commands.comparison import ChangedField, ReplyComparison
from termchat.conversation.causes import Cause, WhyDifferent, why_different
from termchat.conversation.causes_text import (
    Names,
    cause_dict,
    cause_lines,
    distribution_lines,
    side_dict,
    step_name,
    tie_lines,
)
from termchat.conversation.recorded_reply import RecordedReply, ReplyPiece
from termchat.conversation.tree import Node
from termchat.decoding.records import Shape
from termchat.text import show_piece

MOST_FIELDS = 6
"""Fields in the list."""

NAMES: Names = ("recorded", "now")


class Difference(msgspec.Struct, frozen=True):
    """The first token of node `node` that differs, or if none does, the first with another record.

    `why` is about the step, the first of the node being 0 there; `ended` says how the reply ended where it has no token now.
    `parted` is the first step with another record, in these `fields`; it may still have the same token. Where it is None and
    the token the same, the `fields` are those of the prompt or the end.
    """

    node: int
    step: int
    why: WhyDifferent
    parted: int | None
    ended: str = ""
    fields: tuple[ChangedField, ...] = ()

    @property
    def same_token(self) -> bool:
        return self.why.left.id == self.why.right.id

    def lines(self) -> Iterator[str]:
        """The report, free of control characters."""
        recorded, now = self.why.left, self.why.right
        where = f"different at node {self.node}, step {self.step}: recorded {step_name(recorded)}"
        if now.id is None:
            yield f"{where}, now the reply has ended ({show_piece(self.ended)})"
        elif self.same_token and self.parted is None:
            yield f"different at node {self.node}: same tokens now, but the record of the reply differs"
        elif self.same_token:
            yield f"{where}: same token now, but its record differs; every token of the reply matches"
        else:
            yield f"{where}, now {step_name(now)}"
        if self.parted is not None and self.parted != self.step:
            yield f"  the record first differs at step {self.parted}"
        if self.same_token or self.parted != self.step:  # else the table has it
            yield from (f"  {field}" for field in self.fields[:MOST_FIELDS])
            if len(self.fields) > MOST_FIELDS:
                yield f"  and {len(self.fields) - MOST_FIELDS} more"
        if now.id is not None and (self.parted is not None or not self.same_token):
            yield ""
            yield from (f"  {line}" for line in distribution_lines(recorded, now, NAMES))
            yield ""
            if not self.same_token:
                yield from (f"  {line}" for line in tie_lines(recorded, now, NAMES))
        yield from (f"  {line}" for line in cause_lines(self.why, NAMES))

    def as_dict(self) -> dict[str, Any]:
        return {
            "node": self.node,
            "step": self.step,
            **{name: side_dict(step) for name, step in zip(NAMES, (self.why.left, self.why.right), strict=True)},
            "fields": [{"name": f.name, "recorded": f.recorded, "now": f.now} for f in self.fields],
            "causes": [cause_dict(cause, NAMES) for cause in self.why.causes],
        }


def difference_of(
    node: Node, prompt: list[int], shapes: list[Shape] | None, threads: int, compared: ReplyComparison
) -> Difference | None:
    """The report on a reply that was compared as far as it could be; None if nothing differs.

    `prompt` are the ids before it, `shapes` those in which they were decoded, which was done again with as many `threads`, or
    if that is 0 with as many as then.
    """
    parted = compared.parted
    step, fields = (parted.now.step, parted.fields) if parted is not None else (None, compared.frame())
    missing = compared.missing()
    if compared.last is not None and compared.last[0].id != compared.last[1].id:
        was, now = compared.last
    elif missing is not None:
        was, now = missing[0], None
    elif parted is not None:
        was, now = parted.recorded, parted.now
    elif fields and compared.last is not None:
        was, now = compared.last
    else:
        return None
    index = was.step - compared.first
    again = shapes and [Shape(shape.rows, threads or shape.threads) for shape in shapes]
    left = RecordedReply([ReplyPiece(node, len(node.tokens), prompt, shapes)], lambda *_: was)
    right = RecordedReply([ReplyPiece(compared.made, len(compared.made.tokens), prompt, again)], lambda *_: now)
    why = why_different(left, right, index)
    assert why is not None
    if was.id == (now.id if now is not None else None) and parted is None:
        frame = Cause(
            kind="edited", name="the record was edited", evidence="shown", detail="its tokens make another record"
        )
        why = msgspec.structs.replace(why, causes=(frame,), logits=None)
    return Difference(node.number, was.step, why, step, missing[1] if missing is not None else "", fields)
