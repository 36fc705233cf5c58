"""What if the whole reply had been drawn with other settings and the same dice."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from termchat.chat.questions import Rescored
from termchat.conversation.tree import Node, Span
from termchat.decoding.records import UNKNOWN as UNTOLD
from termchat.decoding.samplers import escape
from termchat.text import one_line, show_piece
from termchat.tui.draw.ink import Ink, Line, Run
from termchat.tui.draw.marks import (
    ACCENT,
    MUTED,
    STRONG,
    TEXT,
    TITLE,
    again,
    bar,
    column,
    flowing,
    p_end_of,
    percent,
    prose,
    sparkline,
    spread,
)
from termchat.tui.keys.tables import name_of
from termchat.tui.transcript.turn_source import ENDINGS

_HIGHEST = 5
_WORDS = {"end": "The model ended the reply"}


def ending_lines(reply: Sequence[Span], width: int, rows: int) -> list[Line]:
    """The trace of p(end) over a whole reply, in all its pieces, its highest points, and why it ended."""
    p_ends = [p for span in reply for p in span.node.tokens.p_ends[: span.count]]
    unlisted = [span.node.tokens.read_unlisted(index) for span in reply for index in range(span.count)]
    texts = [text for span in reply for text in span.node.tokens.texts[: span.count]]
    lines = flowing([[("P(END)", TITLE)], [(f"{len(p_ends)} tokens, 0% to 100%", MUTED)]], width)
    if not p_ends:
        return [*lines, Line((("no tokens", MUTED),))]
    known = [index for index, p_end in enumerate(p_ends) if not math.isnan(p_end)]
    if known:
        heights = [0.0 if math.isnan(p_end) else p_end for p_end in p_ends]
        lines.append(Line(((sparkline(_folded(heights, width), width, top=1.0).lstrip(), Ink("accent")),)))
    else:
        lines.append(Line((("The engine does not tell how likely the end was.", MUTED),)))
    last = reply[-1].node
    lines += prose(_why(last), width, STRONG)
    if last.finished is not None and last.finished.reason == "stop" and last.finished.held:
        lines += prose(f'not shown: "{escape(last.finished.held)}"', width)
    if last.finished is not None and last.finished.reason == "end" and known and known[-1] == len(p_ends) - 1:
        rank, p_end = last.tokens.ranks[-1], last.tokens.p_ends[-1]
        of_end = f"The end token had rank {rank + 1}; " if rank != UNTOLD else ""
        missing = f", {percent(unlisted[-1], 2)} not listed" if unlisted[-1] else ""
        lines += prose(f"{of_end}p(end) was {p_end_of(p_end, unlisted[-1])}{missing}.", width)
    if known:
        most = max(unlisted)
        missing = f"up to {percent(most, 2)} not listed" if most else ""
        lines.append(Line(spread([("HIGHEST", TITLE)], [(missing, MUTED)] if missing else [], width)))
    order = sorted(known, key=lambda index: -p_ends[index])
    for index in order[: max(min(_HIGHEST, rows - len(lines)), 1)]:
        share = f"{p_end_of(p_ends[index], unlisted[index]):>8}"
        itself = index == len(texts) - 1 and last.finished is not None and last.finished.reason == "end"
        place = "the end token" if itself else "before " + show_piece(texts[index])
        piece = column(place, max(width - 14, 4))
        lines.append(Line(((f"{index:>5} ", MUTED), (piece, TEXT), (share, STRONG))))
    return lines


def _why(node: Node) -> str:
    if node.failed is not None:
        return f"It was interrupted: {node.failed.message}."
    if node.finished is None:
        return "The reply has not ended yet."
    reason, detail = node.finished.reason, escape(node.finished.detail)
    words = _WORDS.get(reason) or ENDINGS[reason][0 if detail else 1].format(detail=detail)
    return words[0].upper() + words[1:] + "."


def _folded(values: list[float], width: int) -> list[float]:
    """At most `width` values: each the highest of its share of all."""
    if len(values) <= width:
        return values
    edges = [len(values) * i // width for i in range(width + 1)]
    return [max(values[begin:end]) for begin, end in pairwise(edges)]


_NUMBER, _SHARE = 6, 8
_STAMP = Ink("stamp", bold=True)
_SAME = "No knob has changed yet; turn one with {}."
_TIES = "{}, in batches: near-ties may be decided differently."


def whatif_lines(
    replay: Rescored | None, changed: Sequence[str], width: int, rows: int, tolerance: float | None = None
) -> list[Line]:
    """`changed` are the knobs that are not as they were, as in "temp 0.8→1.2"; without `replay` the answer is still awaited.
    `tolerance`: see `again`."""
    size: list[Run] = [(f"same dice, {len(replay.ids)} tokens", MUTED)] if replay is not None else []
    lines = [
        Line((("WHAT IF  ", TITLE), *size)),
        *prose(", ".join(changed) or _SAME.format(name_of("tune")), width, STRONG),
    ]
    if replay is None:
        return [*lines, Line((("re-reading the reply …", MUTED),))]
    first, others, impossible, kept = replay.summary
    tail = f" {percent(kept)}"
    lines.append(Line((("stays ", MUTED), *bar(kept, max(width - 6 - len(tail), 4)), (tail, STRONG))))
    if first is None:
        lines += prose("Every token would stay the same.", width, STRONG)
    else:
        lines += _parting(replay, first, width)
        lines.append(Line(((name_of("fork-there"), ACCENT), (" forks there, with these knobs", MUTED))))
    lost = "not highest " if replay.settings.temperature <= 0 else "would be cut "
    lines.append(Line(((lost, MUTED), (str(len(impossible)), STRONG), (f" of {len(replay.ids)}", MUTED))))
    if replay.scored.recomputed:
        lines += prose(_TIES.format(again(tolerance).capitalize()), width, MUTED)
    listed = sorted({*others, *impossible})
    if listed:
        lines.append(Line(spread([("CHANGED TOKENS", TITLE)], [(f"{'after':>{_SHARE}}", MUTED)], width)))
        lines += [_other(index, replay, width) for index in listed[: max(rows - len(lines), 1)]]
    return lines


def _parting(replay: Rescored, index: int, width: int) -> list[Line]:
    then, now = (one_line(show_piece(texts[index]), width // 2) for texts in (replay.texts, replay.scored.texts))
    place: list[Run] = [("differs at ", MUTED), (str(index), _STAMP)]
    return flowing([place, [(then, TEXT)], [("→ ", MUTED), (now, STRONG)]], width)


def _other(index: int, replay: Rescored, width: int) -> Line:
    """A token, what would stand in its place, and what is left of its own probability."""
    half = max((width - _NUMBER - _SHARE - 3) // 2, 4)
    probability = replay.scored.probabilities[index]
    after = percent(probability) if probability > 0 or replay.settings.temperature <= 0 else "cut"
    return Line(
        (
            (f"{index:>{_NUMBER - 1}} ", MUTED),
            (column(show_piece(replay.texts[index]), half), TEXT),
            (" → ", MUTED),
            (column(show_piece(replay.scored.texts[index]), half), STRONG),
            (f"{after:>{_SHARE}}", MUTED if probability > 0 else Ink("error")),
        )
    )
