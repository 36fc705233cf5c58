"""Opens a model and its context, with as many layers on the GPU as fit."""

from __future__ import annotations

import os
import re
from collections.abc import Callable

import msgspec

from termchat.engine.llama import offload
from termchat.engine.llama.cache import Cache
from termchat.engine.llama.model import Model
from termchat.engine.port import Device, EngineError, ModelSpec, Remark

_SHARE = 0.85
"""Of the free memory: the rest is for the cells of the context and for what llama.cpp computes in."""
_SMALLER = 2 / 3
_OF_MEMORY = re.compile(r"alloc|memory|VRAM", re.IGNORECASE)
"""Words by which llama.cpp says that memory was short."""


def open_model(
    spec: ModelSpec, progress: Callable[[float], None], check: Callable[[Model], None] = lambda _: None
) -> tuple[Model, Cache, Remark | None]:
    """Open a model, `check` it, and make its context; the remark says if not all layers fit on the GPU.

    Raises:
        EngineError: one of the two cannot be made, or `check` refuses the model.
    """
    tries, layers, usable = [spec.gpu_layers], (spec.layers or 1) + 1, list[Device]()
    while True:
        count = tries.pop(0)
        try:
            model, cache = _open_once(msgspec.structs.replace(spec, gpu_layers=count), progress, check)
        except EngineError as error:
            if not _OF_MEMORY.search(error.message):
                raise
            if count < 0 and (usable := offload.list_offloading(spec.main_gpu)):
                need = os.path.getsize(spec.path_bytes or spec.path)
                tries = list_fewer(layers, need, sum(device.free for device in usable))
            if not tries:
                raise
            continue
        if count == spec.gpu_layers:
            return model, cache, None
        names = offload.name_devices(usable)
        some = (
            f"{count} of {layers} layers fit on {names}; the rest" if count else "nothing fits on the GPU; everything"
        )
        return model, cache, Remark(f"{some} runs on the CPU", "try a smaller --context or a smaller quantization")


def list_fewer(layers: int, need: int, free: int) -> list[int]:
    """Return what to try after all `layers` did not fit, most first; the last is 0.

    `need` are the bytes of the model, `free` those of the devices; 0 for what is not known.
    """
    count = min(int(layers * free * _SHARE / need) if need and free else layers // 2, layers - 1)
    counts = []
    while count > 0:
        counts.append(count)
        count = int(count * _SMALLER)
    return [*counts, 0]


def _open_once(
    spec: ModelSpec, progress: Callable[[float], None], check: Callable[[Model], None]
) -> tuple[Model, Cache]:
    model = Model(spec, progress)
    try:
        check(model)
        return model, Cache(model)
    except EngineError:
        model.close()
        raise
