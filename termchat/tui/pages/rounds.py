"""One round of drafting, step by step: draft, verify, accept, correct. The step that the token under the cursor came from is
marked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

from termchat.decoding.draft_figures import Round
from termchat.decoding.records import DraftToken, Token
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
    """A round, and the token of it under the cursor.

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
        """The step of the round that the token under the cursor came from."""
        if self.at is None:
            return None
        return "accept" if self.at < self.round.begin + self.round.accepted else "correct"


def drafter_name(by: str) -> str:
    """As people read it: what records call "ngram", or a model's name."""
    return "n-gram" if by == "ngram" else one_line(by, 24)


def drafted_lines(shown: ShownRound, width: int) -> list[Line]:
    """Render the draft and its drafter; for the token under the cursor that replaced a draft, the probabilities of both."""
    drafted = shown.round
    words = [[("DRAFTED", TITLE), (" by ", MUTED), (f"{drafter_name(drafted.by)}:", TEXT)], *_draft_items(shown)]
    if shown.at == drafted.begin + len(drafted.drafted):
        words.append([("and this token from their last row", MUTED)])
    lines = flowing(words, width, " ")
    if drafted.corrected is None or shown.part != "correct" or shown.ending is None:
        return lines
    rejected, taken = drafted.drafted[drafted.accepted], shown.ending
    items: list[list[Run]] = []
    for name, text, ink, (model, after) in (
        ("rejected ", rejected.text, REJECTED, _read_shares(rejected, taken)),
        ("taken    ", drafted.corrected.text, STRONG, _read_shares(None, taken)),
    ):
        shares = f" model {model} {f'after {after}' if after.endswith('%') else after}"
        items.append([(name, MUTED), (show_piece(text), ink), (shares, MUTED)])
    return [*lines, *flowing(items, width)]


def round_lines(shown: ShownRound, row_us: float | None, width: int) -> list[Line]:
    """Render all of a round. `row_us`: the time for decoding one row alone."""
    drafted, room = shown.round, width - _INDENT - _LABEL
    first = shown.first + drafted.begin
    last = first + max(drafted.tokens, 1) - 1
    numbers = f"token {first}" if first == last else f"tokens {first} to {last}"
    alone = [spread([("one row alone", MUTED)], [(_format_ms(row_us), MUTED)], room)] if row_us is not None else []
    accepted = f"{drafted.accepted} of {len(drafted.drafted)}{'' if drafted.is_over or shown.ended else ' so far'}"
    corrected = "nothing: the reply ended" if shown.ended else "nothing so far"
    if drafted.is_over:
        corrected = "1 token" if drafted.corrected is not None else "nothing"
        corrected += ", not taken yet" if shown.pending else ""
    tokens = _draft_items(shown)
    lines = [Line(spread([("ROUND ", TITLE), (numbers, TEXT)], [(f"by {drafter_name(drafted.by)}", MUTED)], width))]
    below: Sequence[Sequence[Run]]
    for part, left, right, below in (
        (
            "draft",
            _count_noun(len(drafted.drafted), "token"),
            _format_ms(drafted.us),
            [x.runs for x in flowing(tokens, room, " ")],
        ),
        ("verify", f"{_count_noun(drafted.rows, 'row')} in one pass", _format_ms(drafted.decode_us), alone),
        ("accept", accepted, "", [line.runs for line in flowing(tokens[: drafted.accepted], room, " ")]),
        ("correct", corrected, "", _correction_runs(shown)),
    ):
        here = part == shown.part
        head: list[Run] = [("▸ " if here else "  ", ACCENT), (column(part, _LABEL), STRONG if here else TEXT)]
        lines.append(Line(spread([*head, (left, TEXT)], [(right, MUTED)], width)))
        lines += [Line(((" " * (_INDENT + _LABEL), TEXT), *runs)) for runs in below]
    if row_us is not None and drafted.is_over and drafted.decode_us:  # what it was worth
        took, plain = drafted.us + drafted.decode_us, drafted.tokens * row_us
        word = "as fast" if plain >= took else "as fast: it cost time"
        times = f"{_format_ms(took)}, alone {_format_ms(plain)}: {plain / took:.2f} times {word}"
        worth = f"{_count_noun(drafted.tokens, 'token')} in {times}"
        lines += prose(worth, width, MUTED)
    return lines


def _draft_items(shown: ShownRound) -> list[list[Run]]:
    """Render the drafted tokens, each by its outcome; the one under the cursor stands out."""
    drafted, items = shown.round, []
    for place, token in enumerate(drafted.drafted):
        is_rejected = place == drafted.accepted and drafted.corrected is not None
        if shown.at == drafted.begin + place and place <= drafted.accepted:
            ink = _HERE._replace(strike=is_rejected)
        elif place < drafted.accepted:
            ink = _ACCEPTED
        else:
            ink = TEXT if drafted.corrected is None else REJECTED if is_rejected else _DROPPED  # not decided, or so
        items.append([(show_piece(token.text), ink)])
    return items


def _correction_runs(shown: ShownRound) -> list[list[Run]]:
    """Render the rejected token and the one in its place, with both probabilities if they are on record."""
    drafted, token = shown.round, shown.ending
    if drafted.bonus is not None:
        return [[(show_piece(drafted.bonus.text), STRONG), (" is drawn from the last row", MUTED)]]
    if drafted.corrected is None:
        return []
    rejected, taken = drafted.drafted[drafted.accepted], show_piece(drafted.corrected.text)
    if token is None:
        return [[(show_piece(rejected.text), REJECTED), (" → ", MUTED), (taken, STRONG)]]
    rows: list[list[Run]] = []
    for text, (model, after), ink, numbers in (
        ("", ("model", "after"), MUTED, MUTED),
        (show_piece(rejected.text), _read_shares(rejected, token), REJECTED, MUTED),
        (taken, _read_shares(None, token), STRONG, TEXT),
    ):
        word = (column(text, _WORD).rstrip(), ink)
        rows.append([word, (" " * (_WORD - length([word])), TEXT), (f"{model:>8}  {after:>7}", numbers)])
    return rows


def _read_shares(rejected: DraftToken | None, token: Token) -> tuple[str, str]:
    """Probabilities, by the model and after the chain, of the drawn token, or of the one `rejected` for it."""
    if rejected is None:
        return percent(math.exp(token.logprob)), percent(token.probability)
    candidate = next((one for one in token.candidates if one.id == rejected.id), None)
    if candidate is None:
        return "–", "–"
    cut = candidate.removed_by
    return percent(math.exp(candidate.logprob)), loss_of(cut) if cut is not None else percent(candidate.probability)


def _count_noun(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _format_ms(us: float) -> str:
    return f"{us / 1000:.2f} ms" if us < 1000 else f"{us / 1000:.1f} ms"
