"""The observed loop: prefill once, then logits, chain, dice, record, decode, again and again.

`generate` is a generator of records. Nothing in it knows a pipe. Here is how the tokens of one reply are decoded, on the main
sequence, and with how many threads; the rest is the reply's own (`running_reply`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from math import inf
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from termchat.decoding.records import Prefill, Shape
from termchat.engine.llama.cache import EXACT_BATCH, Cache, OutOfTime
from termchat.engine.llama.drafts import Drafts, Learned
from termchat.engine.llama.pace import Pace
from termchat.engine.llama.requests import Generate, GenerateWalks, SearchBeams
from termchat.engine.llama.running_reply import Pending, Poll, RunningReply, Said, check, is_exact
from termchat.engine.llama.softmax import Row
from termchat.engine.llama.steering import MOST_THREADS
from termchat.engine.llama.threads import all_threads
from termchat.engine.port import Prefilling


def generate(
    cache: Cache,
    pace: Pace,
    request: Generate,
    poll: Poll,
    asked_at: float,
    row: Callable[[], Row] | None = None,
    learned: Learned | None = None,
) -> Iterator[Said]:
    """The records of one reply, from `Start` to `Finished`.

    After a `Paused` it continues when `poll` has a command; without one it yields the same again, so wait for one.
    `asked_at` is the `perf_counter` at which the request came. `row` gives the logits that the cache has at hand, or a copy of
    them. `learned` is what earlier replies tell of drafts.

    Raises:
        EngineError: the prompt is empty or larger than the context, a condition is invalid, or llama.cpp failed.
    """
    check(cache, request.ids, (entry.id for entry in request.script if entry.id is not None))
    decoder = _Alone(cache, pace, request, row or cache.logits, learned or Learned())
    reply = RunningReply(request, decoder, poll, asked_at)
    try:
        for said in reply.records():
            assert not isinstance(said, Pending)
            yield said
    finally:
        reply.close()
        decoder.drafts.end()
        # The next one begins with as many threads as are best, whatever a script or a trial had set.
        pace.rest()
        cache.limit_threads(pace.limit)


class _Alone:
    """Decodes one reply on the main sequence, with as many threads as the pace finds best, or as its script names."""

    def __init__(self, cache: Cache, pace: Pace, request: Generate, row: Callable[[], Row], learned: Learned) -> None:
        self.cache, self.row = cache, row
        self.model, self.capacity = cache.model, cache.capacity
        self.exact = False
        self.decode_us = 0
        self.prefill_ms = 0.0
        self._request = request
        self._pace = None if any(entry.threads for entry in request.script) else pace
        self._plan: list[Shape] = []
        self.drafts = Drafts(cache, request, self._read, learned)

    @property
    def threads(self) -> int:
        return self.cache.threads

    def set_threads(self, threads: int) -> None:
        self.cache.set_threads(threads)

    def prepare(self, ids: list[int]) -> None:
        cache, request = self.cache, self._request
        self._plan = cache.prepare(ids, request.shapes if request.rebuild_exactly else None, self._most_threads())
        self.exact = self.drafts.exact = is_exact(cache, request, self._plan) and self.drafts.keep_exact

    def _most_threads(self) -> int:
        """How many threads may decode lost cells again as they were decoded: where a person set the number, no others."""
        if self._pace is None:
            return MOST_THREADS
        return all_threads() if self.cache.may_choose_threads else 0

    def prefill(self, ids: list[int]) -> Iterator[Prefilling | Prefill]:
        prompt = PromptReader(self.cache, self._pace, ids, self._plan)
        for said in prompt.decode():
            self.decode_us, self.prefill_ms = prompt.decode_us, prompt.ms
            yield said

    def decode(self, ids: list[int]) -> tuple[()]:
        self.decode_us = self.drafts.decode(ids) if self.drafts.begun else self._read(ids)
        return ()

    def _read(self, ids: list[int], ahead: Sequence[int] = ()) -> int:
        return _read(self.cache, self._pace, ids, Shape(1 + len(ahead)), ahead=ahead)[1]


class PromptReader:
    """Ids that are decoded as `plan` says. `decode_us` is how long the last decode took, `ms` how long all of them did."""

    def __init__(self, cache: Cache, pace: Pace | None, ids: list[int], plan: list[Shape]) -> None:
        self._cache, self._pace, self._ids, self._plan = cache, pace, ids, plan
        self.decode_us, self.ms = 0, 0.0

    def decode(self) -> Iterator[Prefilling | Prefill]:
        """In the end there is its record.

        Raises:
            Aborted, ContextFull, EngineError: see `Cache.read`.
        """
        started = perf_counter()
        shapes: list[Shape] = []
        count, total, done = len(self._ids), sum(shape.rows for shape in self._plan), 0
        for shape, decode_us in prefill(self._cache, self._pace, self._ids, self._plan):
            self.decode_us, self.ms = decode_us, (perf_counter() - started) * 1e3
            shapes.append(shape)
            done += shape.rows
            if done < total:
                yield Prefilling(done, total)
        rows, threads = ([shape[i] for shape in shapes] for i in (0, 1))
        yield Prefill(count, count - total, rows, self.ms, threads)


def plan_for_many(cache: Cache, request: GenerateWalks | SearchBeams) -> list[Shape]:
    """What is to be decoded of the prompt of several replies. A single row, as the last one is, has one thread: rows that are
    decoded together have the bits of one."""
    most = all_threads() if cache.may_choose_threads else cache.loaded[0]
    plan = cache.prepare(request.ids, request.shapes if request.rebuild_exactly else None, most)
    return [Shape(1, shape.threads or 1) if shape.rows == 1 else shape for shape in plan]


class Batches:
    """Decodes rows of several sequences, with as many threads as are best."""

    def __init__(self, cache: Cache) -> None:
        self._cache, self._pace = cache, Pace(cache.adaptable[1])

    def decode(self, rows: Sequence[tuple[int, int]], most: int = EXACT_BATCH) -> tuple[NDArray[np.float32], int]:
        """`Cache.decode_rows` of at most so many rows at once, and how many microseconds it took. If it takes too long it is
        broken off, and done with fewer threads."""
        cache, pace = self._cache, self._pace
        if len(rows) > most:
            logits, us = np.empty((len(rows), cache.model.n_vocab), np.float32), 0
            for at in range(0, len(rows), most):
                logits[at : at + most], spent = self.decode(rows[at : at + most], most)
                us += spent
            return logits, us
        # With drafts it takes longer, and tells nothing of the threads.
        several = 1 < len(rows) == len({sequence for sequence, _ in rows})
        found: NDArray[np.float32] | None = None
        begun = now = perf_counter()
        while found is None:
            threads = min(cache.loaded[1], pace.limit) if cache.adaptable[1] > 1 else cache.loaded[1]
            with suppress(OutOfTime):
                found = cache.decode_rows(rows, threads, pace.allowed() if several else inf)
            before, now = now, perf_counter()
            if several:
                pace.observe(threads, (now - before) * 1e6)
        return found, int((now - begun) * 1e6)


def prefill(cache: Cache, pace: Pace | None, ids: list[int], plan: list[Shape]) -> Iterator[tuple[Shape, int]]:
    """`Cache.prefill`, which also yields how many microseconds each decode took. Without a `pace` the threads stay."""
    for number, shape in enumerate(plan, 1):
        yield _read(cache, pace, ids, shape, plan[number].rows if number < len(plan) else 1)


def _read(
    cache: Cache, pace: Pace | None, ids: list[int], shape: Shape, following: int = 1, ahead: Sequence[int] = ()
) -> tuple[Shape, int]:
    """Decodes the next ids, and says how many microseconds it took; chooses the threads for the decode of the `following` rows.

    If it takes too long it is broken off, and done with fewer threads. Threads that the shape names are neither judged nor
    changed.
    """
    pace = None if shape.threads else pace
    begun = now = perf_counter()
    while True:
        threads, too_long = cache.threads if shape.rows == 1 else cache.threads_batch, False
        try:
            allowed = pace.allowed(shape.rows) if pace is not None else inf
            made = cache.read(ids, shape, allowed, ahead)
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
