"""Finding words in a chat: in the text of its turns as it is read, whatever the lines and the tokens are."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate

from termchat.tui.transcript.document import Anchor
from termchat.tui.transcript.selection import Hit
from termchat.tui.transcript.turn_source import Part, join_parts, join_rest

AT_ONCE = 500_000
"""Characters that are searched at a time; that takes some tens of milliseconds, and most chats are not as long."""

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

    A search goes through a part of the text at once, from the first turn on; `go_on` through more, while it `is_going_on`.
    What comes while a reply streams costs what is new.
    """

    def __init__(self) -> None:
        self.query = ""
        self.at: int | None = None
        self._pattern: re.Pattern[str] | None = None
        self._parts: list[tuple[Part, ...]] = []
        self._texts: list[str] = []
        self._hits: list[list[Hit]] = []
        self._searched = self._near = Anchor(0, 0)

    @property
    def is_going_on(self) -> bool:
        texts = self._texts
        return self._pattern is not None and bool(texts) and self._searched < (len(texts) - 1, len(texts[-1]))

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
        if kept:  # the last of them may have grown
            self._texts[kept - 1] += join_rest(turns[kept - 1][-1], len(self._texts[kept - 1]))
        self._hits[kept:] = [[] for _ in turns[kept:]]
        self._searched = min(self._searched, Anchor(kept, 0))
        self.go_on()
        if self.at is not None or not self.is_going_on:
            self.at = min(self.at or 0, self.count - 1) if self.count else None
        return (self.count, self.at) != before

    def look_for(self, query: str, near: Anchor) -> None:
        """Search for another text, from a place on: its first hit from there on becomes current, else its last."""
        self.query, self._pattern = query, make_pattern(query)
        self._near, self.at = near, None
        self._hits, self._searched = [[] for _ in self._texts], Anchor(0, 0)
        self.go_on()

    def go_on(self) -> None:
        """Search some more text; set the current hit once it is sure which that is."""
        room = AT_ONCE
        while self._pattern is not None and room > 0 and self.is_going_on:
            turn, done = self._searched
            text, hits = self._texts[turn], self._hits[turn]
            stop, begin = min(done + room, len(text)), max(done - _LONGEST, 0)
            if stop > done:
                while hits and hits[-1][1] > begin:
                    begin = min(begin, hits.pop()[0])
                hits += [match.span() for match in self._pattern.finditer(text, begin, stop)]
            room -= stop - done
            is_whole = stop == len(text) and turn + 1 < len(self._texts)
            self._searched = Anchor(turn + 1, 0) if is_whole else Anchor(turn, stop)
        if self.at is None and self.count:
            turn, offset = self._near
            here = (bisect_left(hits, (offset, 0)) for hits in self._hits[turn : turn + 1])
            at = sum(map(len, self._hits[:turn])) + sum(here)
            if at < self.count or not self.is_going_on:
                self.at = min(at, self.count - 1)

    def step(self, by: int) -> None:
        """Go to a hit further on or back; behind the last comes the first."""
        if self.count:
            self.at = ((self.at if self.at is not None else -1) + by) % self.count
