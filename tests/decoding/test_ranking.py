"""Rankings and votes, counted by hand; and what is an answer."""

from __future__ import annotations

import json
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from termchat.decoding.answers import AnswerError, answer_reader
from termchat.decoding.ranking import Walked, compute_agreement, count_votes, left_out, rank_best, rank_votes

VOTES = [
    Walked(0, "3 apples and 4 are 7", 10, -8.0, "end"),
    Walked(1, "That is 12", 5, -5.0, "end"),
    Walked(2, "I count 7", 6, -3.0, "stop"),
    Walked(3, "7", 40, -30.0, "length"),
    Walked(4, "nobody knows", 4, -1.0, "end"),
    Walked(5, "well: 12", 3, -1.2, "rule"),
    Walked(6, "7", 3, -0.1, "user"),
    Walked(7, "9", 3, -0.1, None),
]  # fmt: skip


def test_the_last_match_is_the_vote_and_unfinished_walks_have_none() -> None:
    ranking = rank_votes(VOTES, r"\d+")
    assert [(one.walk, one.answer, one.votes) for one in ranking.walks] == [
        (5, "12", 2), (1, "12", 2), (2, "7", 2), (0, "7", 2),
        (6, None, None), (7, None, None), (4, None, None), (3, None, None),
    ]  # fmt: skip
    assert [one.score for one in ranking.walks] == [2.0] * 4 + [None] * 4
    lines = count_votes(ranking, {one.walk: one.text for one in VOTES})
    assert [(line.text, line.votes, line.walks) for line in lines] == [("12", 2, (5, 1)), ("7", 2, (2, 0))]
    assert compute_agreement(lines) == 0.5
    assert left_out(ranking) == [3, 4, 6, 7]


def test_more_votes_win_over_likelier_words() -> None:
    walks = [
        Walked(walk, text, 2, logprob, "end") for walk, (text, logprob) in enumerate([("A", -9), ("B", -1), ("A", -8)])
    ]
    lines = count_votes(ranking := rank_votes(walks, "[AB]"), {})
    assert [(one.walk, one.mean_logprob) for one in ranking.walks] == [(2, -4.0), (0, -4.5), (1, -0.5)]
    assert compute_agreement(lines) == pytest.approx(2 / 3)
    assert compute_agreement([]) is None


def test_the_best_is_the_likeliest_for_its_length() -> None:
    walks = [Walked(0, "a", 4, -4.0, "end"), Walked(1, "b", 10, -8.0, "end"), Walked(2, "c", 9, -0.1, "length")]
    by_mean, by_sum = rank_best(walks), rank_best(walks, 0)
    assert [(one.walk, one.score) for one in by_mean.walks] == [(1, -0.8), (0, -1.0), (2, None)]
    assert [(one.walk, one.score) for one in by_sum.walks] == [(0, -4.0), (1, -8.0), (2, None)]
    assert rank_best(walks, 2).walks[0].score == pytest.approx(-8 / 100)
    assert [one.tokens for one in by_mean.walks] == [10, 4, 9]
    assert left_out(by_mean) == [2]


def test_where_none_ended_by_itself_all_are_compared() -> None:
    walks = [Walked(0, "a", 4, -4.0, "length"), Walked(1, "b", 4, -2.0, "length"), Walked(2, "", 0, 0.0, "user")]
    assert [(one.walk, one.score) for one in rank_best(walks).walks] == [(1, -0.5), (0, -1.0), (2, None)]


def test_equal_replies_are_one_line_with_their_number() -> None:
    walks = [Walked(walk, text, 2, -walk, "end") for walk, text in enumerate(["Paris", "Rome", "Paris"])]
    lines = count_votes(rank_best(walks), {one.walk: one.text for one in walks})
    assert [(line.text, line.votes) for line in lines] == [("Paris", 2), ("Rome", 1)]


def test_without_logprobs_nothing_is_ranked_by_them() -> None:
    walks = [Walked(0, "7", 4, None, "end"), Walked(1, "7", 4, -2.0, "end")]
    assert [(one.walk, one.mean_logprob) for one in rank_votes(walks, r"\d").walks] == [(1, -0.5), (0, None)]
    assert left_out(rank_best(walks)) == [0]


