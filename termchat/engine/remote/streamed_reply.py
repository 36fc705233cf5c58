"""One reply whose tokens a server draws and streams, in one or more segments.

Stop sequences, lengths, breakpoints and thoughts are ours, and looked at token by token; what the server drew beyond the end is
dropped. The token that was drawn last and is not taken yet is at hand, as the step that a paused reply shows. A change of
settings, a forced token or a pause closes the stream; the next segment goes on from the ids that are there, with another seed,
since the server's random numbers begin anew.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Generator, Iterator, Sequence
from itertools import chain
from time import perf_counter

from termchat.decoding.conditions import Condition
from termchat.decoding.constraint import Constraint
from termchat.decoding.records import UNKNOWN, Prefill, SettingsRecord, Token
from termchat.decoding.samplers import SamplerSettings
from termchat.decoding.stages import LOGIT_BIAS, without
from termchat.engine.abilities import refused_constraint, refused_knobs, refused_rule, refused_value
from termchat.engine.llama.cells import ContextFull
from termchat.engine.llama.reply import Batched, Ended, Lane, Reply, Running, Wait
from termchat.engine.llama.reply_controls import BEGUN_ANEW, ReplyControls
from termchat.engine.llama.scheduler import Source
from termchat.engine.port import EngineError, Event, Prefilling, ReplyRequest
from termchat.engine.remote.server_logprobs import as_drawn
from termchat.engine.remote.streams import Reading, Segment, StreamEnd, StreamingServer, TokenStream, Told

MOST_SEED = 2**32 - 2
"""llama.cpp's seeds have 32 bits; the last of them stands for a fresh one."""
_MOST_EMPTY = 2
"""Segments in a row that end before a token is told; the first only says that the last token was the last of its segment."""
_NAME = "a server that draws by itself"


def seed_of(seed: int, step: int) -> int:
    """What is sent as the seed of the segment that begins with this step: a reply's own for its first."""
    if step == 0 and seed <= MOST_SEED:
        return seed
    return int.from_bytes(hashlib.blake2b(f"{seed} {step}".encode(), digest_size=4).digest(), "big") % (MOST_SEED + 1)


class _NoBatches(Batched):
    """How prompts are read is the server's own affair."""


