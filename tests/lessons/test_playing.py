"""Playing: what moves a lesson on, what does not, guesses beside the truth, hints, leaving and coming back."""

from __future__ import annotations

from pathlib import Path

import pytest

from termchat.lessons.lesson import LessonQuestion, LessonText
from termchat.lessons.playing import Guess, LessonState, Playing, truth_of
from tests.lessons.made_lessons import EXAMPLE, MadeFacts, lesson_in


@pytest.fixture
def playing(tmp_path: Path) -> Playing:
    return Playing(lesson_in(tmp_path))


def sent(facts: MadeFacts, playing: Playing) -> None:
    facts["new_replies"], facts["ending"], facts["same"] = 1, "length", True
    playing.update(facts)


def test_from_the_first_step_to_the_end(playing: Playing) -> None:
    facts = MadeFacts(temperature=0.0, new_replies=0)
    facts["model", " blue"] = 0.03
    playing.update(facts)
    assert (playing.number, playing.finished, facts.begun) == (1, False, 1)
    assert playing.asks is playing.current.question
    assert playing.answer(1)
    playing.update(facts)
    assert playing.number == 1, "a guess is no deed"
    sent(facts, playing)
    assert (playing.number, facts.begun) == (2, 2), "and what is counted since the step began is nothing again"
    assert playing.result is not None
    assert (playing.result.step, playing.result.guess, playing.result.truth) == (0, 1, 2)
    assert playing.asks is None, "this one is asked afterwards"
    sent(facts, playing)
    assert playing.number == 2
    assert playing.asks is playing.current.question
    assert playing.answer(40)
    playing.update(facts)
    assert playing.number == 3
    assert playing.result.truth == pytest.approx(3) if playing.result is not None else False
    facts["temperature"] = 1.5
    assert playing.update(facts)
    assert playing.finished
    assert playing.state.done
    assert playing.state.step == 0
    assert [guess.guess for guess in playing.state.guesses] == [1, 40]
    assert not playing.update(facts)


def test_a_claim_that_does_not_hold_at_the_end_of_its_step_is_told_with_its_facts(tmp_path: Path) -> None:
    text = EXAMPLE.replace('claim = "loops"', """claim = ["tokens == 3", "not says('red')", "same", "loops"]""")
    playing = Playing(lesson_in(tmp_path, text))
    facts = MadeFacts(new_replies=0, tokens=3.25, same=False)
    facts["says", "red"] = True
    playing.update(facts)
    assert playing.answer(1)
    playing.update(facts)
    assert playing.missed == []
    facts["new_replies"], facts["ending"] = 1, "length"
    playing.update(facts)
    assert playing.missed == [
        "step 1: tokens == 3 (tokens is 3.25)",
        "step 1: not says('red') (says('red') is True)",
        "step 1: same (same is False)",
        "step 1: loops (loops is absent)",
    ]


def test_without_a_guess_the_step_waits_until_it_is_skipped(playing: Playing) -> None:
    facts = MadeFacts(new_replies=0)
    playing.update(facts)
    sent(facts, playing)
    assert playing.number == 1
    assert playing.held
    playing.skip(facts)
    assert playing.number == 2
    assert playing.result is None
    assert playing.state.guesses == ()


def test_what_held_before_is_not_taken_for_done(tmp_path: Path) -> None:
    playing = Playing(lesson_in(tmp_path), LessonState(step=2))
    facts = MadeFacts(temperature=1.5)
    assert playing.update(facts)
    assert (playing.number, playing.already, playing.finished) == (3, True, False)
    assert not playing.update(facts)
    facts["temperature"] = 1.0
    playing.update(facts)
    assert not playing.already
    facts["temperature"] = 1.2
    playing.update(facts)
    assert playing.finished


def test_deeds_count_although_it_held_before(tmp_path: Path) -> None:
    playing = Playing(lesson_in(tmp_path), LessonState(step=2))
    facts = MadeFacts(temperature=1.5)
    playing.update(facts)
    playing.did()
    playing.update(facts)
    assert playing.finished


@pytest.mark.parametrize("guess", [0, 3, 1.5, float("nan"), float("inf"), -1])
def test_what_is_no_answer(playing: Playing, guess: float) -> None:
    playing.update(MadeFacts())
    assert not playing.answer(guess)
    assert playing.asks is not None


def test_hints_in_three_rungs(playing: Playing) -> None:
    facts = MadeFacts()
    playing.update(facts)
    assert not playing.does_it
    for hints in (1, 2, 3, 3):
        playing.hint()
        assert playing.hints == hints
    assert playing.does_it
    playing.skip(facts)
    assert playing.hints == 0
    playing.hint()
    assert playing.does_it, "this step has no other hint"


def test_leaving_and_coming_back(playing: Playing) -> None:
    facts = MadeFacts()
    playing.update(facts)
    playing.answer(2)
    sent(facts, playing)
    again = Playing(playing.lesson, playing.state)
    assert again.number == 2
    assert [guess.guess for guess in again.state.guesses] == [2]
    assert not again.was_done


@pytest.mark.parametrize("step", [-1, 3, 99])
def test_a_lesson_that_has_fewer_steps_by_now_begins_anew(tmp_path: Path, step: int) -> None:
    guess = Guess(7, 1.0, None, "2026-11-23T19:00:00+00:00")
    playing = Playing(lesson_in(tmp_path), LessonState(step, True, (guess,)))
    assert playing.number == 1
    assert playing.state == LessonState(0, True, ())


def test_the_right_answer_may_depend_on_what_came(tmp_path: Path) -> None:
    lesson = lesson_in(tmp_path, EXAMPLE.replace("right = 2", 'right = ["same", "not same"]'))
    question = lesson.steps[0].question
    assert question is not None
    assert truth_of(question, MadeFacts(same=True)) == 1
    assert truth_of(question, MadeFacts(same=False)) == 2
    assert truth_of(question, MadeFacts()) is None


def test_a_number_has_its_unit() -> None:
    tokens, share, bare = (LessonQuestion(LessonText("?"), unit=unit) for unit in ("tokens", "%", ""))
    assert [tokens.describe(1), tokens.describe(2), share.describe(1), bare.describe(1)] == [
        "1 token", "2 tokens", "1 %", "1",
    ]  # fmt: skip
    assert [share.describe(3.14159), share.describe(3.14159, 6), tokens.describe(1234.5)] == [
        "3.14 %", "3.14159 %", "1,234 tokens",
    ]  # fmt: skip


def test_a_guess_is_right(playing: Playing) -> None:
    choice, number = playing.lesson.steps[0].question, playing.lesson.steps[1].question
    assert choice is not None
    assert number is not None
    date = ""
    assert Guess(0, 2, 2, date).is_right(choice)
    assert not Guess(0, 1, 2, date).is_right(choice)
    assert Guess(0, 1, None, date).is_right(choice) is None
    assert Guess(1, 42, 40, date).is_right(number)
    assert not Guess(1, 40, 3, date).is_right(number)
    assert Guess(1, 0, 0.4, date).is_right(number)
