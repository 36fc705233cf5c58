"""How many threads this machine has for computing: the cores this process may use, and its share of them."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from pathlib import Path

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
