"""Finding words in a chat: in the text of its turns as it is read, whatever the lines and the tokens are."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from termchat.tui.transcript.source import Part, Source

Hit = tuple[int, int]
"""The first character of a hit and the one behind it, in its turn's text."""

_LONGEST = 4096
"""Characters before the end of a text that grows within which a hit may lie that was not whole yet."""

_GAP = r"[*_`~]{0,3}\s+(?:[-+*>#]+\s+)?[*_`~]{0,3}"
"""What a space stands for: any space and line break, with the marks of Markdown beside it."""


class Place(NamedTuple):
    """A character of the chat: the turn, counted from 0, and how far into its text."""

    turn: int
    offset: int


def pattern_of(query: str) -> re.Pattern[str] | None:
    """What finds a text; capitals count only where it has some. None where there is nothing to find."""
    words = query.split()
    if not words:
        return None
    return re.compile(_GAP.join(map(re.escape, words)), 0 if query != query.lower() else re.IGNORECASE)


class _Text:
    """A turn's text as far as it has come, and the hits in it."""

    def __init__(self, parts: tuple[Part, ...]) -> None:
        self.parts = parts
        self.hits: list[Hit] = []
        self._source = Source(parts)
        self.text = ""
        self._searched = 0

    def read(self) -> None:
        """Takes in what is new."""
        self.text += "".join("".join(texts) for texts, _ in self._source.read())

    def forget(self) -> None:
        """Another text is looked for."""
        self.hits, self._searched = [], 0

    def search(self, pattern: re.Pattern[str]) -> None:
        """Finds what is new."""
        begin = max(self._searched - _LONGEST, 0)
        while self.hits and self.hits[-1][1] > begin:
            begin = min(begin, self.hits.pop()[0])
        self.hits += [found.span() for found in pattern.finditer(self.text, begin)]
        self._searched = len(self.text)


class Finding:
    """The hits of a query in all turns of a chat, in order, and which of them is looked at: `at`, None where there is none.

    A search goes through all text at once, which takes some milliseconds for a hundred thousand tokens; what comes while a
    reply streams costs what is new.
    """

    def __init__(self) -> None:
        self.query = ""
        self.at: int | None = None
        self._pattern: re.Pattern[str] | None = None
        self._texts: list[_Text] = []

    @property
    def count(self) -> int:
        """How many hits there are."""
        return sum(len(text.hits) for text in self._texts)

    def text(self, turn: int) -> str:
        """A turn's text as far as it has come."""
        return self._texts[turn].text

    @property
    def current(self) -> tuple[int, Hit] | None:
        """The turn and the hit that is looked at."""
        if self.at is None:
            return None
        turn = next(turn for turn, before in enumerate(self._ends()) if before > self.at)
        hits = self._texts[turn].hits
        return turn, hits[self.at - (self._ends()[turn] - len(hits))]

    def hits(self, turn: int) -> Sequence[Hit]:
        """Those of a turn, in order."""
        return self._texts[turn].hits if turn < len(self._texts) else ()

    def read(self, turns: Sequence[tuple[Part, ...]]) -> bool:
        """Takes in the turns as they are now; whether there are other hits, or another is looked at."""
        before = self.count, self.at
        kept = 0
        while kept < min(len(turns), len(self._texts)) and turns[kept] == self._texts[kept].parts:
            kept += 1
        self._texts[kept:] = [_Text(parts) for parts in turns[kept:]]
        for text in self._texts[max(kept - 1, 0) :]:  # what did not change is read to its end, but for the last
            text.read()
            if self._pattern is not None:
                text.search(self._pattern)
        self.at = min(self.at or 0, self.count - 1) if self.count else None
        return (self.count, self.at) != before

    def look_for(self, query: str, near: Place) -> None:
        """Looks for another text: at its first hit from a place on, or where there is none at the last."""
        self.query, self._pattern = query, pattern_of(query)
        for text in self._texts:
            text.forget()
            if self._pattern is not None:
                text.search(self._pattern)
        self.at = self._nearest(near) if self.count else None

    def step(self, by: int) -> None:
        """Looks at a hit further on or back; behind the last comes the first."""
        if self.count:
            self.at = ((self.at if self.at is not None else -1) + by) % self.count

    def _nearest(self, near: Place) -> int:
        """The first hit from a place on, or where there is none the last."""
        ends = self._ends()
        if near.turn >= len(self._texts):
            return self.count - 1
        hits = self._texts[near.turn].hits
        at = ends[near.turn] - len(hits) + bisect_left(hits, (near.offset, 0))
        return min(at, self.count - 1)

    def _ends(self) -> list[int]:
        """For each turn, how many hits there are up to its end."""
        return list(accumulate(len(text.hits) for text in self._texts))
