"""Plots over a whole reply: how uncertain the model was, how probable what was drawn, how long each token took."""

from __future__ import annotations

import math

from termchat.text import show_piece
from termchat.tui.draw.ink import Ink, Line, Run
from termchat.tui.draw.marks import MUTED, STRONG, TEXT, TITLE, UNKNOWN, at_most, column, percent, spread
from termchat.tui.panels.plots.drawing import LABEL, OUTLIER, Axis, Bar, Tick, ceiling, every, fitted, number, plot
from termchat.tui.panels.plots.trace import OUTLIER as TIMES
from termchat.tui.panels.plots.trace import Measure, Trace, highest

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


def entropy_plot(trace: Trace, width: int, rows: int, title: Ink = TITLE) -> list[Line]:
    """Entropy of the model's own distribution (T = 1, before the chain), in bits. A column is the mean of its tokens, the
    lighter part above it the highest of them."""
    folded = trace.folded("entropy")
    axis = Axis(max(ceiling(highest(folded.highs)), _LEAST_BITS), number)
    bars = [Bar(_or_none(mean), high=_or_none(high)) for mean, high in zip(folded.means, folded.highs, strict=True)]
    head = _head(trace, "ENTROPY", "in bit", "mean, max", "entropy", "{:.2f}", width, title)
    return [head, *_over_reply(trace, bars, axis, rows - 2, "entropy")]


def probability_plot(trace: Trace, width: int, rows: int, title: Ink = TITLE) -> list[Line]:
    """The model's own probability of the token that was drawn (T = 1, before the chain): the mean of a column's tokens."""
    axis = Axis(1.0, lambda share: f"{share * 100:.3g}%")
    bars = [Bar(_or_none(mean)) for mean in trace.folded("probability").means]
    head = _head(trace, "PROBABILITY", "model, before the chain", "mean", "probability", "{:.1%}", width, title)
    return [head, *_over_reply(trace, bars, axis, rows - 2, "probability")]


def time_plot(trace: Trace, width: int, rows: int, title: Ink = TITLE) -> list[Line]:
    """Milliseconds that decoding took: the highest of a column's tokens, the median of all as a line. Columns beyond twice the
    median are outliers: they have another colour and a dot; they do not count for the scale."""
    folded, times = trace.folded("time"), trace.times
    limit = TIMES * times.median
    top = ceiling(min(highest(folded.highs), 1.5 * limit) if limit > 0 else highest(folded.highs))
    bars = [Bar(high, OUTLIER if high > limit else Ink("accent"), outlier=high > limit) for high in folded.highs]
    head = _head(trace, "DECODE TIME", "in ms", "max", "time", "{:.1f}", width, title)
    body = _over_reply(trace, bars, Axis(top, number), rows - 3, "time", times.median)
    return [head, *body, _foot(trace, width)]


def _or_none(value: float) -> float:
    """What is not known has no bar."""
    return 0.0 if math.isnan(value) else value


def _over_reply(
    trace: Trace, bars: list[Bar], axis: Axis, rows: int, measure: Measure, level: float | None = None
) -> list[Line]:
    folded = trace.folded(measure)
    each = folded.each
    shown = [*bars, *[Bar(0.0)] * (folded.columns - len(bars))]
    ticks = every(folded.columns * each, each, _APART)
    if folded.columns >= _NAMED_FROM:
        ticks = [_named(trace, tick, each) for tick in every(folded.columns * each, each, _NAMED_APART)]
    return plot(
        shown, axis, fitted(rows), ticks, note="token", level=level,
        cursor=trace.cursor // each if trace.cursor is not None else None,
    )  # fmt: skip


def _named(trace: Trace, tick: Tick, each: int) -> Tick:
    """The tick, with the word of the token that it stands for."""
    at = tick.column * each
    word = column(show_piece(trace.text(at)), _PIECE).rstrip() if at < trace.count else ""
    return tick._replace(label=f"{tick.label} {word}".rstrip())


def _head(
    trace: Trace, name: str, unit: str, folding: str, measure: Measure, form: str, width: int, title: Ink
) -> Line:
    """What is shown, what a column is where it stands for several tokens, and number, word and value of the token that is
    looked at, else of the newest."""
    each = trace.folded(measure).each
    left: list[Run] = [(name, title), (f" {unit}", MUTED)]
    if not trace.count:
        return Line((*left, (" · waiting for the first token", MUTED)))
    index = trace.count - 1 if trace.cursor is None else trace.cursor
    found = trace.value(measure, index)
    value = UNKNOWN if math.isnan(found) else form.format(found)
    unlisted = trace.unlisted(index) if measure == "entropy" else 0.0
    if most := at_most(found, unlisted):
        value = most + value + (f", {percent(unlisted, 2)} not listed" if width >= _NAMED_FROM else "")
    word = column(show_piece(trace.text(index)), _PIECE).rstrip() + " " if width >= _NAMED_FROM else ""
    ink = STRONG if trace.cursor is None else Ink("cursor", bold=True)
    right: list[Run] = [(f"{index} ", MUTED), (word, TEXT), (value, ink)]
    heads = [[*left, (f" · {folding} of {each}{words}", MUTED)] for words in _FOLDED] if each > 1 else []
    for head in (*heads, left, [left[0]]):
        line = spread(head, right, width)
        if line[-1] == right[-1]:
            return Line(line)
    return Line(spread([left[0]], right[-1:], width))


def _foot(trace: Trace, width: int) -> Line:
    """The median, how many outliers there are, and the slowest token by its number and text."""
    times = trace.times
    if not trace.count:
        return Line(())
    worst = times.worst
    outliers = f"{times.outliers} over {TIMES:.0f}×"
    runs: list[Run] = [
        ("median ", Ink("stamp")), (number(times.median), TEXT),
        (" · ", MUTED), (outliers, OUTLIER if times.outliers else MUTED),
        (" · worst ", MUTED), (number(worst.ms), TEXT), (f" at {worst.at} ", MUTED),
    ]  # fmt: skip
    room = width - sum(len(text) for text, _ in runs)
    if room >= 3:
        runs.append((column(show_piece(trace.text(worst.at)), min(room, _PIECE)).rstrip(), TEXT))
    return Line(tuple(runs))
