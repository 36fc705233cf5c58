"""Ten thousand chains of any stages with any settings in any order, each against llama.cpp's own samplers stage by stage, and a
part of them against the definitions in float64.

What llama.cpp has not, or draws inside, is asked of those definitions, or of its sampler in the same state and made to act.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray

from termchat.decoding import dice
from termchat.decoding.samplers import KNOBS, ORDER, SamplerSettings, Tuning
from termchat.decoding.stages import STAGES, chain_of
from termchat.engine.llama.chain import Chain, Observer, find_top
from termchat.engine.llama.dry import Breakers
from termchat.engine.llama.model_session import ModelSession
from termchat.engine.llama.native import LIB
from termchat.engine.llama.observe import Labels
from tests.engine.native_chains import native

N_VOCAB = 640
"""So many that native code preselects among them, and so few that ten thousand chains take no time."""
WATCHED = 5
CHAINS = 10_000
BY_DEFINITION = 2_000

_CANDIDATE = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])


class Case(NamedTuple):
    settings: SamplerSettings
    logits: NDArray[np.float32]
    past: list[int]
    seed: int


def cases(count: int) -> Iterator[Case]:
    rng = np.random.default_rng(11)

    def pick(*values: Any) -> Any:
        return values[rng.integers(len(values))]

    for seed in range(count):
        order = [str(name) for name in rng.permutation(ORDER)[: rng.integers(1, len(ORDER) + 1)]]
        if rng.random() < 0.5:
            order = [name for name in ORDER if name in order]
        settings = SamplerSettings(
            repeat_penalty=pick(1.0, 1.3, 0.8), repeat_last_n=pick(0, 8, 64), frequency_penalty=pick(0.0, 0.0, 0.4, -0.3),
            presence_penalty=pick(0.0, 0.0, 0.5), dry_multiplier=pick(0.0, 0.0, 0.8), dry_base=pick(1.0, 1.75),
            dry_allowed_length=pick(1, 2, 3), dry_penalty_last_n=pick(0, 12, 64), dry_sequence_breakers=(),
            top_n_sigma=pick(-1.0, -1.0, 1.0, 2.5), top_k=pick(0, 1, 3, 6), typical_p=pick(1.0, 1.0, 0.9, 0.3),
            top_p=pick(1.0, 0.95, 0.4), min_p=pick(0.0, 0.05, 0.3), xtc_probability=pick(0.0, 0.0, 0.5, 1.0),
            xtc_threshold=pick(0.05, 0.2, 0.6), p_less=pick(0, 0, 0, 1), top_h=pick(0.0, 0.0, 0.4, 0.9),
            min_k=pick(0.0, 0.0, 1.0, 6.0), temperature=pick(0.0, 0.6, 1.0, 1.7), dynatemp_range=pick(0.0, 0.0, 0.4),
            dynatemp_exponent=pick(1.0, 2.0), mirostat=pick(0, 0, 0, 0, 0, 1, 2), mirostat_tau=pick(1.0, 2.5),
            adaptive_target=pick(-1.0, -1.0, -1.0, 0.0, 0.4), adaptive_decay=pick(0.5, 0.9), order=tuple(order),
        )  # fmt: skip
        logits = rng.normal(0, pick(0.7, 2.0, 4.0), N_VOCAB).astype(np.float32)
        past = rng.integers(0, 4, 20).tolist()
        logits[:4] += np.float32(pick(0, 6))  # what was there before is worth moving
        yield Case(settings, logits, past, seed)


# --- llama.cpp's ------------------------------------------------------------------------------------------------------

Array = NDArray[Any]


def by_llama_cpp(name: str, data: Array, case: Case, vocab: Any) -> Array:
    sampler = native(name, case.settings, vocab, N_VOCAB)  # XTC is asked only when it acts
    for token in case.past:
        LIB.llama_sampler_accept(sampler, token)
    pointer = ctypes.cast(data.ctypes.data, LIB.llama_token_data_p)
    array = LIB.llama_token_data_array(pointer, len(data), -1, False)
    LIB.llama_sampler_apply(sampler, ctypes.byref(array))
    LIB.llama_sampler_free(sampler)
    begin = (ctypes.cast(array.data, ctypes.c_void_p).value - data.ctypes.data) // _CANDIDATE.itemsize  # type: ignore[operator]
    return data[begin : begin + array.size]


# --- the definitions, in float64 --------------------------------------------------------------------------------------


def softmax(logits: Array) -> Array:
    weights = np.exp(logits.astype(np.float64) - logits.max())
    return weights / weights.sum()


def entropy(p: Array) -> float:
    p = p[p > 0] / p.sum()
    return float(-(p * np.log(p)).sum())


def likeliest(p: Array) -> list[int]:
    return np.argsort(-p, kind="stable").tolist()  # type: ignore[no-any-return]


def until(order: list[int], p: Array, mass: float) -> list[int]:
    """The first ones that have that mass together."""
    total = 0.0
    for at, i in enumerate(order):
        total += p[i]
        if total >= mass:
            return order[: at + 1]
    return order


def _penalised(logits: Array, ids: Array, case: Case) -> Array:
    s, found = case.settings, logits.copy()
    window = case.past[-s.repeat_last_n :] if s.repeat_last_n else []
    for i in set(window):
        at = ids == i
        found[at] = np.where(found[at] > 0, found[at] / s.repeat_penalty, found[at] * s.repeat_penalty)
        found[at] -= window.count(i) * s.frequency_penalty + s.presence_penalty
    return found


def _dry(logits: Array, ids: Array, case: Case) -> Array:
    s, found = case.settings, logits.copy()
    window = case.past[-s.dry_penalty_last_n :] if s.dry_penalty_last_n and s.dry_multiplier else []
    longest: dict[int, int] = {}
    for end in range(len(window) - 1):
        n = 0
        while n <= end and window[end - n] == window[len(window) - 1 - n]:
            n += 1
        if n >= s.dry_allowed_length:
            longest[window[end + 1]] = max(longest.get(window[end + 1], 0), n)
    for i, n in longest.items():
        found[ids == i] -= s.dry_multiplier * s.dry_base ** (n - s.dry_allowed_length)
    return found


def _heated(logits: Array, _: Array, case: Case) -> Array:
    s, value = case.settings, case.settings.temperature
    if s.dynatemp_range > 0 and len(logits) > 1:
        low, high = max(0.0, value - s.dynatemp_range), value + s.dynatemp_range
        value = low + (high - low) * (entropy(softmax(logits)) / math.log(len(logits))) ** s.dynatemp_exponent
    elif s.dynatemp_range > 0:
        return logits
    if value <= 0:
        return np.where(np.arange(len(logits)) == logits.argmax(), logits, -np.inf)
    return logits / value


def _adapted(logits: Array, _: Array, case: Case) -> Array:
    distance = np.abs(softmax(logits) - case.settings.adaptive_target) / 0.3  # it has seen its target alone so far
    return 5 - 10 * distance**2 / (1 + distance)


def _above_sigmas(logits: Array, case: Case) -> list[int]:
    return np.flatnonzero(logits >= logits.max() - case.settings.top_n_sigma * logits.std()).tolist()  # type: ignore[no-any-return]


class UndefinedError(Exception):
    """Probabilities that float32 takes for zero: llama.cpp's typical_p and mirostat 1 compute with NaN there."""


