"""Plots over a whole reply: how uncertain the model was, how probable what was drawn, how long each token took.

`Trace` reads the tokens of a reply once, as they come, and folds their measures into as many columns as there is room for; when
there are too many for the cells that hold them, neighbours become one. So a new token costs the same however long the reply is,
and a frame costs its columns. `plot` draws columns of block characters on two axes, `plot_lines` a measure of a reply with it,
`stack_plots` several below each other.
"""

from __future__ import annotations

import math
from bisect import bisect_right, insort
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from typing import Literal, NamedTuple

from rich.cells import cell_len

from termchat.conversation.node import Node, TokenColumns
from termchat.conversation.tree import Span
from termchat.text import show_piece
from termchat.tui.draw.ink import BLANK, Ink, Line, Run
from termchat.tui.draw.marks import (
    ACCENT,
    FAINT,
    MUTED,
    STRONG,
    TEXT,
    TITLE,
    UNKNOWN,
    column,
    length,
    mark_bound,
    percent,
    spread,
)
from termchat.tui.pages.scene import HERE, unread_spans
from termchat.tui.transcript.tokens import TokenRef

Measure = Literal["entropy", "probability", "time"]

EIGHTHS = " ▁▂▃▄▅▆▇█"
LABEL = 6
"""Cells of the y axis: its labels and its line."""

_TIMES = 2.0
"""A decode time is an outlier beyond so many times the median."""
_OUTLIER = Ink("warning")
"""Columns of outliers, which have a dot on them."""
_FINER = 4
_STEPS = (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 20.0)
_UPPER = Ink("border")
_LEVEL = Ink("stamp")
_APART = 6
"""Columns from one tick to the next, at least."""
_LEAST_BITS = 1.0
"""The top of the entropy's axis, at least: noise about 0 is no mountain."""
_PIECE = 12
"""Cells for the text of a token that is named."""
_FOLDED = (" tokens per column", " per column", "")
"""After what a column of several tokens shows, where there is room."""
_NAMED_FROM, _NAMED_APART = 60, 16
"""Cells from which tokens have their words beside their numbers, and from one to the next of those, at least."""

_READ: dict[Measure, Callable[[TokenColumns, int, int], Sequence[float]]] = {
    "entropy": lambda tokens, begin, end: tokens.entropies[begin:end],
    "probability": lambda tokens, begin, end: list(map(math.exp, tokens.logprobs[begin:end])),
    "time": lambda tokens, begin, end: [us / 1e3 for us in tokens.row_us(begin, end)],
}
"""Bits, the model's own probability from 0 to 1, milliseconds: of a round of drafting, its time divided by its rows."""

_Cell = tuple[str, Ink]


