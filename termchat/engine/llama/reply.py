"""One reply, from `Start` to `Finished`: draw, write records, have tokens decoded.

A reply is a generator of events that yields a `Wait` whenever it needs its prompt or its newest token decoded. Who decodes is
not its business: the `scheduler` has a source do it, for this reply alone or in one batch with others, and what the reply gets
is in its `Lane`. It reads its settings once a step, and its commands between tokens and between batches of the prompt.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from enum import Enum, auto
from functools import cached_property, partial
from time import perf_counter
from typing import Any, Protocol

import msgspec

import termchat
from termchat.decoding import dice
from termchat.decoding.conditions import Length, TextGate
from termchat.decoding.constraint import GRAMMAR, INCOMPLETE
from termchat.decoding.records import (
    FORMAT,
    UNKNOWN,
    Failed,
    Finished,
    ModelIdentity,
    Prefill,
    Reason,
    SettingsRecord,
    Start,
    Token,
)
from termchat.decoding.samplers import SamplerSettings
from termchat.engine.abilities import LOCAL
from termchat.engine.llama.cells import Aborted, ContextFull
from termchat.engine.llama.chain import Chain, NothingFits, Observer
from termchat.engine.llama.observe import Mask
from termchat.engine.llama.reply_controls import Cancelled, Context, ReplyControls
from termchat.engine.llama.softmax import Row
from termchat.engine.llama.vocabulary import Vocabulary
from termchat.engine.port import (
    EngineError,
    Event,
    FirstToken,
    Generate,
    Noted,
    Paused,
    ReplyRequest,
    SteerReply,
)


class Wait(Enum):
    """What a reply waits for: its prompt or its newest token."""

    PROMPT = auto()
    TOKEN = auto()


class Ended(Exception):
    """The reply ended on the server that draws it."""

    def __init__(self, reason: Reason, detail: str = "") -> None:
        super().__init__(reason, detail)
        self.ending = reason, detail


class Room(Protocol):
    """A model, and a `capacity` in tokens."""

    capacity: int

    @property
    def model(self) -> Vocabulary: ...


class Batched(Protocol):
    """Prompts are read `batch_size` tokens at once, by so many threads, into cells of a type: "" where that is not known."""

    kv_type: str = ""
    batch_size: int = 0
    threads_batch: int = 0

    @property
    def largest_change(self) -> float | None:
        """See `Start`."""
        return None


class Lane(Context):
    """What the source of a reply's rows has for it: how its tokens are decoded and drawn.

    `prefill` is the record of its prompt, None until that is decoded; `prefill_ms` the time of what is decoded of it, and
    `decode_us` that of the last decode.
    """

    cells: Batched
    exact = False
    decode_us = 0
    prefill: Prefill | None = None
    prefill_ms = 0.0

    def draw(self, reply: Reply) -> Generator[Event | Wait, None, Token]:
        """Draw the next token of the reply from its row, with our dice, without taking it."""
        controls = reply.controls
        reply.mask = None
        if controls.constrains and controls.grammar is not None:
            reply.mask = controls.grammar.wait_mask()
            if reply.mask is None:
                yield controls.drop_constraint(controls.grammar.problem)
        assert controls.chain is not None
        draw = partial(
            reply.observer.draw,
            self.find_row(reply, controls.chain), controls.chain, reply.request.seed, reply.step, controls.forced,
        )  # fmt: skip
        try:
            return draw(reply.mask)
        except NothingFits:
            reply.mask = None
            yield controls.drop_constraint("all tokens that fit are impossible")
            return draw()

    def find_row(self, reply: Reply, chain: Chain) -> Row:
        """Return the logits that this chain draws the reply's next token from."""
        raise NotImplementedError

    def hold_row(self, controls: ReplyControls) -> None:
        """Keep the row while others are decoded: the reply is paused."""

    def close(self, count: int) -> None:
        """Free the rows, and the cells of drafts not taken, at the end of a reply with so many ids."""


def check(room: Room, ids: list[int], scripted: Iterable[int] = (), larger_context: str = LOCAL.larger_context) -> None:
    """Check that there can be a reply to `ids`, with these tokens forced. `larger_context`: see `EngineAbilities`.

    Raises:
        EngineError: the prompt is empty or larger than the context, or there is no such token.
    """
    if not ids:
        raise EngineError("prompt", "the prompt is empty", "type a message or set a system prompt")
    unknown = next((i for i in (*ids, *scripted) if not 0 <= i < room.model.n_vocab), None)
    if unknown is not None:
        raise EngineError(
            "prompt", f"token {unknown} is not in this model's vocabulary", "was this chat written with another model?"
        )
    if len(ids) > room.capacity:
        raise EngineError(
            "context",
            f"the prompt has {len(ids)} tokens, the context {room.capacity}",
            f"shorten it, start a new chat, or {larger_context}",
        )


