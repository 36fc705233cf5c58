"""The rounds of a reply and their figures, against what was really done, counted slowly."""

from __future__ import annotations

from statistics import mean, median
from time import perf_counter
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from termchat.chat.live import Live
from termchat.conversation.heat import Heats
from termchat.conversation.node import TokenColumns
from termchat.conversation.tree import Conversation
from termchat.decoding.draft_figures import DraftFigures, Round, round_at
from termchat.decoding.records import Draft, DraftToken
from termchat.decoding.records import Token as TokenRecord
from tests.made_drafts import rounds_of
from tests.made_records import step


class Pass(NamedTuple):
    """What the target model was asked at once: `drafted` tokens, of which so many are accepted. `told`: so many of the tokens
    that come out of it there are before the reply ends, or the pass is broken off."""

    drafted: int
    accepted: int
    us: int
    decode_us: int
    sample_us: int
    told: int

    @property
    def tokens(self) -> int:
        return min(self.told, self.accepted + 1)


@st.composite
def passes(draw: st.DrawFn) -> Pass:
    drafted = draw(st.sampled_from([0, 0, 1, 2, 3, 7, 15]))
    accepted = draw(st.integers(0, drafted) | st.just(drafted))
    us, decode, sample = (draw(st.integers(1, 9000)) for _ in range(3))
    return Pass(drafted, accepted, us, decode, sample, draw(st.just(99) | st.integers(1, 16)))


def tokens_of(made: list[Pass]) -> list[TokenRecord]:
    """The records of these passes, as the engine writes them."""
    found: list[TokenRecord] = []
    for each in made:
        guesses = [DraftToken(i, f" g{i}") for i in range(100, 100 + each.drafted)]
        for at in range(each.tokens):
            draft = None
            if at < each.drafted:
                right = at < each.accepted
                draft = Draft("ngram", right, guesses[at : at + 1] if at else guesses, 0 if at else each.us)
            taken = 100 + at if at < each.accepted else 7
            decode_us = 0 if at else each.decode_us
            found.append(
                step(step=len(found), id=taken, text="", bytes=b"x", decode_us=decode_us, sample_us=each.sample_us,
                     draft=draft)
            )  # fmt: skip
    return found


@given(st.lists(passes(), max_size=60))
def test_rounds_are_those_that_were_made(made: list[Pass]) -> None:
    tokens, begin, expected = tokens_of(made), 0, []
    for each in made:
        if each.drafted:
            last = DraftToken(7, "x") if each.tokens > each.accepted else None
            rejected = each.accepted < each.drafted
            guesses = tuple(DraftToken(i, f" g{i}") for i in range(100, 100 + each.drafted))
            expected.append(
                Round(
                    begin, "ngram", guesses, each.us, each.decode_us, min(each.accepted, each.tokens),
                    last if rejected else None, None if rejected else last,
                )
            )  # fmt: skip
        begin += each.tokens
    found = rounds_of(tokens)
    assert found == expected
    of_token = {index: each for each in found for index in range(each.begin, each.end)}
    assert [round_at(tokens, index) for index in range(len(tokens))] == [of_token.get(i) for i in range(len(tokens))]
    assert all(each.rows == 1 + len(each.drafted) for each in found)


@given(st.lists(passes(), max_size=120))
def test_figures_are_those_that_are_counted_slowly(made: list[Pass]) -> None:
    figures = DraftFigures()
    for token in tokens_of(made):
        figures.add(token)
    figures.end_run()
    outcomes = [at < min(each.accepted, each.tokens) for each in made for at in range(each.drafted)]
    rounds = [each for each in made if each.drafted]
    tokens = sum(each.tokens for each in made)
    assert (figures.rounds, figures.drafted, figures.accepted) == (len(rounds), len(outcomes), sum(outcomes))
    assert (figures.tokens, figures.passes) == (tokens, len(made))
    assert figures.acceptance == (sum(outcomes) / len(outcomes) if outcomes else None)
    assert figures.acceptance_lately == (sum(outcomes[-64:]) / len(outcomes[-64:]) if outcomes else None)
    assert figures.tokens_per_pass == (tokens / len(made) if made else None)
    assert figures.drafting_ms == sum(each.us for each in rounds) / 1e3
    times = [
        (each.decode_us + each.us * bool(each.drafted) if not at else 0) + each.sample_us
        for each in made
        for at in range(each.tokens)
    ][1:]
    assert figures.speed == (pytest.approx(len(times) / sum(times) * 1e6) if times else None)
    plain = [each.decode_us + each.sample_us for each in made[1:] if not each.drafted]
    assert figures.plain_speed == (pytest.approx(1e6 / mean(plain)) if len(plain) >= 8 else None)
    known = rounds and times and len(plain) >= 8
    assert figures.gain == (pytest.approx(len(times) / sum(times) * mean(plain)) if known else None)


