"""Plays a whole lesson by its deeds, in the real app without a terminal: whether every step passes, and all comes back."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from termchat.engine.port import Engine
from termchat.lessons.lesson import Lesson, LessonStep
from termchat.lessons.playing import truth_of
from termchat.tui.app import TermchatApp
from termchat.tui.lessons.lesson_session import LessonSession
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
        return asyncio.run(_played(app, lesson, size, say))


async def _played(app: TermchatApp, lesson: Lesson, size: tuple[int, int], say: Callable[[str], object]) -> list[str]:
    async with app.run_test(size=size):
        return await LessonRobot(app, lesson, say).play()


class LessonRobot:
    """`app` runs."""

    def __init__(self, app: TermchatApp, lesson: Lesson, say: Callable[[str], object] = lambda _: None) -> None:
        self._app, self._lesson, self._say = app, lesson, say
        self.problems: list[str] = []

    async def play(self) -> list[str]:
        chat = self._app.chat
        if not await self._until(lambda: chat.phase == "idle", _LOADING):
            return [chat.failure.message if chat.failure is not None else "no model is loaded"]
        if (refused := self._app.learning.refusal(self._lesson)) is not None:
            return [f"{refused.message}; {refused.hint}"]
        before = chat.tuning, chat.conversation, chat.constraint, chat.breakpoints
        self._app.learning.begin(self._lesson, anew=True)
        await self._until(lambda: self._app.learning.runner is not None, _RESULT)
        runner = self._app.learning.runner
        if runner is None:
            return ["the lesson does not begin"]
        await self._steps(runner)
        self._app.learning.leave()
        if (chat.tuning, chat.conversation, chat.constraint, chat.breakpoints) != before:
            self.problems.append("the knobs or the chat did not come back")
        return self.problems

    async def _steps(self, runner: LessonSession) -> None:
        playing = runner.playing
        while not playing.finished:
            at, step = playing.step, playing.current
            early = "; its check holds before anything is done" if playing.already else ""
            self._say(f"step {playing.number} of {len(self._lesson.steps)}{early}")
            self._answer(runner)
            runner.act("do")
            if not await self._until(lambda: not runner.doing, _STEP):
                self._fail(step, at, "its deeds do not end")
                return
            runner.look()
            self._answer(runner)
            if runner.note:
                self._fail(step, at, runner.note)
                return
            if not await self._until(lambda at=at: playing.finished or playing.step != at, _RESULT):  # type: ignore[misc]
                unmet = [check.written for check in step.checks if not check.holds(runner.facts)]
                waits = "its question waits" if playing.asks is not None else "its check holds before anything is done"
                self._fail(step, at, f"not met: {'; '.join(unmet)}" if unmet else waits)
                return

    def _fail(self, step: LessonStep, at: int, why: str) -> None:
        line = f" (line {step.line})" if step.line else ""
        self.problems.append(f"step {at + 1}{line}: {why}")

    def _answer(self, runner: LessonSession) -> None:
        """Give the right answer, as far as it is known by now."""
        question = runner.playing.asks
        if question is not None:
            runner.answer(truth_of(question, runner.facts) or 1.0)

    async def _until(self, condition: Callable[[], object], seconds: float) -> bool:
        end = monotonic() + seconds
        while not condition():
            if monotonic() > end or self._app.chat.phase == "failed":
                return bool(condition())
            await asyncio.sleep(_LOOK)
        return True
