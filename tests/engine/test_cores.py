"""How many threads: the cores a process may use, and its control group's share of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from termchat.engine.llama.thread_tuner import all_threads, default_threads


@pytest.fixture(autouse=True)
def eight_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(8)), raising=False)


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return root


V1 = "3:cpuset:/\n2:cpu,cpuacct:/docker/a\n1:name=systemd:/\n"


@pytest.mark.parametrize(
    ("files", "threads"),
    [
        ({}, 8),
        ({"proc/self/cgroup": "0::/", "sys/fs/cgroup/cpu.max": "max 100000"}, 8),
        ({"proc/self/cgroup": "0::/", "sys/fs/cgroup/cpu.max": "250000 100000"}, 2),
        ({"proc/self/cgroup": "0::/", "sys/fs/cgroup/cpu.max": "50000 100000"}, 1),
        ({"proc/self/cgroup": "0::/a/b", "sys/fs/cgroup/a/cpu.max": "300000 100000"}, 3),
        ({"proc/self/cgroup": "0::/a:b", "sys/fs/cgroup/a:b/cpu.max": "300000 100000"}, 3),
        ({"proc/self/cgroup": "0::/../x", "sys/fs/cgroup/cpu.max": "1600000 100000"}, 8),
        (
            {
                "proc/self/cgroup": V1,
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "400000",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
            },
            4,
        ),
        (
            {
                "proc/self/cgroup": V1,
                "sys/fs/cgroup/cpu,cpuacct/docker/a/cpu.cfs_quota_us": "-1",
                "sys/fs/cgroup/cpu,cpuacct/docker/a/cpu.cfs_period_us": "100000",
            },
            8,
        ),
    ],
)
def test_a_quota_limits_the_threads(tmp_path: Path, files: dict[str, str], threads: int) -> None:
    assert default_threads(write(tmp_path, files)) == threads


def test_hyperthreads_count_once(tmp_path: Path) -> None:
    siblings = "sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"
    write(tmp_path, {siblings.format(cpu): f"{cpu % 4},{cpu % 4 + 4}" for cpu in range(8)})
    assert default_threads(tmp_path) == 4


def test_this_machine_has_at_least_one() -> None:
    assert default_threads() >= 1


INTEL = {"sys/devices/cpu_core/cpus": "0-3", "sys/devices/cpu_atom/cpus": "4-7"}
ARM = {f"sys/devices/system/cpu/cpu{cpu}/cpu_capacity": "1024" if cpu > 5 else "400" for cpu in range(8)}


@pytest.mark.parametrize(("files", "threads"), [(INTEL, 4), (ARM, 2)])
def test_small_cores_do_not_count(tmp_path: Path, files: dict[str, str], threads: int) -> None:
    assert default_threads(write(tmp_path, files)) == threads
    assert all_threads(tmp_path) == 8