class Running(ABC):
    """What the scheduler runs: a reply, or a beam search.

    `commands` are those that it has not read yet, `waits` is what it waits for, None while it can go on. `walk` is its number
    in the records, None outside a group.
    """

    def __init__(self, request: ReplyRequest, command: Generate, lane: Lane, asked_at: float) -> None:
        self.request, self.command, self.lane, self.asked_at = request, command, lane, asked_at
        self.number = request.number
        self.walk = request.number if command.group is not None else None
        self.model, self.largest_change = lane.model, command.largest_change
        if self.largest_change is None:
            self.largest_change = lane.cells.largest_change
        self.ids = list(request.ids)
        self.controls = ReplyControls(request, lane, self.ids, self.walk)
        self.commands: deque[SteerReply] = deque()
        self.waits: Wait | Paused | None = None
        self.over = False
        self.tokens = 0
        self.waited = 0.0
        self._events = self.records()

    @abstractmethod
    def records(self) -> Generator[Event | Wait, None, None]:
        """Yield the events from `Start` to `Finished`, and a `Wait` whenever something has to be decoded."""

    @abstractmethod
    def read_commands(self) -> Iterable[SettingsRecord | Noted]:
        """Obey the commands that have come; yield a record of each change of settings.

        Raises:
            Cancelled: it is to end.
        """

    def wait_prefill(self) -> Iterator[Event | Wait]:
        """Wait for the prompt. On a busy machine the threads may be fewer then, which is a change of settings."""
        lane = self.lane
        yield from self.read_commands()
        threads = lane.threads
        while lane.prefill is None:
            yield Wait.PROMPT
            if lane.threads != threads:
                threads = lane.threads
                yield self.controls.record_settings()
            if lane.prefill is None:
                yield from self.read_commands()
        yield msgspec.structs.replace(lane.prefill, walk=self.walk)

    @property
    @abstractmethod
    def left(self) -> int:
        """How many tokens it may have yet."""

    @abstractmethod
    def free_memory(self) -> None:
        """Free its chain and its buffers."""

    @property
    def goes_on(self) -> bool:
        """Whether it can go on before anything is decoded."""
        return self.waits is None or (bool(self.commands) and self.waits is not Wait.TOKEN)

    def advance_events(self, error: Exception | None = None) -> Iterator[Event]:
        """Continue as far as possible; with an `error`, report that as the outcome of the wait.

        Raises:
            EngineError: a single reply or a search failed; in a group that is an event.
        """
        try:
            while True:
                event = next(self._events) if error is None else self._events.throw(error)
                error = None
                if isinstance(event, Wait):
                    break
                yield event
                if isinstance(event, Paused):
                    self.lane.hold_row(self.controls)
                    break
            self.waits = event
        except StopIteration:
            self.end_run()
        except EngineError as failure:
            self.end_run()
            if self.command.group is None or self.command.group.beams is not None:
                raise
            yield Failed(failure.kind, failure.message, failure.hint, self.walk)

    def end_run(self) -> None:
        """End it and free its memory, which has the size of some rows of logits; only its ids stay."""
        self.over = True
        self._events.close()
        self.lane.close(len(self.ids))
        self.free_memory()

    def _read_clock(self) -> float:
        """Return the clock, which stops while the reply is paused."""
        return perf_counter() - self.waited

    def _make_start(self) -> Start:
        lane, model, request = self.lane, self.model, self.request
        cells = lane.cells
        return Start(
            version=FORMAT,
            termchat=termchat.__version__,
            llama_cpp=model.build,
            model=ModelIdentity(
                name=model.spec.name,
                path=model.spec.path.replace("\\", "/").rsplit("/", 1)[-1],
                sha256=model.spec.sha256,
                architecture=model.read_metadata("general.architecture") or "",
                quantization=model.spec.quantization,
            ),
            prompt_ids=request.ids.copy(),
            raw=self.command.raw,
            seed=request.seed,
            dice=dice.VERSION if lane.draws_here else 0,
            threads=lane.threads,
            threads_batch=cells.threads_batch,
            ubatch=cells.batch_size,
            kv_type=cells.kv_type,
            exact=lane.exact,
            prefill=request.prefill,
            thinking=(tags.opening, tags.closing) if (tags := model.thinking) is not None else (),
            walk=self.walk,
            group=self.command.group,
            largest_change=self.largest_change,
        )


