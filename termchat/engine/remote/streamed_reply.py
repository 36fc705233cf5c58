"""One reply whose tokens a server draws and streams, in one or more segments.

Stop sequences, lengths, breakpoints and thoughts are ours, and looked at token by token; what the server drew beyond the end is
dropped. The token that was drawn last and is not taken yet is at hand, as the step that a paused reply shows. A change of
settings, a forced token or a pause closes the stream; the next segment goes on from the ids that are there, with another seed,
since the server's random numbers begin anew.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from time import perf_counter

import msgspec
import numpy as np

from termchat.decoding.conditions import Condition, Measure
from termchat.decoding.constraint import NOT_YET, Constraint
from termchat.decoding.lacking import without
from termchat.decoding.records import UNKNOWN, Prefill, SettingsRecord, Token
from termchat.decoding.samplers import SamplerSettings
from termchat.decoding.stages import LOGIT_BIAS
from termchat.engine.abilities import refused_constraint, refused_knobs, refused_rule, refused_value
from termchat.engine.llama.cells import ContextFull
from termchat.engine.llama.chain import Chain
from termchat.engine.llama.grammars import ConstraintError
from termchat.engine.llama.reply import Ended, Reply, Running, Wait
from termchat.engine.llama.softmax import Row
from termchat.engine.llama.speculation import NoDrafts
from termchat.engine.llama.steering import Context, Steering
from termchat.engine.port import EngineError, Event, Prefilling, ReplyRequest
from termchat.engine.remote.streams import Reading, Segment, StreamEnd, StreamingServer, TokenStream, Told
from termchat.engine.remote.told_numbers import as_drawn

MOST_SEED = 2**32 - 2
"""llama.cpp's seeds have 32 bits; the last of them stands for a fresh one."""
_MOST_EMPTY = 2
"""Segments in a row that end before a token is told; the first only says that the last token was the last of its segment."""
_NAME = "a server that draws by itself"
_BEGUN = "the server begins it anew when the reply goes on"


def seed_of(seed: int, step: int) -> int:
    """What is sent as the seed of the segment that begins with this step: a reply's own for its first."""
    if step == 0 and seed <= MOST_SEED:
        return seed
    return int.from_bytes(hashlib.blake2b(f"{seed} {step}".encode(), digest_size=4).digest(), "big") % (MOST_SEED + 1)


class _NoBatches:
    """How prompts are read is the server's own affair."""

    largest_change: float | None = None
    kv_type = ""
    batch_size = 0
    threads_batch = 0


