"""When a draft is made, how long it is, and where it comes from."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from termchat.decoding.drafting import (
    NGRAM,
    BatchTimes,
    Counts,
    Judge,
    Lookup,
    breaks_even,
    gain,
    how_many,
)

TWO = BatchTimes(2).of


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
    lookup = Lookup(ids)
    place, length = slow_match(ids)
    assert lookup.match == length
    endless = [*ids]
    while place and len(endless) < len(ids) + count:
        endless.append(endless[len(endless) - len(ids) + place])
    assert lookup.draft(count) == (endless[len(ids) :] if place else [])
    assert lookup.following == (ids[place] if place else None)


def drafted(ids: list[int], begin: int) -> tuple[float, int, int]:
    """A recorded reply `ids[begin:]` drafted by the rules: how many times as fast it is by the table, and how many tokens were
    drafted and taken."""
    lookup, counts = Lookup(ids[:begin]), Counts()
    cost, made, taken, at = 0.0, 0, 0, begin

    def push(token: int) -> None:
        if (match := lookup.match) > 0:
            counts.add(match, right=lookup.following == token)
        lookup.push(token)

    while at < len(ids):
        match = lookup.match
        draft = lookup.draft(how_many((counts.rate(match + j) for j in range(15 if match else 0)), TWO))
        right = next((j for j, (a, b) in enumerate(zip(draft, ids[at:], strict=False)) if a != b), len(draft))
        right = min(right, len(ids) - at)
        cost, made, taken = cost + TWO(1 + len(draft)), made + len(draft), taken + right
        for token in ids[at : at + right + 1]:
            push(token)
        at += right + 1
    return (len(ids) - begin) / cost, made, taken


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
    for times in (TWO, BatchTimes(1).of, lambda rows: 1 + 0.02 * rows):
        even = breaks_even(times, 15)
        assert max(gain([even + 0.01] * 15, times)) > 1 >= max(gain([even - 0.01] * 15, times))
    assert 0.5 < breaks_even(TWO, 15) < 0.8
    assert breaks_even(TWO, 15, each=0.1) > breaks_even(TWO, 15)
    assert breaks_even(lambda rows: 1.5 * rows, 15) > 0.999


def test_the_number_drafted_grows_with_the_acceptance() -> None:
    lengths = [how_many([rate] * 15, TWO) for rate in (0.3, 0.75, 0.9, 0.99)]
    assert lengths == sorted(lengths)
    assert (lengths[0], lengths[-1]) == (0, 15)


def test_batch_times_are_those_that_were_measured() -> None:
    times = BatchTimes(2)
    assert all(before < after for before, after in pairwise(map(times.of, range(1, 17))))
    for us in (1000, 990, 5000, 1010, 1000) * 4:  # one of them was disturbed
        times.add(1, us)
        times.add(8, us * 1.2)
    assert times.of(8) == pytest.approx(1.2)
    assert times.of(16) == pytest.approx(1.2 * TWO(16) / TWO(8))
    assert times.of(2) == 1.0, "a batch never costs less than a row"


def test_drafts_that_do_not_pay_are_switched_off_and_tried_again() -> None:
    judge, rests = Judge(), []
    for _ in range(3):
        while not judge.rests:
            judge.round(7, 1, TWO(8), lambda: 0.61)
        assert judge.why == "accepted 14 %, breaks even at 61 %"
        rests.append(0)
        while judge.rests:
            judge.plain(lambda: 0.61)
            rests[-1] += 1
        assert judge.why == ""
    assert rests == [32, 64, 128]
    for _ in range(40):
        judge.round(7, 7, TWO(8), lambda: 0.61)
    assert not judge.rests


def test_it_is_told_that_what_could_be_drafted_is_mostly_wrong() -> None:
    judge = Judge()
    for step in range(Judge.IDLE):
        judge.guess(right=step % 8 == 0)
        judge.plain(lambda: 0.61)
    assert judge.why == "accepted 12 %, breaks even at 61 %"
    assert not judge.rests
    judge.round(3, 3, TWO(4), lambda: 0.61)
    assert judge.why == ""