def _typical(logits: Array, case: Case) -> list[int]:
    p = softmax(logits)
    if p.min() < 1e-37:
        raise UndefinedError
    order = np.argsort(np.abs(-np.log(p) - entropy(p)), kind="stable").tolist()
    total = 0.0
    for at, i in enumerate(order):
        total += p[i]
        if total > case.settings.typical_p:
            return order[: at + 1]  # type: ignore[no-any-return]
    return order  # type: ignore[no-any-return]


def _xtc(logits: Array, case: Case) -> list[int]:
    p = softmax(logits)
    above = [i for i in likeliest(p) if p[i] >= case.settings.xtc_threshold]
    return [i for i in likeliest(p) if i not in above[:-1]]


def _p_less(logits: Array, _: Case) -> list[int]:
    p = softmax(logits)
    return np.flatnonzero(p >= (p * p).sum()).tolist() or [int(p.argmax())]


def _top_h(logits: Array, case: Case) -> list[int]:
    p, kept = softmax(logits), []
    whole = entropy(p)
    for i in likeliest(p):
        if kept and entropy(p[[*kept, i]]) > case.settings.top_h * whole:
            break
        kept.append(i)
    return kept


def _min_k(logits: Array, case: Case) -> list[int]:
    order = likeliest(logits)
    down = logits[order].astype(np.float64)
    reach = down[0] - down[-1]
    if len(order) < 2 or reach == 0:
        return order
    decay = (down[:-1] - down[1:]) / reach / np.arange(1, len(down))
    return order[: max(int(decay.argmax()) + 1, math.floor(case.settings.min_k / reach))]


