"""Rows of logits from the cache: for one reply on the main sequence, or for many in one batch a step.

A single reply has as many threads as the tuner finds best, or as its script names, and tokens that are drafted ahead. Of many
each is a sequence of its own, which begins as a copy of the longest beginning that is there: the prompt of the first is decoded
on the main sequence, and what another prompt has of its own behind the beginning that it shares, on its sequence.

Rows of a batch have the bits of one thread, however many compute them (`cache`), so that is what the records of a group say.
Where too many in one batch have other bits than each alone, exact groups take several batches a step. Cells of replies that
ended stay until something else is decoded: without them the others would be computed otherwise.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from math import inf
from time import perf_counter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from termchat.decoding.drafting import MOST_DRAFTED, BatchTimes
from termchat.decoding.records import Prefill, Shape
from termchat.engine.llama.beams import BeamSearch
from termchat.engine.llama.cache import EXACT_BATCH, MAIN, Aborted, Cache, ContextFull, OutOfTime, count_common
from termchat.engine.llama.lane import CacheLane
from termchat.engine.llama.reply import Running, Wait
from termchat.engine.llama.reply_controls import MOST_THREADS
from termchat.engine.llama.scheduler import Failure, Source
from termchat.engine.llama.softmax import Row
from termchat.engine.llama.speculation import MOST_ROWS, Learned, Speculation
from termchat.engine.llama.thread_tuner import ThreadTuner, all_threads
from termchat.engine.port import EngineError, Generate, Prefilling, ReplyRequest


class _Prompt(NamedTuple):
    """A prompt that is decoded: its sequence, its record, the row after it, and the time of the last decode."""

    sequence: int
    record: Prefill
    row: Row
    decode_us: int


class CacheSource(Source):
    """Decodes for the replies of one request. `rows_alone`: each row of a group has the bits that it has alone; those of a
    beam search only while no cells are freed.

    Raises:
        EngineError: the model cannot make several replies at once.
    """

    def __init__(
        self,
        cache: Cache,
        tuner: ThreadTuner,
        command: Generate,
        learned: Learned,
        row: Callable[[], Row] | None = None,
    ) -> None:
        group = command.group
        if group is not None and not cache.model.can_rewind:
            why = "this model cannot make several replies at once", "ask for one: its state cannot be copied"
            if group.beams is not None:
                why = "this model cannot search with beams: its state cannot be copied", ""
            raise EngineError("capability", *why)
        self.room = self._cache = cache
        self._tuner, self._command, self._alone = tuner, command, group is None
        self._learned, self._judged = learned, learned if self._alone else Learned()
        self._main = (row or cache.read_logits) if self._alone else None
        self._times: dict[int, BatchTimes] = {}
        self._batch_tuner = ThreadTuner(cache.adaptable[1])
        self._prompts: dict[tuple[int, ...], _Prompt] = {}
        self.steps = 0
        self._ended: dict[int, tuple[int, list[int]]] = {}

    def open(self, request: ReplyRequest) -> CacheLane:
        """Return a lane for a reply."""
        command, cache = self._command, self._cache
        draft = None if command.group is not None and command.group.beams is not None else command.draft
        drafts = Speculation(cache.model, self._judged, request, draft, alone=self._alone)
        return CacheLane(cache, drafts, self._main)

    def plan_prompts(self, runs: Sequence[Running]) -> None:
        """Plan the decodes of the prompts."""
        cache, first, alone = self._cache, runs[0], self._alone
        request = first.request
        self._adapts = not any(entry.threads for entry in request.script) or not alone
        # The threads that may decode lost cells as they were decoded: where a person set the number, no others.
        most_threads = all_threads() if cache.may_choose_threads else 0 if alone else cache.loaded[0]
        if not self._adapts:
            most_threads = MOST_THREADS
        plan = cache.prepare_prompt(request.ids, request.shapes if request.rebuild_exactly else None, most_threads)
        self.rows_alone, self._most = True, cache.batch_size
        if not alone:  # rows that are decoded together have the bits of one thread, as has the last one of the prompt
            plan = [Shape(1, shape.threads or 1) if shape.rows == 1 else shape for shape in plan]
            alike = cache.rows_alike
            self.rows_alone = self._command.exact or len(self._command.replies) <= alike
            self._most = alike if self.rows_alone else self._most
            if isinstance(first, BeamSearch):
                self.rows_alone = first.has_room() and first.width <= alike
                self._most = EXACT_BATCH
        self._plan, self._ids = plan, list(request.ids)
        reused = len(request.ids) - sum(shape.rows for shape in plan)
        # A reply that goes on stands on cells as it had them; a new one on any, as long as it is known how they were made.
        count = min(len(request.ids) if request.done else reused, sum(shape.rows for shape in request.shapes))
        as_recorded = cache.made_as(request.shapes, count, plan, surely=True) == count
        lost = bool(request.done) and not request.shapes and reused < len(request.ids) - 1
        known = cache.exact and not cache.model.gpu_layers and as_recorded and not lost
        self._exact = exact = known and self.rows_alone
        others: list[list[int]] = [self._ids]
        self._total = sum(shape.rows for shape in plan)
        for run in runs:
            _lane_of(run).rows_alone = self.rows_alone
            run.lane.exact = exact if run.ids == self._ids else exact and not run.request.done
            if run.ids not in others:
                self._total += len(run.ids) - max(count_common(ids, run.ids) for ids in others)
                others.append(run.ids)
        if alone:
            drafts = _lane_of(first).drafts
            first.lane.exact = exact and (drafts.settings is None or drafts.most < cache.rows_drafted_alike)

    # --- prompts -----------------------------------------------------------------------------------------------------

    def prefill_prompts(self, runs: Collection[Running]) -> Iterator[Prefilling | Failure]:
        """Decode the prompts.

        Raises:
            Aborted, ContextFull, EngineError: that of the first reply could not be decoded.
        """
        cache, ids, started = self._cache, self._ids, perf_counter()
        lane = next((_lane_of(run) for run in runs if self._alone), None)
        shapes: list[Shape] = []
        done = us = 0
        ms = 0.0
        for shape, us in read_prompt(cache, self._tuner if self._adapts else None, ids, self._plan):
            ms = (perf_counter() - started) * 1e3
            shapes.append(shape)
            done += shape.rows
            if lane is not None:
                lane.decode_us, lane.prefill_ms = us, ms
            if done < self._total:
                yield Prefilling(done, self._total)
        record = _record_prompt(len(ids), len(ids) - done, shapes, ms)
        if lane is not None:
            lane.prefill = record
            return
        self._prompts[tuple(ids)] = _Prompt(MAIN, record, cache.read_logits().copy(), us)
        for run in list(runs):
            if run.over:
                continue
            try:
                for rows in self._place_prompt(run):
                    done += rows
                    if done < self._total:
                        yield Prefilling(done, self._total)
            except (Aborted, ContextFull, EngineError) as error:
                yield Failure([run], error)

    def _place_prompt(self, run: Running) -> Iterator[int]:
        """Give the run a sequence with its prompt; decode what that lacks, and yield how many rows each decode had."""
        cache, lane, ids = self._cache, _lane_of(run), list(run.request.ids)
        if tuple(ids) not in self._prompts:
            begun = perf_counter()
            base = max(self._prompts, key=lambda known: count_common(known, ids))
            at = count_common(base, ids)
            before = self._prompts[base]
            if len(ids) - at > cache.free:
                raise ContextFull
            shapes = _first_shapes(before.record, at)
            reused = min(before.record.reused, at)
            lane.begin_sequence(before.sequence, at)
            us = 0
            while at < len(ids):
                count = min(cache.batch_size, len(ids) - 1 - at) or 1
                tokens = [(lane.sequence, token) for token in ids[at : at + count]]
                rows, us = self.decode_rows(tokens, cache.batch_size, every=False)
                shapes.append(Shape(count, cache.threads if count == 1 else cache.threads_batch))
                at += count
                yield count
            lane.shared = len(ids)  # others begin with these cells, too
            record = _record_prompt(len(ids), reused, shapes, (perf_counter() - begun) * 1e3)
            self._prompts[tuple(ids)] = _Prompt(lane.sequence, record, rows[0].copy(), us)
        prompt = self._prompts[tuple(ids)]
        if lane.own is None:
            lane.begin_sequence(prompt.sequence, len(ids))
        lane.take_rows(prompt.row[None], prompt.decode_us)
        lane.prefill, lane.prefill_ms = prompt.record, prompt.record.ms

    def join_run(self, run: Running) -> None:
        """Give a reply that joins the cells of another one, or of a prompt."""
        run.lane.exact = self._exact
        if tuple(run.ids) in self._prompts:
            deque(self._place_prompt(run), maxlen=0)
        elif self._prompts:  # else it gets its prompt with the others
            _lane_of(run).begin_sequence(*self._cache.find_nearest(run.ids))

    # --- tokens ------------------------------------------------------------------------------------------------------

    def accept_token(self, run: Running) -> bool:
        """Return whether the newest token of a reply was drafted, so that nothing has to be decoded for it."""
        return run.waits is Wait.TOKEN and _lane_of(run).accept_token(run.ids[-1])

    def decode(self, runs: Sequence[Running], running: Sequence[Running]) -> list[Failure]:
        """Decode the newest token of each of these `runs`, with the drafts behind it; `running` are all."""
        try:
            if self._alone:
                self._decode_alone(runs[0])
            else:
                self._decode_batch(runs, running)
        except ContextFull as full:
            return [Failure(running, full)]
        except Aborted as aborted:
            for run in runs:
                _lane_of(run).drafts.cut_ahead()
            return [Failure(runs, aborted)]
        self.steps += 1
        return []

    def _decode_alone(self, run: Running) -> None:
        cache, lane = self._cache, _lane_of(run)
        drafts, tuner = lane.drafts, self._tuner if self._adapts else None
        ahead: list[int] = []
        if drafts.begun:
            drafts.limit = cache.rows_drafted_alike - 1 if lane.exact else MOST_DRAFTED
            ahead = drafts.propose_tokens(run.ids, run.left - 1, self._learned.read_times(cache.threads))
        lane.decode_us = read_rows(cache, tuner, run.ids, Shape(1 + len(ahead)), ahead=ahead)[1]
        if drafts.begun:
            self._learned.read_times(cache.threads).add(1 + len(ahead), lane.decode_us)
            drafts.count_decoded(lane.decode_us)
        run.waits = None

    def _decode_batch(self, runs: Sequence[Running], running: Sequence[Running]) -> None:
        cache, count = self._cache, len(runs)
        lanes = [_lane_of(run) for run in runs]
        for run, lane in zip(runs, lanes, strict=True):
            lane.settle_drafts(len(run.ids) - 1)
        wanted = [lane.wanted or [(lane.sequence, run.ids[-1])] for run, lane in zip(runs, lanes, strict=True)]
        if cache.free < sum(map(len, wanted)):
            used = f"{cache.capacity - cache.free} of {cache.capacity}"
            raise ContextFull(f"{used}: no cell left for each walk")
        room = cache.free - min(sum(run.left for run in running), cache.capacity // 2)
        most = max(min(MOST_ROWS // count - 1, room // count), 0)
        times = self._times_of(count)
        for run, lane, rows in zip(runs, lanes, wanted, strict=True):
            ahead = lane.drafts.propose_tokens(run.ids, min(most, run.left - 1), times)
            rows += [(lane.sequence, token) for token in ahead]
        logits, us = self.decode_rows([row for rows in wanted for row in rows], self._most)
        if len(logits) % count == 0:
            times.add(len(logits) // count, us)
        at = 0
        for run, lane, rows in zip(runs, lanes, wanted, strict=True):
            lane.take_rows(logits[at : at + len(rows)], us)
            lane.drafts.count_decoded(us)
            if lane.prefill is None:  # a reply that joined: its last id was decoded with the others
                lane.prefill_ms = us / 1e3
                lane.prefill = Prefill(len(run.ids), len(run.ids) - 1, [1], lane.prefill_ms, [1])
            run.waits = None
            at += len(rows)

    def decode_rows(
        self, rows: Sequence[tuple[int, int]], most: int = EXACT_BATCH, *, every: bool = True
    ) -> tuple[NDArray[np.float32], int]:
        """Decode rows of several sequences, at most so many at once, with as many threads as are best; return the logits after
        `every` one or after the last, and the microseconds.

        A decode that takes too long is broken off, and repeated with fewer threads.
        """
        cache, tuner = self._cache, self._batch_tuner
        if len(rows) > most:
            whole, us = np.empty((len(rows), cache.model.n_vocab), np.float32), 0
            for at in range(0, len(rows), most):
                whole[at : at + most], spent = self.decode_rows(rows[at : at + most], most)
                us += spent
            return whole, us
        # With drafts it takes longer, and tells nothing of the threads.
        several = 1 < len(rows) == len({sequence for sequence, _ in rows})
        logits: NDArray[np.float32] | None = None
        begun = now = perf_counter()
        while logits is None:
            threads = min(cache.loaded[1], tuner.limit) if cache.adaptable[1] > 1 else cache.loaded[1]
            with suppress(OutOfTime):
                logits = cache.decode_rows(rows, threads, tuner.limit_seconds() if several else inf, every)
            before, now = now, perf_counter()
            if several:
                tuner.observe_step(threads, (now - before) * 1e6)
        return logits, int((now - begun) * 1e6)

    def _times_of(self, count: int) -> BatchTimes:
        """Return what batches cost in which so many replies have some rows each, in units of one with a row each."""
        if count not in self._times:
            times = self._learned.read_times(self._cache.loaded[1])

            def step(rows: int) -> float:
                return sum(times.read_cost(min(self._most, rows - at)) for at in range(0, rows, self._most))

            several = {n: step(n * count) / step(count) for n in range(2, MOST_ROWS // count + 1)}
            self._times[count] = BatchTimes((several or {2: 2.0}) if times.measured else {})
        return self._times[count]

    def find_sequence(self, number: int) -> int | None:
        """Return the sequence that holds a reply of the group, but for its last token; None once its cells are gone."""
        sequence, ids = self._ended.get(number, (MAIN, None))
        return sequence if ids is not None and self._cache.sequences.get(sequence) is ids else None

    def close(self, runs: Collection[Running]) -> None:
        """End it: the next request begins with as many threads as are best, whatever a script or a trial had set."""
        self._tuner.drop_trial()
        self._cache.limit_threads(self._tuner.limit)
        for run in runs:
            lane = _lane_of(run)
            if isinstance(run, BeamSearch):
                self._ended = run.kept
            elif lane.own is not None:
                self._ended[run.number] = lane.sequence, lane.own


def _lane_of(run: Running) -> CacheLane:
    assert isinstance(run.lane, CacheLane)
    return run.lane


def _record_prompt(count: int, reused: int, shapes: list[Shape], ms: float) -> Prefill:
    rows, threads = ([shape[i] for shape in shapes] for i in (0, 1))
    return Prefill(count, reused, rows, ms, threads)


def _first_shapes(record: Prefill, count: int) -> list[Shape]:
    """Return the shapes in which the first `count` tokens of a prompt were decoded, as far as that was not done before."""
    left, shapes = count - record.reused, list[Shape]()
    for rows, threads in zip(record.shapes, record.threads, strict=True):
        if left <= 0:
            break
        shapes.append(Shape(min(rows, left), threads))
        left -= rows
    return shapes


def read_prompt(
    cache: Cache, tuner: ThreadTuner | None, ids: list[int], plan: list[Shape]
) -> Iterator[tuple[Shape, int]]:
    """Decode a prompt as planned; yield the shape and the microseconds of each decode. Without a `tuner` the threads stay."""
    for number, shape in enumerate(plan, 1):
        yield read_rows(cache, tuner, ids, shape, plan[number].rows if number < len(plan) else 1)


def read_rows(
    cache: Cache, tuner: ThreadTuner | None, ids: list[int], shape: Shape, following: int = 1, ahead: Sequence[int] = ()
) -> tuple[Shape, int]:
    """Decode the next ids; return the shape and the microseconds. Choose the threads for the decode of the `following` rows.

    If it takes too long it is broken off, and done with fewer threads. Threads that the shape names are neither judged nor
    changed.
    """
    tuner = None if shape.threads else tuner
    begun = now = perf_counter()
    while True:
        threads, too_long = cache.threads if shape.rows == 1 else cache.threads_batch, False
        try:
            allowed = tuner.limit_seconds(shape.rows) if tuner is not None else inf
            decoded = cache.read(ids, shape, allowed, ahead)
        except OutOfTime:
            too_long = True
        before, now = now, perf_counter()
        if tuner is not None:
            us = (now - before) * 1e6
            cache.limit_threads(tuner.observe_step(threads, us, shape.rows, shape.rows if too_long else following))
        if not too_long:
            return decoded, int((now - begun) * 1e6)
