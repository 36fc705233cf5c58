"""The record of one token: what the model said, what the chain left of it, what the dice took, and how long that was."""

from __future__ import annotations

from typing import NamedTuple

from termchat.conversation.tree import Node
from termchat.decoding.records import Token
from termchat.decoding.samplers import KNOBS, SamplerSettings
from termchat.decoding.stages import STAGES
from termchat.text import one_line, show_piece
from termchat.tui.draw.ink import BLANK, Ink, Line, Run
from termchat.tui.draw.marks import (
    MUTED,
    ROOMY,
    STRONG,
    TEXT,
    TITLE,
    column,
    flowing,
    length,
    percent,
    prose,
    signed,
    spread,
)
from termchat.tui.keys.tables import name_of
from termchat.tui.panels.candidates import candidate_table

_UNRECORDED = "No candidates were recorded for this token; {} asks the model for them."
_STAMP = Ink("stamp", bold=True)
_LONGEST = 4
"""Bytes of a token that are written out."""


class Shown(NamedTuple):
    """A step to look at: its record, what it is ("TOKEN", "PENDING" …), a word on where it comes from, and its settings.

    `pending`: it is not taken yet.
    """

    token: Token
    what: str = "TOKEN"
    note: str = ""
    samplers: SamplerSettings | None = None
    pending: bool = False


def from_columns(node: Node, index: int, step: int) -> Token:
    """What memory holds of a reply's token: all but its stages, candidates, position and the noise. `step` counts from the
    reply's first token, `index` from its piece's."""
    tokens = node.tokens
    begin = tokens.ends[index - 1] if index else 0
    return Token(
        step=step, position=-1, id=tokens.ids[index], bytes=bytes(tokens.data[begin : tokens.ends[index]]),
        text=tokens.texts[index], logit=tokens.logits[index], logprob=tokens.logprobs[index], rank=tokens.ranks[index],
        probability=tokens.probabilities[index], entropy=tokens.entropies[index], p_end=tokens.p_ends[index],
        settings=tokens.settings[index], forced=bool(tokens.forced[index]), stages=[], candidates=[], state={},
        decode_us=tokens.decode_us[index], sample_us=tokens.sample_us[index],
    )  # fmt: skip


def record_lines(shown: Shown, width: int, rows: int) -> list[Line]:
    """The facts, the stages, then as many candidates as fit."""
    token = shown.token
    gap = [BLANK] if rows >= ROOMY else []
    stages = flowing(_stages(token), width)
    settings = flowing(_settings(shown.samplers), width) if shown.samplers is not None else []
    lines = [Line(_title(shown, width)), *flowing(_facts(shown), width)]
    lines += [*(gap if stages else []), *stages, *(gap if settings else []), *settings, *gap]
    if not token.candidates:
        return [*lines, *prose(_UNRECORDED.format(name_of("ask-again")), width, MUTED)]
    title: list[Run] = [("CANDIDATES", TITLE)]
    return lines + candidate_table(token, title, width, max(rows - len(lines) - 1, 3), numbered=True)


def piece_of(token: Token) -> str:
    """The token as a list shows it, by its bytes: the text of half a character comes only with its other half. A control token
    has none, but a name."""
    name = next((candidate.text for candidate in token.candidates if candidate.id == token.id), "")
    return show_piece(token.bytes.decode("utf-8", "replace") or name)


def _title(shown: Shown, width: int) -> tuple[Run, ...]:
    token = shown.token
    ink = _STAMP if shown.pending or shown.note else TITLE
    left: list[Run] = [(f"{shown.what} {token.step} ", ink)]
    note = one_line(" · ".join(filter(None, (shown.note, "forced" if token.forced else ""))), width // 2)
    right: list[Run] = [(f" {note}", Ink("stamp"))] if note else []
    room = width - length([*left, *right]) - 1
    return spread([*left, (column(piece_of(token), max(room, 4)).rstrip(), STRONG)], right, width)


def _facts(shown: Shown) -> list[list[Run]]:
    token = shown.token
    data = token.bytes[:_LONGEST].hex(" ") + (" …" if len(token.bytes) > _LONGEST else "")
    noise = next((candidate.noise for candidate in token.candidates if candidate.id == token.id), None)
    facts: list[tuple[str, str]] = [
        ("rank", str(token.rank)),
        ("after", percent(token.probability)),
        ("entropy", f"{token.entropy:.2f} bit"),
        ("p(end)", percent(token.p_end, 2)),
    ]
    if noise is not None:
        facts.append(("dice", signed(noise)))
    if token.decode_us:
        facts.append(("decode", f"{token.decode_us / 1000:.1f} ms"))
    if token.sample_us:  # not of a token that is not taken yet, nor of one that was only asked about
        facts.append(("sample", f"{token.sample_us / 1000:.2f} ms"))
    facts += [("id", str(token.id)), ("bytes", data or "none")]
    if token.position >= 0:
        facts.append(("position", str(token.position)))
    facts += [(name, f"{value:.2f}") for name, value in token.state.items()]
    return [[(name + " ", MUTED), (value, TEXT)] for name, value in facts]


def _stages(token: Token) -> list[list[Run]]:
    """Each stage and how many tokens it left; those that cut something stand out."""
    items: list[list[Run]] = []
    before = max((stage.survivors for stage in token.stages), default=0)
    for stage in token.stages:
        cut = stage.survivors < before
        items.append([(stage.name + " ", MUTED), (str(stage.survivors), STRONG if cut else MUTED)])
        before = stage.survivors
    return [[("STAGES", TITLE)], *items] if items else []


def _settings(samplers: SamplerSettings) -> list[list[Run]]:
    """The knobs that did something, as the chain panel writes them."""
    items: list[list[Run]] = [[("DRAWN WITH", TITLE)]]
    for stage in STAGES.values():
        for knob in map(KNOBS.__getitem__, stage.knobs):
            value = getattr(samplers, knob.name)
            if knob.always or (stage.active(samplers) and not knob.is_off(value)):
                items.append([(knob.label + " ", MUTED), (knob.show(value), TEXT)])
    return items
