"""Drafts: tokens that are guessed, and decoded in one batch with the newest one.

If the dice then take what was guessed, the rows after it are there already. A batch costs more than a row, so that a draft pays
only where enough of it is taken. T(n) is the time of a batch of n rows, that of one row being 1. Of k drafted tokens, each of
which is taken with probability a where those before it are, 1 + a + a² + … + a^k tokens come out of a batch on average: it pays
if that is more than T(k + 1), and more than what it takes to make the draft besides.

Here is where a draft comes from without a model (`Lookup`): from what followed the same tokens before. Whether that would have
been right is counted at every step, for nothing (`Counts`), also where nothing is drafted. So it is known where a draft pays.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from statistics import median
from typing import Literal

import msgspec

By = Literal["off", "ngram", "model", "auto"]
MOST_DRAFTED = 15
"""Tokens of the longest draft: one fewer than the rows of a batch, which cost least in multiples of 4."""

NGRAM = 3
"""Tokens that have been there before, for those behind them to be looked at."""
_LONGEST = 16
"""Tokens of a match, beyond which it is not compared."""

_MATCHES = (4, 6, 10, 16)
"""Lengths of a match that are counted apart: below the first, from it to below the second, and so on."""
_PRIORS = ((0.0, 1.5), (0.3, 1.0), (1.5, 0.5), (4.0, 0.4), (8.0, 0.4))
"""Right and wrong ones of each length before any are counted, from recorded replies: copies, code, lists and stories."""
_DECAY = 0.97
_ENOUGH = 6.0
"""So many counted ones are enough; with fewer, those of shorter matches count too."""
_GAIN = 1.08
"""How many times as fast it has to be for a draft to be made."""

_SIZES = (1, 2, 3, 4, 6, 8, 12, 16)
_TIMES = {
    1: (1.0, 1.88, 2.55, 2.94, 4.28, 4.98, 7.17, 9.14),
    2: (1.0, 1.82, 2.08, 2.37, 3.48, 4.18, 5.86, 7.62),
}
"""T(n) of a small model with that many threads, until it is measured."""
_RECENT = 9


class DraftSettings(msgspec.Struct, frozen=True, array_like=True):
    """Who drafts: nobody, the context itself, the draft model, or whichever of them pays; and how many tokens at most."""

    by: By = "auto"
    most: int = MOST_DRAFTED

    @property
    def on(self) -> bool:
        return self.by != "off" and self.most > 0


class Lookup:
    """The newest earlier place of the last `NGRAM` ids, while ids come. A few microseconds an id."""

    def __init__(self, ids: Iterable[int] = ()) -> None:
        self.ids: list[int] = []
        self._after: dict[tuple[int, ...], int] = {}
        self._found = 0
        for token in ids:
            self.push(token)

    def push(self, token: int) -> None:
        ids = self.ids
        ids.append(token)
        if len(ids) >= NGRAM:
            key = tuple(ids[-NGRAM:])
            self._found = self._after.get(key, 0)
            self._after[key] = len(ids)

    @property
    def match(self) -> int:
        """How many of the last ids stand before the place too, as far as that is compared; 0 without one."""
        ids, found, end = self.ids, self._found, len(self.ids)
        if not found:
            return 0
        length = NGRAM
        while length < min(_LONGEST, found) and ids[found - 1 - length] == ids[end - 1 - length]:
            length += 1
        return length

    @property
    def following(self) -> int | None:
        """The id behind the place."""
        return self.ids[self._found] if self._found else None

    def draft(self, count: int) -> list[int]:
        """The ids behind the place. Where these are the last ones, they go on with themselves."""
        if not self._found:
            return []
        made = self.ids[self._found : self._found + count]
        while len(made) < count:
            made += made[: count - len(made)]
        return made


class Counts:
    """How often the id behind a match was right, by the length of the match; old ones count less and less."""

    def __init__(self) -> None:
        self._counts = [list(prior) for prior in _PRIORS]

    def add(self, match: int, *, right: bool) -> None:
        counts = self._counts[_group(match)]
        counts[:] = [count * _DECAY for count in counts]
        counts[not right] += 1

    def rate(self, match: int) -> float:
        """The share that is right with a match of this length."""
        right = wrong = 0.0
        for group in range(_group(match), -1, -1):
            right, wrong = right + self._counts[group][0], wrong + self._counts[group][1]
            if right + wrong > _ENOUGH:
                break
        return right / (right + wrong)


def _group(match: int) -> int:
    return sum(match >= length for length in _MATCHES)


class BatchTimes:
    """T(n), from the times of the newest batches with so many `threads`. Made again after some batches, since it is asked for
    at every step."""

    def __init__(self, threads: int) -> None:
        table = dict(zip(_SIZES, _TIMES[min(threads, max(_TIMES))], strict=True))
        self._prior = [0.0, *(_between(table, rows) for rows in range(1, _SIZES[-1] + 1))]
        self._times = self._prior
        self._us: defaultdict[int, deque[float]] = defaultdict(lambda: deque(maxlen=_RECENT))
        self._added = 0

    def add(self, rows: int, us: float) -> None:
        self._added += 1
        self._us[rows].append(us)
        if self._added >= _RECENT or len(self._us[rows]) == 1:
            self._added = 0
            self._times = [self._made(count) for count in range(len(self._prior))]

    def of(self, rows: int) -> float:
        """What a batch of 1 to 16 rows costs. One of a size that was not measured is to the nearest measured one as by the
        table."""
        return self._times[rows]

    def _made(self, rows: int) -> float:
        sizes = [size for size in self._us if size > 1]
        if rows < 2 or not sizes or 1 not in self._us:
            return self._prior[rows]
        size = min(sizes, key=lambda size: abs(size - rows))
        return max(median(self._us[size]) / median(self._us[1]) * self._prior[rows] / self._prior[size], 1.0)


def _between(table: dict[int, float], rows: int) -> float:
    low, high = max(size for size in table if size <= rows), min(size for size in table if size >= rows)
    share = (rows - low) / (high - low) if high > low else 0.0
    return table[low] + (table[high] - table[low]) * share


Times = Callable[[int], float]
"""T(n)."""


def gain(rates: Iterable[float], times: Times, each: float = 0.0) -> Iterator[float]:
    """How many times as fast it is, on average, with one drafted token, with two, and so on: `rates` are the probabilities that
    each is taken if those before it are, `each` is what it takes to draft one."""
    tokens = likely = 1.0
    for count, rate in enumerate(rates, 1):
        likely *= rate
        tokens += likely
        yield tokens / (times(count + 1) + count * each)


def how_many(rates: Iterable[float], times: Times, each: float = 0.0) -> int:
    """How many tokens to draft so that it is fastest; 0 where none pays. As `gain`."""
    best, most = 0, _GAIN
    for count, value in enumerate(gain(rates, times, each), 1):
        if value > most:
            best, most = count, value
    return best


def breaks_even(times: Times, most: int, each: float = 0.0) -> float:
    """The least probability, the same for each token, from which a draft of up to `most` tokens pays; 1.0 where none does."""
    low, high = 0.0, 1.0
    while high - low > 1e-3:
        middle = (low + high) / 2
        if max(gain([middle] * most, times, each)) > 1:
            high = middle
        else:
            low = middle
    return high


class Judge:
    """Whether drafts pay. `why` says why they do not: none are made then, and after a while they are tried again.

    Of rounds (batches with a draft) it counts what they gave and what they cost. Where none are made, since what is there to
    draft from was mostly wrong, it says that too.
    """

    ROUNDS, TOKENS = 16, 24
    """Newest rounds that are looked at, and how many drafted tokens they have at least."""
    REST, LONGEST = 32, 512
    """Tokens without a draft; each time in a row twice as many."""
    SHADOWS, IDLE = 12, 64
    """How many guesses are enough to say what they are worth, and how many tokens without a draft."""

    def __init__(self) -> None:
        self.why = ""
        self._rounds: deque[tuple[int, int, float]] = deque(maxlen=self.ROUNDS)
        self._guesses: deque[bool] = deque(maxlen=self.IDLE)
        self._wait, self._left, self._idle = self.REST, 0, 0

    @property
    def rests(self) -> bool:
        """Whether nothing is to be drafted."""
        return self._left > 0

    def guess(self, *, right: bool) -> None:
        """What would have been drafted was right, or not."""
        self._guesses.append(right)

    def plain(self, break_even: Callable[[], float]) -> None:
        """A token came without a draft."""
        self._idle += 1
        if self._left:
            self._left -= 1
            if not self._left:
                self.why, self._idle = "", 0
        elif self._idle % self.IDLE == 0:
            count, even = len(self._guesses), break_even()
            share = sum(self._guesses) / count if count else 0.0
            self.why = told(share, even) if count >= self.SHADOWS and share < even else ""

    def round(self, drafted: int, accepted: int, cost: float, break_even: Callable[[], float]) -> None:
        """A round is over that cost as much as so many rows alone."""
        self._idle = 0
        if not self._left:
            self.why = ""
        self._rounds.append((drafted, accepted, cost))
        all_drafted, all_accepted, all_cost = map(sum, zip(*self._rounds, strict=True))
        if all_drafted < self.TOKENS:
            return
        if all_accepted + len(self._rounds) < all_cost:
            self.why = told(all_accepted / all_drafted, break_even())
            self._left, self._wait = self._wait, min(2 * self._wait, self.LONGEST)
            self._rounds.clear()
        elif len(self._rounds) == self.ROUNDS:
            self._wait = self.REST


def told(accepted: float, even: float) -> str:
    """Both as people read them."""
    pays = f"breaks even at {even:.0%}" if even < 1 else "never pays here"
    return f"accepted {accepted:.0%}, {pays}".replace("%", " %")
