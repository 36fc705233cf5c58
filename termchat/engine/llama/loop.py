"""The observed loop: prefill once, then logits, chain, dice, record, decode, again and again.

`generate` is a generator of records. It reads its settings once a step; commands reach it between tokens and between
prefill batches. Nothing in it knows a pipe.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from functools import partial
from math import inf
from time import perf_counter

import termchat
from termchat.decoding import dice
from termchat.decoding.constraint import GRAMMAR
from termchat.decoding.records import (
    FORMAT,
    Finished,
    ModelIdentity,
    Prefill,
    Reason,
    Record,
    SettingsRecord,
    Shape,
    Start,
    Token,
)
from termchat.decoding.samplers import SamplerSettings
from termchat.decoding.thinking import Phase
from termchat.engine.llama import native
from termchat.engine.llama.cache import SPLIT, Aborted, Cache, ContextFull, OutOfTime
from termchat.engine.llama.chain import Chain, NothingFits, Observer
from termchat.engine.llama.model import Model
from termchat.engine.llama.observe import Drawn, Mask
from termchat.engine.llama.pace import Pace
from termchat.engine.llama.softmax import Row
from termchat.engine.llama.steering import MOST_THREADS, Cancelled, Steering
from termchat.engine.llama.threads import all_threads
from termchat.engine.port import EngineError, FirstToken, Generate, Paused, Prefilling, Steer

Poll = Callable[[], Steer | None]
"""The next command for the running reply, or None; never waits."""


def generate(
    cache: Cache, pace: Pace, request: Generate, poll: Poll, asked_at: float, row: Callable[[], Row] | None = None
) -> Iterator[Record | Prefilling | FirstToken | Paused]:
    """The records of one reply, from `Start` to `Finished`.

    After a `Paused` it continues when `poll` has a command; without one it yields the same again, so wait for one.
    `asked_at` is the `perf_counter` at which the request came. `row` gives the logits that the cache has at hand, or a copy of
    them.

    Raises:
        EngineError: the prompt is empty or larger than the context, a condition is invalid, or llama.cpp failed.
    """
    model = cache.model
    if not request.ids:
        raise EngineError("prompt", "the prompt is empty", "type a message or set a system prompt")
    scripted = [entry.id for entry in request.script if entry.id is not None]
    unknown = next((i for i in (*request.ids, *scripted) if not 0 <= i < model.n_vocab), None)
    if unknown is not None:
        raise EngineError(
            "prompt", f"token {unknown} is not in this model's vocabulary", "was this chat written with another model?"
        )
    if len(request.ids) > cache.capacity:
        raise EngineError(
            "context",
            f"the prompt has {len(request.ids)} tokens, the context {cache.capacity}",
            "shorten it, start a new chat, or load the model with a larger --context",
        )
    reply = _Reply(cache, pace, request, poll, asked_at, row or cache.logits)
    try:
        yield from reply.records()
    finally:
        reply.close()


class _Reply:
    """One running reply: its ids, its steering, and its clock, which stops while the reply is paused."""

    def __init__(
        self,
        cache: Cache,
        pace: Pace,
        request: Generate,
        poll: Poll,
        asked_at: float,
        row: Callable[[], Row],
    ) -> None:
        self.cache, self.pace, self.request, self.poll, self.row = cache, pace, request, poll, row
        self.ids = list(request.ids)
        self.step = request.done
        self.steering = Steering(request, cache, self.ids, len(self.ids) - request.done)
        self.asked_at = asked_at
        self.waited = 0.0
        self.prefill_ms = 0.0
        self.decode_us = 0
        self.drawn_at: list[float] = []
        self.mask: Mask | None = None
        model = cache.model
        self.observer = Observer(model.n_vocab, model.end_ids, model.names, request.candidates)

    def close(self) -> None:
        """Frees the chain; the next reply begins with as many threads as are best, whatever a script or a trial had set."""
        self.steering.close()
        self.pace.rest()
        self.cache.limit_threads(self.pace.limit)

    @property
    def _pace(self) -> Pace | None:
        """None where a script names the threads."""
        return None if self.steering.keeps_threads else self.pace

    def records(self) -> Iterator[Record | Prefilling | FirstToken | Paused]:
        cache, request, steering = self.cache, self.request, self.steering
        plan = cache.prepare(self.ids, request.shapes if request.rebuild_exactly else None, self._most_threads())
        yield self._start(plan)
        yield steering.record()
        ending: tuple[Reason, str] | None = None
        prefilled = False
        try:
            yield from self._prefill(plan)
            prefilled = True
            steering.rebuild()
            while True:
                yield from self._read()
                yield from steering.begin(self.step)
                begun = self._now()
                drawn = yield from self._draw()
                seconds = self._now() - self.drawn_at[0] if self.drawn_at else 0.0
                rule = steering.before(self.step, drawn, drawn.id, seconds, self._redraw)
                if rule:
                    ending = ("rule", rule)
                    break
                if steering.waiting:
                    drawn = yield from self._wait(drawn)
                self.drawn_at.append(self._now())
                if len(self.drawn_at) == 1:
                    yield FirstToken((self.drawn_at[0] - self.asked_at) * 1e3)
                token, ending = self._take(drawn, begun)
                yield token
                if (dropped := steering.take(drawn.id)) is not None:
                    yield dropped
                elif ending is None and steering.complete:
                    ending = ("end", f"nothing can follow ({GRAMMAR})")
                if ending is not None:
                    break
                steering.prepare()
                yield from self._decode()
        except (Cancelled, Aborted):
            ending = ("user", "" if prefilled else "during prefill")
        except ContextFull:
            ending = ("context", f"{cache.capacity} of {cache.capacity}")
        assert ending is not None
        reason, detail = ending
        if reason not in ("end", "stop") and steering.incomplete:
            detail = f"{detail}; {GRAMMAR}: incomplete" if detail else f"{GRAMMAR}: incomplete"
        yield self._finished(reason, detail)

    def _now(self) -> float:
        return perf_counter() - self.waited

    def _read(self) -> Iterator[SettingsRecord]:
        while (command := self.poll()) is not None:
            yield from self.steering.obey(command)

    def _most_threads(self) -> int:
        """How many threads may decode lost cells again as they were decoded: where a person set the number, no others."""
        if self.steering.keeps_threads:
            return MOST_THREADS
        return all_threads() if self.cache.adaptable[0] > 1 else 0

    def _start(self, plan: list[Shape]) -> Start:
        cache, request = self.cache, self.request
        model = cache.model
        reused = len(self.ids) - sum(shape.rows for shape in plan)
        # A reply that goes on stands on cells as it had them; a new one on any, as long as it is known how they were made.
        count = len(self.ids) if request.done else reused
        as_recorded = cache.is_made_as(request.shapes, count, plan)
        lost = request.done and not request.shapes and reused < len(self.ids) - 1
        return Start(
            version=FORMAT,
            termchat=termchat.__version__,
            llama_cpp=native.version(),
            model=identity(cache),
            prompt_ids=self.ids.copy(),
            raw=request.raw,
            seed=request.seed,
            dice=dice.VERSION,
            threads=cache.threads,
            threads_batch=cache.threads_batch,
            ubatch=cache.batch_size,
            kv_type=model.spec.kv_type,
            exact=cache.exact and not model.gpu_layers and as_recorded and not lost,
            prefill=request.prefill,
            thinking=(tags.opening, tags.closing) if (tags := model.thinking) is not None else (),
        )

    def _prefill(self, plan: list[Shape]) -> Iterator[Record | Prefilling]:
        """Decodes what the cache lacks of the prompt."""
        yield from self._read()
        started = perf_counter()
        shapes: list[Shape] = []
        total, done = sum(shape.rows for shape in plan), 0
        before = self.cache.threads
        for shape, decode_us in prefill(self.cache, self._pace, self.ids, plan):
            self.decode_us, self.prefill_ms = decode_us, (perf_counter() - started) * 1e3
            shapes.append(shape)
            done += shape.rows
            if self.cache.threads != before:
                before = self.cache.threads
                yield self.steering.record()
            if done < total:
                yield Prefilling(done, total)
                yield from self._read()
        rows, threads = ([shape[i] for shape in shapes] for i in (0, 1))
        yield Prefill(len(self.ids), len(self.ids) - total, rows, self.prefill_ms, threads)

    def _draw(self) -> Generator[SettingsRecord, None, Drawn]:
        steering = self.steering
        self.mask = yield from steering.mask()
        assert steering.chain is not None
        draw = partial(self.observer.draw, self.row(), steering.chain, self.request.seed, self.step, steering.forced)
        try:
            return draw(self.mask)
        except NothingFits:
            self.mask = None
            yield steering.drop("all tokens that fit are impossible")
            return draw()

    def _redraw(self, samplers: SamplerSettings) -> int:
        """The token that other settings would take at this step."""
        model, state = self.cache.model, self.steering.chain.state if self.steering.chain is not None else {}
        bias = model.bias(samplers.logit_bias)
        chain = Chain(samplers, model.n_vocab, self.ids, state=state, vocab=model.vocab, bias=bias)
        observer = Observer(model.n_vocab, model.end_ids, model.names, 1)
        try:
            return observer.draw(self.row(), chain, self.request.seed, self.step, mask=self.mask).id
        finally:
            chain.close()

    def _wait(self, drawn: Drawn) -> Generator[SettingsRecord | Paused, None, Drawn]:
        """Waits until the step may be taken; returns what is drawn then."""
        steering = self.steering
        while steering.waiting and steering.forced is None:
            since = perf_counter()
            yield Paused(self._record(drawn, "", 0), steering.why)
            yield from self._read()
            drawn = yield from self._draw()
            self.waited += perf_counter() - since
        return drawn

    def _take(self, drawn: Drawn, begun: float) -> tuple[Token, tuple[Reason, str] | None]:
        """The token joins the reply: its record, and why the reply ends with it, or None."""
        steering = self.steering
        forced = steering.forced is not None
        assert steering.chain is not None
        steering.chain.take(drawn, forced=forced)
        text, ending = self._ending(drawn.id)
        phase = steering.thoughts.push(self.cache.model.spelled(drawn.id))
        token = self._record(drawn, text, int((self._now() - begun) * 1e6), forced=forced, phase=phase)
        self.ids.append(drawn.id)
        return token, ending

    def _record(
        self, drawn: Drawn, text: str, sample_us: int, *, forced: bool = False, phase: Phase | None = None
    ) -> Token:
        return token_record(
            drawn,
            self.step,
            len(self.ids),
            text,
            self.cache.model,
            self.steering.number,
            self.decode_us,
            sample_us,
            forced=forced,
            phase=phase,
        )

    def _ending(self, token: int) -> tuple[str, tuple[Reason, str] | None]:
        """The text that the token lets out, and why the reply ends with it, or None."""
        steering, model = self.steering, self.cache.model
        gate, piece = steering.gate, model.piece(token)
        text = gate.push(piece)
        rule = steering.after(token, piece)
        length = len(self.ids) + 1
        ending: tuple[Reason, str] | None = None
        if gate.stopped_by is not None:
            return text, ("stop", gate.stopped_by)
        if token in model.end_ids and not steering.rules.ignores_end:
            return text, ("end", model.name(token))
        if rule:
            ending = ("rule", rule)
        elif steering.limit is not None and self.step + 1 >= steering.limit:
            ending = ("length", f"max_tokens {steering.limit}")
        elif length >= self.cache.capacity:
            ending = ("context", f"{length} of {self.cache.capacity}")
        return (text + gate.release(), ending) if ending is not None else (text, None)

    def _decode(self) -> Iterator[SettingsRecord]:
        """Decodes the newest token. On a busy machine the next one may have fewer threads, which is a change of settings."""
        threads = self.cache.threads
        _, self.decode_us = _read(self.cache, self._pace, self.ids, Shape(1))
        self.step += 1
        if self.cache.threads != threads:
            yield self.steering.record()

    def _finished(self, reason: Reason, detail: str) -> Finished:
        drawn_at = self.drawn_at
        self.steering.gate.finish()
        decoding = drawn_at[-1] - drawn_at[0] if len(drawn_at) > 1 else 0.0
        return Finished(
            reason=reason,
            detail=detail,
            held=self.steering.gate.held,
            tokens=len(drawn_at),
            ttft_ms=(drawn_at[0] - self.asked_at) * 1e3 if drawn_at else None,
            prefill_ms=self.prefill_ms,
            decode_ms=decoding * 1e3,
            tokens_per_second=(len(drawn_at) - 1) / decoding if decoding else None,
        )


def prefill(cache: Cache, pace: Pace | None, ids: list[int], plan: list[Shape]) -> Iterator[tuple[Shape, int]]:
    """`Cache.prefill`, which also yields how many microseconds each decode took. Without a `pace` the threads stay."""
    for number, shape in enumerate(plan, 1):
        yield _read(cache, pace, ids, shape, plan[number].rows if number < len(plan) else 1)


def _read(cache: Cache, pace: Pace | None, ids: list[int], shape: Shape, following: int = 1) -> tuple[Shape, int]:
    """Decodes the next ids, and says how many microseconds it took; chooses the threads for the decode of the `following` rows.

    If it takes too long it is broken off, and done with fewer threads. Threads that the shape names are neither judged nor
    changed. A row whose bits depend on the threads is not broken off: the record of a change would come behind it.
    """
    pace = None if shape.threads else pace
    may_break = shape.rows > 1 or len(cache.ids) < SPLIT
    begun = now = perf_counter()
    while True:
        threads, too_long = cache.threads if shape.rows == 1 else cache.threads_batch, False
        try:
            made = cache.read(ids, shape, pace.allowed(shape.rows) if pace is not None and may_break else inf)
            cache.logits()  # waits for a device that computes on its own
        except OutOfTime:
            too_long = True
        before, now = now, perf_counter()
        if pace is not None:
            us = (now - before) * 1e6
            cache.limit_threads(pace.observe(threads, us, shape.rows, shape.rows if too_long else following))
        if not too_long:
            return made, int((now - begun) * 1e6)


def warm_up(cache: Cache, pace: Pace) -> None:
    """Finds out how many threads are best now with a few rows for nobody; not with a model that cannot rewind."""
    for _ in range(8 if cache.model.can_rewind else 0):
        begun = perf_counter()
        with suppress(OutOfTime):
            cache.probe(pace.allowed())
        cache.limit_threads(pace.observe(cache.threads, (perf_counter() - begun) * 1e6))
        if not pace.tries:
            return


def identity(cache: Cache) -> ModelIdentity:
    model = cache.model
    return ModelIdentity(
        name=model.spec.name,
        path=model.spec.path.replace("\\", "/").rsplit("/", 1)[-1],
        sha256=model.spec.sha256,
        architecture=model.metadata("general.architecture") or "",
        quantization=model.spec.quantization,
    )


def token_record(
    drawn: Drawn,
    step: int,
    position: int,
    text: str,
    model: Model,
    settings: int,
    decode_us: int,
    sample_us: int,
    *,
    forced: bool = False,
    phase: Phase | None = None,
) -> Token:
    return Token(
        step=step,
        position=position,
        id=drawn.id,
        bytes=model.piece(drawn.id),
        text=text,
        logit=drawn.logit,
        logprob=drawn.logprob,
        rank=drawn.rank,
        probability=drawn.probability,
        entropy=drawn.entropy,
        p_end=drawn.p_end,
        settings=settings,
        forced=forced,
        stages=drawn.stages,
        candidates=drawn.candidates,
        state=drawn.state,
        decode_us=decode_us,
        sample_us=sample_us,
        end=drawn.id in model.end_ids,
        phase=phase,
    )
