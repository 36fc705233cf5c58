"""The blocks of a turn: each knows its part of the turn's text, and lays itself out once for a width.

A block's height is an estimate until it has been laid out. Then it keeps its lines.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

from termchat.conversation.tree import TokenColumns
from termchat.tui.draw.ink import BLANK, MARGIN, Ink, Line, Run, on_ground
from termchat.tui.draw.wrap import Wrapper
from termchat.tui.transcript.looks import Look, heat_inks, heats, kinds
from termchat.tui.transcript.markdown.chunks import Chunk, dedent
from termchat.tui.transcript.markdown.code import render_code, render_label
from termchat.tui.transcript.markdown.inline import CODE, close_marks, complete_table
from termchat.tui.transcript.markdown.render import render_markdown, render_paragraph
from termchat.tui.transcript.turn_source import Mark, TurnText

STAMP = Ink("stamp", italic=True)
ENDING = Ink("muted", italic=True)
CARET: Run = ("▌", Ink("accent"))

_FAR = 400
"""Characters within which a word that is on the screen is looked for in the source."""
_LINE_END = re.compile(r"[^\S\n]*\n?")


class Block:
    """Characters `start` to `end` of turn `turn`, laid out when it comes into view. `gap` puts a blank line before it."""

    def __init__(self, start: int, end: int, *, gap: bool = False, ground: str = "") -> None:
        self.start, self.end = start, end
        self.gap, self.ground = gap, ground
        self.turn = 0
        self.marks: Sequence[Mark] = ()
        self.caret = False
        self.lines: list[Line] = []
        self.width = 0
        """The width for which it is laid out; 0 where its text has changed since."""
        self._offsets: list[int] | None = None

    def estimate(self, width: int) -> int:
        """Estimate how many lines it takes."""
        return max((self.end - self.start) // max(width, 1), 1) + self.gap + len(self.marks)

    def lay(self, width: int) -> None:
        if self.width == width:
            return
        lines, offsets = self.content(width)
        if self.caret:
            lines = lines or [BLANK]  # behind the last character; the margin leaves a cell for it
            lines = [*lines[:-1], lines[-1]._replace(runs=(*lines[-1].runs, CARET))]
        if self.marks:
            lines, offsets = self._marked(lines, self.align(lines) if offsets is None else offsets, width)
        if self.ground:
            lines = on_ground(lines, self.ground)
        if self.gap:
            lines = [BLANK, *lines]
            offsets = [self.start, *offsets] if offsets is not None else None
        self.lines, self._offsets, self.width = lines, offsets, width

    def content(self, width: int) -> tuple[list[Line], list[int] | None]:
        """Lay out its own lines; return them, and where each begins in the turn's text if that is known exactly."""
        raise NotImplementedError

    def offset_at(self, row: int, width: int) -> int:
        """Return where in the turn's text a line begins; guess while the block is not laid out."""
        if self.width != width:
            return self.start + (self.end - self.start) * row // max(self.estimate(width), 1)
        if self._offsets is None:
            self._offsets = self.align(self.lines)
        return self._offsets[row] if row < len(self._offsets) else self.end

    def row_of(self, offset: int) -> int:
        """Return the line of a laid-out block that holds a character."""
        if self._offsets is None:
            self._offsets = self.align(self.lines)
        return max(bisect_left(self._offsets, offset + 1, hi=min(len(self._offsets), len(self.lines))) - 1, 0)

    def is_text(self, row: int) -> bool:
        """Return True for a line of the text; False for a gap and a mark."""
        runs = self.lines[row].runs
        return row >= self.gap and not (runs and runs[0][1] is STAMP)

    def align(self, lines: Sequence[Line]) -> list[int]:
        """Find where each line begins in the turn's text."""
        return [self.start] * len(lines)

    def _marked(self, lines: list[Line], offsets: list[int], width: int) -> tuple[list[Line], list[int]]:
        """Put each mark after the line that holds the character before it."""
        begins = offsets[: len(lines)]
        lines, offsets = list(lines), list(begins)
        for mark in reversed(self.marks):
            after = bisect_left(begins, mark.offset)
            wrapper = Wrapper(width, (("┊ ", STAMP),), (("┊ ", STAMP),))
            wrapper.feed(mark.text, STAMP)
            lines[after:after] = wrapper.lines
            offsets[after:after] = [max(mark.offset - 1, self.start)] * len(wrapper.lines)
        return lines, offsets


