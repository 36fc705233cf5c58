"""Where the tokens of a reply are on its lines, in a token look.

A block is wrapped a second time, with inks that carry the number of the token in place of its heat, so that what is
painted and what is found agree whatever the wrapping does. That is done only for blocks that somebody points at.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import chain, islice, repeat
from typing import NamedTuple

from rich.cells import cell_len, split_graphemes

from termchat.tui.draw.ink import Ink, Line
from termchat.tui.draw.wrap import Wrapper
from termchat.tui.transcript.blocks import Block, TextBlock
from termchat.tui.transcript.cursor.token_order import TokenRef, TurnTokens
from termchat.tui.transcript.turn_source import Part

_MOST_KEPT = 8
"""Blocks of a turn whose cells are kept."""


class Spot(NamedTuple):
    """Cells `begin` to `end` of a line of a block, the margin not counted; `line` counts the block's own lines.

    Without `own` they show nothing of the token: its text would stand there if it had any that one can see. `blank`: there
    are only spaces there.
    """

    block: TextBlock
    line: int
    begin: int
    end: int
    own: bool
    blank: bool = False


def main_of(spots: Sequence[Spot]) -> Spot:
    """The spot of a token that one looks at: of a word that went to the next line, not the space before it."""
    return next((spot for spot in spots if not spot.blank), spots[0])


class BlockCells:
    """The cells of one block at one width. It can grow with the block."""

    def __init__(self, block: TextBlock, tokens: TurnTokens, width: int) -> None:
        self.width = width
        self._block, self._tokens = block, tokens
        self._wrapper = Wrapper(width)
        self._runs, self._offset = 0, block.start
        self._closed: list[int] = []

    def read(self, beyond: float = math.inf) -> tuple[Sequence[Line], Sequence[int]]:
        """The lines as they stand, and for each the highest number of a token on it or before it; -1 while there is none.

        No more lines than it takes for a finished one to hold a token behind the token `beyond`: what is on the lines before it
        does not change any more.
        """
        closed, highest = self._wrapper.closed, self._closed
        numbers = chain(self._tokens.among(self._offset, self._block.end), repeat(-1))
        for (text, _), number in zip(islice(self._block.runs, self._runs, None), numbers, strict=False):
            if highest and highest[-1] > beyond:
                break
            self._wrapper.feed(text, Ink(heat=number))
            self._offset += len(text)
            self._runs += 1
            if len(closed) > len(highest):
                self._count(closed[len(highest) :], highest)
        lines = closed if self._block.ends_line else self._wrapper.lines
        if len(lines) == len(highest):
            return lines, highest
        rest = highest[-1:]
        self._count(lines[len(highest) :], rest)
        return lines, [*highest, *rest[-(len(lines) - len(highest)) :]]

    def spots(self, number: int) -> list[Spot]:
        """The cells that show text of a token."""
        lines, highest = self.read(beyond=number)
        found: list[Spot] = []
        for line in range(bisect_left(highest, number), len(lines)):
            for other, begin, end, text in _runs(lines[line]):
                if other == number and end > begin:
                    found.append(Spot(self._block, line, begin, end, own=True, blank=text.isspace()))
            if highest[line] > number:
                break
        return found

    def stand_in(self, number: int, text: str, *, begins_line: bool) -> Spot:
        """Where a token stands whose text has no cells: one cell behind the token before it.

        What continues a character stands on that character, and has its cells for its own.
        """
        lines, highest = self.read()
        line = min(bisect_left(highest, number), len(lines) - 1)
        before = [run for run in _runs(lines[line]) if run[0] < number]
        if not before and line and not begins_line:
            line -= 1  # a space or line break that the line above had no room for
            before = list(_runs(lines[line]))
        if not before:
            return Spot(self._block, line, 0, 1, own=False)
        _, _, end, written = before[-1]
        size = min(split_graphemes(written)[0][-1][2], end) if text.strip() else 0
        return Spot(self._block, line, end - size, end if size else end + 1, own=size > 0)

    def token_at(self, line: int, cell: int) -> int | None:
        """The number of the token on a cell of a line, or the nearest one on the line; None where there is none.

        A token of which only the space or line break before its text is on the line does not count if others do.
        """
        lines = self.read()[0]
        runs = [run for run in _runs(lines[line]) if run[0] >= 0]
        goes_on = lines[line + 1].runs[0][1].heat if line + 1 < len(lines) and lines[line + 1].runs else -1
        if len(runs) > 1 and runs[-1][0] == goes_on and runs[-1][3].isspace():
            runs.pop()
        at = bisect_right(runs, cell, key=lambda run: run[1]) - 1
        return runs[max(at, 0)][0] if runs else None

    @property
    def height(self) -> int:
        """Its own lines."""
        return len(self.read()[0])

    @staticmethod
    def _count(lines: Sequence[Line], highest: list[int]) -> None:
        for line in lines:
            on_it = max((ink.heat for _, ink in line.runs), default=-1)
            highest.append(max(on_it, highest[-1] if highest else -1))


class TurnPlaces:
    """The places of all tokens of a turn, found block by block when they are asked for."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self._tokens = TurnTokens(parts)
        self._cells: dict[TextBlock, BlockCells] = {}

    def number(self, part: int, index: int) -> int:
        return self._tokens.number(part, index)

    def ref(self, number: int) -> TokenRef:
        return self._tokens.ref(number)

    def spots(self, blocks: Sequence[Block], width: int, number: int) -> list[Spot]:
        """The cells of a token in order, at least one, and nowhere but in blocks of text; none where there are none."""
        texts = [block for block in blocks if isinstance(block, TextBlock)]
        if not texts:
            return []
        start, end = self._tokens.span(number)
        at = max(bisect_right(texts, start, key=lambda block: block.start) - 1, 0)
        found = self.of(texts[at], width).spots(number)
        for block in texts[at + 1 :]:
            if block.start >= end:
                break
            found += self.of(block, width).spots(number)
        if found:
            return found
        written, begin = "".join(text for text, _ in texts[at].runs), start - texts[at].start
        text, begins_line = written[begin : end - texts[at].start], written[:begin].endswith("\n")
        return [self.of(texts[at], width).stand_in(number, text, begins_line=begins_line)]

    def of(self, block: TextBlock, width: int) -> BlockCells:
        cells = self._cells.pop(block, None)
        if cells is None or cells.width != width:
            cells = BlockCells(block, self._tokens, width)
        self._cells[block] = cells
        if len(self._cells) > _MOST_KEPT:
            del self._cells[next(iter(self._cells))]
        return cells


def _runs(line: Line) -> Iterator[tuple[int, int, int, str]]:
    """Number, first cell, end and text of each run."""
    used = 0
    for text, ink in line.runs:
        begin, used = used, used + cell_len(text)
        yield ink.heat, begin, used, text
