"""One reply, from `Start` to `Finished`: it draws, writes records, and has its tokens decoded.

Who decodes is not its business: a `Decoder`, for it alone (`loop`) or in one batch with others (`walk_batch`). A reply is a
generator. It reads its settings once a step, and its commands between tokens and between prefill batches.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from enum import Enum, auto
from functools import cached_property, partial
from time import perf_counter
from typing import Protocol

import termchat
from termchat.decoding import dice
from termchat.decoding.constraint import GRAMMAR, INCOMPLETE
from termchat.decoding.group import Group
from termchat.decoding.records import (
    FORMAT,
    UNKNOWN,
    Draft,
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
from termchat.engine.abilities import LOCAL
from termchat.engine.llama.cache import Cache
from termchat.engine.llama.cells import Aborted, ContextFull
from termchat.engine.llama.chain import Chain, NothingFits, Observer
from termchat.engine.llama.observe import Drawn, Mask
from termchat.engine.llama.requests import Generate, GenerateWalks, SearchBeams
from termchat.engine.llama.softmax import Row
from termchat.engine.llama.steering import Cancelled, Context, Redraw, Steering
from termchat.engine.llama.vocabulary import Vocabulary
from termchat.engine.port import EngineError, FirstToken, Noted, Paused, Prefilling, SteerReply

Poll = Callable[[], SteerReply | None]
"""The next command for the running reply, or None; never waits."""


class Pending(Enum):
    """A reply that is one of several goes on when this was decoded for it."""

    PROMPT = auto()
    TOKEN = auto()


Said = Record | Prefilling | FirstToken | Paused | Noted


class Ended(Exception):
    """Who draws ends the reply by itself."""

    def __init__(self, reason: Reason, detail: str = "") -> None:
        super().__init__(reason, detail)
        self.ending = reason, detail


class Room(Protocol):
    """There is room for `capacity` tokens of a model."""

    capacity: int

    @property
    def model(self) -> Vocabulary: ...


class Batched(Protocol):
    """Prompts are read `batch_size` tokens at once, by so many threads, into cells of a type: "" where that is not known."""

    kv_type: str
    batch_size: int
    threads_batch: int

    @property
    def largest_change(self) -> float | None:
        """See `Start`."""


class Prepared(Context, Protocol):
    """What the prompt of a reply is prepared in; whether it is `exact` is known then."""

    exact: bool

    @property
    def cache(self) -> Batched: ...


class Decoder(Prepared, Protocol):
    """Decodes what a reply consists of. `decode_us` is how long the last decode took, `prefill_ms` the prompt's.

    Raises:
        Aborted, ContextFull, EngineError: see `Cache.read`; when it decodes, or where a `Pending` was waited for.
    """

    decode_us: int
    prefill_ms: float

    def prepare(self, ids: list[int]) -> None:
        """Finds out what of `ids` is in the cache."""

    def prefill(self, ids: list[int]) -> Iterable[Prefilling | Prefill | Pending]:
        """Decodes what is not. In the end there is its record."""

    def decode(self, ids: list[int]) -> Iterable[Pending]:
        """Decodes the last id, if that was not done with the one before it."""

    def row(self) -> Row:
        """The logits after the last id that was decoded."""


def check(
    cache: Room, ids: list[int], scripted: Iterable[int] = (), larger_context: str = LOCAL.larger_context
) -> None:
    """Whether there can be a reply to `ids`, with these tokens forced. `larger_context`: see `EngineAbilities`.

    Raises:
        EngineError: the prompt is empty or larger than the context, or there is no such token.
    """
    if not ids:
        raise EngineError("prompt", "the prompt is empty", "type a message or set a system prompt")
    unknown = next((i for i in (*ids, *scripted) if not 0 <= i < cache.model.n_vocab), None)
    if unknown is not None:
        raise EngineError(
            "prompt", f"token {unknown} is not in this model's vocabulary", "was this chat written with another model?"
        )
    if len(ids) > cache.capacity:
        raise EngineError(
            "context",
            f"the prompt has {len(ids)} tokens, the context {cache.capacity}",
            f"shorten it, start a new chat, or {larger_context}",
        )


def is_exact(cache: Cache, request: Generate | GenerateWalks | SearchBeams, plan: list[Shape]) -> bool:
    """What `Start.exact` says, when `plan` is what is decoded of the request's ids."""
    reused = len(request.ids) - sum(shape.rows for shape in plan)
    # A reply that goes on stands on cells as it had them; a new one on any, as long as it is known how they were made.
    count = len(request.ids) if request.done else reused
    as_recorded = cache.is_made_as(request.shapes, count, plan)
    lost = bool(request.done) and not request.shapes and reused < len(request.ids) - 1
    return cache.exact and not cache.model.gpu_layers and as_recorded and not lost


