"""Which character of a turn's text each character on a line is, and what of the text stands on the lines of a selection.

Of a reply in the reading look the text is its Markdown; where only a part of a line is selected, the characters before and
behind that part are found by what is shown. Of code alone the fences do not come.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import groupby

from rich.cells import cell_len

from termchat.text import sanitize
from termchat.tui.draw.ink import MARGIN
from termchat.tui.draw.wrap import TAB
from termchat.tui.transcript.blocks import Block, NoteBlock
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
    left, right = max(begin - MARGIN, 0), max(end - MARGIN, 0) if end >= 0 else None
    below = len(document.blocks) - last
    for turn in range(document.blocks[first].source.number, document.blocks[last].source.number + 1):
        document.read(turn)
    last = len(document.blocks) - below
    begins_in, ends_in = (document.is_laid(document.blocks[index]) for index in (first, last))
    pieces: list[str] = []
    keys = [(block.source.number, isinstance(block, NoteBlock)) for block in document.blocks]
    for (_, is_note), group in groupby(range(first, last + 1), key=keys.__getitem__):
        indexes = list(group)
        for index in indexes if is_note else ():
            document.lay(index)
            shown = [line.text for line in document.blocks[index].lines]
            if index == last and ends_in:
                shown = [*shown[:last_row], shown[last_row][:right]]
            if index == first:  # it may have fewer lines than was estimated
                shown = shown[first_row:]
                shown[:1] = [line[left:] for line in shown[:1]]
            pieces += map(str.rstrip, shown)
        if is_note:
            continue
        blocks = [document.blocks[index] for index in indexes]
        start, stop = blocks[0].start, blocks[-1].end
        if indexes[0] == first and begins_in and (first_row or left):
            rows = [row for row in range(first_row, len(blocks[0].lines)) if blocks[0].is_text(row)]
            at = left if rows[:1] == [first_row] else 0
            start = _find_offset(blocks[0], rows[0], at, begins=True) if rows else blocks[0].end
        if indexes[-1] == last and ends_in:
            rows = [row for row in range(last_row + 1) if blocks[-1].is_text(row)]
            stop = blocks[-1].find_line_span(rows[-1])[1] if rows else blocks[-1].start
            if right is not None and rows[-1:] == [last_row]:
                stop = _find_offset(blocks[-1], last_row, right)
        if selected := [block for block in blocks if start < stop and block.end > start and block.start < stop]:
            pieces.append(_join_text(selected, start, min(stop, selected[-1].end)))
    return "\n".join(pieces)


def _join_text(blocks: Sequence[Block], begin: int, end: int) -> str:
    """Return the text of these blocks from one character to another; of one block of code, only the code."""
    whole, first, last = blocks[0].source.text, blocks[0], blocks[-1]
    goes_on = all(block.fence and not block.lead for block in blocks[1:])
    fence = first.fence if goes_on else ""
    if fence and begin == first.start and whole.startswith(fence, begin):
        begin = whole.find("\n", begin, end) + 1 or end
    text = whole[begin:end].rstrip("\n")
    rest, _, line = text.rpartition("\n")
    closed = fence and end == last.end and not line.strip(f" {fence}") and fence in line
    return rest if closed else text


def find_shown_span(block: Block, row: int) -> tuple[int, int]:
    """Find the line span without the line of an opening fence, which the first line of code counts as its own."""
    begin, end = block.find_line_span(row)
    lead = block.lead if begin == block.start else 0
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
