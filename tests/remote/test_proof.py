"""How many candidates prove a draw: what the chain leaves of them is what it leaves of all tokens, wherever the rest lies."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from termchat.decoding.samplers import SamplerSettings, Tuning
from termchat.engine.llama.chain import Chain
from termchat.engine.remote.proof import Shortlist, bounds, more_than, needed, next_guess

N = 3000

settings_of = st.fixed_dictionaries(
    {},
    optional={
        "top_k": st.sampled_from([0, 1, 5, 40, 300]),
        "top_p": st.sampled_from([0.3, 0.8, 0.95, 1.0]),
        "min_p": st.sampled_from([0.0, 0.02, 0.3]),
        "temperature": st.sampled_from([0.0, 0.7, 1.0, 1.6]),
        "frequency_penalty": st.sampled_from([0.0, 0.7, -0.5]),
        "repeat_penalty": st.sampled_from([1.0, 1.3]),
        "typical_p": st.sampled_from([1.0, 0.5]),
        "top_n_sigma": st.sampled_from([-1.0, 1.0]),
    },
)


def left(logits: np.ndarray, samplers: SamplerSettings, past: list[int]) -> dict[int, float]:
    chain = Chain(samplers, len(logits), past)
    try:
        found = chain.apply_stages(logits.astype(np.float32), None, ())
    finally:
        chain.close()
    return dict(zip(found.ids.tolist(), found.logits.tolist(), strict=True))


@given(
    seed=st.integers(0, 500), knobs=settings_of, spread=st.sampled_from([1.0, 3.0]), count=st.sampled_from([50, 200])
)
def test_what_is_enough_leaves_what_all_tokens_leave(
    seed: int, knobs: dict[str, object], spread: float, count: int
) -> None:
    rng = np.random.default_rng(seed)
    logits = rng.normal(5.0, spread, N)
    past = rng.integers(0, N, 20).tolist() + np.argsort(-logits)[:10].tolist()
    samplers = Tuning().turn_knobs(knobs).samplers()  # type: ignore[arg-type]
    order = np.argsort(-logits)
    listed = order[:count]
    mass = np.log(np.exp(logits).sum())
    known = Shortlist(listed.astype(np.int32), logits[listed] - mass, N)
    chain = Chain(samplers, N, past)
    moving = set(chain.moving)
    chain.close()
    assume(not more_than(known, samplers, moving, samplers.frequency_penalty < 0))
    shared = logits.copy()
    shared[order[count:]] = np.log(np.exp(logits[order[count:]]).mean())
    one, other = left(logits, samplers, past), left(shared, samplers, past)
    assert other.keys() == one.keys()
    assert [other[i] for i in one] == pytest.approx(list(one.values()), abs=1e-4)


def test_the_usual_settings_need_what_costs_nothing() -> None:
    assert needed(Tuning().samplers(), 49152, 64) == 200
    assert needed(Tuning(top_k=500).samplers(), 49152, 64) == 564
    assert needed(Tuning(top_k=0, top_p=1.0, min_p=0.0).samplers(), 49152, 0) == 49152


def test_what_is_not_proved_needs_more_and_in_the_end_all() -> None:
    flat = Shortlist(np.arange(200, dtype=np.int32), np.full(200, np.log(1 / 1000)), 1000)
    samplers = Tuning(top_k=0, min_p=0.0, top_p=0.9).samplers()
    assert more_than(flat, samplers, set(), lifted=False) == 1000
    peaked = Shortlist(np.arange(200, dtype=np.int32), np.log(np.r_[0.95, np.full(199, 1e-5)]), 49152)
    assert more_than(peaked, samplers, set(), lifted=False) == 0
    assert more_than(peaked, samplers, {0}, lifted=False) == 1000  # a penalty may move the only likely one
    assert more_than(peaked, samplers, {40000}, lifted=True) == 49152
    assert more_than(peaked, samplers, set(), lifted=False, forced=40000) == 49152


def test_what_was_enough_for_a_token_is_asked_for_with_the_next() -> None:
    samplers = Tuning(top_k=0, min_p=0.0, top_p=0.9).samplers()
    spread = Shortlist(np.arange(5000, dtype=np.int32), np.full(5000, np.log(1 / 1000)), 49152)
    assert next_guess(spread, samplers, set(), lifted=False) == 1000
    peaked = Shortlist(np.arange(1000, dtype=np.int32), np.log(np.r_[0.95, np.full(999, 1e-5)]), 49152)
    assert next_guess(peaked, samplers, set(), lifted=False) == 200
    assert next_guess(peaked, samplers, {0}, lifted=False) == 1000
    some = Shortlist(peaked.ids[:393], peaked.logprobs[:393], 49152)
    assert next_guess(some, samplers, set(), lifted=False) == 200
    whole = Shortlist(np.arange(1000, dtype=np.int32), np.full(1000, np.log(1 / 1000)), 1000)
    assert next_guess(whole, samplers, {990}, lifted=True) == 1000


@given(seed=st.integers(0, 500), spread=st.sampled_from([0.0, 0.5, 3.0, 8.0]), count=st.sampled_from([1, 50, 200, N]))
def test_bounds_hold_what_all_tokens_say(seed: int, spread: float, count: int) -> None:
    rng = np.random.default_rng(seed)
    logits = rng.normal(0.0, spread, N)
    ends = rng.integers(0, N, 3).tolist()
    logprobs = logits - np.log(np.exp(logits).sum())
    shares = np.exp(logprobs)
    entropy = float(-(shares * logprobs).sum() / np.log(2))
    p_end = float(shares[list(set(ends))].sum())
    listed = np.argsort(-logits)[:count]
    found = bounds(Shortlist(listed.astype(np.int32), logprobs[listed], N), set(ends))
    assert found.entropy[0] - 1e-6 <= entropy <= found.entropy[1] + 1e-6
    assert found.p_end[0] - 1e-9 <= p_end <= found.p_end[1] + 1e-9
    assert found.tail == pytest.approx(1 - shares[listed].sum(), abs=1e-9)
    if count == N:
        assert found.entropy == pytest.approx((entropy, entropy), abs=1e-6)
        assert found.p_end == pytest.approx((p_end, p_end), abs=1e-9)


def test_what_cannot_be_drawn_makes_no_bound_infinite() -> None:
    logprobs = np.array([np.log(0.9), np.log(0.1 - 1e-7), -np.inf])
    impossible = bounds(Shortlist(np.array([1, 2, 3], np.int32), logprobs, N), {2})
    assert 0 < impossible.entropy[0] <= impossible.entropy[1] < 0.5
