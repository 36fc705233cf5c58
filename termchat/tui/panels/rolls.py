"""Many draws from the distribution of one step: how often the dice would take each of its candidates."""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterable
from typing import NamedTuple

from termchat.decoding.records import Token

SIZES = (100, 1000, 10_000)
"""How many rolls come first, and how many in all when one asks again."""
MOST = 100_000
_DUST = 1e-6
"""Less than so much in all is what rounding has left of no probability."""
_SEEDS = 2**31


def missing(shares: Iterable[float]) -> float:
    """What these probabilities leave of 1."""
    left = 1.0 - math.fsum(shares)
    return left if left > _DUST else 0.0


def can_roll(token: Token) -> bool:
    """Whether it is known what the token was drawn from."""
    return any(not math.isnan(candidate.probability) for candidate in token.candidates)


class Rolled(NamedTuple):
    """How many of `n` rolls took each candidate, by its id; the rest took tokens that are not on record."""

    n: int
    counts: dict[int, int]


class Rolls:
    """`n` rolls at step `step` of the reply that `node` is a piece of; roll i has the seed `first` + i.

    The seeds stay while the distribution changes, as it does when a knob is turned.
    """

    def __init__(self, node: int, step: int, n: int, first: int) -> None:
        self.node, self.step, self.n, self.first = node, step, n, first
        self._token: Token | None = None
        self._rolled: Rolled | None = None

    def of(self, token: Token) -> Rolled:
        if self._rolled is None or self._token is not token:
            self._token, self._rolled = token, self._roll(token)
        return self._rolled

    def is_at(self, node: int, step: int) -> bool:
        return (self.node, self.step) == (node, step)

    def _roll(self, token: Token) -> Rolled:
        from termchat.decoding.draw import OTHERS, count_rolls  # numpy, which nobody needs who does not roll

        left = {candidate.id: candidate.probability for candidate in token.candidates}
        left[OTHERS] = missing(left.values())
        counts = count_rolls(left, range(self.first, self.first + self.n), token.step)
        del counts[OTHERS]
        return Rolled(self.n, counts)


def next_size(n: int) -> int:
    """How many rolls come after so many."""
    return next((size for size in SIZES if size > n), SIZES[0])


def more(before: Rolls | None, node: int, step: int, n: int = 0, first: int | None = None) -> Rolls:
    """The rolls that come after those `before`: at the same step the next size, which begins with the same seeds; else the
    first size, with fresh seeds. Or `n`, from the seed `first`, where these are given."""
    again = before if before is not None and before.is_at(node, step) else None
    n = n or next_size(again.n if again is not None else 0)
    if first is None:
        first = again.first if again is not None and again.n < n else secrets.randbelow(_SEEDS)
    return Rolls(node, step, n, first)
