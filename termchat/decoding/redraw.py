"""A recorded step drawn again under other settings, without the model: from the candidates of its record."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from termchat.decoding import dice
from termchat.decoding.arithmetic import APPLY, Situation, Surviving, count_window
from termchat.decoding.records import Candidate, Token
from termchat.decoding.samplers import SamplerSettings
from termchat.decoding.stage_state import state_of
from termchat.decoding.stages import chain_of

_MOST_TOKENS = 1 << 18
"""More than vocabularies have."""

_STAND_IN = 1 << 30
"""The first id of what stands in for tokens that are not on record; no token has it."""

_MONOTONIC = ("logit_bias", "penalties", "top_k", "top_p", "min_p")


def redraw_step(
    token: Token,
    past: Sequence[int],
    samplers: SamplerSettings,
    seed: int,
    state: Mapping[str, float],
    refused: Collection[int] = (),
    bias: Mapping[int, float] = {},
) -> int | None:
    """Return the id that would be drawn at a step from its recorded logits after the ids `past`, under these settings and dice.

    `refused` are the ids that a constraint does not allow, `bias` is what is added to logits. The answer is None where the
    candidates on record do not decide it.
    Only the highest logits are on record. No other token has a higher one than the lowest of these, and all others together
    hold the rest of the model's probability. So stand-ins at that height hold it, with the best noise of all ids. What is
    really left lies between what is left with them and without any; so the winner must be the same, and none of them.
    """
    listed = [candidate for candidate in token.candidates if candidate.id not in refused]
    if not listed or any(math.isnan(one.logit) for one in listed) or _may_rise(listed, past, samplers, bias):
        return None
    if len(token.candidates) == 1 and token.rank > 0:  # the drawn token alone: nothing is known of those above it
        return None
    floor, count = _bound_rest(token)
    known = {candidate.id for candidate in listed}
    rows = [_build_row(listed, floor, number) for number in (0, count)]
    at = Situation(past, dice.draw_chance(seed, token.step), state_of(samplers, state), bias=bias)
    warmed = False
    for stage in chain_of(samplers, biased=bool(bias)):
        if stage.name == "dry" or (stage.name == "mirostat" and samplers.mirostat == 1):  # more than the record has
            return None
        # Whether it leaves more candidates of more, and of more mass behind them.
        monotonic = stage.name in _MONOTONIC and not (stage.name == "top_p" and warmed)
        if stage.name == "temperature":
            monotonic = not samplers.dynatemp_range
        if stage.is_active(samplers) and not monotonic:
            least, most = (set(row.drop_masked().ids.tolist()) for row in rows)
            if least != most or max(most) >= _STAND_IN:  # it is not decided what is left
                return None
        rows = [APPLY[stage.name](row, samplers, at) for row in rows]
        warmed = warmed or (stage.name == "temperature" and samplers.temperature != 1)
    winners = set()
    for row in rows:
        noise = _draw_noise(seed, token.step, row.ids, known)
        winners.add(int(row.ids[(row.logits.astype(np.float64) + noise).argmax()]))
    return winners.pop() if len(winners) == 1 and max(winners) < _STAND_IN else None


def _bound_rest(token: Token) -> tuple[float, int]:
    """Return the highest logit that a token off the record can have, and how many such tokens hold their probability."""
    top = list(token.candidates)
    if len(top) > 1 and top[-1].id == token.id:  # it may be there only because it was drawn
        top.pop()
    rest = 1 - math.fsum(math.exp(candidate.logprob) for candidate in token.candidates)
    each = math.exp(top[-1].logprob)
    return top[-1].logit, min(math.ceil(max(rest, 0.0) / each), _MOST_TOKENS) if each > 0 else 0


def _may_rise(
    listed: Sequence[Candidate], past: Sequence[int], samplers: SamplerSettings, bias: Mapping[int, float]
) -> bool:
    """Return whether a stage may lift tokens that are not on record."""
    rewards = samplers.repeat_penalty < 1 or samplers.frequency_penalty < 0 or samplers.presence_penalty < 0
    lifted = {token for token, value in bias.items() if value > 0} | set(
        count_window(past, samplers) if rewards else ()
    )
    return not lifted <= {candidate.id for candidate in listed}


def _build_row(listed: Sequence[Candidate], floor: float, count: int) -> Surviving:
    ids = [*(candidate.id for candidate in listed), *range(_STAND_IN, _STAND_IN + count)]
    logits = [*(candidate.logit for candidate in listed), *[floor] * count]
    return Surviving(np.array(ids, np.int32), np.array(logits, np.float32))


def _draw_noise(seed: int, step: int, ids: NDArray[np.int32], known: Collection[int]) -> NDArray[np.float64]:
    """Return the noise of each id; that of a stand-in is the highest of all unknown tokens."""
    noise = dice.draw_gumbel(seed, step, ids)
    standing_in = ids >= _STAND_IN
    if standing_in.any():
        everything = dice.draw_gumbel(seed, step, np.arange(_MOST_TOKENS, dtype=np.int32))
        everything[[i for i in known if i < _MOST_TOKENS]] = -np.inf
        noise[standing_in] = everything.max()
    return noise
