"""Conditions as people write them, and the steps that meet them, against plain searches over whole texts."""

from __future__ import annotations

import math
import re
from itertools import pairwise
from time import perf_counter
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from termchat.decoding.conditions import (
    EXAMPLES,
    After,
    ConditionError,
    Every,
    IgnoreEnd,
    Length,
    Loop,
    Measure,
    Rule,
    Stop,
    Text,
    Threshold,
    format_condition,
    parse,
)
from termchat.decoding.records import Stage, Token
from termchat.decoding.rules import WINDOW, Rules
from termchat.decoding.units import ends_sentence
from tests.decoding.byte_pieces import pieces
from tests.made_records import step

ACTIONS = st.sampled_from(["stop", "pause"])
RULES = st.one_of(
    st.builds(Threshold, st.sampled_from(["p_end", "probability", "model"]), st.just(">"), st.floats(0, 0.99), ACTIONS),
    st.builds(Threshold, st.sampled_from(["entropy", "rank"]), st.just("<"), st.floats(1e-300, 1e300), ACTIONS),
    st.builds(Threshold, st.just("survivors"), st.sampled_from("<>"), st.floats(1.001, 1e300), ACTIONS),
    st.builds(Every, st.integers(1, 999_999_999), ACTIONS),
    st.builds(Text, st.text(min_size=1), st.just(False), ACTIONS),
    st.builds(Text, st.text(min_size=1).map(re.escape), st.just(True), ACTIONS),
    st.builds(Threshold, st.just("rank"), st.just(">"), st.floats(0, 1e300), ACTIONS, st.integers(1, 999_999_999)),
    st.builds(After, st.floats(1e-300, 999_999_999), st.just("seconds"), ACTIONS),
    st.builds(
        After, st.integers(1, 999_999_999).map(float), st.sampled_from(["sentences", "lines", "paragraphs"]), ACTIONS
    ),
    st.builds(Loop, ACTIONS),
    st.just(IgnoreEnd()),
)


@given(RULES)
def test_written_and_read_again_it_is_the_same(rule: Rule) -> None:
    assert parse(format_condition(rule)) == rule


def test_every_measure_can_be_written() -> None:
    examples = [parse(example) for example in EXAMPLES]
    assert {rule.measure for rule in examples if isinstance(rule, Threshold)} == set(get_args(Measure))
    assert {type(rule) for rule in examples} == set(get_args(Rule))


@pytest.mark.parametrize(
    ("text", "expected", "shown"),
    [
        ("entropy>3", Threshold("entropy", ">", 3.0), "entropy > 3"),
        ("  STOP   P(end)  > .5 ", Threshold("p_end", ">", 0.5, "stop"), "stop p_end > 0.5"),
        ("pause every 20", Every(20), "every 20"),
        (r'text "say \"hi\"\n"', Text('say \\"hi\\"\n'), None),
        ('stop text "a"b"', Text('a"b', action="stop"), 'stop text "a"b"'),
        ("entropy>4 FOR 5", Threshold("entropy", ">", 4.0, steps=5), "entropy > 4 for 5"),
        ("model < 0.05", Threshold("model", "<", 0.05), "p_token < 0.05"),
        ("stop after 30s", After(30.0, "seconds", "stop"), "stop after 30 s"),
        ("after 1.5 seconds", After(1.5, "seconds"), "after 1.5 s"),
        ("After 1 Sentence", After(1.0, "sentences"), "after 1 sentence"),
        ("after < .05", Threshold("probability", "<", 0.05), "after < 0.05"),
        ("stop loop", Loop("stop"), "stop loop"),
        ("ignore  end", IgnoreEnd(), "ignore end"),
        (r"/^- \w+/b/", Text(r"^- \w+/b", regex=True), r"/^- \w+/b/"),
    ],
)
def test_what_people_type(text: str, expected: Rule, shown: str | None) -> None:
    assert parse(text) == expected
    assert shown is None or format_condition(expected) == shown


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "examples: entropy > 3"),
        ("surprise > 3", "'surprise > 3' is not a condition"),
        ("entropy 3", "compare entropy with > or <, for example: entropy > 3"),
        ("rank >= 3", "compare rank with > or <"),
        ("entropy > high", "entropy needs a number, not 'high'"),
        ("entropy > nan", "entropy needs a number, not 'nan'"),
        ("p_end > 50", "p_end is from 0 to 1, so it is never > 50; for example: p_end > 0.5"),
        ("survivors < 1", "survivors is 1 or more, so it is never < 1"),
        ("every 0", "every needs a whole number of tokens, at least 1, not '0'"),
        ("every other", "not 'other'"),
        ("text foo", "put the text in double quotes"),
        ('text ""', "the text is empty"),
        ("/foo", "end the regular expression with a slash"),
        ("/(foo/", "is not a valid regular expression: missing"),
        ("/a*/", "matches empty text"),
        ("//", "the text is empty"),
        ("stop", "'stop' is not a condition"),
    ],
)
def test_what_is_wrong_is_said_with_an_example(text: str, says: str) -> None:
    with pytest.raises(ConditionError, match=re.escape(says)) as told:
        parse(text)
    assert "example" in str(told.value)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        (" stop entropy > high", "high"),
        ("stop  after 3 weeks", "weeks"),
        ("after 1.5 lines", "1.5 lines"),
        ("after 0 s", "0 s"),
        ("pause entropy > 4 for ever", "ever"),
        ("loop 3", " 3"),
        ("ignore it", " it"),
        ("text foo", "foo"),
        ("every other", "other"),
        ("stop rank => 3", "=> 3"),
    ],
)
def test_the_place_of_what_is_wrong_is_named(text: str, wrong: str) -> None:
    with pytest.raises(ConditionError) as told:
        parse(text)
    assert text[told.value.at :] == wrong
    assert str(told.value).startswith(f"at character {told.value.at + 1}: ")


