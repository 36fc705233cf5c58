"""The report on a replay that differs: the first token that is not the same, its fields, both distributions, how close it was,
and why."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import msgspec

from termchat.commands.comparison import ChangedField, ReplyComparison
from termchat.decoding.records import Candidate, Start, Token
from termchat.text import cells, show_piece

SHOWN = 8
"""Candidates in the table."""

MOST_FIELDS = 6
"""Fields in the list."""

FAR = 0.2
"""Total variation above which the weights must differ: exact and inexact ways of computing were at most 0.13 apart."""

_CAUSES: tuple[tuple[str, Callable[[Start], object]], ...] = (
    ("model file (sha256 of header and size)", lambda start: start.model.sha256[:16]),
    ("llama-cpp-python", lambda start: start.llama_cpp),
    ("termchat", lambda start: start.termchat),
    ("dice version", lambda start: start.dice),
    ("threads", lambda start: start.threads),
    ("prompt threads", lambda start: start.threads_batch),
    ("micro-batch", lambda start: start.ubatch),
    ("KV type", lambda start: start.kv_type),
)
"""What the numbers depend on, as far as records tell; what matters most comes first."""


class Difference(msgspec.Struct, frozen=True):
    """The first token of node `node` that differs, or if none does, the first with another record.

    `now` is None if the reply ended before it, as `ended` says. `parted` is the first step with another record, in these
    `fields`; it may still have the same token. Where it is None and the token the same, the `fields` are those of the prompt or
    the end. `known_shapes`: the prompt's batch sizes were recorded, and were used again.
    """

    node: int
    recorded: Token
    now: Token | None
    parted: int | None
    before: Start
    after: Start
    known_shapes: bool
    ended: str = ""
    fields: tuple[ChangedField, ...] = ()

    @property
    def same_token(self) -> bool:
        return self.now is not None and self.now.id == self.recorded.id

    def lines(self) -> Iterator[str]:
        """The report, free of control characters."""
        recorded, now = self.recorded, self.now
        where = f"different at node {self.node}, step {recorded.step}: recorded {_name(recorded)}"
        if now is None:
            yield f"{where}, now the reply has ended ({show_piece(self.ended)})"
        elif self.same_token and self.parted is None:
            yield f"different at node {self.node}: same tokens now, but the record of the reply differs"
        elif self.same_token:
            yield f"{where}: same token now, but its record differs; every token of the reply matches"
        else:
            yield f"{where}, now {_name(now)}"
        if self.parted is not None and self.parted != recorded.step:
            yield f"  the record first differs at step {self.parted}"
        if self.same_token or self.parted != recorded.step:  # else the table has it
            yield from (f"  {field}" for field in self.fields[:MOST_FIELDS])
            if len(self.fields) > MOST_FIELDS:
                yield f"  and {len(self.fields) - MOST_FIELDS} more"
        if now is not None and (self.parted is not None or not self.same_token):
            yield ""
            yield from _table(recorded, now)
            yield ""
            if not self.same_token:
                yield from _tie(recorded, now)
        yield from (f"  likely cause: {cause}" for cause in self.causes())

    def causes(self) -> list[str]:
        """The likely causes, in words; at least one."""
        pairs = ((name, read(self.before), read(self.after)) for name, read in _CAUSES)
        found = [f"{name}: {show_piece(f'{was} then, {now} now')}" for name, was, now in pairs if was != now]
        if not self.before.exact:
            found.append("the recording was not exact (fast prefill, GPU layers or rebuilt cells)")
        if not self.known_shapes:
            found.append("batch shape: the prompt's batch sizes were not recorded")
        if self.now is None:
            return found or ["a different end-of-reply token"]
        if self.parted is None and not found:
            return [
                "the transcript was edited: its tokens make another record"
                if self.same_token
                else "the transcript was edited: its numbers are unchanged, but they lead the dice to the new token"
            ]
        if not found and self.same_token and _logits(self.recorded) == _logits(self.now):
            return ["the transcript was edited: the model's logits are unchanged, but not what follows from them"]
        distance = total_variation(self.recorded, self.now)
        if found and distance <= FAR:
            return found
        if distance > FAR:
            return [
                *found,
                f"different weights: the model's own distributions are far apart ({distance:.3f} in total variation)",
            ]
        return [
            "no recorded setting differs: probably another machine or llama.cpp build, or different weights behind the "
            f"same header (the model's own distributions are {distance:.2g} apart in total variation)"
        ]


def difference_of(node: int, compared: ReplyComparison, before: Start, *, known_shapes: bool) -> Difference | None:
    """The report on a reply that was compared as far as it could be; None if nothing differs."""
    parted, after = compared.parted, compared.start or before
    step, fields = (parted.now.step, parted.fields) if parted is not None else (None, compared.frame())

    def report(was: Token, now: Token | None, ended: str = "") -> Difference:
        return Difference(node, was, now, step, before, after, known_shapes, ended, fields)

    if compared.last is not None and compared.last[0].id != compared.last[1].id:
        return report(*compared.last)
    if (missing := compared.missing()) is not None:
        return report(missing[0], None, missing[1])
    if parted is not None:
        return report(parted.recorded, parted.now)
    return report(*compared.last) if fields and compared.last is not None else None


def total_variation(one: Token, other: Token) -> float:
    """How far apart the model's own distributions are, 0 to 1, measured over the recorded candidates."""
    before, now = ({c.id: math.exp(c.logprob) for c in token.candidates} for token in (one, other))
    return sum(abs(before.get(i, 0.0) - now.get(i, 0.0)) for i in before.keys() | now.keys()) / 2


