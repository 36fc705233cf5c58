"""Why not: every number against the real chain, run again with the knob on both sides of each threshold."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from termchat.decoding import dice
from termchat.decoding.records import Explanation
from termchat.decoding.samplers import KNOBS, SamplerSettings
from termchat.decoding.whynot import explain_token
from tests.engine.native_chains import run_natively

Logits = NDArray[np.float32]
SEED, STEP = 11, 3


def drawn(logits: Logits, past: list[int], knobs: SamplerSettings) -> int:
    """What the dice take of it."""
    left = run_natively(logits, knobs, past)
    scores = left.logits.astype(np.float64)
    scores -= scores.max()
    return int(left.ids[(scores + dice.draw_gumbel(SEED, STEP, left.ids)).argmax()])


def kept(logits: Logits, past: list[int], knobs: SamplerSettings, token: int) -> bool:
    return token in run_natively(logits, knobs, past).ids


def why(logits: Logits, token: int, past: list[int], knobs: SamplerSettings) -> Explanation:
    return explain_token(logits, token, past, knobs, SEED, STEP, str)


def turned(knobs: SamplerSettings, **change: float) -> SamplerSettings:
    return msgspec.structs.replace(knobs, **{name: KNOBS[name].check(value) for name, value in change.items()})


@st.composite
def steps(draw: st.DrawFn) -> tuple[Logits, int, list[int], SamplerSettings]:
    """Logits without ties, a token, what came before it, and settings."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    count = draw(st.sampled_from([5, 30, 300, 2000]))
    spread = draw(st.sampled_from([0.3, 2.0, 6.0]))
    logits = rng.normal(draw(st.sampled_from([-9.0, 0.0, 9.0])), spread, count).astype(np.float32)
    assume(len(set(logits.tolist())) == count)
    token = int(np.argsort(-logits)[min(draw(st.sampled_from([0, 1, 2, 4, 20, 250])), count - 1)])
    others = rng.integers(0, count, draw(st.integers(0, 20))).tolist()
    past = [token] * draw(st.integers(0, 2)) + others + [token] * draw(st.integers(0, 1))
    pick = st.sampled_from
    knobs = SamplerSettings(
        repeat_penalty=draw(pick([1.0, 1.1, 1.5, 0.8])),
        repeat_last_n=draw(pick([0, 4, 64])),
        frequency_penalty=draw(pick([0.0, 0.0, 0.4, -0.5])),
        presence_penalty=draw(pick([0.0, 0.0, 0.7])),
        top_k=draw(pick([0, 1, 3, 40])),
        top_p=draw(st.one_of(pick([1.0, 0.95, 0.0]), st.floats(0.01, 0.99))),
        min_p=draw(st.one_of(pick([0.0, 0.05, 1.0]), st.floats(0.001, 0.99))),
        temperature=draw(st.one_of(pick([0.0, 0.8, 1.0]), st.floats(0.05, 3.0))),
    )
    return logits, token, past, knobs


def softmax(logits: Logits) -> NDArray[np.float64]:
    weights = np.exp(logits.astype(np.float64) - float(logits.max()))
    return weights / weights.sum()


@given(step=steps())
@settings(max_examples=200, deadline=None)
def test_stages_are_those_of_llama_cpp(step: tuple[Logits, int, list[int], SamplerSettings]) -> None:
    logits, token, past, knobs = step
    found = why(logits, token, past, knobs)
    real = run_natively(logits, knobs, past)
    assert [(s.name, s.survivors) for s in found.stages[:-1]] == real.stages
    assert found.removed_by == real.removed.get(token)
    assert found.winner == drawn(logits, past, knobs)
    assert [s.name for s in found.stages if s.cut] == ([] if found.winner == token else [found.removed_by or "dice"])
    row = softmax(logits)
    assert found.logit == logits[token]
    assert found.logprob == pytest.approx(np.log(row[token]), abs=1e-9)
    assert found.rank == int((logits > logits[token]).sum())
    assert found.noise == dice.draw_gumbel(SEED, STEP, np.array([token], np.int32))[0]
    for i, stage in enumerate(found.stages[:-1]):
        later = {name: KNOBS[name].off for name in ("top_k", "top_p", "min_p", "temperature")[i:]}
        left = run_natively(logits, turned(knobs, **later), past)
        place = np.flatnonzero(left.ids == token)
        assert stage.logit == (left.logits[place[0]] if len(place) else None)
        assert stage.probability == (pytest.approx(softmax(left.logits)[place[0]], rel=1e-9) if len(place) else None)
    assert found.probability == (found.stages[-2].probability or 0.0)
    assert found.stages[-1].probability == (1.0 if found.winner == token else None)


