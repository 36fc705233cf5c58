"""The candidates of a step as a table: what the model said of each token, what the chain made of it, and what was drawn.

`model` is the softmax of the raw logits at temperature 1 over the whole vocabulary, `after` what the draw was made from.
Bars are linear, from 0 to 100 % at every step and under every knob, so that two of them can be compared.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rich.cells import cell_len

from termchat.chat.live import Live
from termchat.decoding.records import UNKNOWN, Candidate, Token, is_taken
from termchat.decoding.stages import DICE, loss_of
from termchat.text import show_piece
from termchat.tui.draw.ink import Ink, Line, Run, doing
from termchat.tui.draw.marks import ACCENT, MUTED, STRONG, TEXT, TITLE, again, column, length, percent, signed, told
from termchat.tui.pages.rolls import Rolled, missing
from termchat.tui.pages.rounds import REJECTED

NUMBERED = 9
"""How many candidates have a key of their own."""
_BARS = " ▏▎▍▌▋▊▉█"
_SHORTEST, _WORD = 6, 24
"""Cells of a bar, at least, and of a word, at most."""
_DICE_FROM = 52
"""Cells from which each token's noise is shown, in a table without bars."""
_ALL_FROM = 90
"""Cells from which a table with bars shows logit and noise, too."""
_AXIS_FROM = 10
"""Cells of a bar from which its ends are named above it."""
_INKS = {"model": MUTED, "after": ACCENT, "rolls": Ink("stamp")}
"""The columns that bars can show, and the inks of these."""


class _Row(NamedTuple):
    """A token of the table, or all others together: its numbers and the shares of its bars, by the heads of columns. The
    stage that `cut` a token is named in place of its number after the chain."""

    name: str
    numbers: dict[str, str]
    shares: dict[str, float]
    ink: Ink = MUTED
    cut: str | None = None
    taken: bool = False
    number: int = 0
    id: int = UNKNOWN


def candidate_lines(
    live: Live, width: int, rows: int, tolerance: float | None = None, *, bars: bool = False
) -> list[Line]:
    """The newest step. `tolerance`: see `again`."""
    token = live.shown
    title: list[Run] = [("NEXT TOKEN", TITLE)]
    if live.preview is not None:
        note = f" {again(tolerance, short=True)}" if live.preview_recomputed else ""
        title = [("PREVIEW", Ink("stamp", bold=True)), (note, Ink("stamp"))]
    if token is None:
        lines = [Line(tuple(title))]
        return [*lines, Line((("waiting for the first token", MUTED),))] if rows > 0 else lines
    return candidate_table(token, title, width, rows, bars=bars)


def candidate_table(
    token: Token,
    title: Sequence[Run],
    width: int,
    rows: int,
    *,
    numbered: bool = False,
    bars: bool = False,
    rolled: Rolled | None = None,
    does: str = "choose({})",
) -> list[Line]:
    """Render a line with the title and the heads, then up to `rows` lines: candidates in the order of their logits, the
    drawn one always among them. With `bars`, the last of these lines is for all other tokens. `numbered`: the first nine
    are shown with their keys. `does` is the action of a click on the candidate of a number."""
    bars = bars and rows > 1
    heads = _choose_heads(token, width, bars=bars, rolled=rolled)
    numbers = list(enumerate(token.candidates, 1))
    chosen = numbers[: max(rows - bars, 0)]
    if chosen and not any(is_taken(one, token) for _, one in chosen):
        chosen[-1:] = [pair for pair in numbers if is_taken(pair[1], token)][:1] or chosen[-1:]
    shown = [_make_row(number, candidate, token, rolled) for number, candidate in chosen]
    shown += [_sum_others(token, [candidate for _, candidate in chosen], rolled)] if bars else []
    digits = 2 * numbered
    fixed = digits + sum(heads.values()) + 2
    need = max([*(cell_len(row.name) for row in shown), length(title) - digits + 1])
    word = max(min(need, _WORD, width - fixed), 4)
    sizes = _bar_sizes(heads, width - fixed - word) if bars else dict.fromkeys(heads, 0)
    runs: list[Run] = [*title, (" " * max(digits + word - length(title), 0), TEXT)]
    for head, cells in heads.items():
        size = sizes[head]
        ends = f"0%{'100%':>{size - 3}}" if size > _AXIS_FROM else " " * max(size - 1, 0)
        runs.append((f"{head:>{cells}}" + (f" {ends}" if size else ""), MUTED))
    lines = [Line(tuple(runs))]
    for row in shown:
        if not row.number:
            runs = [(" " * digits + column(row.name, word), MUTED)]
            lines.append(Line((*runs, *_render_cells(row, heads, sizes, 0))))
            continue
        digit = f"{row.number} " if row.number <= NUMBERED else "  "
        runs = [(digit, ACCENT)] if numbered else []
        rejected = token.draft is not None and not token.draft.accepted and row.id == token.draft.tokens[0].id
        runs.append((column(row.name, word), REJECTED if rejected else row.ink))
        runs += [*_render_cells(row, heads, sizes, width - digits - word)]
        lines.append(Line(tuple(doing(does.format(row.number), runs))))
    return lines


