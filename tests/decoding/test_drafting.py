"""When a draft is made, how long it is, and where it comes from."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from termchat.decoding.drafting import (
    NGRAM,
    BatchTimes,
    Judge,
    Ngrams,
    breaks_even,
    compute_gains,
    forecast_drafts,
    how_many,
)

COSTS = {2: 1.82, 3: 2.08, 4: 2.37, 6: 3.48, 8: 4.18, 12: 5.86, 16: 7.62}
"""T(n) of a small model with two threads."""
TWO = BatchTimes(COSTS).read_cost
FOURS = {2: 1.67, 3: 2.19, 4: 1.45, 8: 2.87, 16: 3.37}
"""T(n) of a model of K-quants with slow memory: what four rows share, single ones read anew."""


def slow_match(ids: list[int]) -> tuple[int, int]:
    """The place behind the newest earlier occurrence of the last ids, and the length of the match, at most 16; compared one
    by one."""
    for place in range(len(ids) - 1, NGRAM - 1, -1):
        if ids[place - NGRAM : place] == ids[-NGRAM:]:
            length = max(n for n in range(NGRAM, min(16, place) + 1) if ids[place - n : place] == ids[-n:])
            return place, length
    return 0, 0


@given(st.lists(st.integers(0, 3), max_size=60), st.integers(0, 20))
def test_the_lookup_finds_what_comparing_one_by_one_finds(ids: list[int], count: int) -> None:
    ngrams = Ngrams(ids, Judge())
    place, length = slow_match(ids)
    assert ngrams.match == length
    endless = [*ids]
    while place and len(endless) < len(ids) + count:
        endless.append(endless[len(endless) - len(ids) + place])
    assert ngrams.read_following(count) == (endless[len(ids) :] if place else [])


def drafted(ids: list[int], begin: int) -> tuple[float, int, int]:
    """A recorded reply `ids[begin:]` drafted by the rules: how many times as fast it is by the table, and how many tokens were
    drafted and taken."""
    found = forecast_drafts(ids[:begin], ids[begin:], BatchTimes(COSTS))
    return found.gain, found.drafted, found.accepted


def test_copies_are_drafted_at_length() -> None:
    text = [(i * i * 7 + i // 3) % 997 for i in range(200)]
    speed, made, taken = drafted([*text, 5000, *text], len(text) + 1)
    assert speed > 1.7
    assert taken > 0.9 * made > 150


def test_an_edit_of_a_text_is_drafted_around_its_changes() -> None:
    text = [(i * i * 7 + i // 3) % 997 for i in range(240)]
    changed = [token if i % 40 else 6000 + i for i, token in enumerate(text)]
    speed, made, taken = drafted([*text, 5000, *changed], len(text) + 1)
    assert speed > 1.3
    assert made > taken > 150


@given(st.integers(1, 2**32))
def test_free_text_drafts_next_to_nothing_and_loses_nothing(seed: int) -> None:
    ids, state = [], seed
    for _ in range(400):  # frequent words return, what follows them does not
        state = (state * 1103515245 + 12345) % 2**31
        ids.append((state >> 8) % (6 if state & 64 else 900))
    speed, made, _ = drafted(ids, 100)
    assert speed > 0.97
    assert made < 30


def test_break_even_is_where_the_gain_is_one() -> None:
    for times in (TWO, BatchTimes(FOURS).read_cost, BatchTimes().read_cost, lambda rows: 1 + 0.02 * rows):
        even = breaks_even(times, 15)
        assert max(compute_gains([even + 0.01] * 15, times)) > 1 >= max(compute_gains([even - 0.01] * 15, times))
    assert 0.5 < breaks_even(TWO, 15) < 0.8
    assert breaks_even(TWO, 15, each=0.1) > breaks_even(TWO, 15)
    assert breaks_even(lambda rows: 1.5 * rows, 15) > 0.999


def test_the_number_drafted_grows_with_the_acceptance() -> None:
    lengths = [how_many([rate] * 15, TWO) for rate in (0.3, 0.75, 0.9, 0.99)]
    assert lengths == sorted(lengths)
    assert (lengths[0], lengths[-1]) == (0, 15)


def test_drafts_fill_batches_of_a_cheap_size() -> None:
    for rate in (0.85, 0.9, 0.93, 0.97, 1.0):
        assert how_many([rate] * 15, lambda rows: 0.5 + 0.5 * rows) in (1, 3, 7, 11, 15)
    assert how_many([1.0] * 5, TWO) == 5, "as many as there is room for"


def test_no_draft_risks_more_than_was_gained_and_may_be_lost() -> None:
    assert how_many([0.99] * 15, TWO, risk=TWO(8) - 1) == 7
    assert how_many([0.99] * 15, TWO, risk=TWO(2) - 1.01) == 0
    text = [(i * i * 7 + i // 3) % 997 for i in range(60)]
    path, times = [*text, 5000, *text[:40]], BatchTimes(COSTS)
    ngrams = Ngrams(path, Judge())
    lengths = []
    for _ in range(4):
        lengths.append(len(ngrams.propose_ids(path, 15, times)))
        ngrams.count_earned(1, TWO(1 + lengths[-1]))
    assert lengths == [3, 3, 0, 0], "what was lost in vain is not risked again"
    ngrams.count_earned(12, 1.0)
    assert len(ngrams.propose_ids(path, 15, times)) == 7


def test_batch_times_are_those_that_were_seen() -> None:
    times = BatchTimes(COSTS)
    assert all(before < after for before, after in pairwise(map(times.read_cost, range(1, 17))))
    for us in (1000, 990, 5000, 1010, 1000) * 4:  # one of them was disturbed
        times.add(1, us)
        times.add(8, us * 1.2)
    assert times.read_cost(8) == pytest.approx(1.2, rel=0.02)
    assert times.read_cost(16) == pytest.approx(times.read_cost(8) * TWO(16) / TWO(8))
    assert times.read_cost(2) == 1.0, "a batch never costs less than a row"


def test_a_machine_that_turns_slow_does_not_make_batches_dear() -> None:
    """Single rows of a quiet time say nothing of the batches of a busy one."""
    times = BatchTimes(COSTS)
    for _ in range(20):
        times.add(1, 6000)
    for _ in range(40):  # a copy is drafted at length: no row is alone any more
        times.add(16, 20 * 6000 * TWO(16))
    assert times.read_cost(16) == TWO(16)


def test_batch_times_begin_with_what_was_measured() -> None:
    times = BatchTimes({1: 1.0, 2: 1.1, 4: 1.2, 8: 1.4, 16: 2.0})
    assert [times.read_cost(rows) for rows in (1, 2, 4, 8, 12, 16)] == pytest.approx([1, 1.1, 1.2, 1.4, 1.7, 2.0])
    assert breaks_even(times.read_cost, 15) < 0.2
    short = BatchTimes({4: 2.0})
    assert (short.read_cost(2), short.read_cost(16)) == pytest.approx((4 / 3, 6.0))
    for nonsense in ({}, {8: float("nan")}, {0: 3.0, -4: 2.0, 8: float("inf")}):
        assert not BatchTimes(nonsense).measured


def test_rows_beyond_a_multiple_of_four_cost_what_single_rows_do() -> None:
    times = BatchTimes(FOURS)
    really = {5: 2.10, 6: 2.44, 12: 3.61}  # not among those that were measured to begin with
    assert all(times.read_cost(rows) == time for rows, time in FOURS.items())
    assert all(time * 0.85 < times.read_cost(rows) < time * 1.27 for rows, time in really.items())
    assert times.read_cost(4) < times.read_cost(2) < times.read_cost(3) < times.read_cost(7)
    assert times.read_cost(8) < times.read_cost(7), "seven are four and three"
    straight = BatchTimes({2: 2.0, 3: 3.0, 4: 4.0, 8: 8.0, 16: 16.0})
    assert [straight.read_cost(rows) for rows in range(1, 17)] == pytest.approx(list(range(1, 17)))
    assert BatchTimes({2: 1.7, 4: 1.5}).read_cost(3) == pytest.approx(2.4), "three are not between two and four"


@pytest.mark.parametrize("rate", [0.6, 0.8, 0.9, 0.95, 1.0])
def test_drafts_fill_the_fours(rate: float) -> None:
    assert how_many([rate] * 15, BatchTimes(FOURS).read_cost) in (3, 7, 11, 15)
    assert how_many([rate] * 6, BatchTimes(FOURS).read_cost) == 3


def test_costs_that_are_guessed_decide_nothing() -> None:
    """Neither what a busy machine did not tell, nor what few batches did, says that drafts never pay."""
    guessed, judge = BatchTimes(), Judge()
    assert not guessed.measured
    for us in (1000, 3000) * 9:  # every batch is disturbed
        guessed.add(1 if us == 1000 else 4, us * 4)
    assert guessed.read_cost(4) == pytest.approx(3.0)
    assert guessed.breaks_even(15) is None
    for step in range(Judge.IDLE):
        judge.count_guess(right=step % 8 == 0)
        judge.count_plain(lambda: guessed.breaks_even(15))
    assert (judge.why, judge.rests) == ("", False)
    while not judge.rests:  # what really was lost is another thing
        judge.count_round(7, 1, guessed.read_cost(8), lambda: guessed.breaks_even(15))
    assert judge.why == "accepted 14%"


def test_drafts_that_do_not_pay_are_switched_off_and_tried_again() -> None:
    judge, rests = Judge(), []
    for _ in range(3):
        while not judge.rests:
            judge.count_round(7, 1, TWO(8), lambda: 0.61)
        assert judge.why == "accepted 14%, breaks even at 61%"
        rests.append(0)
        while judge.rests:
            judge.count_plain(lambda: 0.61)
            rests[-1] += 1
        assert judge.why == ""
    assert rests == [32, 64, 128]
    for _ in range(40):
        judge.count_round(7, 7, TWO(8), lambda: 0.61)
    assert not judge.rests


def test_it_is_told_that_what_could_be_drafted_is_mostly_wrong() -> None:
    judge = Judge()
    for step in range(Judge.IDLE):
        judge.count_guess(right=step % 8 == 0)
        judge.count_plain(lambda: 0.61)
    assert judge.why == "accepted 12%, breaks even at 61%"
    assert not judge.rests
    judge.count_round(3, 3, TWO(4), lambda: 0.61)
    assert judge.why == ""
