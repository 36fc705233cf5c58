"""What a selection on the screen stands for: the text itself, not how it is wrapped and with which marks it is shown.

Of a reply in the reading look that is its Markdown; where only a part of a line is selected, what is before and behind
that part is found by its characters. Of code alone the fences do not come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from termchat.text import sanitize
from termchat.tui.transcript.blocks import Block, ChunkBlock, TextBlock
from termchat.tui.transcript.document import Document
from termchat.tui.transcript.ink import MARGIN
from termchat.tui.transcript.source import Source
from termchat.tui.transcript.turn import Turn

_NEAR = 24
"""Characters of markup that may stand before the next character that is shown."""


def copied(document: Document, lines: Iterable[int], span: Callable[[int], tuple[int, int]]) -> str:
    """The text that is selected on these lines of the document.

    `span` are the first and last character on a line, the margin counted; -1 is the end of the line. What we wrote ourselves,
    as titles, comes as it is shown; marks inside of a text do not come.
    """
    pieces: list[str] = []
    taken: _Taken | None = None
    for y in lines:
        found = document.find(y)
        if found is None:
            continue
        block, row = found
        first, last = span(y)
        turn = document.turns[document.heights.at(y)]
        ours = not isinstance(block, TextBlock | ChunkBlock)
        if taken is not None and (ours or taken.turn is not turn):
            pieces.append(taken.text)
            taken = None
        if ours:
            shown = block.lines[row].text
            pieces.append(shown[max(first - MARGIN, 0) : None if last < 0 else max(last - MARGIN, 0)].rstrip())
        elif block.own_line(row) is not None:
            taken = taken or _Taken(turn, Source(turn.parts, document.look), block, row, first - MARGIN)
            taken.up_to(block, row, last - MARGIN if last >= 0 else None)
    if taken is not None:
        pieces.append(taken.text)
    return "\n".join(pieces)


class _Taken:
    """The part of a turn's text that is selected: from a character of a line on, line after line."""

    def __init__(self, turn: Turn, source: Source, block: Block, row: int, character: int) -> None:
        self.turn = turn
        self._all = "".join(text for texts, _ in source.read() for text in texts)
        self._begin = self._end = _offset(block, row, character, self._all, begins=True)
        self._first = self._last = block
        self._fence = block.chunk.fence if isinstance(block, ChunkBlock) else ""

    def up_to(self, block: Block, row: int, character: int | None) -> None:
        """Takes all before a character of a line, or the whole line."""
        if block is not self._last and not (
            isinstance(block, ChunkBlock) and block.chunk.fence and not block.chunk.first
        ):
            self._fence = ""
        self._last = block
        self._end = line_span(block, row)[1] if character is None else _offset(block, row, character, self._all)

    @property
    def text(self) -> str:
        """What is selected; of one block of code, only the code."""
        begin, end = self._begin, self._end
        if self._fence and begin == self._first.start and self._all.startswith(self._fence, begin):
            begin = self._all.find("\n", begin, end) + 1
        text = self._all[begin:end].rstrip("\n")
        code, _, last = text.rpartition("\n")
        closed = self._fence and end == self._last.end and not last.strip(f" {self._fence}") and self._fence in last
        return code if closed else text


def line_span(block: Block, row: int) -> tuple[int, int]:
    """Where the text on a line of a laid-out block begins and ends in the turn's text."""
    after = (later for later in range(row + 1, len(block.lines)) if block.own_line(later) is not None)
    following = next(after, len(block.lines))
    end = block.offset_at(following, block.width) if following < len(block.lines) else block.end
    return block.offset_at(row, block.width), end


def shown_span(block: Block, row: int) -> tuple[int, int]:
    """`line_span` without the line of an opening fence, which the first line of code counts as its own."""
    begin, end = line_span(block, row)
    lead = block.chunk.lead if isinstance(block, ChunkBlock) and begin == block.start else 0
    return begin + lead, max(begin + lead, end)


def _offset(block: Block, row: int, character: int, text: str, *, begins: bool = False) -> int:
    """Where in the turn's text a character of a line stands; what hides before it counts only at the begin of a line."""
    begin, end = shown_span(block, row) if character > 0 else line_span(block, row)
    shown = block.lines[row].text
    if character >= len(shown.rstrip()):
        return end
    at, done = begin, 0
    while done < character and at < end:
        mark = sanitize(text[at])
        if shown.startswith(mark, done):
            done, at = done + len(mark), at + 1
        elif text[at] == "\t":
            spaces = len(shown) - done - len(shown[done:].lstrip(" "))
            done, at = done + spaces, at + 1
        else:
            ahead = next_shown(text, at, end, shown[done:])
            done, at = (done, ahead) if ahead is not None else (done + 1, at)  # markup, or a sign of ours
    ahead = next_shown(text, at, end, shown[done:]) if begins and done else None
    return at if ahead is None else ahead


def next_shown(text: str, at: int, end: int, shown: str) -> int | None:
    """Where the character that is shown first stands, if that is near."""
    return next((it for it in range(at, min(at + _NEAR, end)) if shown.startswith(sanitize(text[it]))), None)
