"""From final logits to the one that is drawn: few and many tokens alike, against float64."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from termchat.decoding import dice
from termchat.decoding.draw import OTHERS, count_rolls, draw


@pytest.mark.parametrize("count", [1, 2, 40, 256, 257, 5000])
def test_draws_what_the_noise_favours(count: int) -> None:
    rng = np.random.default_rng(count)
    ids = rng.permutation(50_000)[:count].astype(np.int32)
    logits = rng.normal(20, 4, count).astype(np.float32)
    watched = [*ids[: min(count, 5)].tolist(), 60_000]
    for step in range(40):
        found = draw(ids, logits, 9, step, watched)
        weights = np.exp(logits.astype(np.float64) - logits.max())
        p = dict(zip(ids.tolist(), (weights / weights.sum()).tolist(), strict=True))
        scores = np.log(weights) + dice.draw_gumbel(9, step, ids)
        assert found.id == ids[scores.argmax()]
        assert {*watched, found.id} <= found.probability.keys() & found.noise.keys()
        for i in (*watched, found.id):
            assert found.probability[i] == pytest.approx(p.get(i, 0.0), rel=1e-12)
            assert found.noise[i] == pytest.approx(dice.draw_gumbel(9, step, np.array([i], np.int32))[0], rel=1e-14)


def test_a_watched_token_that_was_cut_has_no_probability_but_its_noise() -> None:
    found = draw(np.array([4], np.int32), np.array([1.0], np.float32), 1, 0, [7])
    assert (found.id, found.probability) == (4, {4: 1.0, 7: 0.0})
    assert set(found.noise) == {4, 7}


def test_many_rolls_are_one_draw_with_each_seed() -> None:
    rng = np.random.default_rng(3)
    ids = rng.permutation(50_000)[:30].astype(np.int32)
    logits = rng.normal(0, 2, 30).astype(np.float32)
    p = np.exp(logits.astype(np.float64))
    found = count_rolls(dict(zip(ids.tolist(), (p / p.sum()).tolist(), strict=True)), range(500, 2700), 9)
    drawn = [draw(ids, logits, seed, 9).id for seed in range(500, 2700)]
    assert found == {int(i): drawn.count(int(i)) for i in ids}
    assert sum(found.values()) == 2200


def test_rolls_fit_the_probabilities_also_of_what_is_not_listed() -> None:
    p = {1: 0.45, 2: 0.2, 3: 0.1, OTHERS: 0.25, 4: 0.0}
    found = count_rolls(p, range(60_000), 2)
    assert found[4] == 0
    left = [i for i in p if p[i]]
    assert stats.chisquare([found[i] for i in left], [p[i] * 60_000 for i in left]).pvalue > 1e-3
