"""What a model will take, against what llama.cpp itself says, and what a machine has."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from termchat.models import memory
from termchat.models.gguf.header import read_header
from termchat.models.memory import Memory, available, estimate
from tests.models.gguf_files import ARCHITECTURES, whole

MIB = 1 << 20

LOAD = """
import sys
import llama_cpp
said = []
@llama_cpp.llama_log_callback
def log(level, text, user):
    said.append(text.decode("utf-8", "replace"))
llama_cpp.llama_log_set(log, None)
how = llama_cpp.llama_model_default_params()
how.use_extra_bufts = b"AMX_INT8 = 1" not in llama_cpp.llama_print_system_info()
model = llama_cpp.llama_model_load_from_file(sys.argv[1].encode(), how)
params = llama_cpp.llama_context_default_params()
params.n_ctx, params.n_batch, params.n_ubatch = int(sys.argv[2]), 64, 64
params.n_seq_max, params.kv_unified = 2, True
params.type_k = params.type_v = int(sys.argv[3])
params.flash_attn_type = int(sys.argv[4])
assert llama_cpp.llama_init_from_model(model, params)
print("".join(said))
"""


def test_the_cache_of_the_real_model_by_hand(model_path: Path) -> None:
    """30 layers, 3 key heads of 64 numbers, keys and values, 2 bytes each."""
    found = estimate(read_header(model_path), 8192)
    assert found.kv == 30 * 8192 * (3 * 64 + 3 * 64) * 2 == 180 * MIB
    assert found.weights == 98_362_432
    assert found.total == found.weights + found.kv + found.compute


@pytest.mark.parametrize(
    ("context", "kv_type", "number", "flash"),
    [
        (8192, "f16", 1, True),
        (1000, "f16", 1, True),
        (2048, "q8_0", 8, True),
        (4096, "q4_0", 2, True),
        (8192, "f16", 1, False),
    ],
)
def test_llama_cpp_says_the_same(model_path: Path, context: int, kv_type: str, number: int, flash: bool) -> None:
    """The cache to the byte of its rounded figures; the room to compute in within a fifth."""
    done = subprocess.run(
        [sys.executable, "-c", LOAD, str(model_path), str(context), str(number), str(int(flash))],
        capture_output=True,
        text=True,
        check=True,
    )
    kv = sum(float(size) for size in re.findall(r"KV buffer size = +([\d.]+) MiB", done.stdout))
    compute = sum(float(size) for size in re.findall(r"compute buffer size = +([\d.]+) MiB", done.stdout))
    found = estimate(read_header(model_path), context, kv_type, flash_attention=flash)
    assert found.kv / MIB == pytest.approx(kv, abs=0.01)
    assert found.compute / MIB == pytest.approx(compute, rel=0.2)


@pytest.mark.parametrize(
    ("architecture", "kv"),
    [
        ("qwen3", 28 * 4096 * 2 * 8 * 128 * 2),
        ("qwen35", 6 * 4096 * 2 * 2 * 256 * 2 + 18 * 2 * 4 * (3 * (2048 + 2 * 16 * 128) + 128 * 2048)),
        ("mamba", 48 * 2 * 4 * (3 * 2048 + 16 * 2048)),
        ("lfm2", 2 * 4096 * 2 * 8 * 64 * 2 + 4 * 2 * 4 * 2 * 2048),
    ],
)
def test_caches_of_other_architectures_by_hand(tmp_path: Path, architecture: str, kv: int) -> None:
    """Keys and values of the layers that attend; two states of 4-byte numbers of those that are recurrent."""
    path = tmp_path / "m.gguf"
    path.write_bytes(whole(ARCHITECTURES[architecture]))
    assert estimate(read_header(path), 4096).kv == kv


def test_without_a_context_the_trained_one_counts(model_path: Path) -> None:
    header = read_header(model_path)
    assert estimate(header, 0) == estimate(header, 8192)
    assert estimate(header, 8192, size=5).weights == 5
    with pytest.raises(ValueError, match="unknown KV type 'f17'"):
        estimate(header, 8192, "f17")
    assert Memory(1, 2, 3).total == 6


def machine(folder: Path, groups: str) -> tuple[Path, Path]:
    """A made-up /proc of a process in these control groups, and where /sys/fs/cgroup would be."""
    (folder / "proc/self").mkdir(parents=True)
    (folder / "proc/meminfo").write_text("MemTotal:       16000000 kB\nMemAvailable:    8000000 kB\n")
    (folder / "proc/self/cgroup").write_text(groups)
    return folder / "proc", folder / "cgroup"


def test_a_machine_without_limits(tmp_path: Path) -> None:
    assert available(*machine(tmp_path, "0::/user.slice\n")) == 8_000_000 * 1024


def test_a_container_with_a_limit_of_the_second_kind(tmp_path: Path) -> None:
    proc, cgroups = machine(tmp_path, "0::/a/b\n")
    for inner, limit, used in (("a/b", "max", "0"), ("a", "4000000", "3000000"), ("", "9000000", "1000000")):
        folder = cgroups / inner
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "memory.max").write_text(limit + "\n")
        (folder / "memory.current").write_text(used + "\n")
    (cgroups / "a/memory.stat").write_text("anon 5\ninactive_file 500000\n")
    assert available(proc, cgroups) == 4_000_000 - 3_000_000 + 500_000


def test_a_container_with_a_limit_of_the_first_kind(tmp_path: Path) -> None:
    """Inside, only the mount's own folder is to be seen, whatever the group is called outside."""
    proc, cgroups = machine(tmp_path, "5:devices:/docker/abc\n4:memory:/docker/abc\n0::/\n")
    folder = cgroups / "memory"
    folder.mkdir(parents=True)
    (folder / "memory.limit_in_bytes").write_text("2000000")
    (folder / "memory.usage_in_bytes").write_text("1500000")
    assert available(proc, cgroups) == 500_000
    (folder / "memory.usage_in_bytes").write_text("2500000")
    assert available(proc, cgroups) == 0
    (folder / "memory.limit_in_bytes").write_text("9223372036854771712")
    assert available(proc, cgroups) == 8_000_000 * 1024


def test_a_machine_that_does_not_say(tmp_path: Path) -> None:
    assert available(tmp_path, tmp_path) is None


def test_a_mac_counts_its_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = {"hw.pagesize": 16384, "vm.page_free_count": 1000, "vm.page_pageable_external_count": 500}
    monkeypatch.setattr(memory.sys, "platform", "darwin")
    monkeypatch.setattr(memory, "_sysctl", numbers.get)
    assert available() == 1500 * 16384
    numbers.clear()
    assert available() is None


def test_this_machine_has_no_more_than_its_memory() -> None:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert 0 < (available() or 0) <= total
