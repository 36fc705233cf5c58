"""How hot a token is: step 0, the hottest, stands out; step `calm`, the last of a scale, was to be expected.

The screen and the HTML page use the same scales, each with as many steps as it has colours.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Sequence
from functools import partial
from math import exp, isfinite, log2
from typing import Literal, NamedTuple

from termchat.conversation.tree import TokenColumns

MOST_BITS = 6.0
MOST_RANK = 256
MOST_TIMES = 4.0
MEDIAN_OF = 512
"""Steps of a reply whose median time the others are compared with."""

MeasureName = Literal["probability", "after", "entropy", "rank", "time"]


def probability_heat(probability: float, calm: int) -> int:
    """Map a probability to heat: 1 is calm, 0 hot. The square root spreads the improbable ones out."""
    return int(min(max(0.0, probability), 1.0) ** 0.5 * calm) if isfinite(probability) else calm


def logprob_heat(logprob: float, calm: int) -> int:
    """`probability_heat` of a probability that is given by its natural log."""
    return probability_heat(exp(min(logprob, 0.0)), calm) if isfinite(logprob) else calm


def entropy_heat(bits: float, calm: int) -> int:
    """Map an entropy to heat: 0 bits are calm, 6 and more hot; linear between them."""
    return calm - int(min(max(0.0, bits) / MOST_BITS, 1.0) * calm) if isfinite(bits) else calm


def rank_heat(rank: int, calm: int) -> int:
    """Map a rank to heat: 0 is calm, 1 a third of the way to hot, 256 and more are hot; logarithmic between them."""
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
    """A measure of tokens, and what people call it. `read` gives it of the tokens from one to another. `scale`, given the last
    step, makes the function from value to heat for one reply; `hot` and `calm` are the values at its ends. `judges`: it says
    how far the token itself was to be expected. `rises`: `calm` is the higher of the two values."""

    title: str
    read: Callable[[TokenColumns, int, int], Sequence[float]]
    scale: Callable[[int], Callable[..., int]]
    hot: str
    calm: str
    judges: bool = False
    rises: bool = False


def _read_column(name: str) -> Callable[[TokenColumns, int, int], Sequence[float]]:
    return lambda tokens, begin, end: getattr(tokens, name)[begin:end]


MEASURES: dict[MeasureName, Measure] = {
    "probability": Measure(
        "probability (model)", _read_column("logprobs"), lambda calm: partial(logprob_heat, calm=calm), "0%", "100%",
        judges=True, rises=True,
    ),
    "after": Measure(
        "after (chain)", _read_column("probabilities"), lambda calm: partial(probability_heat, calm=calm), "0%", "100%",
        judges=True, rises=True,
    ),
    "entropy": Measure(
        "entropy", _read_column("entropies"), lambda calm: partial(entropy_heat, calm=calm), "6 bit and more", "0 bit"
    ),
    "rank": Measure(
        "rank", _read_column("ranks"), lambda calm: partial(rank_heat, calm=calm), "257 and beyond", "1, the likeliest",
        judges=True,
    ),
    "time": Measure("time", TokenColumns.row_us, TimeHeat, "4 × the median", "the median"),
}  # fmt: skip
"""`probability` is the model's own, at temperature 1 and before any sampler; `after` is what the draw was made from, after the
whole chain."""


class Heats:
    """The heat of each token of one reply by a measure, one byte each, 0 to `calm`. Every token is measured once; its byte does
    not change later. A token that a person forced was not drawn, so no measure that judges a draw makes it hot."""

    def __init__(self, name: MeasureName, calm: int) -> None:
        self._measure, self._calm = MEASURES[name], calm
        self._scale = self._measure.scale(calm)
        self._read = bytearray()

    def compute_heats(self, tokens: TokenColumns) -> bytearray:
        """Return the heat of all tokens so far; always of the same reply."""
        begin, end = len(self._read), len(tokens)
        if begin < end:
            self._read.extend(map(self._scale, self._measure.read(tokens, begin, end)))
            forced = tokens.by_hand[begin:end]
            if self._measure.judges and 1 in forced:
                self._read[begin:] = (
                    self._calm if chosen else heat for heat, chosen in zip(self._read[begin:], forced, strict=True)
                )
        return self._read