class ServedSteering(Steering):
    """`stale`: the stream is not of these settings, which are those that were asked for without what the server lacks. Each
    record of settings says in its `origin` which seed the segment has."""

    def __init__(self, server: StreamingServer, request: ReplyRequest, context: Context, past: list[int]) -> None:
        self._server, self._seed = server, request.seed
        self.stale = True
        self.stamped = -1
        samplers = self._there(request.samplers)
        super().__init__(msgspec.structs.replace(request, samplers=samplers), context, past, len(past) - request.done)
        self._check(samplers, request.conditions, request.constraint)

    def rebuild(self) -> None:
        self.stale = True

    def tell_chain(self, drawn: Token, *, forced: bool) -> None:
        """The server's chain begins with all ids in each segment."""

    def record(self) -> SettingsRecord:
        if self.stale or self.stamped < 0:
            self.stamped = self._step
        record = super().record()
        return msgspec.structs.replace(
            record, origin=record.origin | {"seed": f"sent as {seed_of(self._seed, self.stamped)}"}
        )

    def begin_segment(self) -> Iterator[SettingsRecord]:
        """The record of the segment that begins with the next step, unless it is there."""
        self.stale = True
        if self.constrains and self.constraint_begun < self._step:
            yield self.drop(_BEGUN)
        elif self.stamped != self._step:
            yield self.record()
        self.stale = False

    def segment(self, limit: int, candidates: int) -> Segment:
        """What is asked for."""
        constraint = self.constraint if self.constrains else None
        return Segment(
            self._past.copy(), self._step, self.samplers, self.conditions, seed_of(self._seed, self._step), limit,
            candidates, constraint,
        )  # fmt: skip

    @property
    def constrains(self) -> bool:
        """Whether the next token has to match a constraint."""
        return self.constraint is not None and not self.dropped and self.constraint_begun != NOT_YET

    def take(self, token: int) -> SettingsRecord | None:
        thinking = self.thoughts.phase == "thinking"
        if self.constraint is None or self.dropped or thinking == (self.constraint_begun == NOT_YET):
            return None
        self._constrain(self.constraint, self._step)
        return self.record()

    @property
    def incomplete(self) -> bool:
        if self.constraint is None or self.dropped:
            return False
        try:
            follower = self._model.grammars.follow(self.constraint, self._past[self._reply + self.constraint_begun :])
        except (ConstraintError, EngineError):
            return False
        return not follower.accepting

    def _order(self, *, biased: bool) -> list[str]:
        """In the server's order, where it has one of its own."""
        found, own = super()._order(biased=biased), self._server.order
        return [name for name in own if name in found] if own else found

    def _constrain(self, constraint: Constraint | None, begun: int) -> None:
        thinking = constraint is not None and self.thoughts.phase == "thinking"
        self.constraint, self.grammar, self.dropped = constraint, None, ""
        self.constraint_begun = NOT_YET if thinking else min(begun, self._step)
        self.stale = True

    def _check_constraint(self) -> None:
        if self.constrains and self.constraint_begun < self._step:
            raise EngineError(
                "capability",
                f"the constraint cannot be followed further: {_BEGUN}",
                "remove the constraint, and the reply goes on without it",
            )

    def _change(
        self,
        samplers: SamplerSettings,
        conditions: tuple[Condition, ...],
        origin: dict[str, str],
        constraint: Constraint | None,
    ) -> None:
        samplers = self._there(samplers)
        self._check(samplers, conditions, constraint)
        super()._change(samplers, conditions, origin, constraint)

    def _there(self, samplers: SamplerSettings) -> SamplerSettings:
        """Without the knobs that the server lacks. The order stays: a stage that it leaves out is not asked for."""
        return without(samplers, [name for name in self._server.abilities.lacks if name != "order"])

    def _check(
        self, samplers: SamplerSettings, conditions: tuple[Condition, ...], constraint: Constraint | None
    ) -> None:
        """Whether the server can do all this.

        Raises:
            EngineError: it cannot.
        """
        abilities = self._server.abilities
        summed = self._model.bias(samplers.logit_bias)
        refused = [
            *refused_knobs(samplers, abilities, _NAME).values(),
            *(refused_value(LOGIT_BIAS, value, abilities, _NAME) for value in set(summed.values())),
            *(refused_rule(condition, abilities, _NAME) for condition in conditions),
            refused_constraint(constraint, abilities, _NAME) if constraint is not None else None,
        ]
        if (why := next(filter(None, refused), None)) is not None:
            raise EngineError("capability", *why)


