"""Shared beginnings of replies, against a direct count over all of their tokens."""

from __future__ import annotations

from itertools import combinations, groupby

from hypothesis import given
from hypothesis import strategies as st

from termchat.decoding.walk_figures import TokenTrie, TrieStretch

REPLIES = st.lists(st.lists(st.integers(0, 2), max_size=9), min_size=1, max_size=6)


def directly(replies: dict[int, list[int]], begin: int = 0, level: int = 0, last: bool = True) -> list[TrieStretch]:
    """The stretches of replies that all begin with the same token after `begin`."""
    walks = sorted(replies)
    first = replies[walks[0]]
    end = begin + 1
    while all(len(reply) > end and reply[: end + 1] == first[: end + 1] for reply in replies.values()):
        end += 1
    return [
        TrieStretch(level, begin, end, first[begin], tuple(walks), last),
        *following({walk: reply for walk, reply in replies.items() if len(reply) > end}, end, level + 1),
    ]


def following(replies: dict[int, list[int]], at: int = 0, level: int = 0) -> list[TrieStretch]:
    """The stretches of replies that have a token after `at`, by what that is."""
    by_token = sorted(replies, key=lambda walk: replies[walk][at])
    groups = [list(walks) for _, walks in groupby(by_token, key=lambda walk: replies[walk][at])]
    groups.sort(key=min)
    return [
        stretch
        for walks in groups
        for stretch in directly({walk: replies[walk] for walk in walks}, at, level, walks is groups[-1])
    ]


@given(REPLIES, st.randoms(use_true_random=False))
def test_the_trie_is_the_same_in_whatever_order_tokens_come(replies: list[list[int]], random: object) -> None:
    trie = TokenTrie()
    order = [walk for walk, reply in enumerate(replies) for _ in reply]
    random.shuffle(order)  # type: ignore[attr-defined]
    came = dict.fromkeys(range(len(replies)), 0)
    for walk in came:
        trie.add(walk)
    for walk in order:
        trie.append(walk, replies[walk][came[walk]])
        came[walk] += 1
    expected = following({walk: reply for walk, reply in enumerate(replies) if reply})
    assert list(trie.stretches()) == expected
    assert [list(trie.ids(walk)) for walk in range(len(replies))] == replies

    parted = {
        (a, b): next((at for at, (x, y) in enumerate(zip(replies[a], replies[b], strict=False)) if x != y), None)
        for a, b in combinations(range(len(replies)), 2)
    }
    assert {pair: trie.parted(*pair) for pair in parted} == parted
    assert trie.first_parted == min((at for at in parted.values() if at is not None), default=None)
    assert trie.different == len(set(map(tuple, replies)))
    assert all(trie.equal(a, b) == (replies[a] == replies[b]) for a, b in parted)
    beginnings = [tuple(reply[: at + 1]) for reply in replies for at in range(len(reply))]
    alike = sum(beginnings.count(one) > 1 for one in beginnings)
    assert trie.shared is None if not beginnings else abs((trie.shared or 0) - alike / len(beginnings)) < 1e-12


def test_a_walk_that_joins_later_begins_as_the_one_that_it_forks() -> None:
    trie = TokenTrie()
    for id in [1, 2, 3, 4]:
        trie.append(0, id)
    for id in [1, 2, 9]:
        trie.append(3, id)
    for id in [1, 2, 3]:
        trie.append(1, id)
    assert list(trie.stretches()) == [
        TrieStretch(0, 0, 2, 1, (0, 1, 3), last=True),
        TrieStretch(1, 2, 3, 3, (0, 1), last=False),
        TrieStretch(2, 3, 4, 4, (0,), last=True),
        TrieStretch(1, 2, 3, 9, (3,), last=True),
    ]
    assert trie.parted(1, 3) == 2
    assert trie.parted(0, 1) is None


def test_one_that_lags_behind_many_tokens_costs_no_more_a_token() -> None:
    """Each token is compared once with that of the other."""
    trie = TokenTrie()
    for id in range(5000):
        trie.append(1, id)
    for id in range(4999):
        trie.append(0, id)
    assert [(one.begin, one.end, one.walks) for one in trie.stretches()] == [(0, 4999, (0, 1)), (4999, 5000, (1,))]
