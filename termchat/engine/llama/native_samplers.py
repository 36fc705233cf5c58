"""The stages of a chain as `llama_sampler`s, which the native step runs through."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from termchat.decoding.samplers import SamplerSettings
from termchat.decoding.stage_state import MU, SUM, WEIGHT
from termchat.decoding.stages import BIASES, N_VOCAB, SamplerStage
from termchat.engine.llama.native import LIB


class _Dry(ctypes.Structure):
    """`dry` of observe.c; the structures below are the arguments of their stages, too."""

    _fields_ = (("ids", ctypes.c_void_p), ("penalties", ctypes.c_void_p), ("count", ctypes.c_int32))


class _Xtc(ctypes.Structure):
    _fields_ = (("probability", ctypes.c_float), ("threshold", ctypes.c_float), ("chance", ctypes.c_float))


class _Mirostat(ctypes.Structure):
    _fields_ = (("mu", ctypes.c_float), ("n_vocab", ctypes.c_int32))


class _Adaptive(ctypes.Structure):
    _fields_ = (("target", ctypes.c_float), ("sum", ctypes.c_float), ("weight", ctypes.c_float))


class _Share(ctypes.Structure):
    """`top_h` and `min_k`: a number."""

    _fields_ = (("value", ctypes.c_double),)


class NativeSamplers:
    """A `llama_sampler` for each stage of a chain: llama.cpp's own, or one around a function of observe.c."""

    def __init__(
        self,
        library: Any,
        stages: Sequence[SamplerStage],
        settings: SamplerSettings,
        n_vocab: int,
        bias: Mapping[int, float],
    ) -> None:
        self._inputs: dict[str, Any] = {
            "dry": _Dry(),
            "xtc": _Xtc(settings.xtc_probability, settings.xtc_threshold, 1.0),
            "mirostat": _Mirostat(0.0, n_vocab),
            "adaptive_p": _Adaptive(settings.adaptive_target, 0.0, 0.0),
            "top_h": _Share(settings.top_h),
            "min_k": _Share(settings.min_k),
        }
        self._interfaces: list[Any] = []
        self._samplers = [
            _make_llama_sampler(stage, settings, n_vocab, bias)
            if stage.sampler
            else self._make_own_sampler(library, stage, settings)
            for stage in stages
        ]
        addresses = (ctypes.cast(sampler, ctypes.c_void_p).value for sampler in self._samplers)
        self.pointers = (ctypes.c_void_p * len(stages))(*addresses)
        self._penalties = next(
            (sampler for sampler, stage in zip(self._samplers, stages, strict=True) if stage.name == "penalties"), None
        )
        self.changes = {stage.name for stage in stages} & {"dry", "xtc", "mirostat", "adaptive_p"}
        self._dry: tuple[NDArray[Any], ...] = ()

    def _make_own_sampler(self, library: Any, stage: SamplerStage, settings: SamplerSettings) -> Any:
        mode = getattr(settings, stage.modes) if stage.modes else ""
        interface = LIB.llama_sampler_i()
        function = getattr(library, f"termchat_stage_{stage.name}{mode}")
        interface.apply = ctypes.cast(function, dict(LIB.llama_sampler_i._fields_)["apply"])
        self._interfaces.append(interface)
        inputs = self._inputs.get(stage.name)
        address = ctypes.c_void_p(None if inputs is None else ctypes.addressof(inputs))
        return LIB.llama_sampler_init(ctypes.byref(interface), address)

    def prepare_step(self, chance: float, state: Mapping[str, float], penalties: Mapping[int, float]) -> None:
        """Set the inputs that change from step to step: see `arithmetic.Situation`."""
        for name in self.changes:
            inputs = self._inputs[name]
            if name == "xtc":
                inputs.chance = chance
            elif name == "mirostat":
                inputs.mu = state[MU]
            elif name == "adaptive_p":
                inputs.sum, inputs.weight = state[SUM], state[WEIGHT]
            else:
                ids, values = np.array([*penalties], np.int32), np.array([*penalties.values()], np.float32)
                self._dry = ids, values
                inputs.ids, inputs.penalties, inputs.count = ids.ctypes.data, values.ctypes.data, len(ids)

    def accept(self, token: int) -> None:
        """Count a token that was taken."""
        if self._penalties is not None:
            LIB.llama_sampler_accept(self._penalties, token)

    def reset(self) -> None:
        """Forget all tokens."""
        if self._penalties is not None:
            LIB.llama_sampler_reset(self._penalties)

    def close(self) -> None:
        for sampler in self._samplers:
            LIB.llama_sampler_free(sampler)
        self._samplers, self._penalties = [], None


def _make_llama_sampler(stage: SamplerStage, settings: SamplerSettings, n_vocab: int, bias: Mapping[int, float]) -> Any:
    arguments: list[Any] = []
    for argument in stage.arguments:
        if argument == N_VOCAB:
            arguments.append(n_vocab)
        elif argument == BIASES:
            arguments += [len(bias), (LIB.llama_logit_bias * len(bias))(*bias.items())]
        else:
            arguments.append(getattr(settings, argument) if isinstance(argument, str) else argument)
    return getattr(LIB, f"llama_sampler_init_{stage.sampler}")(*arguments)
