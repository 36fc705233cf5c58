"""What `termchat learn` does without a screen: list lessons, check one with the real model, follow the presenter's notes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from time import sleep
from typing import Any

from termchat.chat.host import Host
from termchat.chat.opening import find_model
from termchat.chat.service import Chat
from termchat.commands.lesson_notes import lesson_now, note_lines
from termchat.config.settings import Settings
from termchat.conversation.session import Session
from termchat.engine.port import Engine, EngineError
from termchat.lessons.lesson import Lesson
from termchat.lessons.lesson_claims import ClaimMeasuring, MeasuredClaim
from termchat.lessons.lesson_file import LessonError, LessonNames, read_lesson
from termchat.lessons.lesson_progress import LessonProgress
from termchat.lessons.playing import LessonState
from termchat.lessons.shelf import Shelf
from termchat.models.errors import ModelError
from termchat.text import sanitize

Say = Callable[[str], object]
Play = Callable[[Settings, Lesson, Say], Sequence[str]]
"""Plays a lesson in the app by its deeds; returns what went wrong."""
_LOOK_S = 0.5


def listed(shelf: Shelf, progress: LessonProgress) -> dict[str, Any]:
    """All lessons with their progress, and the broken ones, for `--json`."""
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
    """How far somebody is: "done", "step 3 of 6", "" for a lesson that was not begun."""
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
    """Says what is wrong with a lesson's file: first as it is written, then what it claims of the model, then by playing it.
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
    problems = play(config, lesson, say)
    for told in problems:
        warn(sanitize(f"{file}: {told}", keep=""))
    wrong = [result for result in measured if not result.holds]
    if wrong:
        warn(
            f"{len(wrong)} of {_count('claim', measured)} cannot be relied on with this model; readers are told otherwise"
        )
    if problems or wrong:
        return 1
    say("the lesson works")
    return 0


def measure(config: Settings, engine: Engine, lesson: Lesson) -> list[MeasuredClaim]:
    """What the configured model makes of a lesson's claims; the engine is ended.

    Raises:
        ModelError, EngineError: there is no model, or it cannot be loaded.
    """
    try:
        found, spec = find_model(config)
        if not lesson.claims:
            return []
        chat = Chat(Host(engine), Session())
        chat.loading.load(spec, heeds=found.recommendations)
        measuring = ClaimMeasuring(chat, lesson.claims)
        while not measuring.done:
            chat.pump_events(0.05)
            measuring.pump()
            if chat.failure is not None:
                raise EngineError(chat.failure.kind, chat.failure.message, chat.failure.hint)
        return measuring.results
    finally:
        engine.close()


def follow_notes(key_of: Callable[[str], str], *, once: bool = False) -> None:
    """Shows the presenter's notes of the lesson that runs, until Ctrl+C; `once` as they are now. On a terminal in place."""
    before: tuple[object, ...] | None = None
    while True:
        live = sys.stdout.isatty() and not once
        width, height = os.get_terminal_size() if live else (100, 0)
        now = lesson_now()
        lines = note_lines(now, key_of, max(width - 1, 20))
        if (lines, width, height) != before:
            before = lines, width, height
            if live:
                sys.stdout.write("\x1b[H\x1b[2J" + "\n".join(lines[: height - 1]))
            else:
                sys.stdout.write("\n".join(lines) + "\n\n")
            sys.stdout.flush()
        if once:
            return
        sleep(_LOOK_S)


def _count(what: str, things: Sequence[object]) -> str:
    return f"{len(things)} {what}{'s' * (len(things) != 1)}"