@given(st.lists(passes(), max_size=20))
def test_columns_of_a_reply_give_the_same(made: list[Pass]) -> None:
    tokens, columns, figures = tokens_of(made), TokenColumns(), DraftFigures()
    for token in tokens:
        columns.append_token(token)
        figures.add(columns[len(columns) - 1])
    assert rounds_of(columns) == rounds_of(tokens)
    assert [round_at(columns, at) for at in range(len(columns))] == [round_at(tokens, at) for at in range(len(tokens))]
    plain = DraftFigures()
    for token in tokens:
        plain.add(token)
    assert (figures.tokens, figures.drafted, figures.round) == (plain.tokens, plain.drafted, plain.round)


@given(st.lists(passes(), min_size=1, max_size=40), st.data())
def test_times_of_steps_can_be_compared_and_added_up(made: list[Pass], data: st.DataObject) -> None:
    columns, read, heats = TokenColumns(), list[float](), Heats("time", 8)
    for token in tokens_of(made):
        columns.append_token(token)
        read += columns.row_us(len(columns) - 1, len(columns))
        heats.compute_heats(columns)
    rows = [each.decode_us // (1 + each.drafted) for each in made for _ in range(each.tokens)]
    assert read == rows
    assert heats.compute_heats(columns) == Heats("time", 8).compute_heats(columns)
    begin, end = sorted(data.draw(st.integers(0, len(rows) + 2)) for _ in range(2))
    assert list(columns.row_us(begin, end)) == rows[begin:end]
    whole = sum(each.us * bool(each.drafted) + each.decode_us + each.sample_us * each.tokens for each in made)
    assert columns.spent_us(0, len(columns)) == whole


@given(st.lists(passes(), min_size=2, max_size=40))
def test_the_rate_is_tokens_by_the_time_that_they_took(made: list[Pass]) -> None:
    chat, live = Conversation(), Live()
    chat.grow_node("user", parent=None, at=0)
    node = chat.grow_node("assistant", parent=1, at=0)
    for token in tokens_of(made):
        live.take_record(token)
        node.add(token)
    opened = Live.restore_from(chat, None)
    known = len(node.tokens) <= Live.MEMORY
    later = made[1:]
    us = sum(each.us * bool(each.drafted) + each.decode_us + each.sample_us * each.tokens for each in later)
    expected = sum(each.tokens for each in later) / us * 1e6
    assert live.tokens_per_second == opened.tokens_per_second
    if known:  # the first pass has the prompt's decode
        assert live.tokens_per_second == pytest.approx(expected)
    assert list(live.row_us)[-len(later) :] == list(node.tokens.row_us(0, len(node.tokens)))[-len(later) :]


def test_a_round_that_runs_counts_what_is_decided() -> None:
    tokens = tokens_of([Pass(0, 0, 0, 50, 1, 1), Pass(7, 3, 5, 90, 1, 9)])
    figures = DraftFigures()
    seen = []
    for token in tokens:
        figures.add(token)
        seen.append((figures.accepted, figures.drafted, figures.round and figures.round.accepted))
    assert seen == [(0, 0, None), (1, 1, 1), (2, 2, 2), (3, 3, 3), (3, 7, 3)]
    figures.end_run()
    assert (figures.accepted, figures.drafted) == (3, 7)


def test_a_reply_that_goes_on_begins_with_a_step_that_has_no_time() -> None:
    first = tokens_of([Pass(0, 0, 0, 10_000_000, 1, 1), Pass(3, 3, 5, 90, 1, 2)])
    more = tokens_of([Pass(0, 0, 0, 20_000_000, 1, 1), Pass(0, 0, 0, 50, 1, 1)])
    figures = DraftFigures()
    for tokens in (first, more):
        for token in tokens:
            figures.add(token)
        figures.end_run()
    assert (figures.tokens, figures.drafted, figures.accepted, figures.passes) == (5, 3, 2, 4)
    assert figures.speed == pytest.approx(3e6 / (5 + 90 + 1 + 1 + 50 + 1))


def test_no_more_is_accepted_than_was_drafted() -> None:
    figures = DraftFigures.count_tokens([step(draft=Draft("ngram", True, []), decode_us=9) for _ in range(2)])
    assert (figures.drafted, figures.accepted, figures.acceptance, figures.acceptance_lately) == (2, 2, 1.0, 1.0)


def test_nothing_is_known_of_nothing() -> None:
    figures = DraftFigures.count_tokens(())
    known = (
        figures.acceptance, figures.acceptance_lately, figures.tokens_per_pass, figures.speed, figures.plain_speed,
        figures.gain, figures.round,
    )  # fmt: skip
    assert known == (None,) * 7


def test_a_token_takes_no_longer_in_a_long_reply() -> None:
    tokens = tokens_of([Pass(0, 0, 0, 40 + i % 9, 1, 1) if i % 2 else Pass(7, 5, 5, 90, 1, 9) for i in range(20_000)])
    figures, took = DraftFigures(), []
    for begin in range(0, len(tokens), 2000):
        begun = perf_counter()
        for token in tokens[begin : begin + 2000]:
            figures.add(token)
        for index in range(begin, begin + 200):
            round_at(tokens, index)
        took.append(perf_counter() - begun)
    assert median(took[-8:]) < 4 * median(took[:8])
