"""How hot a token is: what stands out is hot, what was to be expected is calm. The scales are those of the token looks."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite, log2
from operator import attrgetter
from typing import NamedTuple

from termchat.conversation.tree import TokenColumns

HEATS = 8
"""Steps, 0 is the hottest; the style sheet has a colour for each."""

_CALM = HEATS - 1
_MOST_BITS = 6.0
_MOST_RANK = 256


def probability_heat(probability: float) -> int:
    """1 is calm, 0 hot. The square root spreads the improbable ones out."""
    return int(min(max(0.0, probability), 1.0) ** 0.5 * _CALM) if isfinite(probability) else _CALM


def entropy_heat(bits: float) -> int:
    """0 bits are calm, 6 and more hot, straight in between."""
    return _CALM - int(min(max(0.0, bits) / _MOST_BITS, 1.0) * _CALM) if isfinite(bits) else _CALM


def rank_heat(rank: int) -> int:
    """Rank 0 is calm; rank 1 is a third of the way to hot, which 256 and more are: by the logarithm in between."""
    return _CALM if rank <= 0 else int(_CALM * 2 / 3 * (1 - min(log2(rank) / log2(_MOST_RANK), 1.0)))


class Measure(NamedTuple):
    """A measure of tokens, and what the two ends of its scale stand for."""

    name: str
    column: Callable[[TokenColumns], list[float]]
    heat: Callable[..., int]
    hot: str
    calm: str


MEASURES = (
    Measure("probability", attrgetter("probabilities"), probability_heat, "0%", "100%"),
    Measure("entropy", attrgetter("entropies"), entropy_heat, "6 bit and more", "0 bit"),
    Measure("rank", attrgetter("ranks"), rank_heat, "rank 256 and beyond", "rank 0"),
)