def test_what_is_not_said_is_up_to_who_asks() -> None:
    assert parse("after 3 lines", "stop").action == "stop"
    assert parse("pause after 3 lines", "stop").action == "pause"


def test_knobs_are_described_by_their_names() -> None:
    assert format_condition(Stop("\n6.")) == 'stop sequence "\\n6."'
    assert format_condition(Length(80)) == "max_tokens 80"


@pytest.mark.parametrize(
    ("written", "met", "not_met"),
    [
        ("entropy > 3", step(entropy=3.1), step(entropy=3.0)),
        ("p_end < 0.5", step(p_end=0.4), step(p_end=0.5)),
        ("after < 0.05", step(probability=0.04), step(probability=0.05)),
        ("probability < 0.05", step(probability=0.04), step(probability=0.05)),
        ("model < 0.05", step(probability=1.0, logprob=math.log(0.04)), step(logprob=math.log(0.051))),
        ("rank > 10", step(rank=11), step(rank=10)),
        (
            "survivors < 2",
            step(stages=[Stage("top_k", 40), Stage("temperature", 1), Stage("dice", 1)]),
            step(stages=[Stage("top_k", 40), Stage("temperature", 2), Stage("dice", 1)]),
        ),
    ],
)
def test_thresholds(written: str, met: Token, not_met: Token) -> None:
    rules = Rules([parse(written)])
    assert rules.check_before(5, met) == parse(written)
    assert rules.check_before(5, not_met) is None


def test_of_a_measure_that_is_only_bounded_what_is_certain_is_met() -> None:
    bounded, least = step(entropy=3.5, p_end=0.4), {"entropy": 2.5, "p_end": 0.1}
    met = ["entropy > 2.4", "entropy < 3.6", "p_end > 0.05", "p_end < 0.5"]
    open_ = ["entropy > 3", "entropy < 3", "p_end > 0.3", "p_end < 0.3"]
    assert [Rules([parse(written)]).check_before(5, bounded, least=least) is not None for written in [*met, *open_]] == [
        *[True] * 4, *[False] * 4,
    ]  # fmt: skip
    spans = {"entropy": (2.5, 3.5), "p_end": (0.1, 0.4)}
    assert [Rules([parse(written)]).are_open(spans) for written in [*met, *open_]] == [*[False] * 4, *[True] * 4]


def test_steps_in_a_row_begin_anew_where_one_is_missing_and_once_they_are_met() -> None:
    rules = Rules([parse("entropy > 4 for 3")])
    met = [
        rules.check_before(n, step(entropy=float(e))) is not None
        for n, e in enumerate([5, 5, 4, 5, 5, 5, 5, 5, 5, 5, 1, 5])
    ]
    assert met == [n in (5, 8) for n in range(12)]


def test_steps_in_a_row_are_counted_on_when_other_conditions_change() -> None:
    before = Rules([parse("entropy > 4 for 3")])
    assert [before.check_before(n, step(entropy=5.0)) for n in range(2)] == [None, None]
    after = Rules([parse("every 100"), parse("entropy > 4 for 3")], before)
    assert after.check_before(2, step(entropy=5.0)) == parse("entropy > 4 for 3")


def test_a_time_is_over_once() -> None:
    rules = Rules([parse("stop after 30 s"), parse("after 10 s")])
    times = [0.0, 9.9, 10.0, 20.0, 29.9, 30.1, 40.0]
    met = [rules.check_before(n, step(), seconds) for n, seconds in enumerate(times)]
    assert met == [None, None, parse("after 10 s"), None, None, parse("stop after 30 s"), None]


def test_what_was_reached_before_does_not_count() -> None:
    rules = Rules([parse("after 1 sentence"), parse("after 2 sentences"), parse("after 5 s"), parse("loop")])
    rules.resume([1] * 40, b"One. Tw")
    assert rules.check_before(40, step(), 6.0, b"o.") is None
    assert rules.check_after(b"o.", 1) is None
    assert rules.check_before(41, step(), 7.0, b" Three") == parse("after 2 sentences")


