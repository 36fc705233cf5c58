"""Where things of known height stand when they are stacked."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate


class Heights:
    """Heights as prefix sums: a place is found by bisection, and a change at the end costs only what stands after it."""

    def __init__(self) -> None:
        self._tops = [0]

    def __len__(self) -> int:
        return len(self._tops) - 1

    @property
    def total(self) -> int:
        return self._tops[-1]

    def top(self, index: int) -> int:
        return self._tops[index]

    def at(self, y: int) -> int:
        """The index of the thing that line `y` is part of; the nearest, where `y` is outside."""
        return min(max(bisect_right(self._tops, y) - 1, 0), max(len(self) - 1, 0))

    def replace(self, index: int, heights: Iterable[int]) -> None:
        self._tops[index:] = accumulate(heights, initial=self._tops[index])