class TurnInks:
    """The text of a turn as it comes, in inks: where tokens make it and the look shows them, each in that of its heat."""

    def __init__(self, look: Look = "reading") -> None:
        self._look, self._inks = look, heat_inks(look)
        self.length = 0
        self._parts: list[tuple[int, str | TokenColumns, int]] = []
        """Where each part begins, its text or the tokens that make it, and how many characters of theirs come before it."""

    def feed(self, piece: TurnText) -> None:
        if piece.tokens is None or not self._parts or self._parts[-1][1] is not piece.tokens:
            self._parts.append((self.length, piece.text if piece.tokens is None else piece.tokens, piece.begin))
        self.length += len(piece.text)

    def runs(self, begin: int, end: int, ink: Ink) -> Iterator[Run]:
        """Yield the characters from `begin` to `end`; each token, or part of one, is a run of its own."""
        at = max(bisect_right(self._parts, begin, key=lambda part: part[0]) - 1, 0)
        while begin < end and at < len(self._parts):
            start, source, before = self._parts[at]
            at += 1
            stop = min(self._parts[at][0], end) if at < len(self._parts) else end
            if isinstance(source, str):
                yield source[begin - start : stop - start], ink
            elif begin < stop:
                yield from self._token_runs(source, before + begin - start, before + stop - start, ink)
            begin = stop

    def _token_runs(self, tokens: TokenColumns, begin: int, end: int, ink: Ink) -> Iterator[Run]:
        """Yield the texts of tokens from one of their characters to another; forced tokens and near ties are marked."""
        texts = tokens.texts
        first, last = texts.find_text(begin), texts.find_text(end - 1) + 1
        pieces = texts[first:last]
        pieces[-1] = pieces[-1][: end - texts.start(last - 1)]
        pieces[0] = pieces[0][begin - texts.start(first) :]
        if self._look == "reading":
            yield "".join(pieces), ink
            return
        marks = zip(kinds(tokens, first, last), heats(tokens, self._look)[first:last], strict=True)
        for text, (kind, heat) in zip(pieces, marks, strict=True):
            if text:
                yield text, self._inks[kind][heat]


class TextBlock(Block):
    """Plain text or tokens, exactly as they are; it can grow. `ends_line`: its last line break begins no line of it."""

    BAR: tuple[Run, ...] = ()
    """What stands before each line."""
    INK = Ink("text")

    def __init__(self, inks: TurnInks, start: int, *, ground: str = "") -> None:
        super().__init__(start, start, ground=ground)
        self.ends_line = False
        self.breaks_off = False
        """Whether its last character is a line break."""
        self._inks = inks
        self._breaks = 0
        self._wrapper = Wrapper(0)
        self._wrapped = 0, start
        """The width of the wrapper, and up to which character it was fed."""

    def grow(self, text: str) -> None:
        """Take in the text that follows. The lines that are there already are not laid out again."""
        if text:
            self.end += len(text)
            self.breaks_off = text[-1] == "\n"
            self._breaks += text.count("\n")
            self.width = 0

    def runs(self) -> Iterator[Run]:
        return self._inks.runs(self.start, self.end, self.INK)

    def estimate(self, width: int) -> int:
        return (self.end - self.start) // max(width, 1) + self._breaks + 1

    def content(self, width: int) -> tuple[list[Line], list[int] | None]:
        if self._wrapped[0] != width:
            self._wrapper, self._wrapped = Wrapper(width, self.BAR, self.BAR), (width, self.start)
        for text, ink in self._inks.runs(self._wrapped[1], self.end, self.INK):
            self._wrapper.feed(text, ink)
        self._wrapped = width, self.end
        lines = list(self._wrapper.closed) if self.ends_line else self._wrapper.lines
        return lines, [self.start + start for start in self._wrapper.line_starts[: len(lines)]]