class StreamLane:
    """What a reply has of a server that draws: its stream, and the token that was drawn last, which is not taken yet."""

    exact = False
    threads = 0
    draws_here = False

    def __init__(self, server: StreamingServer, asked_at: float) -> None:
        self._server = server
        self.model, self.capacity = server.model, server.capacity
        self.cells = _NoBatches()
        self.drafts = NoDrafts()
        self.decode_us, self.prefill_ms = 0, 0.0
        self.prefill: Prefill | None = None
        self._stream: TokenStream | None = None
        self._events: Iterator[Told | Reading | StreamEnd] = iter(())
        self.least: Mapping[Measure, float] = {}
        self._drawn: Told | None = None
        self._empty, self._since = 0, asked_at
        self._steering: ServedSteering | None = None

    def set_threads(self, threads: int) -> bool:
        """Do nothing: they are the server's own affair."""
        return True

    def steer(self, request: ReplyRequest, ids: list[int], walk: int | None) -> ServedSteering:
        self._steering = ServedSteering(self._server, request, self, ids)
        return self._steering

    def row(self, reply: Reply, chain: Chain) -> Row:
        """Return nothing: no logits are told."""
        return np.empty(0, np.float32)

    def hold(self) -> None:
        """Hang up: the server need not draw ahead of a reply that waits."""
        if self._steering is not None and not self._steering.constrains:  # a constraint would begin anew
            self._hang_up()

    def close(self, count: int) -> None:
        self._hang_up()

    def read(self, reply: Reply) -> Iterator[SettingsRecord | Prefilling]:
        """Begin the first segment, and wait until the server has read the prompt."""
        begun, reading = perf_counter(), None
        yield from self._open(reply)
        for event in self._events:
            if not isinstance(event, Reading):
                self._events = _with(event, self._events)
                break
            reading = event
            if event.done < event.total:
                reused = event.reused or 0
                yield Prefilling(event.done - reused, event.total - reused)
        self.prefill_ms = (perf_counter() - begun) * 1e3
        known = reading.reused if reading is not None else None
        shapes = [] if known is None else [len(reply.ids) - known]
        self.prefill = Prefill(len(reply.ids), UNKNOWN if known is None else known, shapes, self.prefill_ms)

    def take(self) -> None:
        """Take the token that was drawn last: the next one is due."""
        self._drawn = None

    def draw(self, reply: Reply) -> Generator[Event | Wait, None, Token]:
        """Return what the server draws next.

        Raises:
            Ended, Aborted, ContextFull, EngineError: it ended the reply, or cannot go on.
        """
        steering, model, count = self._steering, self.model, reply.command.candidates
        assert steering is not None
        if (forced := steering.forced) is not None:
            if self._drawn is None and not steering.stale and isinstance(event := next(self._events, None), Told):
                self._drawn = event  # what it would have drawn lists others, too
            self._hang_up()
            listed = (self._drawn.ids, self._drawn.logprobs) if self._drawn is not None else (None, None)
            told = Told(forced, ids=listed[0], logprobs=listed[1])
            drawn, self.least = as_drawn(told, model, count, reply.step)
            return drawn
        if steering.stale:
            self._hang_up()
            self._drawn = None
        if self._drawn is None and not reply.drawn_at:
            yield Wait.TOKEN  # what is known of the prompt need not wait for the first token
        while self._drawn is None:
            if self._stream is None:
                yield from self._open(reply)
            event = next(self._events, None)
            if isinstance(event, Told):
                self._drawn, self._empty = event, 0
                now = perf_counter()
                self.decode_us, self._since = int((now - self._since) * 1e6), now
            elif isinstance(event, StreamEnd):
                self._end(event, reply)
            elif event is None:
                raise EngineError("internal", "a stream ended without a word", "")
        if steering.waiting:
            self.hold()
        drawn, self.least = as_drawn(self._drawn, model, count, reply.step)
        return drawn

    def _open(self, reply: Reply) -> Iterator[SettingsRecord]:
        """Begin a segment."""
        steering = self._steering
        assert steering is not None
        yield from steering.begin_segment()
        limit = self.capacity - len(reply.ids)
        if steering.limit is not None:
            limit = min(limit, steering.limit - reply.step)
        if (steering.stepping or steering.waiting) and not steering.constrains:
            limit = 1
        self._since = perf_counter()
        self._stream = self._server.stream(steering.segment(max(limit, 1), reply.command.candidates))
        self._events = iter(self._stream)

    def _hang_up(self) -> None:
        stream, self._stream, self._events = self._stream, None, iter(())
        if stream is not None:
            stream.close()

    def _end(self, end: StreamEnd, reply: Reply) -> None:
        """End the segment; the reply goes on with another one, unless it is over, too."""
        self._hang_up()
        passes = reply.steering.rules.ignores_end and reply.step > 0 and reply.ids[-1] in self.model.end_ids
        if end.reason == "context":
            raise ContextFull
        if end.reason != "length" and not (end.reason == "end" and passes):
            raise Ended(end.reason, end.detail)
        self._empty += 1
        if self._empty > _MOST_EMPTY:
            raise EngineError("server", "the server draws no token", "see the server's log")


class StreamSource:
    """Has a server draw a reply; see `Source`."""

    def __init__(self, server: StreamingServer, asked_at: float) -> None:
        self.room, self._asked_at = server, asked_at
        self.steps = 0

    def open(self, request: ReplyRequest) -> StreamLane:
        return StreamLane(self.room, self._asked_at)

    def plan(self, runs: Sequence[Running]) -> None:
        """What the server still has of the prompt it says itself."""

    def prefill(self, runs: Collection[Running]) -> Iterator[Event]:
        for run in list(runs):
            if isinstance(run, Reply) and isinstance(run.lane, StreamLane):
                yield from run.lane.read(run)

    def join(self, run: Running) -> None:
        """A server that draws by itself makes one reply at a time."""

    def accept(self, run: Running) -> bool:
        return False

    def decode(self, runs: Sequence[Running], running: Sequence[Running]) -> tuple[()]:
        """The server has decoded when it tells the next token."""
        for run in runs:
            assert isinstance(run.lane, StreamLane)
            run.lane.take()
            run.waits = None
        return ()

    def close(self, runs: Collection[Running]) -> None:
        """Each stream is closed with its reply."""


def _with(
    first: Told | StreamEnd, others: Iterator[Told | Reading | StreamEnd]
) -> Iterator[Told | Reading | StreamEnd]:
    yield first
    yield from others
