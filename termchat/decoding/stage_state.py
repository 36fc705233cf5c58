"""What mirostat and adaptive_p remember from one step to the next: the `state` of a token's record.

A record holds what its token was drawn with; `update_state` says with what the next one is. So a reply goes on, is rewound or
forked from any of its tokens with the state that it had there. A token that the dice did not take (it was forced) changes
nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from ctypes import c_float

from termchat.decoding.samplers import SamplerSettings
from termchat.decoding.stages import chain_of

MU = "mirostat_mu"
"""The most surprise, in bits, that mirostat lets through."""
SUM, WEIGHT = "adaptive_sum", "adaptive_weight"
"""The sum of the probabilities drawn so far and the number of draws, each less by the decay at every step."""
BEFORE = "adaptive_p"
"""The drawn token's probability before adaptive_p changed it; no part of the state, but the next one is made with it."""


def state_of(settings: SamplerSettings, known: Mapping[str, float]) -> dict[str, float]:
    """Return the state for a step under these settings: the `known` one; a stage that was just turned on begins."""
    begun = {}
    for name in (stage.name for stage in chain_of(settings)):
        if name == "mirostat":
            begun[MU] = known.get(MU, 2 * settings.mirostat_tau)
        elif name == "adaptive_p":
            kept = 1 - settings.adaptive_decay
            begun[SUM] = known.get(SUM, _round_float32(settings.adaptive_target / kept))
            begun[WEIGHT] = known.get(WEIGHT, _round_float32(1 / kept))
    return begun


def update_state(settings: SamplerSettings, state: Mapping[str, float], probability: float) -> dict[str, float]:
    """Return the state once the dice took a token with this probability after the chain. `state` is that of its record."""
    state_after = dict(state)
    before = state_after.pop(BEFORE, None)
    if MU in state_after and probability > 0:
        surprise = -math.log2(probability)
        state_after[MU] = _round_float32(state_after[MU] - settings.mirostat_eta * (surprise - settings.mirostat_tau))
    if SUM in state_after and before is not None:
        state_after[SUM] = _round_float32(before + settings.adaptive_decay * state_after[SUM])
        state_after[WEIGHT] = _round_float32(1 + settings.adaptive_decay * state_after[WEIGHT])
    return state_after


def _round_float32(value: float) -> float:
    return c_float(value).value
