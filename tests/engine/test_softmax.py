"""The exponentials against float64, in either way of making them."""

from __future__ import annotations

import numpy as np
import pytest

from termchat.engine.llama import softmax
from termchat.engine.llama.softmax import Exponentials


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("n", [1, 7, 8, 1003, 49_152])
def test_weights_and_their_sum_are_those_of_float64(n: int, native: bool) -> None:
    random = np.random.default_rng(n)
    exponentials = Exponentials(n, native=native)
    for spread in (0.1, 5.0, 30.0):
        row = (random.standard_normal(n) * spread).astype(np.float32)
        row[: n // 10] = -np.inf
        highest = float(row.max())
        total = exponentials.compute_sum(row, highest)
        expected = np.exp(row.astype(np.float64) - highest)
        assert total == pytest.approx(expected.sum(), rel=1e-6)
        assert np.abs(exponentials.weights - expected).max() < 1e-6


def test_another_row_at_another_place_is_seen() -> None:
    exponentials = Exponentials(4)
    assert exponentials.compute_sum(np.zeros(4, np.float32), 0.0) == pytest.approx(4)
    assert exponentials.compute_sum(np.full(4, np.log(2), np.float32), 0.0) == pytest.approx(8)


def test_this_build_has_the_fast_way() -> None:
    """Else the benchmark's figures would silently be others."""
    assert softmax._NATIVE is not None


def test_a_function_that_gives_other_numbers_is_not_used() -> None:
    assert not softmax._is_right(lambda *_: 1.0)
