"""The draw: keyed, pinned, and fair."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from termchat.decoding import dice

IDS = np.arange(12, dtype=np.int32)
PINNED_UNIFORM = [0.33493855816005447, 0.2196836783904802, 0.24084474679184942, 0.32727528516197435]
"""Version 1 for seed 42, step 7, tokens 0, 1, 2 and 49151. A transcript of today must be drawn the same in ten years."""


def test_version_1_is_pinned() -> None:
    assert dice.VERSION == 1
    assert dice.draw_uniform(42, 7, np.array([0, 1, 2, 49151], np.int32)).tolist() == PINNED_UNIFORM
    assert dice.draw_gumbel(42, 7, np.array([0, 1, 2, 49151], np.int32)) == pytest.approx(
        [-np.log(-np.log(u)) for u in PINNED_UNIFORM], rel=1e-14
    )


def reference(seed: int, step: int, token: int) -> float:
    """Version 1 again, in plain integers."""
    low = 2**64 - 1

    def mix(x: int) -> int:
        x = (x + 0x9E3779B97F4A7C15) & low
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & low
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & low
        return x ^ (x >> 31)

    return ((mix(mix(mix(seed) ^ step) ^ token) >> 12) + 0.5) / 2**52


@given(seed=st.integers(0, 2**53 - 1), step=st.integers(0, 2**31), token=st.integers(0, 300_000))
def test_agrees_with_plain_integers(seed: int, step: int, token: int) -> None:
    got = dice.draw_uniform(seed, step, np.array([token], np.int32))[0]
    assert got == reference(seed, step, token)
    assert 0 < got < 1


def test_noise_of_a_token_does_not_depend_on_the_others() -> None:
    whole = dice.draw_gumbel(3, 4, IDS)
    for i in IDS:
        assert dice.draw_gumbel(3, 4, IDS[i : i + 1])[0] == whole[i]
    assert dice.draw_gumbel(3, 4, IDS[::-1]).tolist() == whole[::-1].tolist()


def test_draws_fit_the_probabilities() -> None:
    """Many draws at once, by the same arithmetic; of some of them the dice themselves are asked."""
    p = np.array([0.4, 0.2, 0.1, 0.1, 0.08, 0.05, 0.03, 0.02, 0.01, 0.005, 0.004, 0.001])
    draws = np.arange(120_000, dtype=np.uint64)[:, None]
    zero = np.zeros_like(draws)
    for seeds, steps in ((zero, draws), (draws + np.uint64(1000), zero)):
        noise = many_gumbel(seeds, steps)
        for n in range(0, len(draws), 997):
            assert noise[n] == pytest.approx(dice.draw_gumbel(int(seeds[n, 0]), int(steps[n, 0]), IDS), rel=1e-12)
        counts = np.bincount(np.argmax(np.log(p) + noise, axis=1), minlength=len(p))
        assert stats.chisquare(counts, p * len(draws)).pvalue > 1e-3


def many_gumbel(seeds: NDArray[np.uint64], steps: NDArray[np.uint64]) -> NDArray[np.float64]:
    """A row of noise for `IDS` of each seed and step: `reference`, for arrays."""

    def mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
        x = x + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))

    drawn = ((mix(mix(mix(seeds) ^ steps) ^ IDS.astype(np.uint64)) >> np.uint64(12)) + 0.5) / 2**52
    return -np.log(-np.log(drawn))


def test_neighbouring_steps_seeds_and_ids_are_independent() -> None:
    ids = np.arange(50_000, dtype=np.int32)
    base = dice.draw_uniform(1, 1, ids)
    assert stats.kstest(base, "uniform").pvalue > 1e-3
    for other in (dice.draw_uniform(1, 2, ids), dice.draw_uniform(2, 1, ids), np.roll(base, 1)):
        assert abs(np.corrcoef(base, other)[0, 1]) < 0.02


@given(seed=st.integers(0, 2**53 - 1), step=st.integers(0, 2**31), ids=st.lists(st.integers(0, 300_000), max_size=5))
def test_a_few_ids_have_the_same_noise_without_numpy(seed: int, step: int, ids: list[int]) -> None:
    assert dice.draw_noise(seed, step, ids) == pytest.approx(
        dice.draw_gumbel(seed, step, np.array(ids, np.int32)), rel=1e-14
    )


@given(
    seeds=st.lists(st.integers(0, 2**53 - 1), min_size=1, max_size=6),
    step=st.integers(0, 2**31),
    ids=st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=5),
)
def test_many_seeds_at_once_have_each_the_same_noise(seeds: list[int], step: int, ids: list[int]) -> None:
    together = dice.gumbel_of_seeds(seeds, step, np.array(ids, np.int32))
    assert together.shape == (len(seeds), len(ids))
    for row, seed in zip(together, seeds, strict=True):
        assert row.tolist() == dice.draw_gumbel(seed, step, np.array(ids, np.int32)).tolist()
