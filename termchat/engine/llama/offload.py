"""The devices that llama.cpp sees, and on which of them layers go."""

from __future__ import annotations

import ctypes
import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from termchat.engine.llama.native import LIB
from termchat.engine.port import Device

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


_OFFLOADED = re.compile(r"offloaded (\d+)/(\d+) layers")


class _Feature(ctypes.Structure):
    _fields_ = (("name", _TEXT), ("value", _TEXT))


def load_library() -> Any:
    """Return ggml, with the signatures of the functions used here, from the folder of llama.cpp itself."""
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


def list_devices() -> list[Device]:
    """Return all devices of all backends, in llama.cpp's order."""
    ggml = load_library()
    listed = []
    for index in range(ggml.ggml_backend_dev_count()):
        device = ggml.ggml_backend_dev_get(index)
        free, total = _COUNT(), _COUNT()
        ggml.ggml_backend_dev_memory(device, ctypes.byref(free), ctypes.byref(total))
        listed.append(
            Device(
                name=_decode_text(ggml.ggml_backend_dev_name(device)),
                description=_decode_text(ggml.ggml_backend_dev_description(device)),
                kind=_KINDS.get(ggml.ggml_backend_dev_type(device), "other"),
                free=free.value,
                total=total.value,
            )
        )
    return listed


def list_offloading(main_gpu: int = -1) -> list[Device]:
    """Return the devices that llama.cpp puts layers on: the GPUs, else those that share the memory; or `main_gpu` alone."""
    every = list_devices()
    usable = [device for device in every if device.kind == "gpu"] or [device for device in every if device.offloads]
    return usable if main_gpu < 0 else usable[main_gpu : main_gpu + 1]


def list_backends() -> dict[str, dict[str, str]]:
    """Return each backend's features, such as {"CPU": {"AVX2": "1"}}."""
    ggml = load_library()
    all_features: dict[str, dict[str, str]] = {}
    for index in range(ggml.ggml_backend_reg_count()):
        backend = ggml.ggml_backend_reg_get(index)
        features = all_features[_decode_text(ggml.ggml_backend_reg_name(backend))] = {}
        if address := ggml.ggml_backend_reg_get_proc_address(backend, b"ggml_backend_get_features"):
            listed = ctypes.CFUNCTYPE(ctypes.POINTER(_Feature), _POINTER)(address)(backend)
            while (feature := listed[len(features)]).name:
                features[_decode_text(feature.name)] = _decode_text(feature.value)
    return all_features


def describe_system() -> str:
    """Return llama.cpp's own line about its build."""
    return _decode_text(LIB.llama_print_system_info())


def _decode_text(data: bytes | None) -> str:
    return (data or b"").decode("utf-8", "replace")


def count_offloaded(placements: Iterable[str]) -> int | None:
    """Return the number of layers on devices by llama.cpp's log, the output layer included; None if it does not say."""
    counts = [int(match[1]) for line in placements if (match := _OFFLOADED.search(line))]
    return counts[-1] if counts else None


def name_devices(devices: Sequence[Device]) -> str:
    """Return the names of devices for people: "NVIDIA H200", or "NVIDIA H200 ×2"."""
    counts = Counter(device.description or device.name for device in devices)
    return ", ".join(f"{name} ×{count}" if count > 1 else name for name, count in counts.items()) or "gpu"
