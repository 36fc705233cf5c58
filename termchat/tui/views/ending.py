"""How a reply ended: the probability of its end, token by token, and what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from termchat.conversation.tree import Node, Span
from termchat.decoding.samplers import escape
from termchat.text import show_piece
from termchat.tui.draw.ink import Ink, Line
from termchat.tui.draw.marks import MUTED, STRONG, TEXT, TITLE, column, flowing, percent, prose, sparkline
from termchat.tui.transcript.source import ENDINGS

_HIGHEST = 5
_WORDS = {"end": "The model ended it itself"}


def ending_lines(reply: Sequence[Span], width: int, rows: int) -> list[Line]:
    """The trace of p(end) over a whole reply, in all its pieces, its highest points, and why it ended."""
    p_ends = [p for span in reply for p in span.node.tokens.p_ends[: span.count]]
    texts = [text for span in reply for text in span.node.tokens.texts[: span.count]]
    lines = flowing([[("P(END)", TITLE)], [(f"{len(p_ends)} tokens, scaled to the highest", MUTED)]], width)
    if not p_ends:
        return [*lines, Line((("no token was drawn", MUTED),))]
    lines.append(Line(((sparkline(_folded(p_ends, width), width).lstrip(), Ink("accent")),)))
    last = reply[-1].node
    lines += prose(_why(last), width, STRONG)
    if last.finished is not None and last.finished.held:
        lines += prose(f'held back: "{escape(last.finished.held)}"', width)
    if last.finished is not None and last.finished.reason == "end" and len(last.tokens):
        rank, p_end = last.tokens.ranks[-1], last.tokens.p_ends[-1]
        lines += prose(f"The end token had rank {rank}; p(end) was {percent(p_end, 2)}.", width)
    lines.append(Line((("HIGHEST", TITLE),)))
    order = sorted(range(len(p_ends)), key=lambda index: -p_ends[index])
    for index in order[: max(min(_HIGHEST, rows - len(lines)), 1)]:
        share = f"{percent(p_ends[index], 2):>8}"
        itself = index == len(texts) - 1 and last.finished is not None and last.finished.reason == "end"
        place = "the end token" if itself else "before " + show_piece(texts[index])
        piece = column(place, max(width - 14, 4))
        lines.append(Line(((f"{index:>5} ", MUTED), (piece, TEXT), (share, STRONG))))
    return lines


def _why(node: Node) -> str:
    """One sentence on the end."""
    if node.failed is not None:
        return f"It was interrupted: {node.failed.message}."
    if node.finished is None:
        return "It has not ended yet."
    reason, detail = node.finished.reason, escape(node.finished.detail)
    words = _WORDS.get(reason) or ENDINGS[reason][0 if detail else 1].format(detail=detail)
    return words[0].upper() + words[1:] + "."


def _folded(values: list[float], width: int) -> list[float]:
    """At most `width` values: each the highest of its share of all."""
    if len(values) <= width:
        return values
    edges = [len(values) * i // width for i in range(width + 1)]
    return [max(values[begin:end]) for begin, end in pairwise(edges)]
