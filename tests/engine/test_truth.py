"""Every number of a token's record against an independent float64 computation over the same logits."""

from __future__ import annotations

import ctypes
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from termchat.decoding import dice
from termchat.decoding.records import Token
from termchat.decoding.samplers import SamplerSettings, Tuning
from termchat.engine.llama.chain import Chain, Observer, find_top
from termchat.engine.llama.model_session import ModelSession
from termchat.engine.llama.native import LIB
from tests.asking import events_of
from tests.engine.conftest import lasting, prompt, request, tokens

Row = NDArray[np.float64]

BOTH = pytest.mark.parametrize("native", [True, False], ids=["native", "numpy"])
"""The code that was compiled, and what stands in for it."""


@pytest.fixture(scope="module")
def drawn(session: ModelSession) -> list[tuple[NDArray[np.float32], Token]]:
    """Logits and record of each step of a real reply."""
    rows: list[NDArray[np.float32]] = []
    tuning = Tuning(max_tokens=60, temperature=1.0)
    ids = lasting(session, "Tell me about the sea, the sky and the land.", tuning)
    pairs = []
    for record in events_of(session, request(ids, tuning)):
        if isinstance(record, Token):
            pairs.append((session.cache.read_logits().copy(), record))
            rows.append(pairs[-1][0])
    assert len(pairs) == 60
    return pairs


def softmax(row: Row) -> Row:
    weights = np.exp(row - row.max())
    return weights / weights.sum()


def test_raw_numbers(drawn: list[tuple[NDArray[np.float32], Token]], session: ModelSession) -> None:
    for logits, token in drawn:
        row = logits.astype(np.float64)
        p = softmax(row)
        assert token.logit == logits[token.id]
        assert token.logprob == pytest.approx(np.log(p[token.id]), abs=1e-5)
        assert token.rank == (row > row[token.id]).sum()
        assert token.entropy == pytest.approx(-(p * np.log2(p, where=p > 0, out=np.zeros_like(p))).sum(), abs=1e-5)
        assert token.p_end == pytest.approx(p[session.model.end_ids].sum(), rel=1e-5, abs=1e-9)


def test_candidates_are_the_highest_logits_in_order(drawn: list[tuple[NDArray[np.float32], Token]]) -> None:
    for logits, token in drawn:
        p = softmax(logits.astype(np.float64))
        expected = np.argsort(-logits, kind="stable")[:20].tolist()
        listed = [candidate.id for candidate in token.candidates]
        assert listed[:20] == expected
        assert listed[20:] == ([] if token.id in expected else [token.id])
        for candidate in token.candidates:
            assert candidate.logit == logits[candidate.id]
            assert candidate.logprob == pytest.approx(np.log(p[candidate.id]), abs=1e-5)
            noise = dice.draw_gumbel(7, token.step, np.array([candidate.id], np.int32))[0]
            assert candidate.noise == pytest.approx(
                noise, rel=1e-13
            )  # whose logarithms round the last bit their own way


class Expected(NamedTuple):
    """What each stage leaves: so many of the first ids in `order`, and the last one these with their probabilities; and how
    near the nearest border was."""

    order: NDArray[np.intp]
    survivors: dict[str, int]
    probabilities: Row
    margin: float

    def cut_by(self, token: int) -> str | None:
        """The stage that removed a token."""
        (place,) = np.flatnonzero(self.order == token)
        return next((name for name, count in self.survivors.items() if place >= count), None)


