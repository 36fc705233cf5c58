"""Finding words in a chat: in the text of its turns as it is read, whatever the lines and the tokens are."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate

from termchat.tui.transcript.document import Anchor
from termchat.tui.transcript.selection import Hit
from termchat.tui.transcript.turn_source import Part, join_parts, join_rest

_LONGEST = 4096
"""Characters before the end of a text that grows within which a hit may lie that was not whole yet."""

_GAP = r"[*_`~]{0,3}\s+(?:[-+*>#]+\s+)?[*_`~]{0,3}"
"""What a space stands for: any space and line break, with the marks of Markdown beside it."""


def make_pattern(query: str) -> re.Pattern[str] | None:
    """Make a pattern for a query; capitals count only where it has some. None for an empty one."""
    words = query.split()
    if not words:
        return None
    return re.compile(_GAP.join(map(re.escape, words)), 0 if query != query.lower() else re.IGNORECASE)


class Finding:
    """The hits of a query in all turns of a chat, in order, and the index of the current one: `at`.

    What comes while a reply streams costs what is new.
    """

    def __init__(self) -> None:
        self.query = ""
        self.at: int | None = None
        self._pattern: re.Pattern[str] | None = None
        self._parts: list[tuple[Part, ...]] = []
        self._texts: list[str] = []
        self._hits: list[list[Hit]] = []

    @property
    def count(self) -> int:
        return sum(map(len, self._hits))

    @property
    def current(self) -> tuple[int, Hit] | None:
        if self.at is None:
            return None
        ends = list(accumulate(map(len, self._hits)))
        turn = bisect_right(ends, self.at)
        return turn, self._hits[turn][self.at - ends[turn]]

    def hits(self, turn: int) -> Sequence[Hit]:
        return self._hits[turn] if turn < len(self._hits) else ()

    def read(self, turns: Sequence[tuple[Part, ...]]) -> bool:
        """Read the turns as they are now; return True if the hits or the current one have changed."""
        before = self.count, self.at
        kept = 0
        while kept < min(len(turns), len(self._parts)) and turns[kept] == self._parts[kept]:
            kept += 1
        self._parts, self._texts[kept:] = list(turns), map(join_parts, turns[kept:])
        if kept and (rest := join_rest(turns[kept - 1][-1], len(self._texts[kept - 1]))):  # the last of them has grown
            begin, hits = max(len(self._texts[kept - 1]) - _LONGEST, 0), self._hits[kept - 1]
            while hits and hits[-1][1] > begin:
                begin = min(begin, hits.pop()[0])
            self._texts[kept - 1] += rest
            hits += self._search(self._texts[kept - 1], begin)
        self._hits[kept:] = map(self._search, self._texts[kept:])
        self.at = min(self.at or 0, self.count - 1) if self.count else None
        return (self.count, self.at) != before

    def look_for(self, query: str, near: Anchor) -> None:
        """Search for another text, from a place on: its first hit from there on becomes current, else its last."""
        self.query, self._pattern = query, make_pattern(query)
        self._hits = list(map(self._search, self._texts))
        before = sum(map(len, self._hits[: near.turn]))
        before += sum(bisect_left(hits, (near.offset, 0)) for hits in self._hits[near.turn : near.turn + 1])
        self.at = min(before, self.count - 1) if self.count else None

    def _search(self, text: str, begin: int = 0) -> list[Hit]:
        return [match.span() for match in self._pattern.finditer(text, begin)] if self._pattern is not None else []

    def step(self, by: int) -> None:
        """Go to a hit further on or back; behind the last comes the first."""
        if self.count:
            self.at = ((self.at or 0) + by) % self.count
