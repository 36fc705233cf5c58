"""Fewer threads while other programs hold the cores.

llama.cpp's threads meet at a spinning barrier after every node of the graph, so one stolen core stalls all of them: on a
busy two-core machine two threads can be twenty times slower than one.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from math import inf
from statistics import fmean, median
from time import perf_counter


class Pace:
    """Chooses the thread count from the decode times of the steps; lives as long as the model is loaded.

    When the median of the last `WINDOW` steps is `FACTOR` times what the threads should need, half of them are used, and half
    again while that is still so. So it is when the mean of the last `LONG` steps is `SLOWER` times that: half the threads
    need twice as long at most, if the cores for them are free. A step counts `STALL` times at most there, for one alone says
    little. `STALLS` steps in a row that each took `STALL` times that are enough: a window of such steps
    would take seconds. After `PATIENCE` seconds all are tried again, and kept unless that is slower; each failed
    try doubles the wait.
    """

    WINDOW, MEMORY, FACTOR, PATIENCE, LONGEST = 8, 128, 3.5, 10.0, 160.0
    STALL, STALLS = 5.0, 2
    LONG, SLOWER = 32, 2.1

    def __init__(self, threads: int) -> None:
        self.most = self.threads = threads
        self._recent: deque[int] = deque(maxlen=self.MEMORY)
        self._window: list[int] = []
        self._quiet_us = 0.0
        self._best: float = inf
        self._stalls = 0
        self._before: tuple[int, float] | None = None
        self._patience = self.PATIENCE
        self._since = perf_counter()

    def observe(self, decode_us: int) -> int:
        """Takes a step's decode time in microseconds; returns how many threads the next should use."""
        if self.most == 1:
            return 1
        self._window.append(decode_us)
        self._recent.append(decode_us)
        self._best = min(self._best, decode_us)
        expected = self._before[1] if self._before is not None else self._best_us()
        self._stalls = self._stalls + 1 if decode_us > self.STALL * expected else 0
        stalled = self._stalls >= self.STALLS and self.threads > 1
        if len(self._window) < self.WINDOW and not stalled:
            return self.threads
        self._best = min(
            self._recent
        )  # once a window: what is older is forgotten, and a step is too short to look at all
        typical = float(decode_us) if stalled else median(self._window)
        self._stalls = 0
        self._window.clear()
        if self._before is not None:
            threads, needed_us = self._before
            self._before = None
            if typical > needed_us:
                self._patience = min(self._patience * 2, self.LONGEST)
                self._use(threads)
            else:
                self._patience = self.PATIENCE
        elif self.threads > 1 and (typical > self.FACTOR * self._best_us() or self._is_slower_than_half()):
            if self.threads == self.most:
                self._quiet_us = self._best
            self._use(self.threads // 2)
        elif self.threads < self.most and perf_counter() - self._since > self._patience:
            self._before = (self.threads, typical)
            self._use(self.most)
        return self.threads

    def _best_us(self) -> float:
        """What a step needs with these threads and no other program: the best of late, or less if all together did it well."""
        if self.threads == self.most:
            return self._best
        return min(self._best, self._quiet_us * self.most / self.threads)

    def _is_slower_than_half(self) -> bool:
        if len(self._recent) < self.LONG:
            return False
        best = self._best_us()
        steps = [min(step, self.STALL * best) for step in islice(reversed(self._recent), self.LONG)]
        return fmean(steps) > self.SLOWER * best

    def _use(self, threads: int) -> None:
        self.threads, self._since = threads, perf_counter()
        self._recent.clear()
        self._best = inf
