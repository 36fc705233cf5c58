"""The end of the chain: from the logits that are left to probabilities, and with the dice to the one that is drawn; and how
often each would be drawn with other seeds."""

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
    """The winner, and of it and all tokens that were watched the probability (0.0 where it was cut) and the noise."""

    id: int
    probability: dict[int, float]
    noise: dict[int, float]


def draw(ids: _Ids, logits: _Logits, seed: int, step: int, watched: Sequence[int] = ()) -> Draw:
    """Draws one of the n ids that are left, with their final logits (shape (n,) each), n at least 1."""
    noise = dict(zip(watched, dice.noise(seed, step, watched), strict=True))
    return (_few if len(ids) <= _FEW else _many)(ids, logits, seed, step, noise)


def _few(ids: _Ids, logits: _Logits, seed: int, step: int, noise: dict[int, float]) -> Draw:
    """`noise` holds the watched ids, and is added to."""
    probability = dict.fromkeys(noise, 0.0)
    left, scores = ids.tolist(), logits.tolist()
    missing = [i for i in left if i not in noise]
    noise.update(zip(missing, dice.noise(seed, step, missing), strict=True))
    highest = max(scores)
    scores = [score - highest for score in scores]
    weights = [math.exp(score) for score in scores]
    mass = math.fsum(weights)
    thrown = [score + noise[i] for i, score in zip(left, scores, strict=True)]
    winner = left[thrown.index(max(thrown))]
    probability.update(zip(left, [weight / mass for weight in weights], strict=True))
    return Draw(winner, probability, noise)


def _many(ids: _Ids, logits: _Logits, seed: int, step: int, noise: dict[int, float]) -> Draw:
    """`noise` holds the watched ids, and is added to."""
    probability = dict.fromkeys(noise, 0.0)
    scores = logits.astype(np.float64)
    scores -= scores.max()
    thrown = dice.gumbel(seed, step, ids)
    best = int((scores + thrown).argmax())
    winner = int(ids[best])
    noise.setdefault(winner, float(thrown[best]))
    weights = np.exp(scores)
    mass = float(weights.sum())
    wanted = np.flatnonzero(np.isin(ids, np.array(list(noise), np.int32)))
    probability.update(zip(ids[wanted].tolist(), (weights[wanted] / mass).tolist(), strict=True))
    return Draw(winner, probability, noise)


OTHERS = 2**31 - 1
"""Stands for all tokens that are not listed; no token has this id."""
_TOGETHER = 1000
"""Seeds whose noise is in memory at once."""


def rolls(probabilities: Mapping[int, float], seeds: Sequence[int], step: int) -> dict[int, int]:
    """How often each token is drawn at step `step` of a reply, once with each of the seeds.

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
