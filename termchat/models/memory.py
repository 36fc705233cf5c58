"""How much memory a model will take, and how much there is."""

from __future__ import annotations

import ctypes
import ctypes.util
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from termchat.models.gguf.header import Header
from termchat.models.gguf.quantization import TENSOR_TYPES

BATCH = 64
"""Tokens of one batch as the engine makes them for exact prompts."""
SEQUENCES = 2
"""Sequences a context has room for: the chat, and one to ask questions on. They share cells, not recurrent states."""
CELLS = 256
"""llama.cpp rounds a context up to a multiple of it."""
UNLIMITED = 1 << 60
"""A control group's limit from which on it is none."""

_FLOAT = 4
_PACKINGS = {packing.name.lower(): packing for packing in TENSOR_TYPES.values()}
_FREE_PAGES = (
    "vm.page_free_count",
    "vm.page_speculative_count",
    "vm.page_purgeable_count",
    "vm.page_pageable_external_count",
)
"""What macOS counts as pages that can be had at once: free, read ahead, given up, and copies of files."""


class Memory(NamedTuple):
    """Bytes that a loaded model takes: its weights, its cache for the whole context, and room to compute in."""

    weights: int
    kv: int
    compute: int

    @property
    def total(self) -> int:
        return self.weights + self.kv + self.compute


def estimate(
    header: Header,
    context: int,
    kv_type: str = "auto",
    *,
    size: int | None = None,
    batch: int = BATCH,
    flash_attention: bool = True,
) -> Memory:
    """What the model will take, in bytes.

    Weights are the files' size: `size` of a model in several, else that of the header's own. The cache is exact for models
    whose layers attend; recurrent states are. The room to compute in is an approximation: the larger of the logits of one
    batch and, without flash attention, its attention scores, each with the residual stream beside it.

    Args:
        context: tokens; 0 is what the model was trained on.
        kv_type: the cache's number format, as llama.cpp names it; `auto` and `bf16/f16` take as much as f16.

    Raises:
        ValueError: there is no such number format.
    """
    if kv_type in ("auto", "bf16/f16"):
        kv_type = "f16"
    if kv_type not in _PACKINGS:
        raise ValueError(f"unknown KV type {kv_type!r}")
    packing = _PACKINGS[kv_type]
    tokens = context or header.context_length or 0
    cells = -(-tokens // CELLS) * CELLS
    kept = sum(layer.keys + layer.values for layer in header.layers) * cells
    states = sum(layer.state for layer in header.layers) * SEQUENCES * _FLOAT
    stream = header.embedding_length or 0
    logits = (header.vocabulary or 0) + stream
    scores = 0 if flash_attention else cells * (header.head_count or 0) + stream
    return Memory(
        weights=header.file_size if size is None else size,
        kv=kept // packing.block * packing.size + states,
        compute=batch * max(logits, scores) * _FLOAT,
    )


def available(proc: Path = Path("/proc"), cgroups: Path = Path("/sys/fs/cgroup")) -> int | None:
    """Bytes that programs can still allocate on this machine or in this container; None if unknown."""
    if sys.platform == "darwin":
        return _available_mac()
    free = _mem_available(proc / "meminfo")
    if free is None:
        return None
    return max(min(free, *_left_in_groups(proc / "self/cgroup", cgroups), UNLIMITED), 0)


def _mem_available(meminfo: Path) -> int | None:
    for line in _text(meminfo).splitlines():
        name, _, value = line.partition(":")
        if name == "MemAvailable" and value.split()[:1] and value.split()[0].isdecimal():
            return int(value.split()[0]) * 1024
    return None


class _Files(NamedTuple):
    """File names in one version of control groups."""

    limit: str
    used: str
    reclaimable: str


_V1 = _Files("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
_V2 = _Files("memory.max", "memory.current", "inactive_file")


def _left_in_groups(membership: Path, cgroups: Path) -> Iterator[int]:
    """What each control group above this process still allows."""
    for line in _text(membership).splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if "memory" in controllers.split(","):
            yield from _left(cgroups / "memory", path, _V1)
        elif number == "0":
            yield from _left(cgroups, path, _V2)


def _left(mount: Path, group: str, files: _Files) -> Iterator[int]:
    """From a group up to the mount; within a container only the mount itself may be there."""
    inner = PurePosixPath(group.lstrip("/"))
    for part in (inner, *inner.parents):
        if ".." in part.parts:
            continue
        folder = mount / part
        limit, used = _number(folder / files.limit), _number(folder / files.used)
        if limit is not None and used is not None and limit < UNLIMITED:
            yield limit - used + _reclaimable(folder / "memory.stat", files.reclaimable)


def _reclaimable(stat: Path, name: str) -> int:
    for line in _text(stat).splitlines():
        key, _, value = line.partition(" ")
        if key == name and value.isdecimal():
            return int(value)
    return 0


def _number(path: Path) -> int | None:
    text = _text(path).strip()
    return int(text) if text.isdecimal() else None


def _text(path: Path) -> str:
    try:
        return path.read_text("ascii", "replace")
    except OSError:
        return ""


def _available_mac() -> int | None:
    size = _sysctl("hw.pagesize")
    pages = [_sysctl(name) for name in _FREE_PAGES]
    known = [count for count in pages if count is not None]
    return size * sum(known) if size and known else None


def _sysctl(name: str) -> int | None:
    library = ctypes.CDLL(ctypes.util.find_library("c"))
    value, length = ctypes.c_uint64(0), ctypes.c_size_t(8)
    failed = library.sysctlbyname(name.encode(), ctypes.byref(value), ctypes.byref(length), None, ctypes.c_size_t(0))
    return None if failed else value.value
