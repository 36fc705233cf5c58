"""A step drawn again from its record: whatever it says is what llama.cpp's own chain draws from the whole row."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray

from termchat.decoding import dice
from termchat.decoding.records import Candidate, Stage, Token
from termchat.decoding.redraw import redraw_step
from termchat.decoding.samplers import ORDER, SamplerSettings
from termchat.decoding.stage_state import MU, SUM, WEIGHT, state_of
from tests.engine.native_chains import run_natively

STATE = {MU: 4.0, SUM: 2.0, WEIGHT: 5.0}


def natively(
    logits: NDArray[np.float32], past: list[int], knobs: SamplerSettings, seed: int, step: int, state: dict[str, float]
) -> int:
    left = run_natively(logits, knobs, past, seed=seed, step=step, state=state)
    scores = left.logits.astype(np.float64)
    return int(left.ids[(scores - scores.max() + dice.draw_gumbel(seed, step, left.ids)).argmax()])


def on_record(logits: NDArray[np.float32], chosen: int, count: int, step: int) -> Token:
    """The record of a step, with its `count` highest candidates and the chosen one."""
    wide = logits.astype(np.float64)
    logprobs = wide - np.logaddexp.reduce(wide)
    order = [int(i) for i in np.argsort(-logits, kind="stable")]
    listed = order[:count] + ([chosen] if chosen not in order[:count] else [])
    candidates = [Candidate(i, "", float(logits[i]), float(logprobs[i]), 0.0, 0.0, None) for i in listed]
    return Token(
        step, step, chosen, b"", "", float(logits[chosen]), float(logprobs[chosen]), order.index(chosen), 0.0, 0.0, 0.0,
        0, False, [Stage("penalties", len(logits))], candidates, {}, 0, 0,
    )  # fmt: skip


def any_knobs(draw: np.random.Generator) -> SamplerSettings:
    """Each stage on now and then, in any order."""
    choices: dict[str, list[Any]] = {
        "repeat_penalty": [1.0, 1.0, 1.3, 0.8], "frequency_penalty": [0.0, 0.4, -0.3], "top_n_sigma": [-1.0, -1.0, 1.5],
        "top_k": [0, 5, 40], "typical_p": [1.0, 1.0, 0.6], "top_p": [1.0, 0.95, 0.5], "min_p": [0.0, 0.05, 0.3],
        "xtc_probability": [0.0, 0.0, 1.0], "p_less": [0, 0, 0, 1], "top_h": [0.0, 0.0, 0.4], "min_k": [0.0, 0.0, 3.0],
        "temperature": [0.0, 0.5, 1.0, 2.0], "dynatemp_range": [0.0, 0.0, 0.4], "mirostat": [0, 0, 0, 0, 2],
        "adaptive_target": [-1.0, -1.0, -1.0, 0.3],
    }  # fmt: skip
    picked = {name: values[int(draw.integers(len(values)))] for name, values in choices.items()}
    return SamplerSettings(**picked, order=tuple(draw.permutation(ORDER).tolist()))


def test_what_it_says_is_what_the_whole_chain_draws() -> None:
    draw = np.random.default_rng(7)
    said = Counter[bool]()
    for case in range(1_500):
        logits = draw.normal(0, draw.choice([1.0, 3.0]), 1_500).astype(np.float32)
        logits[draw.integers(0, 1_500, 4)] += draw.choice([0, 6, 9])
        past = [int(i) for i in np.argsort(-logits)[:30:3]]
        seed, step = int(draw.integers(2**53)), case % 50
        first, second = any_knobs(draw), any_knobs(draw)
        token = on_record(logits, natively(logits, past, first, seed, step, state_of(first, STATE)), 20, step)
        found = redraw_step(token, past, second, seed, STATE)
        said[found is not None] += 1
        if found is not None:
            assert found == natively(logits, past, second, seed, step, state_of(second, STATE)), (case, second)
    assert said[True] > 150  # most of these chains need more than 20 candidates


def test_the_default_chain_of_a_sharp_distribution_is_decided() -> None:
    draw = np.random.default_rng(3)
    decided = 0
    for step in range(200):
        logits = draw.normal(0, 1, 1_500).astype(np.float32)
        logits[draw.integers(0, 1_500, 5)] += 9
        knobs = SamplerSettings()
        token = on_record(logits, natively(logits, [], knobs, 5, step, {}), 20, step)
        decided += redraw_step(token, [], knobs, 5, {}) == token.id
    assert decided > 180  # in the others the tokens of top_k that are not on record decide


def test_a_flat_distribution_without_a_cut_is_not_decided() -> None:
    token = on_record(np.zeros(1_500, np.float32), 3, 20, 0)
    assert redraw_step(token, [], SamplerSettings(top_k=0, top_p=1.0, min_p=0.0), 1, {}) is None


@pytest.mark.parametrize("knobs", [{"dry_multiplier": 0.8}, {"mirostat": 1}])
def test_what_needs_more_than_the_record_is_not_decided(knobs: dict[str, Any]) -> None:
    logits = np.array([9.0] + [0.0] * 99, np.float32)
    assert redraw_step(on_record(logits, 0, 20, 0), [], SamplerSettings(), 1, {}) == 0
    assert redraw_step(on_record(logits, 0, 20, 0), [], SamplerSettings(**knobs), 1, {}) is None


def test_refused_ids_are_not_drawn() -> None:
    logits = np.array([9.0, 8.0, *[-9.0] * 98], np.float32)
    greedy = SamplerSettings(temperature=0.0)
    token = on_record(logits, 0, 20, 0)
    assert redraw_step(token, [], greedy, 1, {}) == 0
    assert redraw_step(token, [], greedy, 1, {}, {0}) == 1
    assert redraw_step(token, [], greedy, 1, {}, {candidate.id for candidate in token.candidates}) is None
    assert math.isclose(math.fsum(math.exp(c.logprob) for c in token.candidates), 1, abs_tol=1e-4)


def test_tokens_off_the_record_that_a_penalty_rewards_decide_nothing() -> None:
    logits = np.array([9.0, 8.0, *[-9.0] * 98], np.float32)
    token = on_record(logits, 0, 20, 0)
    rewarding = msgspec.structs.replace(SamplerSettings(), frequency_penalty=-10.0)
    assert redraw_step(token, [97], rewarding, 1, {}) is None
    assert redraw_step(token, [1], rewarding, 1, {}) == 1
