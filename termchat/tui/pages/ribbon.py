"""One line about a whole reply in a token look: its ribbon."""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakKeyDictionary

from termchat.conversation.heat import MEASURES
from termchat.conversation.tree import Span, TokenColumns
from termchat.tui.draw.ink import HEATS, Ink, Line, Run
from termchat.tui.draw.marks import MUTED
from termchat.tui.transcript.looks import TokenLook, heats
from termchat.tui.transcript.tokens import TokenRef

BLOCKS = "▁▂▃▄▅▆▇█"
_NOT_DRAWN = "·"
HERE = Ink("cursor", ground="panel", bold=True)

_Peaks = tuple[int, bytearray]
_known: WeakKeyDictionary[TokenColumns, dict[TokenLook, _Peaks]] = WeakKeyDictionary()


def ribbon_line(reply: Sequence[Span], look: TokenLook, cursor: TokenRef | None, width: int) -> Line:
    """The reply, which may be in several parts, on a line of at most `width` cells; the cursor's cell is marked.

    A cell stands for as many tokens as any other, and shows the hottest of them, so that no surprise gets lost. It is as high
    as the measure: low where a probability is. Tokens that a person forced, which have no such measure, are a dot. A longer
    reply has more tokens in a cell, never less than half of the line's cells: while a reply streams only its last cell is made
    anew, and all of them each time the line is full.
    """
    shown = _fitting_parts(reply, width)
    each = _tokens_a_cell([span.count for span in shown], width)
    runs: list[Run] = []
    for node, count in ((span.node, span.count) for span in shown):
        hottest = _hottest_cells(node.tokens, look, count, each)
        cells = "".join(map(_block_of, hottest))
        if look != "drafts" and MEASURES[look].rises:
            forced = [node.tokens.by_hand[begin : min(begin + each, count)] for begin in range(0, count, each)]
            cells = "".join(
                _block_of(HEATS - 1 - heat) if 0 in by_hand else _NOT_DRAWN
                for heat, by_hand in zip(hottest, forced, strict=True)
            )
        if cursor is None or cursor.node != node.number or not 0 <= cursor.index < count:
            runs.append((cells, MUTED))
            continue
        at = cursor.index // each
        runs += [(cells[:at], MUTED), (cells[at], HERE), (cells[at + 1 :], MUTED)]
    return Line(tuple(run for run in runs if run[0]))


def token_at(reply: Sequence[Span], look: TokenLook, column: int, width: int) -> TokenRef | None:
    """The token that gives a cell of the ribbon its height; None beside it."""
    shown = _fitting_parts(reply, width)
    each = _tokens_a_cell([span.count for span in shown], width)
    for span in shown:
        cells = -(-span.count // each)
        if 0 <= column < cells:
            read = heats(span.node.tokens, look)
            places = range(column * each, min((column + 1) * each, span.count))
            return TokenRef(span.node.number, min(places, key=read.__getitem__))
        column -= cells
    return None


def _fitting_parts(reply: Sequence[Span], width: int) -> list[Span]:
    """The parts that fit."""
    return [span for span in reply if span.count][-width:] if width > 0 else []


def _tokens_a_cell(counts: Sequence[int], width: int) -> int:
    """About the fewest tokens a cell with which all parts, each beginning a cell of its own, have room."""
    each = max(-(-sum(counts) // max(width, 1)), 1)
    while sum(-(-count // each) for count in counts) > width:
        each += max(each // 8, 1)
    return each


def _hottest_cells(tokens: TokenColumns, look: TokenLook, count: int, each: int) -> Sequence[int]:
    """The lowest heat among every `each` of the first `count` tokens; full cells are remembered."""
    read = heats(tokens, look)
    known = _known.setdefault(tokens, {})
    if look not in known or known[look][0] != each:
        known[look] = each, bytearray()
    full = known[look][1]
    full.extend(min(read[begin : begin + each]) for begin in range(len(full) * each, len(read) - each + 1, each))
    rest = read[count - count % each : count]
    return full[: count // each] + (bytes([min(rest)]) if rest else b"")


def _block_of(heat: int) -> str:
    return BLOCKS[(HEATS - 1 - heat) * len(BLOCKS) // HEATS]
