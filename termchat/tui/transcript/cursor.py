"""The token cursor: which token it is on, where that is, and where each move takes it."""

from __future__ import annotations

from bisect import bisect_right
from typing import Literal, NamedTuple, get_args

from rich.cells import split_graphemes

from termchat.tui.transcript.blocks import Block, Cell, TextBlock
from termchat.tui.transcript.document import Anchor, Document
from termchat.tui.transcript.selection import map_characters
from termchat.tui.transcript.tokens import (
    Test,
    TokenRef,
    Track,
    find_change,
    find_fork,
    find_surprise,
    find_uncertain,
)

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


Move = Literal[
    "left", "right", "up", "down", "turn_up", "turn_down", "line_start", "line_end", "first", "last",
    "entropy_next", "entropy_prev", "surprise_next", "surprise_prev", "change_next", "change_prev", "fork_next", "fork_prev",
]  # fmt: skip
MOVES: tuple[Move, ...] = get_args(Move)
JUMPS: dict[str, Test] = {"entropy": find_uncertain, "surprise": find_surprise, "change": find_change}


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
    def main_spot(self) -> Spot:
        """Its first spot with a word: its space may be on the line before."""
        return next((spot for spot in self.spots if not spot.blank), self.spots[0])

    def put(self, ref: TokenRef | None) -> None:
        self.ref = ref
        self.find()
        if self.spots:
            self.column = self.main_spot.begin

    def find(self) -> None:
        """Find its token again after lines have been laid out again."""
        self.spots = self.find_spots(self.ref) if self.ref is not None else []

    def move(self, how: Move) -> None:
        """Move it to the next token that way, if any. Up and down it keeps to its column."""
        to = self._find_target(how, self.ref) if self.ref is not None else None
        if to is not None:
            column = self.column
            self.put(to)
            self.column = column if how in ("up", "down") else self.column

    def _find_target(self, how: Move, ref: TokenRef) -> TokenRef | None:
        track = self.track
        match how:
            case "left" | "right":
                return track.step(ref, -1 if how == "left" else 1)
            case "up" | "down":
                return self.find_beyond(-1 if how == "up" else 1)
            case "turn_up" | "turn_down":
                return track.step_turn(ref, -1 if how == "turn_up" else 1)
            case "line_start" | "line_end":
                spot = self.main_spot
                return self._find_on_row(spot.block, spot.row, 0 if how == "line_start" else BEHIND)
            case "first":
                return track.at(0)
            case "last":
                return track.last()
        kind, _, way = how.partition("_")
        conversation = self._document.conversation
        test = JUMPS.get(kind) or find_fork(conversation.find_forks() if conversation is not None else ())
        return track.jump(ref, test, back=way == "prev")

    def rows(self) -> list[int]:
        """Return the lines of the document that it is on."""
        return [self._document.line_of(spot.block, spot.row) for spot in self.spots]

    def find_newest(self) -> TokenRef | None:
        """Return the last token in view, or behind it the last one without cells; else the newest of the chat."""
        lines = reversed(range(self._document.top, self._document.top + self._document.rows))
        ref = next((token for y in lines if (token := self.find_token(y, BEHIND)) is not None), None)
        if ref is None:
            return self.track.last()
        while (after := self.track.step(ref, 1)) is not None and not self.find_spots(after)[0].own:
            ref = after
        return ref

    def find_spots(self, ref: TokenRef) -> list[Spot]:
        """Lay out the blocks of a token; return where it is painted, in order: at least one spot."""
        document, turn = self._document, self.track.turn_of(ref)
        begin, end = self.track.span(ref)
        first = document.index_at(Anchor(turn, begin))
        while not isinstance(document.blocks[first], TextBlock):  # what ends the reply
            first -= 1
        spots: list[Spot] = []
        for at in range(first, len(document.blocks)):
            block = document.blocks[at]
            if not isinstance(block, TextBlock) or (at > first and block.start >= end):
                break
            document.lay(at)
            for row in range(_list_rows(block, begin)[-2:][0], len(block.lines)):  # a mark may begin in the line before
                cells = [cell for cell in list_cells(block, row) if begin <= cell.offset < end]
                if cells:
                    blank = all(cell.text.isspace() for cell in cells)
                    spots.append(Spot(block, row, cells[0].begin, cells[-1].end, own=True, blank=blank))
                if block.find_line_span(row)[1] >= end:
                    break
        return spots or [_find_stand_in(document.blocks[first], begin, end)]

    def find_token(self, y: int, cell: int) -> TokenRef | None:
        """Return the token on a cell of a line, or the nearest on that line."""
        place = self._document.find(y)
        return self._find_on_row(*place, cell) if place is not None else None

    def find_beyond(self, step: int) -> TokenRef | None:
        """Return another token, nearest to its column, on the next line with tokens below (1) or above (-1)."""
        spot = self.main_spot
        for index, block in self._document.walk(self._document.index_of(spot.block), step):
            if not isinstance(block, TextBlock) or block.source.role == "user":
                continue
            self._document.lay(index)
            for row in range(len(block.lines))[::step]:
                if block is spot.block and (row - spot.row) * step <= 0:
                    continue
                token = self._find_on_row(block, row, self.column)
                if token is not None and token != self.ref:
                    return token
        return None

    def _find_on_row(self, block: Block, row: int, cell: int) -> TokenRef | None:
        """Return the token on a cell of a line, or the nearest on the line.

        A token of which only the space or line break before its text is on the line does not count if others do.
        """
        if not isinstance(block, TextBlock) or block.source.role == "user":
            return None
        track, turn, cells = self.track, block.source.number, list_cells(block, row)
        last = next((ref for one in reversed(cells) if (ref := track.find_token(turn, one.offset)) is not None), None)
        if last is None:
            return None
        begin, end = track.span(last)
        if end > block.find_line_span(row)[1] and all(one.text.isspace() for one in cells if begin <= one.offset < end):
            cells = [one for one in cells if one.offset < begin] or cells
        at = max(bisect_right(cells, cell, key=lambda one: one.begin), 1)
        nearest = (track.find_token(turn, one.offset) for one in (*reversed(cells[:at]), *cells[at:]))
        return next((ref for ref in nearest if ref is not None), last)


