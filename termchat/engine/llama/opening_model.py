"""Opens a model and its context, with as many layers on the GPU as fit."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from termchat.engine.llama import offload
from termchat.engine.llama.cache import Cache
from termchat.engine.llama.model import Model
from termchat.engine.llama.threads import default_threads
from termchat.engine.port import EngineError, ModelSpec, Remark

Refuse = Callable[[Model], None]
"""Raises an `EngineError` where a model cannot be used."""


class OpenModel(NamedTuple):
    """A model and its context; the `remark` says if not all layers fit on the GPU."""

    model: Model
    cache: Cache
    remark: Remark | None = None


def open_model(spec: ModelSpec, progress: Callable[[float], None], refuse: Refuse = lambda _: None) -> OpenModel:
    """A model that is not refused, and its context.

    Raises:
        EngineError: one of the two cannot be made, or the model was refused.
    """
    try:
        return _opened(spec, progress, refuse)
    except EngineError as error:
        usable = offload.offloading(spec.main_gpu)
        if spec.gpu_layers >= 0 or not usable or not offload.is_of_memory(error.message):
            raise
    layers = (spec.layers or 1) + 1
    need = os.path.getsize(spec.path_bytes or spec.path)
    *partly, nothing = offload.fewer(layers, need, sum(device.free for device in usable))
    for count in partly:
        try:
            opened = _opened(msgspec.structs.replace(spec, gpu_layers=count), progress, refuse)
        except EngineError as error:
            if not offload.is_of_memory(error.message):
                raise
        else:
            break
    else:
        count = nothing
        opened = _opened(msgspec.structs.replace(spec, gpu_layers=count), progress, refuse)
    return opened._replace(remark=offload.remark_of_fewer(count, layers, usable))


def _opened(spec: ModelSpec, progress: Callable[[float], None], refuse: Refuse) -> OpenModel:
    threads = spec.threads or default_threads()
    model = Model(spec, progress)
    try:
        refuse(model)
        return OpenModel(model, Cache(model, spec, threads, spec.threads_batch or threads))
    except EngineError:
        model.close()
        raise
