"""How far somebody has come in each lesson, kept in one small file."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from termchat import atomic, paths, regular_files
from termchat.decoding.samplers import KNOBS
from termchat.decoding.setting import SettingError
from termchat.lessons.playing import Guess, LessonState, ResumePoint
from termchat.text import sanitize

_VERSION = 1
_MOST_BYTES = 4 << 20
_MOST_TRIES = 100


class LessonProgress:
    """What is kept of all lessons, by id. A file that cannot be read is set aside under another name, and `warn` hears of it:
    the lessons then begin anew. `warn` also hears, once, why nothing can be kept."""

    def __init__(self, file: Path | None = None, warn: Callable[[str], object] = lambda _: None) -> None:
        self._file = file or paths.lesson_progress_file()
        self._warn, self._told = warn, False
        self._states = self._read()

    def of(self, lesson: str) -> LessonState:
        return self._states.get(lesson, LessonState())

    @property
    def all(self) -> Mapping[str, LessonState]:
        return self._states

    @property
    def last(self) -> str:
        """The id of the lesson that was played last, "" for none."""
        return next(reversed(self._states), "")

    def keep(self, lesson: str, state: LessonState) -> None:
        """Writes what has changed; what other lessons have in the file by now stays: two terminals can learn at once. The
        lesson that was played last is the last one in the file."""
        if state == self._states.get(lesson) and lesson == self.last:
            return
        others = {id: one for id, one in self._read().items() if id != lesson}
        self._states = {**others, lesson: state}
        text = json.dumps(
            {"version": _VERSION, "lessons": {id: _plain(one) for id, one in self._states.items()}}, indent=1
        )
        try:
            atomic.replace(self._file, text.encode())
        except OSError as error:
            self._tell(f"the progress in lessons cannot be saved: {regular_files.problem(error)}")

    def _read(self) -> dict[str, LessonState]:
        try:
            data = regular_files.read(self._file, _MOST_BYTES)
        except FileNotFoundError:
            return {}
        except OSError as error:
            self._tell(f"{self._file} cannot be read: {regular_files.problem(error)}")
            return {}
        try:
            return _states(json.loads(data))
        except (ValueError, TypeError, RecursionError) as error:
            self._set_aside(str(error) if isinstance(error, _Unreadable) else "it is not what termchat writes")
            return {}

    def _set_aside(self, why: str) -> None:
        for number in range(_MOST_TRIES):
            aside = self._file.with_name(f"{self._file.name}.unreadable{number or ''}")
            if not aside.exists():
                break
        try:
            self._file.replace(aside)
        except OSError as error:
            self._tell(f"{self._file} cannot be used ({why}), and not be set aside: {regular_files.problem(error)}")
        else:
            self._tell(f"the progress in lessons could not be read ({why}); the file is now {aside.name}")

    def _tell(self, message: str) -> None:
        if not self._told:
            self._told = True
            self._warn(sanitize(message, keep=""))


class _Unreadable(ValueError):
    """What is in the file is not progress; the message says why."""


def _plain(state: LessonState) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "step": state.step,
        "done": state.done,
        "guesses": [guess._asdict() for guess in state.guesses],
    }
    if state.resumes is not None:
        plain["resumes"] = {**state.resumes._asdict(), "knobs": dict(state.resumes.knobs)}
    return plain


def _states(found: Any) -> dict[str, LessonState]:
    """What the file says.

    Raises:
        ValueError, TypeError: it is not what was written.
    """
    if not isinstance(found, dict) or not isinstance(found.get("lessons"), dict):
        raise _Unreadable("it is not what termchat writes")
    if found.get("version") != _VERSION:
        raise _Unreadable("another version of termchat wrote it")
    return {str(id): _state(one) for id, one in found["lessons"].items()}


def _state(found: Any) -> LessonState:
    if not isinstance(found, dict) or not isinstance(found.get("guesses"), list):
        raise _Unreadable("a lesson in it is not what termchat writes")
    guesses = tuple(_guess(one) for one in found["guesses"])
    return LessonState(_whole(found.get("step")), found.get("done") is True, guesses, _point(found.get("resumes")))


def _point(found: Any) -> ResumePoint | None:
    if found is None:
        return None
    if not isinstance(found, dict) or not isinstance(found.get("knobs"), dict):
        raise _Unreadable("where a lesson is resumed is not what termchat writes")
    leaf = found.get("leaf")
    try:
        knobs = {str(name): KNOBS[name].check(value) for name, value in found["knobs"].items() if name in KNOBS}
    except SettingError as error:
        raise _Unreadable("a knob in it has a value that it cannot have") from error
    return ResumePoint(_whole(found.get("step")), None if leaf is None else _whole(leaf), knobs)


def _guess(found: Any) -> Guess:
    if not isinstance(found, dict):
        raise _Unreadable("a guess in it is not what termchat writes")
    truth = found.get("truth")
    date = str(found.get("date", ""))
    datetime.fromisoformat(date).astimezone(UTC)
    return Guess(
        _whole(found.get("step")), _number(found.get("guess")), None if truth is None else _number(truth), date
    )


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 31:
        raise _Unreadable("a step in it is not a number")
    return value


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise _Unreadable("a guess in it is not a number")
    return float(value)
