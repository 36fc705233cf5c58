"""Which character of a turn's text each character on a line is, and what of the text stands on the lines of a selection.

Of a reply in the reading look the text is its Markdown; where only a part of a line is selected, the characters before and
behind that part are found by what is shown. Of code alone the fences do not come.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from rich.cells import cell_len

from termchat.text import sanitize
from termchat.tui.draw.ink import MARGIN
from termchat.tui.draw.wrap import TAB
from termchat.tui.transcript.blocks import Block, ChunkBlock, NoteBlock
from termchat.tui.transcript.document import Document

_NEAR = 24
"""Characters of markup that may stand before the next character that is shown."""

Hit = tuple[int, int]
"""The first character of a hit and the one behind it, in its turn's text."""


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
    for turn in range(document.blocks[first].source.number, document.blocks[last].source.number + 1):
        document.read(turn)
    last = len(document.blocks) - below
    pieces: list[str] = []
    blocks: list[Block] = []
    """Those of a text that is selected, from character `start` on, to character `stop`."""
    start = stop = 0
    for index in range(first, last + 1):
        block = document.blocks[index]
        was_laid, is_note = document.is_laid(block), isinstance(block, NoteBlock)
        if blocks and (is_note or blocks[0].source is not block.source):
            pieces.append(_join_text(blocks, start, stop))
            blocks = []
        if is_note:
            document.lay(index)
        left = max(begin - MARGIN, 0) if index == first else 0
        right = max(end - MARGIN, 0) if index == last and end >= 0 else None
        row = first_row if index == first else 0
        behind = last_row + 1 if index == last and was_laid else len(block.lines)
        if is_note:
            shown = [line.text for line in block.lines[row:behind]]
            shown[-1:] = [line[:right] for line in shown[-1:]]
            shown[:1] = [line[left:] for line in shown[:1]]
            pieces += map(str.rstrip, shown)
            continue
        if not was_laid or (row, left, behind, right) == (0, 0, len(block.lines), None):
            begin_at, end_at = block.start, block.end
        elif rows := [at for at in range(row, behind) if block.is_text(at)]:
            begin_at = _find_offset(block, rows[0], left if rows[0] == first_row else 0, begins=True)
            end_at = block.find_line_span(rows[-1])[1]
            if right is not None and rows[-1] == last_row:
                end_at = _find_offset(block, rows[-1], right)
        else:
            continue
        start = start if blocks else begin_at
        blocks.append(block)
        stop = end_at
    if blocks:
        pieces.append(_join_text(blocks, start, stop))
    return "\n".join(pieces)


def _join_text(blocks: Sequence[Block], begin: int, end: int) -> str:
    """Return the text of these blocks from one character to another; of one block of code, only the code."""
    whole, first, last = blocks[0].source.text, blocks[0], blocks[-1]
    code = [
        block for block in blocks[1:] if isinstance(block, ChunkBlock) and block.chunk.fence and not block.chunk.first
    ]
    fence = first.chunk.fence if isinstance(first, ChunkBlock) and len(code) == len(blocks) - 1 else ""
    if fence and begin == first.start and whole.startswith(fence, begin):
        begin = whole.find("\n", begin, end) + 1
    text = whole[begin:end].rstrip("\n")
    rest, _, line = text.rpartition("\n")
    closed = fence and end == last.end and not line.strip(f" {fence}") and fence in line
    return rest if closed else text


def find_shown_span(block: Block, row: int) -> tuple[int, int]:
    """Find the line span without the line of an opening fence, which the first line of code counts as its own."""
    begin, end = block.find_line_span(row)
    lead = block.chunk.lead if isinstance(block, ChunkBlock) and begin == block.start else 0
    return begin + lead, max(begin + lead, end)


def find_hits(block: Block, row: int, hits: Sequence[Hit]) -> Iterator[tuple[Hit, int, int]]:
    """Yield the hits in a turn's text that are on a line of a block, each with its characters there, the margin counted."""
    if not hits or isinstance(block, NoteBlock) or not block.is_text(row):
        return
    begin, end = find_shown_span(block, row)
    first = max(bisect_right(hits, (begin, 0)) - 1, 0)
    here = [hit for hit in hits[first : bisect_right(hits, (end, 0))] if hit[1] > begin]
    places = map_characters(block, row) if here else []
    for hit in here:
        shown = [index for index, offset in enumerate(places) if hit[0] <= offset < hit[1]]
        if shown:
            yield hit, shown[0] + MARGIN, shown[-1] + 1 + MARGIN


def map_characters(block: Block, row: int) -> list[int]:
    """Find, for each character on a line of a laid-out block, its place in the turn's text; -1 for a sign of ours."""
    text, shown = block.source.text, block.lines[row].text
    at, end = find_shown_span(block, row)
    places: list[int] = []
    plain = shown.rstrip()
    if plain.isascii() and plain.isprintable() and at + len(plain) <= end and text.startswith(plain, at):
        places += range(at, at + len(plain))  # most lines are shown as they are
        at += len(plain)
    while len(places) < len(shown) and at < end:
        done = len(places)
        mark = sanitize(text[at])
        if shown.startswith(mark, done):
            size = len(mark)
        elif text[at] == "\t":
            spaces = len(shown) - done - len(shown[done:].lstrip(" "))
            indent = next((index for index, place in enumerate(places) if place >= 0), done)
            size = min(spaces, TAB - cell_len(shown[indent:done]) % TAB)
        elif text[at].isspace() and shown[done] == " ":  # a line break that is none on the screen
            size = 1
        elif len(mark) > 1 and not done and (rest := _count_rest(mark, shown)):
            size = rest
        else:
            ahead = range(at, min(at + _NEAR, end))
            place = next((it for it in ahead if shown.startswith(sanitize(text[it]), done)), None)
            if place is None:
                places.append(-1)
            else:
                at = place
            continue
        places += [at] * size
        at += 1
    left = shown[len(places) :]
    if left and at == end < len(text) and sanitize(text[at]).startswith(left):  # a mark that goes on in the next line
        places += [at] * len(left)
    return places


def _count_rest(mark: str, shown: str) -> int:
    """Count the characters at the begin of a line that belong to a mark of the line before."""
    pieces = (mark[cut:] for cut in range(1, len(mark)))
    return next((min(len(piece), len(shown)) for piece in pieces if shown.startswith(piece[: len(shown)])), 0)


def _find_offset(block: Block, row: int, character: int, *, begins: bool = False) -> int:
    """Find a character of a line in the turn's text; with `begins` without hidden markup before it."""
    begin, end = block.find_line_span(row)
    if character <= 0:
        return begin
    if character >= len(block.lines[row].text.rstrip()):
        return end
    places = map_characters(block, row)
    before = [place for place in places[:character] if place >= 0]
    after = [place for place in places[character:] if place >= 0]
    if begins:
        return after[0] if after else end
    return before[-1] + 1 if before else find_shown_span(block, row)[0]
