"""Chains of llama.cpp's own samplers over a whole vocabulary, made by its documentation and not by our table; and the samplers
of the native step, one after the other."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from termchat.decoding import dice
from termchat.decoding.samplers import ORDER, SamplerSettings
from termchat.decoding.stages import STAGES
from termchat.engine.llama.chain import Chain
from termchat.engine.llama.model_session import ModelSession
from termchat.engine.llama.native import LIB

Logits = NDArray[np.float32]
OFF = SamplerSettings(top_k=0, top_p=1.0, min_p=0.0, temperature=1.0)
N_VOCAB = 5_003


def row(seed: int, n_vocab: int = N_VOCAB, spread: float = 3.0) -> Logits:
    return np.random.default_rng(seed).normal(0, spread, n_vocab).astype(np.float32)


def with_(**knobs: Any) -> SamplerSettings:
    return msgspec.structs.replace(OFF, **knobs)


class Left(dict[int, float]):
    """Ids with their logits, of those that are not masked."""


def theirs(logits: Logits, samplers: list[Any], past: list[int]) -> tuple[Left, int]:
    """What llama.cpp's samplers leave of the whole vocabulary, and what the last one drew."""
    chain = LIB.llama_sampler_chain_init(LIB.llama_sampler_chain_default_params())
    for sampler in samplers:
        LIB.llama_sampler_chain_add(chain, sampler)
    for token in past:
        LIB.llama_sampler_accept(chain, token)
    data = (LIB.llama_token_data * len(logits))()
    whole = np.frombuffer(data, [("id", np.int32), ("logit", np.float32), ("p", np.float32)])
    whole["id"], whole["logit"] = np.arange(len(logits)), logits
    array = LIB.llama_token_data_array(ctypes.cast(data, LIB.llama_token_data_p), len(logits), -1, False)
    LIB.llama_sampler_apply(chain, ctypes.byref(array))
    LIB.llama_sampler_free(chain)
    left = {array.data[i].id: array.data[i].logit for i in range(array.size)}
    selected = array.data[array.selected].id if array.selected >= 0 else -1
    return Left((i, logit) for i, logit in left.items() if math.isfinite(logit)), selected


class NativeSurvivors(NamedTuple):
    """Ids and logits, shape (n,) each, the number of survivors of each stage, and the stage that removed an id."""

    ids: NDArray[np.int32]
    logits: Logits
    stages: list[tuple[str, int]]
    removed: dict[int, str]


def run_natively(
    logits: Logits,
    settings: SamplerSettings,
    past: list[int],
    *,
    seed: int = 0,
    step: int = 0,
    state: Mapping[str, float] = {},
) -> NativeSurvivors:
    """Run the samplers of the native step over the whole vocabulary."""
    chain = Chain(settings, len(logits), past, state=state)
    assert chain.samplers is not None
    chain.samplers.prepare_step(dice.draw_chance(seed, step), chain.state, {})
    data = np.zeros(len(logits), [("id", np.int32), ("logit", np.float32), ("p", np.float32)])
    data["id"], data["logit"] = np.arange(len(logits)), logits
    begin = data.ctypes.data
    array = LIB.llama_token_data_array(ctypes.cast(begin, LIB.llama_token_data_p), len(data), -1, False)
    left, stages, removed = data, list[tuple[str, int]](), dict[int, str]()
    for stage, sampler in zip(chain.stages, chain.samplers._samplers, strict=True):
        before = left["id"].tolist()
        LIB.llama_sampler_apply(sampler, ctypes.byref(array))
        at = ((ctypes.cast(array.data, ctypes.c_void_p).value or 0) - begin) // data.itemsize
        left = data[at : at + array.size]
        left = left[np.isfinite(left["logit"])]
        stages.append((stage.name, len(left)))
        removed = dict.fromkeys(set(before) - set(left["id"].tolist()), stage.name) | removed
    chain.close()
    return NativeSurvivors(left["id"].copy(), left["logit"].copy(), stages, removed)


