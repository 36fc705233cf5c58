"""How many layers go to the GPU: all that fit."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from termchat.engine.port import Device, Remark

EVERYTHING = 10_000
"""More layers than any model has: llama.cpp takes it for all of them."""

_SHARE = 0.85
"""Of the free memory: the rest is for the cells of the context and for what llama.cpp computes in."""
_SMALLER = 2 / 3
_OF_MEMORY = re.compile(r"alloc|memory|VRAM", re.IGNORECASE)
_OFFLOADED = re.compile(r"offloaded (\d+)/(\d+) layers")


def is_of_memory(message: str) -> bool:
    """Whether llama.cpp failed because memory was short, as far as its words tell."""
    return _OF_MEMORY.search(message) is not None


def fewer(layers: int, need: int, free: int) -> list[int]:
    """What to try after all `layers` did not fit, most first; the last is 0.

    `need` are the bytes of the model, `free` those of the devices; 0 for what is not known.
    """
    estimate = int(layers * free * _SHARE / need) if need and free else layers // 2
    count = min(estimate, layers - 1)
    found = []
    while count > 0:
        found.append(count)
        count = int(count * _SMALLER)
    return [*found, 0]


def offloaded(placements: Iterable[str]) -> int | None:
    """How many layers llama.cpp said it put on devices, the output layer among them; None if it did not say."""
    found = [int(match[1]) for line in placements if (match := _OFFLOADED.search(line))]
    return found[-1] if found else None


def named(devices: Sequence[Device]) -> str:
    """The devices for people: "NVIDIA H200", or "NVIDIA H200 ×2"."""
    counts = Counter(device.description or device.name for device in devices)
    return ", ".join(f"{name} ×{count}" if count > 1 else name for name, count in counts.items()) or "gpu"


def remark_of_fewer(count: int, layers: int, devices: Sequence[Device]) -> Remark:
    """That not all layers fit."""
    where = f"{count} of {layers} layers fit on {named(devices)}; the rest" if count else "nothing fits on the GPU; all"
    return Remark(f"{where} runs on the CPU", "a smaller --context or a smaller quantization leaves more room")
