"""The observed loop: prefill once, then logits, chain, dice, record, decode, again and again.

`generate` is a generator of records. It reads its settings once a step; commands reach it between tokens and between
prefill batches. Nothing in it knows a pipe.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import perf_counter

import termchat
from termchat.decoding import dice
from termchat.decoding.conditions import Condition, Length, Stop, TextGate
from termchat.decoding.records import (
    FORMAT,
    Finished,
    ModelIdentity,
    Prefill,
    Reason,
    Record,
    Settings,
    Start,
    Token,
)
from termchat.decoding.samplers import SamplerSettings
from termchat.engine.llama import native
from termchat.engine.llama.cache import Aborted, Cache, ContextFull
from termchat.engine.llama.chain import Chain, Drawn, Observer
from termchat.engine.llama.model import Model
from termchat.engine.llama.pace import Pace
from termchat.engine.port import Adjust, Cancel, EngineError, FirstToken, Generate, Prefilling

Poll = Callable[[], "Adjust | Cancel | None"]
"""The next command for the running reply, or None; never waits."""


class Cancelled(Exception):
    """The user ended the reply."""


class Steering:
    """What a person can change while the loop runs: the settings, and with them the chain and the text gate."""

    def __init__(self, request: Generate, n_vocab: int, threads: int) -> None:
        self.samplers: SamplerSettings = request.samplers
        self.conditions: tuple[Condition, ...] = request.conditions
        self.origin = request.origin
        self.threads = threads
        self.number = -1
        self._n_vocab = n_vocab
        self.gate = TextGate(self.stops)
        self.limit = self._limit()
        self.chain: Chain | None = None

    @property
    def stops(self) -> tuple[str, ...]:
        """The stop sequences."""
        return tuple(c.text for c in self.conditions if isinstance(c, Stop))

    def record(self) -> Settings:
        """The settings as they now are, under the next number."""
        self.number += 1
        return Settings(self.number, self.samplers, self.conditions, self.origin, self.threads)

    def adjust(self, command: Adjust, past: list[int]) -> None:
        """Other settings from the next token on; the chain remembers the last tokens anew."""
        self.conditions, self.origin = command.conditions, command.origin
        self.gate.set_stops(self.stops)
        self.limit = self._limit()
        if command.samplers != self.samplers:
            self.samplers = command.samplers
            self.rebuild(past)

    def rebuild(self, past: list[int]) -> None:
        """A chain for the settings, with `past` as what its penalties have seen."""
        self.close()
        self.chain = Chain(self.samplers, self._n_vocab, past)

    def _limit(self) -> int | None:
        """The reply's most tokens, or None."""
        return min((c.tokens for c in self.conditions if isinstance(c, Length)), default=None)

    def close(self) -> None:
        """Frees the chain."""
        if self.chain is not None:
            self.chain.close()
            self.chain = None


