"""All plots of a reply, and how those of a page share its rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from termchat.tui.draw.ink import BLANK, Ink, Line
from termchat.tui.draw.marks import TITLE
from termchat.tui.panels.plots.reply_plots import entropy_plot, probability_plot, time_plot
from termchat.tui.panels.plots.trace import Measure, Trace

Name = Literal["entropy", "probability", "time"]


class Picture(NamedTuple):
    """What draws a plot in so many cells and rows with such a title, how many rows it needs, and which measure it shows."""

    draw: Callable[[Trace, int, int, Ink], list[Line]]
    least: int
    measure: Measure


class Placed(NamedTuple):
    """A picture on a page: the row that it begins on, and its lines."""

    name: Name
    top: int
    lines: list[Line]


PICTURES: dict[Name, Picture] = {
    "entropy": Picture(entropy_plot, 5, "entropy"),
    "probability": Picture(probability_plot, 5, "probability"),
    "time": Picture(time_plot, 6, "time"),
}


def arranged(names: Sequence[Name], trace: Trace, width: int, rows: int) -> list[Placed]:
    """The pictures below each other, as many of them as there is room for, the first at least; they share what is left of the
    room, and a rest parts them."""
    shown: list[Name] = []
    for name in names:
        if not shown or sum(PICTURES[one].least for one in (*shown, name)) <= rows:
            shown.append(name)
    more = max(rows - sum(PICTURES[name].least for name in shown), 0) // len(shown)
    drawn = [
        PICTURES[name].draw(trace, width, PICTURES[name].least + more, TITLE._replace(does=f"big('{name}')"))
        for name in shown
    ]
    gap = 1 if sum(map(len, drawn)) + len(drawn) - 1 <= rows else 0
    placed: list[Placed] = []
    top = 0
    for name, lines in zip(shown, drawn, strict=True):
        placed.append(Placed(name, top, lines))
        top += len(lines) + gap
    return placed


def stacked(placed: Sequence[Placed]) -> list[Line]:
    lines: list[Line] = []
    for one in placed:
        lines += [BLANK] * (one.top - len(lines)) + one.lines
    return lines
