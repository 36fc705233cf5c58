"""The entropy ribbon and the timing plot of a reply, as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, isfinite
from statistics import median

COLUMNS = 1200
"""The most that a plot has; of more tokens each column shows the highest of a few."""

HEIGHT = 100


def plot(kind: str, values: Sequence[float], most: float, label: str) -> str:
    """Steps from 0 to `most`, drawn to the full width of its place. `kind` is a class of the style sheet."""
    columns = highest(values)
    heights = [HEIGHT - round(min(value / most, 1.0) * (HEIGHT - 1)) if most else HEIGHT for value in columns]
    path = f"M0 {HEIGHT}" + "".join(f"V{height}h1" for height in heights) + f"V{HEIGHT}z"
    return (
        f'<svg class="plot {kind}" role="img" aria-label="{label}" viewBox="0 0 {max(len(columns), 1)} {HEIGHT}"'
        f' preserveAspectRatio="none"><path d="{path}"/></svg>'
    )


def highest(values: Sequence[float]) -> list[float]:
    """At most `COLUMNS` of the values: the highest of each few. What is no number counts as 0."""
    finite = [value if isfinite(value) and value > 0 else 0.0 for value in values]
    each = max(ceil(len(finite) / COLUMNS), 1)
    return [max(finite[begin : begin + each]) for begin in range(0, len(finite), each)]


def typical(values: Sequence[float]) -> float:
    """The median, 0 of nothing."""
    return median(values) if values else 0.0