def beside(knob: str, value: float, sign: str) -> tuple[float, float]:
    """The nearest numbers that a chain can tell from `value`: where the remedy holds, and where it does not."""
    if knob == "top_k":
        return value + 1, value - 1
    low, high = (float(np.nextafter(np.float32(value), np.float32(end))) for end in (-1, 9))
    return (high, low) if sign == ">=" else (low, high)


@given(step=steps())
@settings(max_examples=250, deadline=None)
def test_thresholds_are_where_the_chain_changes(step: tuple[Logits, int, list[int], SamplerSettings]) -> None:
    logits, token, past, knobs = step
    found = why(logits, token, past, knobs)
    cutting = []
    now = knobs
    for remedy in found.remedies:
        if remedy.sign == "=":
            assert remedy is found.remedies[-1]
            assert remedy.value == KNOBS[remedy.knob].off
            off = turned(knobs, **{remedy.knob: remedy.value})
            assert kept(logits, past, off, token)
            assert remedy.wins == (drawn(logits, past, off) == token)
            assert remedy.wins or not kept(logits, past, knobs, token)
            continue
        if remedy.knob == "temperature" and remedy.wins:
            if remedy.value is not None:
                now = turned(now, temperature=remedy.value)
            continue  # more of it below
        assert remedy.value is not None
        cut = run_natively(logits, now, past).removed[token]
        cutting.append(cut)
        past_it, short = beside(remedy.knob, remedy.value, remedy.sign)
        for value, holds in ((remedy.value, True), (past_it, True), (short, False)):
            if remedy.knob == "temperature":
                value = value if holds else 0.0
            low, high = KNOBS[remedy.knob].low, KNOBS[remedy.knob].high
            if low <= value <= high:
                left = run_natively(logits, turned(now, **{remedy.knob: value}), past)
                assert (left.removed.get(token) != cut) == holds, (remedy, value)
        now = turned(now, **{remedy.knob: remedy.value})
        assert remedy.wins == (drawn(logits, past, now) == token)
    assert cutting == [stage for stage in ("top_k", "top_p", "min_p", "temperature") if stage in cutting]
    assert (found.remedies == []) == (found.winner == token)
    if found.remedies:
        assert kept(logits, past, now, token)


@given(step=steps())
@settings(max_examples=120, deadline=None)
def test_temperatures_win_where_a_scan_says_so(step: tuple[Logits, int, list[int], SamplerSettings]) -> None:
    logits, token, past, knobs = step
    found = why(logits, token, past, knobs)
    now = knobs
    for remedy in found.remedies:
        if remedy.knob == "temperature" and remedy.wins:
            break
        if remedy.sign == "=" or remedy.wins:
            return  # it wins without, or a stage's remedy was enough
        assert remedy.value is not None
        now = turned(now, **{remedy.knob: remedy.value})
    else:
        return

    def wins(temperature: float) -> bool:
        return drawn(logits, past, turned(now, temperature=temperature)) == token

    scan = [0.0, *np.geomspace(0.01, 5, 150).tolist()]
    won = [t for t in scan if wins(t)]
    if remedy.value is None:
        assert won == []
        return
    assert wins(remedy.value)
    upward = remedy.sign == ">="
    assert (remedy.value >= now.temperature) == upward
    far = remedy.until if remedy.until is not None else (5.0 if upward else 0.0)
    low, high = sorted((remedy.value, far))
    for t in scan:
        if low < t < high or (t == far and remedy.until is None):
            assert t in won
        elif not math.isclose(t, low, rel_tol=1e-4) and not math.isclose(t, high, rel_tol=1e-4):
            assert t not in won
    # Not a hair nearer to the present one.
    nearer = remedy.value * (1 - 1e-3) if upward else remedy.value * (1 + 1e-3)
    if 0.01 <= nearer <= 5 and high - low > 1e-4:
        assert not wins(nearer)


