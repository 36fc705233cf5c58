"""Plots over a whole reply: how uncertain the model was, how probable what was drawn, how long each token took.

`Trace` reads the measures of a reply, and folds them into as many columns as there is room for. `plot` draws columns of block
characters on two axes, `plot_lines` a measure of a reply with it, `stack_plots` several below each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.cells import cell_len

from termchat.conversation.node import TokenColumns
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
from termchat.tui.pages.scene import HERE, index_of, locate_token
from termchat.tui.transcript.tokens import TokenRef

Measure = Literal["entropy", "probability", "time", "p_end"]

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

_READ: dict[Measure, Callable[[TokenColumns, int], NDArray[np.float64]]] = {
    "entropy": lambda tokens, count: np.array(tokens.entropies[:count], np.float64),
    "probability": lambda tokens, count: np.exp(np.array(tokens.logprobs[:count], np.float64)),
    "time": lambda tokens, count: np.array(tokens.row_us(0, count), np.float64) / 1e3,
    "p_end": lambda tokens, count: np.array(tokens.p_ends[:count], np.float64),
}
"""Bits, the model's own probability from 0 to 1, milliseconds: of a round of drafting, its time divided by its rows."""

_Cell = tuple[str, Ink]


# --- reading ---------------------------------------------------------------------------------------------------------


class Trace:
    """The measures of all `count` tokens of a reply, each read when a plot first asks for it, in at most `columns` columns.

    A column is `each` tokens, the last one perhaps fewer: a power of two, times one to four. So a growing reply seldom changes
    it, at least half of the columns are in use, and two thirds from twice as many tokens as columns on. `cursor` is the number
    of the token under the cursor.
    """

    def __init__(self, reply: Sequence[Span], columns: int, cursor: TokenRef | None = None) -> None:
        self.reply = list(reply)
        self.columns, self.count = max(columns, 1), sum(span.count for span in reply)
        self.cursor = index_of(reply, cursor)
        size = 1
        while self.count > _FINER * self.columns * size:
            size *= 2
        self.each = size * max(-(-self.count // (size * self.columns)), 1)
        self._values: dict[Measure, NDArray[np.float64]] = {}

    def read_values(self, measure: Measure) -> NDArray[np.float64]:
        if measure not in self._values:
            parts = [_READ[measure](span.node.tokens, span.count) for span in self.reply]
            self._values[measure] = np.concatenate(parts) if parts else np.empty(0)
        return self._values[measure]

    def read_columns(self, measure: Measure) -> tuple[list[float], list[float]]:
        """Return the mean and the highest number of each column; NaN counts nothing, and a column of nothing else is NaN."""
        if not self.count:
            return [], []
        values, edges = self.read_values(measure), np.arange(0, self.count, self.each)
        known = ~np.isnan(values)
        with np.errstate(invalid="ignore"):
            means = np.add.reduceat(np.where(known, values, 0.0), edges) / np.add.reduceat(known.astype(int), edges)
        return means.tolist(), np.fmax.reduceat(values, edges).tolist()

    def show_word(self, index: int, cells: int = _PIECE) -> str:
        """Show the text of a token in at most so many cells; "" for one that is not there yet."""
        if index >= self.count:
            return ""
        node, at = locate_token(self.reply, index)
        return column(show_piece(node.tokens.texts[at]), cells).rstrip()

    def find_peak(self, measure: Measure, column: int) -> TokenRef | None:
        """Find the outstanding token of a column: the least probable, or the one with the highest measure."""
        begin = column * self.each
        if not 0 <= begin < self.count:
            return None
        part = self.read_values(measure)[begin : begin + self.each]
        heights = np.where(np.isnan(part), -np.inf, -part if measure == "probability" else part)
        node, at = locate_token(self.reply, begin + int(heights.argmax()))
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
    means, highs = trace.read_columns(measure)
    is_time = measure == "time"
    median = float(np.median(trace.read_values("time"))) if is_time and trace.count else 0.0
    if measure == "entropy":
        axis = Axis(max(round_up(highs), _LEAST_BITS), format_number)
        bars = [Bar(mean, high=high) for mean, high in zip(means, highs, strict=True)]
    elif measure == "probability":
        axis = Axis(1.0, lambda share: f"{share * 100:.3g}%")
        bars = [Bar(mean) for mean in means]
    else:
        limit = _TIMES * median
        axis = Axis(round_up(min(high, 1.5 * limit or high) for high in highs), format_number)
        bars = [Bar(high, _OUTLIER if high > limit else ACCENT) for high in highs]
    columns, each = trace.columns, trace.each
    bars += [Bar(0.0)] * (columns - len(bars))
    ticks = make_ticks(columns * each, each, _APART)
    if columns >= _NAMED_FROM:  # with the word of the token that a tick stands for
        ticks = [tick._replace(label=f"{tick.label} {trace.show_word(tick.column * each)}".rstrip())
                 for tick in make_ticks(columns * each, each, _NAMED_APART)]  # fmt: skip
    cursor = trace.cursor // each if trace.cursor is not None else None
    body = plot(bars, axis, fit_rows(rows - 2 - is_time), ticks, note="token", level=median, cursor=cursor)
    foot = [_render_foot(trace, median, width)] if is_time else []
    return [_render_head(measure, trace, width, title), *body, *foot]


def _render_head(measure: Measure, trace: Trace, width: int, title: Ink) -> Line:
    """Render the head of a plot: its title, the folding of a column of several tokens, and number, word and value of the
    token under the cursor, else of the newest."""
    spec, each = PLOTS[measure], trace.each
    left: list[Run] = [(spec.title, title), (f" {spec.unit}", MUTED)]
    if not trace.count:
        return Line((*left, (" · waiting for the first token", MUTED)))
    index = trace.count - 1 if trace.cursor is None else trace.cursor
    known, is_wide = float(trace.read_values(measure)[index]), width >= _NAMED_FROM
    value = UNKNOWN if math.isnan(known) else spec.form.format(known)
    node, at = locate_token(trace.reply, index)
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


def _render_foot(trace: Trace, median: float, width: int) -> Line:
    """Render the median, the number of outliers, and the slowest token by its number and text."""
    if not trace.count:
        return BLANK
    times = trace.read_values("time")
    at, outliers = int(times.argmax()), int((times > _TIMES * median).sum())
    runs: list[Run] = [
        ("median ", _LEVEL), (format_number(median), TEXT),
        (" · ", MUTED), (f"{outliers} over {_TIMES:.0f}×", _OUTLIER if outliers else MUTED),
        (" · worst ", MUTED), (format_number(float(times[at])), TEXT), (f" at {at} ", MUTED),
    ]  # fmt: skip
    if (room := width - length(runs)) >= 3:
        runs.append((trace.show_word(at, min(room, _PIECE)), TEXT))
    return Line(tuple(runs))