@given(st.lists(st.sampled_from(["the answer is 1", "2 or 1", "1 and 2", "none", "3"]), max_size=12), st.data())
def test_the_tally_is_a_count(texts: list[str], data: st.DataObject) -> None:
    ended = [data.draw(st.booleans()) for _ in texts]
    walks = [
        Walked(walk, text, 3, -data.draw(st.floats(0, 9)), "end" if over else "length")
        for walk, (text, over) in enumerate(zip(texts, ended, strict=True))
    ]
    last = {"the answer is 1": "1", "2 or 1": "1", "1 and 2": "2", "none": None, "3": "3"}
    counted = [last[text] for text, over in zip(texts, ended, strict=True) if over and last[text]]
    lines = count_votes(rank_votes(walks, r"\d"), {})
    assert {line.text: line.votes for line in lines} == {answer: counted.count(answer) for answer in set(counted)}
    assert [line.votes for line in lines] == sorted((line.votes for line in lines), reverse=True)


@pytest.mark.parametrize(
    ("answer", "text", "found"),
    [
        (r"\d+", "3 and 12", "12"),
        (r"answer: (\w+)", "answer: A\nNo. answer: B!", "B"),
        (r"^(yes|no)$", "maybe\nyes\nno way", "yes"),
        (r"(?i)paris", "PARIS", "PARIS"),
        (r"(a)|b", "a b", "a"),  # the group of the last match is empty
        (r"\d+", "none", None),
        ("$.answer", '{"answer": " Paris "}', "Paris"),
        ("$.a.b[0]", 'Sure:\n```json\n{"a": {"b": [7.5, 2]}}\n``` Done.', "7.5"),
        ("$.a.b[-1]", '{"a": {"b": [7, true]}}', "true"),
        ('$["the answer"]', '{"the answer": {"z": 1, "a": null}}', '{"a": null, "z": 1}'),
        ("$[0]", "[[1], 2] [3]", "3"),
        ("$.a", '{"a": 1} and {"b": 2} and {"a": "", "b"', "1"),
        ("$.a", "no document", None),
        pytest.param("$.a", "{" * 5000, None, id="5,000 open braces"),
        pytest.param("$.a", "[" * 50_000, None, id="50,000 open brackets"),
        ("$[0][9]", "[3]", None),
    ],
)
def test_the_answer_of_a_text(answer: str, text: str, found: str | None) -> None:
    assert answer_reader(answer)(text) == found


def test_a_document_that_is_nested_too_deep_is_not_read_again_from_every_level(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = 0

    class Counting(json.JSONDecoder):
        def raw_decode(self, text: str, at: int = 0) -> tuple[object, int]:
            nonlocal begun
            begun += 1
            return super().raw_decode(text, at)

    monkeypatch.setattr(json, "JSONDecoder", Counting)
    assert answer_reader("$.a")('{"b": ' * 20_000 + '{"a": 7}') == "7"
    assert begun < 2_000


def test_an_expression_that_never_ends_is_stopped() -> None:
    read = answer_reader("(a+)+b")
    assert threading.current_thread() is threading.main_thread()
    with pytest.raises(AnswerError, match="takes too long to match") as refused:
        read("a" * 64)
    assert "nested repeats" in refused.value.hint


@pytest.mark.parametrize(("answer", "why"), [("(a+)+b", "takes too long"), ("(", "not a valid regular expression")])
def test_where_no_answer_can_be_taken_out_none_has_one_and_it_says_why(answer: str, why: str) -> None:
    told: list[str] = []
    walks = [Walked(0, "a" * 64, 4, -2.0, "end"), Walked(1, "b", 2, -0.5, "end")]
    ranking = rank_votes(walks, answer, lambda error: told.append(error.message))
    assert [(one.walk, one.score, one.answer) for one in ranking.walks] == [(1, None, None), (0, None, None)]
    assert len(told) == 1
    assert why in told[0]
