"""The body of a turn as blocks, in either look, while its text comes in."""

from __future__ import annotations

from typing import Protocol

from termchat.tui.transcript.blocks import Block, ChunkBlock, FoldBlock, TextBlock, ThoughtBlock, TurnInks
from termchat.tui.transcript.looks import Look
from termchat.tui.transcript.markdown.chunks import Splitter
from termchat.tui.transcript.turn_source import TurnText

ENOUGH = 1000
"""Characters after which a block of plain text ends with its line."""

MUCH = 200_000
"""Characters of a turn after which its blocks are longer, so that there are never many thousands: a line ends one after"""

LONGEST = 4000
"""characters. After as many any block ends at a space; at twice as many it ends anywhere."""


class Body(Protocol):
    """Takes text; gives blocks that are finished and blocks that may still change."""

    def feed(self, piece: TurnText) -> None: ...

    def finished(self) -> list[Block]:
        """Return the blocks finished since the last time."""

    def open(self, *, done: bool) -> list[Block]:
        """Return the blocks at the end, as they are now; `done` says that no more text comes."""


class PlainBody:
    """The text of a message, or the tokens of a reply, as they are; in a token look each in the ink of its heat."""

    block_kind = TextBlock

    def __init__(self, look: Look = "reading", *, ground: str = "") -> None:
        self._inks = TurnInks(look)
        self._ground = ground
        self._block = self.block_kind(self._inks, 0, ground=ground)
        self._finished: list[Block] = []

    def feed(self, piece: TurnText) -> None:
        text, begin, at, block = piece.text, self._inks.length, 0, self._block
        self._inks.feed(piece)
        block.ends_line = False
        while cut := _cut(text, block.start - begin, ENOUGH if block.start < MUCH else LONGEST):
            block.grow(text[at:cut])
            block.ends_line = block.breaks_off
            self._finished.append(block)
            self._block = block = self.block_kind(self._inks, block.end, ground=self._ground)
            at = cut
        block.grow(text[at:])

    def finished(self) -> list[Block]:
        blocks, self._finished = self._finished, []
        return blocks

    def open(self, *, done: bool) -> list[Block]:
        """Return the open block; once the text is done, without the empty line behind a last line break."""
        block = self._block
        if not done:
            return [block]
        block.ends_line = block.breaks_off
        block.width = 0
        return [block] if block.end > block.start or not block.start else []


def _cut(text: str, start: int, enough: int) -> int:
    """Find the end in the text of a block that begins at `start`, which may be before the text; 0 without one."""
    ends = (
        text.find("\n", max(start + enough, 0), start + 2 * LONGEST) + 1,
        text.find(" ", max(start + LONGEST, 0), start + 2 * LONGEST) + 1,
        start + 2 * LONGEST if len(text) >= start + 2 * LONGEST else 0,
    )
    return min(filter(None, ends), default=0)


class ThoughtBody(PlainBody):
    """The thoughts before an answer, as they are."""

    block_kind = ThoughtBlock

    @property
    def end(self) -> int:
        return self._block.end

    def close(self) -> list[Block]:
        """Return its last block, once: nothing follows."""
        last, self._block = self.open(done=True), ThoughtBlock(self._inks, self._block.end)
        return last


class ReadingBody:
    """A reply as Markdown, or as code where a constraint has it be that, behind its thoughts. `fold` stands above these once
    they are over; `folded`: in their place."""

    def __init__(self, fold: FoldBlock | None = None, *, folded: bool = False) -> None:
        self._fold, self._folded = fold, folded
        self._thoughts: ThoughtBody | None = None
        self._splitter = Splitter()
        self._answers = False

    def feed(self, piece: TurnText) -> None:
        if piece.thought:
            self._thoughts = self._thoughts or ThoughtBody()
            self._thoughts.feed(piece)
        else:
            if not self._answers:
                at = self._thoughts.end if self._thoughts is not None else 0
                self._splitter = Splitter(at, code=piece.language)
            self._answers = self._answers or bool(piece.text)
            self._splitter.feed(piece.text)

    def finished(self) -> list[Block]:
        fold, self._fold = self._fold, None
        blocks: list[Block] = [fold] if fold is not None else []
        if self._thoughts is not None and not self._folded:
            blocks += self._thoughts.finished()
            if self._answers:
                blocks += self._thoughts.close()
        return [*blocks, *map(ChunkBlock, self._splitter.finished())]

    def open(self, *, done: bool) -> list[Block]:
        blocks: list[Block] = []
        if self._thoughts is not None and not self._folded and not self._answers:
            blocks += self._thoughts.open(done=done)
        return [*blocks, *(ChunkBlock(chunk, open=not done) for chunk in self._splitter.open(done=done))]
