"""What a selection on the screen stands for: the text itself, not how it is wrapped and with which marks it is shown.

Of a reply in the reading look that is its Markdown; where only a part of a line is selected, what is before and behind
that part is found by its characters. Of code alone the fences do not come.
"""

from __future__ import annotations

from rich.cells import cell_len

from termchat.text import sanitize
from termchat.tui.draw.ink import MARGIN
from termchat.tui.draw.wrap import TAB
from termchat.tui.transcript.blocks import Block, ChunkBlock, TextBlock
from termchat.tui.transcript.document import Document

_NEAR = 24
"""Characters of markup that may stand before the next character that is shown."""


def copy_text(document: Document, lines: range, begin: int = 0, end: int = -1) -> str:
    """Return the text selected on these lines: from character `begin` of the first to `end` of the last (-1: all of it),
    the margin counted.

    Titles and the like come as they are shown; marks inside of a text do not come. Only the blocks at both ends of a text are
    examined: between them may be megabytes, and some of that may not be laid out.
    """
    if not lines or not document.blocks:
        return ""
    first, last = document.index_on(lines.start), document.index_on(lines.stop - 1)
    first_row, last_row = lines.start - document.tops[first], lines.stop - 1 - document.tops[last]
    below = len(document.blocks) - last
    for turn in range(document.blocks[first].turn, document.blocks[last].turn + 1):
        document.read(turn)
    last = len(document.blocks) - below
    pieces: list[str] = []
    taken: _Taken | None = None
    for index in range(first, last + 1):
        block = document.blocks[index]
        was_laid, text = document.is_laid(block), document.turns[block.turn].text
        if not isinstance(block, TextBlock | ChunkBlock):
            document.lay(index)
        rows = range(
            first_row if index == first else 0, last_row + 1 if index == last and was_laid else len(block.lines)
        )
        left = max(begin - MARGIN, 0) if index == first else 0
        right = max(end - MARGIN, 0) if index == last and end >= 0 else None
        if taken is not None and (taken.turn != block.turn or not isinstance(block, TextBlock | ChunkBlock)):
            pieces.append(taken.text)
            taken = None
        if not isinstance(block, TextBlock | ChunkBlock):
            shown = [block.lines[row].text for row in rows]
            shown[-1:] = [line[:right] for line in shown[-1:]]
            shown[:1] = [line[left:] for line in shown[:1]]
            pieces += map(str.rstrip, shown)
            continue
        begins = taken is not None or (rows.start == 0 and not left)
        if not was_laid or (begins and rows.stop == len(block.lines) and right is None):
            taken = taken or _Taken(text, block, block.start)
            taken.extend(block, block.end)
            continue
        for row in filter(block.is_text, rows):
            if taken is None:
                start = left if row == first_row else 0
                taken = _Taken(text, block, _offset(block, row, start, text, begins=True))
            stop = find_line_span(block, row)[1]
            if right is not None and row == last_row:
                stop = _offset(block, row, right, text)
            taken.extend(block, stop)
    if taken is not None:
        pieces.append(taken.text)
    return "\n".join(pieces)


class _Taken:
    """The part of a turn's text that is selected: from a character on, block after block."""

    def __init__(self, whole: str, block: Block, begin: int) -> None:
        self._all = whole
        self._begin = self._end = begin
        self._first = self._last = block
        self.turn = block.turn
        self._fence = block.chunk.fence if isinstance(block, ChunkBlock) else ""

    def extend(self, block: Block, end: int) -> None:
        if block is not self._last and not (
            isinstance(block, ChunkBlock) and block.chunk.fence and not block.chunk.first
        ):
            self._fence = ""
        self._last, self._end = block, end

    @property
    def text(self) -> str:
        """The selected text; of one block of code, only the code."""
        begin, end = self._begin, self._end
        if self._fence and begin == self._first.start and self._all.startswith(self._fence, begin):
            begin = self._all.find("\n", begin, end) + 1
        text = self._all[begin:end].rstrip("\n")
        code, _, last = text.rpartition("\n")
        closed = self._fence and end == self._last.end and not last.strip(f" {self._fence}") and self._fence in last
        return code if closed else text


def find_line_span(block: Block, row: int) -> tuple[int, int]:
    """Find where the text on a line of a laid-out block begins and ends in the turn's text."""
    following = next((later for later in range(row + 1, len(block.lines)) if block.is_text(later)), None)
    end = block.offset_at(following, block.width) if following is not None else block.end
    return block.offset_at(row, block.width), end


def find_shown_span(block: Block, row: int) -> tuple[int, int]:
    """Find the line span without the line of an opening fence, which the first line of code counts as its own."""
    begin, end = find_line_span(block, row)
    lead = block.chunk.lead if isinstance(block, ChunkBlock) and begin == block.start else 0
    return begin + lead, max(begin + lead, end)


def map_characters(block: Block, row: int, text: str) -> list[int]:
    """Find, for each character on a line of a laid-out block, its place in the turn's text; -1 for a sign of ours."""
    at, end = find_shown_span(block, row)
    shown = block.lines[row].text
    places: list[int] = []
    plain = shown.rstrip()
    if plain.isascii() and plain.isprintable() and at + len(plain) <= end and text.startswith(plain, at):
        places += range(at, at + len(plain))  # most lines are shown as they are
        at += len(plain)
    while len(places) < len(shown) and at < end:
        done = len(places)
        mark = sanitize(text[at])
        if shown.startswith(mark, done):
            places += [at] * len(mark)
            at += 1
        elif text[at] == "\t":
            spaces = len(shown) - done - len(shown[done:].lstrip(" "))
            indent = next((index for index, place in enumerate(places) if place >= 0), done)
            places += [at] * min(spaces, TAB - cell_len(shown[indent:done]) % TAB)
            at += 1
        elif text[at].isspace() and shown[done] == " ":  # a line break that is none on the screen
            places.append(at)
            at += 1
        elif len(mark) > 1 and not done and (rest := _rest_of(mark, shown)):
            places += [at] * rest
            at += 1
        else:
            ahead = _next_shown(text, at, end, shown[done:])
            if ahead is None:
                places.append(-1)
            else:
                at = ahead
    left = shown[len(places) :]
    if left and at == end < len(text) and sanitize(text[at]).startswith(left):  # a mark that goes on in the next line
        places += [at] * len(left)
    return places


def _rest_of(mark: str, shown: str) -> int:
    """Count the characters at the begin of a line that belong to a mark of the line before."""
    pieces = (mark[cut:] for cut in range(1, len(mark)))
    return next((min(len(piece), len(shown)) for piece in pieces if shown.startswith(piece[: len(shown)])), 0)


def _offset(block: Block, row: int, character: int, text: str, *, begins: bool = False) -> int:
    """Find a character of a line in the turn's text; with `begins` without hidden markup before it."""
    begin, end = find_line_span(block, row)
    if character <= 0:
        return begin
    if character >= len(block.lines[row].text.rstrip()):
        return end
    places = map_characters(block, row, text)
    before = [place for place in places[:character] if place >= 0]
    after = [place for place in places[character:] if place >= 0]
    if begins:
        return after[0] if after else end
    return before[-1] + 1 if before else find_shown_span(block, row)[0]


def _next_shown(text: str, at: int, end: int, shown: str) -> int | None:
    """Find the place of the character that is shown first, if it is near."""
    return next((it for it in range(at, min(at + _NEAR, end)) if shown.startswith(sanitize(text[it]))), None)
