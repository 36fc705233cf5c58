"""The end of the chain: from the logits that are left to probabilities, and with the dice to the one that is drawn; whether
another could be, if the logits were computed in another way; and how often each would be drawn with other seeds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from termchat.decoding import dice

_Ids = NDArray[np.int32]
_Logits = NDArray[np.float32]

_FEW = 256
"""Up to so many tokens plain Python is faster: between two decodes numpy's code has left the caches, and each of its functions
costs microseconds to come back."""


class Draw(NamedTuple):
    """The winner, and of it and all tokens that were watched the probability (0.0 where it was cut) and the noise. `margin` is
    how far the winner's score, logit plus noise, is ahead of the next; None where one token was left."""

    id: int
    probability: dict[int, float]
    noise: dict[int, float]
    margin: float | None


def draw(ids: _Ids, logits: _Logits, seed: int, step: int, watched: Sequence[int] = ()) -> Draw:
    """Draw one of the n ids that are left, with their final logits (shape (n,) each), n at least 1."""
    noise = dict(zip(watched, dice.draw_noise(seed, step, watched), strict=True))
    return (_draw_few if len(ids) <= _FEW else _draw_many)(ids, logits, seed, step, noise)


def _draw_few(ids: _Ids, logits: _Logits, seed: int, step: int, noise: dict[int, float]) -> Draw:
    """`noise` holds the watched ids, and is added to."""
    probability = dict.fromkeys(noise, 0.0)
    left, scores = ids.tolist(), logits.tolist()
    missing = [i for i in left if i not in noise]
    noise.update(zip(missing, dice.draw_noise(seed, step, missing), strict=True))
    highest = max(scores)
    scores = [score - highest for score in scores]
    weights = [math.exp(score) for score in scores]
    mass = math.fsum(weights)
    thrown = [score + noise[i] for i, score in zip(left, scores, strict=True)]
    ranked = sorted(thrown)
    winner = left[thrown.index(ranked[-1])]
    margin = ranked[-1] - ranked[-2] if len(ranked) > 1 else None
    probability.update(zip(left, [weight / mass for weight in weights], strict=True))
    return Draw(winner, probability, noise, margin)


def _draw_many(ids: _Ids, logits: _Logits, seed: int, step: int, noise: dict[int, float]) -> Draw:
    """`noise` holds the watched ids, and is added to."""
    probability = dict.fromkeys(noise, 0.0)
    scores = logits.astype(np.float64)
    scores -= scores.max()
    thrown = dice.draw_gumbel(seed, step, ids)
    ranked = scores + thrown
    best = int(ranked.argmax())
    first, ranked[best] = float(ranked[best]), -math.inf
    winner = int(ids[best])
    noise.setdefault(winner, float(thrown[best]))
    weights = np.exp(scores)
    mass = float(weights.sum())
    wanted = np.flatnonzero(np.isin(ids, np.array(list(noise), np.int32)))
    probability.update(zip(ids[wanted].tolist(), (weights[wanted] / mass).tolist(), strict=True))
    return Draw(winner, probability, noise, first - float(ranked.max()))


class Cut(NamedTuple):
    """How a stage cuts: a rule, with its knob."""

    rule: int
    knob: float = 0.0


NO_CUT, COUNT, SHARE, FLOOR, DEVIATION, HEAT, UNBOUNDED = range(7)
"""Rules: a stage leaves all, so many tokens, those that hold a share of the mass, or those no further below the highest than so
many logits or standard deviations. It divides by a temperature, of 0 where it leaves one. Other stages have no known bound."""


