"""What llama.cpp sees of this machine: its backends with their features, and its devices.

llama-cpp-python declares none of ggml's device functions, so their signatures stand here.
"""

from __future__ import annotations

import ctypes
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
}


class _Feature(ctypes.Structure):
    _fields_ = (("name", _TEXT), ("value", _TEXT))


def _library() -> Any:
    from llama_cpp._ggml import libggml

    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(libggml, name)
        function.restype, function.argtypes = result, list(arguments)
    return libggml


def devices() -> list[Device]:
    """All devices of all backends, in llama.cpp's order."""
    ggml = _library()
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
    ggml = _library()
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
