"""Margins and near ties: a draw that is certain stays what it is, however logits change within what was measured."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from termchat.decoding.conditions import Length
from termchat.decoding.records import Start, Token
from termchat.decoding.samplers import SamplerSettings
from termchat.engine.llama.chain import Chain, Observer
from termchat.engine.llama.model_session import ModelSession
from termchat.engine.llama.observe import Labels, Mask
from termchat.engine.port import ModelSpec
from tests.asking import ask_for, events_of
from tests.engine.bare_loop import BareContext
from tests.engine.fake_cache import FakeSession

Logits = NDArray[np.float32]
N_VOCAB = 6400
CUTS = ["top_n_sigma", "top_k", "top_p", "min_p", "temperature"]


def some_settings(rng: np.random.Generator, **knobs: Any) -> SamplerSettings:
    """Any settings of stages that leave the highest logits; every third time in any order."""
    order = [str(name) for name in rng.permutation(CUTS)] if rng.random() < 0.3 else CUTS
    choices: dict[str, tuple[Any, ...]] = {
        "top_k": (0, 1, 2, 5, 20, 40, 100), "top_p": (1.0, 0.95, 0.5, 0.1, 0.0), "min_p": (0.0, 0.05, 0.3, 0.9),
        "top_n_sigma": (-1.0, -1.0, 1.0, 2.0), "temperature": (0.0, 0.3, 0.8, 1.0, 1.5), "repeat_last_n": (0, 16, 64),
        "repeat_penalty": (1.0, 1.0, 1.3, 0.8), "presence_penalty": (0.0, 0.5),
    }  # fmt: skip
    drawn = {name: values[rng.integers(len(values))] for name, values in choices.items()}
    return SamplerSettings(order=("penalties", *order), **drawn | knobs)


def some_mask(rng: np.random.Generator) -> Mask | None:
    if rng.random() < 0.7:
        return None
    bits = rng.random(N_VOCAB) < rng.choice([0.02, 0.5, 0.9])
    bits[rng.integers(N_VOCAB)] = True
    return Mask(np.packbits(bits, bitorder="little").view(np.uint32), bool(rng.integers(2)))


def changed(logits: Logits, change: float, winner: int, trial: int, rng: np.random.Generator) -> Logits:
    """Logits of which no two differ by more than `change` from what they did: by chance, or against the winner."""
    some = rng.choice([-0.5, 0.5], N_VOCAB) if trial < 3 else np.full(N_VOCAB, -0.5 if trial < 6 else 0.5)
    if 3 <= trial < 6:
        some[rng.choice(np.argsort(-logits)[:60], [1, 4, 40][trial - 3])] = 0.5
    some[winner] = 0.5 if trial == 0 else -0.5
    common = rng.uniform(-0.5, 0.5)
    return (logits + 0.9999 * change * (some + common)).astype(np.float32)


def test_no_change_turns_a_certain_draw_and_some_change_turns_most_others() -> None:
    rng = np.random.default_rng(4)
    names = Labels(N_VOCAB, str)
    near = turned = certain = in_native = 0
    for seed in range(300):
        change = float(rng.choice([0.02, 0.1, 0.3, 0.8, 2.0]))
        settings, mask, past = some_settings(rng), some_mask(rng), rng.integers(0, 30, 20).tolist()
        logits = rng.normal(rng.choice([0, 10]), rng.choice([0.7, 2, 4]), N_VOCAB).astype(np.float32)
        logits[:30] += rng.choice([0, 6])
        chain = Chain(settings, N_VOCAB, past)
        native, plain = (Observer(N_VOCAB, (2,), names, 5, native=n, largest_change=change) for n in (True, False))
        drawn, again = (one.draw(logits, chain, seed, 0, mask=mask) for one in (native, plain))
        assert (drawn.id, drawn.near_tie) == (again.id, again.near_tie), settings
        assert drawn.margin == pytest.approx(again.margin, abs=1e-5)
        others = {
            native.draw(changed(logits, change, drawn.id, trial, rng), chain, seed, 0, mask=mask).id
            for trial in range(7)
        }
        chain.close()
        in_native += chain.looks_at() is not None
        near += drawn.near_tie is True
        certain += drawn.near_tie is False
        turned += drawn.near_tie is True and others != {drawn.id}
        assert drawn.near_tie or others == {drawn.id}, settings
    assert min(near, certain) > 80
    assert turned > 0.75 * near
    assert 150 < in_native < 300


def drawn_with(
    logits: Logits, settings: SamplerSettings, change: float | None, forced: int | None = None
) -> list[Token]:
    """By native code and without it."""
    chain = Chain(settings, N_VOCAB, [])
    observers = (Observer(N_VOCAB, (), Labels(N_VOCAB, str), 5, native=n, largest_change=change) for n in (True, False))
    drawn = [observer.draw(logits, chain, 7, 3, forced) for observer in observers]
    chain.close()
    return drawn


def peaked(*highest: float) -> Logits:
    """A row with these highest logits, all others far below."""
    row = np.full(N_VOCAB, -40.0, np.float32) - np.arange(N_VOCAB, dtype=np.float32) / N_VOCAB
    row[100 : 100 + len(highest)] = highest
    return row


def test_a_greedy_margin_is_a_difference_of_logits() -> None:
    for drawn in drawn_with(peaked(5.0, 4.5, 1.0), SamplerSettings(temperature=0.0, top_p=1.0), 0.4):
        assert (drawn.margin, drawn.near_tie) == (0.5, False)
    for drawn in drawn_with(peaked(5.0, 4.5, 1.0), SamplerSettings(temperature=0.0, top_p=1.0), 0.6):
        assert drawn.near_tie


@pytest.mark.parametrize(("change", "near"), [(0.4, False), (0.6, True)])
def test_a_token_left_alone_has_no_margin_but_may_be_a_near_tie(change: float, near: bool) -> None:
    for drawn in drawn_with(peaked(5.0, 4.5, 1.0), SamplerSettings(top_k=1), change):
        assert (drawn.margin, drawn.near_tie) == (None, near)


def test_nothing_is_near_where_no_bit_changes_and_nothing_is_known_unmeasured() -> None:
    row = peaked(5.0, 5.0, 5.0)
    settings = SamplerSettings(temperature=0.0)
    assert [drawn.near_tie for drawn in drawn_with(row, settings, 0.0)] == [False, False]
    assert [drawn.near_tie for drawn in drawn_with(row, settings, None)] == [None, None]
    assert [drawn.margin for drawn in drawn_with(row, settings, None)] == [0.0, 0.0]


def test_a_forced_token_has_no_margin_and_cannot_turn() -> None:
    for drawn in drawn_with(peaked(5.0, 5.0), SamplerSettings(), 1.0, forced=17):
        assert (drawn.id, drawn.margin, drawn.near_tie) == (17, None, False)


@pytest.mark.parametrize(
    "settings",
    [
        SamplerSettings(xtc_probability=1.0), SamplerSettings(p_less=1), SamplerSettings(top_h=0.9),
        SamplerSettings(min_k=1.0), SamplerSettings(adaptive_target=0.5), SamplerSettings(dynatemp_range=0.2),
    ],
)  # fmt: skip
def test_a_stage_without_a_bound_makes_near_ties_unless_one_token_is_left_before(settings: SamplerSettings) -> None:
    assert [drawn.near_tie for drawn in drawn_with(peaked(9.0, 8.0), settings, 0.01)] == [True, True]
    assert [drawn.near_tie for drawn in drawn_with(peaked(9.0, 3.0), settings, 0.01)] == [False, False]


@pytest.mark.parametrize("change", [None, 0.0, 0.5])
def test_records_of_a_reply_tell_the_largest_change_and_near_ties(change: float | None) -> None:
    session = FakeSession()
    session.cache.largest_change = change
    asked = ask_for([72, 105], SamplerSettings(), (Length(60),), 5)
    said = list(events_of(session, asked))
    starts, tokens = ([one for one in said if isinstance(one, kind)] for kind in (Start, Token))
    assert [start.largest_change for start in starts] == [change]
    assert {token.near_tie for token in tokens} == {None: {None}, 0.0: {False}, 0.5: {True, False}}[change]
    assert all(
        token.near_tie for token in tokens if change and token.margin is not None and token.margin * 0.8 <= change
    )


CHAINS = (
    SamplerSettings(), SamplerSettings(temperature=0.0), SamplerSettings(top_k=5, temperature=1.3),
    SamplerSettings(top_p=0.8, repeat_penalty=1.1), SamplerSettings(min_p=0.2, top_k=0, top_p=1.0),
    SamplerSettings(top_n_sigma=1.0, presence_penalty=0.5), SamplerSettings(temperature=1.5, top_p=1.0, min_p=0.0),
)  # fmt: skip


def test_draws_that_turn_with_the_size_of_the_batch_are_near_ties(made_model: Callable[[str], Path]) -> None:
    """K-quants: rows of a batch of four have other bits than each alone."""
    session = ModelSession(ModelSpec(str(made_model("llama")), "llama", context=512, threads=1), lambda _: None)
    ids = np.random.default_rng(3).integers(300, 4000, 96).tolist()
    with closing(session), closing(BareContext(session)) as bare:
        alone = list(bare.read(ids, [1] * len(ids)))
        bare.forget()
        rows = [(0, at, token) for at, token in enumerate(ids)]
        together = [row for at in range(0, len(ids), 4) for row in bare.decode(rows[at : at + 4])]
    changes = []
    for one, other in zip(alone, together, strict=True):
        highest = np.argsort(-one)[:100]
        change = (other - one)[highest].astype(np.float64)
        changes.append(max(np.ptp(change), np.abs(change).max()))
    n_vocab, turned, near, draws = len(alone[0]), 0, 0, 0
    observer = Observer(n_vocab, (), Labels(n_vocab, str), 1, largest_change=max(changes))
    for settings in CHAINS:
        chain = Chain(settings, n_vocab, [])
        for step, (one, other) in enumerate(zip(alone, together, strict=True)):
            chain.restart_memory(ids[: step + 1], {})
            for seed in range(6):
                drawn, again = (observer.draw(row, chain, seed, step) for row in (one, other))
                if drawn.id != again.id:
                    assert drawn.near_tie, settings
                    assert again.near_tie, settings
                    turned += 1
                near += drawn.near_tie is True
                draws += 1
        chain.close()
    assert turned > 0
    assert near < 0.5 * draws
