"""Every stage against llama.cpp's own sampler, against its definition in float64, and all of them in any order.

llama.cpp is asked for whole chains over the whole vocabulary; what draws in it is asked for many draws, or for one whose state
is known. The definitions are those of the papers that the stages' docstrings name.
"""

from __future__ import annotations

import ctypes
import math
from collections import Counter
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from numpy.typing import NDArray

from termchat.decoding import dice
from termchat.decoding.arithmetic import APPLY, Situation, Surviving
from termchat.decoding.samplers import KNOBS, ORDER, SamplerSettings
from termchat.decoding.stage_state import BEFORE, MU, SUM, WEIGHT, state_of, update_state
from termchat.decoding.stages import chain_of
from termchat.engine.llama import observe
from termchat.engine.llama.chain import Chain, Observer, find_top
from termchat.engine.llama.dry import Breakers
from termchat.engine.llama.model_session import ModelSession
from termchat.engine.llama.native import LIB
from termchat.engine.llama.observe import Labels
from tests.engine.native_chains import N_VOCAB, OFF, Left, Logits, row, sampler, some, theirs, with_


def ours(
    logits: Logits, settings: SamplerSettings, past: list[int], *, breakers: Breakers | None = None, **known: Any
) -> Left:
    """What our chain leaves, preselected where it preselects."""
    chain = Chain(settings, len(logits), past, state=known.get("state", {}), breakers=breakers)
    needs = chain.count_needed()
    left = chain.apply_stages(
        logits, None if needs is None else find_top(logits, needs), [], known.get("seed", 0), known.get("step", 0)
    )
    chain.close()
    return Left(zip(left.ids.tolist(), left.logits.tolist(), strict=True))


def test_any_order_and_settings_leave_what_llama_cpp_leaves(session: ModelSession) -> None:
    rng, n_vocab = np.random.default_rng(3), session.model.n_vocab
    rows = [row(seed, n_vocab, 4.0) for seed in range(8)]
    for trial in range(400):
        settings = some(rng)
        past = [*rng.integers(0, 60, 40).tolist(), 7, 8, 9, 10, 7, 8, 9]
        near = np.random.default_rng(trial).choice(60, 10, replace=False)  # what the penalties see is near the top
        logits = rows[trial % 8].copy()
        logits[near] += 12
        left, _ = theirs(logits, [sampler(name, settings, session) for name in settings.order], past)
        assert ours(logits, settings, past, breakers=session.model.breakers) == left, settings


def test_by_default_five_stages_act() -> None:
    assert [stage.name for stage in chain_of(SamplerSettings())] == [
        "penalties",
        "top_k",
        "top_p",
        "min_p",
        "temperature",
    ]


# --- DRY by its definition -------------------------------------------------------------------------------------------


def dry_by_definition(past: list[int], s: SamplerSettings, breakers: set[int]) -> dict[int, float]:
    """For each token, the longest n such that the last n tokens followed by it stand in the window; no breaker inside."""
    window = past[-s.dry_penalty_last_n :]
    longest: dict[int, int] = {}
    for end in range(len(window) - 1):
        n = 0
        while n <= end and window[end - n] == window[len(window) - 1 - n] and window[end - n] not in breakers:
            n += 1
        if n >= s.dry_allowed_length and window[end + 1] not in breakers:
            longest[window[end + 1]] = max(longest.get(window[end + 1], 0), n)
    return {t: s.dry_multiplier * s.dry_base ** (n - s.dry_allowed_length) for t, n in longest.items()}


def test_dry_takes_what_its_definition_says(session: ModelSession) -> None:
    rng, breakers = np.random.default_rng(4), session.model.breakers
    words = [i for i in range(2000, 3000) if not set(session.model.piece(i)) & set(b'\n:"*')]
    found = 0
    for _ in range(60):
        settings = with_(dry_multiplier=0.8, dry_allowed_length=int(rng.integers(1, 4)), order=("dry",))
        past = [words[i] for i in rng.integers(0, 3, 50)]
        chain = Chain(settings, session.model.n_vocab, past, breakers=breakers)
        expected = dry_by_definition(past, settings, set())
        assert chain.compute_dry_penalties() == pytest.approx(expected, rel=1e-5)
        found += len(expected)
        chain.close()
    assert found > 50


