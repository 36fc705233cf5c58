"""Pictures of the screen at each step of a lesson, for the handout."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from textual.app import App

from termchat import atomic, paths
from termchat.lessons.lesson import Lesson
from termchat.tui.draw.background import BackgroundTask


def picture(app: App[Any], lesson: Lesson, step: int) -> BackgroundTask[None]:
    """Draws the screen as it is, and writes it in a thread."""
    svg = app.export_screenshot(title=f"{lesson.title}, step {step}")
    path = paths.lesson_pictures_folder() / lesson.id / f"{step:02}.svg"

    def work() -> Iterator[None]:
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            atomic.replace(path, svg.encode())
        yield

    return BackgroundTask(work)
