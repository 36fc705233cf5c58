"""Checks and values: what people write is understood, what is none is refused, and absent facts meet nothing."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from termchat.decoding.samplers import KNOBS
from termchat.lessons.expressions import Expression, ExpressionError, LessonCheck
from termchat.lessons.lesson_facts import EARLIER, FACT_GROUPS, FACTS, REPLY_FACTS
from tests.lessons.made_lessons import MadeFacts


@pytest.fixture
def facts() -> MadeFacts:
    facts = MadeFacts(
        temperature=0.7000000001, tokens=40, loops=True, running=False, ending="length", ttft_ms=20.0,
        earlier_ttft_ms=50.0, seed="fresh", top_k=0, think=1_000_000, entropy=3.0, p_end=math.nan,
    )  # fmt: skip
    facts["model", " blue"] = 0.25
    facts["says", "it's"] = True
    facts["says", "a\n"] = True
    facts["used", "temperature"] = 0.0
    facts["some_token", "entropy > 3"] = True
    facts["some_token", "/fo+/"] = False
    return facts


@pytest.mark.parametrize(
    "check",
    [
        "temperature == 0.7", "temperature != 0.8", "tokens >= 40", "tokens<=40.5", "loops", "not running", "running == false",
        "ending == 'length'", 'ending != "end"', "ttft_ms < earlier_ttft_ms / 2", "seed == 'fresh'", "seed != 7",
        "top_k == 'off'", "think == 'on'", "model(' blue') * 100 == 25", "model( ' blue' ) > .2", r"says('it\'s')",
        "used('temperature') == 0", "some_token('entropy > 3')", "not some_token('/fo+/')", "tokens -1 == 39",
        "tokens - 1 == 39",
        "40 == tokens", "entropy == 3", "loops == true", "loops == True", "loops and not running",
        "running or tokens > 3", "1 < tokens <= 40",
        "(tokens + 2) * 2 > 3", "says('a\n')", r"says('a\n')", "tokens\n> 3",
    ],
)  # fmt: skip
def test_a_check_that_holds(facts: MadeFacts, check: str) -> None:
    parsed = LessonCheck(check)
    assert parsed.holds(facts)
    assert parsed.written == check
    opposite = f"not ({check})"
    assert not LessonCheck(opposite).holds(facts)


@pytest.mark.parametrize(
    "check", ["perplexity < 9", "same", "rank(' red') > 2", "apart > 0", "tokens / forced > 1", "p_end > 0"]
)
def test_what_is_absent_meets_nothing(facts: MadeFacts, check: str) -> None:
    assert not LessonCheck(check).holds(facts)
    assert not LessonCheck(f"not {check}").holds(facts)
    assert not LessonCheck(f"not ({check} or loops)").holds(facts)


def test_dividing_by_nothing_is_absent() -> None:
    assert Expression("tokens / forced").value(MadeFacts(tokens=3, forced=0)) is None
    assert Expression("tokens / forced").value(MadeFacts(tokens=3, forced=2)) == 1.5


@pytest.mark.parametrize(
    ("check", "message"),
    [
        ("", "it is empty; for example: temperature == 0"),
        ("lops", "unknown fact 'lops' (did you mean loops?)"),
        ("earlier_mean_logprob > -1", "is no fact any more: use perplexity"),
        ("tokens", "'tokens' is a number: compare it, for example: tokens > 1"),
        ("ending", "'ending' is a text: compare it, for example: ending == 'length'"),
        ("tokens >", "invalid syntax at 'tokens >'; for example: temperature == 0"),
        ("tokens > 3 4", "invalid syntax"),
        ("tokens = 3", "invalid syntax at '= 3'"),
        ("ending > 'a'", "texts can only be == or !="),
        ("tokens == 'a'", "tokens == 'a': a text is never equal to what is none"),
        ("temperature == 'warm'", "temperature must be a number"),
        ("says", "says needs a text in brackets, as says(' blue')"),
        ("says(3)", "'says(3)': a fact takes one text in quotes, as says(' blue')"),
        ("says('a'", "'(' was never closed"),
        ("loops('a')", "loops takes nothing in brackets"),
        ("used", "used needs a text in brackets, as used('temperature')"),
        ("used('temp') == 0", "unknown knob 'temp'"),
        ("ending * 2 == 3", "only numbers can be reckoned with"),
        ("token entropy > 3", "for example: some_token('entropy > 3')"),
        ("some_token('tokens > 3')", "some_token: 'tokens > 3' is not a condition"),
        ("some_token('loop')", "some_token: 'loop' does not look at one token"),
        ("some_token('survivors < 3')", "does not look at one token"),
        ("tokens > 3 and tokens", "'tokens' is a number: compare it"),
        ("not tokens", "'tokens' is a number: compare it"),
        ("[tokens]", "'[tokens]' is not made of facts, numbers, texts"),
        ("tokens ** 9 > 3", "'tokens ** 9' is not made of facts"),
        ("loops.real", "'loops.real' is not made of facts"),
        ("loops if loops else loops", "is not made of facts"),
        ("__import__('os')", "unknown fact '__import__'"),
        ("says('a').real", "is not made of facts"),
        ("says('a', 'b')", "a fact takes one text in quotes"),
        ("f'{loops}' == 'a'", "is not made of facts"),
        ("tokens > " + "9" * 600, "more than 500 characters"),
        ("1 / (tokens - seen) > lops", "unknown fact 'seen'"),
        ("1 / (tokens - turns) > lops", "unknown fact 'lops' (did you mean loops?)"),
    ],
)
def test_what_is_no_check(check: str, message: str) -> None:
    with pytest.raises(ExpressionError) as raised:
        LessonCheck(check)
    assert message in str(raised.value)


_PIECES = st.sampled_from(
    ["tokens", "loops", "says", "ending", "used", "model", "not", "token", "(", ")", "'a", "'a'", '"b"', "==", ">", "<=", "=",
     "and", "or", "+", "-1", "3", "9" * 400, "lambda", ".", "[", ":", "\0", "1e999",
     "true", "temperature", "seed", "'fresh'", "entropy", "/x/", "\\", "🙂", "earlier_tokens"]
)  # fmt: skip


@given(st.lists(_PIECES, max_size=7).map(" ".join) | st.text(max_size=40))
def test_anything_is_a_check_or_refused(written: str) -> None:
    said: list[str] = []
    for parse in (LessonCheck, Expression):
        try:
            parsed = parse(written)
        except ExpressionError as error:
            said.append(str(error))
        else:
            assert all(fact.name in FACTS for fact in parsed.facts)
            facts = MadeFacts(
                tokens=3, loops=True, ending="end", temperature=1.0, seed=3, entropy=1.0, earlier_tokens=0
            )
            found = parsed.holds(facts) if isinstance(parsed, LessonCheck) else parsed.value(facts)
            assert found is None or isinstance(found, (bool, float, int, str))
    assert all(said)


def test_every_fact_has_one_place_and_a_help() -> None:
    names = [name for facts in FACT_GROUPS.values() for name in facts]
    assert len(names) == len(set(names)), "no fact has a knob's name, or stands twice"
    assert all(entry.help for entry in FACTS.values())
    assert set(KNOBS) <= set(FACTS)
    assert {f"{EARLIER}{name}" for name in REPLY_FACTS} <= set(FACTS)
