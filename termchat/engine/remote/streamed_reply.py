"""One reply whose tokens a server draws and streams, in one or more segments.

Stop sequences, lengths, breakpoints and thoughts are ours, and looked at token by token; what the server drew beyond the end is
dropped. The token that was drawn last and is not taken yet is at hand, as the step that a paused reply shows. A change of
settings, a forced token or a pause closes the stream; the next segment goes on from the ids that are there, with another seed,
since the server's random numbers begin anew.
"""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Iterator
from time import perf_counter

import msgspec
import numpy as np

from termchat.decoding.conditions import Condition
from termchat.decoding.constraint import NOT_YET, Constraint
from termchat.decoding.lacking import without
from termchat.decoding.records import UNKNOWN, Prefill, SettingsRecord, Start, Token
from termchat.decoding.samplers import SamplerSettings
from termchat.decoding.stages import LOGIT_BIAS
from termchat.decoding.thinking import Phase
from termchat.engine.abilities import refused_constraint, refused_knobs, refused_rule, refused_value
from termchat.engine.llama.cells import ContextFull
from termchat.engine.llama.drafts import NoDrafts
from termchat.engine.llama.grammars import ConstraintError
from termchat.engine.llama.observe import Drawn
from termchat.engine.llama.requests import Generate
from termchat.engine.llama.running_reply import Ended, Pending, Poll, RunningReply, Said
from termchat.engine.llama.softmax import Row
from termchat.engine.llama.steering import Redraw, Steering
from termchat.engine.port import EngineError, Noted, Paused, Prefilling
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


class ServedContext:
    """What a reply is made in."""

    exact = False
    threads = 0

    def __init__(self, server: StreamingServer) -> None:
        self.model, self.capacity = server.model, server.capacity
        self.cache = _NoBatches()
        self.drafts = NoDrafts()
        self.decode_us, self.prefill_ms = 0, 0.0

    def set_threads(self, threads: int) -> None:
        """They are the server's own affair."""

    def prepare(self, ids: list[int]) -> None:
        """What the server still has of them it says itself."""

    def prefill(self, ids: list[int]) -> tuple[()]:
        """The first segment reads the prompt."""
        return ()

    def decode(self, ids: list[int]) -> tuple[()]:
        """The server has done it when it tells the next token."""
        return ()

    def row(self) -> Row:
        """No logits are told."""
        return np.empty(0, np.float32)


class ServedSteering(Steering):
    """`stale`: the stream is not of these settings, which are those that were asked for without what the server lacks. Each
    record of settings says in its `origin` which seed the segment has."""

    def __init__(self, server: StreamingServer, request: Generate, context: ServedContext, past: list[int]) -> None:
        self._server, self._seed = server, request.seed
        self.stale = True
        self.stamped = -1
        samplers = self._there(request.samplers)
        super().__init__(msgspec.structs.replace(request, samplers=samplers), context, past, len(past) - request.done)
        self._check(samplers, request.conditions, request.constraint)

    def rebuild(self) -> None:
        self.stale = True

    def tell_chain(self, drawn: Drawn, *, forced: bool) -> None:
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