def sampler(stage: str, s: SamplerSettings, session: ModelSession) -> Any:
    return native(stage, s, session.model.vocab, session.model.n_vocab)


def native(stage: str, s: SamplerSettings, vocab: Any, n_vocab: int) -> Any:
    """llama.cpp's own, called by its documentation and not by our table. XTC acts whenever it is asked."""
    match stage:
        case "penalties":
            return LIB.llama_sampler_init_penalties(
                n_vocab, s.repeat_last_n, s.repeat_penalty, s.frequency_penalty, s.presence_penalty
            )
        case "dry":
            breakers = [text.encode() for text in s.dry_sequence_breakers]
            array = (ctypes.c_char_p * len(breakers))(*breakers)
            return LIB.llama_sampler_init_dry(
                vocab,
                s.dry_multiplier,
                s.dry_base,
                s.dry_allowed_length,
                s.dry_penalty_last_n,
                array,
                len(breakers),
            )
        case "top_n_sigma":
            return LIB.llama_sampler_init_top_n_sigma(s.top_n_sigma)
        case "top_k":
            return LIB.llama_sampler_init_top_k(s.top_k)
        case "typical_p":
            return LIB.llama_sampler_init_typical(s.typical_p, 1)
        case "top_p":
            return LIB.llama_sampler_init_top_p(s.top_p, 1)
        case "min_p":
            return LIB.llama_sampler_init_min_p(s.min_p, 1)
        case "xtc":
            return LIB.llama_sampler_init_xtc(1.0, s.xtc_threshold, 1, 1)
        case "temperature":
            return LIB.llama_sampler_init_temp_ext(s.temperature, s.dynatemp_range, s.dynatemp_exponent)
        case "mirostat" if s.mirostat == 1:
            return LIB.llama_sampler_init_mirostat(n_vocab, 1, s.mirostat_tau, s.mirostat_eta, 100)
        case "mirostat":
            return LIB.llama_sampler_init_mirostat_v2(1, s.mirostat_tau, s.mirostat_eta)
        case "adaptive_p":
            return LIB.llama_sampler_init_adaptive_p(s.adaptive_target, s.adaptive_decay, 1)
    raise AssertionError(stage)


NATIVE = [stage for stage in ORDER if STAGES[stage].sampler]


def some(rng: np.random.Generator) -> SamplerSettings:
    """Any settings of llama.cpp's own stages, in any order; those after top_k as they please, so that no sum is long."""
    pick = rng.choice
    sparse = [str(name) for name in rng.permutation(["penalties", "dry"])]
    others = [str(name) for name in rng.permutation([name for name in NATIVE if name not in (*sparse, "top_k")])]
    return SamplerSettings(
        repeat_penalty=float(pick([1.0, 1.2, 0.8])), repeat_last_n=int(pick([0, 8, 64])),
        frequency_penalty=float(pick([0.0, 0.4, -0.3])), presence_penalty=float(pick([0.0, 0.5])),
        dry_multiplier=float(pick([0.0, 0.8, 2.0])), dry_base=float(pick([1.0, 1.75])),
        dry_allowed_length=int(pick([0, 1, 2, 5])), dry_penalty_last_n=int(pick([0, 16, 64])),
        top_n_sigma=float(pick([-1.0, 1.0, 2.0])), top_k=int(pick([1, 5, 40, 100])),
        typical_p=float(pick([1.0, 0.9, 0.3])), top_p=float(pick([1.0, 0.95, 0.4])), min_p=float(pick([0.0, 0.05, 0.5])),
        temperature=float(pick([0.8, 1.0, 1.7])), dynatemp_range=float(pick([0.0, 0.0, 0.5])),
        dynatemp_exponent=float(pick([1.0, 2.0])),
        order=(*sparse, "top_k", *others[: rng.integers(len(others) + 1)]),
    )  # fmt: skip
