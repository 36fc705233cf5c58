"""A beam search as transformers writes it down, and all sequences there are, to compare ours with."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from termchat.decoding.group import BeamSettings

Ids = tuple[int, ...]


class Rows(Protocol):
    """A model: the logprobs after each beginning, shape (tokens,); of `ends` each ends a sequence."""

    tokens: int
    ends: Collection[int]

    def row(self, ids: Ids) -> NDArray[np.float64]: ...


def total(rows: Rows, ids: Ids) -> float:
    """The sum of the logprobs of a sequence."""
    return sum(float(rows.row(ids[:at])[token]) for at, token in enumerate(ids))


def sequences(rows: Rows, longest: int, begun: Ids = ()) -> Iterator[Ids]:
    """All that end, and those of the longest length that do not, as far as they are possible."""
    for token in np.flatnonzero(np.isfinite(rows.row(begun))).tolist():
        ids = (*begun, token)
        if token in rows.ends or len(ids) == longest:
            yield ids
        else:
            yield from sequences(rows, longest, ids)


def best_of_all(rows: Rows, how: BeamSettings, longest: int) -> list[tuple[float, Ids]]:
    """The n best of all sequences."""
    found = [(total(rows, ids) / len(ids) ** how.length_penalty, ids) for ids in sequences(rows, longest)]
    return sorted(found, key=lambda one: -one[0])[: how.n_best]


def search(rows: Rows, how: BeamSettings, longest: int) -> list[tuple[float, Ids]]:
    """A flat table of all continuations, and a list of hypotheses that stays at the width."""
    width = how.width
    beams: list[Ids] = [()]
    sums = np.zeros(1)
    hypotheses: list[tuple[float, Ids]] = []

    def add(ids: Ids, value: float) -> None:
        hypotheses.append((value / len(ids) ** how.length_penalty, ids))
        hypotheses.sort(key=lambda one: -one[0])
        del hypotheses[width:]

    for length in range(1, longest + 1):
        flat = (sums[:, None] + np.array([rows.row(ids) for ids in beams])).ravel()
        after: list[tuple[Ids, float]] = []
        for rank, place in enumerate(np.argsort(-flat, kind="stable").tolist()):
            beam, token = divmod(place, rows.tokens)
            ids, value = (*beams[beam], token), float(flat[place])
            if len(after) == width or not np.isfinite(value):
                break
            if token not in rows.ends:
                after.append((ids, value))
            elif rank < width:
                add(ids, value)
        beams, sums = [ids for ids, _ in after], np.array([value for _, value in after])
        if not beams:
            return hypotheses[: how.n_best]
        beaten = len(hypotheses) == width and hypotheses[-1][0] >= sums[0] / length**how.length_penalty
        if beaten or (how.early_stopping and len(hypotheses) == width):
            return hypotheses[: how.n_best]
    for ids, value in after:
        add(ids, value)
    return hypotheses[: how.n_best]