def test_dry_ends_at_a_breaker(session: ModelSession) -> None:
    model = session.model
    a, b, c = (i for i in range(2000, 2003))
    (line,) = (i for i in range(400) if model.piece(i) == b"\n")
    repeated = [a, b, line, c, a, b, line]
    for breakers, penalised in ((("\n",), set()), ((), {c})):
        settings = with_(dry_multiplier=1.0, dry_sequence_breakers=breakers, order=("dry",))
        chain = Chain(settings, model.n_vocab, repeated, breakers=model.breakers)
        assert set(chain.compute_dry_penalties()) == penalised
        chain.close()


# --- those that draw in llama.cpp ------------------------------------------------------------------------------------


def test_xtc_leaves_what_llama_cpp_leaves_when_it_acts() -> None:
    for seed in range(60):
        logits = row(seed, 300, 2.0)
        settings = with_(xtc_probability=1.0, xtc_threshold=0.02 + 0.004 * seed, top_k=40)
        left, _ = theirs(
            logits,
            [LIB.llama_sampler_init_top_k(40), LIB.llama_sampler_init_xtc(1.0, settings.xtc_threshold, 1, 1)],
            [],
        )
        assert ours(logits, settings, []) == left


def test_xtc_acts_as_often_as_it_should_and_by_the_dice() -> None:
    logits = row(1, 300, 1.0)
    settings = with_(xtc_probability=0.3, xtc_threshold=0.01)
    chain = Chain(settings, len(logits), [])
    acted = []
    for step in range(3000):
        left = chain.apply_stages(logits, None, [], 5, step)
        acted.append(len(left.ids) < 300)
        assert acted[-1] == (dice.draw_chance(5, step) <= 0.3)
    chain.close()
    assert np.mean(acted) == pytest.approx(0.3, abs=4 * math.sqrt(0.3 * 0.7 / 3000))


@pytest.mark.parametrize("version", [1, 2])
def test_mirostat_cuts_and_remembers_as_llama_cpp_does(version: int) -> None:
    """Step by step with llama.cpp's own: given its draw, ours leaves the same tokens and comes to the same mu."""
    tau, eta, n_vocab = 4.0, 0.2, 2000
    settings = with_(mirostat=version, mirostat_tau=tau, mirostat_eta=eta, temperature=0.9)
    make = LIB.llama_sampler_init_mirostat if version == 1 else LIB.llama_sampler_init_mirostat_v2
    own = make(n_vocab, 7, tau, eta, 100) if version == 1 else make(7, tau, eta)
    warm = LIB.llama_sampler_init_temp(0.9)
    state = state_of(settings, {})
    for seed in range(80):
        logits = row(seed, n_vocab, 1.0 + seed % 5)
        data = (LIB.llama_token_data * n_vocab)()
        whole = np.frombuffer(data, [("id", np.int32), ("logit", np.float32), ("p", np.float32)])
        whole["id"], whole["logit"] = np.arange(n_vocab), logits
        array = LIB.llama_token_data_array(ctypes.cast(data, LIB.llama_token_data_p), n_vocab, -1, False)
        LIB.llama_sampler_apply(warm, ctypes.byref(array))
        LIB.llama_sampler_apply(own, ctypes.byref(array))
        left = {array.data[i].id: array.data[i].p for i in range(array.size)}
        chosen = array.data[array.selected].id
        assert set(ours(logits, settings, [], state=state)) == set(left), seed
        state = update_state(settings, state, left[chosen])
    LIB.llama_sampler_free(own)
    LIB.llama_sampler_free(warm)


def test_adaptive_p_shifts_and_remembers_as_llama_cpp_does() -> None:
    settings = with_(adaptive_target=0.35, adaptive_decay=0.8)
    own = LIB.llama_sampler_init_adaptive_p(0.35, 0.8, 7)
    state = state_of(settings, {})
    for seed in range(60):
        n_vocab = 50
        logits = row(seed, n_vocab, 2.0)
        data = (LIB.llama_token_data * n_vocab)()
        whole = np.frombuffer(data, [("id", np.int32), ("logit", np.float32), ("p", np.float32)])
        whole["id"], whole["logit"] = np.arange(n_vocab), logits
        array = LIB.llama_token_data_array(ctypes.cast(data, LIB.llama_token_data_p), n_vocab, -1, False)
        LIB.llama_sampler_apply(own, ctypes.byref(array))
        theirs_ = {array.data[i].id: array.data[i].logit for i in range(array.size)}
        found = ours(logits, settings, [], state=state)
        assert found == pytest.approx(theirs_, rel=1e-5, abs=1e-5)
        chosen = array.data[array.selected].id
        LIB.llama_sampler_accept(own, chosen)
        weights = np.exp(logits.astype(np.float64) - float(logits.max()))
        state = update_state(settings, {**state, BEFORE: float(weights[chosen] / weights.sum())}, 1.0)
    LIB.llama_sampler_free(own)


