"""A lesson that is played: its chat, how far somebody is, what moves them on, and the file in which that is kept. It is driven
by facts, and knows no screen.

A step is over once all of its checks hold and its question is answered or skipped; the next one begins at once. What held
before the reader did anything is not taken for done: `already` says so, and `skip` goes on.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from termchat import atomic, paths, regular_files
from termchat.chat.service import Chat
from termchat.config.origins import LESSON
from termchat.conversation.position import constraint_of
from termchat.conversation.session import Breakpoint, Session, View
from termchat.conversation.tree import Conversation
from termchat.decoding import conditions
from termchat.decoding.samplers import KNOBS, Tuning
from termchat.lessons.lesson import Knobs, Lesson, LessonQuestion, LessonStep
from termchat.lessons.lesson_facts import LessonFacts
from termchat.text import sanitize

_MOST_BYTES = 4 << 20
_Whole = Annotated[int, msgspec.Meta(ge=0, lt=1 << 31)]


class Guess(msgspec.Struct, frozen=True):
    """The guess of a reader in a step, and the truth. Of a question with answers both are the number of one, from 1 on;
    `truth` None: there was none. `date` is UTC."""

    step: _Whole
    guess: float
    truth: float | None
    date: Annotated[str, msgspec.Meta(pattern=r"^\d{4}-\d\d-\d\d")]

    def is_right(self, question: LessonQuestion) -> bool | None:
        """Of answers, whether it is the right one; of a number, whether it is within a tenth of it, or half a unit. None where
        the truth is not known."""
        if self.truth is None:
            return None
        if not question.is_number:
            return self.guess == self.truth
        return abs(self.guess - self.truth) <= max(abs(self.truth) / 10, 0.5)


class ResumePoint(msgspec.Struct, frozen=True):
    """The beginning of a step that can be made again: nothing was paused, and the composer had the keyboard. `leaf` is the node
    that was shown, None in an empty chat; `knobs` are those that were not at their default."""

    step: _Whole
    leaf: _Whole | None = None
    knobs: Knobs = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        """Leave out the knobs of another version.

        Raises:
            SettingError: a knob has a value that it cannot have.
        """
        known = {name: KNOBS[name].check(value) for name, value in self.knobs.items() if name in KNOBS}
        msgspec.structs.force_setattr(self, "knobs", known)


class LessonState(msgspec.Struct, frozen=True):
    """The progress in a lesson: the step that is next, whether it was ever finished, the newest guess of each step, and from
    where on it is resumed."""

    step: _Whole = 0
    done: bool = False
    guesses: tuple[Guess, ...] = ()
    resumes: ResumePoint | None = None


NOTHING_DONE = LessonState()


class Playing:
    """One lesson that is being played. `step` is the index of the current step; its number is one more.

    `guess` is what was answered in this step, `hints` how many were taken of it. `result` is the guess of the step before,
    beside the truth: it is told while this one begins. `held`: the checks of this step hold. `already`: they did when it began.
    `skipped`: the question is not to be answered. After the last step it is `finished`. `point` is the newest beginning of a
    step from which it can be resumed. `missed` are the claims that did not hold, each with its step and its facts.
    """

    def __init__(self, lesson: Lesson, state: LessonState = NOTHING_DONE) -> None:
        self.lesson = lesson
        self.guesses = {guess.step: guess for guess in state.guesses if guess.step < len(lesson.steps)}
        self.was_done = state.done
        self.step = state.step if 0 <= state.step < len(lesson.steps) else 0
        self.finished = False
        self.result: Guess | None = None
        self.point: ResumePoint | None = None
        self.missed: list[str] = []
        self._begin()

    def _begin(self) -> None:
        self.hints = 0
        self.guess: float | None = None
        self.skipped = self.already = self.held = False
        self._looked = False

    @property
    def current(self) -> LessonStep:
        return self.lesson.steps[self.step]

    @property
    def number(self) -> int:
        """The number of the current step, from 1 on."""
        return self.step + 1

    @property
    def asks(self) -> LessonQuestion | None:
        """The question that waits for an answer: from the beginning of its step, or once that is done."""
        question = self.current.question
        if self.finished or question is None or self.guess is not None or self.skipped:
            return None
        return question if question.before or self.held else None

    @property
    def result_question(self) -> LessonQuestion | None:
        """The question of `result`."""
        return self.lesson.steps[self.result.step].question if self.result is not None else None

    @property
    def state(self) -> LessonState:
        """The state to keep; a finished lesson starts over the next time."""
        guesses = tuple(self.guesses[step] for step in sorted(self.guesses))
        step = 0 if self.finished else self.step
        return LessonState(step, self.was_done, guesses, self.point if step else None)

    def update(self, facts: LessonFacts) -> bool:
        """Look at the facts; returns whether the lesson went on, or says something else than before."""
        changed = False
        while not self.finished:
            if not self._looked:
                facts.begin_step()
            held = all(check.holds(facts) for check in self.current.checks)
            if not self._looked:
                self._looked, self.already = True, held and bool(self.current.checks)
                changed = changed or self.already
            elif self.already and not held:
                self.already, changed = False, True
            changed = changed or held != self.held
            self.held = held
            if not held or self._waits or (self.already and self.guess is None):
                break
            missed = [claim for claim in self.current.claims if not claim.holds(facts)]
            self.missed += [f"step {self.number}: {claim.describe(facts)}" for claim in missed]
            self._go_on(facts)
            changed = True
        return changed

    @property
    def _waits(self) -> bool:
        return self.current.question is not None and self.guess is None and not self.skipped

    def answer(self, guess: float) -> bool:
        """Take the reader's guess; return False where nothing is asked, or it is no answer. `update` goes on."""
        question = self.asks
        if question is None or guess != guess or abs(guess) > 1e12:
            return False
        if not question.is_number and guess not in range(1, len(question.answers) + 1):
            return False
        if question.is_share and not 0 <= guess <= 100:
            return False
        self.guess = guess
        return True

    def hint(self) -> None:
        """Take one more hint of the step, up to the last. That of a step with deeds is that it is done for the reader."""
        self.hints = min(self.hints + 1, self.current.rungs)

    @property
    def does_it(self) -> bool:
        """Whether the newest hint is that the step is done for the reader."""
        return bool(self.current.deeds) and self.hints == self.current.rungs

    def did(self) -> None:
        """Note that the deeds of the step were done: what held already counts."""
        self.already = False

    def skip(self, facts: LessonFacts) -> None:
        """Go to the next step, whatever holds: a question is left without a guess."""
        if not self.finished:
            self.skipped = True
            self._go_on(facts)
            self.update(facts)

    def _go_on(self, facts: LessonFacts) -> None:
        """End the step: put its guess beside the truth, and begin the next one."""
        self.result = None
        question = self.current.question
        if question is not None and self.guess is not None:
            date = datetime.now(UTC).isoformat(timespec="seconds")
            self.result = Guess(self.step, self.guess, truth_of(question, facts), date)
            self.guesses[self.step] = self.result
        self._begin()
        if self.step + 1 < len(self.lesson.steps):
            self.step += 1
        else:
            self.finished = self.was_done = True


