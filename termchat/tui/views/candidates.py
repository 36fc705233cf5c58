"""The next-token panel: what the model wanted, what the chain made of it, and what the dice took."""

from __future__ import annotations

import math

from termchat.chat.live import Live
from termchat.decoding.records import Candidate, Token
from termchat.text import show_piece
from termchat.tui.transcript.ink import Ink, Line, Run
from termchat.tui.views.marks import ACCENT, MUTED, STRONG, TEXT, TITLE, column, percent, spread

_LOGIT, _SHARE, _NOISE = 6, 8, 7
_DICE_FROM = 52
"""Panels at least so wide also show each token's noise."""


def candidate_lines(live: Live, width: int, rows: int) -> list[Line]:
    """A title, then up to `rows` candidates; the drawn one is always among them."""
    token = live.shown
    title: list[Run] = [("NEXT TOKEN", TITLE)]
    if live.preview is not None:
        title = [("PREVIEW", Ink("stamp", bold=True)), (" recomputed" if live.preview_recomputed else "", Ink("stamp"))]
    dice = width >= _DICE_FROM
    heads = f"{'logit':>{_LOGIT}}{'model':>{_SHARE}}" + f"{'after':>{_SHARE}}  "
    if dice:
        heads = heads[:-2] + f"{'dice':>{_NOISE}}  "
    lines = [Line(spread(title, [(heads, MUTED)], width))]
    if token is None:
        return [*lines, Line((("appears with the first token", MUTED),))] if rows > 0 else lines
    return lines + [_line(candidate, token, width, dice=dice) for candidate in _chosen_among(token, rows)]


def _chosen_among(token: Token, rows: int) -> list[Candidate]:
    shown = token.candidates[: max(rows, 0)]
    if shown and all(candidate.id != token.id for candidate in shown):
        shown[-1:] = [candidate for candidate in token.candidates if candidate.id == token.id][:1]
    return shown


def _line(candidate: Candidate, token: Token, width: int, *, dice: bool) -> Line:
    drawn = candidate.id == token.id
    cut = candidate.removed_by is not None
    ink = STRONG if drawn else MUTED if cut else TEXT
    piece = column(show_piece(candidate.text), width - _LOGIT - 2 * _SHARE - 2 - (_NOISE if dice else 0))
    numbers = f"{candidate.logit:>{_LOGIT}.1f}{percent(math.exp(candidate.logprob)):>{_SHARE}}"
    if cut:
        after = f" cut {candidate.removed_by}"
        return Line(((piece, ink), (numbers, MUTED), (column(after, _SHARE + 2 + (_NOISE if dice else 0)), MUTED)))
    after = f"{percent(candidate.probability):>{_SHARE}}"
    noise = f"{candidate.noise:>+{_NOISE}.2f}" if dice else ""
    return Line(((piece, ink), (numbers, MUTED), (after, ink), (noise, MUTED), (" ●" if drawn else "  ", ACCENT)))
