"""The token cursor: which token it is on, where that is, and where each move takes it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Sequence
from typing import Literal, NamedTuple

from rich.cells import split_graphemes

from termchat.tui.transcript.blocks import Block, TextBlock
from termchat.tui.transcript.cursor.jumps import Test, is_changed, is_fork, is_surprise, is_uncertain, jump
from termchat.tui.transcript.cursor.token_order import TokenRef, Track
from termchat.tui.transcript.document import Anchor, Document
from termchat.tui.transcript.selection import find_line_span, map_characters

BEHIND = 1_000_000
"""A cell behind the end of every line."""


class Spot(NamedTuple):
    """Cells `begin` to `end` of a line of a block, the margin not counted.

    Without `own` they show nothing of the token: its text would stand there if it had any that one can see. `blank`: there
    are only spaces there.
    """

    block: Block
    row: int
    begin: int
    end: int
    own: bool
    blank: bool = False


class Cell(NamedTuple):
    """A character on a line with its cells, and its offset in the text of its turn."""

    text: str
    begin: int
    end: int
    offset: int


def pick_main_spot(spots: Sequence[Spot]) -> Spot:
    """Return the first spot of a token with a word: its space may be on the line before."""
    return next((spot for spot in spots if not spot.blank), spots[0])


Move = Literal[
    "left", "right", "up", "down", "turn_up", "turn_down", "line_start", "line_end", "first", "last",
    "entropy_next", "entropy_prev", "surprise_next", "surprise_prev", "change_next", "change_prev", "fork_next", "fork_prev",
]  # fmt: skip


class Cursor:
    """A cursor on a token of a document in a token look. Cells count from 0 behind the margin."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self.column = 0
        self.ref: TokenRef | None = None
        self.spots: list[Spot] = []

    @property
    def track(self) -> Track:
        return self._document.track

    @property
    def forks(self) -> Collection[tuple[int, int]]:
        """Tokens, as (number of the node, index in it), at which another branch leaves the path."""
        conversation = self._document.conversation
        return conversation.find_forks() if conversation is not None else ()

    def put(self, ref: TokenRef | None) -> None:
        self.ref = ref
        self.find()
        if self.spots:
            self.column = pick_main_spot(self.spots).begin

    def find(self) -> None:
        """Find its token again after lines have been laid out again."""
        self.spots = self.find_spots(self.ref) if self.ref is not None else []

    def move(self, how: Move) -> None:
        """Move it to the next token that way, if any. Up and down it keeps to its column."""
        to = MOVES[how](self, self.ref) if self.ref is not None else None
        if to is not None:
            column = self.column
            self.put(to)
            self.column = column if how in ("up", "down") else self.column

    def rows(self) -> list[int]:
        """Return the lines of the document that it is on."""
        return [self._document.line_of(spot.block, spot.row) for spot in self.spots]

    def spots_on(self, block: Block, row: int) -> list[Spot]:
        return [spot for spot in self.spots if spot.block is block and spot.row == row]

    def find_newest(self, top: int, bottom: int) -> TokenRef | None:
        """Return the last token on these lines, or behind it the last one without cells; else the newest of the chat."""
        lines = range(bottom - 1, top - 1, -1)
        ref = next((found for y in lines if (found := self.find_token(y, BEHIND)) is not None), None)
        if ref is None:
            return self.track.last()
        while (after := self.track.next(ref)) is not None and not self.find_spots(after)[0].own:
            ref = after
        return ref

    def find_spots(self, ref: TokenRef) -> list[Spot]:
        """Lay out the blocks of a token; return where it is painted, in order: at least one spot."""
        document, turn = self._document, self.track.stretch(ref.node).turn
        begin, end = self.track.span(ref)
        first = at = document.index_at(Anchor(turn, begin))
        while not isinstance(document.blocks[first], TextBlock):  # what ends the reply
            first = at = first - 1
        spots: list[Spot] = []
        while at < len(document.blocks) and isinstance(block := document.blocks[at], TextBlock):
            if block.turn != turn or (at > first and block.start >= end):
                break
            document.lay(at)
            rows = [row for row in range(len(block.lines)) if block.is_text(row)]
            for row in rows[max(_find_row(block, rows, begin) - 1, 0) :]:  # a mark may have begun in the line before
                cells = [cell for cell in self._list_cells(block, row) if begin <= cell.offset < end]
                if cells:
                    blank = all(cell.text.isspace() for cell in cells)
                    spots.append(Spot(block, row, cells[0].begin, cells[-1].end, own=True, blank=blank))
                if find_line_span(block, row)[1] >= end:
                    break
            at += 1
        return spots or [self._find_stand_in(document.blocks[first], turn, begin, end)]

    def _find_stand_in(self, block: Block, turn: int, begin: int, end: int) -> Spot:
        """Find the place of a token whose text has no cells: one cell behind the token before it.

        A token that continues a character has the cells of that character.
        """
        text = self._document.turns[turn].text
        rows = [row for row in range(len(block.lines)) if block.is_text(row)]
        at = _find_row(block, rows, begin)
        before = [cell for cell in self._list_cells(block, rows[at]) if cell.offset < begin]
        if at and begin == block.offset_at(rows[at], block.width) and text[begin - 1] != "\n":
            at -= 1  # the line before is this one, wrapped
            before = self._list_cells(block, rows[at])
        if not before:
            return Spot(block, rows[at], 0, 1, own=False)
        last = before[-1]
        if text[begin:end].strip():
            return Spot(block, rows[at], last.begin, last.end, own=True)
        return Spot(block, rows[at], last.end, last.end + 1, own=False)

    def find_token(self, y: int, cell: int) -> TokenRef | None:
        """Return the token on a cell of a line, or the nearest on that line."""
        found = self._document.find(y)
        return self._find_on_row(*found, cell) if found is not None else None

    def find_beyond(self, ref: TokenRef, *, down: bool) -> TokenRef | None:
        """Return another token, nearest to the cursor's column, on the next line with tokens below or above."""
        spot = pick_main_spot(self.find_spots(ref))
        step = 1 if down else -1
        for index, block in self._document.walk(self._document.index_of(spot.block), step):
            if not isinstance(block, TextBlock) or not self._has_tokens(block):
                continue
            self._document.lay(index)
            for row in range(len(block.lines))[::step]:
                if block is spot.block and (row - spot.row) * step <= 0:
                    continue
                found = self._find_on_row(block, row, self.column)
                if found is not None and found != ref:
                    return found
        return None

    def find_edge(self, ref: TokenRef, *, end: bool) -> TokenRef:
        spot = pick_main_spot(self.find_spots(ref))
        return self._find_on_row(spot.block, spot.row, BEHIND if end else 0) or ref

    def _has_tokens(self, block: Block) -> bool:
        return self._document.turns[block.turn].role == "assistant"

    def _find_on_row(self, block: Block, row: int, cell: int) -> TokenRef | None:
        """Return the token on a cell of a line, or the nearest on the line.

        A token of which only the space or line break before its text is on the line does not count if others do.
        """
        if not isinstance(block, TextBlock) or not self._has_tokens(block):
            return None
        cells = [(one, self.track.find_token(block.turn, one.offset)) for one in self._list_cells(block, row)]
        tokens = [(one, ref) for one, ref in cells if ref is not None]
        if not tokens:
            return None
        last = tokens[-1][1]
        others = [(one, ref) for one, ref in tokens if ref != last]
        goes_on = self.track.span(last)[1] > find_line_span(block, row)[1]
        if others and goes_on and all(one.text.isspace() for one, ref in tokens if ref == last):
            tokens = others
        return tokens[max(bisect_right(tokens, cell, key=lambda token: token[0].begin) - 1, 0)][1]

    def _list_cells(self, block: Block, row: int) -> list[Cell]:
        """List the characters of the text on a line of a laid-out block that have cells."""
        shown, cells, used = block.lines[row].text, list[Cell](), 0
        places = map_characters(block, row, self._document.turns[block.turn].text) if block.is_text(row) else []
        for begin, end, size in split_graphemes(shown)[0]:
            if size and begin < len(places) and places[begin] >= 0:
                cells.append(Cell(shown[begin:end], used, used + size, places[begin]))
            used += size
        return cells


def _find_row(block: Block, rows: Sequence[int], offset: int) -> int:
    """Return which of the rows of text of a laid-out block holds a character."""
    return max(bisect_right(rows, offset, key=lambda row: block.offset_at(row, block.width)) - 1, 0)


_Way = Callable[[Cursor, TokenRef], TokenRef | None]


def _jumps(test: Test | None, *, back: bool) -> _Way:
    """Make a jump by a test; without one, by the forks of the chat."""
    return lambda cursor, ref: jump(cursor.track, ref, test or is_fork(cursor.forks), back=back)


MOVES: dict[Move, _Way] = {
    "left": lambda cursor, ref: cursor.track.previous(ref),
    "right": lambda cursor, ref: cursor.track.next(ref),
    "up": lambda cursor, ref: cursor.find_beyond(ref, down=False),
    "down": lambda cursor, ref: cursor.find_beyond(ref, down=True),
    "turn_up": lambda cursor, ref: cursor.track.turn_up(ref),
    "turn_down": lambda cursor, ref: cursor.track.turn_down(ref),
    "line_start": lambda cursor, ref: cursor.find_edge(ref, end=False),
    "line_end": lambda cursor, ref: cursor.find_edge(ref, end=True),
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
