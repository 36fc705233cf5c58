"""How much room each part of the walks view gets."""

from __future__ import annotations

from typing import NamedTuple

_NARROWEST = 24
"""Cells of a column that are worth reading; with fewer the walks are a list."""
_MOST_COLUMNS = 8
_PARTING = 6
"""Rows in which the first forks are seen."""
_TABLE = 100
"""Cells in which the table and where the walks part have room."""
_TEXT = 8
"""Rows of text that no other part takes away."""
_PROMPT = 3
_HIGH, _HIGHEST = 26, 44
"""Rows from which the prompt has two lines, and three."""
_LISTED = 3
"""A list takes one row in so many at most."""


class Arrangement(NamedTuple):
    """Rows of the prompt, of where the walks part, of the list of walks, and of the table below; the text gets the rest.
    `columns` stand side by side; with 0 the walks are a list, with the one under the cursor in full below it."""

    prompt: int
    parting: int
    listed: int
    table: int
    columns: int


def wanted_width(walks: int) -> int:
    """Cells in which so many walks stand side by side, if they ever do."""
    return max(walks * _NARROWEST if walks <= _MOST_COLUMNS else 0, _TABLE)


def arranged(width: int, height: int, walks: int, parting: int, table: int) -> Arrangement:
    """For `walks` of them. `parting` and `table` are the rows that these parts would like to have. The text comes first: the
    table gets all of its rows, or one for its last line, and the parting enough for the first forks, or none."""
    columns = walks if 0 < walks <= _MOST_COLUMNS and width // walks >= _NARROWEST else 0
    prompt = 1 + (height >= _HIGH) + (height >= _HIGHEST)
    listed = 0 if columns else min(walks, max(height // _LISTED, 1))
    left = height - 1 - prompt - listed - _TEXT
    shown_table = table if table <= left else max(min(left, 1), 0)
    left -= shown_table
    shown_parting = min(parting, left) if left >= min(parting, _PARTING) else 0
    return Arrangement(prompt, shown_parting, listed, shown_table, columns)
