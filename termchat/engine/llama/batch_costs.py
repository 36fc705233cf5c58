"""What a batch of several rows costs, compared with rows decoded one by one, and whether its rows have the same bits.

A text is decoded on the spare sequence, so that what the context holds stays: from one place on, first row by row, then in
batches of each size. Each time the cells are those of the rows before: where a bit differs in one layer, it may be lost on the
way to the logits, but cells keep it, and a few places later the logits tell.
"""

from __future__ import annotations

from collections import defaultdict
from statistics import median
from time import perf_counter, process_time

import numpy as np

from termchat.engine.llama.cache import EXACT_BATCH, SPARE_CELLS, SPLIT, Aborted, Cache
from termchat.engine.llama.softmax import Row
from termchat.engine.port import EngineError, MeasureBatches, Measurement

_TEXT = (
    "Once upon a time, in a village far away from the sea, there lived an old woman who had never seen a ship. "
    "One morning a traveller came from the hills. Niemand wusste, woher der Brief kam.\n\n```python\n"
    "def mean(values: list[float]) -> float:\n    return sum(values) / len(values)\n```\n\n- Berlin, 3.7 million\n"
    "- Madrid, 3.3 million\n\nThe boiling point of water falls by about 1 degree for every 285 metres of height, which is why "
    'a potato takes longer in the mountains. "How long?" she asked. In short: the function fails for an empty list, so check '
    "its length first and return None. Wer das liest, der kennt die Antwort schon.\n"
)
"""Of several kinds: in a story alone the logits change less."""
_SIZES = (2, 3, 4, 8, 16)
_FIRST = 16
"""Rows that are decoded before anything is measured, twice: the first batch takes longer."""
_LEAST, _MOST, _FEW = 6, EXACT_BATCH, 3
"""Places that are decoded with every size of batch, and the places at which threads are compared."""
_COST, _OF_PLACE = 12, 4.2
"""What it costs to measure, and for each place, in rows: a little more than with weights whose batches cost most."""
_TOP = 300
"""Candidates whose logits are compared. How far apart those of one place moved tells nearly as much as many places do."""
_BUSY = 0.9
"""Share of the time of all threads that the process has to have had: threads that wait spin, so others had what it lacks."""
_CROWDED = 0.7
"""The share below which one thread is used, since those that wait for each other then take many times as long."""


class _Trial:
    """Batches of a text on the spare sequence, behind so many `cells`, and how long those took."""

    def __init__(self, cache: Cache, ids: list[int], cells: int) -> None:
        self._cache, self._ids, self._cells = cache, ids, cells
        self.loaded = cache.loaded[0]
        self.threads = min(cache.threads, self.loaded)
        self.seconds: defaultdict[tuple[int, int], list[float]] = defaultdict(list)
        self._wall = self._cpu = 0.0
        self.spent = 0.0
        """Seconds that the last batch took, without those that other programs had."""

    @property
    def is_busy(self) -> bool:
        """Whether other programs had some of the time; of a device that computes on its own that is not known."""
        if self._cache.model.gpu_layers:
            return False
        return self.threads < self.loaded or self._cpu < _BUSY * self._wall

    def decode(self, at: int, count: int, threads: int = 0) -> Row:
        """Return the logits after each of `count` ids from `at` on: a view, which the next decode writes over. 0 threads are as
        many as the machine has free: all, or one."""
        threads = threads or self.threads
        begun, cpu = perf_counter(), process_time()
        rows = self._cache.read_aside(self._ids[at : at + count], at, threads)
        seconds, cpu = perf_counter() - begun, process_time() - cpu
        self.spent = seconds if self._cache.model.gpu_layers else cpu / threads
        if at >= self._cells:
            self.seconds[count, threads].append(seconds)
        if at:
            self._wall, self._cpu = self._wall + seconds * threads, self._cpu + cpu
            self.threads = 1 if self._cpu < _CROWDED * self._wall else self.threads
        return rows

    def decode_places(self, rows: int, count: int, threads: int = 0) -> list[Row]:
        """Return the logits after so many places, decoded in batches of so many rows."""
        decoded: list[Row] = []
        while len(decoded) < count:
            batch = self.decode(self._cells + len(decoded), rows, threads)
            decoded.extend(batch[: count - len(decoded)].copy())
        return decoded


def measure_batches(cache: Cache, command: MeasureBatches) -> Measurement:
    """Measure as `command` says, with all threads that were loaded; with one where other programs need the others.

    Raises:
        EngineError: the model cannot take rows back, there is no room, it was aborted, or llama.cpp failed.
    """
    if not cache.model.can_rewind:
        raise EngineError("capability", "this model cannot take back what was drafted", "its batches need no measuring")
    wide = min(cache.batch_size, EXACT_BATCH)
    splits = cache.splits and cache.loaded[0] > 1
    cells = max(2 * _FIRST, command.cells, SPLIT + 1 if splits else 0)
    cells = min(cells, cache.free + SPARE_CELLS - 2 * _MOST)
    if cells < 2 * _FIRST:
        raise EngineError("measure", "the context has no room to measure batches", "measure when it is empty")
    text = cache.model.tokenize(_TEXT, special=False)
    trial = _Trial(cache, text * (1 + (cells + 2 * _MOST) // len(text)), cells)
    changes: dict[str, float] = {}
    unlike: set[int] = set()
    try:
        for at in range(0, cells, _FIRST):
            trial.decode(at, min(_FIRST, cells - at))
        trial.decode(cells, 1)
        count = int(min(max((command.seconds / trial.spent - _COST) / _OF_PLACE, _LEAST), _MOST))
        ones = trial.decode_places(1, count, 1 if splits else 0)
        if trial.loaded > 1:
            few = 1 if trial.is_busy else _FEW
            others = trial.decode_places(1, few, trial.loaded if splits or trial.threads == 1 else 1)
            changes["threads"] = _largest_change(ones, others)[0]
        for size in (*_SIZES, wide):
            if size < wide or not unlike:  # else it tells no more
                changes[f"{size} rows"], equal = _largest_change(ones, trial.decode_places(size, count))
                unlike |= set() if equal else {size}
    except Aborted:
        raise EngineError("busy", "interrupted by another request", "measure again") from None
    finally:
        cache.clear_aside()
    sizes = sorted({*_SIZES, wide})
    alike = next((size for size, larger in zip([1, *sizes], sizes, strict=False) if larger in unlike), sizes[-1])
    medians = {size: median(trial.seconds[size, trial.loaded]) for size in (1, *_SIZES)} if not trial.is_busy else {}
    times = {size: medians[size] / medians[1] for size in _SIZES if medians}
    return Measurement(cache.how, cache.loaded[0], times, alike, changes, count)


def _largest_change(ones: list[Row], others: list[Row]) -> tuple[float, bool]:
    """Return by how much the logits of the likeliest candidates of a place moved apart at most, and whether no bit differs."""
    unequal = [(one, other) for one, other in zip(ones, others, strict=False) if not np.array_equal(one, other)]
    tops = (np.argpartition(one, -_TOP)[-_TOP:] if len(one) > _TOP else slice(None) for one, _ in unequal)
    changes = (float(np.ptp(other[top] - one[top])) for (one, other), top in zip(unequal, tops, strict=True))
    return max(changes, default=0.0), not unequal
