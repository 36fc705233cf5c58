"""What one reply, many or a beam search are asked for inside the engine, taken apart from the port's one request."""

from __future__ import annotations

from typing import Any

import msgspec

from termchat.decoding.conditions import Condition
from termchat.decoding.constraint import Constraint
from termchat.decoding.drafting import DraftSettings
from termchat.decoding.group import Group
from termchat.decoding.records import Shape
from termchat.decoding.samplers import SamplerSettings
from termchat.engine import port
from termchat.engine.port import Message, ReplyRequest, Scripted, SteerReply


class Generate(msgspec.Struct, frozen=True):
    """Go on from `ids`; the last `done` of them are the reply's own so far, so the next step's number is `done`.

    `shapes` are those in which `ids` were decoded once, as far as that is known; with `rebuild_exactly` cells that are gone, or
    were made otherwise since, are decoded again in just those. `script` is in order of steps; `paused` waits before the first
    token that is not forced. `keep_logits` has what is drawn from kept for `Score`. `prefill` is the text that the first of the
    scripted tokens came from, for the `Start` record. `state` is what mirostat and adaptive_p remember of the reply so far
    (`decoding.stage_state`), here and in the questions below. The reply matches the `constraint` from step `constraint_begun`
    on, here and below. With a `draft` tokens are guessed and decoded together, which changes none of them, but where rows of a
    batch have other bits than each alone; the `Start` says whether the reply is exact then.

    An engine without ids answers the `messages`, which nobody gives to another one; `ids` are empty then. A `largest_change`
    stands for the measured one (see `Start`).

    Answer: `Prefilling` …, then the record stream, and a `Paused` whenever it waits.
    """

    ids: list[int]
    samplers: SamplerSettings
    conditions: tuple[Condition, ...]
    seed: int
    origin: dict[str, str] = {}
    done: int = 0
    raw: bool = False
    candidates: int = 20
    shapes: list[Shape] = []
    rebuild_exactly: bool = False
    script: tuple[Scripted, ...] = ()
    paused: bool = False
    keep_logits: bool = True
    prefill: str = ""
    state: dict[str, float] = {}
    constraint: Constraint | None = None
    constraint_begun: int = 0
    draft: DraftSettings | None = None
    messages: list[Message] = []
    largest_change: float | None = None


class Walk(msgspec.Struct, frozen=True):
    """One of several replies from one prompt: its number, and what is its own, named as in `Generate`.

    With `ids` it begins behind the prompt with tokens of another walk, whose cells it copies.
    """

    number: int
    samplers: SamplerSettings
    conditions: tuple[Condition, ...]
    seed: int
    origin: dict[str, str] = {}
    script: tuple[Scripted, ...] = ()
    paused: bool = False
    constraint: Constraint | None = None
    state: dict[str, float] = {}
    ids: list[int] = []


class GenerateWalks(msgspec.Struct, frozen=True):
    """Several replies to one prompt, decoded in one batch a step; fields as in `Generate`. The prompt is decoded once.

    However many threads compute a batch, its rows have the bits of one: so every walk is what its seed and settings give alone
    with one thread, where a batch has no more rows than are known to have the bits of a row alone (`Measurement.rows_alike`);
    if it is to be `exact`, a step is as many batches as that takes. The `Start` says whether it is so, and all records say
    `threads` 1.
    Cells of a walk that ended stay until all are over: without them the others would be computed otherwise. When there is no
    cell for each that runs, all of them end (`context`). A `draft` from the context is decoded with the others' rows where
    that pays, which few walks allow; a draft model drafts for one reply at a time.

    Answer: `Prefilling` …, then the record streams of all walks, interleaved, each record with its `walk`, in every stream as
    for `Generate`; a `Paused` whenever a walk waits; and `WalksFinished` in the end. A `Failed` with a walk ends only that one.
    """

    ids: list[int]
    walks: list[Walk]
    group: Group
    done: int = 0
    raw: bool = False
    candidates: int = 20
    shapes: list[Shape] = []
    rebuild_exactly: bool = False
    prefill: str = ""
    constraint_begun: int = 0
    draft: DraftSettings | None = None
    exact: bool = False


class SearchBeams(msgspec.Struct, frozen=True):
    """A beam search from a prompt, as the `beams` of the `group` say; other fields as in `Generate`. Of the conditions only the
    length and the stop sequences count. It is exact as walks are, where there is a cell for each token that the beams can take;
    else cells that nobody needs any more are freed as it goes. Afterwards `Keep` takes any of its walks.

    Answer: `Prefilling` …, then `Start`, `Settings` and `Prefill` of walk 0, a `FirstToken`, a `Beams` a step, and when it is
    over the tokens and `Finished` of walk 0, the best; then the same of the other ones of the n best, each with its `Start`,
    `Settings` and `Prefill`; then `WalksFinished`. There are fewer than the n best where no more were found. Their tokens are
    forced: the search chose them.

    It obeys `Pause`, `Resume`, `Step`, of whatever unit one step, and `Cancel`, which ends it with the beams that there are.
    `Paused` has what the best beam would take.
    """

    ids: list[int]
    samplers: SamplerSettings
    conditions: tuple[Condition, ...]
    seed: int
    group: Group
    origin: dict[str, str] = {}
    done: int = 0
    raw: bool = False
    candidates: int = 20
    shapes: list[Shape] = []
    rebuild_exactly: bool = False
    paused: bool = False
    prefill: str = ""
    state: dict[str, float] = {}
    constraint: Constraint | None = None
    constraint_begun: int = 0


class ToWalk(msgspec.Struct, frozen=True):
    """A command for one walk of the running group."""

    walk: int
    command: SteerReply


class Join(msgspec.Struct, frozen=True):
    """One more walk for the running group."""

    walk: Walk


Steer = SteerReply | ToWalk | Join


def unpack(command: port.Generate) -> Generate | GenerateWalks | SearchBeams:
    """Return the request for one reply, for many, or for a beam search."""
    first = command.replies[0]
    if command.group is None:
        return Generate(
            **_shared(first, Generate), raw=command.raw, candidates=command.candidates, keep_logits=command.keep_logits,
            draft=command.draft, largest_change=command.largest_change,
        )  # fmt: skip
    if command.group.beams is not None:
        return SearchBeams(
            **_shared(first, SearchBeams), group=command.group, raw=command.raw, candidates=command.candidates
        )
    return GenerateWalks(
        **_shared(first, GenerateWalks), walks=[_walk(reply) for reply in command.replies], group=command.group,
        raw=command.raw, candidates=command.candidates, draft=command.draft, exact=command.exact,
    )  # fmt: skip


def address(command: port.Steer) -> Steer:
    """Return the command for one walk or for all."""
    if isinstance(command, port.Join):
        return Join(_walk(command.reply, command.reply.ids))
    return command if command.reply is None else ToWalk(command.reply, command)


def _walk(reply: ReplyRequest, ids: list[int] | None = None) -> Walk:
    return Walk(
        reply.number, reply.samplers, reply.conditions, reply.seed, reply.origin, reply.script, reply.paused,
        reply.constraint, reply.state, ids or [],
    )  # fmt: skip


def _shared(reply: ReplyRequest, kind: type[msgspec.Struct]) -> dict[str, Any]:
    return {name: getattr(reply, name) for name in reply.__struct_fields__ if name in kind.__struct_fields__}
