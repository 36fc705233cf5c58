"""What a lesson leaves outside of the app: the step that is played now, for a second terminal, and a picture of each step."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from typing import Any

from textual.app import App

from termchat import atomic, paths, regular_files
from termchat.lessons.lesson import Lesson
from termchat.lessons.playing import Playing
from termchat.tui.draw.background import BackgroundTask

_MOST_BYTES = 1 << 16


def tell_step(playing: Playing) -> None:
    """Writes which step is played: `step` counts from 1, and is one more than `steps` once the lesson is over."""
    lesson = playing.lesson
    now = {
        "lesson": lesson.id,
        "file": str(lesson.path),
        "title": lesson.title,
        "step": playing.number + playing.finished,
        "steps": len(lesson.steps),
        "pid": os.getpid(),
    }
    with contextlib.suppress(OSError):  # the lesson goes on without it
        atomic.replace(paths.lesson_now_file(), json.dumps(now).encode())


def tell_nothing() -> None:
    """No lesson is played here any more; one that is played in another terminal stays told."""
    file = paths.lesson_now_file()
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        if json.loads(regular_files.read(file, _MOST_BYTES))["pid"] == os.getpid():
            file.unlink()


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
