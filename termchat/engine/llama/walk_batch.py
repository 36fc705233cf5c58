"""Many replies to one prompt, which are decoded together: a row for each in every batch.

The prompt is decoded once, on the main sequence; each walk is a sequence that begins as a copy of it, or of another walk. It is
a `RunningReply`, whose generator is taken as far as it can go: until its newest token has to be decoded, until it is paused, or
to its end. Then the tokens of all that wait for it are decoded in one batch.

Rows of a batch have the bits of one thread, however many compute them (`cache`), so that is what the records of a walk say.
Cells of walks that ended stay until something else is decoded: without them the others would be computed otherwise.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from time import perf_counter

import msgspec
import numpy as np
from numpy.typing import NDArray

from termchat.decoding.conditions import Length
from termchat.decoding.drafting import BatchTimes
from termchat.decoding.group import MOST_WALKS
from termchat.decoding.records import Failed, Prefill, Shape, Token
from termchat.engine.llama import loop
from termchat.engine.llama.cache import MAIN, Aborted, Cache, ContextFull, does_batch_alike
from termchat.engine.llama.drafts import Learned
from termchat.engine.llama.pace import Pace
from termchat.engine.llama.running_reply import Pending, RunningReply, Said, check, is_exact
from termchat.engine.llama.softmax import Row
from termchat.engine.llama.walk_drafts import MOST_ROWS, WalkDrafts, room_ahead
from termchat.engine.port import (
    EngineError,
    Event,
    Generate,
    GenerateWalks,
    Join,
    Paused,
    Steer,
    SteerReply,
    ToWalk,
    Walk,
    WalksFinished,
)

Poll = Callable[[], Steer | None]
"""The next command for the running group, or None; never waits."""


class _InBatch:
    """What one walk has of the batches: its row of logits, and how long they took."""

    threads = 1
    """The bits are those of one, whatever computes them."""

    def __init__(self, cache: Cache, walk: int, drafts: WalkDrafts, *, exact: bool, forked: bool) -> None:
        self.drafts = drafts
        self.cache, self.model, self.capacity = cache, cache.model, cache.capacity
        self.exact = exact
        self.decode_us = 0
        self.prefill_ms = 0.0
        self.prefilled: Prefill | None = None
        self._walk, self._forked = walk, forked
        self._row: Row = np.empty(0, np.float32)
        self._rows: NDArray[np.float32] = np.empty((0, 0), np.float32)

    def set_threads(self, threads: int) -> None:
        pass

    def prepare(self, ids: list[int]) -> None:
        pass

    def prefill(self, ids: list[int]) -> Iterator[Prefill | Pending]:
        if self._forked:  # the logits after its last id are at hand no longer
            yield Pending.TOKEN
            self.prefill_ms = self.decode_us / 1e3
            yield Prefill(len(ids), len(ids) - 1, [1], self.prefill_ms, [self.threads], self._walk)
        else:
            yield Pending.PROMPT
            assert self.prefilled is not None
            yield msgspec.structs.replace(self.prefilled, walk=self._walk)

    def decode(self, ids: list[int]) -> Iterator[Pending]:
        if (ahead := self.drafts.advance(ids[-1])) is None:
            yield Pending.TOKEN
        else:
            self._row, self.decode_us = self._rows[ahead], 0

    def row(self) -> Row:
        return self._row

    def take(self, row: Row, decode_us: int) -> None:
        """The row after the newest token, which may be written over once the next batch is decoded."""
        self._row, self.decode_us = row, decode_us

    def take_rows(self, rows: NDArray[np.float32], decode_us: int) -> None:
        """The same, and those after what was drafted."""
        self._rows = rows
        self.take(rows[0], decode_us)
        self.drafts.decoded(decode_us)

    def hold(self) -> None:
        """The next batch is decoded without this walk."""
        self.drafts.cut()
        if self._row.base is not None:
            self._row = self._row.copy()


class _Walk:
    """A walk: its reply, how far that got, and the commands for it."""

    def __init__(self, walk: Walk, request: Generate, group: GenerateWalks, decoder: _InBatch, asked_at: float) -> None:
        self.number = walk.number
        self.commands: deque[SteerReply] = deque()
        self.decoder = decoder
        self.reply = RunningReply(request, decoder, self._poll, asked_at, walk=walk.number, group=group.group)
        self.sequence: int | None = None
        self.ids: list[int] | None = None
        """Those that have cells; the cache's own list."""
        self.shared = 0
        """Those of them that it began with."""
        self.taken = self.reply.ids
        """Those and the newest."""
        self.state: Pending | Paused | None = None
        """What it waits for."""
        self.over = False
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
        """Whether it can go on before the next batch."""
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

    def settle(self) -> None:
        """Takes cells back of what was drafted and not drawn: all but those in front of the newest token."""
        if self.sequence is not None and self.ids is not None:
            self.decoder.cache.retract(self.sequence, max(len(self.taken) - 1, self.shared))

    def end(self) -> None:
        """Nothing is left but its ids and its cells: what it computes with has the size of some rows of logits, and would
        stay until the next group."""
        self.over = True
        self.settle()
        self.reply.close()
        del self.reply, self.decoder, self._records


