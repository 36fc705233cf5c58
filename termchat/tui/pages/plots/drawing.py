"""Columns of block characters on two axes.

A column is as high as its value, to an eighth of a row. The label on a row of the y axis is the value that fills it to its
upper edge; the label beside the x axis is the value of no height at all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from rich.cells import cell_len

from termchat.tui.draw.ink import Ink, Line, Run
from termchat.tui.draw.marks import ACCENT, FAINT, MUTED

EIGHTHS = " ▁▂▃▄▅▆▇█"
LABEL = 6
"""Cells of the y axis: its labels and its line."""
OUTLIER = Ink("warning")

_STEPS = (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)
_UPPER = Ink("border")
_HERE = Ink("cursor", ground="panel", bold=True)
_LEVEL = Ink("stamp")

_Cell = tuple[str, Ink]


class Axis(NamedTuple):
    """What the rows of a plot stand for, from 0 to `top`, and how a value is written."""

    top: float
    show: Callable[[float], str]

    def fraction(self, value: float) -> float:
        """Which part of the height a value takes, from 0 to 1; NaN takes none."""
        return min(value / self.top, 1.0) if value > 0 else 0.0


class Bar(NamedTuple):
    """A column. Above `value` another colour reaches up to `high`; an outlier has a dot on it."""

    value: float
    ink: Ink = ACCENT
    high: float = 0.0
    outlier: bool = False


class Tick(NamedTuple):
    """A label of the x axis, and the column that it begins at."""

    column: int
    label: str


def ceiling(value: float) -> float:
    """Round a value up to a round number; 1 for no value."""
    if not math.isfinite(value) or value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (*_STEPS, 20.0) if step * power >= value)


def number(value: float) -> str:
    """A number of at most five cells: 0.25, 12.5, 1250, 12.5k."""
    if value and not 0.01 <= value < 1e9:
        return f"{value:.0e}"
    for size, unit in ((1e6, "M"), (1e4, "k")):
        if value >= size:
            return f"{value / (1e6 if unit == 'M' else 1e3):.3g}{unit}"
    return f"{value:.{4 if value >= 1000 else 3 if value >= 0.1 else 2}g}"


def plot(
    bars: Sequence[Bar],
    axis: Axis,
    rows: int,
    ticks: Sequence[Tick],
    *,
    note: str = "",
    cursor: int | None = None,
    level: float | None = None,
) -> list[Line]:
    """`rows` rows of columns, then the x axis with `note` at its end. The column `cursor` is marked; a line across the empty
    cells shows a `level`, with its value on the axis."""  # fmt: skip
    labels = _label_rows(axis, rows)
    level_row = None
    if level is not None and 0 < axis.fraction(level) <= 1:
        level_row = rows - math.ceil(axis.fraction(level) * rows)
        labels = {row: label for row, label in labels.items() if abs(row - level_row) > 1 or row == 0 != level_row}
        labels[level_row] = axis.show(level)
    columns = [
        _draw_column(
            _count_eighths(bar.value, axis, rows),
            _count_eighths(bar.high, axis, rows),
            bar.ink,
            bar.outlier,
            rows,
            level_row,
        )
        for bar in bars
    ]
    if cursor is not None and 0 <= cursor < len(columns):
        columns[cursor] = tuple((char, _mark_ink(ink)) for char, ink in columns[cursor])
    lines = []
    for row, cells in enumerate(zip(*columns, strict=True)):
        label = (f"{labels.get(row, ''):>{LABEL - 1}}", _LEVEL if row == level_row else MUTED)
        lines.append(Line((label, ("│", FAINT), *_join_cells(cells))))
    return [*lines, x_axis(axis.show(0.0), len(bars), ticks, note)]


def x_axis(label: str, columns: int, ticks: Sequence[Tick], note: str = "") -> Line:
    """The line below the columns: ticks as long as they do not touch, then a note."""
    runs: list[Run] = [(f"{label:>{LABEL - 1}}", MUTED), ("│", FAINT)]
    end = 0
    room = columns - (len(note) + 1 if note else 0)
    for tick in ticks:
        behind = tick.column + cell_len(tick.label) + 1
        if tick.column < end or behind > room:
            continue
        runs += [("─" * (tick.column - end), FAINT), (tick.label, MUTED), (" ", FAINT)]
        end = behind
    runs.append(("─" * max(room - end, 0), FAINT))
    if note and room > 0:
        runs.append((f" {note}", MUTED))
    return Line(tuple(run for run in runs if run[0]))


def every(count: int, each: int, apart: int) -> list[Tick]:
    """Make ticks at round numbers from 0 to below `count`, at least `apart` columns apart; a column is `each` of them."""
    step = 1
    while step < each * apart:
        step = next(size for size in (step * 2, step * 5 // 2) if str(size).rstrip("0") in ("1", "2", "5"))
    return [Tick(at // each, str(at)) for at in range(0, count, step)]


def fitted(rows: int) -> int:
    """The most rows, of so many, that are parted into equal steps of the y axis."""
    return max((size for size in (1, 2, 3, 4, 6, 10, 15, rows - rows % 4) if size <= rows), default=0)


def _label_rows(axis: Axis, rows: int) -> dict[int, str]:
    """By row: the top, and others at equal distances."""
    parts = 8 if rows >= 16 and rows % 8 == 0 else 4 if rows >= 8 else 2
    apart = next((rows // count for count in (parts, 5, 2) if rows % count == 0 and rows // count > 1), rows)
    return {row: axis.show(axis.top * (rows - row) / rows) for row in range(0, rows, apart)}


def _count_eighths(value: float, axis: Axis, rows: int) -> int:
    return round(axis.fraction(value) * rows * 8)


@lru_cache(maxsize=8192)  # from frame to frame hardly any column is another
def _draw_column(
    height: int, high: int, ink: Ink, outlier: bool, rows: int, level_row: int | None
) -> tuple[_Cell, ...]:
    """The cells of a column from the top."""
    cells = [_draw_cell(height - base, high - base, ink) for base in range((rows - 1) * 8, -1, -8)]
    if outlier:
        cells[max(rows - 1 - -(-height // 8), 0)] = "•", OUTLIER
    if level_row is not None and cells[level_row][0] == " ":
        cells[level_row] = "─", _LEVEL
    return tuple(cells)


def _draw_cell(height: int, high: int, ink: Ink) -> _Cell:
    """One cell of a column: how many eighths of it are filled."""
    height, high = min(max(height, 0), 8), min(max(high, 0), 8)
    if height == 0 and high:
        return EIGHTHS[high], _UPPER
    if 0 < height < 8 and high == 8:
        return EIGHTHS[height], ink._replace(ground=_UPPER.color)
    return EIGHTHS[max(height, high)], ink  # both end in this cell: its upper end counts


def _mark_ink(ink: Ink) -> Ink:
    """The ink of a marked column; the part above its value stays apart."""
    return ink._replace(ground=_HERE.ground) if ink == _UPPER else _HERE._replace(ground=ink.ground or _HERE.ground)


def _join_cells(cells: Sequence[_Cell]) -> list[Run]:
    return [("".join(char for char, _ in group), ink) for ink, group in groupby(cells, key=itemgetter(1))]
