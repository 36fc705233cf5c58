"""Drafts: tokens that are guessed, and decoded in one batch with the newest one.

If the dice then take what was guessed, the rows after it are there already. A batch costs more than a row, so that a draft pays
only where enough of it is taken. T(n) is the time of a batch of n rows, that of one row being 1. Of k drafted tokens, each of
which is taken with probability a where those before it are, 1 + a + a² + … + a^k tokens come out of a batch on average: it pays
if that is more than T(k + 1), and more than what it takes to make the draft besides.

Without a model a draft is the tokens that followed the same tokens before (`Ngrams`). Whether they would have been right is
counted at every step, for nothing (`Counts`), also where nothing is drafted: that tells where a draft pays, and what a
finished reply would have gained (`forecast_drafts`). Counts and risk are each reply's own: on recorded replies, those of a
text that was copied made free text after it up to 18 % slower, and those of free text kept copies after it from being
drafted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import takewhile
from math import inf
from typing import Literal, NamedTuple

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
    """The drafter (none, the context itself, the draft model, or the one that pays), the most tokens of a draft, and whether to
    draft `always`, also where that does not pay."""

    by: By = "auto"
    most: int = MOST_DRAFTED
    always: bool = False

    @property
    def on(self) -> bool:
        return self.by != "off" and self.most > 0


class Verified(NamedTuple):
    """The outcome of a decode of `rows` rows in `us` microseconds. For the drafter of its draft: how many tokens were `drafted`
    and how many of them `accepted`; 0 for other drafters."""

    rows: int
    us: int
    drafted: int
    accepted: int = 0


class Counts:
    """How often guesses were right, by a number for their quality; old guesses fade.

    Guesses with a number below the first of the `bounds` are counted together, from there to below the second, and so on;
    `priors` are the right and wrong ones of each such group before any are counted.
    """

    def __init__(self, bounds: Sequence[float], priors: Sequence[tuple[float, float]], decay: float) -> None:
        self._bounds, self._decay = bounds, decay
        self._counts = [list(prior) for prior in priors]
        self._all = [2.0, 1.0]

    def add(self, quality: float, *, right: bool) -> None:
        """Count a guess."""
        for counts in (self._find_group(quality), self._all):
            counts[:] = [count * self._decay for count in counts]
            counts[not right] += 1

    def read_rate(self, quality: float) -> float:
        """Return the share of right guesses of such a quality."""
        right, wrong = self._find_group(quality)
        return right / (right + wrong)

    @property
    def mean(self) -> float:
        """The share of right guesses of all."""
        return self._all[0] / sum(self._all)

    def _find_group(self, quality: float) -> list[float]:
        return self._counts[sum(quality >= bound for bound in self._bounds)]


class BatchTimes:
    """T(n) by number of rows, `measured` for the model or else guessed, then updated by the newest batches. These are
    compared with the single rows just before them, since the speed of a machine varies; earlier values count as some of
    them, since other programs may disturb a few. Until they are `measured`, no decision is final.
    """

    def __init__(self, measured: Mapping[int, float] | None = None) -> None:
        # Impossible times may be read from a file.
        known = {rows: max(us, 1.0) for rows, us in (measured or {}).items() if rows > 1 and 0 < us < inf}
        self.measured = bool(known)
        rows = range(MOST_DRAFTED + 2)
        self._prior = _fill_up(known) if known else [1 + _GUESS * (count - 1) if count else 0.0 for count in rows]
        self._times = self._prior
        self._singles: deque[float] = deque(maxlen=_SINGLES)
        self._batches = 0
        self._ratios: dict[int, deque[float]] = {}

    def add(self, rows: int, us: float) -> None:
        """Count a batch of so many rows that took so many microseconds."""
        if rows == 1:
            self._singles.append(us)
            self._batches = 0
            return
        self._batches += 1
        if self._batches > _FRESH or not self._singles or rows >= len(self._prior):
            return
        single = _median(self._singles)
        self._ratios.setdefault(rows, deque(maxlen=_RECENT)).append(us / single if single else self._prior[rows])
        self._times = [self._estimate_cost(count) for count in range(len(self._prior))]

    def read_cost(self, rows: int) -> float:
        """Return the cost of a batch of 1 to 16 rows. A size that was not seen is to the nearest seen one as it was before."""
        return self._times[rows]

    def breaks_even(self, most: int, each: float = 0.0) -> float | None:
        """Return the result of the function `breaks_even`; None while the costs are guessed."""
        return breaks_even(self.read_cost, most, each) if self.measured else None

    def _estimate_cost(self, rows: int) -> float:
        if rows < 2:
            return self._prior[rows]
        size = min(self._ratios, key=lambda size: abs(size - rows))
        before = self._prior[size]
        known = [before] * (_WEIGHT if self.measured else 1)
        return max(_median([*self._ratios[size], *known]) * self._prior[rows] / before, 1.0)


def _median(values: Collection[float]) -> float:
    """Return the median; `statistics` has it too, but takes longer to import than the first frame should wait."""
    ordered, half = sorted(values), len(values) // 2
    return (ordered[half] + ordered[~half]) / 2


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
            time = times[whole] + (_interpolate_cost(fours, whole + _ROWS) - times[whole]) * times[
                rest
            ] / _interpolate_cost(fours, _ROWS)
        elif rows == 3 and 2 in known:
            time = 2 * known[2] - 1
        else:
            time = _interpolate_cost(fours, rows)
        times.append(max(time, 1.0))
    return times


def _interpolate_cost(table: Mapping[int, float], rows: int) -> float:
    """Return T(rows) on the line between the sizes next to it, or through the two largest ones."""
    low = max(size for size in table if size <= rows)
    high = min((size for size in table if size >= rows), default=0)
    if not high:
        low, high = sorted(table)[-2:]
    share = (rows - low) / (high - low) if high > low else 0.0
    return table[low] + (table[high] - table[low]) * share


Times = Callable[[int], float]
"""T(n)."""


def compute_gains(rates: Iterable[float], times: Times, each: float = 0.0) -> Iterator[float]:
    """Yield the mean speedup with one drafted token, with two, and so on: `rates` are the probabilities that each is taken
    after those before it, `each` is the cost of drafting one. If all are taken, the last one is read, too.
    """
    tokens = likely = 1.0
    for count, rate in enumerate(rates, 1):
        likely *= rate
        tokens += likely
        yield tokens / (times(count + 1) + (count + likely) * each)


def how_many(rates: Iterable[float], times: Times, risk: float = inf) -> int:
    """Return the fastest number of tokens to draft; 0 if none pays, or all could lose more than `risk` rows. As `gain`."""
    best, most, values = 0, _GAIN, list(compute_gains(rates, times))
    for count, value in enumerate(values, 1):
        full = (count + 1) % _ROWS == 0 or count in (1, len(values))
        if full and value > most and times(count + 1) - 1 <= risk:
            best, most = count, value
    return best


def breaks_even(times: Times, most: int, each: float = 0.0) -> float:
    """Return the least probability, the same for each token, from which a draft of up to `most` tokens pays; 1.0 if none."""
    low, high = 0.0, 1.0
    while high - low > 1e-3:
        middle = (low + high) / 2
        if max(compute_gains([middle] * most, times, each)) > 1:
            high = middle
        else:
            low = middle
    return high


def gain_at_best(times: Times, each: float) -> float:
    """Return the speedup at best with a draft model whose tokens cost `each`."""
    return max(compute_gains([_SURE] * MOST_DRAFTED, times, each))


def explain_cost(model: str, each: float, times: Times) -> str:
    """Explain why a draft model is not used: its cost, and its possible gain."""
    best = gain_at_best(times, each)
    return f"draft model {model}: a token costs {each:.2f} of one here, at best {best:.2f} times as fast"


class Judge:
    """Decides whether drafts pay. `why` says why not: then none are made, and after a while they are tried again.

    It rests for `rest` tokens, each time in a row for twice as many, up to `longest`. It counts the tokens and the
    costs of rounds (batches with a draft), and says so if none are made since guesses were mostly wrong.
    """

    ROUNDS, TOKENS = 16, 24
    """Newest rounds that are looked at, and how many drafted tokens they have at least."""
    SHADOWS, IDLE = 12, 64
    """How many guesses are enough to say what they are worth, and how many tokens without a draft."""

    def __init__(self, rest: int = 32, longest: int = 512) -> None:
        self.why = ""
        self._rest, self._longest = rest, longest
        self._rounds: deque[tuple[int, int, float]] = deque(maxlen=self.ROUNDS)
        self._guesses: deque[bool] = deque(maxlen=self.IDLE)
        self._wait, self._left, self._idle = rest, 0, 0

    @property
    def rests(self) -> bool:
        """Whether to draft nothing."""
        return self._left > 0

    def count_guess(self, *, right: bool) -> None:
        """Count a guess that was not drafted."""
        self._guesses.append(right)

    def count_plain(self, break_even: Callable[[], float | None]) -> None:
        """Count a token without a draft. `break_even` is None while it is only guessed: that decides nothing."""
        self._idle += 1
        if self._left:
            self._left -= 1
            if not self._left:
                self.why, self._idle = "", 0
        elif self._idle % self.IDLE == 0:
            count, even = len(self._guesses), break_even()
            share = sum(self._guesses) / count if count else 0.0
            self.why = (
                explain_acceptance(share, even) if count >= self.SHADOWS and even is not None and share < even else ""
            )

    def count_round(self, drafted: int, accepted: int, cost: float, break_even: Callable[[], float | None]) -> None:
        """Count a round that cost as much as so many rows alone."""
        self._idle = 0
        if not self._left:
            self.why = ""
        self._rounds.append((drafted, accepted, cost))
        all_drafted, all_accepted, all_cost = map(sum, zip(*self._rounds, strict=True))
        if all_drafted < self.TOKENS:
            return
        if all_accepted + len(self._rounds) < all_cost:
            self.why = explain_acceptance(all_accepted / all_drafted, break_even())
            self._left, self._wait = self._wait, min(2 * self._wait, self._longest)
            self._rounds.clear()
        elif len(self._rounds) == self.ROUNDS:
            self._wait = self._rest


def explain_acceptance(accepted: float, even: float | None) -> str:
    """Say why drafts do not pay."""
    pays = "" if even is None else f", breaks even at {even:.0%}" if even < 1 else ", never pays here"
    return f"accepted {accepted:.0%}{pays}"


class Ngrams:
    """Drafts the ids that followed the same ids before, as many as pay, in one reply after these `ids`.

    The newest earlier place of the last `NGRAM` ids is found in a few microseconds an id. It makes no draft that could lose
    more than the drafts so far have gained and a reply may lose besides.
    """

    by = "ngram"
    always = False

    def __init__(self, ids: Iterable[int], judge: Judge) -> None:
        self._judge, self._counts = judge, Counts(_MATCHES, _PRIORS, _DECAY)
        self._credit = _RISK
        """What the next draft may lose, in rows."""
        self.ids: list[int] = []
        self._after: dict[tuple[int, ...], int] = {}
        self._place = 0
        for token in ids:
            self._push_token(token)

    @property
    def match(self) -> int:
        """The number of ids that are the same before the place and at the end, up to a limit; 0 without a place."""
        ids, place, end = self.ids, self._place, len(self.ids)
        if not place:
            return 0
        length = NGRAM
        while length < min(_LONGEST, place) and ids[place - 1 - length] == ids[end - 1 - length]:
            length += 1
        return length

    def read_following(self, count: int) -> list[int]:
        """Return the ids behind the place; at the end they repeat themselves."""
        if not self._place:
            return []
        following = self.ids[self._place : self._place + count]
        while len(following) < count:
            following += following[: count - len(following)]
        return following

    def learn_round(self, ids: list[int], last: Verified, most: int, times: BatchTimes) -> None:
        """Count the outcome of the last decode, and the new n-grams of all `ids`, drafted or not."""
        even = partial(times.breaks_even, most)
        if last.drafted:
            cost = times.read_cost(last.rows)
            self.count_earned(1 + last.accepted, cost)
            self._judge.count_round(last.drafted, last.accepted, cost, even)
        for token in ids[len(self.ids) :]:
            if not last.drafted:
                self.count_earned(1, 1.0)
                self._judge.count_plain(even)
            if match := self.match:
                right = self.ids[self._place] == token
                self._counts.add(match, right=right)
                if right and match >= _LONGEST:
                    self._credit = min(self._credit + _RISK_RIGHT, _MOST_RISK)
                self._judge.count_guess(right=right)
            self._push_token(token)

    def _push_token(self, token: int) -> None:
        ids = self.ids
        ids.append(token)
        if len(ids) >= NGRAM:
            key = tuple(ids[-NGRAM:])
            self._place = self._after.get(key, 0)
            self._after[key] = len(ids)

    def count_earned(self, tokens: int, rows: float) -> None:
        """Count the tokens that came out of a batch, and its cost in rows alone."""
        self._credit = min(self._credit + tokens * (1 + _RISK_EACH) - rows, _MOST_RISK)

    def expect_speedup(self, most: int, times: BatchTimes) -> float:
        """Return the speedup that a draft of up to `most` tokens has at best; 0.0 if none pays."""
        rates = self._list_rates(most)
        if not self.always and (self._judge.rests or not how_many(rates, times.read_cost, risk=self._credit)):
            return 0.0
        return max(compute_gains(rates, times.read_cost), default=0.0)

    def propose_ids(self, ids: list[int], most: int, times: BatchTimes) -> list[int]:
        """Return the ids to decode ahead of the last one: up to `most`, as many as pay."""
        return self.read_following(
            most if self.always else how_many(self._list_rates(most), times.read_cost, risk=self._credit)
        )

    def _list_rates(self, most: int) -> list[float]:
        """Return the probability of each of the next ids to be right if those before it are; none without a place."""
        match = self.match
        return [self._counts.read_rate(match + ahead) for ahead in range(most if match else 0)]


class Forecast(msgspec.Struct, frozen=True):
    """The speedup (`gain`) that n-grams would have given a reply, with the `accepted` and `drafted` tokens. `break_even` is the
    least acceptance from which drafts pay with these times, 1.0 if none does."""

    gain: float
    accepted: int
    drafted: int
    break_even: float

    @property
    def acceptance(self) -> float | None:
        """Accepted / drafted tokens."""
        return self.accepted / self.drafted if self.drafted else None


def forecast_drafts(
    prompt_ids: Sequence[int],
    reply_ids: Sequence[int],
    times: BatchTimes,
    *,
    most: int = MOST_DRAFTED,
    room: int | None = None,
    end_ids: Collection[int] = (),
) -> Forecast:
    """Replay drafts of up to `most` tokens over the ids of a reply, and charge each batch its time.

    That is exactly what the engine does with the same counts, times and limits, but for the time of sampling and drafting.
    `room` is how many tokens the reply could have had (None: no limit), `end_ids` are those that end a reply.
    """
    known, begin = [*prompt_ids, *reply_ids], len(prompt_ids)
    limit = begin + room if room is not None else len(known) + MOST_DRAFTED
    path, judge = known[: begin + 1], Judge()
    ngrams, cost, accepted, drafted = Ngrams(path, judge), 0.0, 0, 0
    # The first token is drawn from the prompt's last row. Each pass decodes the newest token, and what is drafted behind it.
    while len(path) < len(known):
        draft: list[int] = []
        if not judge.rests:
            draft = ngrams.propose_ids(path, min(most, MOST_DRAFTED, limit - 1 - len(path)), times)
            draft = draft[: next((n for n, token in enumerate(draft, 1) if token in end_ids), None)]
        pairs = zip(draft, known[len(path) : len(path) + len(draft)], strict=False)
        last = Verified(
            1 + len(draft), 0, len(draft), sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        )
        cost, drafted, accepted = cost + times.read_cost(last.rows), drafted + last.drafted, accepted + last.accepted
        path += known[len(path) : len(path) + 1 + last.accepted]
        ngrams.learn_round(path, last, most, times)
    gain = (len(reply_ids) - 1) / cost if cost else 1.0
    return Forecast(gain, accepted, drafted, breaks_even(times.read_cost, most))
