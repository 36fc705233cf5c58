"""`termchat learn notes`: in a second terminal, what the presenter is told of the lesson that runs in the first."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import wrap
from typing import NamedTuple

from termchat import paths, regular_files
from termchat.lessons.lesson import Lesson, LessonText
from termchat.lessons.lesson_file import LessonError, read_lesson
from termchat.text import sanitize

_MOST_BYTES = 1 << 16
NO_LESSON = "No lesson is running. Begin one in another terminal: termchat learn"


class LessonNow(NamedTuple):
    """The lesson that runs, and its step, from 1 on; one more than there are once it is over."""

    file: Path
    step: int
    pid: int


def lesson_now(file: Path | None = None) -> LessonNow | None:
    """What runs; None where nothing does, or a program that was killed has left its word behind."""
    try:
        found = json.loads(regular_files.read(file or paths.lesson_now_file(), _MOST_BYTES))
        now = LessonNow(Path(found["file"]), int(found["step"]), int(found["pid"]))
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None
    return now if _runs(now.pid) else None


def _runs(pid: int) -> bool:
    if os.name == "nt":
        return True  # to ask there would end it
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return pid > 0


def note_lines(now: LessonNow | None, key_of: Callable[[str], str], width: int) -> list[str]:
    """What a presenter sees: the notes of the lesson and of the step, what the class reads, and what comes."""
    if now is None:
        return wrap(NO_LESSON, width)
    try:
        lesson = read_lesson(now.file)
    except LessonError as error:
        return wrap(sanitize(str(error), keep=""), width)
    return list(_lines(lesson, now.step, key_of, width))


def _lines(lesson: Lesson, number: int, key_of: Callable[[str], str], width: int) -> Iterator[str]:
    steps = len(lesson.steps)
    over = number > steps
    yield from wrap(f"{sanitize(lesson.title, keep='')}, {'over' if over else f'step {number} of {steps}'}", width)
    if lesson.notes and (number == 1 or over):
        yield from _block("", lesson.notes, key_of, width)
    if over:
        yield from _block("Learned: ", lesson.learned, key_of, width)
        yield from _block("Next: ", lesson.next, key_of, width)
        return
    step = lesson.steps[max(number, 1) - 1]
    yield from _block("Say: ", step.notes, key_of, width)
    yield from _block("They read: ", step.text, key_of, width)
    if step.question is not None:
        yield from _block("They are asked: ", step.question.ask, key_of, width)
        for at, answer in enumerate(step.question.answers, 1):
            yield from _block(
                f"{at}{' (right)' if at == step.question.right else ''} ", answer, key_of, width, gap=False
            )
    for hint in step.hints:
        yield from _block("Hint: ", hint, key_of, width)
    if step.deeds:
        deeds = ", ".join(deed.written for deed in step.deeds)
        yield from _block("Done for them by: ", LessonText(""), key_of, width, more=deeds)
    if number < steps:
        yield from _block("Then: ", lesson.steps[number].text, key_of, width)


def _block(
    mark: str, text: LessonText, key_of: Callable[[str], str], width: int, *, gap: bool = True, more: str = ""
) -> Iterator[str]:
    """A paragraph; none where there is no text."""
    shown = sanitize(text.filled(key_of) + more, keep="").strip()
    if shown:
        yield from [""] * gap
        yield from wrap(mark + " ".join(shown.split()), width, subsequent_indent=" " * min(len(mark), 4))
