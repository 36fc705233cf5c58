"""What the ids of a reply are worth a mark for: text that it says again and again, and end tokens behind which it went on."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from termchat.conversation.node import TokenColumns
from termchat.decoding.loops import LoopFinder, Repetition


class TokenMark(NamedTuple):
    """`token`: how many tokens of the reply come before it, `offset`: how many characters."""

    token: int
    offset: int
    text: str


class _Piece(NamedTuple):
    """The tokens of a node from the reply's token `first` on, and how many characters come before them."""

    first: int
    tokens: TokenColumns
    offset: int


class TokenMarks:
    """Reads a reply as it grows, node by node."""

    def __init__(self) -> None:
        self._finder = LoopFinder()
        self._pieces: list[_Piece] = []
        self._told = 0
        self._ends: list[TokenMark] = []
        self._finished = False

    def read(self, tokens: TokenColumns, begin: int, end: int, offset: int) -> Iterator[TokenMark]:
        """Read tokens `begin` to `end` of a node, at character `offset`; yield the new marks."""
        finder = self._finder
        if not self._pieces or self._pieces[-1].tokens is not tokens:
            self._pieces.append(_Piece(finder.count - begin, tokens, offset))
        first = self._pieces[-1].first
        if begin < end and self._ends:  # something follows them
            yield from self._ends
            self._ends = []
        finder.extend_ids(tokens.list_signs(begin, end))
        marks = [self._mark_loop(loop) for loop in finder.ended[self._told :]]
        self._told = len(finder.ended)
        passed = tokens.end_tokens
        for index in passed[bisect_left(passed, begin) : bisect_left(passed, end)]:
            number = first + index + 1
            mark = TokenMark(number, self._offset_of(number), f"end token ignored at token {number - 1}")
            (marks if index + 1 < end else self._ends).append(mark)
        yield from sorted(marks)

    def finish_marks(self) -> Iterator[TokenMark]:
        """Yield the mark of a loop in which the reply ends."""
        if self._finder.current is not None and not self._finished:
            self._finished = True
            yield self._mark_loop(self._finder.current)

    def list_loops(self) -> list[tuple[int, int]]:
        """Return the first character of each loop, and the one behind it."""
        current = self._finder.current
        loops = [*self._finder.ended, *([current] if current is not None else ())]
        return [(self._offset_of(loop.begin), self._offset_of(loop.end)) for loop in loops]

    def _mark_loop(self, loop: Repetition) -> TokenMark:
        text = self._text_between(loop.begin, loop.begin + loop.period)
        return TokenMark(
            loop.end, self._offset_of(loop.end), f"loop: {loop.describe_loop(text)} from token {loop.begin}"
        )

    def _offset_of(self, number: int) -> int:
        """Return how many characters come before a token of the reply."""
        piece = self._pieces[bisect_right(self._pieces, number, key=lambda piece: piece.first) - 1]
        return piece.offset + piece.tokens.texts.start(number - piece.first)

    def _text_between(self, begin: int, end: int) -> str:
        behind = [*(piece.first for piece in self._pieces[1:]), end]
        return "".join(
            piece.tokens.texts.join_texts(min(end, last) - piece.first, max(begin - piece.first, 0))
            for piece, last in zip(self._pieces, behind, strict=True)
            if piece.first < end and begin < last
        )
