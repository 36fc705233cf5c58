"""Why two replies with the same dice part, on the model: against the numbers of their records, computed directly."""

from __future__ import annotations

import math

import pytest

from termchat.decoding.parting import Divergence, find_parting
from termchat.decoding.records import Token
from termchat.decoding.samplers import Tuning
from termchat.engine.llama.model_session import ModelSession
from termchat.text import percent
from tests.engine.conftest import prompt, records, request, tokens

OPEN = Tuning(temperature=1, top_k=0, top_p=1, min_p=0, max_tokens=24)


def replies(session: ModelSession, tuning: Tuning, seed: int) -> list[Token]:
    ids = prompt(session, "Write a poem about a garden.")
    return tokens(records(session, request(ids, tuning, seed, candidates=40)))


def first_difference(one: list[Token], other: list[Token]) -> int | None:
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a.id != b.id), None)


def parted(session: ModelSession, first: Tuning, second: Tuning, seed: int) -> tuple[Token, Token, Divergence] | None:
    one, other = replies(session, first, seed), replies(session, second, seed)
    at = first_difference(one, other)
    return None if at is None else (one[at], other[at], find_parting(one[at], other[at]))


@pytest.mark.model
def test_a_token_that_the_other_cuts(session: ModelSession) -> None:
    found = [parted(session, OPEN, OPEN.turn_knobs({"top_k": 2}), seed) for seed in (1, 2)]
    for one, other, why in filter(None, found):
        assert (why.cause, why.stage) == ("cut", "top_k")
        assert one.rank >= 2 > other.rank
        assert why.of_one == (pytest.approx(math.exp(one.logprob), rel=1e-3), None)
        assert why.of_other[1] == other.probability
        assert str(why).endswith("→ cut by top_k")
        assert str(why).startswith(f"they part at token {one.step + 1} (A → B): {why.one} ")
    assert any(found)


@pytest.mark.model
def test_a_token_that_the_first_cut(session: ModelSession) -> None:
    found = [parted(session, OPEN.turn_knobs({"temperature": 0}), OPEN, seed) for seed in (1, 2)]
    for one, other, why in filter(None, found):
        assert (why.cause, why.stage, why.of_other) == ("uncut", "temperature", (None, other.probability))
        assert one.rank == 0 < other.rank
        assert f"{why.other} not highest → " in str(why)
    assert any(found)


@pytest.mark.model
def test_a_token_that_is_overtaken(session: ModelSession) -> None:
    cold = OPEN.turn_knobs({"temperature": 0.3})
    found = [parted(session, cold, OPEN, seed) for seed in (1, 2)]
    for one, _, why in filter(None, found):
        assert why.cause == "overtaken"
        assert why.of_one == (one.probability, pytest.approx(math.exp(one.logprob), rel=1e-3))  # open: the model's own
        assert f"% → {percent(math.exp(one.logprob), 0)}, overtaken by {why.other} " in str(why)
    assert any(found)


@pytest.mark.model
def test_other_dice_explain_nothing_else(session: ModelSession) -> None:
    one, other = replies(session, OPEN, 1), replies(session, OPEN, 3)
    at = first_difference(one, other)
    assert at is not None
    why = find_parting(one[at], other[at])
    assert why.cause == "other dice"
    assert str(why) == f"they part at token {at + 1} (A → B): {why.other} instead of {why.one}, with other dice"
