"""The next-token panel: what the model wanted, what the chain made of it, and what the dice took."""

from __future__ import annotations

import math

from termchat.chat.live import Live
from termchat.decoding.records import Candidate, Token
from termchat.text import show_piece
from termchat.tui.draw.ink import Ink, Line, Run, doing
from termchat.tui.draw.marks import ACCENT, MUTED, STRONG, TEXT, TITLE, again, column, percent, spread

_LOGIT, _SHARE, _NOISE = 6, 8, 7
_DICE_FROM = 52
"""Panels at least so wide also show each token's noise."""
NUMBERED = 9
"""How many candidates have a key of their own."""


def candidate_lines(live: Live, width: int, rows: int, tolerance: float | None = None) -> list[Line]:
    """A title, then up to `rows` candidates; the drawn one is always among them. `tolerance`: see `again`."""
    token = live.shown
    title: list[Run] = [("NEXT TOKEN", TITLE)]
    if live.preview is not None:
        note = f" {again(tolerance, short=True)}" if live.preview_recomputed else ""
        title = [("PREVIEW", Ink("stamp", bold=True)), (note, Ink("stamp"))]
    if token is None:
        lines = [_heads(title, width)]
        return [*lines, Line((("waiting for the first token", MUTED),))] if rows > 0 else lines
    return candidate_table(token, title, width, rows)


def candidate_table(token: Token, title: list[Run], width: int, rows: int, *, numbered: bool = False) -> list[Line]:
    """A title with the heads of the columns, then up to `rows` candidates; with `numbered`, the first nine with their keys."""
    lines = [_heads(title, width)]
    for index, candidate in enumerate(_chosen_among(token, rows)):
        shown = candidate is token.candidates[index]  # the drawn one may stand in another's place
        number = 1 + (index if shown else [one.id for one in token.candidates].index(candidate.id))
        digit = (f"{number} " if shown and number <= NUMBERED else "  ") if numbered else ""
        line = _line(candidate, token, width, digit)
        lines.append(Line(tuple(doing(f"choose({number})", line.runs))))
    return lines


def _heads(title: list[Run], width: int) -> Line:
    dice = f"{'dice':>{_NOISE}}" if width >= _DICE_FROM else ""
    return Line(spread(title, [(f"{'logit':>{_LOGIT}}{'model':>{_SHARE}}{'after':>{_SHARE}}{dice}  ", MUTED)], width))


def _chosen_among(token: Token, rows: int) -> list[Candidate]:
    shown = list(token.candidates[: max(rows, 0)])
    if shown and all(candidate.id != token.id for candidate in shown):
        shown[-1:] = [candidate for candidate in token.candidates if candidate.id == token.id][:1]
    return shown


def _line(candidate: Candidate, token: Token, width: int, digit: str) -> Line:
    dice = width >= _DICE_FROM
    drawn = candidate.id == token.id
    cut = candidate.removed_by is not None
    ink = STRONG if drawn else MUTED if cut else TEXT
    room = width - _LOGIT - 2 * _SHARE - 2 - (_NOISE if dice else 0) - len(digit)
    piece = column(show_piece(candidate.text), room)
    numbers = f"{candidate.logit:>{_LOGIT}.1f}{percent(math.exp(candidate.logprob)):>{_SHARE}}"
    head: tuple[Run, ...] = (
        ((digit, ACCENT), (piece, ink), (numbers, MUTED)) if digit else ((piece, ink), (numbers, MUTED))
    )
    if cut:
        after = f" cut {candidate.removed_by}"
        return Line((*head, (column(after, _SHARE + 2 + (_NOISE if dice else 0)), MUTED)))
    after = f"{percent(candidate.probability):>{_SHARE}}"
    noise = f"{candidate.noise:>+{_NOISE}.2f}" if dice else ""
    return Line((*head, (after, ink), (noise, MUTED), (" ●" if drawn else "  ", ACCENT)))
