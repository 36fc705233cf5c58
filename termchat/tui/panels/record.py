"""One step of the loop: what the model said, what the chain left of it, what the dice took, and how long that was.

`record_lines` are all its numbers; `step_lines` its distribution in bars, for the page of the next token and for the large
view. Both say which time they show: the token as it was recorded, or the same place with the knobs as they are now.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from termchat.conversation.tree import Node
from termchat.decoding.constraint import GRAMMAR
from termchat.decoding.records import TAIL, UNKNOWN, Token, is_taken
from termchat.decoding.samplers import KNOBS, SamplerSettings
from termchat.decoding.stages import STAGES
from termchat.text import one_line, show_piece
from termchat.tui.draw.ink import BLANK, Ink, Line, Run
from termchat.tui.draw.marks import (
    ACCENT,
    MUTED,
    ROOMY,
    STRONG,
    TEXT,
    TITLE,
    at_most,
    flowing,
    p_end_of,
    percent,
    prose,
    signed,
)
from termchat.tui.keys.tables import name_of
from termchat.tui.panels.candidates import candidate_table
from termchat.tui.panels.rolls import Rolls, can_roll, missing, next_size
from termchat.tui.speculation.round_lines import ShownRound, drafted_lines

AS_RECORDED = "as recorded"
WITH_KNOBS = "with the current knobs"
ORIGINAL = "with its original settings"

_NEAR_TIE = "Near tie: with a different number of threads or batch size, a different token may win."
_NONE_TOLD = "The server told no candidates for this text."
_UNRECORDED = "No candidates were recorded for this token; {} asks the model for them."
_STAMP = Ink("stamp", bold=True)
_LONGEST = 4
"""Bytes of a token that are written out."""
_LEAST = 3
"""Candidates that are shown, however little room there is."""


class Shown(NamedTuple):
    """A step to look at: its record, what it is ("TOKEN", "PENDING" …), which time it is of, a word on where it comes from.

    `now`: it is what the knobs make of it as they are, so that what they left may stand beside them. `pending`: it is not taken
    yet. `samplers` and `seed` are what it was drawn with, as far as known; `node` is the piece of the reply that it is in.
    `round` is the round of drafting that it came out of.
    """

    token: Token
    what: str = "TOKEN"
    time: str = AS_RECORDED
    note: str = ""
    samplers: SamplerSettings | None = None
    now: bool = False
    pending: bool = False
    seed: int | None = None
    node: int = 0
    round: ShownRound | None = None


def from_columns(node: Node, index: int, step: int) -> Token:
    """What memory holds of a reply's token: all but its stages, candidates, position and the noise. `step` counts from the
    reply's first token, `index` from its piece's."""
    tokens = node.tokens
    begin = tokens.ends[index - 1] if index else 0
    return Token(
        step=step, position=-1, id=tokens.ids[index], bytes=bytes(tokens.data[begin : tokens.ends[index]]),
        text=tokens.texts[index], logit=tokens.logits[index], logprob=tokens.logprobs[index], rank=tokens.ranks[index],
        probability=tokens.probabilities[index], entropy=tokens.entropies[index], p_end=tokens.p_ends[index],
        settings=tokens.settings[index], forced=bool(tokens.forced[index]), stages=[], candidates=[],
        state=tokens.states.get(index, {}), decode_us=tokens.decode_us[index], sample_us=tokens.sample_us[index],
        draft=tokens.find_draft(index), margin=None if math.isnan(tokens.margins[index]) else tokens.margins[index],
        near_tie=None if tokens.near_ties[index] == UNKNOWN else bool(tokens.near_ties[index]),
    )  # fmt: skip


def settings_of(node: Node, number: int) -> SamplerSettings | None:
    """The knobs of the settings record with that number."""
    return next((settings.samplers for settings in node.settings if settings.number == number), None)


def record_lines(shown: Shown, width: int, rows: int) -> list[Line]:
    """The facts, the stages, then as many candidates as fit."""
    token = shown.token
    gap = [BLANK] if rows >= ROOMY else []
    stages, settings = flowing(_stages(token), width), flowing(_settings(shown), width)
    lines = [*_title(shown, width), *_drafted(shown, width), *flowing(_facts(shown), width), *_near_tie(token, width)]
    lines += [*(gap if stages else []), *stages, *(gap if settings else []), *settings, *gap]
    if not token.candidates:
        return [*lines, *_unrecorded(token, width)]
    title: list[Run] = [("CANDIDATES", TITLE)]
    return lines + candidate_table(token, title, width, max(rows - len(lines) - 1, _LEAST), numbered=True)


def step_lines(shown: Shown, rolls: Rolls | None, width: int, rows: int, *, large: bool, numbered: bool) -> list[Line]:
    """The distribution: candidates with bars, all others, what each stage left, and rolls of the dice. `large`: with the facts
    that are not in the table."""
    token = shown.token
    title = [*_title(shown, width), *_drafted(shown, width), *_near_tie(token, width)]
    if not token.candidates:
        return [*title, *_unrecorded(token, width)]
    gap = [BLANK] if rows >= ROOMY else []
    room = rows - len(title) - 2 * len(gap) - 2
    blocks: list[list[Line]] = []
    for items, before in (
        (_rolls(shown, rolls), _LEAST),
        (_stages(token), _LEAST),
        (_settings(shown) if large else [], _LEAST),
        (_facts(shown) if large else [], len(token.candidates)),  # only where all candidates have room
    ):
        lines = flowing(items, width)
        blocks.append(lines if len(lines) <= room - before else [])
        room -= len(blocks[-1])
    rolled, stages, settings, facts = blocks
    counts = rolls.of(token) if rolls is not None and can_roll(token) else None
    table = candidate_table(token, [], width, max(room, _LEAST) + 1, numbered=numbered, bars=True, rolled=counts)
    return [*title, *settings, *facts, *gap, *table, *gap, *stages, *rolled]


def piece_of(token: Token) -> str:
    """The token as a list shows it, by its bytes: the text of half a character comes only with its other half. A control token
    has none, but a name."""
    name = next((candidate.text for candidate in token.candidates if is_taken(candidate, token)), "")
    return show_piece(token.bytes.decode("utf-8", "replace") or name)


def _title(shown: Shown, width: int) -> list[Line]:
    token = shown.token
    ink = TITLE if shown.time == AS_RECORDED else _STAMP
    head = f"{shown.what} {token.step} "
    is_drawn = token.id != UNKNOWN or token.bytes  # else a server would draw, and only tells from what
    piece = one_line(piece_of(token), max(width - len(head), 4)) if is_drawn else ""
    items: list[list[Run]] = [[(head, ink), (piece, STRONG)]]
    notes = [shown.time, shown.note, "forced" if token.forced else ""]
    items += [[(one_line(note, width), MUTED if note == AS_RECORDED else Ink("stamp"))] for note in notes if note]
    return flowing(items, width)


def _drafted(shown: Shown, width: int) -> list[Line]:
    """What was drafted for the step, and what was taken instead."""
    return drafted_lines(shown.round, width) if shown.round is not None else []


def _near_tie(token: Token, width: int) -> list[Line]:
    return prose(_NEAR_TIE, width, Ink("stamp")) if token.near_tie else []


def _unrecorded(token: Token, width: int) -> list[Line]:
    if token.id == UNKNOWN:
        return prose(_NONE_TOLD, width, MUTED)
    return prose(_UNRECORDED.format(name_of("ask-again")), width, MUTED)


def _facts(shown: Shown) -> list[list[Run]]:
    token = shown.token
    data = token.bytes[:_LONGEST].hex(" ") + (" …" if len(token.bytes) > _LONGEST else "")
    noise = next((candidate.noise for candidate in token.candidates if is_taken(candidate, token)), math.nan)
    numbers: list[tuple[str, float, str]] = [
        ("rank", math.nan if token.rank == UNKNOWN else token.rank, str(token.rank + 1)),
        ("model", token.logprob, percent(math.exp(token.logprob))),
        ("after", token.probability, percent(token.probability)),
        ("entropy", token.entropy, f"{at_most(token.entropy, token.unlisted)}{token.entropy:.2f} bit"),
        ("p(end)", token.p_end, p_end_of(token.p_end, token.unlisted)),
        ("dice", noise, signed(noise)),
        ("margin", math.nan if token.margin is None else token.margin, f"{token.margin or 0:.2f} nats"),
    ]
    facts = [(name, text) for name, value, text in numbers if not math.isnan(value)]
    if token.decode_us:
        rows = f", {1 + len(token.draft.tokens)} rows" if token.draft is not None else ""
        facts.append(("decode", f"{token.decode_us / 1000:.1f} ms{rows}"))
    if token.sample_us:  # not of a token that is not taken yet, nor of one that was only asked about
        facts.append(("sample", f"{token.sample_us / 1000:.2f} ms"))
    facts += [("id", str(token.id))] if token.id != UNKNOWN else []
    facts.append(("bytes", data or "none"))
    if token.position >= 0:
        facts.append(("position", str(token.position)))
    facts += [(name, f"{value:.2f}") for name, value in token.state.items() if name != TAIL]
    if token.unlisted:
        facts.append(("not listed", percent(token.unlisted, 2)))
    if (grammar := next((stage for stage in token.stages if stage.name == GRAMMAR), None)) is not None:
        facts.append((GRAMMAR, f"allowed {grammar.survivors:,}"))
        if grammar.removed_mass is not None:
            facts.append(("removed", percent(grammar.removed_mass)))
        if grammar.forced:
            facts.append((GRAMMAR, "forced"))
    return [[(name + " ", MUTED), (value, TEXT)] for name, value in facts]


def _stages(token: Token) -> list[list[Run]]:
    """Each stage and how many tokens it left; those that cut something stand out."""
    items: list[list[Run]] = []
    before = max((stage.survivors for stage in token.stages), default=0)
    for stage in token.stages:
        cut = stage.survivors < before
        items.append([(stage.name + " ", MUTED), (str(stage.survivors), STRONG if cut else MUTED)])
        before = stage.survivors
    return [[("LEFT AFTER", TITLE)], *items] if items else []


def _settings(shown: Shown) -> list[list[Run]]:
    """The knobs that did something, as the chain panel writes them, and the seed."""
    if shown.samplers is None:
        return []
    items: list[list[Run]] = [[("SETTINGS", TITLE)]]
    for stage in STAGES.values():
        for knob in map(KNOBS.__getitem__, stage.knobs):
            value = getattr(shown.samplers, knob.name)
            if knob.always or (stage.is_active(shown.samplers) and not knob.is_off(value)):
                items.append([(knob.label + " ", MUTED), (knob.show(value), TEXT)])
    return [*items, [("seed ", MUTED), (str(shown.seed), TEXT)]] if shown.seed is not None else items


def _rolls(shown: Shown, rolls: Rolls | None) -> list[list[Run]]:
    """What was rolled with which seeds, and the key that rolls or rolls more."""
    if not can_roll(shown.token):
        return []
    size = next_size(rolls.n if rolls is not None else 0)
    more: list[Run] = [
        (name_of("roll") or "/roll", ACCENT._replace(does="roll")),
        (f" rolls the dice {size:,} times", MUTED._replace(does="roll")),
    ]
    if rolls is None:
        return [more]
    left = [candidate.probability for candidate in shown.token.candidates if candidate.probability > 0]
    said: list[Run] = [("seeds ", MUTED), (f"{rolls.first} to {rolls.first + rolls.n - 1}", TEXT)]
    if len(left) == 1 and not missing(left):
        greedy = shown.samplers is not None and shown.samplers.temperature <= 0
        why = "temperature 0 leaves one token" if greedy else "one token was left"
        said = [(f"nothing was random: {why}", STRONG)]
    return [[(f"{rolls.n:,} ROLLS", TITLE)], said, more]