def _find_stand_in(block: Block, begin: int, end: int) -> Spot:
    """Find the place of a token whose text has no cells: one cell behind the token before it.

    A token that continues a character has the cells of that character.
    """
    text, rows = block.source.text, _list_rows(block, begin)
    row = rows[-1]
    before = [cell for cell in list_cells(block, row) if cell.offset < begin]
    if len(rows) > 1 and begin == block.offsets[row] and text[begin - 1] != "\n":
        row = rows[-2]  # the line before is this one, wrapped
        before = list_cells(block, row)
    if not before:
        return Spot(block, row, 0, 1, own=False)
    last = before[-1]
    if text[begin:end].strip():
        return Spot(block, row, last.begin, last.end, own=True)
    return Spot(block, row, last.end, last.end + 1, own=False)


def list_cells(block: Block, row: int) -> list[Cell]:
    """List the characters of the text on a line of a laid-out block that have cells; the block keeps them."""
    if (known := block.cells.get(row)) is not None:
        return known
    shown, cells, used = block.lines[row].text, list[Cell](), 0
    places = map_characters(block, row) if block.is_text(row) else []
    for begin, end, size in split_graphemes(shown)[0]:
        if size and begin < len(places) and places[begin] >= 0:
            cells.append(Cell(shown[begin:end], used, used + size, places[begin]))
        used += size
    block.cells[row] = cells
    return cells


def _list_rows(block: Block, offset: int) -> list[int]:
    """List the rows of text of a laid-out block up to the one with a character."""
    rows = [row for row in range(len(block.lines)) if block.is_text(row)]
    return rows[: max(bisect_right(rows, offset, key=block.offsets.__getitem__), 1)]
