"""DRY ("don't repeat yourself") from the texts of tokens alone: the penalties of llama.cpp's stage, bit for bit.

Where the last n tokens were followed by a token before, that token loses multiplier * base ** (n - allowed_length), if n is at
least the allowed length. A breaker is a text at which repetitions end: n reaches back to the last one at most, and a token that
holds one loses nothing. A breaker may lie across tokens: each token that ends with a part of it is the head of one, and the
tokens of the rest are its tail.
"""

from __future__ import annotations

import ctypes
import math
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from termchat.decoding.samplers import SamplerSettings

Tails = Mapping[int, list[list[int]]]
"""The tails of breakers by their heads."""

_LONGEST, _LONGEST_TAIL = 40, 20
"""What llama.cpp keeps of a breaker: bytes, and tokens behind its head."""
_LARGEST_LOG = np.float32(88.7228391)
"""Of a float, as llama.cpp writes it."""


class Breakers:
    """Finds breakers in a vocabulary.

    `spell_all` gives the bytes of all tokens, of control tokens their names, and `tokenize` the ids of a text as it stands.
    """

    def __init__(self, spell_all: Callable[[], list[bytes]], tokenize: Callable[[str], list[int]]) -> None:
        self._spell_all, self._tokenize = spell_all, tokenize
        self.of = lru_cache(8)(self._group_texts)

    @cached_property
    def _words(self) -> list[bytes]:
        """The bytes of each token as a text of its own, without the space that a tokenizer puts before a text."""
        words, begin = self._spell_all(), self._tokenize("x")
        prefixed = bool(begin) and words[begin[0]].startswith(b" ")
        return [word.removeprefix(b" ") for word in words] if prefixed else words

    def _group_texts(self, texts: tuple[str, ...]) -> Tails:
        tails_of: dict[int, list[list[int]]] = {}
        joined, ends = b"".join(self._words), list(accumulate(map(len, self._words)))
        for text in texts:
            breaker = text.encode().partition(b"\0")[0][:_LONGEST]
            holding = set[int]()
            at = joined.find(breaker) if breaker else -1
            while at >= 0:
                token = bisect_right(ends, at)
                if at + len(breaker) <= ends[token]:
                    holding.add(token)
                    tails_of.setdefault(token, []).append([])
                    at = ends[token] - 1
                at = joined.find(breaker, at + 1)
            heads = tuple(breaker[:length] for length in range(len(breaker) - 1, 0, -1))
            rests: dict[bytes, list[int]] = {}
            for token in [i for i, word in enumerate(self._words) if word.endswith(heads)] if heads else ():
                for head in heads if token not in holding else ():
                    if self._words[token].endswith(head):
                        if head not in rests:
                            rest = breaker[len(head) :].decode("utf-8", "replace")
                            rests[head] = self._tokenize(rest)[:_LONGEST_TAIL]
                        tails = tails_of.setdefault(token, [])
                        if rests[head] not in tails:
                            tails.append(rests[head])
        return tails_of


def compute_penalties(settings: SamplerSettings, breakers: Tails, past: Sequence[int]) -> dict[int, float]:
    """Return the amount that each token loses that would continue a repetition after these ids."""
    recent, allowed = list(past[-settings.dry_penalty_last_n :]), settings.dry_allowed_length
    limit = _count_since_breaker(recent, breakers)
    if len(recent) <= allowed or limit < allowed:
        return {}
    base = float(np.float32(settings.dry_base))
    most = int(_LARGEST_LOG / np.float32(math.log(base))) if base > 1.000001 else 0
    penalties: dict[int, float] = {}
    lengths = _count_repeated(np.array(recent, np.int32), min(limit, allowed + most) if most else limit)
    for at in (lengths >= allowed).nonzero()[0].tolist():
        token = recent[at + 1]
        if [] not in breakers.get(token, ()):
            penalty = float(np.float32(settings.dry_multiplier)) * math.pow(base, int(lengths[at]) - allowed)
            # Beyond a float's range it is infinite.
            penalties[token] = max(penalties.get(token, 0.0), ctypes.c_float(penalty).value)
    return penalties


def _count_since_breaker(recent: list[int], breakers: Tails) -> int:
    """Count the tokens after the last breaker, or all without one."""
    for behind, token in enumerate(reversed(recent)):
        if not (tails := breakers.get(token)):
            continue
        head = len(recent) - 1 - behind
        fitting = [len(tail) for tail in tails if recent[head + 1 : head + 1 + len(tail)] == tail]
        if fitting:
            return behind - max(fitting)
    return len(recent)


def _count_repeated(ids: NDArray[np.int32], limit: int) -> NDArray[np.int64]:
    """For each id but the last, how many up to it, at most `limit`, are those at the end: shape (n - 1,)."""
    last = len(ids) - 1
    lengths = np.zeros(last, np.int64)
    at = np.arange(last)
    for length in range(limit):
        at = at[at >= length]
        at = at[ids[at - length] == ids[last - length]]
        if not len(at):
            break
        lengths[at] = length + 1
    return lengths
