"""Replies with drafts on a fake engine: rounds of speculation, and tokens decoded alone between them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from termchat.conversation.tree import Node
from termchat.decoding.records import Candidate, Draft, DraftToken
from tests.tui.fake_engine import FakeEngine
from tests.tui.transcripts import token

ROW_US, ROUND_US = 6_000, 15_000
"""What a row alone takes to decode, and a round."""
TAKEN, OTHER = (0.44, 0.62), (0.09, 0.12)
"""The probability of a token that is taken, by the model and after the chain, and of one that is rejected."""


def say_plain(engine: FakeEngine, *pieces: str) -> None:
    """Tokens for which nothing was drafted."""
    for piece in pieces:
        engine.say(piece, **_fields(engine, piece), decode_us=ROW_US)


def say_round(
    engine: FakeEngine, drafted: Sequence[str], taken: Sequence[str], *, by: str = "ngram", us: int = 90
) -> None:
    """A round: what was `drafted`, and the tokens that were `taken` one after the other, as many as are drawn by now."""
    for at, piece in enumerate(taken):
        engine.say(piece, **fields_in_round(engine, drafted, at, piece, by=by, us=us))


def fields_in_round(
    engine: FakeEngine, drafted: Sequence[str], at: int, piece: str, *, by: str = "ngram", us: int = 90
) -> dict[str, object]:
    """Those of the token that is drawn as number `at` of a round."""
    draft = None
    if at < len(drafted):
        tokens = [DraftToken(_id(engine, name), name) for name in (drafted if at == 0 else drafted[at : at + 1])]
        draft = Draft(by, drafted[at] == piece, tokens, us if at == 0 else 0)
    rejected = "" if draft is None or draft.accepted else drafted[at]
    return _fields(engine, piece, rejected) | {"draft": draft, "decode_us": 0 if at else ROUND_US}


def say_story(engine: FakeEngine) -> None:
    """Two rounds, one with a rejected token and one that was accepted as a whole, and plain tokens around them."""
    say_plain(engine, " Once", " the", " old", " bear", " slept", ".", " Then")
    say_round(engine, (" the", " old", " bear", " slept", "."), (" the", " old", " bear", " woke"))
    say_plain(engine, " and", " saw", " that")
    say_round(engine, (" the", " old"), (" the", " old", " fox"))
    say_plain(engine, " had", " gone", ".")


def _id(engine: FakeEngine, piece: str) -> int:
    return engine.words.ids(piece)[0]


def _fields(engine: FakeEngine, piece: str, rejected: str = "") -> dict[str, object]:
    """Of the token that was taken, and the rejected one, if any, behind it."""
    shares = [(piece, *TAKEN, None), (rejected, *OTHER, None), (" hungry", 0.03, 0.0, "min_p")]
    candidates = [
        Candidate(_id(engine, text), text, 18.0 - at, math.log(model), after, 0.5 - at, removed)
        for at, (text, model, after, removed) in enumerate(shares)
        if text
    ]
    of = {"id": _id(engine, piece), "logprob": math.log(TAKEN[0]), "probability": TAKEN[1]}
    return {**of, "candidates": candidates, "sample_us": 0}


def drafted(node: Node, count: int) -> None:
    """Adds tokens: two that were accepted, one that was taken instead of a drafted one, and one decoded alone, in turn."""
    for _ in range(count):
        at = len(node.tokens)
        name = DraftToken(at if at % 4 < 2 else 9999, " owl")
        draft = Draft("ngram", at % 4 < 2, [name]) if at % 4 < 3 else None
        node.add(msgspec.structs.replace(token(at, " fox"), draft=draft))
