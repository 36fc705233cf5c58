"""The course: every lesson reads, is short enough, explains a word before it uses it, and names only what there is."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from termchat.engine.abilities import LLAMA_SERVER, LLAMA_SERVER_STREAMED, TEXT_ONLY, EngineAbilities
from termchat.lessons.glossary import entries, is_term
from termchat.lessons.lesson import Lesson
from termchat.lessons.lesson_facts import TOKEN_FACTS
from termchat.lessons.lesson_file import COURSE, read_lesson, read_shelf
from termchat.lessons.playing import Guess, LessonState, Playing
from termchat.tui.keys.key import remap
from termchat.tui.keys.tables import KEYS, lacking
from termchat.tui.lessons.lesson_words import lesson_names, plain_text, rows_for, strip_lines
from termchat.tui.slash.commands import COMMANDS

FILES = sorted(COURSE.glob("*.toml"))
NAMES = lesson_names()
SHORT = 45
"""Words of a step's text that fit three lines of 80 columns with its question, more or less."""
PLAIN = {"token", "probability", "look", "tail"}
"""Terms that are everyday words too, or parts of the names of keys: a lesson may use them in that sense."""


def lessons() -> list[Lesson]:
    return [read_lesson(file, NAMES) for file in FILES]


def read_by_people(lesson: Lesson) -> Iterator[str]:
    """What the reader sees, in order, without keys and commands."""
    texts: list[str] = []
    for step in lesson.steps:
        asked = step.question
        texts += [step.text, *((asked.ask, *asked.answers) if asked is not None else ()), *step.hints]
    for text in [*texts, lesson.learned, lesson.next]:
        yield re.sub(r"/\w+.*", "", re.sub(r"\{[^}]*\}", "", text))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_lesson_reads_and_names_only_what_there_is(file: object) -> None:
    lesson = next(lesson for lesson in lessons() if lesson.path == file)
    assert 4 <= len(lesson.steps) <= 8
    assert 3 <= lesson.minutes <= 8
    assert lesson.learned
    assert lesson.next
    assert lesson.notes
    assert any(step.claims for step in lesson.steps)
    assert any(step.question is not None for step in lesson.steps)
    for step in lesson.steps:
        assert len(step.text.split()) <= SHORT, step.text
        assert step.checks, step.text
        assert step.deeds, step.text
        assert len(step.hints) == 2, step.text
        assert step.notes, step.text
        for deed in step.deeds:
            if deed.kind == "command":
                assert deed.what.split()[0].removeprefix("/") in COMMANDS


@pytest.mark.parametrize(
    ("abilities", "offered"),
    [
        (
            LLAMA_SERVER,
            "tokens loop softmax greedy temperature top-k top-p min-p penalties divergence stops prefill streaming constraints "
            "best-and-vote settings",
        ),
        (LLAMA_SERVER_STREAMED, "tokens loop greedy stops prefill streaming settings"),
        (TEXT_ONLY, ""),
    ],
    ids=["drawn here", "drawn there", "text only"],
)
def test_an_engine_is_offered_the_lessons_that_can_be_played_on_it(abilities: EngineAbilities, offered: str) -> None:
    offers = abilities.list_features()
    played = [lesson for lesson in lessons() if offers.issuperset(lesson.needs)]
    assert [lesson.id for lesson in played] == offered.split()
    for lesson in played:
        for step in lesson.steps:
            done = [deed.what.removeprefix("/").partition(" ")[0] for deed in step.deeds]
            assert not any(lacking(KEYS[id], offers) for id in done if id in KEYS), step.deeds
            right = step.question.right if step.question is not None else ()
            asked = [*step.checks, *step.claims, *(right if isinstance(right, tuple) else ())]
            if "stages" not in offers:
                chain = r"survivors|mass_|after\(|cut\(|kept\(|removed_by|why_penalised"
                assert not any(re.search(chain, check.written) for check in asked), step.text


def test_the_course_is_the_shelf_in_its_order() -> None:
    shelf = read_shelf([COURSE], NAMES)
    assert not shelf.broken
    numbers = [int(lesson.number) for lesson in shelf.lessons]
    assert numbers == list(range(1, len(FILES) + 1))
    assert len({lesson.title for lesson in shelf.lessons}) == len({lesson.id for lesson in shelf.lessons}) == len(FILES)


