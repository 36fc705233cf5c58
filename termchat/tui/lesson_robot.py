"""Plays a whole lesson by its deeds, in the real app without a terminal: whether every step passes."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from termchat.chat.service import Chat
from termchat.engine.port import Engine
from termchat.lessons.lesson import Lesson
from termchat.lessons.playing import truth_of
from termchat.tui.app import TermchatApp
from termchat.tui.lessons.lesson_screen import LessonStrip
from termchat.tui.start import build

if TYPE_CHECKING:
    from termchat.config.settings import Settings

_LOOK = 0.05
_LOADING, _STEP, _RESULT = 300.0, 600.0, 5.0
"""Seconds in which a model must be there, in which deeds must be done, and in which what they came to must be seen."""


def play(
    config: Settings,
    lesson: Lesson,
    *,
    size: tuple[int, int] = (100, 30),
    say: Callable[[str], object] = lambda _: None,
    engine: Engine | None = None,
) -> list[str]:
    """Play a lesson with the configured model, and keep nothing of it; return what went wrong."""
    with tempfile.TemporaryDirectory(prefix="termchat-lesson-", ignore_cleanup_errors=True) as folder:
        app = build(config, engine, file=Path(folder) / "sessions.db")
        app.learning.folder = Path(folder)

        async def run() -> list[str]:
            async with app.run_test(size=size):
                return await play_lesson(app, lesson, say)

        return asyncio.run(run())


async def play_lesson(app: TermchatApp, lesson: Lesson, say: Callable[[str], object] = lambda _: None) -> list[str]:
    """Play a lesson in an app that runs; return what went wrong."""
    chat, learning = app.chat, app.learning
    if not await _until(chat, lambda: chat.phase == "idle", _LOADING):
        return [chat.failure.message if chat.failure is not None else "no model is loaded"]
    if (refused := learning.refusal(lesson)) is not None:
        return [f"{refused.message}; {refused.hint}"]
    learning.begin(lesson, anew=True)
    await _until(chat, lambda: learning.strip is not None and learning.strip.begun, _RESULT)
    if learning.strip is None:
        return ["the lesson does not begin"]
    failure = await _play_steps(app.chat, learning.strip, say)
    learning.leave()
    return [failure] if failure else []


async def _play_steps(chat: Chat, strip: LessonStrip, say: Callable[[str], object]) -> str:
    """Have each step done; return which one fails and why, "" if none does."""
    playing = strip.playing
    while not playing.finished:
        at, step = playing.step, playing.current
        early = "; its check holds before anything is done" if playing.already else ""
        say(f"step {playing.number} of {len(strip.lesson.steps)}{early}")
        failed = f"step {at + 1}{f' (line {step.line})' if step.line else ''}"
        _answer(strip)
        strip.action_do()
        if not await _until(chat, lambda: not strip.doing, _STEP):
            return f"{failed}: its deeds do not end"
        strip.look()
        _answer(strip)
        if strip.note:
            return f"{failed}: {strip.note}"
        if not await _until(chat, lambda at=at: playing.finished or playing.step != at, _RESULT):  # type: ignore[misc]
            unmet = [check.written for check in step.checks if not check.holds(strip.facts)]
            waits = "its question waits" if playing.asks is not None else "its check holds before anything is done"
            return f"{failed}: not met: {'; '.join(unmet)}" if unmet else f"{failed}: {waits}"
    return ""


def _answer(strip: LessonStrip) -> None:
    """Give the right answer, as far as it is known by now."""
    question = strip.playing.asks
    if question is not None:
        strip.action_answer(truth_of(question, strip.facts) or 1.0)


async def _until(chat: Chat, condition: Callable[[], object], seconds: float) -> bool:
    """Wait until a condition holds, the chat failed, or time is over; return whether it holds."""
    end = monotonic() + seconds
    while not condition():
        if monotonic() > end or chat.phase == "failed":
            return bool(condition())
        await asyncio.sleep(_LOOK)
    return True
