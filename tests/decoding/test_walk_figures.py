"""Figures of replies, token by token, against counts over the whole of them in float64."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from termchat.decoding.walk_figures import DISTINCT, OVERLAP, GroupFigures, WalkFigures

REPLIES = st.lists(st.lists(st.integers(0, 3), max_size=12), min_size=2, max_size=5)


def grams(reply: list[int], n: int) -> list[tuple[int, ...]]:
    return [tuple(reply[at : at + n]) for at in range(len(reply) - n + 1)]


@given(st.lists(st.tuples(st.integers(0, 4), st.floats(-30, 0), st.floats(0, 15)), min_size=1, max_size=40))
def test_the_figures_of_one_reply(tokens: list[tuple[int, float, float]]) -> None:
    figures = WalkFigures()
    for token in tokens:
        figures.append_token(*token)
    ids = [token[0] for token in tokens]
    logprobs = np.array([token[1] for token in tokens])
    assert figures.tokens == len(tokens)
    assert figures.mean_logprob == pytest.approx(logprobs.mean())
    assert figures.sum_logprob == pytest.approx(logprobs.sum())
    assert figures.perplexity == pytest.approx(np.exp(-logprobs.mean()))
    assert figures.mean_entropy == pytest.approx(np.mean([token[2] for token in tokens]))
    for n in DISTINCT:
        found = grams(ids, n)
        assert figures.count_distinct(n) == (pytest.approx(len(set(found)) / len(found)) if found else None)


def test_what_is_not_known_is_absent() -> None:
    figures = WalkFigures()
    assert (figures.mean_logprob, figures.perplexity, figures.mean_entropy, figures.count_distinct(1)) == (None,) * 4
    figures.append_token(5, -1.0, 2.0)
    figures.append_token(6, None, float("nan"))
    assert (figures.mean_logprob, figures.perplexity, figures.mean_entropy) == (None,) * 3
    assert (figures.tokens, figures.count_distinct(1), figures.count_distinct(3)) == (2, 1.0, None)
    figures = WalkFigures()
    figures.append_token(5, -1e6, 2.0)
    assert figures.perplexity is None  # no float


@given(REPLIES, st.randoms(use_true_random=False))
def test_how_much_replies_are_alike(replies: list[list[int]], random: object) -> None:
    figures = GroupFigures(range(len(replies)))
    order = [walk for walk, reply in enumerate(replies) for _ in reply]
    random.shuffle(order)  # type: ignore[attr-defined]
    came = Counter[int]()
    for walk in order:
        figures.append_token(walk, replies[walk][came[walk]], -1.0, 1.0)
        came[walk] += 1
    precisions = []
    for walk, reply in enumerate(replies):
        own = Counter(grams(reply, OVERLAP))
        most = Counter[tuple[int, ...]]()
        for other, others in enumerate(replies):
            if other != walk:
                most |= Counter(grams(others, OVERLAP))
        if own:
            precisions.append(sum((own & most).values()) / sum(own.values()))
    expected = np.mean(precisions) if len(precisions) > 1 else None
    assert figures.self_overlap == (None if expected is None else pytest.approx(expected))
    assert figures.trie.different == len(set(map(tuple, replies)))


def test_two_halves_that_are_alike_by_hand() -> None:
    figures = GroupFigures()
    for walk, reply in enumerate(([1, 2, 3, 4, 5], [1, 2, 3, 9, 9], [1, 2, 8, 4, 5])):
        for id in reply:
            figures.append_token(walk, id, -0.5, 1.0)
    # 123 234 345, 123 239 399, 128 284 845: one of three in each of the first two
    assert figures.self_overlap == pytest.approx((1 / 3 + 1 / 3 + 0) / 3)
    assert figures.trie.first_parted == 2
    assert figures.trie.shared == pytest.approx(8 / 15)  # 1 2 three times, and 3 twice
    assert (figures.trie.different, figures.of[1].count_distinct(2)) == (3, 1.0)
