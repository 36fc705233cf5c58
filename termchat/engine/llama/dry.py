"""DRY ("don't repeat yourself") from the texts of tokens alone: the penalties of llama.cpp's stage, bit for bit.

Where the last n tokens were followed by a token before, that token loses multiplier * base ** (n - allowed_length), if n is at
least the allowed length. A breaker is a text at which repetitions end: n reaches back to the last one at most, and a token that
holds one loses nothing. A breaker may lie across tokens: each token that ends with a part of it is the head of one, and the
tokens of the rest are its tail.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

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
    """Finds breakers in a vocabulary of `n_vocab` tokens.

    `spelled` gives the bytes of a token, of a control token its name, and `tokenize` the ids of a text as it stands.
    """

    def __init__(self, n_vocab: int, spelled: Callable[[int], bytes], tokenize: Callable[[str], list[int]]) -> None:
        self._n_vocab, self._spelled, self._tokenize = n_vocab, spelled, tokenize
        self._words: list[bytes] = []
        self.of = lru_cache(8)(self._of)

    def _of(self, texts: tuple[str, ...]) -> Tails:
        tails_of: dict[int, list[list[int]]] = {}
        for text in texts:
            if breaker := text.encode().partition(b"\0")[0][:_LONGEST]:
                self._find(breaker, tails_of)
        return tails_of

    def _find(self, breaker: bytes, tails_of: dict[int, list[list[int]]]) -> None:
        rests: dict[int, list[int]] = {}
        for token, word in enumerate(self._spell_alone()):
            if breaker in word:
                tails_of.setdefault(token, []).append([])
                continue
            if len(breaker) == 1:
                continue
            for length in range(min(len(breaker) - 1, len(word)), 0, -1):
                if word.endswith(breaker[:length]):
                    if length not in rests:
                        rest = breaker[length:].decode("utf-8", "replace")
                        rests[length] = self._tokenize(rest)[:_LONGEST_TAIL]
                    tails = tails_of.setdefault(token, [])
                    if rests[length] not in tails:
                        tails.append(rests[length])

    def _spell_alone(self) -> list[bytes]:
        """Return the bytes of each token as a text of its own, without the space that a tokenizer puts before a text."""
        if not self._words:
            words = [self._spelled(token) for token in range(self._n_vocab)]
            begin = self._tokenize("x")
            prefixed = bool(begin) and words[begin[0]].startswith(b" ")
            self._words = [word.removeprefix(b" ") for word in words] if prefixed else words
        return self._words


class Dry:
    """DRY under some settings."""

    def __init__(self, settings: SamplerSettings, breakers: Tails) -> None:
        self._breakers = breakers
        self._multiplier, self._base = np.float32(settings.dry_multiplier), np.float32(settings.dry_base)
        self._allowed, self._last_n = settings.dry_allowed_length, settings.dry_penalty_last_n
        self._most = int(_LARGEST_LOG / np.float32(math.log(self._base))) if self._base > 1.000001 else 0

    def compute_penalties(self, past: Sequence[int]) -> dict[int, float]:
        """Return the amount that each token loses that would continue a repetition after these ids."""
        recent, allowed = list(past[-self._last_n :]), self._allowed
        limit = self._count_since_breaker(recent)
        if len(recent) <= allowed or limit < allowed:
            return {}
        penalties: dict[int, float] = {}
        ids = np.array(recent, np.int32)
        lengths = _repeated(ids, min(limit, allowed + self._most) if self._most else limit)
        at = (lengths >= allowed).nonzero()[0]
        for token, length in sorted(zip(ids[at + 1].tolist(), lengths[at].tolist(), strict=True)):
            if [] not in self._breakers.get(token, ()):
                penalty = float(self._multiplier) * math.pow(float(self._base), length - allowed)
                penalties[token] = ctypes.c_float(penalty).value  # beyond a float's range it is infinite
        return penalties

    def _count_since_breaker(self, recent: list[int]) -> int:
        """Count the tokens after the last breaker, or all without one."""
        for behind in range(len(recent)):
            head = len(recent) - 1 - behind
            tails = self._breakers.get(recent[head], ())
            fitting = [len(tail) for tail in tails if recent[head + 1 : head + 1 + len(tail)] == tail]
            if fitting:
                return behind - max(fitting)
        return len(recent)


def _repeated(ids: NDArray[np.int32], limit: int) -> NDArray[np.int64]:
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