def test_no_word_is_used_before_the_lesson_that_explains_it() -> None:
    course = lessons()
    explained = {term: at for at, lesson in enumerate(course) for term in lesson.terms}
    assert len(explained) == sum(len(lesson.terms) for lesson in course), "a term is explained twice"
    early = [
        (lesson.id, term, text)
        for at, lesson in enumerate(course)
        for text in read_by_people(lesson)
        for term, place in explained.items()
        if place > at and term not in PLAIN and re.search(rf"(?<![\w-]){re.escape(term)}(e?s)?\b", text)
    ]
    assert early == []


def test_each_term_is_in_the_glossary_and_in_a_text_of_its_lesson() -> None:
    for lesson in lessons():
        assert all(map(is_term, lesson.terms)), lesson.terms
        text = " ".join(read_by_people(lesson)).lower().replace("-", " ")
        for term in lesson.terms:
            stem = re.escape(term.lower().replace("-", " ").replace("_", " "))
            assert re.search(stem.replace(r"\ ", "[ _]"), text), (lesson.id, term)


def test_the_order_of_the_course_is_kept() -> None:
    assert " ".join(lesson.id for lesson in lessons()) == (
        "tokens loop softmax greedy temperature top-k top-p min-p penalties divergence stops prefill streaming beams "
        "speculation constraints best-and-vote determinism settings"
    )


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_on_80x24_a_step_has_all_it_says_below_the_verdict_on_the_answer_before(file: object) -> None:
    lesson = next(lesson for lesson in lessons() if lesson.path == file)
    for at, step in enumerate(lesson.steps):
        playing = Playing(lesson, LessonState(at))
        if at and (before := lesson.steps[at - 1].question) is not None:
            wrong = sorted(range(1, len(before.answers) + 1), key=lambda one: len(before.answers[one - 1]))[-2:]
            playing.result = Guess(at - 1, *(wrong or (100, 1)), "2026-01-01")
        lines = strip_lines(playing, 78, rows_for(24))
        assert " more " not in lines[-1].text, step.text


def test_a_right_answer_does_not_depend_on_what_is_looked_at_after_the_step() -> None:
    """Facts of a token are of the one under the cursor: such a step ends at a known token. Lists of tokens and why-not are of
    what was asked last: the text is named."""
    loose = []
    for lesson in lessons():
        for step in lesson.steps:
            asked = step.question
            if asked is None:
                continue
            rights = asked.right if isinstance(asked.right, tuple) else ()
            facts = [fact for check in rights for fact in check.facts]
            facts += asked.truth.facts if asked.truth is not None else []
            names, checks = {fact.name for fact in facts}, " ".join(check.written for check in step.checks)
            one_token = lesson.opening.knobs.get("max_tokens") == 1
            if names & TOKEN_FACTS.keys() and not (one_token or re.search(r"mode == 'chat'|position ==", checks)):
                loose.append(asked.ask)
            if "removed_by" in names and "why_asked ==" not in checks:
                loose.append(asked.ask)
            if any(fact.name == "pieces" and not fact.argument for fact in facts):
                loose.append(asked.ask)
    assert loose == []


def test_keys_are_named_by_what_they_do() -> None:
    """So that the ones that are bound now are shown; Ctrl+U clears a line in every terminal."""
    texts = [
        text
        for lesson in lessons()
        for text in (*read_by_people(lesson), lesson.notes, *(step.notes for step in lesson.steps))
    ] + [entry.where for entry in entries().values()]
    keys = r"\b(Esc|Tab|F\d+|Shift\+|Alt\+|Ctrl\+(?!U\b))"
    assert [text for text in texts if re.search(keys, text)] == []


def test_a_lesson_names_the_keys_that_are_bound() -> None:
    remap({"tune": "ctrl+k", "learn": "ctrl+x", "send": "ctrl+j", "newline": "", "answer": ""})
    try:
        for lesson in lessons():
            for text in (*(text for step in lesson.steps for text in (step.text, *step.hints)), lesson.learned):
                said = plain_text(text)
                assert ("Ctrl+K" in said) is bool(re.search(r"\{tune[.}]", text)), text
                assert ("Ctrl+J" in said) is ("{send}" in text), text
    finally:
        remap({})
