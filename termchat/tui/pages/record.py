"""One step of the loop: what the model said, what the chain left of it, what the dice took, and how long that was.

`step_lines` are its numbers and its distribution, which say which time they show: the token as it was recorded, or the same
place with the knobs as they are now.
`sentence_lines` are the text around it, so that no view hides the sentence whose tokens it explains.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from termchat.conversation.tree import Conversation, Node, Span
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
    flowing,
    format_known,
    format_p_end,
    mark_bound,
    percent,
    prose,
)
from termchat.tui.draw.wrap import wrap_runs
from termchat.tui.keys.tables import name_of
from termchat.tui.pages.candidates import Rolls, can_roll, candidate_table, compute_missing, next_size
from termchat.tui.pages.scene import HERE, first_in_view, index_of, texts_between
from termchat.tui.transcript.tokens import TokenRef

if TYPE_CHECKING:
    from termchat.tui.pages.drafts import ShownRound

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

_BLOCK = 64
"""Text begins at a multiple of so many tokens, one to two before the token: the lines stay while the cursor moves."""
_MOST = 2000
"""Characters that are wrapped on either side, at most: a token of an imported chat may be a page."""


class Shown(NamedTuple):
    """A step to show: its record, its kind ("TOKEN", "PENDING" …), the time it is of, a word on its source.

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
    """Make the record of a reply's token from memory: all but stages, candidates, position and noise. `step` counts from the
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
    """Return the knobs of the settings record with that number."""
    return next((settings.samplers for settings in node.settings if settings.number == number), None)


def piece_of(token: Token) -> str:
    """Show a token as a list does, by its bytes: the text of half a character comes only with its other half. A control token
    has none, but a name."""
    name = next((candidate.text for candidate in token.candidates if is_taken(candidate, token)), "")
    return show_piece(token.bytes.decode("utf-8", "replace") or name)


def label_values(*texts: str) -> list[Run]:
    """Render names and values, by turns."""
    return [(text, TEXT if at % 2 else MUTED) for at, text in enumerate(texts)]


# --- numbers ---------------------------------------------------------------------------------------------------------


def step_lines(
    shown: Shown,
    width: int,
    rows: int,
    *,
    facts: bool = True,
    bars: bool = False,
    numbered: bool = True,
    rolls: Rolls | None = None,
) -> list[Line]:
    """Render a step: its numbers and settings, the candidates, what each stage left of them, and with `bars` rolls of the dice.
    Without `facts` the first two are left out; with `bars` the numbers are shown only if all candidates have room, too."""
    token = shown.token
    title = [*_render_title(shown, width), *(prose(_NEAR_TIE, width, Ink("stamp")) if token.near_tie else [])]
    gap = [BLANK] if rows >= ROOMY else []
    room = rows - len(title) - 2 * len(gap) - 1 - bars
    blocks: list[list[Line]] = []
    for items, before in (
        (_list_rolls(shown, rolls) if bars else [], _LEAST),
        (_list_stages(token), _LEAST),
        (_list_settings(shown) if facts else [], _LEAST),
        (_list_facts(shown) if facts else [], len(token.candidates) if bars else _LEAST),
    ):
        lines = flowing(items, width)
        blocks.append(lines if len(lines) <= room - before else [])
        room -= len(blocks[-1])
    rolled, stages, settings, numbers = blocks
    if token.candidates:
        table = candidate_table(
            token, [] if bars else [("CANDIDATES", TITLE)], width, max(room, _LEAST) + bars, numbered=numbered, bars=bars,
            rolled=rolls if can_roll(token) else None,
        )  # fmt: skip
    else:
        why = _NONE_TOLD if token.id == UNKNOWN else _UNRECORDED.format(name_of("ask-again"))
        table = prose(why, width, MUTED)
    return [*title, *numbers, *settings, *gap, *table, *gap, *stages, *rolled]


def _render_title(shown: Shown, width: int) -> list[Line]:
    """Render the token and the time it is of, and the draft of its step."""
    token = shown.token
    head = f"{shown.what} {token.step} "
    is_drawn = token.id != UNKNOWN or token.bytes  # else a server would draw, and only tells from what
    piece = one_line(piece_of(token), max(width - len(head), 4)) if is_drawn else ""
    items: list[list[Run]] = [[(head, TITLE if shown.time == AS_RECORDED else _STAMP), (piece, STRONG)]]
    notes = [shown.time, shown.note, "forced" if token.forced else ""]
    items += [[(one_line(note, width), MUTED if note == AS_RECORDED else Ink("stamp"))] for note in notes if note]
    if shown.round is None:
        return flowing(items, width)
    from termchat.tui.pages.drafts import drafted_lines  # not needed before the first frame

    return [*flowing(items, width), *drafted_lines(shown.round, width)]


def _list_facts(shown: Shown) -> list[list[Run]]:
    token = shown.token
    data = token.bytes[:_LONGEST].hex(" ") + (" …" if len(token.bytes) > _LONGEST else "")
    noise = next((candidate.noise for candidate in token.candidates if is_taken(candidate, token)), math.nan)
    numbers: list[tuple[str, float, str]] = [
        ("rank", math.nan if token.rank == UNKNOWN else token.rank, str(token.rank + 1)),
        ("model", token.logprob, percent(math.exp(token.logprob))),
        ("after", token.probability, percent(token.probability)),
        ("entropy", token.entropy, f"{mark_bound(token.entropy, token.unlisted)}{token.entropy:.2f} bit"),
        ("p(end)", token.p_end, format_p_end(token.p_end, token.unlisted)),
        ("dice", noise, format_known(noise, "+.2f")),
        ("margin", math.nan if token.margin is None else token.margin, f"{token.margin or 0:.2f} nats"),
    ]
    facts = [(name, text) for name, value, text in numbers if not math.isnan(value)]
    if token.decode_us:
        rows = f", {1 + len(token.draft.tokens)} rows" if token.draft is not None else ""
        facts.append(("decode", f"{token.decode_us / 1000:.1f} ms{rows}"))
    if token.sample_us:  # not of a token that is not taken yet, nor of one that was only asked about
        facts.append(("sample", f"{token.sample_us / 1000:.2f} ms"))
    if token.id != UNKNOWN:
        facts.append(("id", str(token.id)))
    facts.append(("bytes", data or "none"))
    if token.position >= 0:
        facts.append(("position", str(token.position)))
    facts += [(name, f"{value:.2f}") for name, value in token.state.items() if name != TAIL]
    if token.unlisted:
        facts.append(("not listed", percent(token.unlisted, 2)))
    for stage in [stage for stage in token.stages if stage.name == GRAMMAR][:1]:
        facts.append((GRAMMAR, f"allowed {stage.survivors:,}"))
        facts += [("removed", percent(stage.removed_mass))] if stage.removed_mass is not None else []
        facts += [(GRAMMAR, "forced")] if stage.forced else []
    return [label_values(f"{name} ", value) for name, value in facts]


def _list_stages(token: Token) -> list[list[Run]]:
    """List each stage with its survivors; stages that cut tokens stand out."""
    items: list[list[Run]] = [[("LEFT AFTER", TITLE)]] if token.stages else []
    before = max((stage.survivors for stage in token.stages), default=0)
    for stage in token.stages:
        items.append([(f"{stage.name} ", MUTED), (str(stage.survivors), STRONG if stage.survivors < before else MUTED)])
        before = stage.survivors
    return items


def _list_settings(shown: Shown) -> list[list[Run]]:
    """List the knobs that did something, as the chain panel writes them, and the seed."""
    if shown.samplers is None:
        return []
    items: list[list[Run]] = [[("SETTINGS", TITLE)]]
    for stage in STAGES.values():
        for knob in map(KNOBS.__getitem__, stage.knobs):
            value = getattr(shown.samplers, knob.name)
            if knob.always or (stage.is_active(shown.samplers) and not knob.is_off(value)):
                items.append(label_values(f"{knob.label} ", knob.show(value)))
    return [*items, label_values("seed ", str(shown.seed))] if shown.seed is not None else items


def _list_rolls(shown: Shown, rolls: Rolls | None) -> list[list[Run]]:
    """List the rolls with their seeds, and the key that rolls or rolls more."""
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
    facts = label_values("seeds ", f"{rolls.first} to {rolls.first + rolls.n - 1}")
    if len(left) == 1 and not compute_missing(left):
        greedy = shown.samplers is not None and shown.samplers.temperature <= 0
        why = "temperature 0 leaves one token" if greedy else "one token was left"
        facts = [(f"nothing was random: {why}", STRONG)]
    return [[(f"{rolls.n:,} ROLLS", TITLE)], facts, more]


# --- the text around it ----------------------------------------------------------------------------------------------


def sentence_lines(
    conversation: Conversation,
    reply: Sequence[Span],
    cursor: TokenRef | None,
    pending: Token | None,
    width: int,
    rows: int,
) -> list[Line]:
    """Render `rows` lines of the reply around the token under the cursor, the newest without one, or the one that is
    `pending` behind it. The token has marks around it. The cost does not depend on the length of the reply."""
    count, here = sum(span.count for span in reply), index_of(reply, cursor)
    at = count if pending is not None else count - 1 if here is None else here
    begin, runs = max((at // _BLOCK - 1) * _BLOCK, 0), list[Run]()
    number = reply[0].node.parent if reply else conversation.leaf
    if begin == 0 and number is not None:
        message = conversation.nodes[number].written + ("" if conversation.raw else "\n")
        runs.append((message[-_MOST:], MUTED))
    runs.append(("".join(texts_between(reply, begin, at))[-_MOST:], TEXT))
    if pending is not None or count:
        text = "".join(texts_between(reply, at, at + 1)) if pending is None else pending.text or piece_of(pending)
        word = text.strip()
        before, after = text.split(word, 1) if word else ("", text)  # spaces and line breaks stay outside of the marks
        following = "".join(texts_between(reply, at + 1, at + 2 * _BLOCK))[:_MOST]
        runs += [(before, TEXT), (f"▐{word or ('⏎' if text else '∅')}▌", HERE), (after + following, TEXT)]
    lines = wrap_runs(runs, width)
    middle = next((row for row, line in enumerate(lines) if any(ink == HERE for _, ink in line.runs)), len(lines) - 1)
    first = first_in_view(middle, len(lines), rows)
    shown = lines[first : first + rows]
    return shown + [BLANK] * (rows - len(shown))