class WalkBatch:
    """One group of walks, from the request on until something else is decoded.

    Raises:
        EngineError: the prompt is empty or larger than the context, there are too many walks, or the model cannot do it.
    """

    rows_alone = True
    """No cells are freed while others go on."""

    def __init__(
        self, cache: Cache, pace: Pace, request: GenerateWalks, asked_at: float, learned: Learned | None = None
    ) -> None:
        check(cache, request.ids)
        if not 0 < len(request.walks) <= MOST_WALKS:
            raise EngineError("walks", f"{len(request.walks)} walks at once are not possible", f"1 to {MOST_WALKS} are")
        if not cache.model.can_rewind:
            raise EngineError(
                "capability",
                "this model cannot make several replies at once",
                "ask for one: its state cannot be copied",
            )
        self._cache, self._pace, self._request, self._asked_at = cache, pace, request, asked_at
        self._learned, self._judged = learned or Learned(), Learned()
        self._times: dict[int, BatchTimes] = {}
        self._batches = loop.Batches(cache)
        self._walks: dict[int, _Walk] = {}
        self._prompt: Row = np.empty(0, np.float32)
        self._prefilled: Prefill | None = None
        self._prompt_us = 0
        self._exact = False
        self._steps = 0
        self._seconds = self._waited = 0.0

    @property
    def _running(self) -> list[_Walk]:
        return [walk for walk in self._walks.values() if not walk.over]

    def sequence(self, number: int) -> int | None:
        """The cache's sequence that holds a walk; None once its cells are gone."""
        walk = self._walks.get(number)
        if walk is None or walk.sequence is None or self._cache.sequences.get(walk.sequence) is not walk.ids:
            return None
        return walk.sequence

    def records(self, poll: Poll, wait: Callable[[], None]) -> Iterator[list[Event]]:
        """The records of all walks, as they come, and `WalksFinished`. `wait` returns when there is a command for them.

        Raises:
            EngineError: llama.cpp failed.
        """
        cache, request = self._cache, self._request
        try:
            plan = loop.plan_for_many(cache, request)
            self._exact = is_exact(cache, request, plan) and does_batch_alike(cache.model)
            yield [said for walk in request.walks for said in self._add(walk, self._asked_at)]
            yield from self._prefill(plan, poll)
            yield from self._rounds(poll, wait)
            yield [self._finished()]
        finally:
            for walk in self._running:
                walk.end()
            self._pace.rest()
            cache.limit_threads(self._pace.limit)

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

    # --- walks come --------------------------------------------------------------------------------------------------

    def _add(self, walk: Walk, asked_at: float) -> Iterator[Event]:
        """A walk begins: its `Start`, or why it cannot."""
        try:
            made = self._made(walk, asked_at)
        except EngineError as error:
            yield Failed(error.kind, error.message, error.hint, walk.number)
        else:
            self._walks[walk.number] = made
            yield from made.advance()
            if self._prefilled is not None and made.state is Pending.PROMPT:
                self._begin(made)

    def _made(self, walk: Walk, asked_at: float) -> _Walk:
        request = self._request
        ids = request.ids if walk.base is None else [*request.ids, *self._begun(*walk.base)]
        check(self._cache, ids, (entry.id for entry in walk.script if entry.id is not None))
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
        forked = len(ids) > len(request.ids)
        drafts = WalkDrafts(self._cache.model, self._judged, request.draft)
        decoder = _InBatch(self._cache, walk.number, drafts, exact=self._exact, forked=forked)
        made = _Walk(walk, asked, request, decoder, asked_at)
        if self._prefilled is not None:
            sequence = MAIN if walk.base is None else self._walks[walk.base[0]].sequence
            self._share(made, sequence, len(ids) - forked)
        return made

    def _begun(self, number: int, count: int) -> list[int]:
        """The first tokens of a walk."""
        base = self._walks.get(number)
        if base is None or base.sequence is None:
            raise EngineError("walks", f"there is no walk {number} to begin with", "")
        begun = base.taken[len(self._request.ids) :][:count]
        if len(begun) < count:
            raise EngineError(
                "walks", f"walk {number} has only {len(begun)} tokens", f"begin within these, not at {count}"
            )
        return begun

    def _share(self, walk: _Walk, sequence: int | None, count: int) -> None:
        """The walk's own sequence begins with the first cells of another."""
        assert sequence is not None
        walk.sequence = self._cache.begin(sequence, count)
        walk.ids, walk.shared = self._cache.sequences[walk.sequence], count

    # --- what is decoded ---------------------------------------------------------------------------------------------

    def _prefill(self, plan: list[Shape], poll: Poll) -> Iterator[list[Event]]:
        """Decodes what the cache lacks of the prompt."""
        cache, ids = self._cache, self._request.ids
        prompt = loop.PromptReader(cache, self._pace, ids, plan)
        yield [*self._obey(poll)]
        try:
            for said in prompt.decode():
                if isinstance(said, Prefill):
                    self._prefilled = said
                else:
                    yield [said, *self._obey(poll)]
        except (Aborted, ContextFull) as failure:
            yield self._fail(self._running, failure)
            return
        self._prompt, self._prompt_us = cache.logits().copy(), prompt.decode_us
        for walk in self._running:
            self._share(walk, MAIN, len(ids))
            self._begin(walk)

    def _begin(self, walk: _Walk) -> None:
        """The walk goes on behind the prompt."""
        assert self._prefilled is not None
        walk.decoder.prefilled = self._prefilled
        walk.decoder.prefill_ms = self._prefilled.ms
        walk.decoder.take(self._prompt, self._prompt_us)
        walk.state = None

    def _decode(self, pending: list[_Walk]) -> list[Event]:
        """Decodes the newest token of each walk, with what is drafted behind it; what they say if that fails."""
        cache = self._cache
        for walk in pending:
            walk.settle()
        if cache.free < len(pending):
            used = f"{cache.capacity - cache.free} of {cache.capacity}"
            return self._fail(self._running, ContextFull(f"{used}: no cell left for each walk"))
        asked = [[walk.taken[-1], *ahead] for walk, ahead in zip(pending, self._drafted(pending), strict=True)]
        try:
            rows, us = self._batches.decode(
                [(walk.sequence or 0, token) for walk, ids in zip(pending, asked, strict=True) for token in ids]
            )
        except (Aborted, ContextFull) as failure:
            for walk in pending:
                walk.decoder.drafts.cut()
            return self._fail(pending, failure)
        self._steps += 1
        if len(rows) % len(pending) == 0:
            self._times_of(len(pending)).add(len(rows) // len(pending), us)
        at = 0
        for walk, ids in zip(pending, asked, strict=True):
            walk.decoder.take_rows(rows[at : at + len(ids)], us)
            walk.state = None
            at += len(ids)
        return []

    def _drafted(self, pending: list[_Walk]) -> list[list[int]]:
        """What is drafted for each walk: as many rows as a batch can have, and as there are cells for beside all tokens."""
        count = len(pending)
        room = room_ahead(self._cache.free, self._cache.capacity, [walk.left for walk in self._running])
        most = max(min(MOST_ROWS // count - 1, room // count), 0)
        times = self._times_of(count)
        return [walk.decoder.drafts.propose(walk.taken, min(most, walk.left - 1), times) for walk in pending]

    def _times_of(self, count: int) -> BatchTimes:
        """What batches cost in which so many walks have some rows each, in units of one with a row each."""
        if count not in self._times:
            times = self._learned.times(self._cache.loaded[1]).of
            several = {n: times(n * count) / times(count) for n in range(2, MOST_ROWS // count + 1)}
            self._times[count] = BatchTimes(self._cache.loaded[1], several or {2: 2.0})
        return self._times[count]

    def _fail(self, walks: list[_Walk], failure: Exception) -> list[Event]:
        """What these walks waited for failed."""
        return [said for walk in walks for said in walk.advance(type(failure)(*failure.args))]

    # --- what is said ------------------------------------------------------------------------------------------------

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
