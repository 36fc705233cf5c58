"""The devices that llama.cpp sees, and how many layers go to the GPU: all that fit."""

from __future__ import annotations

import ctypes
import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from termchat.engine.llama.native import LIB
from termchat.engine.port import Device, Remark

_KINDS: dict[int, Any] = {0: "cpu", 1: "gpu", 2: "integrated gpu", 3: "accelerator"}

_POINTER, _TEXT, _COUNT = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t
_SIGNATURES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "ggml_backend_dev_count": (_COUNT, ()),
    "ggml_backend_dev_get": (_POINTER, (_COUNT,)),
    "ggml_backend_dev_name": (_TEXT, (_POINTER,)),
    "ggml_backend_dev_description": (_TEXT, (_POINTER,)),
    "ggml_backend_dev_type": (ctypes.c_int, (_POINTER,)),
    "ggml_backend_dev_memory": (None, (_POINTER, ctypes.POINTER(_COUNT), ctypes.POINTER(_COUNT))),
    "ggml_backend_reg_count": (_COUNT, ()),
    "ggml_backend_reg_get": (_POINTER, (_COUNT,)),
    "ggml_backend_reg_name": (_TEXT, (_POINTER,)),
    "ggml_backend_reg_get_proc_address": (_POINTER, (_POINTER, _TEXT)),
    "ggml_backend_reg_by_name": (_POINTER, (_TEXT,)),
    "ggml_backend_register": (None, (_POINTER,)),
}


class _Feature(ctypes.Structure):
    _fields_ = (("name", _TEXT), ("value", _TEXT))


def library() -> Any:
    """ggml, with the signatures of what is used here: of the folder from which llama.cpp itself was loaded."""
    override = os.environ.get("LLAMA_CPP_LIB_PATH")
    if override:  # which moves libllama alone: two libraries of ggml would each have devices of their own
        from llama_cpp._ctypes_extensions import load_shared_library

        ggml: Any = load_shared_library("ggml", Path(override))
    else:
        from llama_cpp import _ggml

        ggml = _ggml.libggml
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(ggml, name)
        function.restype, function.argtypes = result, list(arguments)
    return ggml


def devices() -> list[Device]:
    """All devices of all backends, in llama.cpp's order."""
    ggml = library()
    found = []
    for index in range(ggml.ggml_backend_dev_count()):
        device = ggml.ggml_backend_dev_get(index)
        free, total = _COUNT(), _COUNT()
        ggml.ggml_backend_dev_memory(device, ctypes.byref(free), ctypes.byref(total))
        found.append(
            Device(
                name=_text(ggml.ggml_backend_dev_name(device)),
                description=_text(ggml.ggml_backend_dev_description(device)),
                kind=_KINDS.get(ggml.ggml_backend_dev_type(device), "other"),
                free=free.value,
                total=total.value,
            )
        )
    return found


def offloading(main_gpu: int = -1) -> list[Device]:
    """Those that llama.cpp puts layers on: the GPUs, or where there is none those that share the memory; or one of them."""
    found = devices()
    usable = [device for device in found if device.kind == "gpu"] or [device for device in found if device.offloads]
    return usable if main_gpu < 0 else usable[main_gpu : main_gpu + 1]


def backends() -> dict[str, dict[str, str]]:
    """Each backend's features, such as {"CPU": {"AVX2": "1"}}."""
    ggml = library()
    found = {}
    for index in range(ggml.ggml_backend_reg_count()):
        backend = ggml.ggml_backend_reg_get(index)
        found[_text(ggml.ggml_backend_reg_name(backend))] = _features(ggml, backend)
    return found


def system() -> str:
    """llama.cpp's own line about what it was built with."""
    return _text(LIB.llama_print_system_info())


def _features(ggml: Any, backend: int) -> dict[str, str]:
    address = ggml.ggml_backend_reg_get_proc_address(backend, b"ggml_backend_get_features")
    if not address:
        return {}
    features = ctypes.CFUNCTYPE(ctypes.POINTER(_Feature), _POINTER)(address)(backend)
    found: dict[str, str] = {}
    while features[len(found)].name:
        feature = features[len(found)]
        found[_text(feature.name)] = _text(feature.value)
    return found


def _text(data: bytes | None) -> str:
    return (data or b"").decode("utf-8", "replace")


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
    """Says that only `count` of `layers` fit on the GPU."""
    where = (
        f"{count} of {layers} layers fit on {named(devices)}; the rest"
        if count
        else "nothing fits on the GPU; everything"
    )
    return Remark(f"{where} runs on the CPU", "try a smaller --context or a smaller quantization")
