"""Fewer threads while other programs hold the cores.

llama.cpp's threads meet at a spinning barrier after every node of the graph, so one stolen core stalls all of them: on a
busy two-core machine two threads can be twenty times slower than one.
"""

from __future__ import annotations

from collections import deque
from statistics import median
from time import perf_counter


class Pace:
    """Chooses the thread count from the decode times of the steps; lives as long as the model is loaded.

    When the median of the last `WINDOW` steps is `FACTOR` times the best recent step, half the threads are used. After
    `PATIENCE` seconds all are tried again, and kept unless that is slower; each failed try doubles the wait.
    """

    WINDOW, MEMORY, FACTOR, PATIENCE, LONGEST = 6, 128, 2.5, 10.0, 160.0

    def __init__(self, threads: int) -> None:
        self.most = self.threads = threads
        self._recent: deque[int] = deque(maxlen=self.MEMORY)
        self._window: list[int] = []
        self._fewer_us: float | None = None
        self._trying = False
        self._patience = self.PATIENCE
        self._since = perf_counter()

    def observe(self, decode_us: int) -> int:
        """Takes a step's decode time in microseconds; returns how many threads the next should use."""
        if self.most == 1:
            return 1
        self._window.append(decode_us)
        self._recent.append(decode_us)
        if len(self._window) < self.WINDOW:
            return self.threads
        typical = median(self._window)
        self._window.clear()
        if self.threads < self.most:
            self._fewer_us = typical
            if perf_counter() - self._since > self._patience:
                self._use(self.most, trying=True)
        elif self._trying:
            if self._fewer_us is not None and typical > self._fewer_us:
                self._patience = min(self._patience * 2, self.LONGEST)
                self._use(max(self.most // 2, 1))
            else:
                self._trying, self._patience = False, self.PATIENCE
        elif typical > self.FACTOR * min(self._recent):
            self._use(max(self.most // 2, 1))
        return self.threads

    def _use(self, threads: int, *, trying: bool = False) -> None:
        self.threads, self._trying, self._since = threads, trying, perf_counter()
        self._recent.clear()
