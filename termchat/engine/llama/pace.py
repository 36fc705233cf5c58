"""How many threads compute the next step on a machine that other programs use, too.

The threads of a step wait for each other by spinning. One that has to share its core holds up all of them, so that on a busy
machine half the threads are often several times as fast. Which number is faster is measured, not guessed: now and then a few
steps are computed with another number.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable
from itertools import islice
from math import inf
from statistics import fmean
from time import monotonic
from typing import NamedTuple


class _Times:
    """Microseconds per row of the newest steps with one number of threads."""

    RECENT, MEMORY = 8, 64

    def __init__(self) -> None:
        self._all: deque[float] = deque(maxlen=self.MEMORY)

    def __bool__(self) -> bool:
        return bool(self._all)

    def add(self, us: float) -> None:
        self._all.append(us)

    def mean(self, *, forgiving: bool = False) -> float:
        """The mean of the recent ones, inf without any; if `forgiving`, without the longest, since that may be an accident."""
        if not self._all:
            return inf
        recent = sorted(islice(reversed(self._all), self.RECENT))
        return fmean(recent[:-1] if forgiving and len(recent) > 1 else recent)

    def best(self) -> float:
        return min(self._all)


class _Trial(NamedTuple):
    """At most `steps` steps with another number of threads. They succeed if all of them take less than `most_us` per row in
    sum, or one less than `sure_us`."""

    batch: bool
    threads: int
    steps: int
    most_us: float
    sure_us: float
    taken: list[float]

    def outcome(self) -> bool | None:
        """Whether it succeeded; None while that is open."""
        if sum(self.taken) >= self.most_us:
            return False
        return True if len(self.taken) == self.steps or self.taken[-1] < self.sure_us else None


class Pace:
    """Chooses the number of threads of each step; lives as long as the model is loaded. `clock` gives seconds.

    Single rows are computed with `threads`, batches with `threads_batch`, and both with `limit` at most. Each is compared with
    its own kind, but what was found for one holds for the other until that is measured.

    Half the threads are tried if their speed is not known; if, as far as it is known, the present ones take `SLOWER` times as
    long; and if steps take `MUCH_SLOWER` times as long as the best of late. A trial that failed is repeated after some seconds,
    sooner only if steps become much slower still. Twice the threads are tried after `PATIENCE` seconds; each such trial that
    fails doubles the wait.
    """

    FULL = 32
    """Rows from which a batch is measured: the smaller a batch, the more each of its rows costs."""
    SLOWER, MUCH_SLOWER, STALL = 1.15, 1.5, 3.0
    HALF, TWICE = (2, 1.0), (3, 0.93)
    """Steps of a trial, and the share of the present time that they may take. If both are equal, fewer threads are better: they
    leave cores to the others."""
    PATIENCE, LONGEST = 0.5, 30.0
    WORTH = 10.0
    """After a step that was too slow, this many times as long passes before the next one with as many threads."""

    def __init__(self, threads: int, threads_batch: int = 1, clock: Callable[[], float] = monotonic) -> None:
        self._loaded = (threads, threads_batch)  # by whether it is a batch
        self._limit = max(1, max(self._loaded) // 2)
        self._clock = clock
        self._times: defaultdict[tuple[bool, int], _Times] = defaultdict(_Times)
        self._trial: _Trial | None = None
        self._half_wait = self._twice_wait = self.PATIENCE
        self._half_at = self._raised = clock() - self.LONGEST
        self._twice_at = clock()

    @property
    def limit(self) -> int:
        """How many threads the next step may use at most."""
        return self._limit if self._trial is None else self._trial.threads

    @property
    def tries(self) -> bool:
        """Whether a trial is under way."""
        return self._trial is not None

    def rest(self) -> None:
        """A reply ended: its trial is given up."""
        self._trial = None

    def allowed(self, rows: int = 1) -> float:
        """Seconds after which it is certain that the next step, of so many rows, has too many threads; inf if it never is."""
        batch, trial = rows > 1, self._trial
        present = min(self._loaded[batch], self._limit)
        if trial is not None:
            return (trial.most_us - sum(trial.taken)) * rows / 1e6 if trial.threads > present else inf
        if present == 1:
            return inf
        # A batch never takes longer than its rows one by one.
        known = [
            self.STALL * self._times[batch, present // 2].mean(),
            self._times[False, min(self._loaded[0], present)].mean(),
        ]
        return min(known[: 1 + batch]) * rows / 1e6

    def observe(self, threads: int, us: float, rows: int = 1, following: int = 1) -> int:
        """Takes in that a step of `rows` rows took `us` microseconds with so many threads; returns the new `limit`.

        `following` is the number of rows of the next step; they are the same if it was broken off, since it took longer than
        `allowed`.
        """
        batch, stalled, trial = rows > 1, us / 1e6 > self.allowed(rows), self._trial
        if self._loaded[batch] > 1 and (not batch or rows >= self.FULL or stalled):
            self._times[batch, threads].add(us / rows)
            if trial is not None and (trial.batch, trial.threads) == (batch, threads):
                trial.taken.append(us / rows)
                self._judge(trial, us / 1e6)
            elif trial is None and stalled:
                self._lower(batch, threads // 2)
        if self._trial is not None and self._trial.batch != (following > 1):
            self._trial = None
        if self._trial is None and batch == (following > 1) and (not batch or following >= self.FULL):
            self._trial = self._next_trial(batch)
        return self.limit

    def _next_trial(self, batch: bool) -> _Trial | None:
        loaded = self._loaded[batch]
        now = min(loaded, self._limit)
        if not self._times[batch, now]:
            return None
        if now > 1 and self._is_slow(batch, now):
            return self._new_trial(batch, now // 2, self.HALF, sure=0.5)
        if now < loaded and self._clock() >= self._twice_at:
            return self._new_trial(batch, min(now * 2, loaded), self.TWICE, sure=0.0)
        return None

    def _new_trial(self, batch: bool, threads: int, how: tuple[int, float], sure: float) -> _Trial:
        steps, share = (1 if batch else how[0]), how[1]
        now_us = self._mean(batch, min(self._loaded[batch], self._limit))
        self._times[batch, threads] = _Times()
        return _Trial(batch, threads, steps, steps * share * now_us, sure * now_us, [])

    def _mean(self, batch: bool, threads: int) -> float:
        return self._times[batch, threads].mean(forgiving=not batch)  # a batch is too long for an accident

    def _is_slow(self, batch: bool, threads: int) -> bool:
        half = self._times[batch, threads // 2]
        if not half:
            return True
        now_us, half_us = self._mean(batch, threads), half.mean()
        if self._clock() < self._half_at:
            return now_us > self.MUCH_SLOWER * half_us
        return now_us > self.SLOWER * half_us or now_us > self.MUCH_SLOWER * self._times[batch, threads].best()

    def _judge(self, trial: _Trial, seconds: float) -> None:
        """Ends the trial if its outcome is certain. `seconds` is how long its last step took."""
        succeeded = trial.outcome()
        if succeeded is None:
            return
        self._trial = None
        clock, loaded = self._clock(), self._loaded[trial.batch]
        if trial.threads < min(loaded, self._limit):
            if succeeded:
                self._lower(trial.batch, trial.threads, seconds)
            else:
                self._half_at = clock + self._half_wait
                self._half_wait = min(2 * self._half_wait, self.LONGEST)
        elif succeeded:
            self._limit = trial.threads if trial.threads < loaded else max(self._loaded)
            self._raised = self._twice_at = clock
        else:
            self._wait(2 * self._twice_wait, seconds)

    def _lower(self, batch: bool, threads: int, seconds: float = 0.0) -> None:
        soon = self._clock() - self._raised < self._twice_wait
        self._limit = threads
        self._half_at, self._half_wait = self._clock(), self.PATIENCE
        self._times.pop((batch, threads // 2), None)  # maybe still fewer are better
        self._wait(2 * self._twice_wait if soon else self.PATIENCE, seconds)

    def _wait(self, seconds: float, cost: float) -> None:
        """More threads are not tried for a while, after a step that took `cost` seconds because of them."""
        self._twice_wait = min(max(seconds, self.WORTH * cost), self.LONGEST)
        self._twice_at = self._clock() + self._twice_wait
