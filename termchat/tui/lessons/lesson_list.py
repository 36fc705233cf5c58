"""All lessons, to begin or resume one, with the files that are broken; and the words of decoding."""

from __future__ import annotations

from textual import events

from termchat.lessons.glossary import entries
from termchat.lessons.lesson import Lesson
from termchat.lessons.lesson_file import COURSE, LessonError, Shelf
from termchat.lessons.playing import LessonState
from termchat.text import home, one_line
from termchat.tui.draw.dialog import KeyHints
from termchat.tui.draw.ink import BLANK, Ink, Line, Run
from termchat.tui.draw.list_dialog import ListDialog
from termchat.tui.draw.marks import ACCENT, MUTED, STRONG, TEXT, TITLE, column, prose
from termchat.tui.lessons.lesson_keeping import LessonKeeping
from termchat.tui.lessons.lesson_words import plain_text
from termchat.tui.themes.theme_file import Palette

_NUMBER, _MINUTES, _AT = 4, 7, 9
_SUMMARY = 30
"""Cells from which a summary is worth beginning."""


def progress_words(lesson: Lesson, state: LessonState) -> tuple[str, Ink]:
    """Write the progress with a mark and a word, readable without colours."""
    if state.step:
        return f"{'✓' if state.done else '◆'} {state.step + 1} of {len(lesson.steps)}", ACCENT
    return ("✓ done", Ink("success")) if state.done else ("", MUTED)


class LessonsDialog(ListDialog[Lesson | LessonError, tuple[Lesson, bool]]):
    """All lessons, then the broken files; the result is the lesson to begin, and whether from the start.

    Args:
        shelf: the lessons.
        keeping: knows how far each is, and which cannot be played here.
        at: the id of the highlighted lesson.
    """

    DEFAULT_CSS = """
    LessonsDialog > Vertical { width: 100%; max-width: 140; height: 100%; max-height: 44; }
    LessonsDialog #details { height: 6; }
    LessonsDialog.-beside #details { width: 40%; height: 1fr; }
    """
    EMPTY = "no lessons"
    KEYS = "LESSONS"
    BESIDE = 130

    def __init__(
        self,
        palette: Palette,
        shelf: Shelf,
        keeping: LessonKeeping,
        at: str = "",
    ) -> None:
        super().__init__(palette)
        self._lessons, self._keeping, self._last = shelf.lessons, keeping, keeping.progress.last
        self._longest = max((len(lesson.title) for lesson in shelf.lessons), default=8)
        self._number = ""
        """Digits typed for a lesson's number."""
        self.set_rows([*shelf.lessons, *shelf.broken], self._first(at))

    def _state(self, lesson: Lesson) -> LessonState:
        return self._keeping.progress.of(lesson.id)

    def _first(self, at: str) -> int:
        """Return the index of that lesson, else of the last one if unfinished, of one unfinished, or of the first not done."""

        def rank(place: int) -> tuple[bool, bool, bool, bool]:
            lesson, state = self._lessons[place], self._state(self._lessons[place])
            return lesson.id != at, not (lesson.id == self._last and state.step), not state.step, state.done

        return min(range(len(self._lessons)), key=rank, default=0)

    def title_line(self) -> str:
        done = sum(self._state(lesson).done for lesson in self._lessons)
        last = next((f" · › last: {one.title}" for one in self._lessons if one.id == self._last), "")
        recordings = " · recordings, no model" if self._keeping.recording is not None else ""
        return f"Lessons   {done} of {len(self._lessons)} done{last}{recordings}"

    def line(self, row: Lesson | LessonError, width: int, *, chosen: bool) -> Line:
        mark = "▌" if chosen else " "
        if isinstance(row, LessonError):
            error = Ink("error")
            return Line(((mark, ACCENT), (" ✗  ", error), (one_line(str(row), width - 5), error)))
        longest = min(self._longest, max(width - _NUMBER - _AT - _MINUTES - 4, 8))
        progress, ink = (
            ("not here", MUTED) if self._keeping.refusal(row) is not None else progress_words(row, self._state(row))
        )
        number = column(row.number.lstrip("0") if row.number else "own", _NUMBER - 1, right=True)
        runs: list[Run] = [
            ("›" if row.id == self._last and not chosen else mark, ACCENT),
            (number + " ", MUTED),
            (column(row.title, longest) + "  ", STRONG if chosen else TEXT),
            (column(progress, _AT), ink),
            (column(f"{row.minutes} min", _MINUTES, right=True), MUTED),
        ]
        room = width - sum(len(text) for text, _ in runs) - 2
        if room >= _SUMMARY:
            runs.append(("  " + one_line(row.summary, room), TEXT if chosen else MUTED))
        return Line(tuple(runs))

    def render_details(self, row: Lesson | LessonError, width: int, height: int) -> list[Line]:
        """Render the summary of a lesson, and its result if that fits."""
        if isinstance(row, LessonError):
            problems = [line for problem in row.problems for line in prose(str(problem), width)]
            return [*prose(home(row.path), width, STRONG), *problems][:height]
        state, refused = self._state(row), self._keeping.refusal(row)
        progress, _ = progress_words(row, state)
        before = "done before" if state.done and state.step else ""
        facts = filter(None, [f"{len(row.steps)} steps", f"{row.minutes} min", progress, before])
        lines = [Line(((one_line(row.title, width), STRONG),)), Line(((" · ".join(facts), MUTED),)), BLANK]
        lines += prose(row.summary, width)
        if refused is not None:
            lines += prose(f"It cannot be played here: {refused.message}; {refused.hint}.", width, Ink("warning"))
        learned = [BLANK, Line((("LEARNED", TITLE),)), *prose(plain_text(row.learned), width)]
        if state.done and len(lines) + len(learned) <= height:
            lines += learned
        if row.path.parent != COURSE:
            lines += prose(home(row.path), width, MUTED)
        return lines[:height]

    def hints(self) -> KeyHints:
        lesson = self.row
        if not isinstance(lesson, Lesson) or self._keeping.refusal(lesson) is not None:
            return ("list-up", "selects"), ("close", "closes")
        if self._state(lesson).step:
            begin: KeyHints = (("lessons-begin", "resumes"), ("lessons-anew", "from the start"))
        else:
            begin = (("lessons-begin", "begins"),)
        return ("list-up", "selects"), *begin, ("close", "closes")

    def moved(self) -> None:
        self.say("")
        self.show_row()

    def on_key(self, event: events.Key) -> None:
        """Go to the lesson whose number the digits are."""
        digit = event.character if event.character is not None and event.character in "0123456789" else ""
        numbers = [lesson.number.lstrip("0") for lesson in self._lessons]
        longer = self._number + digit
        self._number = longer if digit and any(number.startswith(longer) for number in numbers) else digit
        if self._number in numbers and digit:
            self.picker.show(numbers.index(self._number))
            self.moved()

    def action_begin(self, anew: bool = False) -> None:
        lesson = self.row
        if not isinstance(lesson, Lesson):
            self.say("this file cannot be used; termchat learn check FILE says what is wrong")
        elif (refused := self._keeping.refusal(lesson)) is not None:
            self.say(f"{refused.message}; {refused.hint}")
        else:
            self.dismiss((lesson, anew))


def glossary_lines(width: int) -> list[Line]:
    """Render the words of decoding, each in one sentence, and where it is on the screen."""
    lines: list[Line] = []
    for entry in entries().values():
        lines += [BLANK] * bool(lines)
        lines += [
            Line(((entry.term, STRONG),)),
            *prose(entry.text, width),
            *prose(plain_text(entry.where), width, MUTED),
        ]
    return lines
