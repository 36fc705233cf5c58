"""What a batch of several rows costs, compared with rows decoded one by one: whether drafts can pay on this machine."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from time import perf_counter

from termchat.decoding.records import Shape
from termchat.engine.llama.cache import Aborted, Cache
from termchat.engine.port import BatchesMeasured, EngineError, MeasureBatches

_LEAST_ROUNDS = 3


def measure_batches(cache: Cache, command: MeasureBatches, wanted: Callable[[], bool]) -> BatchesMeasured:
    """Measures as `command` says, with all threads that were loaded; ends early once something else is `wanted`.

    Each batch has a single row right before it, and is compared with that one: so it does not matter if the machine is now
    slower and now faster.

    Raises:
        EngineError: the model cannot take rows back, sizes or cells do not fit, it was aborted, or llama.cpp failed.
    """
    sizes = sorted({rows for rows in command.rows if rows > 1})
    most = max(sizes, default=1)
    cells = min(command.cells, cache.capacity - most)
    if not cache.model.can_rewind:
        raise EngineError("capability", "this model cannot take back what was drafted", "its batches need no measuring")
    if cells < 1 or most > cache.batch_size:
        raise EngineError("measure", f"a batch of {most} rows does not fit", f"at most {cache.batch_size} rows do")
    ids = [(7 * place + 11) % cache.model.n_vocab for place in range(cells + most)]
    singles: list[float] = []
    ratios: dict[int, list[float]] = {rows: [] for rows in sizes}
    cache.abort.clear()
    before = cache.threads
    try:
        for _ in cache.prefill(ids[:cells], cache.prepare(ids[:cells])):
            pass
        cache.set_threads(cache.loaded[0])
        _time(cache, ids, cells, 1)  # the first one takes longer
        threads, begun, rounds = cache.threads, perf_counter(), 0
        while rounds < _LEAST_ROUNDS or perf_counter() - begun < command.seconds * rounds / (rounds + 1):
            for rows in sizes:
                single = _time(cache, ids, cells, 1)
                singles.append(single)
                ratios[rows].append(_time(cache, ids, cells, rows) / single)
            rounds += 1
            if not sizes or (wanted() and rounds >= _LEAST_ROUNDS):
                break
    except Aborted:
        raise EngineError("busy", "interrupted by another request", "measure again") from None
    finally:
        cache.set_threads(before)
        cache.rewind(0)
    one = median(singles) if singles else 0.0
    return BatchesMeasured({1: one} | {rows: one * median(found) for rows, found in ratios.items()}, threads)


def _time(cache: Cache, ids: list[int], cells: int, rows: int) -> float:
    """Microseconds of decoding so many rows behind so many cells."""
    cache.rewind(cells)
    begun = perf_counter()
    cache.read(ids, Shape(rows), ahead=ids[cells + 1 : cells + rows])
    cache.logits()  # waits for a device that computes on its own
    return (perf_counter() - begun) * 1e6