class Reply(Running):
    """One reply: its ids, its controls, and its clock.

    Raises:
        EngineError: a condition or the constraint cannot be used.
    """

    def __init__(self, request: ReplyRequest, command: Generate, lane: Lane, asked_at: float) -> None:
        super().__init__(request, command, lane, asked_at)
        self.step = request.done
        begun = len(request.ids) - request.done
        limit = min((c.tokens for c in request.conditions if isinstance(c, Length)), default=lane.capacity)
        self._most = min(begun + limit, lane.capacity)
        lane.drafts.follow_reply(self.controls)
        self.drawn_at: list[float] = []
        self.accepted = 0
        self.mask: Mask | None = None

    @property
    def left(self) -> int:
        """How many tokens the request leaves it."""
        return max(self._most - len(self.ids), 0)

    @cached_property
    def observer(self) -> Observer:
        model = self.model
        return Observer(
            model.n_vocab, model.end_ids, model.names, self.command.candidates, largest_change=self.largest_change
        )

    def free_memory(self) -> None:
        self.controls.close()
        self.__dict__.pop("observer", None)

    def records(self) -> Generator[Event | Wait, None, None]:
        """Yield the events from `Start` to `Finished`, and a `Wait` whenever something has to be decoded.

        Raises:
            EngineError: a regular expression takes too long, or llama.cpp failed.
        """
        controls, lane = self.controls, self.lane
        yield self._make_start()
        yield controls.record_settings()
        ending: tuple[Reason, str] | None = None
        prefilled = False
        try:
            yield from self.wait_prefill()
            prefilled = True
            if lane.draws_here:
                controls.rebuild_chain()
            while True:
                yield from self.read_commands()
                yield from controls.begin_step(self.step)
                begun = self._read_clock()
                drawn = yield from lane.draw(self)
                if controls.pin_token(drawn):
                    pinned = yield from lane.draw(self)
                    drawn = msgspec.structs.replace(pinned, margin=drawn.margin, near_tie=drawn.near_tie)
                seconds = self._read_clock() - self.drawn_at[0] if self.drawn_at else 0.0
                redraw = self._redraw_token if lane.draws_here else None
                rule = controls.check_before(self.step, drawn, drawn.id, seconds, redraw)
                if rule:
                    ending = ("rule", rule)
                    break
                if controls.waiting:
                    drawn = yield from self._wait_for_step(drawn)
                self.drawn_at.append(self._read_clock())
                if len(self.drawn_at) == 1:
                    yield FirstToken((self.drawn_at[0] - self.asked_at) * 1e3, self.walk)
                token, ending = self._take_token(drawn, begun)
                yield token
                self.tokens += 1
                if (dropped := controls.take_token(drawn.id)) is not None:
                    yield dropped
                elif ending is None and controls.complete:
                    ending = ("end", f"nothing can follow ({GRAMMAR})")
                if ending is not None:
                    break
                if controls.constrains and controls.grammar is not None:
                    controls.grammar.begin_mask()
                # The threads may be fewer then, or drafts stop or go on: a change of settings.
                threads, why = lane.threads, lane.drafts.why
                yield Wait.TOKEN
                self.step += 1
                if lane.threads != threads or lane.drafts.why != why:
                    yield controls.record_settings()
        except (Cancelled, Aborted):
            ending = ("user", "" if prefilled else "during prefill")
        except Ended as end:
            ending = end.ending
        except ContextFull as full:
            ending = ("context", str(full) or f"{lane.capacity} of {lane.capacity}")
        assert ending is not None
        reason, detail = ending
        if reason not in ("end", "stop") and controls.incomplete:
            detail = f"{detail}; {INCOMPLETE}" if detail else INCOMPLETE
        yield self._make_finished(reason, detail)

    def read_commands(self) -> Iterator[SettingsRecord | Noted]:
        while self.commands:
            yield from self.controls.obey_command(self.commands.popleft())

    def _redraw_token(self, samplers: SamplerSettings) -> int:
        """Return the token that other settings would take at this step."""
        model, state = self.model, self.controls.chain.state if self.controls.chain is not None else {}
        chain = model.make_chain(samplers, self.ids, state)
        observer = Observer(model.n_vocab, model.end_ids, model.names, 1)
        try:
            return observer.draw(
                self.lane.find_row(self, chain), chain, self.request.seed, self.step, mask=self.mask
            ).id
        finally:
            chain.close()

    def _wait_for_step(self, drawn: Token) -> Generator[Event | Wait, None, Token]:
        """Wait while the reply is paused; return the token that is drawn then."""
        controls = self.controls
        while controls.waiting and controls.forced is None:
            since = perf_counter()
            yield Paused(self._make_record(drawn), controls.why, self.walk)
            yield from self.read_commands()
            drawn = yield from self.lane.draw(self)
            self.waited += perf_counter() - since
        return drawn

    def _take_token(self, drawn: Token, begun: float) -> tuple[Token, tuple[Reason, str] | None]:
        """Add the token to the reply; return its record, and why the reply ends with it, or None."""
        controls = self.controls
        forced = controls.forced is not None
        if controls.chain is not None:
            controls.chain.take_token(drawn, forced=forced)
        text, ending = self._find_ending(drawn.id)
        phase = controls.thoughts.push_piece(self.model.spell_token(drawn.id))
        sample_us = int((self._read_clock() - begun) * 1e6) if self.lane.draws_here else 0
        token = self._make_record(drawn, text=text, sample_us=sample_us, forced=forced, phase=phase)
        self.accepted += token.draft is not None and token.draft.accepted
        self.ids.append(drawn.id)
        return token, ending

    def _make_record(self, drawn: Token, **fields: Any) -> Token:
        lane = self.lane
        return complete_record(
            drawn, self.model, len(self.ids), settings=self.controls.number, decode_us=lane.decode_us, walk=self.walk,
            draft=lane.drafts.find_draft(drawn.id), **fields,
        )  # fmt: skip

    def _find_ending(self, token: int) -> tuple[str, tuple[Reason, str] | None]:
        """Return the text that the token lets out, and why the reply ends with it, or None."""
        controls, model = self.controls, self.model
        gate, piece = controls.gate, model.piece(token)
        text = gate.push_bytes(piece)
        rule = controls.check_after(token, piece)
        length = len(self.ids) + 1
        ending: tuple[Reason, str] | None = None
        if gate.stopped_by is not None:
            return text, ("stop", gate.stopped_by)
        if token in model.end_ids and not controls.rules.ignores_end:
            return text, ("end", model.name(token))
        if model.is_control(token) and model.name(token) in controls.stops:  # it has no text in which to find it
            return text + gate.release_text(), ("stop", model.name(token))
        if rule:
            ending = ("rule", rule)
        elif controls.limit is not None and self.step + 1 >= controls.limit:
            ending = ("length", f"max_tokens {controls.limit}")
        elif length >= self.lane.capacity:
            ending = ("context", f"{length} of {self.lane.capacity}")
        return (text + gate.release_text(), ending) if ending is not None else (text, None)

    def _make_finished(self, reason: Reason, detail: str) -> Finished:
        drafts, rounds = self.lane.drafts, self.lane.drafts.rounds or None
        return build_finished(
            reason, detail, self.controls.gate, self.drawn_at, self.asked_at, self.lane.prefill_ms, self.walk,
            drafted=drafts.drafted if rounds else None, accepted=self.accepted if rounds else None, rounds=rounds,
            not_drafted=drafts.nothing,
        )  # fmt: skip