# --- reading ---------------------------------------------------------------------------------------------------------


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
        self._cells: list[tuple[int, float, float]] = []
        """How many of its numbers are known, their sum, and the highest."""

    def extend(self, values: Sequence[float]) -> None:
        while self.count + len(values) > _FINER * self.columns * self._size:
            self._size, self._cells = self._size * 2, self._fold_cells(2)
        done = 0
        while done < len(values):
            begun = self.count % self._size
            count, total, high = self._cells.pop() if begun else (0, 0.0, -math.inf)
            part = values[done : done + self._size - begun]
            known = [value for value in part if not math.isnan(value)]
            self._cells.append((count + len(known), total + sum(known), max([high, *known])))
            done += len(part)
            self.count += len(part)

    @property
    def each(self) -> int:
        """Count of numbers in a column."""
        return self._size * self._cells_per_column

    def read_columns(self) -> tuple[list[float], list[float]]:
        """Return the mean and the highest number of each column."""
        cells = self._fold_cells(self._cells_per_column)
        means = [total / count if count else math.nan for count, total, _ in cells]
        return means, [high if count else math.nan for count, _, high in cells]

    @property
    def _cells_per_column(self) -> int:
        return max(-(-len(self._cells) // self.columns), 1)

    def _fold_cells(self, each: int) -> list[tuple[int, float, float]]:
        """Make one of every `each` cells."""
        if each == 1:
            return self._cells
        folded = []
        for at in range(0, len(self._cells), each):
            counts, totals, highs = zip(*self._cells[at : at + each], strict=True)
            folded.append((sum(counts), sum(totals), max(highs)))
        return folded


class Times:
    """All decode times of a reply in order of size. `worst` is the longest in milliseconds, and its token's number."""

    def __init__(self) -> None:
        self._sorted: list[float] = []
        self.worst = 0.0, 0

    def extend(self, values: Sequence[float]) -> None:
        """Add times in milliseconds."""
        slowest = max(values)
        if slowest > self.worst[0]:
            self.worst = slowest, len(self._sorted) + values.index(slowest)
        if len(values) > len(self._sorted) // 8:
            self._sorted = sorted([*self._sorted, *values])
        else:  # a token that comes costs no more in a long reply
            for value in values:
                insort(self._sorted, value)

    @property
    def median(self) -> float:
        """Median time, 0 for none."""
        half, odd = divmod(len(self._sorted), 2)
        if not self._sorted:
            return 0.0
        return self._sorted[half] if odd else (self._sorted[half - 1] + self._sorted[half]) / 2

    @property
    def outliers(self) -> int:
        """How many are beyond `_TIMES` times the median."""
        return len(self._sorted) - bisect_right(self._sorted, _TIMES * self.median)


class Trace:
    """One reply, which may be in several parts, and the token that is looked at.

    `cursor` is that token's number in the reply, None while none is. Tokens are counted from 0 over all parts.
    """

    def __init__(self) -> None:
        self.cursor: int | None = None
        self.count = 0
        self.times = Times()
        self._parts: Sequence[Span] = ()
        self.folded: dict[Measure, Folded] = {}

    def follow(self, parts: Sequence[Span], columns: int, cursor: TokenRef | None = None) -> None:
        """Read the new tokens of a reply; another reply, or another number of columns, is read from the start."""
        new = unread_spans(self._parts, parts)
        if new is None or {folded.columns for folded in self.folded.values()} != {columns}:
            new = unread_spans((), parts) or []
            self.folded, self.times = {measure: Folded(columns) for measure in _READ}, Times()
        for node, begin, end in new:
            for measure, folded in self.folded.items() if begin < end else ():
                values = _READ[measure](node.tokens, begin, end)
                folded.extend(values)
                if measure == "time":
                    self.times.extend(values)
        self._parts, self.cursor, self.count = list(parts), None, 0
        for part in parts:
            if cursor is not None and part.node.number == cursor.node and cursor.index < part.count:
                self.cursor = self.count + cursor.index
            self.count += part.count

    def find_token(self, index: int) -> tuple[Node, int]:
        """Locate a token of the reply: its node, and its place there."""
        for part in self._parts:
            if index < part.count:
                return part.node, index
            index -= part.count
        raise IndexError("the reply has fewer tokens")

    def read_value(self, measure: Measure, index: int) -> float:
        node, at = self.find_token(index)
        return _READ[measure](node.tokens, at, at + 1)[0]

    def show_word(self, index: int, cells: int = _PIECE) -> str:
        """Show the text of a token in at most so many cells; "" for one that is not there yet."""
        if index >= self.count:
            return ""
        node, at = self.find_token(index)
        return column(show_piece(node.tokens.texts[at]), cells).rstrip()

    def find_peak(self, measure: Measure, column: int) -> TokenRef | None:
        """Find the outstanding token of a column: the least probable, or the one with the highest measure."""
        each = self.folded[measure].each
        places = range(column * each, min((column + 1) * each, self.count))
        if column < 0 or not places:
            return None
        sign = -1.0 if measure == "probability" else 1.0

        def height(index: int) -> float:
            value = sign * self.read_value(measure, index)
            return -math.inf if math.isnan(value) else value

        node, at = self.find_token(max(places, key=height))
        return TokenRef(node.number, at)


# --- columns on two axes ---------------------------------------------------------------------------------------------


class Axis(NamedTuple):
    """What the rows of a plot stand for, from 0 to `top`, and how a value is written."""

    top: float
    show: Callable[[float], str]

    def fraction(self, value: float) -> float:
        """Return the part of the height that a value takes, from 0 to 1; NaN takes none."""
        return min(value / self.top, 1.0) if value > 0 else 0.0


class Bar(NamedTuple):
    """A column. Above `value` another colour reaches up to `high`."""

    value: float
    ink: Ink = ACCENT
    high: float = 0.0


class Tick(NamedTuple):
    """A label of the x axis, and the column that it begins at."""

    column: int
    label: str


def round_up(values: Iterable[float]) -> float:
    """Round the highest finite value up to a round number; 1 for none."""
    highest = max((value for value in values if math.isfinite(value)), default=0.0)
    if highest <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(highest))
    return next(step * power for step in _STEPS if step * power >= highest)


def format_number(value: float) -> str:
    """Format a number in at most five cells: 0.25, 12.5, 1250, 12.5k."""
    if value and not 0.01 <= value < 1e9:
        return f"{value:.0e}"
    if value >= 1e4:
        return f"{value / 1e6:.3g}M" if value >= 1e6 else f"{value / 1e3:.3g}k"
    return f"{value:.{4 if value >= 1000 else 3 if value >= 0.1 else 2}g}"


def plot(
    bars: Sequence[Bar],
    axis: Axis,
    rows: int,
    ticks: Sequence[Tick],
    *,
    note: str = "",
    cursor: int | None = None,
    level: float = 0.0,
) -> list[Line]:
    """Render `rows` rows of columns, then the x axis with `note` at its end. The column `cursor` is marked; a line across the
    empty cells shows a `level`, with its value on the axis.

    A column is as high as its value, to an eighth of a row. The label on a row of the y axis is the value that fills it to its
    upper edge; the label beside the x axis is the value of no height at all.
    """
    parts = 8 if rows >= 16 and rows % 8 == 0 else 4 if rows >= 8 else 2
    apart = next((rows // count for count in (parts, 5, 2) if rows % count == 0 and rows // count > 1), rows)
    labels = {row: axis.show(axis.top * (rows - row) / rows) for row in range(0, rows, apart)}
    level_row = None
    if level > 0:
        level_row = rows - math.ceil(axis.fraction(level) * rows)
        labels = {row: label for row, label in labels.items() if abs(row - level_row) > 1 or row == 0 != level_row}
        labels[level_row] = axis.show(level)
    columns = []
    for at, bar in enumerate(bars):
        height, high = (round(axis.fraction(value) * rows * 8) for value in (bar.value, bar.high))
        cells = _draw_column(height, high, bar.ink, rows, level_row)
        columns.append(cells if at != cursor else tuple((char, _mark_ink(ink)) for char, ink in cells))
    lines = []
    for row, cells in enumerate(zip(*columns, strict=True)):
        label = (f"{labels.get(row, ''):>{LABEL - 1}}", _LEVEL if row == level_row else MUTED)
        runs = [("".join(char for char, _ in group), ink) for ink, group in groupby(cells, key=itemgetter(1))]
        lines.append(Line((label, ("│", FAINT), *runs)))
    return [*lines, _render_x_axis(axis.show(0.0), len(bars), ticks, note)]


def _render_x_axis(label: str, columns: int, ticks: Sequence[Tick], note: str) -> Line:
    """Render the line below the columns: ticks as long as they do not touch, then a note."""
    runs: list[Run] = [(f"{label:>{LABEL - 1}}", MUTED), ("│", FAINT)]
    end = 0
    room = columns - (len(note) + 1 if note else 0)
    for tick in ticks:
        behind = tick.column + cell_len(tick.label) + 1
        if end <= tick.column and behind <= room:
            runs += [("─" * (tick.column - end), FAINT), (tick.label, MUTED), (" ", FAINT)]
            end = behind
    runs.append(("─" * max(room - end, 0), FAINT))
    if note and room > 0:
        runs.append((f" {note}", MUTED))
    return Line(tuple(run for run in runs if run[0]))


def make_ticks(count: int, each: int, apart: int) -> list[Tick]:
    """Make ticks at round numbers from 0 to below `count`, at least `apart` columns apart; a column is `each` of them."""
    step = 1
    while step < each * apart:
        step = next(size for size in (step * 2, step * 5 // 2) if str(size).rstrip("0") in ("1", "2", "5"))
    return [Tick(at // each, str(at)) for at in range(0, count, step)]


def fit_rows(rows: int) -> int:
    """Return the most rows, of so many, that are parted into equal steps of the y axis."""
    return max((size for size in (1, 2, 3, 4, 6, 10, 15, rows - rows % 4) if size <= rows), default=0)


@lru_cache(maxsize=8192)  # from frame to frame hardly any column is another
def _draw_column(height: int, high: int, ink: Ink, rows: int, level_row: int | None) -> tuple[_Cell, ...]:
    """Draw the cells of a column from the top, its heights given in eighths."""
    cells = [_draw_cell(height - base, high - base, ink) for base in range((rows - 1) * 8, -1, -8)]
    if ink == _OUTLIER:
        cells[max(rows - 1 - -(-height // 8), 0)] = "•", _OUTLIER
    if level_row is not None and cells[level_row][0] == " ":
        cells[level_row] = "─", _LEVEL
    return tuple(cells)


def _draw_cell(height: int, high: int, ink: Ink) -> _Cell:
    height, high = min(max(height, 0), 8), min(max(high, 0), 8)
    if height == 0 and high:
        return EIGHTHS[high], _UPPER
    if 0 < height < 8 and high == 8:
        return EIGHTHS[height], ink._replace(ground=_UPPER.color)
    return EIGHTHS[max(height, high)], ink  # both end in this cell: its upper end counts


def _mark_ink(ink: Ink) -> Ink:
    """Return the ink of a marked column; the part above its value stays apart."""
    return ink._replace(ground=HERE.ground) if ink == _UPPER else HERE._replace(ground=ink.ground or HERE.ground)


# --- over a reply ----------------------------------------------------------------------------------------------------


class _Plot(NamedTuple):
    """The title of a plot, its unit, what a column of several tokens shows, how a value is written, and the rows it needs."""

    title: str
    unit: str
    folding: str
    form: str
    least: int


PLOTS: dict[Measure, _Plot] = {
    "entropy": _Plot("ENTROPY", "in bit", "mean, max", "{:.2f}", 5),
    "probability": _Plot("PROBABILITY", "model, before the chain", "mean", "{:.1%}", 5),
    "time": _Plot("DECODE TIME", "in ms", "max", "{:.1f}", 6),
}


def columns_of(width: int) -> int:
    """Return the columns that a plot in so many cells has."""
    return max(width - LABEL, 1)


def stack_plots(
    measures: Sequence[Measure], trace: Trace, width: int, rows: int
) -> tuple[list[Line], dict[Measure, range]]:
    """Render plots below each other, as many as fit, the first at least; they share the rest of the rows, and a gap parts
    them. Besides the lines, return the rows below the head of each plot."""
    shown = [
        one for at, one in enumerate(measures) if not at or sum(PLOTS[m].least for m in measures[: at + 1]) <= rows
    ]
    more = max(rows - sum(PLOTS[one].least for one in shown), 0) // len(shown)
    plots = [
        plot_lines(one, trace, width, PLOTS[one].least + more, TITLE._replace(does=f"big('{one}')")) for one in shown
    ]
    gap = [BLANK] if sum(map(len, plots)) + len(plots) - 1 <= rows else []
    lines: list[Line] = []
    placed: dict[Measure, range] = {}
    for measure, drawn in zip(shown, plots, strict=True):
        lines += gap if lines else []
        placed[measure] = range(len(lines) + 1, len(lines) + len(drawn))
        lines += drawn
    return lines, placed


def plot_lines(measure: Measure, trace: Trace, width: int, rows: int, title: Ink = TITLE) -> list[Line]:
    """Render a plot of a measure over a reply: a head, the columns, their axis, and for times a line of facts.

    entropy: of the model's own distribution (T = 1, before the chain), in bits. A column is the mean of its tokens, the lighter
    part above it the highest of them.
    probability: the model's own probability of the token that was drawn; the mean of a column's tokens.
    time: the milliseconds that decoding took; the highest of a column's tokens, the median of all as a line. Columns beyond
    twice the median are outliers: they have another colour and a dot; they do not count for the scale.
    """
    folded, times = trace.folded[measure], trace.times
    means, highs = folded.read_columns()
    is_time = measure == "time"
    if measure == "entropy":
        axis = Axis(max(round_up(highs), _LEAST_BITS), format_number)
        bars = [Bar(mean, high=high) for mean, high in zip(means, highs, strict=True)]
    elif measure == "probability":
        axis = Axis(1.0, lambda share: f"{share * 100:.3g}%")
        bars = [Bar(mean) for mean in means]
    else:
        limit = _TIMES * times.median
        axis = Axis(round_up(min(high, 1.5 * limit or high) for high in highs), format_number)
        bars = [Bar(high, _OUTLIER if high > limit else ACCENT) for high in highs]
    columns, each = folded.columns, folded.each
    bars += [Bar(0.0)] * (columns - len(bars))
    ticks = make_ticks(columns * each, each, _APART)
    if columns >= _NAMED_FROM:  # with the word of the token that a tick stands for
        ticks = [tick._replace(label=f"{tick.label} {trace.show_word(tick.column * each)}".rstrip())
                 for tick in make_ticks(columns * each, each, _NAMED_APART)]  # fmt: skip
    cursor = trace.cursor // each if trace.cursor is not None else None
    level = times.median if is_time else 0.0
    body = plot(bars, axis, fit_rows(rows - 2 - is_time), ticks, note="token", level=level, cursor=cursor)
    return [_render_head(measure, trace, width, title), *body, *([_render_foot(trace, width)] if is_time else [])]


def _render_head(measure: Measure, trace: Trace, width: int, title: Ink) -> Line:
    """Render the head of a plot: its title, the folding of a column of several tokens, and number, word and value of the
    token under the cursor, else of the newest."""
    spec, each = PLOTS[measure], trace.folded[measure].each
    left: list[Run] = [(spec.title, title), (f" {spec.unit}", MUTED)]
    if not trace.count:
        return Line((*left, (" · waiting for the first token", MUTED)))
    index = trace.count - 1 if trace.cursor is None else trace.cursor
    known, is_wide = trace.read_value(measure, index), width >= _NAMED_FROM
    value = UNKNOWN if math.isnan(known) else spec.form.format(known)
    node, at = trace.find_token(index)
    unlisted = node.tokens.read_unlisted(at) if measure == "entropy" else 0.0
    if most := mark_bound(known, unlisted):
        value = most + value + (f", {percent(unlisted, 2)} not listed" if is_wide else "")
    word = trace.show_word(index) + " " if is_wide else ""
    ink = STRONG if trace.cursor is None else Ink("cursor", bold=True)
    right: list[Run] = [(f"{index} ", MUTED), (word, TEXT), (value, ink)]
    heads = [[*left, (f" · {spec.folding} of {each}{words}", MUTED)] for words in _FOLDED] if each > 1 else []
    for head in (*heads, left, left[:1]):
        if length(head) + length(right) < width:
            return Line(spread(head, right, width))
    return Line(spread(left[:1], right[-1:], width))


def _render_foot(trace: Trace, width: int) -> Line:
    """Render the median, the number of outliers, and the slowest token by its number and text."""
    times = trace.times
    if not trace.count:
        return Line(())
    ms, at = times.worst
    outliers = f"{times.outliers} over {_TIMES:.0f}×"
    runs: list[Run] = [
        ("median ", _LEVEL), (format_number(times.median), TEXT),
        (" · ", MUTED), (outliers, _OUTLIER if times.outliers else MUTED),
        (" · worst ", MUTED), (format_number(ms), TEXT), (f" at {at} ", MUTED),
    ]  # fmt: skip
    if (room := width - length(runs)) >= 3:
        runs.append((trace.show_word(at, min(room, _PIECE)), TEXT))
    return Line(tuple(runs))