class StreamLane(Lane):
    """What a reply has of a server that draws: its stream, and the token that was drawn last, which is not taken yet."""

    draws_here = False

    def __init__(self, server: StreamingServer, request: ReplyRequest, asked_at: float) -> None:
        self._server, self._seed = server, request.seed
        self.model, self.capacity, self.order = server.model, server.capacity, server.order
        self.cells = _NoBatches()
        self._stream: TokenStream | None = None
        self._events: Iterator[Told | Reading | StreamEnd] = iter(())
        self._drawn: Told | None = None
        self._empty, self._since = 0, asked_at
        self._seeded_at = -1
        """The step that the seed of the present segment is for."""

    def admit_settings(
        self, samplers: SamplerSettings, conditions: tuple[Condition, ...], constraint: Constraint | None
    ) -> SamplerSettings:
        """Leave out the knobs that the server lacks; the order stays: a stage that it leaves out is not asked for."""
        abilities = self._server.abilities
        samplers = without(samplers, [name for name in abilities.lacks if name != "order"])
        refused = [
            *refused_knobs(samplers, abilities, _NAME).values(),
            *(
                refused_value(LOGIT_BIAS, value, abilities, _NAME)
                for value in set(self.model.bias(samplers.logit_bias).values())
            ),
            *(refused_rule(condition, abilities, _NAME) for condition in conditions),
            refused_constraint(constraint, abilities, _NAME) if constraint is not None else None,
        ]
        if (why := next(filter(None, refused), None)) is not None:
            raise EngineError("capability", *why)
        return samplers

    def origin_at(self, controls: ReplyControls) -> dict[str, str]:
        if controls.stale or self._seeded_at < 0:
            self._seeded_at = controls.step
        return {"seed": f"sent as {seed_of(self._seed, self._seeded_at)}"}

    def hold_row(self, controls: ReplyControls) -> None:
        """Hang up: the server need not draw ahead of a reply that waits."""
        if not controls.constrains:  # a constraint would begin anew
            self._hang_up()

    def close(self, count: int) -> None:
        self._hang_up()

    def read(self, reply: Reply) -> Iterator[SettingsRecord | Prefilling]:
        """Begin the first segment, and wait until the server has read the prompt."""
        begun, reading = perf_counter(), None
        yield from self._open(reply)
        for event in self._events:
            if not isinstance(event, Reading):
                self._events = chain([event], self._events)
                break
            reading = event
            if event.done < event.total:
                reused = event.reused or 0
                yield Prefilling(event.done - reused, event.total - reused)
        self.prefill_ms = (perf_counter() - begun) * 1e3
        known = reading.reused if reading is not None else None
        shapes = [] if known is None else [len(reply.ids) - known]
        self.prefill = Prefill(len(reply.ids), UNKNOWN if known is None else known, shapes, self.prefill_ms)

    def take_rows(self) -> None:
        """Take the token that was drawn last: the next one is due."""
        self._drawn = None

    def draw(self, reply: Reply) -> Generator[Event | Wait, None, Token]:
        """Return what the server draws next.

        Raises:
            Ended, Aborted, ContextFull, EngineError: it ended the reply, or cannot go on.
        """
        controls, model, count = reply.controls, self.model, reply.command.candidates
        if (forced := controls.forced) is not None:
            if self._drawn is None and not controls.stale and isinstance(event := next(self._events, None), Told):
                self._drawn = event  # what it would have drawn lists others, too
            self._hang_up()
            listed = (self._drawn.ids, self._drawn.logprobs) if self._drawn is not None else (None, None)
            told = Told(forced, ids=listed[0], logprobs=listed[1])
            drawn, self.least = as_drawn(told, model, count, reply.step)
            return drawn
        if controls.stale:
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
        if controls.waiting:
            self.hold_row(controls)
        drawn, self.least = as_drawn(self._drawn, model, count, reply.step)
        return drawn

    def _open(self, reply: Reply) -> Iterator[SettingsRecord]:
        """Begin a segment; yield the record of its settings, unless that is there."""
        controls = reply.controls
        step, controls.stale = controls.step, True
        if controls.constrains and controls.constraint_begun < step:
            yield controls.drop_constraint(BEGUN_ANEW)
        elif self._seeded_at != step:
            yield controls.record_settings()
        controls.stale = False
        limit = self.capacity - len(reply.ids)
        if controls.limit is not None:
            limit = min(limit, controls.limit - reply.step)
        if (controls.steps or controls.waiting) and not controls.constrains:
            limit = 1
        self._since = perf_counter()
        self._stream = self._server.stream(
            Segment(
                reply.ids.copy(), step, controls.samplers, controls.conditions, seed_of(self._seed, step), max(limit, 1),
                reply.command.candidates, controls.constraint if controls.constrains else None,
            )
        )  # fmt: skip
        self._events = iter(self._stream)

    def _hang_up(self) -> None:
        stream, self._stream, self._events = self._stream, None, iter(())
        if stream is not None:
            stream.close()

    def _end(self, end: StreamEnd, reply: Reply) -> None:
        """End the segment; the reply goes on with another one, unless it is over, too."""
        self._hang_up()
        passes = reply.controls.rules.ignores_end and reply.step > 0 and reply.ids[-1] in self.model.end_ids
        if end.reason == "context":
            raise ContextFull
        if end.reason != "length" and not (end.reason == "end" and passes):
            raise Ended(end.reason, end.detail)
        self._empty += 1
        if self._empty > _MOST_EMPTY:
            raise EngineError("server", "the server draws no token", "see the server's log")


class StreamSource(Source):
    """Has a server draw a reply; see `Source`."""

    def __init__(self, server: StreamingServer, asked_at: float) -> None:
        self.room = self._server = server
        self._asked_at = asked_at
        self.steps = 0

    def open(self, request: ReplyRequest) -> StreamLane:
        return StreamLane(self._server, request, self._asked_at)

    def prefill_prompts(self, runs: Collection[Running]) -> Iterator[Event]:
        for run in list(runs):
            if isinstance(run, Reply) and isinstance(run.lane, StreamLane):
                yield from run.lane.read(run)

    def decode(self, runs: Sequence[Running], running: Sequence[Running]) -> tuple[()]:
        """The server has decoded when it tells the next token."""
        for run in runs:
            assert isinstance(run.lane, StreamLane)
            run.lane.take_rows()
            run.waits = None
        return ()
