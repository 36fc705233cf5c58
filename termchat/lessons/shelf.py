"""All lessons there are: the course that comes with termchat, and those in a user's own folder. A broken file fails alone."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from termchat import paths
from termchat.lessons.lesson import Lesson
from termchat.lessons.lesson_file import ANY_NAMES, LessonError, LessonNames, LessonProblem, read_lesson
from termchat.text import guess_of

COURSE = Path(__file__).resolve().parent / "course"
EXAMPLE = Path(__file__).resolve().with_name("example.toml")
"""A lesson with comments, to be changed into one's own."""
_DIGITS = re.compile(r"(\d+)")


class LessonRefused(ValueError):
    """No lesson goes by that name; the message says which do."""


class Shelf(NamedTuple):
    """The lessons in their order, first those of the course, and what is wrong with the files that are none."""

    lessons: tuple[Lesson, ...]
    broken: tuple[LessonError, ...] = ()

    def lesson(self, name: str) -> Lesson:
        """Find a lesson by its id or number, or by the beginning of its id.

        Raises:
            LessonRefused: there is none, or its file is broken.
        """
        wanted = name.strip().lower().removesuffix(".toml")
        number = wanted.lstrip("0") or "0"
        for lesson in self.lessons:
            if wanted in (lesson.id.lower(), lesson.path.stem.lower()) or (
                lesson.number and lesson.number.lstrip("0") == number
            ):
                return lesson
        for error in self.broken:
            if wanted in (error.path.stem.lower(), _id_of(error.path).lower()):
                raise LessonRefused(f"the lesson is broken: {error}")
        begun = [lesson for lesson in self.lessons if wanted and lesson.id.lower().startswith(wanted)]
        if len(begun) == 1:
            return begun[0]
        ids = [lesson.id for lesson in self.lessons]
        known = f"; lessons: {', '.join(ids)}" if ids else ""
        raise LessonRefused(f"unknown lesson {name!r}{guess_of(name, ids)}{known}")


def read_shelf(folders: Iterable[Path] | None = None, names: LessonNames = ANY_NAMES) -> Shelf:
    """Read the lessons in these folders; None stands for the course and the user's own; a lesson takes the place of one with
    its id in an earlier folder. What is in a folder in a folder is none."""
    found: dict[str, Lesson] = {}
    broken: list[LessonError] = []
    for folder in folders if folders is not None else (COURSE, paths.lessons_folder()):
        try:
            files = [path for path in folder.iterdir() if path.suffix == ".toml" and not path.name.startswith(".")]
        except FileNotFoundError:
            continue
        except OSError as error:
            broken.append(LessonError(folder, [LessonProblem(0, f"cannot be read: {error.strerror or error}")]))
            continue
        for path in sorted(files, key=lambda path: _order(path.name)):
            try:
                lesson = read_lesson(path, names)
            except LessonError as error:
                broken.append(error)
            else:
                found[lesson.id] = lesson
    return Shelf(tuple(found.values()), tuple(broken))


def _order(name: str) -> list[tuple[int, str]]:
    """Sort key: by number, and not by digit: 2 before 10; what has no number comes last."""
    parts = [(int(part), "") if part.isdigit() else (1 << 62, part) for part in _DIGITS.split(name)]
    return parts[1:] if name[:1].isdigit() else parts


def _id_of(path: Path) -> str:
    return re.sub(r"^\d+-", "", path.stem)