def test_mirostat_holds_the_average_surprise() -> None:
    for version in (1, 2):
        chain = Chain(with_(mirostat=version, mirostat_tau=3.0), 500, [])
        observer = Observer(500, (), Labels(500, str), 20)
        seen = []
        for step in range(600):
            drawn = observer.draw(row(step, 500, 1.5), chain, 3, step)
            seen.append(-math.log2(drawn.probability))
            chain.take_token(drawn, forced=False)
        chain.close()
        assert np.mean(seen[100:]) == pytest.approx(3.0, rel=0.1)


def test_a_forced_token_changes_no_state() -> None:
    chain = Chain(with_(mirostat=2), 500, [])
    drawn = Observer(500, (), Labels(500, str), 20).draw(row(1, 500), chain, 3, 0, forced=9)
    chain.take_token(drawn, forced=True)
    assert chain.state == {MU: 10.0}
    chain.close()


def test_state_begins_where_llama_cpp_begins() -> None:
    assert state_of(with_(mirostat=2, mirostat_tau=4.0), {}) == {MU: 8.0}
    assert state_of(with_(adaptive_target=0.3), {}) == pytest.approx({SUM: 3.0, WEIGHT: 10.0})
    assert state_of(with_(adaptive_target=0.3), {SUM: 1.0, WEIGHT: 2.0, MU: 3.0}) == {SUM: 1.0, WEIGHT: 2.0}
    assert state_of(OFF, {MU: 3.0}) == {}


# --- those that llama.cpp lacks, by their definitions ------------------------------------------------------------------


def probabilities(logits: Logits) -> NDArray[np.float64]:
    weights = np.exp(logits.astype(np.float64) - logits.max())
    return weights / weights.sum()


def entropy(p: NDArray[np.float64]) -> float:
    p = p[p > 0] / p.sum()
    return float(-(p * np.log(p)).sum())


def p_less(logits: Logits, _: float) -> set[int]:
    p = probabilities(logits)
    return {i for i in range(len(p)) if p[i] >= sum(q * q for q in p)}


def top_h(logits: Logits, alpha: float) -> set[int]:
    p, kept = probabilities(logits), []
    for i in np.argsort(-logits, kind="stable"):
        if kept and entropy(p[[*kept, i]]) > alpha * entropy(p):
            break
        kept.append(int(i))
    return set(kept)


def min_k(logits: Logits, tau: float) -> set[int]:
    order = np.argsort(-logits, kind="stable")
    down = logits[order].astype(np.float64)
    reach = down[0] - down[-1]
    decay = [(down[i] - down[i + 1]) / reach / (i + 1) for i in range(len(down) - 1)]
    return set(order[: max(int(np.argmax(decay)) + 1, math.floor(tau / reach))].tolist())


@pytest.mark.parametrize(
    ("name", "values", "definition"),
    [("p_less", [1], p_less), ("top_h", [0.2, 0.4, 0.7, 0.95], top_h), ("min_k", [1.0, 3.0, 60.0], min_k)],
)
def test_it_keeps_what_the_paper_says(name: str, values: list[float], definition: Any) -> None:
    sizes = set()
    for seed in range(25):
        logits = row(seed, 120, (0.2, 1.0, 3.0)[seed % 3])
        for value in values:
            left = ours(logits, with_(**{name: value}), [])
            assert set(left) == definition(logits, value)
            assert all(logits[i] == logit for i, logit in left.items())
            sizes.add(len(left))
    assert len(sizes) > 3


def test_min_k_does_not_look_at_the_temperature() -> None:
    for seed in range(10):
        kept = [set(ours(row(seed, 200) / np.float32(t), with_(min_k=1.0), [])) for t in (0.5, 1.0, 4.0)]
        assert kept[0] == kept[1] == kept[2]


# --- preselection, masses, state ---------------------------------------------------------------------------------------


def every(rng: np.random.Generator, n_vocab: int) -> SamplerSettings:
    """Any settings of all stages, in any order."""
    values = {
        name: float(rng.choice([knob.low, knob.high, rng.uniform(knob.low, min(knob.high, knob.bar or 1))]))
        for name, knob in KNOBS.items()
        if name in SamplerSettings.__struct_fields__ and knob.kind == "float" and rng.random() < 0.4
    }
    values.pop("repeat_penalty", None)
    order = tuple(str(name) for name in rng.permutation(ORDER)[: rng.integers(2, len(ORDER) + 1)] if name != "dry")
    return SamplerSettings(
        **values | {"temperature": float(rng.choice([0.0, 0.7, 1.5]))},
        top_k=int(rng.choice([0, 1, 5, 40, n_vocab])), mirostat=int(rng.choice([0, 0, 0, 1, 2])),
        p_less=int(rng.integers(2)), order=order,
    )  # fmt: skip


