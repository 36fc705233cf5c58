"""The looks: how replies are shown. In a token look every token stands on a ground whose heat is a measure of its step.

Heat runs from 0, what stands out, to HEATS - 1, what was to be expected; themes have its colours.
"""

from __future__ import annotations

from array import array
from bisect import insort
from collections.abc import Callable, Sequence
from math import log2
from operator import attrgetter
from typing import Literal, NamedTuple, get_args
from weakref import WeakKeyDictionary

from termchat.conversation.tree import TokenColumns
from termchat.tui.draw.ink import HEATS

TokenLook = Literal["probability", "entropy", "rank", "time"]
Look = Literal["reading", "probability", "entropy", "rank", "time"]

TOKEN_LOOKS: tuple[TokenLook, ...] = get_args(TokenLook)
LOOKS: tuple[Look, ...] = get_args(Look)

CALM = HEATS - 1
MOST_BITS = 6.0
MOST_RANK = 256
MOST_TIMES = 4.0
MEDIAN_OF = 512
"""Steps of a reply whose median is the measure of its pace."""


def probability_heat(probability: float) -> int:
    """1 is calm, 0 hot. The square root spreads the improbable ones out."""
    return int(min(max(0.0, probability), 1.0) ** 0.5 * CALM)


def entropy_heat(bits: float) -> int:
    """0 bits are calm, 6 and more hot, straight in between."""
    return CALM - int(min(max(0.0, bits) / MOST_BITS, 1.0) * CALM)


def rank_heat(rank: int) -> int:
    """Rank 0 is calm; rank 1 is a third of the way to hot, which 256 and more are: by the logarithm in between."""
    if rank <= 0:
        return CALM
    return int(CALM * 2 / 3 * (1 - min(log2(rank) / log2(MOST_RANK), 1.0)))


class TimeHeat:
    """Of times in the order in which they come: the median so far, or less, is calm, four times as much hot.

    It goes by the logarithm in between. The median is that of the reply's first 512 steps, as far as they have come: what
    a token looked like when it came does not change, and a reply that gets slower turns hot.
    """

    def __init__(self) -> None:
        self._seen: list[int] = []

    def __call__(self, time: int) -> int:
        """The heat of the next time."""
        if len(self._seen) < MEDIAN_OF:
            insort(self._seen, time)
        times = time / max(self._seen[len(self._seen) // 2], 1)
        return CALM - int(min(log2(max(times, 1.0)) / log2(MOST_TIMES), 1.0) * CALM)


class LookMeasure(NamedTuple):
    """What a token look shows: a column, a new scale for each reply, and what the two ends of the scale stand for."""

    column: Callable[[TokenColumns], array[float] | array[int]]
    scale: Callable[[], Callable[..., int]]
    hot: str
    calm: str


MEASURES: dict[TokenLook, LookMeasure] = {
    "probability": LookMeasure(attrgetter("probabilities"), lambda: probability_heat, "0%", "100%"),
    "entropy": LookMeasure(attrgetter("entropies"), lambda: entropy_heat, "6 bit and more", "0 bit"),
    "rank": LookMeasure(attrgetter("ranks"), lambda: rank_heat, "256 and beyond", "0, the likeliest"),
    "time": LookMeasure(attrgetter("decode_us"), TimeHeat, "4 × the median", "the median"),
}

_Reading = tuple[bytearray, Callable[..., int]]
_readings: WeakKeyDictionary[TokenColumns, dict[TokenLook, _Reading]] = WeakKeyDictionary()


def heats(tokens: TokenColumns, look: TokenLook) -> Sequence[int]:
    """The heat of each token that there is so far, one byte each. Every token is measured once; the bytes stay the same."""
    measure = MEASURES[look]
    known = _readings.setdefault(tokens, {})
    if look not in known:
        known[look] = bytearray(), measure.scale()
    read, scale = known[look]
    if len(read) < len(tokens):
        read.extend(map(scale, measure.column(tokens)[len(read) :]))
    return read