def test_only_greedy_may_be_what_it_takes() -> None:
    """The highest by a hair, with dice so far behind that any temperature above 0 gives it to the second."""
    second, first = sorted((14, 15), key=lambda token: -dice.draw_gumbel(SEED, STEP, np.array([token], np.int32))[0])
    logits = np.full(30, -40, np.float32)
    logits[second], logits[first] = 1.0, 1.0005
    found = why(logits, first, [], SamplerSettings(top_k=0, top_p=1.0, min_p=0.0))
    assert found.winner == second
    assert [(way.knob, way.sign, way.value, way.wins) for way in found.remedies] == [("temperature", "<=", 0.0, True)]


def test_penalties_name_their_causes() -> None:
    logits = np.linspace(4, -4, 50, dtype=np.float32)
    past = [0, 7, 0, 9, 49, 0]
    knobs = SamplerSettings(repeat_penalty=2.0, frequency_penalty=0.5, presence_penalty=0.25, repeat_last_n=5, top_k=2)
    found = why(logits, 0, past, knobs)
    assert found.penalised is not None
    assert found.penalised.positions == [2, 5]  # position 0 has left the window
    assert found.penalised.loss == pytest.approx(4.0 - (4.0 / 2 - 2 * 0.5 - 0.25))
    negative = why(logits, 49, past, knobs).penalised
    assert negative is not None
    assert negative.loss == pytest.approx(4.0 + 0.5 + 0.25)
    assert found.removed_by == "top_k"
    assert why(logits, 1, past, knobs).penalised is None
    only_repeat = SamplerSettings(repeat_penalty=2.0, top_k=2, temperature=0)
    last = why(logits, 0, past, only_repeat).remedies[-1]
    assert (last.knob, last.sign, last.value, last.wins) == ("repeat_penalty", "=", 1.0, True)


def test_the_words_of_a_known_case() -> None:
    probabilities = np.array([0.5, 0.3, 0.15, 0.05])
    logits = np.log(probabilities).astype(np.float32)
    plain = SamplerSettings(top_k=0, top_p=1.0, min_p=0.0, temperature=1.0)
    (top_k, *_) = why(logits, 3, [], turned(plain, top_k=2)).remedies
    assert (top_k.knob, top_k.sign, top_k.value) == ("top_k", ">=", 4)
    (top_p, *_) = why(logits, 2, [], turned(plain, top_p=0.6)).remedies
    assert (top_p.knob, top_p.sign, top_p.value) == ("top_p", ">=", pytest.approx(0.8, abs=1e-6))
    (min_p, *_) = why(logits, 2, [], turned(plain, min_p=0.5)).remedies
    assert (min_p.knob, min_p.sign, min_p.value) == ("min_p", "<=", pytest.approx(0.3, abs=1e-6))
    (greedy, *_) = why(logits, 1, [], turned(plain, temperature=0)).remedies
    assert (greedy.knob, greedy.sign, greedy.value) == ("temperature", ">=", 0.01)


def test_equal_logits_survive_at_the_threshold_whatever_their_order() -> None:
    logits = np.array([3.0, 1.0, 1.0, 1.0, 0.0], np.float32)
    knobs = SamplerSettings(top_k=1, top_p=0.5, min_p=0.9)
    for token in (1, 2, 3):
        found = why(logits, token, [], knobs)
        assert [r.value for r in found.remedies if r.knob == "top_k"] == [4]
        now = knobs
        for remedy in found.remedies[:3]:
            assert remedy.value is not None
            now = turned(now, **{remedy.knob: remedy.value})
        assert kept(logits, [], now, token)


def test_a_masked_token_cannot_win() -> None:
    logits = np.array([1.0, 0.5, -np.inf], np.float32)
    with np.errstate(all="raise"):
        found = why(logits, 2, [], SamplerSettings(top_k=0, top_p=1.0, min_p=0.0))
    assert (found.logprob, found.probability) == (-math.inf, 0.0)
    assert [(r.knob, r.value) for r in found.remedies] == [("temperature", None)]
