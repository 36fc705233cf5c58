"""How many threads compute: the cores of this machine that this process may use, and how many of them compute the next step.

The threads of a step wait for each other by spinning. One that has to share its core holds up all of them, so that on a busy
machine half the threads are often several times as fast. Which number is faster is measured, not guessed: now and then a few
steps are computed with another number.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from math import fsum, inf
from pathlib import Path
from time import monotonic
from typing import NamedTuple

_V1_MOUNTS = ("cpu", "cpu,cpuacct", "cpuacct,cpu")


def default_threads(root: Path = Path("/")) -> int:
    """Return how many physical cores this process may use: hyperthreads only make the barrier slower, and so do small cores.

    Where there are cores of two kinds only the large ones count: all threads have the same share of the work, and wait for
    the slowest. A container's CPU quota counts too: threads beyond it spin at the barrier until the kernel stops them all.
    `root` is where /proc and /sys are.
    """
    folder = root / "sys/devices/system/cpu"
    cores = {
        _read_text(folder / f"cpu{cpu}/topology/thread_siblings_list") or str(cpu) for cpu in _list_large_cpus(root)
    }
    return max(1, min(len(cores), int(_read_quota(root))))


def all_threads(root: Path = Path("/")) -> int:
    """Return how many threads the cores this process may use run at once, with hyperthreads and small cores."""
    return max(1, min(len(_list_allowed_cpus()), int(_read_quota(root))))


def _list_allowed_cpus() -> set[int]:
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))


def _list_large_cpus(root: Path) -> set[int]:
    """Return the allowed CPUs that are not of the small kind."""
    allowed = _list_allowed_cpus()
    if sys.platform == "darwin":
        count, size = ctypes.c_int(), ctypes.c_size_t(4)
        ctypes.CDLL(None).sysctlbyname(b"hw.perflevel0.physicalcpu", ctypes.byref(count), ctypes.byref(size), None, 0)
        return set(range(count.value or len(allowed)))
    # This file is there only where there are small cores, too.
    of_intel = _parse_cpu_list(_read_text(root / "sys/devices/cpu_core/cpus"))
    capacity = {cpu: _read_text(root / f"sys/devices/system/cpu/cpu{cpu}/cpu_capacity") for cpu in allowed}
    if all(text.isdigit() for text in capacity.values()):
        half = max(int(text) for text in capacity.values()) / 2
        allowed = {cpu for cpu in allowed if int(capacity[cpu]) > half}
    return allowed & of_intel or allowed


def _parse_cpu_list(text: str) -> set[int]:
    """Return the numbers of a list such as "0-3,8"."""
    ranges = [part.partition("-") for part in filter(None, text.split(","))]
    return {cpu for first, _, last in ranges for cpu in range(int(first), int(last or first) + 1)}


def _read_quota(root: Path) -> float:
    """Return the cores that the tightest control group around this process may keep busy; a large number without a quota."""
    quotas = [1e9]
    for line in _read_text(root / "proc/self/cgroup").splitlines():
        _, controllers, group = line.split(":", 2)
        if not controllers:
            for folder in _list_folders(root / "sys/fs/cgroup", group):
                quotas += _parse_quota(*_read_text(folder / "cpu.max").split())
        elif "cpu" in controllers.split(","):
            for mount in _V1_MOUNTS:
                for folder in _list_folders(root / "sys/fs/cgroup" / mount, group):
                    quotas += _parse_quota(
                        _read_text(folder / "cpu.cfs_quota_us"), _read_text(folder / "cpu.cfs_period_us")
                    )
    return min(quotas)


def _list_folders(mount: Path, group: str) -> Iterator[Path]:
    """Yield the group's folder and all above it. Inside a container the mount itself may be all there is: the group's own."""
    parts = [part for part in group.split("/") if part not in ("", "..")]
    for length in range(len(parts), -1, -1):
        yield mount.joinpath(*parts[:length])


def _parse_quota(quota: str = "", period: str = "") -> list[float]:
    """Return the cores of a quota, in a list; none where there is no limit ("max", -1) or nothing to read."""
    try:
        cores = int(quota) / int(period)
    except (ValueError, ZeroDivisionError):
        return []
    return [cores] if cores > 0 else []


def _read_text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


_RECENT, _MEMORY = 8, 64
"""Steps whose times are averaged, and kept."""


def _mean(times: deque[float], *, forgiving: bool = False) -> float:
    """Return the mean of the recent times, inf without any; if `forgiving`, without the longest: it may be an accident."""
    recent = sorted(islice(reversed(times), _RECENT))
    recent = recent[:-1] if forgiving and len(recent) > 1 else recent
    return fsum(recent) / len(recent) if recent else inf


class _Trial(NamedTuple):
    """At most `steps` steps with another number of threads. They succeed if all of them take less than `most_us` per row in
    sum, or one less than `sure_us`."""

    batch: bool
    threads: int
    steps: int
    most_us: float
    sure_us: float
    taken: list[float]


class ThreadTuner:
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
        # Microseconds per row of the newest steps, by whether they were batches, and the number of threads.
        self._times: defaultdict[tuple[bool, int], deque[float]] = defaultdict(partial(deque, maxlen=_MEMORY))
        self._trial: _Trial | None = None
        self._half_wait = self._twice_wait = self.PATIENCE
        self._half_at = self._raised = clock() - self.LONGEST
        self._twice_at = clock()

    @property
    def limit(self) -> int:
        """The most threads that the next step may use."""
        return self._limit if self._trial is None else self._trial.threads

    @property
    def tries(self) -> bool:
        """Whether a trial is under way."""
        return self._trial is not None

    def drop_trial(self) -> None:
        """Give up the trial of a reply that ended."""
        self._trial = None

    def limit_seconds(self, rows: int = 1) -> float:
        """Return the seconds after which the next step, of so many rows, surely has too many threads; inf if it never has."""
        batch, trial = rows > 1, self._trial
        present = min(self._loaded[batch], self._limit)
        if trial is not None:
            return (trial.most_us - sum(trial.taken)) * rows / 1e6 if trial.threads > present else inf
        if present == 1:
            return inf
        # A batch never takes longer than its rows one by one.
        known = [
            self.STALL * _mean(self._times[batch, present // 2]),
            _mean(self._times[False, min(self._loaded[0], present)]),
        ]
        return min(known[: 1 + batch]) * rows / 1e6

    def observe_step(self, threads: int, us: float, rows: int = 1, following: int = 1) -> int:
        """Count a step of `rows` rows that took `us` microseconds with so many threads; return the new `limit`.

        `following` is the number of rows of the next step; they are the same if it was broken off, since it took longer than
        `allowed`.
        """
        batch, stalled, trial = rows > 1, us / 1e6 > self.limit_seconds(rows), self._trial
        if self._loaded[batch] > 1 and (not batch or rows >= self.FULL or stalled):
            self._times[batch, threads].append(us / rows)
            if trial is not None and (trial.batch, trial.threads) == (batch, threads):
                trial.taken.append(us / rows)
                self._judge_trial(trial, us / 1e6)
            elif trial is None and stalled:
                self._use_fewer(batch, threads // 2)
        if self._trial is not None and self._trial.batch != (following > 1):
            self._trial = None
        if self._trial is None and batch == (following > 1) and (not batch or following >= self.FULL):
            self._trial = self._next_trial(batch)
        return self.limit

    def _next_trial(self, batch: bool) -> _Trial | None:
        times, loaded = self._times, self._loaded[batch]
        now = min(loaded, self._limit)
        if not times[batch, now]:
            return None
        us = _mean(times[batch, now], forgiving=not batch)  # a batch is too long for an accident
        if now > 1 and self._is_slow(us, times[batch, now // 2]):
            threads, (steps, share), sure = now // 2, self.HALF, 0.5
        elif now < loaded and self._clock() >= self._twice_at:
            threads, (steps, share), sure = min(now * 2, loaded), self.TWICE, 0.0
        else:
            return None
        times[batch, threads].clear()
        steps = 1 if batch else steps
        return _Trial(batch, threads, steps, steps * share * us, sure * us, [])

    def _is_slow(self, us: float, half: deque[float]) -> bool:
        """Return whether a row takes long, compared with the times with half the threads."""
        if not half:
            return True
        if self._clock() < self._half_at:
            return us > self.MUCH_SLOWER * _mean(half)
        return us > self.SLOWER * _mean(half) or us > self.MUCH_SLOWER * min(half)

    def _judge_trial(self, trial: _Trial, seconds: float) -> None:
        """End the trial if its outcome is certain. `seconds` is how long its last step took."""
        succeeded = sum(trial.taken) < trial.most_us
        if succeeded and len(trial.taken) < trial.steps and trial.taken[-1] >= trial.sure_us:
            return
        self._trial = None
        clock, loaded = self._clock(), self._loaded[trial.batch]
        if trial.threads < min(loaded, self._limit):
            if succeeded:
                self._use_fewer(trial.batch, trial.threads, seconds)
            else:
                self._half_at = clock + self._half_wait
                self._half_wait = min(2 * self._half_wait, self.LONGEST)
        elif succeeded:
            self._limit = trial.threads if trial.threads < loaded else max(self._loaded)
            self._raised = self._twice_at = clock
        else:
            self._wait_longer(2 * self._twice_wait, seconds)

    def _use_fewer(self, batch: bool, threads: int, seconds: float = 0.0) -> None:
        soon = self._clock() - self._raised < self._twice_wait
        self._limit = threads
        self._half_at, self._half_wait = self._clock(), self.PATIENCE
        self._times.pop((batch, threads // 2), None)  # maybe still fewer are better
        self._wait_longer(2 * self._twice_wait if soon else self.PATIENCE, seconds)

    def _wait_longer(self, seconds: float, cost: float) -> None:
        """Try no more threads for a while, after a step that took `cost` seconds because of them."""
        self._twice_wait = min(max(seconds, self.WORTH * cost), self.LONGEST)
        self._twice_at = self._clock() + self._twice_wait
