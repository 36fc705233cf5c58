"""How sure a draft is: by how much the winner of the throw leads, what that was worth, and when to draft no further."""

from __future__ import annotations

import math
from random import Random

import pytest

from termchat.decoding.drafting import Counts
from termchat.decoding.records import Candidate
from termchat.engine.llama.draft_model import LEAD_DECAY, LEAD_PRIORS, LEADS, compute_lead, should_go_on


def candidate(token: int, logit: float, probability: float, noise: float) -> Candidate:
    return Candidate(token, "", logit, 0.0, probability, noise, None)


def test_the_lead_is_what_the_noise_of_the_next_one_lacks_to_win() -> None:
    left = [candidate(1, 5.0, 0.5, 0.1), candidate(2, 4.0, 0.3, 0.9), candidate(3, 3.0, 0.0, 9.0)]
    found = compute_lead(2, left)
    assert found == pytest.approx(math.log(0.3) + 0.9 - math.log(0.5) - 0.1)
    for more, winner in ((found - 1e-6, 2), (found + 1e-6, 1)):
        thrown = {1: math.log(0.5) + 0.1 + more, 2: math.log(0.3) + 0.9}
        assert max(thrown, key=thrown.__getitem__) == winner


def test_where_only_one_is_left_its_logit_leads() -> None:
    assert compute_lead(1, [candidate(1, 5.0, 1.0, -3.0), candidate(2, 4.25, 0.0, 8.0)]) == 0.75


def test_each_lead_comes_to_the_share_that_was_right() -> None:
    counts, random = Counts(LEADS, LEAD_PRIORS, LEAD_DECAY), Random(1)
    shares = {0.5: 0.3, 1.5: 0.5, 2.5: 0.7, 3.5: 0.8, 5.0: 0.9, 9.0: 1.0}
    for _ in range(4000):
        at = random.choice(list(shares))
        counts.add(at, right=random.random() < shares[at])
    for at, share in shares.items():
        assert counts.read_rate(at) == pytest.approx(share, abs=0.2)
    assert counts.mean == pytest.approx(0.7, abs=0.2)


def steps(rows: int) -> float:
    """Batches that cost the same up to four rows, and up to eight."""
    return float(-(-rows // 4))


@pytest.mark.parametrize(
    ("rates", "mean", "each", "more"),
    [
        ([0.9], 0.9, 0.01, True),  # the batch has room for two more
        ([0.9, 0.9, 0.9], 0.5, 0.01, False),  # the next batch would cost twice as much
        ([0.9, 0.9], 0.5, 0.01, True),
        ([0.05], 0.9, 0.3, False),  # unsure: whatever follows is hardly looked at
        ([0.9], 0.9, 1.0, False),
        ([0.9] * 7, 1.0, 0.0, False),  # as many as may be
    ],
)
def test_it_goes_on_while_that_is_likely_to_pay(rates: list[float], mean: float, each: float, more: bool) -> None:
    assert should_go_on(rates, mean, 7, steps, each) is more