def _surprising(logits: Array, case: Case) -> list[int]:
    p, mu = softmax(logits), 2 * case.settings.mirostat_tau
    order = likeliest(p)
    if case.settings.mirostat == 2:
        return [i for i in order if p[i] >= 2.0**-mu] or order[:1]
    if len(order) == 1:
        return order
    if p.min() < 1e-37:
        raise UndefinedError
    falling = [p[i] for i in order[:100]]
    t = [math.log((i + 2) / (i + 1)) for i in range(len(falling) - 1)]
    b = [math.log(one / other) for one, other in pairwise(falling)]
    exponent = sum(x * y for x, y in zip(t, b, strict=True)) / sum(x * x for x in t)
    excess = exponent - 1
    kept = ((excess * 2**mu) / (1 - N_VOCAB**-excess)) ** (1 / exponent)
    return order[: max(int(kept), 1)]


MOVES: dict[str, Callable[[Array, Array, Case], Array]] = {
    "penalties": _penalised,
    "dry": _dry,
    "temperature": _heated,
    "adaptive_p": _adapted,
}
KEEPS: dict[str, Callable[[Array, Case], list[int]]] = {
    "top_n_sigma": _above_sigmas,
    "top_k": lambda logits, case: likeliest(logits)[: case.settings.top_k],
    "typical_p": _typical,
    "top_p": lambda logits, case: until(likeliest(logits), softmax(logits), case.settings.top_p),
    "min_p": lambda logits, case: np.flatnonzero(
        softmax(logits) >= softmax(logits).max() * case.settings.min_p - 1e-12
    ).tolist(),
    "xtc": _xtc,
    "p_less": _p_less,
    "top_h": _top_h,
    "min_k": _min_k,
    "mirostat": _surprising,
}
LACKING = ("p_less", "top_h", "min_k")


def by_definition(name: str, data: Array, case: Case) -> Array:
    if name in MOVES:
        moved = data.copy()
        moved["logit"] = MOVES[name](data["logit"], data["id"], case)
        return moved
    return data[KEEPS[name](data["logit"], case)]


# --- one against the other --------------------------------------------------------------------------------------------


class Expected(NamedTuple):
    probabilities: dict[int, float]
    survivors: list[int]
    masses: list[float]
    removed_by: dict[int, str]


def expected(case: Case, vocab: Any, *, defined: bool = False) -> Expected:
    """What stage after stage of the reference leaves; `defined`: all by their definitions."""
    kind = np.dtype([("id", np.int32), ("logit", np.float64)]) if defined else _CANDIDATE
    data = np.zeros(N_VOCAB, kind)
    data["id"], data["logit"] = np.arange(N_VOCAB), case.logits
    survivors: list[int] = []
    masses: list[float] = []
    removed_by: dict[int, str] = {}
    there = [*range(N_VOCAB)]
    for stage in chain_of(case.settings):
        before = np.zeros(N_VOCAB)
        before[data["id"]] = softmax(data["logit"])
        if stage.is_active(case.settings) and _acts(stage.name, data, case):
            if defined or stage.name in LACKING:
                data = by_definition(stage.name, data[np.isfinite(data["logit"])], case)
            else:
                data = by_llama_cpp(stage.name, data.copy(), case, vocab)
        left = data["id"][np.isfinite(data["logit"])]
        survivors.append(len(left))
        masses.append(float(before[left].sum()))
        removed_by |= dict.fromkeys(set(there) - set(left.tolist()), stage.name)
        there = left.tolist()
    data = data[np.isfinite(data["logit"])]
    p = softmax(data["logit"])
    return Expected(dict(zip(data["id"].tolist(), p.tolist(), strict=True)), survivors, masses, removed_by)


def _acts(name: str, data: Array, case: Case) -> bool:
    """Whether llama.cpp would do anything: XTC is thrown with our dice, and has nothing to choose from where one is left."""
    if name != "xtc":
        return True
    s = case.settings
    return len(data) > 1 and s.xtc_threshold <= 0.5 and dice.draw_chance(case.seed, 0) <= np.float32(s.xtc_probability)


