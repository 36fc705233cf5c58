"""Plots over a whole reply: how uncertain the model was, how probable what was drawn, how long each token took."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from termchat.text import show_piece
from termchat.tui.draw.ink import BLANK, Ink, Line, Run
from termchat.tui.draw.marks import ACCENT, MUTED, STRONG, TEXT, TITLE, UNKNOWN, at_most, column, percent, spread
from termchat.tui.pages.plots.drawing import LABEL, OUTLIER, Axis, Bar, ceiling, every, fitted, number, plot
from termchat.tui.pages.plots.trace import OUTLIER as TIMES
from termchat.tui.pages.plots.trace import Measure, Trace, highest

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


def columns_of(width: int) -> int:
    """Columns that a plot in so many cells has."""
    return max(width - LABEL, 1)


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


class Placed(NamedTuple):
    """A plot on a page: the row that it begins on, and how many it has."""

    measure: Measure
    top: int
    rows: int


def stacked(measures: Sequence[Measure], trace: Trace, width: int, rows: int) -> tuple[list[Line], list[Placed]]:
    """Render plots below each other, as many as fit, the first at least; they share the rest of the rows, and a gap parts
    them."""
    shown: list[Measure] = []
    for measure in measures:
        if not shown or sum(PLOTS[one].least for one in (*shown, measure)) <= rows:
            shown.append(measure)
    more = max(rows - sum(PLOTS[one].least for one in shown), 0) // len(shown)
    plots = [
        plot_lines(one, trace, width, PLOTS[one].least + more, TITLE._replace(does=f"big('{one}')")) for one in shown
    ]
    gap = [BLANK] if sum(map(len, plots)) + len(plots) - 1 <= rows else []
    lines: list[Line] = []
    placed: list[Placed] = []
    for measure, drawn in zip(shown, plots, strict=True):
        lines += gap if lines else []
        placed.append(Placed(measure, len(lines), len(drawn)))
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
    folded, times = trace.folded(measure), trace.times
    if measure == "entropy":
        axis = Axis(max(ceiling(highest(folded.highs)), _LEAST_BITS), number)
        bars = [Bar(_or_none(mean), high=_or_none(high)) for mean, high in zip(folded.means, folded.highs, strict=True)]
    elif measure == "probability":
        axis = Axis(1.0, lambda share: f"{share * 100:.3g}%")
        bars = [Bar(_or_none(mean)) for mean in folded.means]
    else:
        limit = TIMES * times.median
        top = ceiling(min(highest(folded.highs), 1.5 * limit) if limit > 0 else highest(folded.highs))
        axis = Axis(top, number)
        bars = [Bar(high, OUTLIER if high > limit else ACCENT, outlier=high > limit) for high in folded.highs]
    is_time = measure == "time"
    columns, each = folded.columns, folded.each
    bars += [Bar(0.0)] * (columns - len(bars))
    ticks = every(columns * each, each, _APART)
    if columns >= _NAMED_FROM:  # with the word of the token that a tick stands for
        ticks = [tick._replace(label=f"{tick.label} {_word_of(trace, tick.column * each)}".rstrip())
                 for tick in every(columns * each, each, _NAMED_APART)]  # fmt: skip
    cursor = trace.cursor // each if trace.cursor is not None else None
    level = times.median if is_time else None
    body = plot(bars, axis, fitted(rows - 2 - is_time), ticks, note="token", level=level, cursor=cursor)
    return [_render_head(measure, trace, width, title), *body, *([_render_foot(trace, width)] if is_time else [])]


def _or_none(value: float) -> float:
    """Replace an unknown value by 0, which has no bar."""
    return 0.0 if math.isnan(value) else value


def _word_of(trace: Trace, at: int) -> str:
    return column(show_piece(trace.text(at)), _PIECE).rstrip() if at < trace.count else ""


def _render_head(measure: Measure, trace: Trace, width: int, title: Ink) -> Line:
    """Render the head of a plot: its title, the folding of a column of several tokens, and number, word and value of the
    token under the cursor, else of the newest."""
    spec, each = PLOTS[measure], trace.folded(measure).each
    left: list[Run] = [(spec.title, title), (f" {spec.unit}", MUTED)]
    if not trace.count:
        return Line((*left, (" · waiting for the first token", MUTED)))
    index = trace.count - 1 if trace.cursor is None else trace.cursor
    known = trace.value(measure, index)
    value = UNKNOWN if math.isnan(known) else spec.form.format(known)
    unlisted = trace.unlisted(index) if measure == "entropy" else 0.0
    if most := at_most(known, unlisted):
        value = most + value + (f", {percent(unlisted, 2)} not listed" if width >= _NAMED_FROM else "")
    word = _word_of(trace, index) + " " if width >= _NAMED_FROM else ""
    ink = STRONG if trace.cursor is None else Ink("cursor", bold=True)
    right: list[Run] = [(f"{index} ", MUTED), (word, TEXT), (value, ink)]
    heads = [[*left, (f" · {spec.folding} of {each}{words}", MUTED)] for words in _FOLDED] if each > 1 else []
    for head in (*heads, left, [left[0]]):
        line = spread(head, right, width)
        if line[-1] == right[-1]:
            return Line(line)
    return Line(spread([left[0]], right[-1:], width))


def _render_foot(trace: Trace, width: int) -> Line:
    """Render the median, the number of outliers, and the slowest token by its number and text."""
    times = trace.times
    if not trace.count:
        return Line(())
    ms, at = times.worst
    outliers = f"{times.outliers} over {TIMES:.0f}×"
    runs: list[Run] = [
        ("median ", Ink("stamp")), (number(times.median), TEXT),
        (" · ", MUTED), (outliers, OUTLIER if times.outliers else MUTED),
        (" · worst ", MUTED), (number(ms), TEXT), (f" at {at} ", MUTED),
    ]  # fmt: skip
    room = width - sum(len(text) for text, _ in runs)
    if room >= 3:
        runs.append((column(show_piece(trace.text(at)), min(room, _PIECE)).rstrip(), TEXT))
    return Line(tuple(runs))
