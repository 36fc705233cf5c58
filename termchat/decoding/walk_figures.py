"""Figures of several replies to one prompt, updated with each token: how likely and how varied each reply is, how alike they
are, and where they part.

All of it counts tokens, not words. A figure that is not known is None: `logprobs` and entropies are absent from replies that
were written elsewhere.
"""

from __future__ import annotations

import math
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

DISTINCT = (1, 2, 3)
"""The lengths of the n-grams that distinct-n counts."""

OVERLAP = 3
"""The length of those that the self-overlap counts."""

_LEAST_MEAN = -700.0
"""No model's; the exponential of more than that is no float."""


class TrieStretch(NamedTuple):
    """A run of tokens that the same walks took; it ends where these part, or where one of them has no more tokens.

    `level` is the number of runs before it; `begin` is the number of tokens before it, `end` that up to its end, `id` its first
    token. `last`: no other run follows the same one after it.
    """

    level: int
    begin: int
    end: int
    id: int
    walks: tuple[int, ...]
    last: bool


class TokenTrie:
    """The tokens of several replies to one prompt as a trie: common beginnings are there once. A node is a `TrieStretch`.

    Each token is compared once, with the walks that were alike so far, so that reading the trie costs nothing that grows with
    the replies.
    """

    def __init__(self) -> None:
        self._ids: dict[int, array[int]] = {}
        self._alike: dict[int, set[int]] = {}
        """By walk the others that do not differ from it yet."""
        self._parted: dict[tuple[int, int], int] = {}
        """By two walks, in either order, the number of tokens before they differ."""

    def ids(self, walk: int) -> Sequence[int]:
        """Return all tokens of a walk; () if it is unknown."""
        return self._ids.get(walk, ())

    def add(self, walk: int) -> None:
        """Add a walk without tokens, unless it is known."""
        if walk not in self._ids:
            self._alike[walk] = set(self._ids)
            for other in self._ids:
                self._alike[other].add(walk)
            self._ids[walk] = array("i")

    def append(self, walk: int, id: int) -> None:
        """Append a token to a walk, which is added where it is unknown."""
        self.add(walk)
        ids = self._ids[walk]
        at = len(ids)
        ids.append(id)
        for other in list(self._alike[walk]):
            others = self._ids[other]
            if at < len(others) and others[at] != id:
                self._alike[walk].remove(other)
                self._alike[other].remove(walk)
                self._parted[walk, other] = self._parted[other, walk] = at

    def stretches(self) -> Iterator[TrieStretch]:
        """Yield every run, each before those that follow it, and these by their first walks."""
        return self._follow(sorted(self._ids), 0, 0)

    def _follow(self, walks: Sequence[int], begin: int, level: int) -> Iterator[TrieStretch]:
        """Yield the runs of walks that are alike before their token `begin`, and the runs that follow these."""
        groups: defaultdict[int, list[int]] = defaultdict(list)
        for walk in walks:
            if begin < len(self._ids[walk]):
                groups[self._ids[walk][begin]].append(walk)
        for number, (id, group) in enumerate(groups.items(), 1):
            end = min(self.count_common(group[0], walk) for walk in group)
            yield TrieStretch(level, begin, end, id, tuple(group), number == len(groups))
            yield from self._follow(group, end, level + 1)

    def count_common(self, a: int, b: int) -> int:
        """Count the tokens with which two walks begin alike."""
        parted = self._parted.get((a, b))
        return min(len(self._ids[a]), len(self._ids[b])) if parted is None else parted

    def parted(self, a: int, b: int) -> int | None:
        """Return the number of tokens before two walks differ; None while one begins as the other is."""
        return self._parted.get((a, b))

    @property
    def first_parted(self) -> int | None:
        """The number of tokens that all have in common before the first two differ; None while no two do."""
        return min(self._parted.values(), default=None)

    def equal(self, a: int, b: int) -> bool:
        """Return whether two walks have the same tokens."""
        return (a, b) not in self._parted and len(self._ids[a]) == len(self._ids[b])

    @property
    def different(self) -> int:
        """The number of different replies: walks with the same tokens count once."""
        return sum(not any(other < walk and self.equal(walk, other) for other in self._ids) for walk in self._ids)

    @property
    def shared(self) -> float | None:
        """The share of all tokens that stand in a beginning which another walk has, too; None where there are no tokens."""
        tokens = sum(map(len, self._ids.values()))
        shared = sum(
            max((self.count_common(walk, other) for other in self._ids if other != walk), default=0)
            for walk in self._ids
        )
        return shared / tokens if tokens else None


