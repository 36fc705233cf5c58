"""How many tokens each stage of the chain left, as a funnel."""

from __future__ import annotations

import math

from termchat.decoding.records import Token
from termchat.tui.draw.ink import Ink, Line
from termchat.tui.draw.marks import MUTED, STRONG, TITLE, bar, spread

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