def _logits(token: Token) -> list[tuple[int, float]]:
    return [(candidate.id, candidate.logit) for candidate in token.candidates]


def lead(token: Token, winner: int, other: int) -> float | None:
    """By how much `winner` was ahead of `other` in a step: in log probability after the chain plus noise, which the dice
    compare; at temperature 0 in the model's logits. None if a candidate was cut or not recorded."""
    found = {candidate.id: candidate for candidate in token.candidates}
    first, second = found.get(winner), found.get(other)
    if first is None or second is None:
        return None
    if is_greedy(token):
        return first.logit - second.logit
    if first.probability <= 0 or second.probability <= 0:
        return None
    return math.log(first.probability) + first.noise - math.log(second.probability) - second.noise


def is_greedy(token: Token) -> bool:
    return any(stage.name == "temperature" and stage.survivors == 1 for stage in token.stages)


def _tie(recorded: Token, now: Token) -> Iterator[str]:
    measure = "in logits" if is_greedy(recorded) else "in logit/temperature + noise"
    for when, token, winner, other in (("recorded", recorded, recorded, now), ("now", now, now, recorded)):
        ahead = lead(token, winner.id, other.id)
        if ahead is not None:
            side = "ahead of" if ahead >= 0 else "behind"
            yield f"  {when}: {_name(winner)} {abs(ahead):.6g} {side} {_name(other)} {measure}"
        else:
            cut = next((c.removed_by for c in token.candidates if c.id == other.id), None)
            yield f"  {when}: {_name(other)} " + (f"was cut by {show_piece(cut)}" if cut else "was not a candidate")


def _table(recorded: Token, now: Token) -> Iterator[str]:
    """The likeliest candidates of both steps, and the two tokens."""
    columns = [{c.id: c for c in token.candidates} for token in (recorded, now)]
    merged = columns[1] | columns[0]
    chosen = [token.id for token in (recorded, now)]
    likely = {i: max(c[i].probability for c in columns if i in c) for i in merged}
    by_probability = [i for i in sorted(likely, key=lambda i: -likely[i]) if likely[i] > 0]
    rows = list(dict.fromkeys([*by_probability[:SHOWN], *chosen]))
    names = {i: _piece(merged[i]) if i in merged else str(i) for i in rows}
    width = max(5, *(cells(name) for name in names.values()))
    yield f"  {'token':<{width}}   recorded    noise        now    noise   (after the chain)"
    for i in rows:
        marks = " ".join(mark for mark, one in zip(("< recorded", "> now"), chosen, strict=True) if one == i)
        padding = " " * (width - cells(names[i]))
        yield f"  {names[i]}{padding} {_cell(columns[0].get(i))} {_cell(columns[1].get(i))}  {marks}".rstrip()


def _cell(candidate: Candidate | None) -> str:
    if candidate is None:
        return f"{'-':>10} {'-':>8}"
    probability = f"{candidate.probability:.6f}" if candidate.probability > 0 else "cut"
    return f"{probability:>10} {candidate.noise:>8.4f}"


def _piece(candidate: Candidate) -> str:
    return f"{show_piece(candidate.text)} ({candidate.id})"


def _name(token: Token) -> str:
    text = next((c.text for c in token.candidates if c.id == token.id), token.text)
    return f"{show_piece(text)} ({token.id})"
