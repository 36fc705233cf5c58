"""What would have become of a reply under other settings and the same dice, in a few numbers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple


class WhatIf(NamedTuple):
    """`first` is the index of the first token that would be another one (None: there is none), `changed` all such indexes.

    `impossible` are the indexes of tokens that these settings would have cut. `kept` is the share of the drawn tokens that
    would be drawn again, 0 to 1, each after its own past. Tokens that a person chose are not the dice's: they can become
    impossible, but they do not count as changed.
    """

    first: int | None
    changed: tuple[int, ...]
    impossible: tuple[int, ...]
    kept: float


def summarise(
    ids: Sequence[int], drawn: Sequence[int], probabilities: Sequence[float], forced: Collection[int] = ()
) -> WhatIf:
    """Compares the ids of a reply with what would be drawn in their places.

    `probabilities` are what each token of the reply would have been drawn with; `forced` the indexes that a person chose.

    Raises:
        ValueError: the three are not of one length.
    """
    rows = list(zip(range(len(ids)), ids, drawn, probabilities, strict=True))
    changed = tuple(index for index, there, now, _ in rows if there != now and index not in forced)
    impossible = tuple(index for index, _, _, probability in rows if probability <= 0.0)
    free = len(rows) - sum(index in forced for index, *_ in rows)
    return WhatIf(changed[0] if changed else None, changed, impossible, 1 - len(changed) / free if free else 1.0)
