"""A table of a page: columns that share the width, rows with a cursor, and a click on each row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from rich.cells import cell_len

from termchat.text import one_line
from termchat.tui.draw.ink import Ink, Line, Run, doing
from termchat.tui.draw.marks import ACCENT, MUTED, STRONG, TEXT, column, fitting, length
from termchat.tui.pages.scene import first_in_view

Row = TypeVar("Row")
Cell = str | Sequence[Run] | None
"""A text in the ink of its row, or runs in inks of their own; None where the cell before it goes on."""

MARK, GAP = 2, "  "
"""Cells before a row, where the cursor is marked, and between two columns."""


@dataclass(frozen=True)
class GridColumn(Generic[Row]):
    """A column of at least `width` cells.

    Where there is no room all columns take their `short` heads; then those of the highest `rank` go, but none of rank 0. A
    column that `fills` has what the others leave, up to its widest cell.
    """

    head: str
    cell: Callable[[Row], Cell]
    width: int = 0
    right: bool = False
    short: str = ""
    rank: int = 0
    fills: bool = False


@dataclass(frozen=True)
class GridTable(Generic[Row]):
    """`cursor` is the number of the selected row, -1 for none; `does` returns the action of a click on a row. A table that is
    not `marked` shows the cursor by its ground alone."""

    columns: Sequence[GridColumn[Row]]
    rows: Sequence[Row]
    cursor: int = -1
    does: Callable[[Row], str] = lambda _: ""
    marked: bool = True

    def lines(self, width: int, rows: int = 0) -> list[Line]:
        """Render the heads and the rows; with `rows`, as many as fit around the cursor."""
        columns, sizes = self._fit_columns(width - MARK * self.marked)
        lines: list[Line] = []
        if any(one.head for one in columns):
            heads = [(GAP * (at > 0) + column(one.head, size, right=one.right), MUTED)
                     for at, (one, size) in enumerate(zip(columns, sizes, strict=True))]  # fmt: skip
            lines.append(Line(fitting([(" " * MARK * self.marked, TEXT), *heads], width)))
        fixed = MARK * self.marked + sum(sizes) + len(GAP) * (len(sizes) - 1)
        room = max(rows - len(lines), 1) if rows else len(self.rows)
        first = first_in_view(max(self.cursor, 0), len(self.rows), room)
        for at, row in enumerate(self.rows[first : first + room], first):
            here = at == self.cursor
            runs: list[Run] = [("▌ " if here else "  ", ACCENT)] if self.marked else []
            runs += _render_row(row, columns, sizes, STRONG if here else TEXT)
            if fixed > width:
                runs = [*fitting(runs, width)]
            does = self.does(row)
            lines.append(Line(tuple(doing(does, runs) if does else runs), "panel" if here else ""))
        return lines

    def _fit_columns(self, width: int) -> tuple[list[GridColumn[Row]], list[int]]:
        """Choose the columns that have room, and their widths."""
        columns = list(self.columns)
        if _least_width(columns) > width:
            columns = [replace(one, head=one.short or one.head) for one in columns]
        while _least_width(columns) > width and any(one.rank for one in columns):
            columns.remove(max(columns, key=lambda one: one.rank))
        left = width - _least_width(columns)
        sizes = []
        for one in columns:
            least = max(one.width, cell_len(one.head))
            widest = max((_cell_width(one.cell(row)) for row in self.rows), default=0) if one.fills else 0
            sizes.append(max(min(least + left, max(widest, least)), 0) if one.fills else least)
        return columns, sizes


def _least_width(columns: Sequence[GridColumn[Row]]) -> int:
    return sum(max(one.width, cell_len(one.head)) for one in columns) + len(GAP) * (len(columns) - 1)


def _cell_width(cell: Cell) -> int:
    return cell_len(cell) if isinstance(cell, str) else length(cell or ())


def _render_row(row: Row, columns: Sequence[GridColumn[Row]], sizes: Sequence[int], ink: Ink) -> list[Run]:
    runs: list[Run] = []
    cells = [one.cell(row) for one in columns]
    for at, (one, cell) in enumerate(zip(columns, cells, strict=True)):
        if cell is None:
            continue
        size, after = sizes[at], at + 1
        while after < len(cells) and cells[after] is None:
            size, after = size + len(GAP) + sizes[after], after + 1
        gap, is_last = GAP * (at > 0), after == len(cells)
        if isinstance(cell, str):
            runs.append((gap + column(cell, size, right=one.right), ink))
            continue
        used, shown = length(cell), [*cell]
        if used > size:
            shown = [(one_line(text, size), ink) for text, ink in cell] if len(cell) == 1 else [*fitting(cell, size)]
            used = length(shown)
        fill = (" " * (size - used), TEXT)
        is_right = one.right and after == at + 1
        runs += [(gap, TEXT), *((fill, *shown) if is_right else shown if is_last else (*shown, fill))]
    return [run for run in runs if run[0]]