def test_the_compiled_step_says_what_numpy_says_with_any_stages_in_any_order() -> None:
    rng, n_vocab = np.random.default_rng(8), 8_193
    names = Labels(n_vocab, str)
    native, plain = (Observer(n_vocab, (2,), names, 20, native=native) for native in (True, False))
    rows = [row(seed, n_vocab, 3.0) for seed in range(6)]
    for trial in range(500):
        settings, logits = every(rng, n_vocab), rows[trial % 6]
        past = rng.integers(0, 300, 70).tolist()
        chain = Chain(settings, n_vocab, past)
        with patch.object(observe, "load", lambda: None):  # nor are its stages those of the library
            in_numpy = Chain(settings, n_vocab, past)
        one, other = native.draw(logits, chain, trial, 3), plain.draw(logits, in_numpy, trial, 3)
        chain.close()
        in_numpy.close()
        assert one.id == other.id, settings
        assert [(s.name, s.survivors) for s in one.stages] == [(s.name, s.survivors) for s in other.stages], settings
        assert [s.mass for s in one.stages] == pytest.approx([s.mass for s in other.stages], rel=1e-4, abs=1e-6), (
            settings
        )
        assert one.state == pytest.approx(other.state, rel=1e-4)
        assert one.probability == pytest.approx(other.probability, rel=1e-4)


def test_mass_is_what_is_left_of_what_was_given() -> None:
    """Against float64 over the whole vocabulary, though the chain sees a part of it."""
    n_vocab = 49_153
    logits = row(2, n_vocab, 3.0)
    past = [int(i) for i in np.argsort(-logits)[:5]]
    settings = SamplerSettings(top_k=40, top_p=0.9, min_p=0.05, repeat_penalty=1.4, temperature=0.0)
    chain = Chain(settings, n_vocab, past)
    drawn = Observer(n_vocab, (2,), Labels(n_vocab, str), 20).draw(logits, chain, 1, 0)
    chain.close()
    given = Surviving(np.arange(n_vocab, dtype=np.int32), logits)
    for stage in drawn.stages[:-1]:
        p = dict(zip(given.ids.tolist(), probabilities(given.logits).tolist(), strict=True))
        given = APPLY[stage.name](given, settings, Situation(past)).drop_masked()
        assert stage.survivors == len(given.ids)
        assert stage.mass == pytest.approx(sum(p[i] for i in given.ids.tolist()), rel=1e-5)
    assert sum(stage.mass < 1 for stage in drawn.stages) >= 3
    assert drawn.stages[-1].mass == drawn.probability == 1.0


def stepped(chain: Chain, rows: list[Logits], begin: int = 0) -> Iterator[Any]:
    observer = Observer(N_VOCAB, (2,), Labels(N_VOCAB, str), 20)
    for step, logits in enumerate(rows[begin:], begin):
        drawn = observer.draw(logits, chain, 21, step)
        chain.take_token(drawn, forced=False)
        yield drawn


@pytest.mark.parametrize(
    "settings",
    [
        with_(mirostat=1),
        with_(mirostat=2),
        with_(adaptive_target=0.3, top_k=60, xtc_probability=0.5, repeat_penalty=1.2, p_less=0, top_h=0.9),
    ],
)
def test_from_any_record_a_reply_goes_on_as_it_did(settings: SamplerSettings) -> None:
    rows = [row(seed) for seed in range(30)]
    chain = Chain(settings, N_VOCAB, [])
    straight = list(stepped(chain, rows))
    chain.close()
    for cut in (1, 13, 29):
        last = straight[cut - 1]
        state = update_state(settings, last.state, last.probability)
        forked = Chain(settings, N_VOCAB, [drawn.id for drawn in straight[:cut]], state=state)
        assert list(stepped(forked, rows, cut)) == straight[cut:]
        forked.close()
        at = Chain(settings, N_VOCAB, [drawn.id for drawn in straight[: cut - 1]], state=last.state)
        assert list(stepped(at, rows, cut - 1)) == straight[cut - 1 :]
        at.close()
    assert len(Counter(drawn.id for drawn in straight)) > 5
