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
        self._inputs: dict[str, Any] = {  # the structures that the stages of observe.c are called with
            "dry": (ctypes.c_void_p * 3)(),
            "xtc": (ctypes.c_float * 3)(settings.xtc_probability, settings.xtc_threshold, 1.0),
            "mirostat": (ctypes.c_float * 2)(0.0, n_vocab),
            "adaptive_p": (ctypes.c_float * 3)(settings.adaptive_target, 0.0, 0.0),
            "top_h": ctypes.c_double(settings.top_h),
            "min_k": ctypes.c_double(settings.min_k),
        }
        self._interfaces: list[Any] = []
        self._samplers = [self._make_sampler(library, stage, settings, n_vocab, bias) for stage in stages]
        addresses = (ctypes.cast(sampler, ctypes.c_void_p).value for sampler in self._samplers)
        self.pointers = (ctypes.c_void_p * len(stages))(*addresses)
        self._penalties = next(
            (sampler for sampler, stage in zip(self._samplers, stages, strict=True) if stage.name == "penalties"), None
        )
        self.changes = {stage.name for stage in stages} & {"dry", "xtc", "mirostat", "adaptive_p"}
        self._dry: tuple[NDArray[Any], ...] = ()

    def _make_sampler(
        self, library: Any, stage: SamplerStage, settings: SamplerSettings, n_vocab: int, bias: Mapping[int, float]
    ) -> Any:
        if not stage.sampler:
            interface = LIB.llama_sampler_i()
            mode = getattr(settings, stage.modes) if stage.modes else ""
            function = getattr(library, f"termchat_stage_{stage.name}{mode}")
            interface.apply = ctypes.cast(function, dict(LIB.llama_sampler_i._fields_)["apply"])
            self._interfaces.append(interface)
            inputs = self._inputs.get(stage.name)
            address = ctypes.c_void_p(None if inputs is None else ctypes.addressof(inputs))
            return LIB.llama_sampler_init(ctypes.byref(interface), address)
        arguments: list[Any] = []
        for argument in stage.arguments:
            if argument == N_VOCAB:
                arguments.append(n_vocab)
            elif argument == BIASES:
                arguments += [len(bias), (LIB.llama_logit_bias * len(bias))(*bias.items())]
            else:
                arguments.append(getattr(settings, argument) if isinstance(argument, str) else argument)
        return getattr(LIB, f"llama_sampler_init_{stage.sampler}")(*arguments)

    def prepare_step(self, chance: float, state: Mapping[str, float], penalties: Mapping[int, float]) -> None:
        """Set the inputs that change from step to step: see `arithmetic.Situation`."""
        if "xtc" in self.changes:
            self._inputs["xtc"][2] = chance
        if "mirostat" in self.changes:
            self._inputs["mirostat"][0] = state[MU]
        if "adaptive_p" in self.changes:
            self._inputs["adaptive_p"][1:] = state[SUM], state[WEIGHT]
        if "dry" in self.changes:
            self._dry = np.array([*penalties], np.int32), np.array([*penalties.values()], np.float32)
            self._inputs["dry"][:] = *(column.ctypes.data for column in self._dry), len(penalties)

    def accept_token(self, token: int) -> None:
        """Count a token of the reply."""
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