def is_near_tie(
    base: tuple[_Ids, _Logits],
    winner: int,
    margin: float | None,
    cuts: Sequence[Cut],
    change: float,
    seed: int,
    step: int,
    allowed: NDArray[np.bool_],
) -> bool:
    """Return whether another token could win if the difference of any two logits were another one, by up to `change`.

    `base` are the ids and logits that the first cut is given, in any order (shape (n,) each). Cuts leave the highest: one is
    cut when too many tokens, or too much mass, stand above it. So what could be left is known from stage to stage: tokens with
    logits from `low` on, at least `sure` of them and `most` at most. The draw is a near tie if the winner could be cut, or if a
    token that could be left could reach its score. Of all tokens some are `allowed` (shape (n_vocab,)).
    """
    ids, logits = base[0], base[1].astype(np.float64)
    mine = float(logits[ids == winner][0])
    ranked = -np.sort(-logits[np.isfinite(logits)])
    other = -math.inf if len(ranked) < 2 else float(ranked[1] if mine == ranked[0] else ranked[0])
    low, heat, sure, most = -math.inf, 1.0, len(ranked), len(ranked)
    for rule, knob in cuts:
        if rule == COUNT:
            count = int(knob)
            if count < len(ranked) and ranked[count] >= low and mine - ranked[count] <= change:
                return True
            if count <= len(ranked):
                low, sure, most = max(low, ranked[count - 1] - change), min(sure, count), min(most, count)
        elif rule in (FLOOR, DEVIATION):
            depth, reach = knob * heat, change
            if rule == DEVIATION:  # which changes by no more than that of the changes, at most half of their range
                depth, reach = knob * float(ranked.std()), change * (1 + knob / 2)
            if other >= low and mine - other + depth <= reach:
                return True
            floor = ranked[0] - depth
            low = max(low, floor - reach)
            sure, most = (min(at, int((ranked >= floor + far).sum())) for at, far in ((sure, reach), (most, -reach)))
        elif rule == SHARE:
            odds, tilt = knob / (1 - knob), math.exp(change / heat)
            sums = np.concatenate(([0.0], np.exp((ranked - ranked[0]) / heat).cumsum()))
            weight = math.exp((mine - ranked[0]) / heat)
            above = int(((ranked > mine - change) & (ranked >= low)).sum())
            rest = sums[max(sure, above)] - sums[above] + weight
            if above > 1 and (sums[above] - weight) * tilt >= odds * rest:
                return True
            before = sums[np.searchsorted(-ranked[:most], -(ranked[:most] + change))]
            out = (before > 0) & (before >= tilt * odds * (sums[most] - before))
            if out.any():
                most = int(out.argmax())
                low = max(low, ranked[most - 1])
        elif rule == HEAT and knob <= 0:
            return bool(other >= low and mine - other <= change)
        elif rule == HEAT:
            heat = knob
        elif rule == UNBOUNDED and other >= low:
            return True
    if margin is not None and margin * heat <= change:
        return True
    if low == -math.inf:  # nothing is cut
        return False
    rivals = (logits >= low) & (ids != winner) & allowed[ids]
    scores = logits[rivals] / heat + dice.draw_gumbel(seed, step, ids[rivals])
    return bool((scores >= (mine - change) / heat + dice.draw_noise(seed, step, [winner])[0]).any())


OTHERS = 2**31 - 1
"""Stands for all tokens that are not listed; no token has this id."""
_TOGETHER = 1000
"""Seeds whose noise is in memory at once."""


def count_rolls(probabilities: Mapping[int, float], seeds: Sequence[int], step: int) -> dict[int, int]:
    """Return how often each token is drawn at step `step` of a reply, once with each of the seeds.

    `probabilities` are after the chain, by id. Where they are those of all tokens that are left, a seed draws here what it
    draws in a reply. `OTHERS` may stand for the rest: its one noise decides for all of them (the highest of several Gumbel
    variables is one whose weight is their sum), so the counts are still exact in distribution.
    """
    left = {i: p for i, p in probabilities.items() if p > 0}
    if not left:  # an imported record may hold no numbers
        return dict.fromkeys(probabilities, 0)
    ids, logs = np.array(list(left), np.int64), np.log(np.array(list(left.values())))
    counts = np.zeros(len(ids), np.int64)
    for begin in range(0, len(seeds), _TOGETHER):
        thrown = dice.gumbel_of_seeds(seeds[begin : begin + _TOGETHER], step, ids)
        counts += np.bincount((logs + thrown).argmax(axis=1), minlength=len(ids))
    return dict.fromkeys(probabilities, 0) | dict(zip(ids.tolist(), counts.tolist(), strict=True))
