"""The blocks of a turn: each knows its part of the turn's text, and lays itself out once for a width.

A block's height is an estimate until it has been laid out. Then it keeps its lines.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

from termchat.conversation.token_marks import TokenMark
from termchat.text import one_line
from termchat.tui.draw.ink import BLANK, Ink, Line, Run, on_ground
from termchat.tui.draw.marks import TEXT
from termchat.tui.draw.wrap import Wrapper, wrap_runs
from termchat.tui.transcript.turn_source import TurnSource

STAMP = Ink("stamp", italic=True)
USER_GROUND = "surface"
CARET: Run = ("▌", Ink("accent"))


class Cell(NamedTuple):
    """A character on a line with its cells, and its offset in the text of its turn."""

    text: str
    begin: int
    end: int
    offset: int


class Block:
    """Characters `start` to `end` of a turn, laid out when it comes into view. `gap` puts a blank line before it.

    Of code between fences `fence` is the sign that they are made of, and `lead` how many characters the line with the opening
    one has, which is not shown; 0 where the block goes on with code.

    One of this very class stands for the blocks of a turn that has not come near the view yet.
    """

    fence = ""
    lead = 0

    def __init__(self, source: TurnSource, start: int, end: int, *, gap: bool = False) -> None:
        self.source, self.start, self.end = source, start, end
        self.gap = gap
        self.marks: Sequence[TokenMark] = ()
        self.caret = False
        self.lines: list[Line] = []
        self.width = 0
        """The width for which it is laid out; 0 where its text has changed since."""
        self._offsets: list[int] | None = None
        self.cells: dict[int, list[Cell]] = {}
        """The characters of its lines, as far as the cursor has asked for them."""

    def estimate(self, width: int) -> int:
        """Estimate how many lines it takes."""
        breaks = self.source.text.count("\n", max(self.start, 0), self.end)
        return max((self.end - self.start) // max(width, 1), 1) + breaks + self.gap + len(self.marks)

    def lay(self, width: int) -> None:
        if self.width == width:
            return
        lines, self._offsets = self.content(width), None
        if self.caret:
            lines = lines or [BLANK]  # behind the last character; the margin leaves a cell for it
            lines = [*lines[:-1], lines[-1]._replace(runs=(*lines[-1].runs, CARET))]
        if self.marks:
            lines, self._offsets = self._add_marks(lines, width)
        if self.source.role == "user":
            lines = on_ground(lines, USER_GROUND)
        if self.gap:
            lines = [BLANK, *lines]
            self._offsets = [self.start, *self._offsets] if self._offsets is not None else None
        self.lines, self.width = lines, width
        self.cells.clear()

    def content(self, width: int) -> list[Line]:
        """Lay out its own lines."""
        raise NotImplementedError

    @property
    def offsets(self) -> list[int]:
        """Where each line of a laid-out block begins in the turn's text."""
        if self._offsets is None:
            self._offsets = self.align(self.lines)
        return self._offsets

    def offset_at(self, row: int, width: int) -> int:
        """Return where in the turn's text a line begins; guess while the block is not laid out."""
        if self.width != width:
            return self.start + (self.end - self.start) * row // max(self.estimate(width), 1)
        return self.offsets[row] if row < len(self.offsets) else self.end

    def row_of(self, offset: int) -> int:
        """Return the line of a laid-out block that holds a character."""
        return max(bisect_left(self.offsets, offset + 1, hi=min(len(self.offsets), len(self.lines))) - 1, 0)

    def is_text(self, row: int) -> bool:
        """Return True for a line of the text; False for a gap and a mark."""
        runs = self.lines[row].runs
        return row >= self.gap and not (runs and runs[0][1] is STAMP)

    def find_line_span(self, row: int) -> tuple[int, int]:
        """Find where the text on a line of a laid-out block begins and ends in the turn's text."""
        following = next((later for later in range(row + 1, len(self.lines)) if self.is_text(later)), None)
        end = self.offset_at(following, self.width) if following is not None else self.end
        return self.offset_at(row, self.width), end

    def align(self, lines: Sequence[Line]) -> list[int]:
        """Find where each line begins in the turn's text."""
        return [self.start] * len(lines)

    def _add_marks(self, lines: list[Line], width: int) -> tuple[list[Line], list[int]]:
        """Put each mark after the line that holds the character before it; return where each line begins, too."""
        begins = self.align(lines)
        lines, offsets = list(lines), list(begins)
        for mark in reversed(self.marks):
            after = bisect_left(begins, mark.offset)
            stamp = wrap_runs([(mark.text, STAMP)], width, (("┊ ", STAMP),), (("┊ ", STAMP),))
            lines[after:after] = stamp
            offsets[after:after] = [max(mark.offset - 1, self.start)] * len(stamp)
        return lines, offsets


class NoteBlock(Block):
    """Words of ours beside the text, if any: the head of a turn, a line for its thoughts, why it ended. The bar `first` stands
    before them; the first run is cut where it leaves no room for the `kept` cells behind it."""

    def __init__(
        self, source: TurnSource, at: int, runs: Sequence[Run], *, first: tuple[Run, ...] = (), kept: int = 0
    ) -> None:
        super().__init__(source, at, at)
        self.runs, self._first, self._kept = runs, first, kept

    def content(self, width: int) -> list[Line]:
        if not self.runs:
            return []
        (text, ink), *others = self.runs
        runs = [(one_line(text, width - self._kept) if self._kept else text, ink), *others]
        return wrap_runs(runs, width, self._first, tuple((" " * len(text), ink) for text, ink in self._first))


class TextBlock(Block):
    """Plain text or tokens, exactly as they are, each line behind a bar; it can grow. `ends_line`: its last line break begins
    no line of it."""

    def __init__(self, source: TurnSource, start: int, ink: Ink = TEXT, bar: tuple[Run, ...] = ()) -> None:
        super().__init__(source, start, start)
        self.ink, self.bar = ink, bar
        self.ends_line = False
        self._wrapper = Wrapper(0)
        self._wrapped = 0, start
        """The width of the wrapper, and up to which character it was fed."""

    def grow(self, end: int, *, done: bool = False) -> None:
        """Take in the text up to a character. The lines that are there already are not laid out again. Of a block that is
        `done` a last line break begins no line."""
        ends_line = done and self.source.text.endswith("\n", self.start, end)
        if (end, ends_line) != (self.end, self.ends_line):
            self.end, self.ends_line, self.width = end, ends_line, 0

    def content(self, width: int) -> list[Line]:
        if self._wrapped[0] != width:
            self._wrapper, self._wrapped = Wrapper(width, self.bar, self.bar), (width, self.start)
        for text, ink in self.source.make_runs(self._wrapped[1], self.end, self.ink):
            self._wrapper.feed(text, ink)
        self._wrapped = width, self.end
        return list(self._wrapper.closed) if self.ends_line else self._wrapper.lines

    def align(self, lines: Sequence[Line]) -> list[int]:
        starts = self._wrapper.line_starts[: len(self._wrapper.closed) if self.ends_line else None]
        return [self.start + start for start in starts[max(len(starts) - len(lines), 0) :]]
