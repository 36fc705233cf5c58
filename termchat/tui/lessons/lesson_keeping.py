"""What is kept of lessons: how far the reader is in each, and pictures of the steps."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from termchat import atomic, paths
from termchat.chat.changes import Notice
from termchat.chat.service import Chat
from termchat.engine.abilities import Refused
from termchat.tui.draw.background import BackgroundTask
from termchat.tui.keys.tables import name_of
from termchat.tui.screen.screen import ChatScreen

if TYPE_CHECKING:  # with the rest of lessons, when the first of them is opened
    from termchat.lessons.lesson import Lesson
    from termchat.lessons.lesson_progress import LessonProgress
    from termchat.lessons.playing import Playing
    from termchat.tui.demo.engine import DemoEngine


class LessonKeeping:
    """Keeps progress and pictures. `own` is the screen of the reader's chat; with `big` strips show all of a step's text."""

    def __init__(self, own: ChatScreen, *, big: bool = False) -> None:
        self.own, self.big = own, big
        self.unfolded: bool | None = None
        """Whether the reader wants all of a step's text; None as long as nothing was said."""
        self.folder: Path | None = None
        """Where progress is kept instead of the user's own files; no pictures are kept then."""
        self._known: LessonProgress | None = None
        self._drawing: BackgroundTask[None] | None = None

    @property
    def progress(self) -> LessonProgress:
        from termchat.lessons.lesson_progress import LessonProgress

        if self._known is None:
            file = self.folder / "lessons.json" if self.folder is not None else None
            self._known = LessonProgress(file, lambda problem: self.own.tell(Notice(problem, severity="warning")))
        return self._known

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

        def write() -> Iterator[None]:
            with contextlib.suppress(OSError):
                path.parent.mkdir(parents=True, exist_ok=True)
                atomic.replace(path, svg.encode())
            yield

        self._drawing = BackgroundTask(write)

    @property
    def recording(self) -> DemoEngine | None:
        """The recording that answers in place of a model."""
        from termchat.tui.demo.engine import DemoEngine

        engine = self.own.chat.engine
        return engine if isinstance(engine, DemoEngine) and not engine.is_real else None

    def refusal(self, lesson: Lesson) -> Refused | None:
        """Tell why a lesson cannot be played here, and which engine could."""
        from termchat.tui.demo import tape

        if self.recording is None:
            return refusal_of(lesson, self.own.chat)
        if tape.of_lesson(lesson.id).is_file():
            return None
        return Refused("it is not recorded", f"it needs a model: {name_of('models')} lists them")


def refusal_of(lesson: Lesson, chat: Chat) -> Refused | None:
    """Tell why a lesson cannot be played on the engine of a chat, and which engine could."""
    return next((refused for need in lesson.needs if (refused := chat.find_refusal(need)) is not None), None)
