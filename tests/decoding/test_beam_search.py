"""Beam search over small tables: against transformers' way of writing it down, and against all sequences there are."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from termchat.decoding.beam_search import Continuation, Search, choose_step, count_needed, find_problem, score_beam
from termchat.decoding.group import BeamSettings
from tests.decoding.plain_beams import Ids, best_of_all, search, total

END, OTHER_END = 0, 1
PENALTIES = (0.0, 0.5, 1.0, 2.0)


class Table:
    """A model: the logprobs of `tokens` tokens after each beginning, the first `ends` of which end."""

    def __init__(self, seed: int, tokens: int = 6, ends: int = 1, sharpness: float = 1.5) -> None:
        self.seed, self.tokens, self.ends, self.sharpness = seed, tokens, range(ends), sharpness
        self.rows: dict[Ids, NDArray[np.float64]] = {}

    def row(self, ids: Ids) -> NDArray[np.float64]:
        if ids not in self.rows:
            logits = np.random.default_rng([self.seed, *ids]).standard_normal(self.tokens) * self.sharpness
            self.rows[ids] = logits - np.log(np.exp(logits).sum())
        return self.rows[ids]


def searched(table: Table, how: BeamSettings, longest: int) -> list[tuple[float, Ids]]:
    """The n best, by the rules under test."""
    rules = Search[Ids](how)
    running: list[tuple[Ids, float]] = [((), 0.0)]
    for length in range(1, longest + 1):
        count = count_needed(how.width, len(table.ends))
        best = []
        for ids, _ in running:
            row = table.row(ids)
            best.append([(i, float(row[i])) for i in np.argsort(-row)[:count].tolist()])
        step = choose_step([total for _, total in running], best, how.width, lambda one: one.id in table.ends)
        beams = [ids for ids, _ in running]
        for one in step.finished:
            rules.finish_beam((*beams[one.parent], one.id), one.total, length)
        running = [((*beams[one.parent], one.id), one.total) for one in step.running]
        if rules.is_over(running[0][1] if running else None, length):
            return [(found.score, found.beam) for found in rules.n_best()]
    return [(found.score, found.beam) for found in rules.n_best(running, longest)]


def agree(one: list[tuple[float, Ids]], other: list[tuple[float, Ids]]) -> None:
    assert [ids for _, ids in one] == [ids for _, ids in other]
    assert [value for value, _ in one] == pytest.approx([value for value, _ in other], abs=1e-12)


@settings(max_examples=150)
@given(
    seed=st.integers(0, 2**32 - 1),
    width=st.integers(1, 8),
    penalty=st.sampled_from(PENALTIES),
    early=st.booleans(),
    ends=st.integers(1, 2),
    data=st.data(),
)
def test_the_n_best_are_those_of_transformers(
    seed: int, width: int, penalty: float, early: bool, ends: int, data: st.DataObject
) -> None:
    how = BeamSettings(width, penalty, data.draw(st.integers(1, width)), early)
    table = Table(seed, ends=ends)
    agree(searched(table, how, 6), search(table, how, 6))


@pytest.mark.parametrize("penalty", PENALTIES)
@settings(max_examples=15)
@given(seed=st.integers(0, 2**32 - 1))
def test_a_search_as_wide_as_the_tree_finds_the_best_of_all_sequences(penalty: float, seed: int) -> None:
    table = Table(seed, tokens=5)
    # So many finished beams there are not: it does not end before the horizon.
    how = BeamSettings(1000, penalty, 10)
    agree(searched(table, how, 4), best_of_all(table, how, 4))


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("early", [True, False])
@settings(max_examples=40)
@given(seed=st.integers(0, 2**32 - 1))
def test_one_beam_is_greedy_decoding(penalty: float, early: bool, seed: int) -> None:
    table, ids = Table(seed, ends=2), ()
    while len(ids) < 12 and not (ids and ids[-1] in table.ends):
        ids = (*ids, int(table.row(ids).argmax()))
    (value, found) = searched(table, BeamSettings(1, penalty, 1, early), 12)[0]
    assert found == ids
    assert value == pytest.approx(total(table, ids) / len(ids) ** penalty)


def test_a_wider_search_finds_what_greedy_decoding_misses() -> None:
    better = 0
    for seed in range(40):
        table = Table(seed, sharpness=1.0)
        one, eight = (searched(table, BeamSettings(width, 0.0), 5)[0][0] for width in (1, 8))
        better += eight > one
    assert better > 20


def test_length_penalty_favours_long_beams() -> None:
    lengths = {
        penalty: np.mean([len(searched(Table(seed, ends=2), BeamSettings(4, penalty), 8)[0][1]) for seed in range(40)])
        for penalty in PENALTIES
    }
    assert list(lengths.values()) == sorted(lengths.values())
    assert lengths[2.0] > lengths[0.0] + 1


def test_a_step_keeps_the_best_drops_the_next_and_ends_only_the_best() -> None:
    best = [[(5, -1.0), (END, -1.5), (6, -3.0)], [(7, -0.5), (OTHER_END, -2.5), (8, -math.inf)]]
    step = choose_step([-1.0, -1.0], best, 2, lambda one: one.id in (END, OTHER_END))
    assert [(one.parent, one.id, one.total) for one in step.running] == [(1, 7, -1.5), (0, 5, -2.0)]
    assert step.finished == []  # the end token came third, of two beams
    assert [(one.parent, one.id) for one in step.dropped] == [(0, END), (1, OTHER_END)]
    step = choose_step([-1.0, -1.2], best, 3, lambda one: one.id in (END, OTHER_END))
    assert [one.id for one in step.finished] == [END]
    assert [one.id for one in step.running] == [7, 5, 6]
    assert [one.id for one in step.dropped] == [OTHER_END]


def test_ties_go_to_the_first_parent_and_then_to_the_lowest_id() -> None:
    best = [[(9, -1.0), (3, -1.0)], [(2, -1.0)]]
    step = choose_step([-1.0, -1.0], best, 2, lambda _: False)
    assert step.running == [Continuation(0, 3, -1.0, -2.0), Continuation(0, 9, -1.0, -2.0)]
    assert [one.id for one in step.dropped] == [2]


def test_a_search_without_running_beams_is_over_and_gives_what_there_is() -> None:
    found = Search[str](BeamSettings(4, 1.0, 3))
    found.finish_beam("a", -3.0, 3)
    assert not found.is_over(-9.0, 3)
    assert found.is_over(None, 3)
    assert [one.beam for one in found.n_best()] == ["a"]
    assert [one.beam for one in found.n_best([("b", -1.0), ("c", -8.0)], 4)] == ["b", "a", "c"]


def test_the_end_token_counts_as_a_token() -> None:
    assert score_beam(-3.0, 3, 1.0) == -1.0
    assert score_beam(-3.0, 3, 0.0) == -3.0
    assert score_beam(-8.0, 4, 0.5) == -4.0


@pytest.mark.parametrize(
    ("how", "said"),
    [
        (BeamSettings(0), "a beam search keeps 2 to 16 beams, not 0"),
        (BeamSettings(17), "a beam search keeps 2 to 16 beams, not 17"),
        (BeamSettings(2, 1.0, 3), "2 beams give 1 to 2 replies, not 3"),
        (BeamSettings(2, 1.0, 0), "2 beams give 1 to 2 replies, not 0"),
        (BeamSettings(2, math.nan), "the length penalty is from -10 to 10, not nan"),
        (BeamSettings(16, -10.0, 16), ""),
    ],
)
def test_settings_that_no_search_can_have_are_told(how: BeamSettings, said: str) -> None:
    assert find_problem(how) == said