def start_of(request: Generate, prepared: Prepared, walk: int | None = None, group: Group | None = None) -> Start:
    """The first record of a reply."""
    cache, model = prepared.cache, prepared.model
    return Start(
        version=FORMAT,
        termchat=termchat.__version__,
        llama_cpp=model.build,
        model=identity(model),
        prompt_ids=request.ids.copy(),
        raw=request.raw,
        seed=request.seed,
        dice=dice.VERSION,
        threads=prepared.threads,
        threads_batch=cache.threads_batch,
        ubatch=cache.batch_size,
        kv_type=cache.kv_type,
        exact=prepared.exact,
        prefill=request.prefill,
        thinking=(tags.opening, tags.closing) if (tags := model.thinking) is not None else (),
        walk=walk,
        group=group,
        largest_change=largest_change_of(request, cache),
    )


def largest_change_of(request: Generate, cache: Batched) -> float | None:
    return cache.largest_change if request.largest_change is None else request.largest_change


class RunningReply:
    """One running reply: its ids, its steering, and its clock, which stops while the reply is paused.

    `walk` is its number among those of its `group`.

    Raises:
        EngineError: a condition or the constraint cannot be used.
    """

    def __init__(
        self,
        request: Generate,
        decoder: Decoder,
        poll: Poll,
        asked_at: float,
        *,
        walk: int | None = None,
        group: Group | None = None,
    ) -> None:
        self.request, self.decoder, self.poll, self.walk, self.group = request, decoder, poll, walk, group
        self.ids = list(request.ids)
        self.step = request.done
        self.steering = self._steered()
        decoder.drafts.follow(self.steering)
        self.asked_at = asked_at
        self.waited = 0.0
        self.drawn_at: list[float] = []
        self.accepted = 0
        self.mask: Mask | None = None
        self.model = decoder.model

    def _steered(self) -> Steering:
        return Steering(self.request, self.decoder, self.ids, len(self.ids) - self.request.done, self.walk)

    @cached_property
    def observer(self) -> Observer:
        model = self.model
        change = largest_change_of(self.request, self.decoder.cache)
        return Observer(model.n_vocab, model.end_ids, model.names, self.request.candidates, largest_change=change)

    def close(self) -> None:
        """Frees the chain."""
        self.steering.close()

    def records(self) -> Generator[Said | Pending, None, None]:
        """From `Start` to `Finished`.

        After a `Paused` it continues when `poll` has a command; without one it yields the same again, so wait for one.

        Raises:
            EngineError: a regular expression takes too long, or llama.cpp failed.
        """
        steering, decoder = self.steering, self.decoder
        decoder.prepare(self.ids)
        yield self._start()
        yield steering.record()
        ending: tuple[Reason, str] | None = None
        prefilled = False
        try:
            yield from self._prefill()
            prefilled = True
            while True:
                yield from self._read()
                yield from steering.begin(self.step)
                begun = self._now()
                drawn = yield from self._draw()
                if steering.pin(drawn):
                    pinned = yield from self._draw()
                    drawn = pinned._replace(margin=drawn.margin, near_tie=drawn.near_tie)
                seconds = self._now() - self.drawn_at[0] if self.drawn_at else 0.0
                rule = steering.before(self.step, drawn, drawn.id, seconds, self.redraw)
                if rule:
                    ending = ("rule", rule)
                    break
                if steering.waiting:
                    drawn = yield from self._wait(drawn)
                self.drawn_at.append(self._now())
                if len(self.drawn_at) == 1:
                    yield FirstToken((self.drawn_at[0] - self.asked_at) * 1e3, self.walk)
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
        except Ended as end:
            ending = end.ending
        except ContextFull as full:
            ending = ("context", str(full) or f"{decoder.capacity} of {decoder.capacity}")
        assert ending is not None
        reason, detail = ending
        if reason not in ("end", "stop") and steering.incomplete:
            detail = f"{detail}; {INCOMPLETE}" if detail else INCOMPLETE
        yield self._finished(reason, detail)

    def _now(self) -> float:
        return perf_counter() - self.waited

    def _start(self) -> Start:
        return start_of(self.request, self.decoder, self.walk, self.group)

    def _read(self) -> Iterator[SettingsRecord | Noted]:
        while (command := self.poll()) is not None:
            yield from self.steering.obey(command)

    def _prefill(self) -> Iterator[Said | Pending]:
        """Has what the cache lacks of the prompt decoded."""
        yield from self._read()
        threads = self.decoder.threads
        for said in self.decoder.prefill(self.ids):
            if self.decoder.threads != threads:
                threads = self.decoder.threads
                yield self.steering.record()
            yield said
            if isinstance(said, Prefilling):
                yield from self._read()
        self.steering.rebuild()

    def _draw(self) -> Generator[SettingsRecord, None, Drawn]:
        steering = self.steering
        self.mask = yield from steering.mask()
        assert steering.chain is not None
        draw = partial(
            self.observer.draw, self._row(steering.chain), steering.chain, self.request.seed, self.step, steering.forced
        )
        try:
            return self._observed(draw(self.mask))
        except NothingFits:
            self.mask = None
            yield steering.drop("all tokens that fit are impossible")
            return self._observed(draw())

    def _row(self, chain: Chain) -> Row:
        """The logits that this chain draws the next token from."""
        return self.decoder.row()

    def _observed(self, drawn: Drawn) -> Drawn:
        """The step as it is told and looked at by conditions."""
        return drawn

    @property
    def redraw(self) -> Redraw:
        return self._redraw

    def _redraw(self, samplers: SamplerSettings) -> int:
        """The token that other settings would take at this step."""
        model, state = self.model, self.steering.chain.state if self.steering.chain is not None else {}
        bias = model.bias(samplers.logit_bias)
        chain = Chain(samplers, model.n_vocab, self.ids, state=state, vocab=model.vocab, bias=bias)
        observer = Observer(model.n_vocab, model.end_ids, model.names, 1)
        try:
            return observer.draw(self._row(chain), chain, self.request.seed, self.step, mask=self.mask).id
        finally:
            chain.close()

    def _wait(self, drawn: Drawn) -> Generator[SettingsRecord | Paused | Noted, None, Drawn]:
        """Waits until the step may be taken; returns what is drawn then."""
        steering = self.steering
        while steering.waiting and steering.forced is None:
            since = perf_counter()
            yield Paused(self._record(drawn, "", 0), steering.why, self.walk)
            yield from self._read()
            drawn = yield from self._draw()
            self.waited += perf_counter() - since
        return drawn

    def _take(self, drawn: Drawn, begun: float) -> tuple[Token, tuple[Reason, str] | None]:
        """The token joins the reply: its record, and why the reply ends with it, or None."""
        steering = self.steering
        forced = steering.forced is not None
        steering.tell_chain(drawn, forced=forced)
        text, ending = self._ending(drawn.id)
        phase = steering.thoughts.push(self.model.spelled(drawn.id))
        token = self._record(drawn, text, int((self._now() - begun) * 1e6), forced=forced, phase=phase)
        self.accepted += token.draft is not None and token.draft.accepted
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
            self.model,
            self.steering.number,
            self.decoder.decode_us,
            sample_us,
            forced=forced,
            phase=phase,
            walk=self.walk,
            draft=self.decoder.drafts.of(drawn.id),
        )

    def _ending(self, token: int) -> tuple[str, tuple[Reason, str] | None]:
        """The text that the token lets out, and why the reply ends with it, or None."""
        steering, model = self.steering, self.model
        gate, piece = steering.gate, model.piece(token)
        text = gate.push(piece)
        rule = steering.after(token, piece)
        length = len(self.ids) + 1
        ending: tuple[Reason, str] | None = None
        if gate.stopped_by is not None:
            return text, ("stop", gate.stopped_by)
        if token in model.end_ids and not steering.rules.ignores_end:
            return text, ("end", model.name(token))
        if steering.is_stop(token):
            return text + gate.release(), ("stop", model.name(token))
        if rule:
            ending = ("rule", rule)
        elif steering.limit is not None and self.step + 1 >= steering.limit:
            ending = ("length", f"max_tokens {steering.limit}")
        elif length >= self.decoder.capacity:
            ending = ("context", f"{length} of {self.decoder.capacity}")
        return (text + gate.release(), ending) if ending is not None else (text, None)

    def _decode(self) -> Iterator[SettingsRecord | Pending]:
        """Has the newest token decoded. On a busy machine the threads may be fewer then, which is a change of settings; it is
        one, too, when drafts stop or go on."""
        decoder = self.decoder
        threads, why = decoder.threads, decoder.drafts.why
        yield from decoder.decode(self.ids)
        self.step += 1
        if decoder.threads != threads or decoder.drafts.why != why:
            yield self.steering.record()

    def _finished(self, reason: Reason, detail: str) -> Finished:
        drawn_at, drafts = self.drawn_at, self.decoder.drafts
        self.steering.gate.finish()
        decoding = drawn_at[-1] - drawn_at[0] if len(drawn_at) > 1 else 0.0
        return Finished(
            reason=reason,
            detail=detail,
            held=self.steering.gate.held,
            tokens=len(drawn_at),
            ttft_ms=(drawn_at[0] - self.asked_at) * 1e3 if drawn_at else None,
            prefill_ms=self.decoder.prefill_ms,
            decode_ms=decoding * 1e3,
            tokens_per_second=(len(drawn_at) - 1) / decoding if decoding else None,
            walk=self.walk,
            drafted=drafts.drafted if drafts.rounds else None,
            accepted=self.accepted if drafts.rounds else None,
            rounds=drafts.rounds or None,
            not_drafted=drafts.nothing,
        )


def identity(model: Vocabulary) -> ModelIdentity:
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
    model: Vocabulary,
    settings: int,
    decode_us: int,
    sample_us: int,
    *,
    forced: bool = False,
    phase: Phase | None = None,
    walk: int | None = None,
    draft: Draft | None = None,
) -> Token:
    return Token(
        step=step,
        position=position,
        id=drawn.id,
        bytes=model.piece(drawn.id) if drawn.id != UNKNOWN else b"",
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
        walk=walk,
        draft=draft,
        margin=drawn.margin,
        near_tie=drawn.near_tie,
    )
