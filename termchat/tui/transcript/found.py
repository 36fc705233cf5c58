"""Where on a line of the screen the hits of a search are: of lines that are looked at, and of no others."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from termchat.text import sanitize
from termchat.tui.draw.ink import MARGIN, Ink
from termchat.tui.transcript.blocks import Block, ChunkBlock, TextBlock
from termchat.tui.transcript.copying import next_shown, shown_span
from termchat.tui.transcript.document import Document

if TYPE_CHECKING:
    from termchat.tui.finding import Finding

HIT = Ink("background", ground="stamp")
CURRENT = Ink("background", ground="accent", bold=True, underline=True)


class Found(NamedTuple):
    """Characters of a line that belong to a hit, the margin counted; `current`: it is the one that is looked at."""

    begin: int
    end: int
    current: bool


def found_on(document: Document, y: int, finding: Finding) -> Iterator[Found]:
    """The hits on a line of the document, in order."""
    at = document.find(y)
    if at is None:
        return
    block, row = at
    turn = document.heights.at(y)
    hits = finding.hits(turn)
    if not hits or not isinstance(block, TextBlock | ChunkBlock) or block.own_line(row) is None:
        return
    begin, end = shown_span(block, row)
    first = max(bisect_right(hits, (begin, 0)) - 1, 0)
    there = [hit for hit in hits[first : bisect_right(hits, (end, 0))] if hit[1] > begin]
    if not there:
        return
    places = offsets(block, row, finding.text(turn))
    current = finding.current
    for hit in there:
        shown = [index for index, offset in enumerate(places) if hit[0] <= offset < hit[1]]
        if shown:
            yield Found(shown[0] + MARGIN, shown[-1] + 1 + MARGIN, current == (turn, hit))


def offsets(block: Block, row: int, text: str) -> list[int]:
    """For each character on a line of a laid-out block where it stands in the turn's text; -1 for a sign of ours."""
    at, end = shown_span(block, row)
    shown = block.lines[row].text
    places: list[int] = []
    while len(places) < len(shown) and at < end:
        done = len(places)
        mark = sanitize(text[at])
        if shown.startswith(mark, done):
            places += [at] * len(mark)
            at += 1
        elif text[at] == "\t":
            places += [at] * (len(shown) - done - len(shown[done:].lstrip(" ")))
            at += 1
        elif text[at].isspace() and shown[done] == " ":  # a line break that is none on the screen
            places.append(at)
            at += 1
        else:
            ahead = next_shown(text, at, end, shown[done:])
            if ahead is None:
                places.append(-1)
            else:
                at = ahead
    return places
