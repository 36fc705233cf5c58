"""The token cursor: which token it is on, where that is, and where each move takes it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from itertools import chain
from typing import Literal

from termchat.tui.transcript.blocks import Block, TextBlock
from termchat.tui.transcript.cursor.jumps import Test, is_changed, is_fork, is_surprise, is_uncertain, jump
from termchat.tui.transcript.cursor.token_cells import BlockCells, Spot, main_of
from termchat.tui.transcript.cursor.token_order import TokenRef, Track
from termchat.tui.transcript.document import Document
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


Move = Literal[
    "left", "right", "up", "down", "turn_up", "turn_down", "line_start", "line_end", "first", "last",
    "entropy_next", "entropy_prev", "surprise_next", "surprise_prev", "change_next", "change_prev", "fork_next", "fork_prev",
]  # fmt: skip


class Cursor:
    """A cursor on a token of a document in a token look. `forks` gives the tokens, as numbers of nodes and indexes, in whose
    place another branch goes on."""

    def __init__(self, document: Document, forks: Callable[[], Collection[tuple[int, int]]]) -> None:
        self._document = document
        self.forks = forks
        self.pointer = Pointer(document)
        self.column = 0
        self.ref: TokenRef | None = None
        self.spots: list[Spot] = []

    @property
    def track(self) -> Track:
        return self._document.track

    def put(self, ref: TokenRef | None) -> None:
        self.ref = ref
        self.find()
        if self.spots:
            self.column = main_of(self.spots).begin

    def find(self) -> None:
        """Finds its token again after something was laid out anew."""
        self._document.pointed = self.track.stretch(self.ref.node).turn if self.ref is not None else None
        self.spots = self.pointer.spots(self.ref) if self.ref is not None else []

    def move(self, how: Move) -> None:
        """Moves it; where there is nothing that way it stays. Up and down it keeps to its column."""
        to = MOVES[how](self, self.ref) if self.ref is not None else None
        if to is not None:
            column = self.column
            self.put(to)
            self.column = column if how in ("up", "down") else self.column

    def rows(self) -> list[int]:
        """The lines of the document that it is on."""
        return [self.pointer.line(self.ref, spot) for spot in self.spots] if self.ref is not None else []

    def on(self, block: Block, row: int) -> list[Spot]:
        return [spot for spot in self.spots if spot.block is block and block.row(spot.line) == row]

    def newest(self, top: int, bottom: int) -> TokenRef | None:
        """The last token on these lines, with those after it that have no cells of their own; else the newest of the chat."""
        lines = range(bottom - 1, top - 1, -1)
        ref = next((found for y in lines if (found := self.pointer.at(y, BEHIND)) is not None), None)
        if ref is None:
            return self.track.last()
        while (after := self.track.next(ref)) is not None and not self.pointer.spots(after)[0].own:
            ref = after
        return ref


_Way = Callable[[Cursor, TokenRef], TokenRef | None]


def _jumps(test: Test | None, *, back: bool) -> _Way:
    """A jump by a test; without one, by the forks that the cursor knows of."""
    return lambda cursor, ref: jump(cursor.track, ref, test or is_fork(cursor.forks()), back=back)


MOVES: dict[Move, _Way] = {
    "left": lambda cursor, ref: cursor.track.previous(ref),
    "right": lambda cursor, ref: cursor.track.next(ref),
    "up": lambda cursor, ref: cursor.pointer.beyond(ref, cursor.column, down=False),
    "down": lambda cursor, ref: cursor.pointer.beyond(ref, cursor.column, down=True),
    "turn_up": lambda cursor, ref: cursor.track.turn_up(ref),
    "turn_down": lambda cursor, ref: cursor.track.turn_down(ref),
    "line_start": lambda cursor, ref: cursor.pointer.edge(ref, end=False),
    "line_end": lambda cursor, ref: cursor.pointer.edge(ref, end=True),
    "first": lambda cursor, _: cursor.track.first(),
    "last": lambda cursor, _: cursor.track.last(),
    "entropy_next": _jumps(is_uncertain, back=False),
    "entropy_prev": _jumps(is_uncertain, back=True),
    "surprise_next": _jumps(is_surprise, back=False),
    "surprise_prev": _jumps(is_surprise, back=True),
    "change_next": _jumps(is_changed, back=False),
    "change_prev": _jumps(is_changed, back=True),
    "fork_next": _jumps(None, back=False),
    "fork_prev": _jumps(None, back=True),
}
