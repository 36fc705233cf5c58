"""How far somebody has come in each lesson, kept in one small file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from termchat import atomic, paths, regular_files
from termchat.decoding.samplers import KNOBS
from termchat.lessons.playing import LessonState
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
        """Write what has changed; what other lessons have in the file by now stays: two terminals can learn at once. The
        lesson that was played last is the last one in the file."""
        if state == self._states.get(lesson) and lesson == self.last:
            return
        others = {id: one for id, one in self._read().items() if id != lesson}
        self._states = {**others, lesson: state}
        data = msgspec.json.format(msgspec.json.encode(_ProgressFile(_VERSION, self._states)), indent=1)
        try:
            atomic.replace(self._file, data)
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
            file = msgspec.json.decode(data, type=_ProgressFile)
            if file.version == _VERSION:
                return {id: _with_known_knobs(state) for id, state in file.lessons.items()}
            self._set_aside("another version of termchat wrote it")
        except (ValueError, RecursionError):
            self._set_aside("it is not what termchat writes")
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


class _ProgressFile(msgspec.Struct):
    version: int
    lessons: dict[str, LessonState]


def _with_known_knobs(state: LessonState) -> LessonState:
    """Check the knobs with which a lesson is resumed; leave out those of another version.

    Raises:
        SettingError: a knob has a value that it cannot have.
    """
    if state.resumes is None:
        return state
    knobs = {name: KNOBS[name].check(value) for name, value in state.resumes.knobs.items() if name in KNOBS}
    return msgspec.structs.replace(state, resumes=msgspec.structs.replace(state.resumes, knobs=knobs))
