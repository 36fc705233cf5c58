"""Drafts: tokens that are guessed, and decoded in one batch with the newest one.

If the dice then take what was guessed, the rows after it are there already. A batch costs more than a row, so that a draft pays
only where enough of it is taken. T(n) is the time of a batch of n rows, that of one row being 1. Of k drafted tokens, each of
which is taken with probability a where those before it are, 1 + a + a² + … + a^k tokens come out of a batch on average: it pays
if that is more than T(k + 1), and more than what it takes to make the draft besides.

Here is where a draft comes from without a model (`Ngrams`): from what followed the same tokens before. Whether that would have
been right is counted at every step, for nothing (`Counts`), also where nothing is drafted. So it is known where a draft pays.
Counts and risk are each reply's own: on recorded replies, those of a text that was copied made free text after it up to 18 %
slower, and those of free text kept copies after it from being drafted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from math import inf
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
_PRIORS = ((1.0, 4.0), (2.0, 2.0), (4.0, 1.2), (5.0, 0.4), (8.0, 0.4))
"""Right and wrong ones of each length before any are counted, chosen on 90 recorded replies: copies, edits, quotes, code, lists
and stories."""
_DECAY = 0.95
_GAIN = 1.08
"""How many times as fast it has to be for a draft to be made."""
_RISK, _RISK_EACH, _RISK_RIGHT, _MOST_RISK = 3.0, 0.005, 0.1, 30.0
"""What the drafts of a reply may lose, in rows: in all, for each of its tokens besides, for each that was right after one of
the longest matches, and at most, once they have gained. On recorded replies more than that made free text slower than 0.98
times plain; less kept copies from being drafted early."""
_ROWS = 4
"""Rows cost least in multiples of so many: the products of K-quants take these at once, and the remaining rows one by one."""
_GUESS = 0.5
"""What each row more costs until that is measured: drafts are tried, and decide nothing."""
_RECENT, _SINGLES, _FRESH, _WEIGHT = 9, 5, 3, 4
"""Newest batches of a size that count; newest single rows that one is compared with, and after how many batches these are too
old; and as how many batches a measurement counts, and a guess as one."""
_SURE = 0.95
"""The acceptance that drafts of a model have at best."""
WORTH = 1.1
"""How many times as fast a draft model has to make replies at best; else it is not tried."""


class DraftSettings(msgspec.Struct, frozen=True, array_like=True):
    """Who drafts: nobody, the context itself, the draft model, or whichever of them pays; how many tokens at most; and whether
    `always`, also where drafts do not pay."""

    by: By = "auto"
    most: int = MOST_DRAFTED
    always: bool = False

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
        right, wrong = self._counts[_group(match)]
        return right / (right + wrong)


class Ngrams:
    """Drafts what followed the same ids before, as many as pay, in one reply after these `ids`.

    A draft is not made where it could lose more than the drafts so far have gained and what may be lost besides.
    """

    def __init__(self, ids: Iterable[int]) -> None:
        self.lookup, self.counts = Lookup(ids), Counts()
        self.credit = _RISK
        """What the next draft may lose, in rows."""

    def push(self, token: int) -> bool | None:
        """The next id is there: whether it would have been drafted; None where there was nothing to draft from."""
        lookup, right = self.lookup, None
        if match := lookup.match:
            right = lookup.following == token
            self.counts.add(match, right=right)
            if right and match >= _LONGEST:
                self._earn(_RISK_RIGHT)
        lookup.push(token)
        return right

    def paid(self, tokens: int, rows: float) -> None:
        """So many tokens came out of a batch that cost as much as so many rows alone."""
        self._earn(tokens * (1 + _RISK_EACH) - rows)

    def _earn(self, rows: float) -> None:
        self.credit = min(self.credit + rows, _MOST_RISK)

    def count(self, most: int, times: Times) -> int:
        """How many ids to draft, up to `most`; 0 where none pay with these `times`."""
        return how_many(self.rates(most), times, risk=self.credit)

    def rates(self, most: int) -> Iterator[float]:
        """The probability of each of the next ids to be right if those before it are; none where nothing is to draft from."""
        match, rate = self.lookup.match, self.counts.rate
        return (rate(match + ahead) for ahead in range(most if match else 0))

    def draft(self, most: int, times: Times) -> list[int]:
        """As many ids as `count` says."""
        return self.lookup.draft(self.count(most, times))


def _group(match: int) -> int:
    return sum(match >= length for length in _MATCHES)


class BatchTimes:
    """T(n) as `measured` for the model by number of rows, else guessed, until the newest batches tell. These are compared with
    the single rows just before them, since a machine is now slower and now faster; and what was known before counts as some of
    them, since other programs may disturb all of a few. What is not `measured` decides nothing for good."""

    def __init__(self, measured: Mapping[int, float] | None = None) -> None:
        known = _known(measured or {})
        self.measured = bool(known)
        rows = range(MOST_DRAFTED + 2)
        self._prior = _fill_up(known) if known else [1 + _GUESS * (count - 1) if count else 0.0 for count in rows]
        self._times = self._prior
        self._singles: deque[float] = deque(maxlen=_SINGLES)
        self._batches = 0
        self._ratios: dict[int, deque[float]] = {}

    def add(self, rows: int, us: float) -> None:
        """A batch of so many rows took so many microseconds."""
        if rows == 1:
            self._singles.append(us)
            self._batches = 0
            return
        self._batches += 1
        if self._batches > _FRESH or not self._singles or rows >= len(self._prior):
            return
        single = median(self._singles)
        self._ratios.setdefault(rows, deque(maxlen=_RECENT)).append(us / single if single else self._prior[rows])
        self._times = [self._made(count) for count in range(len(self._prior))]

    def of(self, rows: int) -> float:
        """What a batch of 1 to 16 rows costs. One of a size that was not seen is to the nearest seen one as it was before."""
        return self._times[rows]

    def breaks_even(self, most: int, each: float = 0.0) -> float | None:
        """See `breaks_even`; None where the costs are guessed."""
        return breaks_even(self.of, most, each) if self.measured else None

    def _made(self, rows: int) -> float:
        if rows < 2:
            return self._prior[rows]
        size = min(self._ratios, key=lambda size: abs(size - rows))
        before = self._prior[size]
        known = [before] * (_WEIGHT if self.measured else 1)
        return max(median([*self._ratios[size], *known]) * self._prior[rows] / before, 1.0)


def _known(measured: Mapping[int, float]) -> dict[int, float]:
    """Only what can be: it may be read from a file."""
    return {rows: max(time, 1.0) for rows, time in measured.items() if rows > 1 and 0 < time < inf}


def _fill_up(measured: Mapping[int, float]) -> list[float]:
    """Return T(0) to T(16) from those `measured`. Multiples of four are on the line between the measured ones; of the way from
    4q to 4q + 4 rows, r more rows cost the share that T(r) is of T(4)."""
    known = {1: 1.0, **measured}
    fours = {rows: time for rows, time in known.items() if rows == 1 or rows % _ROWS == 0}
    if len(fours) == 1:
        fours = known
    times = [0.0, 1.0]
    for rows in range(2, MOST_DRAFTED + 2):
        whole, rest = rows - rows % _ROWS, rows % _ROWS
        if rows in known:
            time = known[rows]
        elif rest and whole:
            time = times[whole] + (_between(fours, whole + _ROWS) - times[whole]) * times[rest] / _between(fours, _ROWS)
        elif rows == 3 and 2 in known:
            time = 2 * known[2] - 1
        else:
            time = _between(fours, rows)
        times.append(max(time, 1.0))
    return times


def _between(table: Mapping[int, float], rows: int) -> float:
    """T(rows) on the line between the sizes next to it, or through the two largest ones."""
    low = max(size for size in table if size <= rows)
    high = min((size for size in table if size >= rows), default=0)
    if not high:
        low, high = sorted(table)[-2:]
    share = (rows - low) / (high - low) if high > low else 0.0
    return table[low] + (table[high] - table[low]) * share


Times = Callable[[int], float]
"""T(n)."""


def gain(rates: Iterable[float], times: Times, each: float = 0.0) -> Iterator[float]:
    """How many times as fast it is, on average, with one drafted token, with two, and so on: `rates` are the probabilities that
    each is taken if those before it are, `each` is what it takes to draft one. If all are taken, the last is read, too."""
    tokens = likely = 1.0
    for count, rate in enumerate(rates, 1):
        likely *= rate
        tokens += likely
        yield tokens / (times(count + 1) + (count + likely) * each)


def how_many(rates: Iterable[float], times: Times, each: float = 0.0, risk: float = inf) -> int:
    """How many tokens to draft so that it is fastest; 0 where none pays, or all could lose more than `risk` rows. As `gain`."""
    best, most, values = 0, _GAIN, list(gain(rates, times, each))
    for count, value in enumerate(values, 1):
        full = (count + 1) % _ROWS == 0 or count in (1, len(values))
        if full and value > most and times(count + 1) - 1 <= risk:
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


def gain_at_best(times: Times, each: float) -> float:
    """Return how many times as fast replies get at best with a draft model whose tokens cost `each`."""
    return max(gain([_SURE] * MOST_DRAFTED, times, each))


def tell_cost(model: str, each: float, times: Times) -> str:
    """Why a draft model is not used: what it costs and could gain."""
    best = gain_at_best(times, each)
    return f"draft model {model}: a token costs {each:.2f} of one here, at best {best:.2f} times as fast"


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

    def plain(self, break_even: Callable[[], float | None]) -> None:
        """A token came without a draft. `break_even` is None where it is only guessed: that says nothing."""
        self._idle += 1
        if self._left:
            self._left -= 1
            if not self._left:
                self.why, self._idle = "", 0
        elif self._idle % self.IDLE == 0:
            count, even = len(self._guesses), break_even()
            share = sum(self._guesses) / count if count else 0.0
            self.why = told(share, even) if count >= self.SHADOWS and even is not None and share < even else ""

    def round(self, drafted: int, accepted: int, cost: float, break_even: Callable[[], float | None]) -> None:
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


def told(accepted: float, even: float | None) -> str:
    """Both as people read them, as far as they are known."""
    pays = "" if even is None else f", breaks even at {even:.0%}" if even < 1 else ", never pays here"
    return f"accepted {accepted:.0%}{pays}"