def reference(row: Row, settings: SamplerSettings, past: list[int]) -> Expected:
    """Compute every stage in float64."""
    logits = row.copy()
    recent = past[-settings.repeat_last_n :] if settings.repeat_last_n else []
    for token in set(recent):
        count, value = recent.count(token), logits[token]
        value = value * settings.repeat_penalty if value <= 0 else value / settings.repeat_penalty
        logits[token] = value - count * settings.frequency_penalty - settings.presence_penalty
    order = np.argsort(-logits, kind="stable")
    values = logits[order]
    count, margin = len(order), np.inf
    survivors = {"penalties": count}
    if 0 < settings.top_k < count:
        count = settings.top_k
        margin = min(margin, values[count - 1] - values[count])
    survivors["top_k"] = count
    if settings.top_p < 1:
        reached = np.cumsum(softmax(values[:count]))
        # llama.cpp sums in float32, one after the other: over a whole vocabulary that is off by up to 1e-4.
        blur = 50 if count > 1000 else 1
        margin = min(margin, float(np.abs(reached - settings.top_p).min()) / blur)
        count = min(int(np.searchsorted(reached, settings.top_p - 1e-15) + 1), count)
    survivors["top_p"] = count
    if settings.min_p > 0:
        border = values[0] + np.log(settings.min_p)
        margin = min(margin, float(np.abs(values[:count] - border).min()))
        count = int((values[:count] >= border).sum()) or 1
    survivors["min_p"] = count
    if settings.temperature <= 0:
        if count > 1:
            margin = min(margin, values[0] - values[1])
        count = 1
    survivors["temperature"] = count
    return Expected(order, survivors, softmax(values[:count] / (settings.temperature or 1.0)), margin)


def random_settings(rng: np.random.Generator) -> SamplerSettings:
    pick = rng.choice
    return SamplerSettings(
        repeat_penalty=float(pick([1.0, 1.0, 1.1, 1.5, 0.8])),
        repeat_last_n=int(pick([0, 1, 16, 64, 256])),
        frequency_penalty=float(pick([0.0, 0.0, 0.3, -0.5])),
        presence_penalty=float(pick([0.0, 0.0, 0.7, -0.2])),
        top_k=int(pick([0, 1, 2, 5, 40, 40, 200, 3000, 20000, 60000])),
        top_p=float(pick([1.0, 0.95, round(rng.uniform(0.01, 1), 3), 0.0])),
        min_p=float(pick([0.0, 0.05, round(rng.uniform(0.001, 1), 3), 1.0])),
        temperature=float(pick([0.0, 0.8, 1.0, round(rng.uniform(0.05, 3), 3)])),
    )


@BOTH
def test_stages_against_float64(
    drawn: list[tuple[NDArray[np.float32], Token]], session: ModelSession, native: bool
) -> None:
    rng = np.random.default_rng(20)
    model = session.model
    observer = Observer(model.n_vocab, model.end_ids, model.names, 20, native=native)
    compared = 0
    for trial in range(600):
        logits, _ = drawn[trial % len(drawn)]
        past = [token.id for _, token in drawn][: trial % 50] + rng.integers(0, 49152, trial % 7).tolist()
        settings = random_settings(rng)
        expected = reference(logits.astype(np.float64), settings, past)
        if expected.margin < 2e-5:  # float32 may fall on the other side of a border as near as this
            continue
        compared += 1
        chain = Chain(settings, session.model.n_vocab, past)
        step = observer.draw(logits, chain, seed=trial, step=trial)
        chain.close()
        assert {s.name: s.survivors for s in step.stages} == expected.survivors | {"dice": 1}
        left = expected.order[: len(expected.probabilities)].astype(np.int32)
        probabilities = dict(zip(left.tolist(), expected.probabilities.tolist(), strict=True))
        assert step.probability == pytest.approx(probabilities[step.id], rel=2e-5)
        for candidate in step.candidates:
            assert candidate.probability == pytest.approx(probabilities.get(candidate.id, 0.0), rel=2e-5, abs=1e-9)
            assert candidate.removed_by == expected.cut_by(candidate.id), (settings, candidate)
        scores = np.log(expected.probabilities) + dice.draw_gumbel(trial, trial, left)
        assert step.id == left[scores.argmax()]
    assert compared > 300


