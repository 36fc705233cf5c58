"""Figures of several replies to one prompt, updated with each token: how likely and how varied each reply is, and how alike
they are.

All of it counts tokens, not words. A figure that is not known is None: `logprobs` and entropies are absent from replies that
were written elsewhere.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable

from termchat.decoding.token_trie import TokenTrie

DISTINCT = (1, 2, 3)
"""The lengths of the n-grams that distinct-n counts."""

OVERLAP = 3
"""The length of those that the self-overlap counts."""

_LEAST_MEAN = -700.0
"""No model's; the exponential of more than that is no float."""


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
        """The next token; the natural log of its probability, and the entropy of its step in bits, are the model's own."""
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
        """Return the share of distinct n-grams; None before the first one."""
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
        """A walk without tokens yet; one that is there already stays as it is."""
        if walk not in self.of:
            self.of[walk] = WalkFigures()
            self.trie.add(walk)

    def append_token(self, walk: int, id: int, logprob: float | None, entropy: float | None) -> None:
        """The next token of a walk: see `WalkFigures.append`."""
        self.add(walk)
        self.of[walk].append_token(id, logprob, entropy)
        self.trie.append_token(walk, id)
        gram = tuple(self.trie.list_ids(walk)[-OVERLAP:])
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
    """Return the second highest count: each walk's n-gram is there so often in another walk, or as often as in the walk
    itself.
    """
    return sorted(counts.values())[-2] if len(counts) > 1 else 0


def _add_known(total: float | None, more: float | None) -> float | None:
    return None if total is None or more is None or math.isnan(more) else total + more