class WalkFigures:
    """The figures of one reply.

    The distinct-n of a text is the number of different n-grams in it, divided by the number of all (Li et al., "A
    Diversity-Promoting Objective Function for Neural Conversation Models", 2016).
    """

    def __init__(self) -> None:
        self.tokens = 0
        self.sum_logprob: float | None = 0.0
        self._entropies: float | None = 0.0
        self._seen: dict[int, set[tuple[int, ...]]] = {n: set() for n in DISTINCT}
        self._last: tuple[int, ...] = ()

    def append_token(self, id: int, logprob: float | None, entropy: float | None) -> None:
        """Add a token; the natural log of its probability, and the entropy of its step in bits, are the model's own."""
        self.tokens += 1
        self.sum_logprob = _add_known(self.sum_logprob, logprob)
        self._entropies = _add_known(self._entropies, entropy)
        self._last = (*self._last[-max(DISTINCT) + 1 :], id)
        for n, seen in self._seen.items():
            if len(self._last) >= n:
                seen.add(self._last[-n:])

    @property
    def mean_logprob(self) -> float | None:
        return self._compute_mean(self.sum_logprob)

    @property
    def perplexity(self) -> float | None:
        """exp(-mean logprob)."""
        mean = self.mean_logprob
        return None if mean is None or mean < _LEAST_MEAN else math.exp(-mean)

    @property
    def mean_entropy(self) -> float | None:
        """In bits."""
        return self._compute_mean(self._entropies)

    def count_distinct(self, n: int) -> float | None:
        """Return the share of different n-grams; None without one."""
        return len(self._seen[n]) / (self.tokens - n + 1) if self.tokens >= n else None

    def _compute_mean(self, total: float | None) -> float | None:
        return total / self.tokens if total is not None and self.tokens else None


class GroupFigures:
    """The figures of all replies of a group, and how much these are alike."""

    def __init__(self, walks: Iterable[int] = ()) -> None:
        self.trie = TokenTrie()
        self.of: dict[int, WalkFigures] = {}
        self._counts: defaultdict[tuple[int, ...], dict[int, int]] = defaultdict(dict)
        """How often each walk has each n-gram of `OVERLAP` tokens."""
        self._grams: defaultdict[int, int] = defaultdict(int)
        self._matched: defaultdict[int, int] = defaultdict(int)
        """How many n-grams each walk has, and how many of them another one has."""
        for walk in walks:
            self.add(walk)

    def add(self, walk: int) -> None:
        """Add a walk without tokens, unless it is known."""
        if walk not in self.of:
            self.of[walk] = WalkFigures()
            self.trie.add(walk)

    def append_token(self, walk: int, id: int, logprob: float | None, entropy: float | None) -> None:
        """Append a token to a walk: see `WalkFigures.append_token`."""
        self.add(walk)
        self.of[walk].append_token(id, logprob, entropy)
        self.trie.append(walk, id)
        gram = tuple(self.trie.ids(walk)[-OVERLAP:])
        if len(gram) < OVERLAP:
            return
        counts = self._counts[gram]
        had, before = counts.get(walk, 0), _second_highest(counts)
        counts[walk] = had + 1
        after = _second_highest(counts)
        self._matched[walk] += min(had + 1, before) - min(had, before)
        if after > before:
            for one, count in counts.items():
                self._matched[one] += min(count, after) - min(count, before)
        self._grams[walk] += 1

    @property
    def self_overlap(self) -> float | None:
        """How much the replies are alike, from 0 to 1, wherever in them: the mean, over the walks, of the share of a walk's
        3-grams that another walk has, each counted as often as the walk with the most of it has it.

        That is the modified n-gram precision of BLEU (Papineni et al., 2002) of each reply with all others as its references,
        as in Self-BLEU (Zhu et al., "Texygen: A Benchmarking Platform for Text Generation Models", 2018), for one n and
        without its brevity penalty. Walks that are shorter are left out; None where fewer than two are left.
        """
        shares = [self._matched[walk] / count for walk, count in self._grams.items()]
        return math.fsum(shares) / len(shares) if len(shares) > 1 else None


def _second_highest(counts: dict[int, int]) -> int:
    """Return the second highest count: an n-gram of each walk is so often in another walk, or as often as in itself."""
    return sorted(counts.values())[-2] if len(counts) > 1 else 0


def _add_known(total: float | None, more: float | None) -> float | None:
    return None if total is None or more is None or math.isnan(more) else total + more