def _choose_heads(token: Token, width: int, *, bars: bool, rolled: Rolled | None) -> dict[str, int]:
    """Choose the columns that fit and have numbers; their cells by head."""
    heads = {"logit": 7, "model": 8, "after": 8, **({"dice": 7} if width >= _DICE_FROM else {})}
    if bars:
        heads = {"model": 7, "after": 7, **({"rolls": 6} if rolled is not None else {})}
        heads |= {"logit": 7, "dice": 7} if width >= _ALL_FROM else {}
    for head, value in (("logit", "logit"), ("after", "probability"), ("dice", "noise")):
        if all(math.isnan(getattr(one, value)) for one in token.candidates):
            heads.pop(head, None)
    return heads


def _bar_sizes(heads: Mapping[str, int], room: int) -> dict[str, int]:
    """Cells of each column's bar and the gap before it, 0 for no bar. The last columns keep theirs longest."""
    barred = [head for head in heads if head in _INKS]
    count = min(len(barred), max(room, 0) // (_SHORTEST + 1))
    kept = barred[len(barred) - count :]
    return {head: room // count if head in kept else 0 for head in heads}


def _make_row(number: int, candidate: Candidate, token: Token, rolled: Rolled | None) -> _Row:
    bias = f" {candidate.bias:+.4g}" if candidate.bias is not None else ""
    rolls = rolled.counts.get(candidate.id, 0) if rolled is not None else 0
    shares = {"model": math.exp(candidate.logprob), "after": candidate.probability}
    shares["rolls"] = rolls / rolled.n if rolled is not None else 0.0
    numbers = {
        "logit": told(candidate.logit, ".1f"), "model": percent(shares["model"]), "after": percent(shares["after"]),
        "dice": signed(candidate.noise), "rolls": str(rolls),
    }  # fmt: skip
    taken, cut = is_taken(candidate, token), candidate.removed_by
    ink = STRONG if taken else MUTED if cut is not None else TEXT
    return _Row(show_piece(candidate.text) + bias, numbers, shares, ink, cut, taken, number, candidate.id)


def _sum_others(token: Token, shown: Sequence[Candidate], rolled: Rolled | None) -> _Row:
    vocabulary = max((stage.survivors for stage in token.stages if stage.name != DICE), default=0)
    size = max(vocabulary - len(shown), 0)
    shares = {
        "model": missing(math.exp(candidate.logprob) for candidate in shown),
        "after": missing(candidate.probability for candidate in shown),
    }
    numbers = {head: percent(share) for head, share in shares.items()}
    if rolled is not None:
        count = rolled.n - sum(rolled.counts.get(candidate.id, 0) for candidate in shown)
        shares["rolls"], numbers["rolls"] = count / rolled.n, str(count)
    return _Row(f"{size:,} others" if size else "others", numbers, shares)


def _render_cells(row: _Row, heads: Mapping[str, int], sizes: Mapping[str, int], room: int) -> list[Run]:
    """Render the numbers and bars of a row. The name of the stage that cut it replaces all that follows if it needs the
    cells."""
    runs: list[Run] = []
    for head, cells in heads.items():
        size = sizes[head]
        if head == "after" and row.cut is not None:
            text = f"  {loss_of(row.cut)}"
            if len(text) > cells + size:
                return [*runs, (column(text, room - length(runs)), MUTED)]
            runs.append((column(text, cells + size), MUTED))
            continue
        runs.append((f"{row.numbers.get(head, ''):>{cells}}", row.ink if head == "after" else MUTED))
        if size:
            eighths = round(min(row.shares[head], 1.0) * (size - 1) * 8) if row.shares[head] > 0 else 0
            bar = (_BARS[8] * (eighths // 8) + _BARS[eighths % 8]).ljust(size - 1)[: size - 1]
            runs.append((" " + bar, _INKS[head]))
    return [*runs, (" ●" if row.taken else "  ", ACCENT)] if row.number else runs