def test_stages_against_llama_cpp_whole(drawn: list[tuple[NDArray[np.float32], Token]], session: ModelSession) -> None:
    """The staged, preselected chain leaves just what llama.cpp's own chain leaves of the whole vocabulary."""
    rng = np.random.default_rng(21)
    n_vocab = session.model.n_vocab
    for trial in range(300):
        logits, _ = drawn[trial % len(drawn)]
        past = [token.id for _, token in drawn][: trial % 50]
        s = random_settings(rng)
        native = LIB.llama_sampler_chain_init(LIB.llama_sampler_chain_default_params())
        for sampler in (
            LIB.llama_sampler_init_penalties(
                n_vocab, s.repeat_last_n, s.repeat_penalty, s.frequency_penalty, s.presence_penalty
            ),
            LIB.llama_sampler_init_top_k(s.top_k),
            LIB.llama_sampler_init_top_p(s.top_p, 1),
            LIB.llama_sampler_init_min_p(s.min_p, 1),
            LIB.llama_sampler_init_temp(s.temperature),
        ):
            LIB.llama_sampler_chain_add(native, sampler)
        for token in past:
            LIB.llama_sampler_accept(native, token)
        data = (LIB.llama_token_data * n_vocab)()
        whole = np.frombuffer(data, [("id", np.int32), ("logit", np.float32), ("p", np.float32)])
        whole["id"], whole["logit"] = np.arange(n_vocab), logits
        array = LIB.llama_token_data_array(ctypes.cast(data, LIB.llama_token_data_p), n_vocab, -1, False)
        LIB.llama_sampler_apply(native, ctypes.byref(array))
        LIB.llama_sampler_free(native)
        left = whole[: array.size]
        left = left[np.isfinite(left["logit"])]
        chain = Chain(s, n_vocab, past)
        needs = chain.count_needed()
        ids, final, *_ = chain.apply_stages(logits, None if needs is None else find_top(logits, needs), [])
        chain.close()
        assert dict(zip(left["id"].tolist(), left["logit"].tolist(), strict=True)) == dict(
            zip(ids.tolist(), final.tolist(), strict=True)
        )


@pytest.mark.parametrize("count", [1, 20, 60, 767, 768, 800, 49151, 49152, 60000])
def test_top_holds_the_highest(count: int) -> None:
    rng = np.random.default_rng(count)
    for row in (rng.normal(size=49152), np.round(rng.normal(size=49159), 1), np.zeros(300), -np.arange(5000.0)):
        logits = row.astype(np.float32)
        found = find_top(logits, count)
        highest = np.sort(logits)[::-1][:count]
        assert np.array_equal(np.sort(logits[found])[::-1][: len(highest)], highest)
        assert len(set(found.tolist())) == len(found)


@BOTH
@pytest.mark.parametrize("left", [4, 200])
def test_masked_logits_do_not_spoil_the_entropy(session: ModelSession, left: int, native: bool) -> None:
    logits = np.full(session.model.n_vocab, -np.inf, np.float32)
    logits[:left] = 1.0
    observer = Observer(len(logits), session.model.end_ids, session.model.names, 20, native=native)
    chain = Chain(SamplerSettings(), len(logits), [])
    step = observer.draw(logits, chain, 1, 0)
    chain.close()
    assert step.entropy == pytest.approx(np.log2(left), abs=1e-6)
    assert step.id < left


def test_greedy_equals_a_plain_llama_cpp_loop(session: ModelSession) -> None:
    ids = prompt(session, "Name the planets of the solar system.")
    stream = tokens(list(events_of(session, request(ids, Tuning(temperature=0, max_tokens=120)))))
    cache, model = session.cache, session.model
    LIB.llama_memory_clear(cache.memory, True)
    cache.ids.clear()
    greedy = LIB.llama_sampler_init_greedy()
    plain: list[int] = []
    batches = [ids[i : i + 63] for i in range(0, len(ids) - 1, 63)]
    batches[-1] = batches[-1][: (len(ids) - 1) % 63 or 63]
    for batch in [*batches, ids[-1:]]:
        array = (LIB.llama_token * len(batch))(*batch)
        assert LIB.llama_decode(cache.pointer, LIB.llama_batch_get_one(array, len(batch))) == 0
    while len(plain) < len(stream):
        token = LIB.llama_sampler_sample(greedy, cache.pointer, -1)
        plain.append(token)
        if token in model.end_ids:
            break
        assert LIB.llama_decode(cache.pointer, LIB.llama_batch_get_one((LIB.llama_token * 1)(token), 1)) == 0
    LIB.llama_sampler_free(greedy)
    LIB.llama_memory_clear(cache.memory, True)
    assert [token.id for token in stream] == plain
    assert all(token.probability == 1.0 and token.rank == 0 for token in stream)