def generate(
    cache: Cache, pace: Pace, request: Generate, poll: Poll, asked_at: float
) -> Iterator[Record | Prefilling | FirstToken]:
    """The records of one reply, from `Start` to `Finished`.

    `asked_at` is the `perf_counter` at which the request came.

    Raises:
        EngineError: the prompt is empty or larger than the context, or llama.cpp failed.
    """
    model = cache.model
    ids = list(request.ids)
    if not ids:
        raise EngineError("prompt", "the prompt is empty", "type something, or give a system prompt")
    unknown = next((i for i in ids if not 0 <= i < model.n_vocab), None)
    if unknown is not None:
        raise EngineError(
            "prompt", f"token {unknown} is not in this model's vocabulary", "was it another model's chat?"
        )
    if len(ids) > cache.capacity:
        raise EngineError(
            "context",
            f"the prompt has {len(ids)} tokens, the context {cache.capacity}",
            "shorten it, start a new chat, or load the model with a larger --context",
        )
    steering = Steering(request, model.n_vocab, cache.threads)
    reply = len(ids) - request.done
    steering.gate.resume(b"".join(model.piece(i) for i in ids[reply:]))
    plan = cache.prepare(ids, request.shapes if request.rebuild_exactly else None)
    rebuilt = len(plan) > 1
    yield Start(
        version=FORMAT,
        termchat=termchat.__version__,
        llama_cpp=native.version(),
        model=identity(cache),
        prompt_ids=ids.copy(),
        raw=request.raw,
        seed=request.seed,
        dice=dice.VERSION,
        threads=cache.threads,
        threads_batch=cache.threads_batch,
        ubatch=cache.batch_size,
        kv_type=cache.model.spec.kv_type,
        exact=cache.exact and not model.gpu_layers and (not request.done or not rebuilt or request.rebuild_exactly),
    )
    yield steering.record()

    drawn_at: list[float] = []
    prefill_ms = 0.0
    reason: Reason
    try:
        yield from _read(poll, steering, ids)
        started = perf_counter()
        shapes: list[int] = []
        total, done = sum(plan), 0
        last_begun = begun = started
        for size in cache.prefill(ids, plan):
            shapes.append(size)
            done += size
            last_begun = begun
            if done < total:
                yield Prefilling(done, total)
                yield from _read(poll, steering, ids)
            begun = perf_counter()
        cache.logits()  # waits for a device that computes on its own
        now = perf_counter()
        prefill_ms, decode_us = (now - started) * 1e3, int((now - last_begun) * 1e6)
        yield Prefill(tokens=len(ids), reused=len(ids) - sum(shapes), shapes=shapes, ms=prefill_ms)

        steering.rebuild(ids)
        observer = Observer(model.n_vocab, model.end_ids, model.name, request.candidates)
        step = request.done
        while True:
            yield from _read(poll, steering, ids)
            assert steering.chain is not None
            begun = perf_counter()
            drawn = observer.draw(cache.logits(), steering.chain, request.seed, step)
            drawn_at.append(perf_counter())
            if len(drawn_at) == 1:
                yield FirstToken((drawn_at[0] - asked_at) * 1e3)
            position = len(ids)
            ids.append(drawn.id)
            steering.chain.accept(drawn.id)
            text, ending = _ending(drawn.id, step + 1, cache, steering, len(ids))
            sample_us = int((perf_counter() - begun) * 1e6)
            yield token_record(drawn, step, position, text, model, steering.number, decode_us, sample_us)
            if ending is not None:
                reason, detail = ending
                break
            begun = perf_counter()
            cache.decode(drawn.id)
            cache.logits()
            decode_us = int((perf_counter() - begun) * 1e6)
            step += 1
            threads = pace.observe(decode_us)
            if threads != cache.threads:
                cache.set_threads(threads)
                steering.threads = threads
                yield steering.record()
    except (Cancelled, Aborted):
        reason, detail = "user", "" if drawn_at else "during prefill"
    except ContextFull:
        reason, detail = "context", f"{cache.capacity} of {cache.capacity}"
    finally:
        steering.close()
    yield _finished(reason, detail, steering.gate.held, drawn_at, asked_at, prefill_ms)


def identity(cache: Cache) -> ModelIdentity:
    """Which model this is, for the records."""
    model = cache.model
    return ModelIdentity(
        name=model.spec.name,
        path=model.spec.path.replace("\\", "/").rsplit("/", 1)[-1],
        sha256=model.spec.sha256,
        architecture=model.metadata("general.architecture") or "",
        quantization=model.spec.quantization,
    )


def _read(poll: Poll, steering: Steering, past: list[int]) -> Iterator[Record]:
    while (command := poll()) is not None:
        if isinstance(command, Cancel):
            raise Cancelled
        steering.adjust(command, past)
        yield steering.record()


def _ending(
    token: int, tokens: int, cache: Cache, steering: Steering, length: int
) -> tuple[str, tuple[Reason, str] | None]:
    """The text that the token lets out, and why the reply ends with it, or None."""
    gate, model = steering.gate, cache.model
    text = gate.push(model.piece(token))
    ending: tuple[Reason, str] | None = None
    if gate.stopped_by is not None:
        return text, ("stop", gate.stopped_by)
    if token in model.end_ids:
        gate.finish()
        return text, ("end", model.name(token))
    if steering.limit is not None and tokens >= steering.limit:
        ending = ("length", f"max_tokens {steering.limit}")
    elif length >= cache.capacity:
        ending = ("context", f"{length} of {cache.capacity}")
    return (text + gate.release(), ending) if ending is not None else (text, None)


def token_record(
    drawn: Drawn, step: int, position: int, text: str, model: Model, settings: int, decode_us: int, sample_us: int
) -> Token:
    """The record of one step."""
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
        forced=False,
        stages=drawn.stages,
        candidates=drawn.candidates,
        state={},
        decode_us=decode_us,
        sample_us=sample_us,
    )


def _finished(
    reason: Reason, detail: str, held: str, drawn_at: list[float], asked_at: float, prefill_ms: float
) -> Finished:
    decoding = drawn_at[-1] - drawn_at[0] if len(drawn_at) > 1 else 0.0
    return Finished(
        reason=reason,
        detail=detail,
        held=held,
        tokens=len(drawn_at),
        ttft_ms=(drawn_at[0] - asked_at) * 1e3 if drawn_at else None,
        prefill_ms=prefill_ms,
        decode_ms=decoding * 1e3,
        tokens_per_second=(len(drawn_at) - 1) / decoding if decoding else None,
    )
