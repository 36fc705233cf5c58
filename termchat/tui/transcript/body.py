"""The body of a turn as blocks, in either look, while its text comes in."""

from __future__ import annotations

from typing import Protocol

from termchat.tui.transcript.blocks import Block, ChunkBlock, TextBlock
from termchat.tui.transcript.ink import Ink
from termchat.tui.transcript.split import Splitter

ENOUGH = 1000
"""Characters after which a block of plain text ends with its line."""

LONGEST = 4000
"""Characters after which it ends at a space; at twice as many it ends anywhere."""


class Body(Protocol):
    """Takes text; gives blocks that are finished and blocks that may still change."""

    def feed(self, text: str, ink: Ink) -> None:
        """Adds text."""

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

    def feed(self, text: str, ink: Ink) -> None:
        """Adds text in one ink."""
        while text:
            size = self._block.end - self._block.start
            cut = text.find("\n", max(ENOUGH - size, 0)) + 1
            self._block.ends_line = bool(cut)
            if not cut and size + len(text) > LONGEST:
                cut = text.find(" ", max(LONGEST - size, 0)) + 1
                if not cut and size + len(text) > 2 * LONGEST:
                    cut = max(2 * LONGEST - size, 1)
            self._block.feed(text[:cut] if cut else text, ink)
            if not cut:
                return
            self._finished.append(self._block)
            self._block = TextBlock(self._block.end, ground=self._ground)
            text = text[cut:]

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


class ReadingBody:
    """A reply in the reading look: its Markdown, chunk by chunk."""

    def __init__(self) -> None:
        self._splitter = Splitter()

    def feed(self, text: str, ink: Ink) -> None:
        """Adds text."""
        self._splitter.feed(text)

    def finished(self) -> list[Block]:
        """See `Body`."""
        return [ChunkBlock(chunk) for chunk in self._splitter.finished()]

    def open(self, *, done: bool) -> list[Block]:
        """See `Body`."""
        return [ChunkBlock(chunk, open=not done) for chunk in self._splitter.open(done=done)]
