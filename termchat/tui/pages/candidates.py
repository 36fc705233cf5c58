"""The candidates of a step as a table: what the model said of each token, what the chain made of it, and what was drawn; and
rolls: many draws from the distribution of one step.

`model` is the softmax of the raw logits at temperature 1 over the whole vocabulary, `after` what the draw was made from.
Bars are linear, from 0 to 100 % at every step and under every knob, so that two of them can be compared.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from rich.cells import cell_len

from termchat.chat.live import Live
from termchat.decoding.records import Candidate, Token, is_taken
from termchat.decoding.stages import DICE, loss_of
from termchat.text import show_piece
from termchat.tui.draw.ink import Ink, Line, Run, doing
from termchat.tui.draw.marks import (
    ACCENT,
    MUTED,
    STRONG,
    TEXT,
    TITLE,
    column,
    describe_recomputed,
    format_known,
    length,
    percent,
)

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
REJECTED = Ink("error", strike=True)
"""A drafted token in the place of which another one was taken."""

SIZES = (100, 1000, 10_000)
"""How many rolls come first, and how many in all when one asks again."""
MOST = 100_000
_DUST = 1e-6
"""Less than so much in all is what rounding has left of no probability."""
_SEEDS = 2**31


# --- rolls -----------------------------------------------------------------------------------------------------------


def compute_missing(shares: Iterable[float]) -> float:
    """Return what these probabilities leave of 1."""
    left = 1.0 - math.fsum(shares)
    return left if left > _DUST else 0.0


def can_roll(token: Token) -> bool:
    """Return whether the probabilities that the token was drawn from are known."""
    return any(not math.isnan(candidate.probability) for candidate in token.candidates)


class Rolls:
    """`n` rolls at step `step` of the reply that `node` is a piece of; roll i has the seed `first` + i.

    The seeds stay while the distribution changes, as it does when a knob is turned.
    """

    def __init__(self, node: int, step: int, n: int, first: int) -> None:
        self.node, self.step, self.n, self.first = node, step, n, first
        self._token: Token | None = None
        self._counts: dict[int, int] = {}

    def is_at(self, node: int, step: int) -> bool:
        return (self.node, self.step) == (node, step)

    def count(self, token: Token) -> Mapping[int, int]:
        """Count how many rolls take each candidate, by its id; the rest take tokens that are not on record."""
        if self._token is not token:
            from termchat.decoding.draw import OTHERS, count_rolls  # numpy, which nobody needs who does not roll

            left = {candidate.id: candidate.probability for candidate in token.candidates}
            left[OTHERS] = compute_missing(left.values())
            self._token, self._counts = token, count_rolls(left, range(self.first, self.first + self.n), token.step)
            del self._counts[OTHERS]
        return self._counts


def next_size(n: int) -> int:
    """Return how many rolls come after so many."""
    return next((size for size in SIZES if size > n), SIZES[0])


def roll_more(before: Rolls | None, node: int, step: int, n: int = 0, first: int | None = None) -> Rolls:
    """Return the rolls that come after those `before`: at the same step the next size, which begins with the same seeds; else
    the first size, with fresh seeds. Or `n`, from the seed `first`, where these are given."""
    again = before if before is not None and before.is_at(node, step) else None
    n = n or next_size(again.n if again is not None else 0)
    if first is None:
        first = again.first if again is not None and again.n < n else secrets.randbelow(_SEEDS)
    return Rolls(node, step, n, first)


# --- the table -------------------------------------------------------------------------------------------------------


class _Row(NamedTuple):
    """A candidate of the table by its number from 1, or all others together: by the heads of columns, its numbers and the
    shares of their bars."""

    name: str
    cells: dict[str, tuple[str, float]]
    ink: Ink = MUTED
    number: int = 0
    candidate: Candidate | None = None


def candidate_lines(
    live: Live, width: int, rows: int, tolerance: float | None = None, *, bars: bool = False
) -> list[Line]:
    """Render the candidates of the newest step. `tolerance`: see `again`."""
    token = live.shown
    title: list[Run] = [("NEXT TOKEN", TITLE)]
    if live.preview is not None:
        note = f" {describe_recomputed(tolerance, short=True)}" if live.preview_recomputed else ""
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
    rolled: Rolls | None = None,
    does: str = "choose({})",
) -> list[Line]:
    """Render a line with the title and the heads, then up to `rows` lines: candidates in the order of their logits, the
    drawn one always among them. With `bars`, the last of these lines is for all other tokens. `numbered`: the first nine
    are shown with their keys. `does` is the action of a click on the candidate of a number."""
    bars = bars and rows > 1
    heads = _choose_heads(token, width, bars=bars, has_rolls=rolled is not None)
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
    # The last columns keep their bars, and the gaps before these, longest.
    barred = [head for head in heads if bars and head in _INKS]
    room = max(width - fixed - word, 0)
    count = min(len(barred), room // (_SHORTEST + 1))
    sizes = {head: room // count if head in barred[len(barred) - count :] else 0 for head in heads}
    runs: list[Run] = [*title, (" " * max(digits + word - length(title), 0), TEXT)]
    for head, cells in heads.items():
        size = sizes[head]
        ends = f"0%{'100%':>{size - 3}}" if size > _AXIS_FROM else " " * max(size - 1, 0)
        runs.append((f"{head:>{cells}}" + (f" {ends}" if size else ""), MUTED))
    lines = [Line(tuple(runs))]
    for row in shown:
        cells_of_row = _render_cells(row, heads, sizes, width - digits - word)
        if row.candidate is None:
            lines.append(Line(((" " * digits + column(row.name, word), MUTED), *cells_of_row)))
            continue
        draft = token.draft
        rejected = draft is not None and not draft.accepted and row.candidate.id == draft.tokens[0].id
        digit = f"{row.number} " if row.number <= NUMBERED else "  "
        runs = [(digit, ACCENT)] if numbered else []
        runs += [(column(row.name, word), REJECTED if rejected else row.ink), *cells_of_row]
        lines.append(Line(tuple(doing(does.format(row.number), runs))))
    return lines


def _choose_heads(token: Token, width: int, *, bars: bool, has_rolls: bool) -> dict[str, int]:
    """Choose the columns that fit and have numbers; their cells by head."""
    heads = {"logit": 7, "model": 8, "after": 8, **({"dice": 7} if width >= _DICE_FROM else {})}
    if bars:
        heads = {"model": 7, "after": 7, **({"rolls": 6} if has_rolls else {})}
        heads |= {"logit": 7, "dice": 7} if width >= _ALL_FROM else {}
    for head, value in (("logit", "logit"), ("after", "probability"), ("dice", "noise")):
        if all(math.isnan(getattr(one, value)) for one in token.candidates):
            heads.pop(head, None)
    return heads


def _make_row(number: int, one: Candidate, token: Token, rolled: Rolls | None) -> _Row:
    bias = f" {one.bias:+.4g}" if one.bias is not None else ""
    rolls = rolled.count(token).get(one.id, 0) if rolled is not None else 0
    cells = _measure_shares(math.exp(one.logprob), one.probability, rolls, rolled)
    cells |= {"logit": (format_known(one.logit, ".1f"), 0.0), "dice": (format_known(one.noise, "+.2f"), 0.0)}
    ink = STRONG if is_taken(one, token) else MUTED if one.removed_by is not None else TEXT
    return _Row(show_piece(one.text) + bias, cells, ink, number, one)


def _sum_others(token: Token, shown: Sequence[Candidate], rolled: Rolls | None) -> _Row:
    vocabulary = max((stage.survivors for stage in token.stages if stage.name != DICE), default=0)
    size = max(vocabulary - len(shown), 0)
    model, after = (
        compute_missing(math.exp(one.logprob) for one in shown),
        compute_missing(one.probability for one in shown),
    )
    rolls = rolled.n - sum(rolled.count(token).get(one.id, 0) for one in shown) if rolled is not None else 0
    return _Row(f"{size:,} others" if size else "others", _measure_shares(model, after, rolls, rolled))


def _measure_shares(model: float, after: float, rolls: int, rolled: Rolls | None) -> dict[str, tuple[str, float]]:
    share = rolls / rolled.n if rolled is not None else 0.0
    return {"model": (percent(model), model), "after": (percent(after), after), "rolls": (str(rolls), share)}


def _render_cells(row: _Row, heads: Mapping[str, int], sizes: Mapping[str, int], room: int) -> list[Run]:
    """Render the numbers and bars of a row. The name of the stage that cut it replaces all that follows if it needs the
    cells."""
    runs: list[Run] = []
    for head, cells in heads.items():
        size = sizes[head]
        if head == "after" and row.candidate is not None and row.candidate.removed_by is not None:
            text = f"  {loss_of(row.candidate.removed_by)}"
            if len(text) > cells + size:
                return [*runs, (column(text, room - length(runs)), MUTED)]
            runs.append((column(text, cells + size), MUTED))
            continue
        number, share = row.cells.get(head, ("", 0.0))
        runs.append((f"{number:>{cells}}", row.ink if head == "after" else MUTED))
        if size:
            eighths = round(min(share, 1.0) * (size - 1) * 8) if share > 0 else 0
            bar = (_BARS[8] * (eighths // 8) + _BARS[eighths % 8]).ljust(size - 1)[: size - 1]
            runs.append((" " + bar, _INKS[head]))
    return [*runs, (" ●" if row.ink == STRONG else "  ", ACCENT)] if row.candidate is not None else runs
