"""Two values for each candidate, side by side: what a distribution was, and what became of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from termchat.decoding.records import Candidate, Token
from termchat.text import show_piece
from termchat.tui.draw.ink import Ink, Line, Run
from termchat.tui.draw.marks import ACCENT, FAINT, MUTED, column
from termchat.tui.views.plots.drawing import LABEL, Axis, Bar, Tick, plot

BEFORE = Ink("muted")
AFTER = ACCENT
_NAMED = 5
"""Cells of a slot from which the candidate's text stands below it."""
_TICKS = 5
_WIDEST = 12


class Slots(NamedTuple):
    """`shown` candidates of `cells` cells each; the last cell is a gap where there are three or more."""

    shown: int
    cells: int


def slots(width: int, candidates: int) -> Slots:
    """How many candidates have room for two columns, and how wide they are."""
    columns = max(width - LABEL, 2)
    count = min(candidates, columns // 2)
    return Slots(count, min(columns // max(count, 1), _WIDEST))


def pairs_plot(
    candidates: Sequence[Candidate], before: Sequence[float], after: Sequence[float], axis: Axis, rows: int, width: int
) -> list[Line]:
    """`rows` rows, then the x axis: the candidates' texts where there is room, else their places."""
    count, cells = slots(width, len(candidates))
    wide = max((cells - (cells > 2)) // 2, 1)
    gap = cells - 2 * wide
    bars: list[Bar] = []
    for one, other in zip(before[:count], after[:count], strict=True):
        bars += [Bar(one, BEFORE)] * wide + [Bar(other, AFTER)] * wide + [Bar(0.0)] * gap
    if cells >= _NAMED:
        ticks = [
            Tick(at * cells, column(show_piece(candidates[at].text), cells - 1).rstrip() or " ") for at in range(count)
        ]
        return plot(bars, axis, rows, ticks)
    return plot(bars, axis, rows, [Tick(at * cells, str(at)) for at in range(0, count, _TICKS)])


def drawn_slot(token: Token, count: int) -> int | None:
    """The place of the drawn token among the first `count` candidates."""
    return next((at for at, candidate in enumerate(token.candidates[:count]) if candidate.id == token.id), None)


def marks_line(token: Token, width: int) -> Line:
    """Below the columns: which one was drawn, and which were cut."""
    count, cells = slots(width, len(token.candidates))
    drawn = drawn_slot(token, count)
    runs: list[Run] = [(" " * (LABEL - 1), MUTED), ("│", FAINT)]
    for at, candidate in enumerate(token.candidates[:count]):
        cut = candidate.removed_by is not None
        runs.append(("●".ljust(cells), ACCENT) if at == drawn else (("x" if cut else " ").ljust(cells), MUTED))
    return Line(tuple(runs))
