"""From tokens to lines and back, in a document in a token look. What is pointed at gets laid out."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from termchat.tui.transcript.blocks import Block, TextBlock
from termchat.tui.transcript.document import Document
from termchat.tui.transcript.places import BlockCells, Spot, main_of
from termchat.tui.transcript.tokens import TokenRef
from termchat.tui.transcript.turn import Turn

BEHIND = 1_000_000
"""A cell behind the end of every line."""


class Pointer:
    """Points into a document. Cells count from 0 behind the margin."""

    def __init__(self, document: Document) -> None:
        self._document = document

    def spots(self, ref: TokenRef) -> list[Spot]:
        """Where a token is painted: at least one spot, in order."""
        stretch = self._document.track.stretch(ref.node)
        self._document.build(stretch.turn)
        spots = self._document.turns[stretch.turn].spots(stretch.part, ref.index)
        self._document.stack(stretch.turn)
        return spots

    def line(self, ref: TokenRef, spot: Spot) -> int:
        """The line of the document that one of a token's spots is on."""
        turn = self._document.track.stretch(ref.node).turn
        return self._document.heights.top(turn) + self._document.turns[turn].row(spot)

    def at(self, y: int, cell: int) -> TokenRef | None:
        """The token on a cell of a line, or the nearest on that line; None where there is none."""
        found = self._document.find(y)
        if found is None or not isinstance(block := found[0], TextBlock):
            return None
        turn = self._document.turns[self._document.heights.at(y)]
        line = block.own_line(found[1])
        if line is None or not _has_tokens(turn):
            return None
        cells = turn.cells(block)
        return _reached(self._document, turn, cells.token_at(line, cell)) if line < cells.height else None

    def beyond(self, ref: TokenRef, cell: int, *, down: bool) -> TokenRef | None:
        """Another token, nearest to a cell, on the next line with tokens below or above."""
        index = self._document.track.stretch(ref.node).turn
        spot = main_of(self.spots(ref))
        step = 1 if down else -1
        turn = self._document.turns[index]
        begin = turn.blocks.index(spot.block)
        here = turn.cells(spot.block)
        lines = range(spot.line + 1, here.height) if down else range(spot.line - 1, -1, -1)
        blocks = turn.blocks[begin + 1 :] if down else turn.blocks[:begin][::-1]
        others = chain(((turn, here, lines),), self._lines(turn, blocks, down=down), self._turns(index + step, step))
        for at, cells, rows in others:
            for line in rows:
                found = _reached(self._document, at, cells.token_at(line, cell))
                if found is not None and found != ref:
                    return found
        return None

    def edge(self, ref: TokenRef, *, end: bool) -> TokenRef:
        """The first or last token of its line."""
        spot = main_of(self.spots(ref))
        turn = self._document.turns[self._document.track.stretch(ref.node).turn]
        return _reached(self._document, turn, turn.cells(spot.block).token_at(spot.line, BEHIND if end else 0)) or ref

    def _turns(self, first: int, step: int) -> Iterator[tuple[Turn, BlockCells, range]]:
        for index in range(first, len(self._document.turns) if step > 0 else -1, step):
            turn = self._document.turns[index]
            if _has_tokens(turn):
                self._document.build(index)
                yield from self._lines(turn, turn.blocks[::step], down=step > 0)
                self._document.stack(index)

    def _lines(self, turn: Turn, blocks: list[Block], *, down: bool) -> Iterator[tuple[Turn, BlockCells, range]]:
        for block in blocks:
            if isinstance(block, TextBlock):
                cells = turn.cells(block)
                yield turn, cells, range(cells.height) if down else range(cells.height - 1, -1, -1)


def _has_tokens(turn: Turn) -> bool:
    return turn.parts[0].node.role == "assistant"


def _reached(document: Document, turn: Turn, number: int | None) -> TokenRef | None:
    """The token of a number, if the path reaches it."""
    ref = turn.places.ref(number) if number is not None else None
    return ref if ref is not None and ref in document.track else None