class ChunkBlock(Block):
    def __init__(self, chunk: Chunk, *, open: bool = False) -> None:
        super().__init__(chunk.start, chunk.end, gap=chunk.gap)
        self.chunk, self.open = chunk, open

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ChunkBlock) and self.open == other.open and self.chunk == other.chunk

    __hash__ = Block.__hash__

    def estimate(self, width: int) -> int:
        return sum(len(line) // max(width, 1) + 1 for line in self.chunk.source.splitlines()) + self.gap

    def content(self, width: int) -> tuple[list[Line], list[int] | None]:
        chunk = self.chunk
        if chunk.kind == "code":
            return self._label + render_code(chunk.source, chunk.language, width), None
        if chunk.kind == "math":
            wrapper = Wrapper(width)
            wrapper.feed(chunk.source.rstrip("\n"), CODE)
            return wrapper.lines, [self.start + start for start in wrapper.line_starts]
        if self.open and not chunk.head and (table := complete_table(chunk.source)) is not None:
            return render_markdown(table, width, chunk.indent), None
        if self.open and chunk.kind == "paragraph" and not chunk.indent:
            return render_paragraph(chunk.source, width), None
        source = close_marks(chunk.source) if self.open else chunk.source
        if chunk.indent:
            source = "\n".join(dedent(line, chunk.indent) for line in source.split("\n"))
        return render_markdown(chunk.head + source, width, chunk.indent, hidden=2 if chunk.head else 0), None

    def align(self, lines: Sequence[Line]) -> list[int]:
        offsets, at, source, label = [], 0, self.chunk.source, self._label
        for line in lines:
            # The line with the fence, which is not shown, goes with the first line of the code.
            offsets.append(min(self.start + (self.chunk.lead + at if at else 0), self.end))
            if line in label:
                continue
            for word in line.text.split():
                found = source.find(word, at, at + _FAR)
                at = found + len(word) if found >= 0 else at
            ending = _LINE_END.match(source, at)
            at = ending.end() if ending is not None else at
        return offsets

    @property
    def _label(self) -> list[Line]:
        chunk = self.chunk
        return [render_label(chunk.language)] if chunk.kind == "code" and chunk.first and chunk.language else []


class ThoughtBlock(TextBlock):
    """A part of the thoughts before an answer."""

    BAR = (("▎ ", Ink("border")),)
    INK = Ink("muted", italic=True)

    def content(self, width: int) -> tuple[list[Line], list[int] | None]:
        """Leave out blank lines before the first word."""
        lines, offsets = super().content(width)
        said = (row for row, line in enumerate(lines) if line.text != self.BAR[0][0])
        begin = next(said, len(lines) - 1) if self.start == 0 and lines else 0
        return lines[begin:], offsets[begin:] if offsets is not None else None


class FoldBlock(Block):
    """A line in place of the thoughts, or above them; a click opens or folds them. `node` is one of their turn."""

    def __init__(self, end: int, text: str, node: int, *, folded: bool) -> None:
        super().__init__(0, end if folded else 0)
        self._text, self._does = f"{'▸' if folded else '▾'} {text}", f"thoughts({node})"

    def content(self, width: int) -> tuple[list[Line], list[int] | None]:
        wrapper = Wrapper(width)
        wrapper.feed(self._text, Ink("muted", does=self._does))
        return wrapper.lines, None


class EndingBlock(Block):
    def __init__(self, offset: int, text: str) -> None:
        super().__init__(offset, offset)
        self._text = text

    def content(self, width: int) -> tuple[list[Line], list[int] | None]:
        wrapper = Wrapper(width, (("╌ ", ENDING),), (("  ", ENDING),))
        wrapper.feed(self._text, ENDING)
        return wrapper.lines, None


def body_width(width: int) -> int:
    """Return the cells for text in a widget of a width: a margin at each side."""
    return max(width - 2 * MARGIN, 4)