def build_finished(
    reason: Reason,
    detail: str,
    gate: TextGate,
    drawn_at: list[float],
    asked_at: float,
    prefill_ms: float,
    walk: int | None,
    **fields: Any,
) -> Finished:
    """Return the record of a reply's end, whose tokens were drawn at these times, and whose text went through this gate; with
    other fields."""
    gate.finish_reply()
    decoding = drawn_at[-1] - drawn_at[0] if len(drawn_at) > 1 else 0.0
    return Finished(
        reason=reason,
        detail=detail,
        held=gate.held,
        tokens=len(drawn_at),
        ttft_ms=(drawn_at[0] - asked_at) * 1e3 if drawn_at else None,
        prefill_ms=prefill_ms,
        decode_ms=decoding * 1e3,
        tokens_per_second=(len(drawn_at) - 1) / decoding if decoding else None,
        walk=walk,
        **fields,
    )


def complete_record(drawn: Token, model: Vocabulary, position: int, **fields: Any) -> Token:
    """Complete the record of a step by its token's place and bytes, and by other fields."""
    return msgspec.structs.replace(
        drawn, position=position, bytes=model.piece(drawn.id) if drawn.id != UNKNOWN else b"",
        end=drawn.id in model.end_ids, **fields,
    )  # fmt: skip
