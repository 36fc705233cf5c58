"""What is kept of lessons: how far the reader is in each, and pictures of the steps; and which can be played here."""

from __future__ import annotations

import contextlib
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from termchat import atomic, paths
from termchat.chat.changes import Notice
from termchat.engine.abilities import Refused
from termchat.tui.keys.tables import name_of
from termchat.tui.screen.screen import ChatScreen

if TYPE_CHECKING:  # with the rest of lessons, when the first of them is opened
    from termchat.lessons.lesson import Lesson
    from termchat.lessons.playing import LessonProgress, Playing
    from termchat.tui.demo.engine import DemoEngine


class LessonKeeping:
    """What a lesson and the list of lessons know of the app.

    Args:
        own: the screen of the reader's chat.
        big: strips show all of a step's text.
    """

    def __init__(self, own: ChatScreen, *, big: bool = False) -> None:
        self.own, self.big = own, big
        self.unfolded: bool | None = None
        """Whether the reader wants all of a step's text; None as long as nothing was said."""
        self.folder: Path | None = None
        """Where progress is kept instead of the user's own files; no pictures are kept then."""

    def leave(self, *notices: Notice, strip: object = None) -> None:
        """Leave the lesson (of that strip, if it is still played): the reader's own chat is shown again, or the one that was
        opened in the lesson. The notices are shown there."""
        raise NotImplementedError

    @property
    def recording(self) -> DemoEngine | None:
        """The recording that answers in place of a model."""
        from termchat.tui.demo.engine import DemoEngine

        engine = self.own.chat.engine
        return engine if isinstance(engine, DemoEngine) and not engine.is_real else None

    def refusal(self, lesson: Lesson) -> Refused | None:
        """Tell why a lesson cannot be played here, and which engine could."""
        if self.recording is not None:
            if self.recording.has_lesson(lesson.id):
                return None
            return Refused("it is not recorded", f"it needs a model: {name_of('models')} lists them")
        refusals = (self.own.chat.find_refusal(need) for need in lesson.needs)
        return next((refused for refused in refusals if refused is not None), None)

    @cached_property
    def progress(self) -> LessonProgress:
        """How far each lesson is."""
        from termchat.lessons.playing import LessonProgress

        file = self.folder / "lessons.json" if self.folder is not None else None
        return LessonProgress(file, lambda problem: self.own.tell(Notice(problem, severity="warning")))

    def keep(self, playing: Playing) -> None:
        """Keep how far a lesson is."""
        state = playing.state
        if self.recording is not None:  # how far the lesson is with a model stays as it is
            known = self.progress.of(playing.lesson.id)
            state = msgspec.structs.replace(state, step=known.step, resumes=known.resumes)
        self.progress.keep(playing.lesson.id, state)

    def draw_picture(self, lesson: Lesson, step: int) -> None:
        """Draw the screen as it is, for the handout, and write it in a thread."""
        if self.folder is not None:
            return
        svg = self.own.app.export_screenshot(title=f"{lesson.title}, step {step}")
        path = paths.lesson_pictures_folder() / lesson.id / f"{step:02}.svg"

        def write() -> None:
            with contextlib.suppress(OSError):
                path.parent.mkdir(parents=True, exist_ok=True)
                atomic.replace(path, svg.encode())

        self.own.run_worker(write, thread=True)
