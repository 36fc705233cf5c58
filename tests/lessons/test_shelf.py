"""The shelf: lessons in their order, found by name, one's own beside ours, and a broken file alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from termchat.lessons.lesson_file import LessonRefused, read_shelf
from tests.lessons.made_lessons import EXAMPLE


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    course, own = tmp_path / "course", tmp_path / "own"
    course.mkdir()
    own.mkdir()
    for name in ("02-greedy.toml", "10-beams.toml", "01-tokens.toml", "03-tempo.toml"):
        (course / name).write_text(EXAMPLE.replace('"Temperature"', f'"{name}"'))
    (own / "mine.toml").write_text(EXAMPLE)
    return course, own


def test_the_order_is_that_of_the_numbers_then_ones_own(folders: tuple[Path, Path]) -> None:
    shelf = read_shelf(folders)
    assert [lesson.id for lesson in shelf.lessons] == ["tokens", "greedy", "tempo", "beams", "mine"]
    assert shelf.broken == ()


def test_a_broken_lesson_of_a_teacher_fails_alone_with_its_line(folders: tuple[Path, Path]) -> None:
    (folders[1] / "bad.toml").write_text(EXAMPLE.replace("minutes = 5", "minutes = 500"))
    (folders[1] / "worse.toml").write_bytes(b"\xff")
    shelf = read_shelf(folders)
    assert len(shelf.lessons) == 5
    assert [str(error) for error in shelf.broken] == [
        "bad.toml, line 2: minutes must be a whole number from 1 to 120, not 500",
        "worse.toml: is not UTF-8 text (byte 0)",
    ]
    with pytest.raises(LessonRefused, match=r"the lesson is broken: bad\.toml, line 2"):
        shelf.lesson("bad")


def test_ones_own_takes_the_place_of_ours(folders: tuple[Path, Path]) -> None:
    (folders[1] / "greedy.toml").write_text(EXAMPLE.replace('"Temperature"', '"My own"'))
    shelf = read_shelf(folders)
    assert [lesson.title for lesson in shelf.lessons][1] == "My own"
    assert len(shelf.lessons) == 5


@pytest.mark.parametrize("name", ["greedy", "2", "02", "02-greedy", "02-greedy.toml", "GREEDY", "gre"])
def test_a_lesson_is_found_by_its_names(folders: tuple[Path, Path], name: str) -> None:
    assert read_shelf(folders).lesson(name).id == "greedy"


@pytest.mark.parametrize(
    ("name", "message"), [("gredy", "did you mean greedy"), ("t", "unknown lesson 't'"), ("", "unknown lesson")]
)
def test_an_unknown_lesson_is_named_with_those_there_are(folders: tuple[Path, Path], name: str, message: str) -> None:
    with pytest.raises(LessonRefused, match=message):
        read_shelf(folders).lesson(name)


def test_what_else_is_in_the_folder_does_not_matter(folders: tuple[Path, Path]) -> None:
    (folders[1] / "notes.txt").write_text("x")
    (folders[1] / ".hidden.toml").write_text("x")
    (folders[1] / "sub").mkdir()
    shelf = read_shelf([*folders, folders[0] / "none"])
    assert len(shelf.lessons) == 5
    assert shelf.broken == ()


def test_a_name_may_have_a_line_break(folders: tuple[Path, Path]) -> None:
    (folders[1] / "7-a\nb.toml").write_text(EXAMPLE)
    (folders[1] / "c\nd.toml").write_text("")
    shelf = read_shelf(folders)
    assert shelf.lesson("7").id == "a\nb"
    assert len(shelf.broken) == 1


def test_a_folder_that_is_a_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    shelf = read_shelf([tmp_path / "file"])
    assert shelf.lessons == ()
    assert "cannot be read" in str(shelf.broken[0])
