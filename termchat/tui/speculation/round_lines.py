"""One round of drafting, step by step: draft, verify, accept, correct. The step that the token under the cursor came from is
marked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

from termchat.decoding.draft_figures import Round
from termchat.decoding.records import Candidate, DraftToken, Token
from termchat.decoding.stages import loss_of
from termchat.text import one_line, show_piece
from termchat.tui.draw.ink import Ink, Line, Run
from termchat.tui.draw.marks import ACCENT, MUTED, STRONG, TEXT, TITLE, column, flowing, length, percent, prose, spread

Part = Literal["draft", "verify", "accept", "correct"]

_HERE = Ink("cursor", ground="panel", bold=True)
_ACCEPTED = Ink("success")
REJECTED = Ink("error", strike=True)
"""A drafted token in the place of which another one was taken."""
_DROPPED = Ink("muted", strike=True)
_INDENT = 2
_LABEL = 9
_WORD = 14
"""Cells of a token in the table of probabilities."""


class ShownRound(NamedTuple):
    """A round and what is looked at in it.

    `at` is the index of the token under the cursor, as the round counts, None without one; `first` is what its number in the
    reply has more. `ending` is the record of the token that ended the round, with its candidates, where it is known: it may
    be `pending`, not taken yet. `ended`: the reply is over, and the round with it.
    """

    round: Round
    at: int | None = None
    first: int = 0
    ending: Token | None = None
    pending: bool = False
    ended: bool = False

    @property
    def part(self) -> Part | None:
        """The step of the round that the token under the cursor came from; None without one."""
        if self.at is None:
            return None
        return "accept" if self.at < self.round.begin + self.round.accepted else "correct"


def drafter_name(by: str) -> str:
    """As people read it: what records call "ngram", or a model's name."""
    return "n-gram" if by == "ngram" else one_line(by, 24)


def drafted_runs(made: Round, at: int | None = None) -> list[list[Run]]:
    """The drafted tokens, each by what became of it; the one at index `at` of the reply stands out."""
    return [[(show_piece(token.text), _ink(made, place, at))] for place, token in enumerate(made.drafted)]


def drafted_lines(shown: ShownRound, width: int) -> list[Line]:
    """What was drafted, and by whom; and where the token under the cursor was taken instead, what both were worth."""
    made = shown.round
    words = [[("DRAFTED", TITLE), (" by ", MUTED), (f"{drafter_name(made.by)}:", TEXT)], *drafted_runs(made, shown.at)]
    if shown.at == made.begin + len(made.drafted):
        words.append([("and this token from their last row", MUTED)])
    lines = flowing(words, width, " ")
    if made.corrected is None or shown.part != "correct" or shown.ending is None:
        return lines
    rejected, taken = made.drafted[made.accepted], shown.ending
    items = [
        [("rejected ", MUTED), (show_piece(rejected.text), REJECTED), _shares_told(_shares(rejected, taken))],
        [("taken    ", MUTED), (show_piece(made.corrected.text), STRONG), _shares_told(_shares_of(taken))],
    ]
    return [*lines, *flowing(items, width)]


def round_lines(shown: ShownRound, row_us: float | None, width: int) -> list[Line]:
    """All of a round. `row_us`: what decoding one row alone takes."""
    made = shown.round
    first = shown.first + made.begin
    last = first + max(made.tokens, 1) - 1
    numbers = f"token {first}" if first == last else f"tokens {first} to {last}"
    lines = [Line(spread([("ROUND ", TITLE), (numbers, TEXT)], [(f"by {drafter_name(made.by)}", MUTED)], width))]
    for part, left, right, below in (
        ("draft", _count(len(made.drafted), "token"), _ms(made.us), _flow(drafted_runs(made, shown.at), width)),
        ("verify", f"{_count(made.rows, 'row')} in one pass", _ms(made.decode_us), _alone(row_us, width)),
        ("accept", _accepted(shown), "", _flow(drafted_runs(made, shown.at)[: made.accepted], width)),
        ("correct", _correct(shown), "", _corrected(shown)),
    ):
        here = part == shown.part
        head: list[Run] = [("▸ " if here else "  ", ACCENT), (column(part, _LABEL), STRONG if here else TEXT)]
        lines += [Line(spread([*head, (left, TEXT)], [(right, MUTED)], width)), *below]
    return [*lines, *_gave(made, row_us, width)]


