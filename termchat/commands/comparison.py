"""A recorded reply beside the same reply generated again: every computed field, bit for bit.

Not compared are times, and what says how the reply came about: versions, model, threads, batch sizes, and why it was cut off.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

import msgspec

from termchat.conversation.tree import Node
from termchat.decoding.conditions import After, Condition, Length, format_condition
from termchat.decoding.constraint import INCOMPLETE
from termchat.decoding.records import Finished, Prefill, SettingsRecord, Start, Token, to_dict
from termchat.engine.port import Event
from termchat.text import sanitize, show_piece

_NOT_COMPARED = {"decode_us": 0, "sample_us": 0, "walk": None, "draft": None, "near_tie": None}
"""Times, drafts, the number that a token's reply has among those made together (it is generated alone, too), and near ties,
which depend on what was measured."""


class ChangedField(NamedTuple):
    """A field with another value now, by its place in the JSON: "candidates[3].noise"."""

    name: str
    recorded: object
    now: object

    def __str__(self) -> str:
        recorded, now = (show_piece(v) if isinstance(v, str) else json.dumps(v) for v in (self.recorded, self.now))
        return f"{sanitize(self.name)}: {recorded} recorded, {now} now"


class ChangedStep(NamedTuple):
    recorded: Token
    now: Token
    fields: tuple[ChangedField, ...]


class ReplyComparison:
    """Compares as far as the first token that is another one.

    `identical` counts the tokens before `parted`, the first step with another record, whose token may be the same. `made` is
    the reply generated again. `recorded` are the node's own tokens, the first of them step `done`. `anywhere`: only ids are
    compared. `near_ties` counts the draws that were near ties then or are now, `turned` those that come out otherwise now.
    """

    def __init__(self, node: Node, recorded: Iterable[Token], done: int, *, anywhere: bool = False) -> None:
        self._node, self._recorded, self._limit = node, iter(recorded), limit(node, done)
        self._anywhere = anywhere
        self.near_ties = self.turned = 0
        self.first = done
        self._prefill = node.prefill
        self._renumbered = is_drafted_inexactly(node)
        self._end: Finished | None = None
        self.made = Node(node.number, node.parent, node.at, "assistant")
        self.identical = 0
        self.parted: ChangedStep | None = None
        self.last: tuple[Token, Token] | None = None
        """The newest step, recorded and now."""

    def take(self, event: Event) -> bool:
        """Takes the next event of the reply generated again; whether more of it is needed."""
        if isinstance(event, (Start, SettingsRecord, Prefill, Token, Finished)):
            self.made.add(event)
        if isinstance(event, Prefill):
            self._prefill = event
        elif isinstance(event, Token):
            return self._take(event)
        elif isinstance(event, Finished):
            self._end = event
        return not isinstance(event, Finished)

    @property
    def over(self) -> bool:
        """Whether the reply generated again has ended."""
        return self._end is not None

    def missing(self) -> tuple[Token, str] | None:
        """The recorded token at which the reply has ended now, and why; None where it has not."""
        token = next(self._recorded, None)
        return None if token is None or self._end is None else (token, f"{self._end.reason} {self._end.detail}".strip())

    def frame(self) -> tuple[ChangedField, ...]:
        """What differs around tokens that are the same: in the prompt and the end."""
        return () if self._anywhere else (*self._prompt(), *self._ending())

    def _take(self, now: Token) -> bool:
        was = next(self._recorded, None)
        if was is None:
            return True
        self.last = was, now
        if len(self.made.tokens) == len(self._node.tokens) and is_cut_off(self._node) and now.text.startswith(was.text):
            now = msgspec.structs.replace(now, text=was.text)  # the rest was in `held` then
        if was.margin is None:  # as before margins were recorded
            now = msgspec.structs.replace(now, margin=None)
        if self._renumbered:  # the threads that its rounds take are changes of settings, too
            now = msgspec.structs.replace(now, settings=was.settings)
        self.near_ties += bool(was.near_tie or now.near_tie) and not was.forced
        self.turned += now.forced and not was.forced
        fields = () if self._anywhere else tuple(differing(was, now))
        if self.parted is None and fields and [field.name for field in fields] != ["id"]:
            self.parted = ChangedStep(was, now, fields)
        self.identical += self.parted is None and was.id == now.id
        return was.id == now.id

    def _prompt(self) -> Iterator[ChangedField]:
        was, now = self._node.prefill, self._prefill
        if was is not None and now is not None and was.tokens != now.tokens:
            yield ChangedField("prefill.tokens", was.tokens, now.tokens)

    def _ending(self) -> Iterator[ChangedField]:
        was, now = self._node.finished, self._end
        if was is None or now is None or self.last is None:
            return
        if len(self.made.tokens) > len(self._node.tokens):
            yield ChangedField("finished.reason", was.reason, None)
            return
        if is_cut_off(self._node):
            now = self._cut_off(was, now, *self.last)
        for name in ("reason", "detail", "held", "tokens"):
            before, after = getattr(was, name), getattr(now, name)
            if before != after:
                yield ChangedField(f"finished.{name}", before, after)

    def _cut_off(self, was: Finished, now: Finished, last: Token, last_now: Token) -> Finished:
        """The end as it is on record if it can be true: the reply ends now for having so many tokens, and lets its text out."""
        now = msgspec.structs.replace(now, held=(last_now.text + now.held).removeprefix(last.text))
        if now.reason != "user" and now.why != format_condition(self._limit):
            return now
        length = last.position + 1
        shared = (
            self._node.walk is not None
        )  # others took cells, too: its length does not say when the context was full
        full = shared or re.fullmatch(rf"{length} of \d+|(\d+) of \1", was.why)
        detail = "" if was.reason == "user" else was.why if full or was.reason == "rule" else f"{length} of {length}"
        if now.detail != now.why:
            detail = f"{detail}; {INCOMPLETE}" if detail else INCOMPLETE
        return msgspec.structs.replace(now, reason=was.reason, detail=detail)


def differing(recorded: Token, now: Token) -> Iterator[ChangedField]:
    """The fields of a step with other values, but for its times."""
    before, after = (msgspec.structs.replace(token, **_NOT_COMPARED) for token in (recorded, now))
    if before != after:  # as also NaN makes them
        yield from changed_fields(before, after)


def moved_apart(recorded: Token, now: Token) -> float:
    """By how much the difference between the logits of two candidates is another one now, at most."""
    before = {candidate.id: candidate.logit for candidate in recorded.candidates}
    moved = [candidate.logit - before[candidate.id] for candidate in now.candidates if candidate.id in before]
    finite = [change for change in moved if math.isfinite(change)]
    return max(finite, default=0.0) - min(finite, default=0.0)


def changed_fields(before: object, after: object) -> Iterator[ChangedField]:
    """The fields of a record that have other values in another one of its kind."""
    return _fields("", to_dict(before), to_dict(after))


def is_cut_off(node: Node) -> bool:
    """Whether the reply was ended by what is not there when it is generated again: a person, a smaller context, or a time that
    was over."""
    end = node.finished
    if end is None or end.reason != "rule":
        return end is not None and end.reason in ("user", "context")
    return any(is_timed(c) and format_condition(c) == end.why for c in node.settings[-1].conditions)


def is_drafted_inexactly(node: Node) -> bool:
    """Whether some rows of the reply have other bits than each alone, since they were decoded in rounds of drafting."""
    return node.tokens.drafts is not None and node.start is not None and not node.start.exact


def is_timed(condition: Condition) -> bool:
    """Whether the machine's speed decides where a condition is met."""
    return isinstance(condition, After) and condition.quantity == "seconds"


def limit(node: Node, done: int) -> Length:
    """Ends the reply generated again: after as many tokens if it was cut off, else one later, so that it ends by itself."""
    return Length(done + len(node.tokens) + (not is_cut_off(node)))


def wanted_candidates(counts: Collection[tuple[int, int]]) -> int:
    """Candidates that were asked for, from how many each token has and its rank: a chosen token beyond them is one more."""
    fewest, _ = min(counts)
    return fewest - all(count == fewest and rank >= fewest - 1 for count, rank in counts)


def _fields(name: str, before: object, after: object) -> Iterator[ChangedField]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in before | after:
            yield from _fields(f"{name}.{key}" if name else key, before.get(key), after.get(key))
    elif isinstance(before, list) and isinstance(after, list):
        if len(before) != len(after):
            yield ChangedField(f"number of {name}", len(before), len(after))
        for at, pair in enumerate(zip(before, after, strict=False)):
            yield from _fields(f"{name}[{at}]", *pair)
    elif before != after:
        yield ChangedField(name, before, after)
