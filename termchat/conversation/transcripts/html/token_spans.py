"""The tokens of a reply on the page: what is shown of them, and the data that the script shows of one."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from html import escape
from itertools import groupby

from termchat.conversation.heat import Heats, MeasureName
from termchat.conversation.setting_changes import Piece
from termchat.conversation.transcripts.transcript import Records
from termchat.conversation.tree import Node
from termchat.decoding.draft_figures import round_at
from termchat.decoding.records import UNKNOWN, Candidate, Token, is_taken
from termchat.decoding.stages import TEMPERATURE, loss_of
from termchat.text import sanitize, show_piece

SHOWN: tuple[MeasureName, ...] = ("probability", "after", "entropy", "rank")
"""The measures whose heat the page can show."""

HEATS = 8
"""Steps of heat; the style sheet has a colour for each."""

CANDIDATES = 10
"""The most that the page holds of a step; the transcript in JSON Lines holds all."""


def escape_text(foreign: str) -> str:
    """Return foreign text as the page shows it, its line breaks kept."""
    return escape(sanitize(foreign.replace("\r\n", "\n")))


def write_spans(piece: Piece, shown: int, forks: Mapping[int, str]) -> Iterator[str]:
    """Yield the text of a whole piece of a reply, token by token, with its marks and where other branches begin (`forks`, by
    the number of tokens before). What a path that takes only `shown` of its ids does not reach is hidden.

    A token that shows nothing (half a character, a stop sequence, the end) is there without text.
    """
    node, tokens = piece.span.node, piece.span.node.tokens
    reach = len(tokens) if shown >= node.count_kept() else shown
    marks = {at: [mark for _, mark in group] for at, group in groupby(piece.marks, key=lambda mark: mark[0])}
    heats = [Heats(name, HEATS - 1).compute_heats(tokens) for name in SHOWN]
    letters = [name[0] for name in SHOWN]
    chosen = " s" if tokens.searched else " f"
    for at, said in enumerate(tokens.texts):
        hidden = "" if at < reach else " hidden"
        if at in forks:
            beyond = "" if at <= reach else " hidden"
            yield f'<button type="button" class="mark fork" data-at="{at}"{beyond}>{escape_text(forks[at])}</button>'
        yield from (
            f'<span class="mark" data-n="{at}"{hidden}>{escape_text(mark)}</span>' for mark in marks.pop(at, ())
        )
        heat = " ".join(f"{letter}{column[at]}" for letter, column in zip(letters, heats, strict=True))
        kind = chosen * bool(tokens.forced[at]) + " th" * (at < tokens.thought)
        yield f'<span class="t {heat}{kind}" data-n="{at}"{hidden}>{escape_text(said)}</span>'
    hidden = "" if shown >= len(tokens) else " hidden"
    for at, left in marks.items():
        yield from (f'<span class="mark" data-n="{at}"{hidden}>{escape_text(mark)}</span>' for mark in left)
    if node.pending:
        yield f'<span class="rest"{hidden}>{escape_text(node.pending)}</span>'


def write_data(node: Node, records: Records) -> Iterator[str]:
    """Yield the data of each token of a node, as a JSON array in a block that no browser runs, a line each.

    A token: id, bytes (hexadecimal), shown text, logprob, rank, probability, entropy, p_end, decode_us, sample_us,
    candidates, round, the mass of the tokens that its engine did not list (0: none); null is what it did not tell. A
    candidate: id, shown text, the model's probability, that after the chain, what removed it or 0. The round of
    drafting that the token came out of: its place there from 0 on, who drafted, the shown texts of what was drafted, how
    many of them were accepted, microseconds of the draft and of the pass; 0 for a token decoded alone.
    """
    if not len(node.tokens):
        return
    yield f'<script type="application/json" id="data-{node.number}">['
    index = 0
    for record in records(node.number):
        if isinstance(record, Token):
            yield ("," if index else "") + write_block(
                [*_token_data(record), _pack_round(node, index), _shorten_number(record.unlisted) or 0]
            )
            index += 1
    yield "]</script>"


def _token_data(token: Token) -> list[object]:
    most = [*token.candidates[:CANDIDATES]]
    if not any(is_taken(candidate, token) for candidate in most):
        most += [candidate for candidate in token.candidates[CANDIDATES:] if is_taken(candidate, token)]
    rank = None if token.rank == UNKNOWN else token.rank
    return [
        None if token.id == UNKNOWN else token.id,
        token.bytes.hex(" "),
        show_piece(token.bytes.decode("utf-8", "replace")),
        *map(_shorten_number, (token.logprob, rank, token.probability, token.entropy, token.p_end)),
        token.decode_us,
        token.sample_us,
        [_candidate_data(candidate) for candidate in most],
    ]


def _pack_round(node: Node, index: int) -> list[object] | int:
    made = round_at(node.tokens, index) if node.tokens.drafts is not None and index < len(node.tokens) else None
    if made is None:
        return 0
    drafted = [show_piece(token.text) for token in made.drafted]
    return [index - made.begin, show_piece(made.by), drafted, made.accepted, made.us, made.decode_us]


def _candidate_data(candidate: Candidate) -> list[object]:
    share = math.exp(min(candidate.logprob, 0.0)) if math.isfinite(candidate.logprob) else None
    stage = candidate.removed_by
    removed = loss_of(stage) if stage == TEMPERATURE else sanitize(stage, keep="") if stage else 0
    return [
        candidate.id,
        show_piece(candidate.text),
        _shorten_number(share),
        _shorten_number(candidate.probability),
        removed,
    ]


def _shorten_number(number: float | None) -> float | None:
    """Round to four significant digits; None for NaN, which JSON does not have."""
    short = float(f"{number:.4g}") if number is not None else math.nan
    return short if math.isfinite(short) else None  # the largest of all round up to what is none


def write_block(value: object) -> str:
    """Return JSON that cannot close the script element it is in."""
    shown = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return shown.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
