"""What the plots of a reply are drawn from: its measures folded into as many columns as there is room for.

Tokens are read once, as they come; when there are too many for the cells that hold them, neighbours become one. So a new token
costs the same however long the reply is, and a frame costs its columns.
"""

from __future__ import annotations

import math
from bisect import bisect_right, insort
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, TypeVar

from termchat.conversation.node import Node, TokenColumns
from termchat.conversation.tree import Span
from termchat.tui.transcript.tokens import TokenRef

T = TypeVar("T", int, float)

Measure = Literal["entropy", "probability", "time"]

OUTLIER = 2.0
"""A decode time is an outlier beyond so many times the median."""

_FINER = 4

_READ: dict[Measure, Callable[[TokenColumns, int, int], Sequence[float]]] = {
    "entropy": lambda tokens, begin, end: tokens.entropies[begin:end],
    "probability": lambda tokens, begin, end: list(map(math.exp, tokens.logprobs[begin:end])),
    "time": lambda tokens, begin, end: [us / 1e3 for us in tokens.row_us(begin, end)],
}
"""Bits, the model's own probability from 0 to 1, milliseconds: of a round of drafting, its time divided by its rows."""


class Folded:
    """Numbers in at most `columns` columns, each of `each` numbers but perhaps the last: their means and their highest. What is
    no number counts nothing; a column of nothing else is no number either.

    They are held in up to four times as many cells of 1, 2, 4, 8 … numbers, a column being one to four of those: at least half
    of the columns are in use, and two thirds from twice as many numbers as columns on.
    """

    def __init__(self, columns: int) -> None:
        self.columns = max(columns, 1)
        self.count = 0
        self._size = 1
        self._known: list[int] = []
        self._sums: list[float] = []
        self._highs: list[float] = []

    def extend(self, values: Sequence[float]) -> None:
        while self.count + len(values) > _FINER * self.columns * self._size:
            self._halve_cells()
        done = 0
        while done < len(values):
            begun = self.count % self._size
            part = values[done : done + self._size - begun]
            if not begun:
                self._known.append(0)
                self._sums.append(0.0)
                self._highs.append(-math.inf)
            known = [value for value in part if not math.isnan(value)]
            self._known[-1] += len(known)
            self._sums[-1] += sum(known)
            self._highs[-1] = max(self._highs[-1], *known) if known else self._highs[-1]
            done += len(part)
            self.count += len(part)

    @property
    def each(self) -> int:
        """Count of numbers in a column."""
        return self._size * self._cells_per_column

    @property
    def means(self) -> list[float]:
        totals, counts = self._by_columns(self._sums, sum), self._by_columns(self._known, sum)
        return [total / count if count else math.nan for total, count in zip(totals, counts, strict=True)]

    @property
    def highs(self) -> list[float]:
        return [high if high > -math.inf else math.nan for high in self._by_columns(self._highs, max)]

    def _by_columns(self, values: list[T], fold: Callable[[list[T]], T]) -> list[T]:
        return [fold(values[at : at + self._cells_per_column]) for at in range(0, len(values), self._cells_per_column)]

    @property
    def _cells_per_column(self) -> int:
        return max(-(-len(self._sums) // self.columns), 1)

    def _halve_cells(self) -> None:
        self._size *= 2
        self._known = [sum(self._known[at : at + 2]) for at in range(0, len(self._known), 2)]
        self._sums = [sum(self._sums[at : at + 2]) for at in range(0, len(self._sums), 2)]
        self._highs = [max(self._highs[at : at + 2]) for at in range(0, len(self._highs), 2)]


class Times:
    """All decode times of a reply in order of size. `worst` is the longest in milliseconds, and its token's number."""

    def __init__(self) -> None:
        self._sorted: list[float] = []
        self.worst = 0.0, 0

    def extend(self, values: Sequence[float]) -> None:
        """Add times in milliseconds."""
        if not values:
            return
        slowest = max(values)
        if slowest > self.worst[0]:
            self.worst = slowest, len(self._sorted) + values.index(slowest)
        if len(values) > len(self._sorted) // 8:
            self._sorted = sorted([*self._sorted, *values])
        else:
            for value in values:
                insort(self._sorted, value)

    @property
    def median(self) -> float:
        """Median time, 0 for none."""
        half = len(self._sorted) // 2
        if not self._sorted:
            return 0.0
        return self._sorted[half] if len(self._sorted) % 2 else (self._sorted[half - 1] + self._sorted[half]) / 2

    @property
    def outliers(self) -> int:
        """How many are beyond `OUTLIER` times the median."""
        return len(self._sorted) - bisect_right(self._sorted, OUTLIER * self.median)


class Trace:
    """One reply, which may be in several parts, and the token that is looked at.

    `cursor` is that token's number in the reply, None while none is. Tokens are counted from 0 over all parts.
    """

    def __init__(self) -> None:
        self.cursor: int | None = None
        self.count = 0
        self.times = Times()
        self._parts: list[Span] = []
        self._folded: dict[Measure, Folded] = {}

    def follow(self, parts: Sequence[Span], columns: int, cursor: TokenRef | None = None) -> None:
        """Read the new tokens of a reply; another reply, or another number of columns, is read from the start."""
        if not self._goes_on(parts) or any(folded.columns != columns for folded in self._folded.values()):
            self.count, self.times = 0, Times()
            self._folded = {measure: Folded(columns) for measure in _READ}
        done, self._parts = self.count, list(parts)
        passed = 0
        self.cursor = None
        for node, count in ((part.node, part.count) for part in parts):
            begin = max(done - passed, 0)
            for measure, folded in self._folded.items() if begin < count else ():
                values = _READ[measure](node.tokens, begin, count)
                folded.extend(values)
                if measure == "time":
                    self.times.extend(values)
            if cursor is not None and node.number == cursor.node and cursor.index < count:
                self.cursor = passed + cursor.index
            passed += count
        self.count = passed

    def folded(self, measure: Measure) -> Folded:
        """A measure in columns; in none before the first `follow`."""
        return self._folded.get(measure) or Folded(1)

    def token(self, index: int) -> TokenRef:
        """Locate a token of the reply.

        Raises:
            IndexError: the reply has fewer tokens.
        """
        node, at = self._find_token(index)
        return TokenRef(node.number, at)

    def value(self, measure: Measure, index: int) -> float:
        node, at = self._find_token(index)
        return _READ[measure](node.tokens, at, at + 1)[0]

    def unlisted(self, index: int) -> float:
        """See `Token.unlisted`."""
        node, at = self._find_token(index)
        return node.tokens.read_unlisted(at)

    def text(self, index: int) -> str:
        node, at = self._find_token(index)
        return node.tokens.texts[at]

    def peak(self, measure: Measure, column: int) -> TokenRef | None:
        """Find the outstanding token of a column: the least probable, or the one with the highest measure."""
        each = self.folded(measure).each
        places = range(column * each, min((column + 1) * each, self.count))
        if column < 0 or not places:
            return None
        sign = -1.0 if measure == "probability" else 1.0

        def height(index: int) -> float:
            value = sign * self.value(measure, index)
            return -math.inf if math.isnan(value) else value

        return self.token(max(places, key=height))

    def _goes_on(self, parts: Sequence[Span]) -> bool:
        """Whether these are the parts that were read; the last may have grown."""
        before = self._parts
        if not before or len(parts) != len(before) or parts[-1].count < before[-1].count:
            return False
        same = all(one.node is other.node for one, other in zip(parts, before, strict=True))
        return same and [part.count for part in parts[:-1]] == [part.count for part in before[:-1]]

    def _find_token(self, index: int) -> tuple[Node, int]:
        for part in self._parts:
            if index < part.count:
                return part.node, index
            index -= part.count
        raise IndexError("the reply has fewer tokens")


def highest(values: Iterable[float]) -> float:
    """Return the highest finite number, 0 for none."""
    return max((value for value in values if math.isfinite(value)), default=0.0)
