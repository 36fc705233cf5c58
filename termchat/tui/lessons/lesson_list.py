"""All lessons: to begin one, or to resume it; with those whose files are broken."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from textual import events
from textual.content import Content
from textual.widget import Widget

from termchat.chat.service import Chat
from termchat.engine.abilities import Refused
from termchat.lessons.lesson import Lesson
from termchat.lessons.lesson_file import LessonError
from termchat.lessons.playing import LessonState
from termchat.lessons.shelf import COURSE, Shelf
from termchat.text import home, one_line
from termchat.tui.dialogs.base import ARROWS, DetailedListing
from termchat.tui.draw.ink import BLANK, Ink, Line, Run
from termchat.tui.draw.marks import ACCENT, MUTED, STRONG, TEXT, TITLE, column, prose
from termchat.tui.keys.dialogs import LESSONS, hint
from termchat.tui.lessons.lesson_words import plain
from termchat.tui.themes.theme_file import Palette

_NUMBER, _MINUTES, _AT = 4, 7, 9
_SUMMARY = 30
"""Cells from which a summary is worth beginning."""


class ChosenLesson(NamedTuple):
    """A lesson to begin, where it was left or from the start."""

    lesson: Lesson
    anew: bool = False


def progress_words(lesson: Lesson, state: LessonState) -> tuple[str, Ink]:
    """How far it is: a mark and a word, for those who see no colours too."""
    if state.step:
        return f"{'✓' if state.done else '◆'} {state.step + 1} of {len(lesson.steps)}", ACCENT
    return ("✓ done", Ink("success")) if state.done else ("", MUTED)


def lesson_row(
    lesson: Lesson, state: LessonState, width: int, longest: int, *, chosen: bool, last: bool = False, here: bool = True
) -> Line:
    """`last`: it was played last; `here`: it can be played."""
    says, ink = progress_words(lesson, state) if here else ("not here", MUTED)
    runs: list[Run] = [
        ("▌" if chosen else "›" if last else " ", ACCENT),
        (column(lesson.number.lstrip("0") if lesson.number else "own", _NUMBER - 1, right=True) + " ", MUTED),
        (column(lesson.title, longest) + "  ", STRONG if chosen else TEXT),
        (column(says, _AT), ink),
        (column(f"{lesson.minutes} min", _MINUTES, right=True), MUTED),
    ]
    room = width - sum(len(text) for text, _ in runs) - 2
    if room >= _SUMMARY:
        runs.append(("  " + one_line(lesson.summary, room), TEXT if chosen else MUTED))
    return Line(tuple(runs), "panel" if chosen else "")


def broken_row(error: LessonError, width: int, *, chosen: bool) -> Line:
    runs = (("▌" if chosen else " ", ACCENT), (" ✗  ", Ink("error")), (one_line(str(error), width - 5), Ink("error")))
    return Line(runs, "panel" if chosen else "")


class LessonsDialog(DetailedListing[ChosenLesson]):
    """The result is the lesson to begin. `refusal` says why a lesson cannot be played, `at` is the id of the highlighted
    lesson, `last` that of the one that was played last. `recorded`: recordings answer in place of a model."""

    DEFAULT_CSS = """
    LessonsDialog > Vertical { width: 100%; max-width: 140; height: 100%; max-height: 44; }
    LessonsDialog #body { margin-top: 1; }
    LessonsDialog #details { height: 6; }
    LessonsDialog.-beside #details { width: 40%; height: 1fr; margin: 0 0 0 2; }
    LessonsDialog.-low #details { display: none; }
    """
    BINDINGS = [*ARROWS, *(key.binding for key in LESSONS)]  # noqa: RUF012
    TITLE = "Lessons"
    KEYS = "LESSONS"
    AUTO_FOCUS = ""
    BESIDE = 130

    def __init__(
        self,
        palette: Palette,
        shelf: Shelf,
        states: Mapping[str, LessonState],
        refusal: Callable[[Lesson], Refused | None],
        at: str = "",
        last: str = "",
        *,
        recorded: bool = False,
    ) -> None:
        super().__init__(palette)
        self._shelf, self._states, self._refusal = shelf, states, refusal
        self._last, self._recorded = last, recorded
        self._longest = max((len(lesson.title) for lesson in shelf.lessons), default=8)
        self.picker.count = len(shelf.lessons) + len(shelf.broken)
        self.picker.chosen = self._first(at)
        self._number = ""

    def _first(self, at: str) -> int:
        """That lesson, else the one that was left last, else one that was left, else the first that is not done."""
        lessons, states = self._shelf.lessons, self._states
        wishes: tuple[Callable[[Lesson], bool], ...] = (
            lambda lesson: lesson.id == at,
            lambda lesson: lesson.id == self._last and states.get(lesson.id, LessonState()).step > 0,
            lambda lesson: states.get(lesson.id, LessonState()).step > 0,
            lambda lesson: not states.get(lesson.id, LessonState()).done,
        )
        found = (place for wish in wishes for place, lesson in enumerate(lessons) if wish(lesson))
        return next(found, 0)

    def listed(self) -> Iterable[Widget]:
        return (self.picker,)

    def title_line(self) -> str:
        done = sum(self._states.get(lesson.id, LessonState()).done for lesson in self._shelf.lessons)
        last = next((f" · › last: {one.title}" for one in self._shelf.lessons if one.id == self._last), "")
        played = " · recordings, no model" if self._recorded else ""
        return f"Lessons   {done} of {len(self._shelf.lessons)} done{last}{played}"

    def draw(self, rows: range, chosen: int, width: int) -> list[Line]:
        if not self.picker.count:
            return [Line((("no lessons", MUTED),))]
        return [self._row(at, width, chosen=at == chosen) for at in rows]

    def _row(self, at: int, width: int, *, chosen: bool) -> Line:
        lessons = self._shelf.lessons
        if at >= len(lessons):
            return broken_row(self._shelf.broken[at - len(lessons)], width, chosen=chosen)
        lesson = lessons[at]
        state = self._states.get(lesson.id, LessonState())
        longest = min(self._longest, max(width - _NUMBER - _AT - _MINUTES - 4, 8))
        last, here = lesson.id == self._last, self._refusal(lesson) is None
        return lesson_row(lesson, state, width, longest, chosen=chosen, last=last, here=here)

    @property
    def lesson(self) -> Lesson | None:
        """The highlighted one; None for a broken file."""
        at = self.picker.chosen
        return self._shelf.lessons[at] if at < len(self._shelf.lessons) else None

    @property
    def _broken(self) -> LessonError | None:
        at = self.picker.chosen - len(self._shelf.lessons)
        return self._shelf.broken[at] if 0 <= at < len(self._shelf.broken) else None

    def detailed(self) -> list[Line]:
        width, rows = self.details.room, self.details.size.height
        if (error := self._broken) is not None:
            return broken_lines(error, width)[:rows]
        lesson = self.lesson
        if lesson is None:
            return []
        return lesson_lines(lesson, self._states.get(lesson.id, LessonState()), self._refusal(lesson), width, rows)

    def hint(self) -> Content:
        lesson = self.lesson
        if lesson is None or self._refusal(lesson) is not None:
            return hint(("list-up", "selects"), ("close", "closes"))
        state = self._states.get(lesson.id, LessonState())
        does = "resumes" if state.step else "begins"
        anew = (("lessons-anew", "from the start"),) if state.step else ()
        return hint(("list-up", "selects"), ("lessons-begin", does), *anew, ("close", "closes"))

    def on_mount(self) -> None:
        super().on_mount()
        self._shown()

    def _shown(self) -> None:
        self.details.show()
        self.put(".hint", self.hint())

    def on_key(self, event: events.Key) -> None:
        """Digits lead to the lesson with that number."""
        digit = event.character if event.character is not None and event.character in "0123456789" else ""
        numbers = [lesson.number.lstrip("0") for lesson in self._shelf.lessons]
        longer = self._number + digit
        self._number = longer if digit and any(number.startswith(longer) for number in numbers) else digit
        if self._number in numbers and digit:
            self.picker.show(self.picker.count, numbers.index(self._number))
            self.say("")
            self._shown()

    def action_move(self, how: str) -> None:
        super().action_move(how)
        self.say("")
        self._shown()

    def action_begin(self, anew: bool = False) -> None:
        lesson = self.lesson
        if lesson is None:
            self.say("this file cannot be used; termchat learn check FILE says what is wrong")
        elif (refused := self._refusal(lesson)) is not None:
            self.say(f"{refused.message}; {refused.hint}")
        else:
            self.dismiss(ChosenLesson(lesson, anew))


def refusal_of(lesson: Lesson, chat: Chat) -> Refused | None:
    """Why a lesson cannot be played on the engine of a chat, and which can; None where it can be."""
    return next((refused for need in lesson.needs if (refused := chat.find_refusal(need)) is not None), None)


def lesson_lines(lesson: Lesson, state: LessonState, refused: Refused | None, width: int, rows: int) -> list[Line]:
    """In at most so many rows; what was learned is left out where there is no room for all of it."""
    says, _ = progress_words(lesson, state)
    before = ["done before"] if state.done and state.step else []
    facts = [f"{len(lesson.steps)} steps", f"{lesson.minutes} min", *([says] if says else []), *before]
    lines = [Line(((one_line(lesson.title, width), STRONG),)), Line(((" · ".join(facts), MUTED),)), BLANK]
    lines += prose(lesson.summary, width)
    if refused is not None:
        lines += prose(f"It cannot be played here: {refused.message}; {refused.hint}.", width, Ink("warning"))
    learned = [BLANK, Line((("LEARNED", TITLE),)), *prose(plain(lesson.learned), width)]
    if state.done and len(lines) + len(learned) <= rows:
        lines += learned
    if lesson.path.parent != COURSE:
        lines += prose(home(lesson.path), width, MUTED)
    return lines[:rows]


def broken_lines(error: LessonError, width: int) -> list[Line]:
    lines = prose(home(error.path), width, STRONG)
    for problem in error.problems:
        lines += prose(str(problem), width)
    return lines