def test_a_loop_is_met_once_and_another_one_again() -> None:
    rules = Rules([parse("loop")])
    met = []
    for number, token in enumerate([*[1, 2] * 40, 7, *[3, 4, 5] * 30]):
        if rules.check_before(number, step()) is not None:
            assert rules.repetition is not None
            met.append((number, rules.repetition.period))
        rules.check_after(b"x", token)
    assert met == [(32, 2), (81 + 32, 3)]


def test_where_the_model_ends_nothing_else_counts() -> None:
    rules = Rules([parse("stop after 1 sentence"), parse("stop after 1 s")])
    assert rules.check_before(0, step(), 0.0, b"Hi.") is None
    rules.check_after(b"Hi.")
    assert rules.check_before(1, step(), 2.0, None) is None


def test_every_counts_from_the_first_token() -> None:
    rules = Rules([parse("every 3")])
    assert [n for n in range(10) if rules.check_before(n, step())] == [3, 6, 9]


def test_of_two_that_are_met_the_one_that_stops_counts() -> None:
    rules = Rules([parse("entropy > 1"), parse('text "a"'), parse("stop rank < 5"), parse("stop /a/")])
    assert rules.check_before(1, step(entropy=2.0, rank=0)) == parse("stop rank < 5")
    assert rules.check_after(b"a") == parse("stop /a/")


@given(
    text=st.text("ab\né😀", max_size=60),
    pattern=st.text("ab\né😀", min_size=1, max_size=4),
    cuts=st.lists(st.integers(0, 200), max_size=40),
)
def test_a_text_is_met_where_it_is_completed(text: str, pattern: str, cuts: list[int]) -> None:
    rules = Rules([Text(pattern)])
    said = b""
    for piece in pieces(text.encode(), cuts):
        before = said.decode(errors="ignore").count(pattern)
        said += piece
        met = rules.check_after(piece) is not None
        assert met == (said.decode(errors="ignore").count(pattern) > before)


@given(
    text=st.text("ab1\n ", max_size=60),
    pattern=st.sampled_from([r"\d+", r"^a", r"\ba+\b ", r"b$", r"a.b", r"[ab]{2}"]),
    cuts=st.lists(st.integers(0, 200), max_size=40),
)
def test_a_growing_match_is_met_once(text: str, pattern: str, cuts: list[int]) -> None:
    """Against the same rule over the whole text, and no window."""
    rules = Rules([Text(pattern, regex=True)])
    expression = re.compile(pattern, re.MULTILINE)
    said, start, end = "", 0, 0
    borders = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    for a, b in pairwise(borders):
        said += text[a:b]
        grown = expression.match(said, start) if end > start else None
        end = max(end, grown.end()) if grown else end
        spans = [found.span() for found in expression.finditer(said, end)]
        start, end = spans[-1] if spans else (start, end)
        assert (rules.check_after(text[a:b].encode()) is not None) == bool(spans)


def test_a_number_in_several_tokens_is_one() -> None:
    rules = Rules([parse(r"/\d+/")])
    assert [bool(rules.check_after(piece)) for piece in (b"in ", b"1", b"9", b"8", b"4 and", b" 5")] == [
        False, True, False, False, False, True,
    ]  # fmt: skip


def test_lines_and_words_begin_where_they_do_however_long_the_reply_is() -> None:
    rules = Rules([parse("/^x|\\bend/")])
    assert rules.check_after(b"y" * 3 * WINDOW) is None
    assert [bool(rules.check_after(b"x")) for _ in range(WINDOW + 10)] == [False] * (WINDOW + 10)
    assert rules.check_after(b"end") is None
    assert rules.check_after(b"\n") is None
    assert rules.check_after(b"x") is not None
    assert rules.check_after(b" end") is not None


def test_cost_does_not_grow_with_the_reply() -> None:
    rules = Rules([parse('text "never"'), parse(r"/nev+er \w+/")])

    def seconds() -> float:
        best = 1.0
        for _ in range(5):
            begun = perf_counter()
            for _ in range(200):
                rules.check_after(b" word")
            best = min(best, perf_counter() - begun)
        return best

    early = seconds()
    for _ in range(50_000):
        rules.check_after(b" word")
    assert seconds() < 3 * early


@pytest.mark.parametrize(
    ("text", "following", "ends"),
    [
        ("He left.", " She", True),
        ("He left.", "", True),
        ("He left.\n", "She", True),
        ("pi is 3.", "14", False),
        ("pi is 3", ".", False),
        ("Wait..", ". no", False),
        ('"Go!', '" he', False),
        ('"Go!"', " he", True),
        ("(really?)", "\n", True),
        ("**Stop.**", " Then", True),
        ("so …", " yes", True),
        ("他走了。", "她", True),
        ("「走。", "」", False),
        ("", " x", False),
    ],
)
def test_where_a_sentence_ends(text: str, following: str, ends: bool) -> None:
    assert ends_sentence(text, following) is ends
