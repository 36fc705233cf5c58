"""The candidates of a step as a table: what the model said of each token, what the chain made of it, and what was drawn.

`model` is the softmax of the raw logits at temperature 1 over the whole vocabulary, `after` what the draw was made from.
Bars are linear, from 0 to 100 % at every step and under every knob, so that two of them can be compared.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from rich.cells import cell_len

from termchat.chat.live import Live
from termchat.decoding.records import Candidate, Token, is_taken
from termchat.decoding.stages import DICE, loss_of
from termchat.text import show_piece
from termchat.tui.draw.ink import Ink, Line, Run, doing
from termchat.tui.draw.marks import ACCENT, MUTED, STRONG, TEXT, TITLE, again, column, length, percent, signed, told
from termchat.tui.panels.rolls import Rolled, missing
from termchat.tui.speculation.rounds import REJECTED

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


class _Column(NamedTuple):
    """Numbers `cells` wide under a head; with `share` a bar beside them may show it. It is left out where the engine tells no
    `value` for it."""

    head: str
    cells: int
    number: Callable[[Candidate], str]
    ink: Ink = MUTED
    share: Callable[[Candidate], float] | None = None
    value: Callable[[Candidate], float] | None = None

    def is_told(self, token: Token) -> bool:
        """Whether there is anything to show."""
        return self.value is None or any(not math.isnan(self.value(one)) for one in token.candidates)


class _Others(NamedTuple):
    """All tokens that a table does not show, together: how many (0: unknown), and their numbers as by the heads of columns."""

    size: int
    shares: dict[str, float]
    numbers: dict[str, str]

    @property
    def name(self) -> str:
        return f"{self.size:,} others" if self.size else "others"


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
    """A line with the title and the heads, then up to `rows` lines: candidates in the order of their logits, the drawn one
    always among them. With `bars`, the last of these lines is for all other tokens. `numbered`: the first nine are shown with
    their keys. `does` is the action of a click on the candidate of a number."""
    bars = bars and rows > 1
    shown = _chosen_among(token, rows - bars)
    others = _others(token, [candidate for _, candidate in shown], rolled)
    words = [_word(candidate) for _, candidate in shown]
    columns = [each for each in _columns(width, bars=bars, rolled=rolled) if each.is_told(token)]
    digits = 2 * numbered
    fixed = digits + sum(each.cells for each in columns) + 2
    need = max([*map(cell_len, words), cell_len(others.name) * bars, length(title) - digits + 1])
    word = max(min(need, _WORD, width - fixed), 4)
    sizes = _bar_sizes(columns, width - fixed - word) if bars else [0] * len(columns)
    lines = [_heads(title, columns, sizes, digits + word)]
    for (number, candidate), text in zip(shown, words, strict=True):
        digit = f"{number} " if number <= NUMBERED else "  "
        head: list[Run] = [(digit, ACCENT)] if numbered else []
        rejected = token.draft is not None and not token.draft.accepted and candidate.id == token.draft.tokens[0].id
        head.append((column(text, word), REJECTED if rejected else _ink(candidate, token)))
        runs = _row(candidate, token, columns, sizes, width - digits - word)
        lines.append(Line(tuple(doing(does.format(number), [*head, *runs]))))
    if bars:
        lines.append(_others_line(others, columns, sizes, digits, word))
    return lines


def _columns(width: int, *, bars: bool, rolled: Rolled | None) -> list[_Column]:
    model = _Column("model", 7, lambda one: percent(math.exp(one.logprob)), MUTED, lambda one: math.exp(one.logprob))
    after = _Column("after", 7 if bars else 8, lambda one: percent(one.probability), TEXT, lambda one: one.probability)
    after = after._replace(value=after.share)
    logit = _Column("logit", 7, lambda one: told(one.logit, ".1f"), value=lambda one: one.logit)
    dice = _Column("dice", 7, lambda one: signed(one.noise), value=lambda one: one.noise)
    if not bars:
        return [logit, model._replace(cells=8), after, *([dice] if width >= _DICE_FROM else [])]
    columns = [model, after]
    if rolled is not None:
        counts, n = rolled.counts, rolled.n
        columns.append(
            _Column(
                "rolls", 6, lambda one: str(counts.get(one.id, 0)), Ink("stamp"), lambda one: counts.get(one.id, 0) / n
            )
        )
    return [*columns, logit, dice] if width >= _ALL_FROM else columns


def _bar_sizes(columns: Sequence[_Column], room: int) -> list[int]:
    """Cells of each column's bar and the gap before it, 0 where it has none. Where there is no room for all, the last columns
    keep theirs."""
    barred = [at for at, each in enumerate(columns) if each.share is not None]
    count = min(len(barred), max(room, 0) // (_SHORTEST + 1))
    kept = barred[len(barred) - count :]
    return [room // count if at in kept else 0 for at in range(len(columns))]


def _heads(title: Sequence[Run], columns: Sequence[_Column], sizes: Sequence[int], begin: int) -> Line:
    runs: list[Run] = [*title, (" " * max(begin - length(title), 0), TEXT)]
    for each, size in zip(columns, sizes, strict=True):
        ends = f"0%{'100%':>{size - 3}}" if size > _AXIS_FROM else " " * max(size - 1, 0)
        runs.append((f"{each.head:>{each.cells}}" + (f" {ends}" if size else ""), MUTED))
    return Line(tuple(runs))


def _word(candidate: Candidate) -> str:
    """With what a logit bias adds."""
    bias = f" {candidate.bias:+.4g}" if candidate.bias is not None else ""
    return show_piece(candidate.text) + bias


def _ink(candidate: Candidate, token: Token) -> Ink:
    return STRONG if is_taken(candidate, token) else MUTED if candidate.removed_by is not None else TEXT


def _row(candidate: Candidate, token: Token, columns: Sequence[_Column], sizes: Sequence[int], room: int) -> list[Run]:
    """The numbers and bars of a candidate. Where a stage cut it, its name stands in the place of what is `after`, and of all
    that follows where that is too small for it."""
    runs: list[Run] = []
    cut = candidate.removed_by
    for each, size in zip(columns, sizes, strict=True):
        if each.head == "after" and cut is not None:
            text = f"  {loss_of(cut)}"
            if len(text) > each.cells + size:
                return [*runs, (column(text, room - length(runs)), MUTED)]
            runs.append((column(text, each.cells + size), MUTED))
            continue
        ink = _ink(candidate, token) if each.head == "after" else MUTED
        runs.append((f"{each.number(candidate):>{each.cells}}", ink))
        if size and each.share is not None:
            runs.append((_bar(each.share(candidate), size), _bar_ink(each)))
    return [*runs, (" ●" if is_taken(candidate, token) else "  ", ACCENT)]


def _bar_ink(each: _Column) -> Ink:
    return ACCENT if each.head == "after" else each.ink


def _bar(share: float, size: int) -> str:
    """A gap, then a bar of the rest of `size` cells, filled to an eighth of a cell."""
    cells = size - 1
    eighths = round(min(share, 1.0) * cells * 8) if share > 0 else 0
    return " " + (_BARS[8] * (eighths // 8) + _BARS[eighths % 8]).ljust(cells)[:cells]


def _others_line(others: _Others, columns: Sequence[_Column], sizes: Sequence[int], digits: int, word: int) -> Line:
    runs: list[Run] = [(" " * digits + column(others.name, word), MUTED)]
    for each, size in zip(columns, sizes, strict=True):
        runs.append((f"{others.numbers.get(each.head, ''):>{each.cells}}", MUTED))
        if size:
            runs.append((_bar(others.shares[each.head], size), _bar_ink(each)))
    return Line(tuple(runs))


def _chosen_among(token: Token, rows: int) -> list[tuple[int, Candidate]]:
    """Candidates with their numbers, from 1."""
    numbered = list(enumerate(token.candidates, 1))
    shown = numbered[: max(rows, 0)]
    if shown and not any(is_taken(candidate, token) for _, candidate in shown):
        shown[-1:] = [pair for pair in numbered if is_taken(pair[1], token)][:1] or shown[-1:]
    return shown


def _others(token: Token, shown: Sequence[Candidate], rolled: Rolled | None) -> _Others:
    vocabulary = max((stage.survivors for stage in token.stages if stage.name != DICE), default=0)
    shares = {
        "model": missing(math.exp(candidate.logprob) for candidate in shown),
        "after": missing(candidate.probability for candidate in shown),
    }
    numbers = {head: percent(share) for head, share in shares.items()}
    if rolled is not None:
        count = rolled.n - sum(rolled.counts.get(candidate.id, 0) for candidate in shown)
        shares["rolls"], numbers["rolls"] = count / rolled.n, str(count)
    return _Others(max(vocabulary - len(shown), 0), shares, numbers)
