"""How hot a token is: step 0, the hottest, stands out; step `calm`, the last of a scale, was to be expected.

The screen and the HTML page use the same scales, each with as many steps as it has colours.
"""

from __future__ import annotations

from array import array
from bisect import insort
from collections.abc import Callable
from functools import partial
from math import isfinite, log2
from operator import attrgetter
from typing import Literal, NamedTuple

from termchat.conversation.tree import TokenColumns

MOST_BITS = 6.0
MOST_RANK = 256
MOST_TIMES = 4.0
MEDIAN_OF = 512
"""Steps of a reply whose median time the others are compared with."""

MeasureName = Literal["probability", "entropy", "rank", "time"]


def probability_heat(probability: float, calm: int) -> int:
    """1 is calm, 0 hot. The square root spreads the improbable ones out."""
    return int(min(max(0.0, probability), 1.0) ** 0.5 * calm) if isfinite(probability) else calm


def entropy_heat(bits: float, calm: int) -> int:
    """0 bits are calm, 6 and more hot; linear between them."""
    return calm - int(min(max(0.0, bits) / MOST_BITS, 1.0) * calm) if isfinite(bits) else calm


def rank_heat(rank: int, calm: int) -> int:
    """Rank 0 is calm, rank 1 a third of the way to hot, 256 and more are hot; logarithmic between them."""
    if rank <= 0:
        return calm
    return int(calm * 2 / 3 * (1 - min(log2(rank) / log2(MOST_RANK), 1.0)))


class TimeHeat:
    """Of times in the order in which they come: the median so far, or less, is calm, four times as much hot.

    The scale between them is logarithmic. The median is that of the reply's first 512 steps, as far as they have come: the
    heat of a token does not change later, and a reply that becomes slower turns hot.
    """

    def __init__(self, calm: int) -> None:
        self._calm = calm
        self._seen: list[int] = []

    def __call__(self, time: int) -> int:
        if len(self._seen) < MEDIAN_OF:
            insort(self._seen, time)
        times = time / max(self._seen[len(self._seen) // 2], 1)
        return self._calm - int(min(log2(max(times, 1.0)) / log2(MOST_TIMES), 1.0) * self._calm)


class Measure(NamedTuple):
    """A measure of tokens. `scale`, given the last step, makes the function from value to heat for one reply; `hot` and `calm`
    are the values at its ends."""

    column: Callable[[TokenColumns], array[float] | array[int]]
    scale: Callable[[int], Callable[..., int]]
    hot: str
    calm: str


MEASURES: dict[MeasureName, Measure] = {
    "probability": Measure(
        attrgetter("probabilities"), lambda calm: partial(probability_heat, calm=calm), "0%", "100%"
    ),
    "entropy": Measure(
        attrgetter("entropies"), lambda calm: partial(entropy_heat, calm=calm), "6 bit and more", "0 bit"
    ),
    "rank": Measure(
        attrgetter("ranks"), lambda calm: partial(rank_heat, calm=calm), "256 and beyond", "0, the likeliest"
    ),
    "time": Measure(attrgetter("decode_us"), TimeHeat, "4 × the median", "the median"),
}
