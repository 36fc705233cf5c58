"""What the temperature does to the model's distribution, as two curves."""

from __future__ import annotations

import math
from collections.abc import Sequence

from termchat.decoding.records import Token
from termchat.tui.draw.ink import Ink, Line, Run
from termchat.tui.draw.marks import MUTED, TITLE, spread
from termchat.tui.views.plots.drawing import Axis, ceiling, fitted
from termchat.tui.views.plots.pairs import AFTER, BEFORE, pairs_plot, slots


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
