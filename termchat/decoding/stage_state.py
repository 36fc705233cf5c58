"""What mirostat and adaptive_p remember from one step to the next: the `state` of a token's record.

A record holds what its token was drawn with; `after` says with what the next one is. So a reply goes on, is rewound or forked
from any of its tokens with the state that it had there. A token that the dice did not take (it was forced) changes nothing.
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
    """The state for a step under these settings: what is `known`, and where a stage has just been turned on its beginning."""
    found = {}
    for name in (stage.name for stage in chain_of(settings)):
        if name == "mirostat":
            found[MU] = known.get(MU, 2 * settings.mirostat_tau)
        elif name == "adaptive_p":
            kept = 1 - settings.adaptive_decay
            found[SUM] = known.get(SUM, _float32(settings.adaptive_target / kept))
            found[WEIGHT] = known.get(WEIGHT, _float32(1 / kept))
    return found


def after(settings: SamplerSettings, state: Mapping[str, float], probability: float) -> dict[str, float]:
    """The state once the dice took a token with this probability after the whole chain. `state` is its record's."""
    found = dict(state)
    before = found.pop(BEFORE, None)
    if MU in found and probability > 0:
        surprise = -math.log2(probability)
        found[MU] = _float32(found[MU] - settings.mirostat_eta * (surprise - settings.mirostat_tau))
    if SUM in found and before is not None:
        found[SUM] = _float32(before + settings.adaptive_decay * found[SUM])
        found[WEIGHT] = _float32(1 + settings.adaptive_decay * found[WEIGHT])
    return found


def _float32(value: float) -> float:
    return c_float(value).value
