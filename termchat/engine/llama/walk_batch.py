"""Many replies to one prompt, which are decoded together: a row for each in every batch.

The prompt is decoded once, on the main sequence; each walk is a sequence that begins as a copy of it, or of another walk.

Rows of a batch have the bits of one thread, however many compute them (`cache`), so that is what the records of a walk say.
Where too many in one batch have other bits than each alone, exact walks take several batches a step.
Cells of walks that ended stay until something else is decoded: without them the others would be computed otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np
from numpy.typing import NDArray

from termchat.decoding.drafting import BatchTimes
from termchat.decoding.records import Prefill, Shape
from termchat.engine.llama import loop
from termchat.engine.llama.cache import MAIN, Aborted, Cache, ContextFull
from termchat.engine.llama.drafts import Learned
from termchat.engine.llama.pace import Pace
from termchat.engine.llama.requests import Generate, GenerateWalks, Walk
from termchat.engine.llama.running_reply import Pending, is_exact
from termchat.engine.llama.running_walks import Poll, RunningGroup, RunningWalk
from termchat.engine.llama.softmax import Row
from termchat.engine.llama.walk_drafts import MOST_ROWS, WalkDrafts, room_ahead
from termchat.engine.port import EngineError, Event


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


class _Walk(RunningWalk[_InBatch]):
    """A walk with the sequence that has its cells: `ids` are those that have some, the cache's own list, of which it began with
    the first `shared`."""

    sequence: int | None = None
    ids: list[int] | None = None
    shared = 0

    def settle(self) -> None:
        """Takes cells back of what was drafted and not drawn: all but those in front of the newest token."""
        if self.sequence is not None and self.ids is not None:
            self.decoder.cache.retract(self.sequence, max(len(self.taken) - 1, self.shared))

    def end(self) -> None:
        self.settle()
        super().end()


class WalkBatch(RunningGroup[_Walk]):
    """See `RunningGroup`.

    Raises:
        EngineError: as there, or the model cannot do it.
    """

    def __init__(
        self, cache: Cache, pace: Pace, request: GenerateWalks, asked_at: float, learned: Learned | None = None
    ) -> None:
        super().__init__(cache, request, asked_at)
        if not cache.model.can_rewind:
            raise EngineError(
                "capability",
                "this model cannot make several replies at once",
                "ask for one: its state cannot be copied",
            )
        self._cache, self._pace = cache, pace
        self._learned, self._judged = learned or Learned(), Learned()
        self._times: dict[int, BatchTimes] = {}
        self._batches = loop.Batches(cache)
        self._plan: list[Shape] = []
        self._prompt: Row = np.empty(0, np.float32)
        self._prefilled: Prefill | None = None
        self._prompt_us = 0
        self._exact = False
        alike = cache.rows_alike
        self.rows_alone = request.exact or len(request.walks) <= alike
        """Whether each row has the bits that it has alone; no cells are freed while others go on."""
        self._most = alike if self.rows_alone else cache.batch_size

    def sequence(self, number: int) -> int | None:
        """The cache's sequence that holds a walk; None once its cells are gone."""
        walk = self._walks.get(number)
        if walk is None or walk.sequence is None or self._cache.sequences.get(walk.sequence) is not walk.ids:
            return None
        return walk.sequence

    def _prepare(self) -> None:
        cache, request = self._cache, self._request
        self._plan = loop.plan_for_many(cache, request)
        self._exact = is_exact(cache, request, self._plan) and self.rows_alone

    def _leave(self) -> None:
        self._pace.rest()
        self._cache.limit_threads(self._pace.limit)

    @property
    def _has_prompt(self) -> bool:
        return self._prefilled is not None

    def _of(self, walk: Walk, request: Generate, asked_at: float) -> _Walk:
        forked = len(request.ids) > len(self._request.ids)
        drafts = WalkDrafts(self._cache.model, self._judged, self._request.draft)
        decoder = _InBatch(self._cache, walk.number, drafts, exact=self._exact, forked=forked)
        made = _Walk(walk, request, self._request, decoder, asked_at)
        if self._has_prompt:
            sequence = self._base(request.ids).sequence if forked else MAIN
            self._share(made, sequence, len(request.ids) - forked)
        return made

    def _share(self, walk: _Walk, sequence: int | None, count: int) -> None:
        """The walk's own sequence begins with the first cells of another."""
        assert sequence is not None
        walk.sequence = self._cache.begin(sequence, count)
        walk.ids, walk.shared = self._cache.sequences[walk.sequence], count

    # --- what is decoded ---------------------------------------------------------------------------------------------

    def _prefill(self, poll: Poll) -> Iterator[list[Event]]:
        """Decodes what the cache lacks of the prompt."""
        cache, ids = self._cache, self._request.ids
        prompt = loop.PromptReader(cache, self._pace, ids, self._plan)
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

    def _take_prompt(self, walk: _Walk) -> None:
        assert self._prefilled is not None
        walk.decoder.prefilled = self._prefilled
        walk.decoder.prefill_ms = self._prefilled.ms
        walk.decoder.take(self._prompt, self._prompt_us)

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
            tokens = [(walk.sequence or 0, token) for walk, ids in zip(pending, asked, strict=True) for token in ids]
            rows, us = self._batches.decode(tokens, self._most)
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
            times = self._learned.times(self._cache.loaded[1])

            def step(rows: int) -> float:
                return sum(times.of(min(self._most, rows - at)) for at in range(0, rows, self._most))

            several = {n: step(n * count) / step(count) for n in range(2, MOST_ROWS // count + 1)}
            self._times[count] = BatchTimes((several or {2: 2.0}) if times.measured else {})
        return self._times[count]
