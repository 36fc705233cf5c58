"""The curve of the next token: what the model said, and what the chain left of it."""

from __future__ import annotations

import math
from collections import Counter

from termchat.decoding.records import Token
from termchat.tui.draw.ink import Ink, Line, Run
from termchat.tui.draw.marks import ACCENT, MUTED, TEXT, TITLE, length, percent, spread
from termchat.tui.views.plots.drawing import Axis, fitted
from termchat.tui.views.plots.pairs import AFTER, BEFORE, marks_line, pairs_plot, slots

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
