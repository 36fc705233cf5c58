"""How far apart one token at a time and a batch are, for the real model, and the distance itself."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from termchat.engine.llama.cache import Cache
from termchat.engine.llama.model_session import Session
from termchat.engine.llama.softmax import Row
from termchat.engine.port import EngineError
from tests.engine.conftest import prompt


def test_batches_up_to_63_are_one_token_at_a_time_here(session: Session) -> None:
    ids = prompt(session, "Tell me about the sea, the sky, the land and all that lives there.")
    assert session.cache.threads == 1
    assert session.compare(ids, 5) == 0.0
    assert session.cache.ids == ids


def test_the_distance_is_the_largest_total_variation(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = prompt(session, "One two three.")
    at = len(ids) - 3
    moved: list[Row] = []

    def other(cache: Cache, doubled: list[int], row: int) -> Iterator[Row]:
        assert (doubled, row) == ([*ids, ids[-1]], at)
        rng = np.random.default_rng(1)
        for size in (2, 1):
            rows = rng.normal(size=(size, cache.model.n_vocab)).astype(np.float32)
            moved.extend(rows)
            yield rows

    monkeypatch.setattr(Cache, "rows_after", other)
    found = session.compare(ids, at)
    distances = []
    for count, row in zip(range(at + 1, len(ids) + 1), moved, strict=True):
        own, new = (np.exp(one.astype(np.float64)) for one in (session.cache.peek(ids[:count]), row))
        distances.append(np.maximum(own / own.sum() - new / new.sum(), 0).sum())
    assert found == pytest.approx(max(distances), rel=1e-9)


@pytest.mark.parametrize("at", [0, 3, -1])
def test_there_must_be_something_to_compare(session: Session, at: int) -> None:
    with pytest.raises(EngineError, match="nothing to compare"):
        session.compare([1, 2, 3], at)
