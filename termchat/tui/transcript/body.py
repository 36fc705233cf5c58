"""The body of a turn as blocks, in either look, while its text comes in."""

from __future__ import annotations

from typing import Protocol

from termchat.conversation.tree import TokenColumns
from termchat.tui.draw.ink import Ink, Run
from termchat.tui.transcript.blocks import THOUGHT, Block, ChunkBlock, FoldBlock, Inked, TextBlock, ThoughtBlock
from termchat.tui.transcript.looks import Look, TokenLook, heat_inks, heats, kinds
from termchat.tui.transcript.markdown.chunks import Splitter
from termchat.tui.transcript.turn_source import TurnText

ENOUGH = 1000
"""Characters after which a block of plain text ends with its line."""

MUCH = 200_000
"""Characters of a turn after which its blocks are longer, so that there are never many thousands: a line ends one after"""

LONGEST = 4000
"""characters. After as many any block ends at a space; at twice as many it ends anywhere."""

PLAIN = Ink("text")


class Body(Protocol):
    """Takes text; gives blocks that are finished and blocks that may still change."""

    def feed(self, told: TurnText) -> None: ...

    def finished(self) -> list[Block]:
        """The blocks finished since the last time."""

    def open(self, *, done: bool) -> list[Block]:
        """The blocks at the end, as they stand; `done` says that no more text comes."""


class Plain:
    def __init__(self, text: str, ink: Ink = PLAIN) -> None:
        self._text, self._ink = text, ink

    def runs(self, begin: int, end: int) -> list[Run]:
        return [(self._text[begin:end], self._ink)]


class Hot:
    """The text of tokens, each in the ink of its heat; what was forced, and near ties, are marked."""

    def __init__(self, tokens: TokenColumns, look: TokenLook) -> None:
        self.tokens, self._look, self._inks = tokens, look, heat_inks(look)

    def runs(self, begin: int, end: int) -> list[Run]:
        texts, hot = self.tokens.texts, heats(self.tokens, self._look)
        first, last = texts.find_text(begin), texts.find_text(end - 1) + 1
        pieces = texts[first:last]
        pieces[-1] = pieces[-1][: end - texts.start(last - 1)]
        pieces[0] = pieces[0][begin - texts.start(first) :]
        found = zip(pieces, kinds(self.tokens, first, last), hot[first:last], strict=True)
        return [(text, self._inks[kind][heat]) for text, kind, heat in found if text]


class PlainBody:
    """What a person wrote, or the tokens of a reply: exactly as they are, in a token look each in the ink of its heat."""

    block_kind = TextBlock

    def __init__(self, look: Look = "reading", *, ground: str = "") -> None:
        self._look = look
        self._hot: Hot | None = None
        self._ground = ground
        self._block = self.block_kind(0, ground=ground)
        self._finished: list[Block] = []

    def feed(self, told: TurnText) -> None:
        text, begin, inked = told.text, *self._inked(told)
        at, block = 0, self._block
        block.ends_line = False
        offset = block.end  # of the first character of `text`
        while cut := _cut(text, block.start - offset, ENOUGH if block.start < MUCH else LONGEST):
            block.feed(inked, begin + at, text[at:cut])
            block.ends_line = block.breaks_off
            self._finished.append(block)
            self._block = block = self.block_kind(block.end, ground=self._ground)
            at = cut
        block.feed(inked, begin + at, text[at:])

    def _inked(self, told: TurnText) -> tuple[int, Inked]:
        """What paints a text, and where in that the text begins."""
        if told.tokens is None or self._look == "reading":
            return 0, Plain(told.text)
        if self._hot is None or self._hot.tokens is not told.tokens:
            self._hot = Hot(told.tokens, self._look)
        return told.begin, self._hot

    def finished(self) -> list[Block]:
        blocks, self._finished = self._finished, []
        return blocks

    def open(self, *, done: bool) -> list[Block]:
        """The line that a last line break begins is not shown once the text is done, unless it is the only one."""
        block = self._block
        if not done:
            return [block]
        block.ends_line = block.breaks_off
        block.width = 0
        return [block] if block.end > block.start or not block.start else []


def _cut(text: str, start: int, enough: int) -> int:
    """Where in the text the block ends that began at `start`, which may be before the text; 0 where it goes on."""
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
        """Its last block, once: nothing follows."""
        last, self._block = self.open(done=True), ThoughtBlock(self._block.end)
        return last

    def _inked(self, told: TurnText) -> tuple[int, Inked]:
        return 0, Plain(told.text, THOUGHT)


class ReadingBody:
    """A reply as Markdown, or as code where a constraint has it be that, behind its thoughts. `fold` stands above these once
    they are over; `folded`: in their place."""

    def __init__(self, fold: FoldBlock | None = None, *, folded: bool = False) -> None:
        self._fold, self._folded = fold, folded
        self._thoughts: ThoughtBody | None = None
        self._splitter = Splitter()
        self._answers = False

    def feed(self, told: TurnText) -> None:
        if told.thought:
            self._thoughts = self._thoughts or ThoughtBody()
            self._thoughts.feed(told)
        else:
            if not self._answers:
                at = self._thoughts.end if self._thoughts is not None else 0
                self._splitter = Splitter(at, code=told.language)
            self._answers = self._answers or bool(told.text)
            self._splitter.feed(told.text)

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
