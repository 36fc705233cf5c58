"""The curve of the next token: what the model said, and what the chain left of it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from termchat.decoding.records import Candidate, Token
from termchat.text import show_piece
from termchat.tui.draw.ink import Ink, Line, Run
from termchat.tui.draw.marks import ACCENT, FAINT, MUTED, STRONG, TEXT, TITLE, bar, column, length, percent, spread
from termchat.tui.panels.plots.drawing import LABEL, Axis, Bar, Tick, ceiling, fitted, plot

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


LEAST = 1e-4
"""The probability at the foot of the axis."""
_AXIS = Axis(1.0, lambda share: f"{share * 100:.2g}%" if share < 0.995 else "100%", LEAST, logarithmic=True)


class Rest:
    """What all tokens that are not shown have together, of 1: in the model's distribution and after the chain."""

    def __init__(self, token: Token, shown: int) -> None:
        kept = token.candidates[:shown]
        self.model = max(1.0 - sum(math.exp(candidate.logprob) for candidate in kept), 0.0)
        self.after = max(1.0 - sum(candidate.probability for candidate in kept), 0.0)
        if self.after < 1e-6:  # sums of rounded numbers
            self.after = 0.0


def distribution_plot(token: Token, width: int, rows: int, title: Ink = TITLE, name: str = "NEXT TOKEN") -> list[Line]:
    """The candidates in the order of their logits: their probability in the model's distribution (T = 1, before the chain) and
    after the chain, on a logarithmic axis; which was drawn, which were cut and by what, and what the rest has."""
    candidates = token.candidates
    shown = slots(width, len(candidates)).shown
    model = [math.exp(candidate.logprob) for candidate in candidates]
    after = [candidate.probability for candidate in candidates]
    head: list[Run] = [(name, title), (" log · ", MUTED), ("█ model", BEFORE), ("  █ after", AFTER)]
    of: list[Run] = [(f"{shown} highest", MUTED)]
    body = pairs_plot(candidates, model, after, _AXIS, fitted(rows - 4, quarters=True), width)
    return [Line(spread(head, of, width)), *body, marks_line(token, width), _foot(token, shown, width)]


def _foot(token: Token, shown: int, width: int) -> Line:
    rest = Rest(token, shown)
    others: list[Run] = [
        ("all others ", MUTED), (percent(rest.model), TEXT), (" → ", MUTED), (percent(rest.after), TEXT),
    ]  # fmt: skip
    cut = Counter(candidate.removed_by for candidate in token.candidates[:shown] if candidate.removed_by)
    marks: list[Run] = [("  ● drawn", ACCENT)] + ([("  x cut", MUTED)] if cut else [])
    by: list[Run] = [(" by " + ", ".join(f"{stage} {count}" for stage, count in cut.items()), MUTED)] if cut else []
    fits = length([*others, *marks, *by]) < width
    return Line(spread(others, [*marks, *by] if fits else marks, width))


_NAME, _COUNT = 13, 8


def survivors_plot(token: Token, width: int, rows: int, title: Ink = TITLE) -> list[Line]:
    """A bar for each stage: the logarithm of what it left, from 1 to all that there were; a stage that cut stands out."""
    before = full = max((stage.survivors for stage in token.stages), default=1)
    lines = [Line(spread([("SURVIVORS", title)], [(f"log, 1 to {full}", MUTED)], width))]
    for stage in token.stages[: rows - 1]:
        ink = STRONG if stage.survivors < before else MUTED
        part = math.log(max(stage.survivors, 1)) / math.log(full) if full > 1 else 1.0
        left = (f"{stage.survivors:>{_COUNT}}", ink)
        lines.append(Line(((f"{stage.name:<{_NAME}}", ink), *bar(part, max(width - _NAME - _COUNT, 1)), left)))
        before = stage.survivors
    return lines


def shares(logits: Sequence[float], temperature: float) -> list[float]:
    """The softmax of the logits at a temperature, over just these; at 0 all is the highest one's, the first of equals."""
    if not logits:
        return []
    top = max(logits)
    if temperature <= 0:
        first = logits.index(top)
        return [float(at == first) for at in range(len(logits))]
    weights = [math.exp((logit - top) / temperature) for logit in logits]
    total = sum(weights)
    return [weight / total for weight in weights]


def temperature_plot(token: Token, temperature: float, width: int, rows: int, title: Ink = TITLE) -> list[Line]:
    """The candidates' shares among themselves at temperature 1 and at another one, from the raw logits and before any cut. What
    the tokens beyond them would have at another temperature is not on record, so they are left out."""
    shown = slots(width, len(token.candidates)).shown
    candidates = token.candidates[:shown]
    logits = [candidate.logit for candidate in candidates]
    model, knob = shares(logits, 1.0), shares(logits, temperature)
    axis = Axis(min(ceiling(max([*model, *knob], default=1.0)), 1.0), lambda share: f"{share * 100:.3g}%")
    head: list[Run] = [("TEMPERATURE ", title), ("█ 1", BEFORE), (f"  █ {temperature:g}", AFTER)]
    of: list[Run] = [(f"share among these {shown}", MUTED)]
    return [Line(spread(head, of, width)), *pairs_plot(candidates, model, knob, axis, fitted(rows - 2), width)]
