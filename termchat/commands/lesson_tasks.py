"""What `termchat learn` does without a screen: list lessons, and check one with the real model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from termchat.chat.host import Host
from termchat.chat.opening import find_model
from termchat.chat.service import Chat
from termchat.config.settings import Settings
from termchat.conversation.session import Session
from termchat.engine.port import Engine, EngineError
from termchat.lessons.lesson import Lesson
from termchat.lessons.lesson_chat import MeasuredClaim, measure_claim
from termchat.lessons.lesson_file import LessonError, LessonNames, Shelf, read_lesson
from termchat.lessons.playing import LessonProgress, LessonState
from termchat.models.errors import ModelError
from termchat.text import sanitize

Say = Callable[[str], object]
Play = Callable[[Settings, Lesson, Say], Sequence[str]]
"""Plays a lesson in the app by its deeds; returns what went wrong."""


def listed(shelf: Shelf, progress: LessonProgress) -> dict[str, Any]:
    """List all lessons with their progress, and the broken ones, for `--json`."""
    return {
        "lessons": [
            {
                "number": lesson.number,
                "id": lesson.id,
                "title": lesson.title,
                "minutes": lesson.minutes,
                "summary": lesson.summary,
                "needs": list(lesson.needs),
                "steps": len(lesson.steps),
                "step": state.step,
                "done": state.done,
                "file": str(lesson.path),
            }
            for lesson in shelf.lessons
            for state in [progress.of(lesson.id)]
        ],
        "broken": [
            {"file": str(error.path), "problems": [problem._asdict() for problem in error.problems]}
            for error in shelf.broken
        ],
    }


def standing(lesson: Lesson, state: LessonState) -> str:
    """Write the progress in a lesson: "done", "step 3 of 6", "" for a lesson that was not begun."""
    if state.step:
        return f"step {state.step + 1} of {len(lesson.steps)}{', done before' if state.done else ''}"
    return "done" if state.done else ""


def check(
    config: Settings,
    make_engine: Callable[[], Engine],
    file: Path,
    names: LessonNames,
    play: Play | None,
    say: Say,
    warn: Say,
) -> int:
    """Say what is wrong with a lesson's file: first as it is written, then what it claims of the model, then by playing it.
    With `play` None only as it is written. Returns the exit code."""
    try:
        lesson = read_lesson(file, names)
    except LessonError as error:
        for problem in error.problems:
            place = f"{file}, line {problem.line}" if problem.line else str(file)
            warn(sanitize(f"{place}: {problem.message}", keep=""))
        return 1
    parts = f"{_count('step', lesson.steps)}, {_count('claim', lesson.claims)}"
    say(sanitize(f"{file}: {lesson.title}: {parts}, well written", keep=""))
    if play is None:
        return 0
    try:
        measured = measure(config, make_engine(), lesson)
    except (EngineError, ModelError) as error:
        warn(sanitize(f"{error.message}{'; ' + error.hint if error.hint else ''}", keep=""))
        return 1
    for number, result in enumerate(measured, 1):
        verdict = {True: "holds", False: "does not hold", None: "cannot be measured"}[result.holds]
        why = f": {result.failed}" if result.failed else ""
        say(sanitize(f"claim {number}: {result.claim.what}: {verdict}{why}", keep=""))
        if result.holds is False:
            step = f"step {result.claim.step}" if result.claim.step else "the lesson"
            say(sanitize(f"  tell it to readers of {step}: {result.claim.otherwise}", keep=""))
    problems = play(config, lesson, say)
    for told in problems:
        warn(sanitize(f"{file}: {told}", keep=""))
    wrong = [result for result in measured if not result.holds]
    if wrong:
        warn(f"{len(wrong)} of {_count('claim', measured)} cannot be relied on with this model")
    if problems or wrong:
        return 1
    say("the lesson works")
    return 0


def measure(config: Settings, engine: Engine, lesson: Lesson) -> list[MeasuredClaim]:
    """Measure a lesson's claims on the configured model, and end the engine.

    Raises:
        ModelError, EngineError: there is no model, or it cannot be loaded.
    """
    try:
        found, spec = find_model(config)
        if not lesson.claims:
            return []
        chat = Chat(Host(engine), Session())
        chat.loading.load(spec, heeds=found.recommendations)
        while chat.phase != "idle":
            chat.pump_events(0.05)
            if chat.failure is not None:
                raise EngineError(chat.failure.kind, chat.failure.message, chat.failure.hint)
        return [measure_claim(chat.host, claim) for claim in lesson.claims]
    finally:
        engine.close()


def _count(what: str, things: Sequence[object]) -> str:
    return f"{len(things)} {what}{'s' * (len(things) != 1)}"