def check(case: Case, wanted: Expected, observer: Observer, breakers: Breakers | None, tolerance: float) -> bool:
    """That our chain leaves the same with the same probabilities, and that the step says so of each stage. Whether it needed
    a part of the row only."""
    chain = Chain(case.settings, N_VOCAB, case.past, breakers=breakers)
    needs = chain.count_needed()
    near = None if needs is None else find_top(case.logits, needs)
    left = chain.apply_stages(case.logits, near, [], case.seed, 0)
    found = dict(zip(left.ids.tolist(), softmax(left.logits).tolist(), strict=True))
    assert found.keys() == wanted.probabilities.keys(), case.settings
    off = (abs(share - wanted.probabilities[i]) for i, share in found.items())
    assert max(off) < tolerance, case.settings
    drawn = observer.draw(case.logits, chain, case.seed, 0)
    chain.close()
    assert [stage.survivors for stage in drawn.stages[:-1]] == wanted.survivors, case.settings
    assert [stage.mass for stage in drawn.stages[:-1]] == pytest.approx(wanted.masses, rel=2e-4), case.settings
    ids = np.array([i for i, p in wanted.probabilities.items() if p], np.int32)
    logprobs = np.log([p for p in wanted.probabilities.values() if p])
    scores = logprobs + dice.draw_gumbel(case.seed, 0, ids)
    assert drawn.id == ids[scores.argmax()], case.settings
    if len(scores) > 1:
        second, first = np.sort(scores)[-2:]
        assert drawn.margin == pytest.approx(first - second, rel=tolerance, abs=20 * tolerance), case.settings
    for one in drawn.candidates:
        assert one.probability == pytest.approx(wanted.probabilities.get(one.id, 0.0), rel=tolerance, abs=tolerance)
        assert one.removed_by == wanted.removed_by.get(one.id), case.settings
    return chain.looks_at() is not None


def counts_masked(s: SamplerSettings) -> bool:
    """Whether the tokens that llama.cpp's top_n_sigma masks, and leaves in the array, are counted by a stage after it."""
    chain = [stage.name for stage in chain_of(s) if stage.is_active(s)]
    after = chain[chain.index("top_n_sigma") + 1 :] if "top_n_sigma" in chain else []
    return "typical_p" in after or (s.dynatemp_range > 0 and "temperature" in after)


def test_ten_thousand_chains_leave_what_llama_cpp_leaves(session: ModelSession) -> None:
    observer = Observer(N_VOCAB, (2,), Labels(N_VOCAB, str), WATCHED)
    vocab, breakers, parts = session.model.vocab, session.model.breakers, 0
    for case in cases(CHAINS):
        parts += check(case, expected(case, vocab), observer, breakers, 2e-5)
    assert CHAINS / 5 < parts < CHAINS * 4 / 5


def test_chains_leave_what_the_definitions_say(session: ModelSession) -> None:
    observer = Observer(N_VOCAB, (2,), Labels(N_VOCAB, str), WATCHED)
    compared = 0
    for case in cases(BY_DEFINITION):
        if not counts_masked(case.settings):
            with suppress(UndefinedError):
                check(case, expected(case, None, defined=True), observer, session.model.breakers, 2e-4)
                compared += 1
    assert compared > 0.8 * BY_DEFINITION


def test_all_that_llama_cpp_has_is_on_by_its_defaults_or_off() -> None:
    """`common_params_sampling` of its common.h."""
    defaults = {
        "repeat_last_n": 64, "repeat_penalty": 1.0, "frequency_penalty": 0.0, "presence_penalty": 0.0, "dry_multiplier": 0.0,
        "dry_base": 1.75, "dry_allowed_length": 2, "dry_penalty_last_n": 64, "dry_sequence_breakers": ("\n", ":", '"', "*"),
        "top_n_sigma": -1.0, "top_k": 40, "typical_p": 1.0, "top_p": 0.95, "min_p": 0.05, "xtc_probability": 0.0,
        "xtc_threshold": 0.1, "temperature": 0.8, "dynatemp_range": 0.0, "dynatemp_exponent": 1.0, "mirostat": 0,
        "mirostat_tau": 5.0, "mirostat_eta": 0.1, "adaptive_target": -1.0, "adaptive_decay": 0.9,
    }  # fmt: skip
    assert {name: knob.default for name, knob in KNOBS.items() if name in defaults} == defaults
    ours = {
        name: getattr(SamplerSettings(), name) for name in SamplerSettings.__struct_fields__ if name not in defaults
    }
    assert {name: value for name, value in ours.items() if name in LACKING} == {"p_less": 0, "top_h": 0.0, "min_k": 0.0}
    theirs = ["penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature"]
    turned = Tuning().turn_knobs({"order": ";".join(theirs)})
    assert [name for name in ORDER if name not in LACKING] == [*turned.order]
    assert not any(STAGES[name].is_active(SamplerSettings()) for name in LACKING)
    assert msgspec.structs.replace(SamplerSettings(), order=()) != SamplerSettings()