class StreamedReply(RunningReply):
    """See `RunningReply`; `served` is who draws."""

    steering: ServedSteering

    def __init__(self, request: Generate, served: StreamingServer, poll: Poll, asked_at: float) -> None:
        self._served, self._context = served, ServedContext(served)
        self._stream: TokenStream | None = None
        self._events: Iterator[Told | Reading | StreamEnd] = iter(())
        self._told: Told | None = None
        self._empty, self._since = 0, asked_at
        super().__init__(request, self._context, poll, asked_at)

    def close(self) -> None:
        self._hang_up()
        super().close()

    @property
    def redraw(self) -> Redraw:
        return None

    def _steered(self) -> ServedSteering:
        return ServedSteering(self._served, self.request, self._context, self.ids)

    def _start(self) -> Start:
        return msgspec.structs.replace(super()._start(), dice=0)

    def _prefill(self) -> Iterator[Said | Pending]:
        yield from self._read()
        begun, read = perf_counter(), None
        yield from self._open()
        for said in self._events:
            if not isinstance(said, Reading):
                self._events = _with(said, self._events)
                break
            read = said
            if said.done < said.total:
                reused = said.reused or 0
                yield Prefilling(said.done - reused, said.total - reused)
                yield from self._read()
        self._context.prefill_ms = ms = (perf_counter() - begun) * 1e3
        known = read.reused if read is not None else None
        shapes = [] if known is None else [len(self.ids) - known]
        yield Prefill(len(self.ids), UNKNOWN if known is None else known, shapes, ms)

    def _open(self) -> Iterator[SettingsRecord]:
        """Begins a segment."""
        steering = self.steering
        yield from steering.begin_segment()
        limit = self._context.capacity - len(self.ids)
        if steering.limit is not None:
            limit = min(limit, steering.limit - self.step)
        if (steering.stepping or steering.waiting) and not steering.constrains:
            limit = 1
        self._since = perf_counter()
        self._stream = self._served.stream(steering.segment(max(limit, 1), self.request.candidates))
        self._events = iter(self._stream)

    def _hang_up(self) -> None:
        stream, self._stream, self._events = self._stream, None, iter(())
        if stream is not None:
            stream.close()

    def _draw(self) -> Generator[SettingsRecord, None, Drawn]:
        steering, model = self.steering, self.model
        if (forced := steering.forced) is not None:
            if self._told is None and not steering.stale and isinstance(said := next(self._events, None), Told):
                self._told = said  # what it would have drawn lists others, too
            self._hang_up()
            listed = (self._told.ids, self._told.logprobs) if self._told is not None else (None, None)
            return as_drawn(Told(forced, ids=listed[0], logprobs=listed[1]), model, self.request.candidates)
        if steering.stale:
            self._hang_up()
            self._told = None
        while self._told is None:
            if self._stream is None:
                yield from self._open()
            said = next(self._events, None)
            if isinstance(said, Told):
                self._told, self._empty = said, 0
                now = perf_counter()
                self._context.decode_us, self._since = int((now - self._since) * 1e6), now
            elif isinstance(said, StreamEnd):
                self._end(said)
            elif said is None:
                raise EngineError("internal", "a stream ended without a word", "")
        self._rest()
        return as_drawn(self._told, model, self.request.candidates)

    def _end(self, said: StreamEnd) -> None:
        """The segment is over: the reply goes on with another one, unless it is over, too."""
        self._hang_up()
        goes_on = said.reason == "length" or (said.reason == "end" and self._passes_over_end())
        if said.reason == "context":
            raise ContextFull
        if not goes_on:
            raise Ended(said.reason, said.detail)
        self._empty += 1
        if self._empty > _MOST_EMPTY:
            raise EngineError("server", "the server draws no token", "see the server's log")

    def _passes_over_end(self) -> bool:
        return self.steering.rules.ignores_end and self.step > 0 and self.ids[-1] in self.model.end_ids

    def _wait(self, drawn: Drawn) -> Generator[SettingsRecord | Paused | Noted, None, Drawn]:
        self._rest()
        return (yield from super()._wait(drawn))

    def _rest(self) -> None:
        """The server need not draw ahead of a reply that waits, unless a constraint would then begin anew."""
        if self.steering.waiting and not self.steering.constrains:
            self._hang_up()

    def _record(
        self, drawn: Drawn, text: str, sample_us: int, *, forced: bool = False, phase: Phase | None = None
    ) -> Token:
        return super()._record(drawn, text, 0, forced=forced, phase=phase)

    def _decode(self) -> Iterator[SettingsRecord | Pending]:
        self._told = None
        yield from super()._decode()


def _with(
    first: Told | StreamEnd, others: Iterator[Told | Reading | StreamEnd]
) -> Iterator[Told | Reading | StreamEnd]:
    yield first
    yield from others
