"""Tables as aligned text; columns that do not fit are narrowed and their cells wrapped."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import zip_longest
from typing import NamedTuple

from rich.cells import cell_len

from termchat.tui.draw.ink import BLANK, Ink, Line, Run
from termchat.tui.draw.wrap import Wrapper

FRAME = Ink("border")
BAR: Run = (" │ ", FRAME)
NARROWEST = 4


class TableCell(NamedTuple):
    """A cell's runs, and "left", "right", "center" or ""."""

    runs: tuple[Run, ...]
    align: str


def render_table(rows: list[list[TableCell]], width: int, hidden: int = 0) -> Iterator[Line]:
    """The lines of a table in `width` cells but for the first `hidden` rows; the first row is its head.

    Where there are too many columns to stand beside each other each row is told cell by cell, with the names of the columns.
    """
    natural = [max(map(_width_of, column)) for column in zip_longest(*rows, fillvalue=TableCell((), ""))]
    room = width - len(BAR[0]) * (len(natural) - 1)
    widths = _fitted(natural, room)
    if sum(widths) > room:
        for row in rows[max(hidden, 1) :]:
            yield from _told(rows[0], row, width)
        if len(rows) == 1:
            yield from _in_one(rows[0], width)
        return
    for number, row in enumerate(rows[hidden:], hidden):
        yield from _row(row, widths)
        if number == 0:
            yield Line((("─┼─".join("─" * size for size in widths), FRAME),))


def _told(head: list[TableCell], row: list[TableCell], width: int) -> Iterator[Line]:
    """A row as a list of its cells, each behind its column's name, below a rule."""
    yield Line((("─" * max(width, 1), FRAME),))
    for name, cell in zip(head, row, strict=False):
        if cell.runs:
            wrapper = Wrapper(width, (), (("  ", Ink()),))
            for text, ink in (*name.runs, (": ", FRAME), *cell.runs):
                wrapper.feed(text, ink)
            yield from wrapper.lines


def _in_one(row: list[TableCell], width: int) -> list[Line]:
    """A head without a row below it: one text, wrapped."""
    wrapper = Wrapper(width)
    for index, cell in enumerate(row):
        for text, ink in (BAR, *cell.runs) if index else cell.runs:
            wrapper.feed(text, ink)
    return wrapper.lines


def _width_of(cell: TableCell) -> int:
    return max(sum(cell_len(text) for text, _ in line.runs) for line in _wrapped(cell.runs, 10_000))


@lru_cache(maxsize=256)
def _wrapped(runs: tuple[Run, ...], width: int) -> tuple[Line, ...]:
    """The lines of a cell; those of a table that streams are asked for again and again."""
    wrapper = Wrapper(width)
    for text, ink in runs:
        wrapper.feed(text, ink)
    return tuple(wrapper.lines)


def _fitted(natural: list[int], room: int) -> list[int]:
    """The columns' widths: the widest give way first."""
    widths = [max(size, 1) for size in natural]
    while sum(widths) > room and max(widths) > NARROWEST:
        widest = max(widths)
        second = max((size for size in widths if size < widest), default=NARROWEST)
        count = widths.count(widest)
        target = max(second, widest - max((sum(widths) - room) // count, 1), NARROWEST)
        widths = [target if size == widest else size for size in widths]
    return widths


def _row(row: list[TableCell], widths: list[int]) -> Iterator[Line]:
    columns = [_wrapped(cell.runs, size) for cell, size in zip(row, widths, strict=False)]
    for parts in zip_longest(*columns, fillvalue=BLANK):
        runs: list[Run] = []
        for index, (part, size) in enumerate(zip(parts, widths, strict=False)):
            if index:
                runs.append(BAR)
            left, right = _padding(size - sum(cell_len(text) for text, _ in part.runs), row[index].align)
            runs += [(" " * left, Ink()), *part.runs, (" " * right, Ink())]
        yield Line(tuple(run for run in runs if run[0]))


def _padding(space: int, align: str) -> tuple[int, int]:
    space = max(space, 0)
    left = {"right": space, "center": space // 2}.get(align, 0)
    return left, space - left
