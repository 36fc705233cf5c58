"""Many replies to one prompt that run together, whoever computes them: what all such groups have.

Each walk is a `RunningReply`, whose generator is taken as far as it can go: until its newest token has to be decoded, until it
is paused, or to its end. Then the tokens of those that wait for it are decoded: `walk_batch` does it in one batch, an engine
elsewhere asks for each.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from time import perf_counter
from typing import ClassVar, Generic, Protocol, TypeVar

import msgspec

from termchat.decoding.conditions import Length
from termchat.decoding.group import MOST_WALKS
from termchat.decoding.records import Failed, Token
from termchat.engine.abilities import LOCAL
from termchat.engine.llama.requests import Generate, GenerateWalks, Join, Steer, ToWalk, Walk
from termchat.engine.llama.running_reply import Decoder, Pending, Room, RunningReply, Said, check
from termchat.engine.port import EngineError, Event, Paused, SteerReply, WalksFinished

Poll = Callable[[], Steer | None]
"""The next command for the running group, or None; never waits."""


class WalkDecoder(Decoder, Protocol):
    def hold(self) -> None:
        """The walk is paused: others are decoded without it."""


D = TypeVar("D", bound=WalkDecoder)


class RunningWalk(Generic[D]):
    """A walk: its reply, how far that got, and the commands for it."""

    reply_kind: ClassVar[type[RunningReply]] = RunningReply

    def __init__(self, walk: Walk, request: Generate, group: GenerateWalks, decoder: D, asked_at: float) -> None:
        self.number = walk.number
        self.commands: deque[SteerReply] = deque()
        self.decoder = decoder
        self.reply = self.reply_kind(request, decoder, self._poll, asked_at, walk=walk.number, group=group.group)
        self.taken = self.reply.ids
        """The ids that it was given or drew."""
        self.state: Pending | Paused | None = None
        """What it waits for."""
        self.began = self.over = False
        self.tokens = 0
        self._records = self.reply.records()
        begun = len(request.ids) - request.done
        limit = min((c.tokens for c in walk.conditions if isinstance(c, Length)), default=decoder.capacity)
        self._most = min(begun + limit, decoder.capacity)

    @property
    def left(self) -> int:
        """Tokens that it can have yet, as it was asked for."""
        return max(self._most - len(self.taken), 0)

    def _poll(self) -> SteerReply | None:
        return self.commands.popleft() if self.commands else None

    @property
    def goes_on(self) -> bool:
        """Whether it can go on before the next token is decoded."""
        return self.state is None or (isinstance(self.state, Paused) and bool(self.commands))

    def advance(self, error: Exception | None = None) -> Iterator[Event]:
        """Goes on as far as it can, after what it waited for failed with an `error` if there is one."""
        said: Said | Pending
        try:
            while True:
                said = next(self._records) if error is None else self._records.throw(error)
                error = None
                if isinstance(said, Pending):
                    break
                yield said
                if isinstance(said, Token):
                    self.tokens += 1
                elif isinstance(said, Paused):
                    self.decoder.hold()
                    break
            self.state = said
        except StopIteration:
            self.end()
        except EngineError as failure:
            yield Failed(failure.kind, failure.message, failure.hint, self.number)
            self.end()

    def end(self) -> None:
        """Nothing is left but its ids: what it computes with has the size of some rows of logits, and would stay until the next
        group."""
        self.over = True
        self.reply.close()
        del self.reply, self.decoder, self._records


W = TypeVar("W", bound=RunningWalk)  # type: ignore[type-arg]


class RunningGroup(ABC, Generic[W]):
    """One group of walks, from the request on until something else is decoded.

    Raises:
        EngineError: the prompt is empty or larger than the context, or there are too many walks.
    """

    larger_context = LOCAL.larger_context

    def __init__(self, room: Room, request: GenerateWalks, asked_at: float) -> None:
        check(room, request.ids, (), self.larger_context)
        if not 0 < len(request.walks) <= MOST_WALKS:
            raise EngineError("walks", f"{len(request.walks)} walks at once are not possible", f"1 to {MOST_WALKS} are")
        self._room, self._request, self._asked_at = room, request, asked_at
        self._walks: dict[int, W] = {}
        self._steps = 0
        self._seconds = self._waited = 0.0

    @property
    def _running(self) -> list[W]:
        return [walk for walk in self._walks.values() if not walk.over]

    def records(self, poll: Poll, wait: Callable[[], None]) -> Iterator[list[Event]]:
        """The records of all walks, as they come, and `WalksFinished`. `wait` returns when there is a command for them.

        Raises:
            EngineError: the engine failed.
        """
        try:
            self._prepare()
            yield [said for walk in self._request.walks for said in self._add(walk, self._asked_at)]
            yield from self._prefill(poll)
            yield from self._rounds(poll, wait)
            yield [self._finished()]
        finally:
            for walk in self._running:
                walk.end()
            self._leave()

    @abstractmethod
    def _prepare(self) -> None:
        """Before the first walk is added."""

    @abstractmethod
    def _prefill(self, poll: Poll) -> Iterator[list[Event]]:
        """Decodes the prompt, and has the walks go on behind it."""

    @abstractmethod
    def _of(self, walk: Walk, request: Generate, asked_at: float) -> W:
        """The walk with this request. It waits, as `Pending.PROMPT`, until `_begin` has it go on behind the prompt."""

    @abstractmethod
    def _take_prompt(self, walk: W) -> None:
        """Gives the walk what was computed of the prompt."""

    @property
    @abstractmethod
    def _has_prompt(self) -> bool:
        """Whether the prompt is decoded."""

    @abstractmethod
    def _decode(self, pending: list[W]) -> list[Event]:
        """Decodes the newest token of walks that wait for it, of all or of some; what they say if that fails."""

    def _leave(self) -> None:
        """All are over."""

    def _begin(self, walk: W) -> None:
        """The walk goes on behind the prompt."""
        self._take_prompt(walk)
        walk.began, walk.state = True, None

    def _rounds(self, poll: Poll, wait: Callable[[], None]) -> Iterator[list[Event]]:
        """All walks to their ends."""
        first: float | None = None
        while self._running:
            yield [*self._obey(poll), *self._advance()]
            now = perf_counter()
            first = first or now
            self._seconds = now - first - self._waited
            if pending := [walk for walk in self._running if walk.state is Pending.TOKEN]:
                if failures := self._decode(pending):
                    yield failures
            elif self._running:
                wait()
                self._waited += perf_counter() - now

    def _add(self, walk: Walk, asked_at: float) -> Iterator[Event]:
        """A walk begins: its `Start`, or why it cannot."""
        try:
            made = self._made(walk, asked_at)
        except EngineError as error:
            yield Failed(error.kind, error.message, error.hint, walk.number)
        else:
            self._walks[walk.number] = made
            made.began = self._has_prompt
            yield from made.advance()
            if self._has_prompt and made.state is Pending.PROMPT:
                self._begin(made)

    def _made(self, walk: Walk, asked_at: float) -> W:
        request = self._request
        ids = walk.ids or request.ids
        check(self._room, ids, (entry.id for entry in walk.script if entry.id is not None), self.larger_context)
        if walk.number in self._walks:
            raise EngineError("walks", f"walk {walk.number} is there already", "give the new one another number")
        if len(self._running) >= MOST_WALKS:
            raise EngineError("walks", f"{MOST_WALKS} walks are running, which is the most", "stop one first")
        asked = Generate(
            ids,
            walk.samplers,
            walk.conditions,
            walk.seed,
            walk.origin,
            done=request.done + len(ids) - len(request.ids),
            raw=request.raw,
            candidates=request.candidates,
            script=tuple(msgspec.structs.replace(entry, threads=0) for entry in walk.script),
            paused=walk.paused,
            prefill=request.prefill,
            state=walk.state,
            constraint=walk.constraint,
            constraint_begun=request.constraint_begun,
        )
        return self._of(walk, asked, asked_at)

    def _base(self, ids: list[int]) -> W:
        """Return the walk that has all these ids but the last, or more of them than the prompt.

        Raises:
            EngineError: there is none.
        """
        for walk in self._walks.values():
            if walk.began and walk.taken[: len(ids)] == ids:
                return walk
        raise EngineError("walks", "no running reply begins with these tokens", "begin a new one with them")

    def _fail(self, walks: Iterable[W], failure: Exception) -> list[Event]:
        """What these walks waited for failed."""
        return [said for walk in walks for said in walk.advance(type(failure)(*failure.args))]

    def _obey(self, poll: Poll) -> Iterator[Event]:
        """Gives the commands to the walks they are for; what a new one says at first."""
        while (command := poll()) is not None:
            if isinstance(command, Join):
                yield from self._add(command.walk, perf_counter())
            elif isinstance(command, ToWalk):
                if (walk := self._walks.get(command.walk)) is not None:
                    walk.commands.append(command.command)
            else:
                for walk in self._running:
                    walk.commands.append(command)

    def _advance(self) -> Iterator[Event]:
        """All walks go on as far as they can."""
        for walk in self._running:
            if walk.goes_on:
                yield from walk.advance()

    def _finished(self) -> WalksFinished:
        counts = [walk.tokens for walk in self._walks.values() if walk.tokens]
        later, seconds = sum(counts) - len(counts), self._seconds
        return WalksFinished(sum(counts), self._steps, seconds * 1e3, later / seconds if later and seconds else None)
