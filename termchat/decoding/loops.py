"""Where a text says the same tokens again and again.

A text loops with period p once it has said some p tokens `TIMES` times in a row or more, `TOKENS` tokens in all or more. The
bounds are such that real texts (code, tables, lists) hardly ever do.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import NamedTuple

from termchat.text import one_line

TIMES, TOKENS = 4, 32
LONGEST = 256
"""Tokens of the longest period."""
_LEAST = min(max((TIMES - 1) * p, TOKENS - p) for p in range(1, TOKENS))
"""Tokens that equal those one period before in every loop."""
_KEPT = TIMES * LONGEST + 64
_CHARACTERS = 0xFFFFF
_AT_ONCE = 8
"""Tokens behind which a loop would still hold the `_LEAST - _AT_ONCE` before them, and the same one period earlier."""
_SHOWN = 60
"""Characters of a text that is told."""


class Repetition(NamedTuple):
    """Tokens `begin` to `end` of a text, its first being 0, are the first `period` of them again and again."""

    begin: int
    end: int
    period: int

    @property
    def times(self) -> int:
        """How often the tokens of the period are there as a whole."""
        return (self.end - self.begin) // self.period

    def describe_loop(self, text: str) -> str:
        """Which text, that of its period, and how often."""
        return f'"{one_line(text, _SHOWN)}" {self.times} times'


def sign_of(id: int, data: bytes) -> int:
    """Return a number that identifies a token: its id, or a hash of its bytes if the id is unknown."""
    return id if id >= 0 else zlib.crc32(data)


class LoopFinder:
    """Finds loops while tokens come. `current` is the loop that the newest token belongs to, `ended` are those before it.

    A token is a character of a text here, so that the comparisons are those of `str`: about a microsecond a token.
    """

    def __init__(self) -> None:
        self.count = 0
        self.current: Repetition | None = None
        self.ended: list[Repetition] = []
        self._recent = ""

    def extend_ids(self, ids: Iterable[int]) -> None:
        """Add the next tokens; outside of loops several are looked at together."""
        text, at = self._recent, len(self._recent)
        text += "".join(chr(token & _CHARACTERS) for token in ids)
        while at < len(text):
            some = min(_AT_ONCE, len(text) - at)
            probe = text[max(at - _LEAST + _AT_ONCE, 0) : at]
            is_new = text.rfind(probe, max(at - len(probe) - LONGEST, 0), at - 1) < 0 if probe else False
            if self.current is None and is_new:
                self.count += some
            else:
                self._recent = text[max(at - _KEPT, 0) : at]
                for character in text[at : at + some]:
                    self._push_character(character)
            at += some
        self._recent = text[-_KEPT:]

    def _push_character(self, character: str) -> None:
        recent = self._recent = self._recent[-_KEPT:] + character
        self.count += 1
        current = self.current
        if current is not None:
            if recent[-1] == recent[-1 - current.period]:
                self.current = current._replace(end=self.count)
                return
            self.ended.append(current)
            self.current = None
        size = len(recent)
        # The tokens that every loop repeats at least stand one period before, too.
        last, lowest = recent[-_LEAST:], max(size - _LEAST - LONGEST, 0)
        at = recent.rfind(last, lowest, size - 1) if size > _LEAST else -1
        while at >= 0:
            period = size - _LEAST - at
            again = max((TIMES - 1) * period, TOKENS - period)
            if again + period <= size and recent[-again:] == recent[-again - period : -period]:
                # It begins as early as it can, but not before the end of the one before.
                while again + period < size and recent[-again - 1] == recent[-again - 1 - period]:
                    again += 1
                earliest = self.ended[-1].end if self.ended else 0
                self.current = Repetition(max(self.count - again - period, earliest), self.count, period)
                return
            at = recent.rfind(last, lowest, at + _LEAST - 1)
