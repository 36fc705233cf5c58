"""The small signs that panels are made of: bars, sparklines, numbers as people read them, columns."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache

from rich.cells import cell_len

from termchat.text import UNKNOWN as UNKNOWN
from termchat.text import one_line
from termchat.text import percent as percent
from termchat.tui.draw.ink import Ink, Line, Run
from termchat.tui.draw.wrap import wrap_runs

TEXT = Ink()
MUTED = Ink("muted")
FAINT = Ink("border")
ACCENT = Ink("accent")
STRONG = Ink("text", bold=True)
TITLE = Ink("muted", bold=True)
LIGHT = Ink("background", ground="warning", bold=True)
"""What a lesson points at,"""
LIT = "▸"
"""with a mark before it."""

ROOMY = 30
"""From so many rows on, blank lines part what stands in the panels."""

_SPARKS = "▁▂▃▄▅▆▇█"


def bar(fraction: float, width: int, ink: Ink = ACCENT) -> list[Run]:
    """Draw a bar of `width` cells, filled to a fraction from 0 to 1; whatever is above 0 shows."""
    full = min(max(round(fraction * width), int(fraction > 0)), width)
    return [("━" * full, ink), ("─" * (width - full), FAINT)]


def sparkline(values: Sequence[float], width: int, top: float = 0.0) -> str:
    """Draw the last `width` values, with `top`, or the highest of them, at full height; NaN has none."""
    shown = values[-width:] if width > 0 else ()
    top = top or max((value for value in shown if value == value), default=0) or 1
    heights = [value * len(_SPARKS) / top for value in shown]
    return "".join(
        _SPARKS[min(int(height), len(_SPARKS) - 1)] if height == height else " " for height in heights
    ).rjust(width)


def count(number: int) -> str:
    """Format a count of tokens, short from ten thousand on: 9999, 12.4k, 131k, 10M."""
    if number < 10_000:
        return str(number)
    if number < 10_000_000:
        return f"{number / 1000:.1f}k" if number < 100_000 else f"{number // 1000}k"
    return f"{number // 1_000_000}M"


def describe_recomputed(tolerance: float | None, *, short: bool = False) -> str:
    """Name numbers that were computed again, with how much a probability may differ from the one first drawn from, where that
    was measured (0.0: not at all)."""
    if tolerance is None:
        return "recomputed"
    within = f"±{percent(tolerance)}" if tolerance else "±0"
    return within if short else f"recomputed {within}"


@lru_cache(maxsize=8192)
def column(text: str, width: int, *, right: bool = False) -> str:
    """Fit text, also foreign, to exactly `width` cells."""
    shown = one_line(text, width, cell_len)
    gap = " " * (width - cell_len(shown))
    return gap + shown if right else shown + gap


def length(runs: Iterable[Run]) -> int:
    """Measure runs in cells."""
    return sum(cell_len(text) for text, _ in runs)


def fitting(runs: Iterable[Run], width: int) -> tuple[Run, ...]:
    """Cut runs to at most `width` cells."""
    kept: list[Run] = []
    room = width
    for text, ink in runs:
        if cell_len(text) > room:
            return (*kept, (one_line(text, room, cell_len), ink)) if room > 0 else tuple(kept)
        kept.append((text, ink))
        room -= cell_len(text)
    return tuple(kept)


def format_number(value: float | None, digits: int = 2) -> str:
    """Format a number; "" if it is unknown."""
    return "" if value is None or math.isnan(value) else f"{value:.{digits}f}".replace("-", "−")


def spread(left: Sequence[Run], right: Sequence[Run], width: int) -> tuple[Run, ...]:
    """Put left and right on one line; only the left where there is no room for both."""
    gap = width - length(left) - length(right)
    if gap < 1:
        return tuple(left)
    return (*left, (" " * gap, TEXT), *right)


def beside(left: Sequence[Line], right: Sequence[Line], half: int) -> list[Line]:
    """Join two columns, the left one `half` cells wide; the shorter one is filled up."""
    lines = []
    for row in range(max(len(left), len(right))):
        one, other = (side[row].runs if row < len(side) else () for side in (left, right))
        lines.append(Line((*one, (" " * max(half - length(one), 0), TEXT), (" │ ", FAINT), *other)))
    return lines


def mark_bound(number: float, unlisted: float) -> str:
    """Return the sign before an entropy or a p(end) that is a bound, as tokens of this mass are not listed."""
    return "≤" if unlisted and not math.isnan(number) else ""


def format_p_end(share: float, unlisted: float) -> str:
    """Format a p(end), which is an upper bound where tokens of the mass `unlisted` are not listed."""
    text = percent(share, 2)
    return text if text.startswith("<") else mark_bound(share, unlisted) + text


def format_known(number: float, form: str) -> str:
    """Format a number; a dash if it is unknown."""
    return UNKNOWN if math.isnan(number) else format(number, form)


def flowing(items: Iterable[Sequence[Run]], width: int, gap: str = "  ") -> list[Line]:
    """Put items one after the other, on as many lines as they need; none is parted."""
    lines: list[list[Run]] = [[]]
    for item in items:
        if lines[-1] and length([*lines[-1], (gap, TEXT), *item]) > width:
            lines.append([])
        lines[-1] += [(gap, TEXT), *item] if lines[-1] else item
    return [Line(tuple(runs)) for runs in lines if runs]


def prose(text: str, width: int, ink: Ink = TEXT) -> list[Line]:
    """Wrap text, also foreign."""
    return wrap_runs([(text, ink)], width)