def truth_of(question: LessonQuestion, facts: LessonFacts) -> float | None:
    """Find the number of the right answer, or the number that was asked for; None where that is not known."""
    if question.truth is not None:
        found = question.truth.value(facts)
        return None if found is None or isinstance(found, str) else float(found)
    if isinstance(question.right, tuple):
        return next((float(i) for i, check in enumerate(question.right, 1) if check.holds(facts)), None)
    return float(question.right) or None


def begin_chat(own: Chat, lesson: Lesson, left: Session | None = None) -> Chat:
    """Make the chat of a lesson beside the reader's own: the one in which the lesson was `left`, or an empty one with the
    lesson's knobs, all others at their defaults, and its text in the composer. A new chat in it begins likewise."""
    opening = lesson.opening
    system, raw = opening.system, opening.raw
    if left is not None:
        system, raw = left.conversation.first_system, left.conversation.raw
    begins = Session(
        tuning=Tuning().turn_knobs(opening.knobs),
        origins=dict.fromkeys(KNOBS, LESSON),
        view=View(lesson=lesson.id),
        conversation=Conversation(system, raw=raw),
    )
    if left is not None:
        left.origins, left.constraint = dict(begins.origins), constraint_of(left.conversation)
        if left.conversation.unsent.draft in {step.compose for step in lesson.steps}:  # each step puts its own there
            left.conversation.unsent.draft = ""
        return own.beside(left, begins)
    session = dataclasses.replace(
        begins,
        model=own.host.model_ref or own.session.model,
        conversation=Conversation(system, raw=raw),
        store=own.session.store,
        kept={} if own.session.kept is not None else None,
    )
    session.conversation.title, session.conversation.unsent.draft = lesson.title, opening.text
    chat = own.beside(session, begins)
    chat.set_breakpoints([Breakpoint(conditions.parse(rule)) for rule in opening.rules])
    chat.set_constraint(opening.constraint)
    return chat


class _ProgressFile(msgspec.Struct):
    version: Literal[1]
    lessons: dict[str, LessonState]


class LessonProgress:
    """The state of each lesson, by id. An unreadable file is moved aside and reported to `warn`, and the lessons start over. An
    error while saving is reported to `warn` once."""

    def __init__(self, file: Path | None = None, warn: Callable[[str], object] = lambda _: None) -> None:
        self._file = file or paths.lesson_progress_file()
        self._warn, self._warned = warn, False
        self._states = self._read()

    def of(self, lesson: str) -> LessonState:
        return self._states.get(lesson, NOTHING_DONE)

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
        try:
            atomic.replace(
                self._file, msgspec.json.format(msgspec.json.encode(_ProgressFile(1, self._states)), indent=1)
            )
        except OSError as error:
            self._warn_once(f"the progress in lessons cannot be saved: {regular_files.problem(error)}")

    def _read(self) -> dict[str, LessonState]:
        try:
            data = regular_files.read(self._file, _MOST_BYTES)
            return msgspec.json.decode(data, type=_ProgressFile).lessons
        except FileNotFoundError:
            pass
        except OSError as error:
            self._warn_once(f"{self._file} cannot be read: {regular_files.problem(error)}")
        except (ValueError, RecursionError):
            names = (self._file.with_name(f"{self._file.name}.unreadable{number or ''}") for number in count())
            aside = next(file for file in names if not file.exists())
            why = "it is not what this version of termchat writes"
            try:
                self._file.replace(aside)
            except OSError as error:
                problem = regular_files.problem(error)
                self._warn_once(f"{self._file} cannot be used ({why}), and not be set aside: {problem}")
            else:
                self._warn_once(f"the progress in lessons could not be read ({why}); the file is now {aside.name}")
        return {}

    def _warn_once(self, message: str) -> None:
        if not self._warned:
            self._warned = True
            self._warn(sanitize(message, keep=""))
