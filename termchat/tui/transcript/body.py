"""The body of a turn as blocks, in either look, while its text comes in."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate, repeat
from typing import Protocol

from termchat.tui.transcript.blocks import Block, ChunkBlock, TextBlock
from termchat.tui.transcript.ink import HEATS, Ink, Run
from termchat.tui.transcript.split import Splitter

ENOUGH = 1000
"""Characters after which a block of plain text ends with its line."""

MUCH = 200_000
"""Characters of a turn after which its blocks are longer, so that there are never many thousands: a line ends one after"""

LONGEST = 4000
"""characters. After as many any block ends at a space; at twice as many it ends anywhere."""

PLAIN = Ink("text")
INKS = [Ink("text", heat=heat) for heat in range(HEATS)]


class Body(Protocol):
    """Takes text; gives blocks that are finished and blocks that may still change."""

    def feed(self, texts: Sequence[str], heats: Sequence[int] | None) -> None:
        """Adds the texts of tokens, each with its heat."""

    def finished(self) -> list[Block]:
        """The blocks finished since the last time."""

    def open(self, *, done: bool) -> list[Block]:
        """The blocks at the end, as they stand; `done` says that no more text comes."""


class PlainBody:
    """What a person wrote, or the tokens of a reply: exactly as they are."""

    def __init__(self, *, ground: str = "") -> None:
        self._ground = ground
        self._block = TextBlock(0, ground=ground)
        self._finished: list[Block] = []

    def feed(self, texts: Sequence[str], heats: Sequence[int] | None) -> None:
        """See `Body`."""
        inks = repeat(PLAIN) if heats is None else map(INKS.__getitem__, heats)
        runs = [run for run in zip(texts, inks, strict=False) if run[0]]
        text, ends = "".join(texts), list(accumulate([len(text) for text, _ in runs]))
        at, block = 0, self._block
        block.ends_line = False
        offset = block.end  # of the first character of `text`
        while cut := _cut(text, block.start - offset, ENOUGH if block.start < MUCH else LONGEST):
            block.feed(_runs(runs, ends, at, cut), text[at:cut])
            block.ends_line = text[cut - 1] == "\n"
            self._finished.append(block)
            self._block = block = TextBlock(block.end, ground=self._ground)
            at = cut
        block.feed(_runs(runs, ends, at, len(text)), text[at:])

    def finished(self) -> list[Block]:
        """See `Body`."""
        blocks, self._finished = self._finished, []
        return blocks

    def open(self, *, done: bool) -> list[Block]:
        """See `Body`. The line that a last line break begins is not shown once the text is done, unless it is the only one."""
        block = self._block
        if not done:
            return [block]
        block.ends_line = bool(block.runs) and block.runs[-1][0].endswith("\n")
        block.width = 0
        return [block] if block.runs or not block.start else []


def _runs(runs: Sequence[Run], ends: Sequence[int], begin: int, end: int) -> list[Run]:
    """The characters `begin` to `end` of runs that end at `ends`. A run is never copied as a whole: it may be megabytes."""
    first, last = bisect_right(ends, begin), bisect_left(ends, end)
    found = list(runs[first : last + 1])
    for index in {0, len(found) - 1} if found else ():  # all between are whole
        text, ink = runs[first + index]
        start = ends[first + index] - len(text)
        found[index] = text[max(begin - start, 0) : end - start], ink
    return found


def _cut(text: str, start: int, enough: int) -> int:
    """Where in the text the block ends that began at `start`, which may be before the text; 0 where it goes on."""
    ends = (
        text.find("\n", max(start + enough, 0), start + 2 * LONGEST) + 1,
        text.find(" ", max(start + LONGEST, 0), start + 2 * LONGEST) + 1,
        start + 2 * LONGEST if len(text) >= start + 2 * LONGEST else 0,
    )
    return min(filter(None, ends), default=0)


class ReadingBody:
    """A reply in the reading look: its Markdown, chunk by chunk."""

    def __init__(self) -> None:
        self._splitter = Splitter()

    def feed(self, texts: Sequence[str], heats: Sequence[int] | None) -> None:
        """See `Body`."""
        self._splitter.feed("".join(texts))

    def finished(self) -> list[Block]:
        """See `Body`."""
        return [ChunkBlock(chunk) for chunk in self._splitter.finished()]

    def open(self, *, done: bool) -> list[Block]:
        """See `Body`."""
        return [ChunkBlock(chunk, open=not done) for chunk in self._splitter.open(done=done)]
