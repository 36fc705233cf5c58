"""The report on a replay that differs: the first token that is not the same, its fields, both distributions, how close it was,
and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any

import msgspec

from termchat.commands.comparison import ChangedField, ReplyComparison, changed_fields
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
from termchat.decoding.records import Beams, Shape
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
    walk: int | None = None

    @property
    def same_token(self) -> bool:
        return self.why.left.id == self.why.right.id

    def lines(self) -> Iterator[str]:
        """The report, free of control characters."""
        recorded, now = self.why.left, self.why.right
        node = node_name(self.node, self.walk)
        where = f"different at {node}, step {self.step}: recorded {step_name(recorded)}"
        if now.id is None:
            yield f"{where}, now the reply has ended ({show_piece(self.ended)})"
        elif self.same_token and self.parted is None:
            yield f"different at {node}: same tokens now, but the record of the reply differs"
        elif self.same_token:
            yield f"{where}: same token now, but its record differs; every token of the reply matches"
        else:
            yield f"{where}, now {step_name(now)}"
        if self.parted is not None and self.parted != self.step:
            yield f"  the record first differs at step {self.parted}"
        if self.same_token or self.parted != self.step:  # else the table has it
            yield from _field_lines(self.fields)
        if now.id is not None and (self.parted is not None or not self.same_token):
            yield ""
            yield from (f"  {line}" for line in distribution_lines(recorded, now, NAMES))
            yield ""
            if not self.same_token:
                yield from (f"  {line}" for line in tie_lines(recorded, now, NAMES))
        yield from (f"  {line}" for line in cause_lines(self.why, NAMES))

    def as_dict(self) -> dict[str, Any]:
        return {
            **_place(self.node, self.walk, self.step),
            **{name: side_dict(step) for name, step in zip(NAMES, (self.why.left, self.why.right), strict=True)},
            "fields": _field_dicts(self.fields),
            "causes": [cause_dict(cause, NAMES) for cause in self.why.causes],
        }


class SearchDifference(msgspec.Struct, frozen=True):
    """The first step of a search with beams, of the group whose walk 0 is node `node`, that has other `fields` now; where the
    search has no such step, then or now, there are none. `exact` as in its start."""

    node: int
    step: int
    exact: bool
    fields: tuple[ChangedField, ...] = ()

    def lines(self) -> Iterator[str]:
        """The report, free of control characters."""
        what = "its beams differ" if self.fields else "only one of the two searches has this step"
        yield f"different at {node_name(self.node, 0)}, step {self.step} of the search: {what}"
        yield from _field_lines(self.fields)
        if not self.exact:
            yield "  it is not exact: its numbers depend on the size of the context, so pass the same --context as then"

    def as_dict(self) -> dict[str, Any]:
        return {**_place(self.node, 0, self.step), "fields": _field_dicts(self.fields), "causes": []}


def node_name(number: int, walk: int | None) -> str:
    """How a reply is named in the report."""
    return f"node {number}" if walk is None else f"node {number} (walk {walk})"


def search_difference(node: Node, steps: Sequence[Beams]) -> SearchDifference | None:
    """The report on a search, whose steps are on record in a node and which had these steps now; None if nothing differs."""
    exact = node.start is not None and node.start.exact
    for was, now in zip_longest(node.beams, steps):
        if was is None or now is None:
            return SearchDifference(node.number, (was or now).step, exact)
        fields = tuple(changed_fields(was, now)) if was != now else ()  # NaN makes what is equal unequal, too
        if fields:
            return SearchDifference(node.number, was.step, exact, fields)
    return None


def _place(node: int, walk: int | None, step: int) -> dict[str, Any]:
    return {"node": node, **({} if walk is None else {"walk": walk}), "step": step}


def _field_lines(fields: Sequence[ChangedField]) -> Iterator[str]:
    yield from (f"  {field}" for field in fields[:MOST_FIELDS])
    if len(fields) > MOST_FIELDS:
        yield f"  and {len(fields) - MOST_FIELDS} more"


def _field_dicts(fields: Sequence[ChangedField]) -> list[dict[str, Any]]:
    return [{"name": f.name, "recorded": f.recorded, "now": f.now} for f in fields]


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
    return Difference(node.number, was.step, why, step, missing[1] if missing is not None else "", fields, node.walk)