def _ink(made: Round, place: int, at: int | None) -> Ink:
    if at == made.begin + place and place <= made.accepted:
        return _HERE._replace(strike=place == made.accepted and made.corrected is not None)
    if place < made.accepted:
        return _ACCEPTED
    if made.corrected is None:
        return TEXT  # not decided
    return REJECTED if place == made.accepted else _DROPPED


def _flow(items: Sequence[Sequence[Run]], width: int) -> list[Line]:
    return [_indented(line.runs) for line in flowing(items, width - _INDENT - _LABEL, " ")]


def _indented(runs: Sequence[Run]) -> Line:
    return Line(((" " * (_INDENT + _LABEL), TEXT), *runs))


def _alone(row_us: float | None, width: int) -> list[Line]:
    """What one row alone takes."""
    if row_us is None:
        return []
    return [_indented(spread([("one row alone", MUTED)], [(_ms(row_us), MUTED)], width - _INDENT - _LABEL))]


def _accepted(shown: ShownRound) -> str:
    made = shown.round
    return f"{made.accepted} of {len(made.drafted)}" + ("" if made.is_over or shown.ended else " so far")


def _correct(shown: ShownRound) -> str:
    made = shown.round
    if not made.is_over:
        return "nothing: the reply ended" if shown.ended else "nothing so far"
    return f"{'1 token' if made.corrected is not None else 'nothing'}{', not taken yet' if shown.pending else ''}"


def _corrected(shown: ShownRound) -> list[Line]:
    """What was taken instead of what, and both probabilities, as far as they are on record."""
    made, token = shown.round, shown.ending
    if made.bonus is not None:
        return [_indented([(show_piece(made.bonus.text), STRONG), (" is drawn from the last row", MUTED)])]
    if made.corrected is None:
        return []
    rejected = made.drafted[made.accepted]
    if token is None:
        return [
            _indented(
                [(show_piece(rejected.text), REJECTED), (" → ", MUTED), (show_piece(made.corrected.text), STRONG)]
            )
        ]
    lines = [_row("", "model", "after", MUTED, MUTED)]
    lines.append(_row(show_piece(rejected.text), *_shares(rejected, token), REJECTED, MUTED))
    lines.append(_row(show_piece(made.corrected.text), *_shares_of(token), STRONG, TEXT))
    return [_indented(line) for line in lines]


def rejected_candidate(token: Token, rejected: DraftToken) -> Candidate | None:
    """What the record of a token says of the one that was drafted for it."""
    return next((one for one in token.candidates if one.id == rejected.id), None)


def _shares(rejected: DraftToken, token: Token) -> tuple[str, str]:
    found = rejected_candidate(token, rejected)
    if found is None:
        return "–", "–"
    cut = found.removed_by
    return percent(math.exp(found.logprob)), loss_of(cut) if cut is not None else percent(found.probability)


def _shares_of(token: Token) -> tuple[str, str]:
    return percent(math.exp(token.logprob)), percent(token.probability)


def _shares_told(shares: tuple[str, str]) -> Run:
    model, after = shares
    return (f" model {model} {f'after {after}' if after.endswith('%') else after}", MUTED)


def _row(word: str, model: str, after: str, ink: Ink, numbers: Ink) -> list[Run]:
    text = column(word, _WORD).rstrip()
    return [(text, ink), (" " * (_WORD - length([(text, ink)])), TEXT), (f"{model:>8}  {after:>7}", numbers)]


def _gave(made: Round, row_us: float | None, width: int) -> list[Line]:
    """What the round was worth."""
    if row_us is None or not made.is_over or not made.decode_us:
        return []
    took, alone = made.us + made.decode_us, made.tokens * row_us
    word = "as fast" if alone >= took else "as fast: it cost time"
    said = f"{_count(made.tokens, 'token')} in {_ms(took)}, alone {_ms(alone)}: {alone / took:.2f} times {word}"
    return prose(said, width, MUTED)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _ms(us: float) -> str:
    return f"{us / 1000:.2f} ms" if us < 1000 else f"{us / 1000:.1f} ms"
