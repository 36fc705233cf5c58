"""How many threads this process should compute with: the cores it may use, and the share of them it was given."""

from __future__ import annotations

import ctypes
import os
import sys
from collections import deque
from collections.abc import Iterator
from itertools import islice
from math import inf
from pathlib import Path
from statistics import fmean, median
from time import perf_counter

_V1_MOUNTS = ("cpu", "cpu,cpuacct", "cpuacct,cpu")


def default_threads(root: Path = Path("/")) -> int:
    """Physical cores this process may use, at least 1: hyperthreads only make the barrier slower, and so do small cores.

    Where there are cores of two kinds only the large ones count: all threads have the same share of the work, and wait for
    the slowest. A container's CPU quota counts too: threads beyond it spin at the barrier until the kernel stops them all.
    `root` is where /proc and /sys are.
    """
    return max(1, min(_cores(root, _large(root)), int(_quota(root))))


def all_threads(root: Path = Path("/")) -> int:
    """Every thread that the cores this process may use can run at once, hyperthreads and small cores too."""
    return max(1, min(len(_allowed()), int(_quota(root))))


def _allowed() -> set[int]:
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))


def _large(root: Path) -> set[int]:
    """The allowed CPUs that are not of the small kind."""
    allowed = _allowed()
    if sys.platform == "darwin":
        return set(range(_apple_large() or len(allowed)))
    of_intel = _listed(_read(root / "sys/devices/cpu_core/cpus"))  # there only where there are small ones too
    capacity = {cpu: _read(root / f"sys/devices/system/cpu/cpu{cpu}/cpu_capacity") for cpu in allowed}
    if all(text.isdigit() for text in capacity.values()):
        half = max(int(text) for text in capacity.values()) / 2
        allowed = {cpu for cpu in allowed if int(capacity[cpu]) > half}
    return allowed & of_intel or allowed


def _listed(text: str) -> set[int]:
    """The numbers of a list such as "0-3,8"."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def _apple_large() -> int:
    count, size = ctypes.c_int(), ctypes.c_size_t(4)
    libc = ctypes.CDLL(None)
    failed = libc.sysctlbyname(b"hw.perflevel0.physicalcpu", ctypes.byref(count), ctypes.byref(size), None, 0)
    return 0 if failed else count.value


def _cores(root: Path, cpus: set[int]) -> int:
    siblings = set()
    for cpu in cpus:
        shared = root / f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"
        siblings.add(_read(shared) or str(cpu))
    return len(siblings)


def _quota(root: Path) -> float:
    """The cores that the tightest control group around this process may keep busy; a large number without a quota."""
    quotas = [1e9]
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, group = line.split(":", 2)
        if not controllers:
            for folder in _upwards(root / "sys/fs/cgroup", group):
                quotas += _ratio(*_read(folder / "cpu.max").split())
        elif "cpu" in controllers.split(","):
            for mount in _V1_MOUNTS:
                for folder in _upwards(root / "sys/fs/cgroup" / mount, group):
                    quotas += _ratio(_read(folder / "cpu.cfs_quota_us"), _read(folder / "cpu.cfs_period_us"))
    return min(quotas)


def _upwards(mount: Path, group: str) -> Iterator[Path]:
    """The group's folder and all above it. Inside a container only the mount itself may be there: it is the group then."""
    parts = [part for part in group.split("/") if part not in ("", "..")]
    for length in range(len(parts), -1, -1):
        yield mount.joinpath(*parts[:length])


def _ratio(quota: str = "", period: str = "") -> list[float]:
    """Cores of a quota, in a list; none where there is no limit ("max", -1) or nothing to read."""
    try:
        cores = int(quota) / int(period)
    except (ValueError, ZeroDivisionError):
        return []
    return [cores] if cores > 0 else []


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


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
