"""Finding words in a chat: in the text of its turns as it is read, whatever the lines and the tokens are."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

from termchat.tui.draw.ink import MARGIN, Ink
from termchat.tui.transcript.blocks import Block, ChunkBlock, TextBlock
from termchat.tui.transcript.document import Anchor, Document
from termchat.tui.transcript.selection import find_shown_span, map_characters
from termchat.tui.transcript.turn_source import Part, TurnSource

Hit = tuple[int, int]
"""The first character of a hit and the one behind it, in its turn's text."""

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


class _Text:
    """A turn's text as far as it has come, and the hits in it."""

    def __init__(self, parts: tuple[Part, ...]) -> None:
        self.parts = parts
        self.hits: list[Hit] = []
        self._source = TurnSource(parts)
        self.text = ""
        self._searched = 0

    def read(self) -> None:
        self.text += "".join(told.text for told in self._source.read())

    def forget(self) -> None:
        self.hits, self._searched = [], 0

    @property
    def left(self) -> int:
        """Characters that were not searched yet."""
        return len(self.text) - self._searched

    def search(self, pattern: re.Pattern[str], most: int) -> None:
        """Search on, in so many characters at most."""
        begin = max(self._searched - _LONGEST, 0)
        while self.hits and self.hits[-1][1] > begin:
            begin = min(begin, self.hits.pop()[0])
        self._searched += min(most, self.left)
        self.hits += [found.span() for found in pattern.finditer(self.text, begin, self._searched)]


class Finding:
    """The hits of a query in all turns of a chat, in order, and the index of the current one: `at`.

    A search goes through a part of the text at once, from the first turn on; `go_on` through more, while it `is_going_on`.
    What comes while a reply streams costs what is new.
    """

    def __init__(self) -> None:
        self.query = ""
        self.at: int | None = None
        self._pattern: re.Pattern[str] | None = None
        self._texts: list[_Text] = []
        self._near = Anchor(0, 0)

    @property
    def is_going_on(self) -> bool:
        return self._pattern is not None and any(text.left for text in self._texts)

    @property
    def count(self) -> int:
        return sum(len(text.hits) for text in self._texts)

    @property
    def current(self) -> tuple[int, Hit] | None:
        if self.at is None:
            return None
        turn = next(turn for turn, before in enumerate(self._ends()) if before > self.at)
        hits = self._texts[turn].hits
        return turn, hits[self.at - (self._ends()[turn] - len(hits))]

    def hits(self, turn: int) -> Sequence[Hit]:
        return self._texts[turn].hits if turn < len(self._texts) else ()

    def read(self, turns: Sequence[tuple[Part, ...]]) -> bool:
        """Read the turns as they are now; return True if the hits or the current one have changed."""
        before = self.count, self.at
        kept = 0
        while kept < min(len(turns), len(self._texts)) and turns[kept] == self._texts[kept].parts:
            kept += 1
        self._texts[kept:] = [_Text(parts) for parts in turns[kept:]]
        for text in self._texts[max(kept - 1, 0) :]:  # what did not change is read to its end, but for the last
            text.read()
        self.go_on()
        if self.at is not None or not self.is_going_on:
            self.at = min(self.at or 0, self.count - 1) if self.count else None
        return (self.count, self.at) != before

    def look_for(self, query: str, near: Anchor) -> None:
        """Search for another text, from a place on: its first hit from there on becomes current, else its last."""
        self.query, self._pattern = query, make_pattern(query)
        self._near, self.at = near, None
        for text in self._texts:
            text.forget()
        self.go_on()

    def go_on(self) -> None:
        """Search some more text; set the current hit once it is sure which that is."""
        room, pattern = AT_ONCE, self._pattern
        for text in self._texts:
            if pattern is not None and room > 0 and (left := text.left):
                text.search(pattern, room)
                room -= left
        if self.at is None and self.count and (not self.is_going_on or self._is_past()):
            self.at = self._nearest(self._near)

    def _is_past(self) -> bool:
        """Return True if there is a hit from the wanted place on."""
        last = next(turn for turn in range(len(self._texts) - 1, -1, -1) if self._texts[turn].hits)
        return (last, self._texts[last].hits[-1][0]) >= self._near

    def step(self, by: int) -> None:
        """Go to a hit further on or back; behind the last comes the first."""
        if self.count:
            self.at = ((self.at if self.at is not None else -1) + by) % self.count

    def _nearest(self, near: Anchor) -> int:
        """Return the first hit from a place on, else the last."""
        ends = self._ends()
        if near.turn >= len(self._texts):
            return self.count - 1
        hits = self._texts[near.turn].hits
        at = ends[near.turn] - len(hits) + bisect_left(hits, (near.offset, 0))
        return min(at, self.count - 1)

    def _ends(self) -> list[int]:
        """Count the hits up to the end of each turn."""
        return list(accumulate(len(text.hits) for text in self._texts))


HIT = Ink("background", ground="stamp")
CURRENT = Ink("background", ground="accent", bold=True, underline=True)


def find_hits(document: Document, block: Block, row: int, hits: Sequence[Hit]) -> Iterator[tuple[Hit, int, int]]:
    """Yield the hits in a turn's text that are on a line of a block, each with its characters there, the margin counted."""
    if not hits or not isinstance(block, TextBlock | ChunkBlock) or not block.is_text(row):
        return
    begin, end = find_shown_span(block, row)
    first = max(bisect_right(hits, (begin, 0)) - 1, 0)
    here = [hit for hit in hits[first : bisect_right(hits, (end, 0))] if hit[1] > begin]
    places = map_characters(block, row, document.turns[block.turn].text) if here else []
    for hit in here:
        shown = [index for index, offset in enumerate(places) if hit[0] <= offset < hit[1]]
        if shown:
            yield hit, shown[0] + MARGIN, shown[-1] + 1 + MARGIN
