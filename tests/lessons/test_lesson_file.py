"""A lesson's file becomes a lesson, or an error that says what is wrong in which line. It never crashes."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from termchat.lessons.lesson import Lesson, LessonText
from termchat.lessons.lesson_file import LessonError, LessonNames, LessonProblem, read_lesson
from tests.lessons.made_lessons import EXAMPLE, lesson_in, line_with, lines_of


def problems(folder: Path, text: str) -> list[LessonProblem]:
    with pytest.raises(LessonError) as raised:
        lesson_in(folder, text)
    return raised.value.problems


def test_what_is_written_is_read(tmp_path: Path) -> None:
    lesson = lesson_in(tmp_path)
    assert (lesson.id, lesson.number, lesson.title, lesson.minutes) == ("temperature", "05", "Temperature", 5)
    assert lesson.needs == ("seeds",)
    assert lesson.opening.knobs == {"temperature": 0.0, "max_tokens": 40, "top_k": 0, "seed": 7, "stop": ("###",)}
    assert (lesson.opening.raw, lesson.opening.text, lesson.opening.look) == (True, "The sea is", "")
    first, second, third = lesson.steps
    assert first.points == ("send", "panel:chain")
    assert [deed.kind for deed in first.deeds] == ["press", "wait"]
    assert first.rungs == 3
    assert [claim.written for claim in first.claims] == ["loops"]
    assert first.question is not None
    assert first.question.right == 2
    assert second.question is not None
    assert (second.question.unit, second.question.before) == ("%", False)
    assert third.question is None
    assert third.line == line_with(r'\[\[steps\]\]\ntext = "Turn', EXAMPLE)


def test_claims_of_earlier_versions_are_left_out(tmp_path: Path) -> None:
    claim = '[[claims]]\nwhat = "It is so."\nprompt = "The sea is"\ncheck = "loops"\notherwise = "It is not so."\n\n'
    assert lesson_in(tmp_path, EXAMPLE.replace("[[steps]]", f"{claim}[[steps]]", 1)).title == "Temperature"


def test_keys_in_texts_are_the_present_ones(tmp_path: Path) -> None:
    lesson = lesson_in(tmp_path)
    text = lesson.steps[0].text
    assert text.keys == ["send", "tune.temperature"]
    filled = text.fill_keys({"send": "Enter", "tune.temperature": "Ctrl+T t"}.__getitem__)
    assert filled == "Press Enter, and watch. {This} is Ctrl+T t."


@pytest.mark.parametrize(
    ("before", "after", "where", "message"),
    [
        ("minutes = 5", "minutes = 0", "minutes", "minutes must be a whole number from 1 to 120, not 0"),
        ("minutes = 5", "minute = 5", "minute =", "unknown key 'minute' (did you mean minutes?)"),
        ('title = "Temperature"', "title = 3", "title", "title must be a text in quotes, not 3"),
        ('needs = ["seeds"]', 'needs = ["seed"]', "needs", "unknown feature 'seed' (did you mean seeds?)"),
        ("raw = true\ntext", 'raw = "yes"\ntext', "raw", "raw must be true or false, not 'yes'"),
        ("temperature = 0.0, max_tokens = 40", "temperatur = 0", "knobs", "unknown knob 'temperatur' (did you mean"),
        ("temperature = 0.0, max_tokens = 40", "temperature = 20", "knobs", "temperature must be a number from 0 to"),
        ('claim = "loops"', 'claim = "lops"', 'claim = "lops', "unknown fact 'lops' (did you mean loops?)"),
        ('"same",', '"sane",', r"check = \[\n", "check[1]: unknown fact 'sane' (did you mean"),
        ('"same",', '"tokens",', r"check = \[\n", "'tokens' is a number: compare it"),
        ('do = ["press send"]', 'do = ["pres send"]', 'do = \\["pres ', "do[0]: unknown deed 'pres' (did you mean press?)"),
        ('do = ["press send"]', 'do = ["set top_k 1"]', 'do = \\["set', "commands such as /temperature 0"),
        ('do = ["press send"]', 'do = ["press"]', 'do = \\["press"', "press needs the id of one key"),
        ("right = 2", "right = 3", "right", "right must be a number from 1 to 2"),
        ("right = 2", 'right = ["same"]', "right", "right has 1 checks for 2 answers"),
        ("right = 2", "", r"\[steps\.question\]", "right must be a number from 1 to 2"),
        ("Press {send}, and", "Press {send, and", "text = .Press", "text: a lone brace"),
        ("truth = \"model(' blue') * 100\"\n", "", r'\[steps\.question\]\nask = "How', "a question has answers"),
        ("truth = \"model(' blue') * 100\"", 'truth = "text"', "truth", "truth must be a number, not a text"),
        ('check = ["temperature > 1"]\n', "", r'\[\[steps\]\]\ntext = "Turn', "check is missing"),
        ('hints = ["Nudge.",', 'hints = ["a", "b",', "hints", "hints has 3 texts"),
        ("[opening]", "[openning]", r"\[openning\]", "unknown key 'openning' (did you mean opening?)"),
        ('text = "Send it again."', 'text = "' + "word " * 61 + '"', "text = .word", "text has 61 words; 60 are the most"),
        ('points = ["send", ', 'points = ["pane:x", ', "points", "'pane:x' is not the id of a key, or panel:NAME"),
        ('"Temperature"\n', '"Temperature\n', "title", "not valid TOML"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_its_line(tmp_path: Path, before: str, after: str, where: str, message: str) -> None:
    assert before in EXAMPLE
    text = EXAMPLE.replace(before, after, 1)
    found = problems(tmp_path, text)
    assert any(message in problem.message for problem in found), found
    assert line_with(where, text) in lines_of(found)


def test_all_problems_are_found_in_the_order_of_the_lines(tmp_path: Path) -> None:
    text = (
        EXAMPLE.replace('title = "Temperature"', "titel = 1")
        .replace('"same",', '"sane",')
        .replace('"press send"]', '"pres"]')
    )
    found = problems(tmp_path, text)
    assert len(found) >= 3
    assert lines_of(found) == sorted(lines_of(found))
    with pytest.raises(LessonError, match=r"05-temperature\.toml.*title is missing \(and \d+ more\)"):
        read_lesson(tmp_path / "05-temperature.toml")


def test_names_of_the_screen_are_checked_where_they_are_known(tmp_path: Path) -> None:
    lesson_in(tmp_path, EXAMPLE.replace("{send}, and", "{sendd}, and"))
    names = LessonNames(keys={"send", "tune"}, pages={"knobs"})
    with pytest.raises(LessonError) as raised:
        read_lesson(tmp_path / "05-temperature.toml", names)
    messages = [problem.message for problem in raised.value.problems]
    assert messages == ["unknown key 'sendd' (did you mean send?)", "unknown panel 'chain'"]


@pytest.mark.parametrize(
    "content", [b"", b"\xff\xfe", b"a" * (2 << 20), b"[[steps]]\n" * 100, b"steps = 1", b"a = " + b"[" * 9999]
)
def test_odd_files_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "odd.toml").write_bytes(content)
    with pytest.raises(LessonError, match=r"odd\.toml"):
        read_lesson(tmp_path / "odd.toml")


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    (tmp_path / "folder.toml").mkdir()
    for name in ("none.toml", "folder.toml"):
        with pytest.raises(LessonError, match="cannot be read"):
            read_lesson(tmp_path / name)


_LINES = EXAMPLE.splitlines()
_WORDS = st.sampled_from(
    ["", "[", "]", '"', "'", "= 1", "= true", "[[steps]]", "[steps]", "[opening]", "check = 1", "do = [1]",
     "check = ['(']", "right = ['same']", "knobs = 1", "seed = 'fresh'", "stop = 1", "answers = []", "{x",
     "truth = 'a'", "\x00", "é{}}", "points = [{}]"]
)  # fmt: skip


@given(
    st.lists(
        st.tuples(st.integers(0, len(_LINES) - 1), st.sampled_from(["cut", "double", "put", "end"]), _WORDS), max_size=6
    )
)
@example([(14, "put", "[opening.knobs]")])
def test_a_mutilated_file_is_a_lesson_or_an_error_with_a_message(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[int, str, str]]
) -> None:
    lines = list(_LINES)
    for at, how, word in changes:
        at = min(at, len(lines) - 1)
        lines[at : at + 1] = {
            "cut": [], "double": [lines[at], lines[at]], "put": [lines[at], word], "end": [lines[at] + word],
        }[how] or [""]  # fmt: skip
    folder = tmp_path_factory.mktemp("lessons", numbered=True)
    found: Lesson | LessonError
    try:
        found = lesson_in(folder, "\n".join(lines))
    except LessonError as error:
        found = error
    if isinstance(found, LessonError):
        assert found.problems
        assert str(found).startswith("05-temperature.toml")
        assert all(0 <= problem.line <= len(lines) + 1 for problem in found.problems)


@given(st.text(alphabet="{}ab."))
def test_braces(text: str) -> None:
    written = LessonText(text)
    assert written.fill_keys(lambda id: f"{{{id}}}").count("a") == text.count("a")
    if not written.keys and not written.lone_brace:
        assert written.fill_keys(str) == text.replace("{{", "{").replace("}}", "}")
