"""What a selection on the screen stands for: the text itself, not how it is wrapped and with which marks it is shown.

Of a reply in the reading look that is its Markdown; where only a part of a line is selected, what is before and behind
that part is found by its characters. Of code alone the fences do not come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from termchat.text import sanitize
from termchat.tui.draw.ink import MARGIN, Line
from termchat.tui.transcript.blocks import Block, ChunkBlock, TextBlock, body_width
from termchat.tui.transcript.document import Document
from termchat.tui.transcript.turn import Turn

_ALL = 1 << 60
"""More lines than there are."""
_NEAR = 24
"""Characters of markup that may stand before the next character that is shown."""


Span = Callable[[int], tuple[int, int]]
"""The first and last character that are selected on a line, the margin counted; -1 is the end of the line."""


def copied(document: Document, lines: range, span: Span) -> str:
    """The text that is selected on these lines of the document.

    What we wrote ourselves, as titles, comes as it is shown; marks inside of a text do not come. Of a text only the blocks at
    both ends are looked at: between them may be megabytes, and some of that may not be laid out.
    """
    pieces: list[str] = []
    to_end = lines.stop >= document.height
    first, last = document.heights.at(lines.start), document.heights.at(lines.stop - 1)
    for index in range(first, last + 1) if lines and document.turns else ():
        document.build(index)
        turn, top = document.turns[index], document.heights.top(index)
        rows = range(max(lines.start - top, 0), _ALL if index < last or to_end else lines.stop - top)
        pieces += _of_turn(turn, body_width(document.width), rows, partial(_below, span, top))
    return "\n".join(pieces)


def _below(span: Span, top: int, y: int) -> tuple[int, int]:
    """The span of line `y` of what begins at line `top`."""
    return span(top + y)


def _of_turn(turn: Turn, width: int, rows: range, span: Span) -> Iterator[str]:
    """What is selected on lines of a turn: its text is one piece, each of our lines another."""
    taken: _Taken | None = None
    for index in range(turn.heights.at(rows.start), turn.heights.at(rows.stop - 1) + 1):
        block, top, bottom = turn.blocks[index], turn.heights.top(index), turn.heights.top(index + 1)
        here = range(max(rows.start, top), min(rows.stop, bottom))
        if not isinstance(block, TextBlock | ChunkBlock):
            if taken is not None:
                yield taken.text
                taken = None
            block.lay(width)
            yield from (_shown(line, *span(top + row)) for row, line in enumerate(block.lines) if top + row in here)
            continue
        is_laid = turn.is_laid(top, top + 1)
        begins = taken is not None or (here.start == top and span(top)[0] <= MARGIN)
        if not is_laid or (begins and here.stop == bottom and span(bottom - 1)[1] < 0):
            taken = taken or _Taken(turn.text, block, block.start)
            taken.up_to(block, block.end)
            continue
        for y in here:
            row = turn.find(y)[1]
            if block.own_line(row) is None:
                continue
            begin, end = span(y)
            if taken is None:
                taken = _Taken(turn.text, block, _offset(block, row, begin - MARGIN, turn.text, begins=True))
            at = line_span(block, row)[1] if end < 0 else _offset(block, row, end - MARGIN, turn.text)
            taken.up_to(block, at)
    if taken is not None:
        yield taken.text


def _shown(line: Line, first: int, last: int) -> str:
    return line.text[max(first - MARGIN, 0) : None if last < 0 else max(last - MARGIN, 0)].rstrip()


class _Taken:
    """The part of a turn's text that is selected: from a character on, block after block."""

    def __init__(self, whole: str, block: Block, begin: int) -> None:
        self._all = whole
        self._begin = self._end = begin
        self._first = self._last = block
        self._fence = block.chunk.fence if isinstance(block, ChunkBlock) else ""

    def up_to(self, block: Block, end: int) -> None:
        if block is not self._last and not (
            isinstance(block, ChunkBlock) and block.chunk.fence and not block.chunk.first
        ):
            self._fence = ""
        self._last, self._end = block, end

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
