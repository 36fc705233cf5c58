"""What the screen of a chat knows of lessons. All else is imported when the first of them is opened."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from termchat import atomic, paths
from termchat.chat.changes import Change, Notice
from termchat.engine.abilities import Refused
from termchat.tui.context import ScreenContext
from termchat.tui.draw.background import BackgroundTask
from termchat.tui.keys.key import Label, keys_of
from termchat.tui.keys.tables import CHAT, LESSON, NO_LIGHTS, Lights, name_of
from termchat.tui.themes.theme_file import Palette

if TYPE_CHECKING:
    from termchat.conversation.session import Session
    from termchat.lessons.lesson import Lesson
    from termchat.lessons.lesson_progress import LessonProgress
    from termchat.lessons.playing import LessonState, Playing
    from termchat.lessons.shelf import Shelf
    from termchat.tui.demo.engine import DemoEngine
    from termchat.tui.lessons.lesson_session import LessonSession
    from termchat.tui.lessons.strip import LessonStrip
    from termchat.tui.lists.session_list import SessionList


class Learning:
    """`runner` plays a lesson; None where none is open. `dialog` is the name of the dialog that was opened last.

    Args:
        sessions: the saved chats, where those of lessons are kept too.
        over: hears that what a lesson set for models is over.
        big: the strip shows all of a step's text.
    """

    def __init__(
        self,
        parts: ScreenContext,
        sessions: SessionList | None,
        over: Callable[[], object],
        *,
        big: bool = False,
    ) -> None:
        self._parts, self._sessions, self._over, self._big = parts, sessions, over, big
        self.runner: LessonSession | None = None
        self.dialog = ""
        self.unfolded: bool | None = None
        """Whether the reader wants all of a step's text; None as long as nothing was said."""
        self._strip: LessonStrip | None = None
        self._known: LessonProgress | None = None
        self._finding: BackgroundTask[Session | None] | None = None
        self._begins: tuple[Lesson, LessonState] | None = None
        self._drawing: BackgroundTask[None] | None = None
        self.folder: Path | None = None
        """Where progress is kept instead of the user's own files; no pictures are kept then."""

    # --- what the screen asks ------------------------------------------------------------------------------------------

    @property
    def open(self) -> bool:
        """Whether the strip has the keyboard."""
        return self.runner is not None and self.runner.open

    @property
    def asked(self) -> list[Label]:
        """The keys of the strip, while it has the keyboard."""
        if not self.open:
            return []
        over = self.runner is not None and self.runner.playing.finished
        named = (
            (key, _LABELS[key.id])
            for key in LESSON
            if key.id in _LABELS and keys_of(key) and not (over and key.id in _IN_A_STEP)
        )
        back = next(key for key in CHAT if key.id == "back")
        return [
            *(Label(name_of(key.id), does, keys_of(key)[0]) for key, does in named),
            Label(name_of("back"), "back", keys_of(back)[0]),
        ]

    @property
    def lights(self) -> Lights:
        """What the step points at."""
        return self.runner.lights if self.runner is not None else NO_LIGHTS

    def paint_with(self, palette: Palette) -> None:
        if self._strip is not None:
            self._strip.paint_with(palette)

    def heard(self, changes: Sequence[Change]) -> None:
        if self.runner is not None:
            self.runner.heard(changes)

    def laid(self) -> None:
        """Draw again where the screen has another size, or another widget the keyboard."""
        if self.runner is not None:
            self.runner.lost_keyboard()
            self.runner.show()

    def back(self) -> bool:
        """Give the keyboard back from the strip; False where it did not have it."""
        return self.runner is not None and self.runner.back()

    @property
    def answers(self) -> str:
        """The keys in the composer that answer the lesson, in words; "" for none."""
        return self.runner.answers if self.runner is not None else ""

    def direct(self, key: str, character: str | None) -> bool:
        """Pass on a key in the composer; return whether it was for the lesson."""
        return self.runner is not None and self.runner.direct(key, character)

    # --- which lesson --------------------------------------------------------------------------------------------------

    @property
    def progress(self) -> LessonProgress:
        from termchat.lessons.lesson_progress import LessonProgress

        if self._known is None:
            file = self.folder / "lessons.json" if self.folder is not None else None
            self._known = LessonProgress(file, lambda said: self._parts.tell(Notice(said, severity="warning")))
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
        svg = self._parts.app.export_screenshot(title=f"{lesson.title}, step {step}")
        path = paths.lesson_pictures_folder() / lesson.id / f"{step:02}.svg"

        def write() -> Iterator[None]:
            with contextlib.suppress(OSError):
                path.parent.mkdir(parents=True, exist_ok=True)
                atomic.replace(path, svg.encode())
            yield

        self._drawing = BackgroundTask(write)

    def shelf(self) -> Shelf:
        """Read all lessons from the disk."""
        from termchat.lessons.shelf import read_shelf
        from termchat.tui.lessons.lesson_words import lesson_names

        return read_shelf(names=lesson_names())

    def browse(self) -> None:
        from termchat.tui.lessons.lesson_list import LessonsDialog

        def closed(choice: tuple[Lesson, bool] | None) -> None:
            if choice is not None:
                self.begin(choice[0], anew=choice[1])

        at = self.runner.lesson.id if self.runner is not None else ""
        dialog = LessonsDialog(
            self._parts.palette, self.shelf(), self.progress.all, self.refusal, at, self.progress.last,
            recorded=self.recording is not None,
        )  # fmt: skip
        self._parts.open(dialog, closed)

    def open_named(self, name: str) -> None:
        """Begin the lesson of that name; list all where it is "", or unknown."""
        from termchat.lessons.shelf import LessonRefused

        if name:
            try:
                self.begin(self.shelf().lesson(name))
                return
            except LessonRefused as error:
                self._parts.tell(Notice(str(error), severity="warning"))
        self.browse()

    def begin(self, lesson: Lesson, *, anew: bool = False) -> None:
        """Begin a lesson, or resume it in the chat in which it was left."""
        from termchat.lessons.playing import LessonState

        if (refused := self.refusal(lesson)) is not None:
            why = f"{refused.message}; {refused.hint}"
            self._parts.tell(Notice(f"{lesson.title} cannot be played here", why, "warning"))
            return
        if (recording := self.recording) is not None:
            recording.teach(lesson.id)
        state = self.progress.of(lesson.id)
        if anew or self.recording is not None:
            state = LessonState(0, state.done, state.guesses)
        self._begins = lesson, state
        sessions = self._sessions
        fresh = state.resumes is not None and state.resumes.leaf is None
        if state.step and sessions is not None and not fresh:
            self._finding = BackgroundTask(
                lambda: [sessions.of_lesson(lesson.id)], lambda: self._parts.call_later(self._found)
            )
        else:
            self._parts.call_next(self._start, None)

    @property
    def recording(self) -> DemoEngine | None:
        """The recording that answers in place of a model; None where one is there."""
        from termchat.tui.demo.engine import DemoEngine

        engine = self._parts.chat.engine
        return engine if isinstance(engine, DemoEngine) and not engine.is_real else None

    def refusal(self, lesson: Lesson) -> Refused | None:
        """Tell why a lesson cannot be played here, and which engine could; None where it can be."""
        from termchat.tui.demo import tape
        from termchat.tui.lessons.lesson_list import refusal_of

        if self.recording is None:
            return refusal_of(lesson, self._parts.chat)
        if tape.of_lesson(lesson.id).is_file():
            return None
        return Refused("it is not recorded", f"it needs a model: {name_of('models')} lists them")

    async def _found(self) -> None:
        assert self._finding is not None
        await self._start(next(iter(self._finding.take()), None))

    async def _start(self, left: Session | None) -> None:
        if self._begins is None:
            return
        (lesson, state), self._begins = self._begins, None
        before = None
        if self.runner is not None:
            before = self.runner.before
            self.runner.pause()
            self._over()
        from termchat.tui.lessons.lesson_session import LessonSession

        strip = self._strip or await self._mount_strip()
        session = LessonSession(self, self._parts, strip, lesson, state, left, before=before, big=self._big)
        self.runner = session
        session.begin()

    async def _mount_strip(self) -> LessonStrip:
        from termchat.tui.lessons.strip import LessonStrip

        strip = self._strip = LessonStrip(id="lesson")
        await self._parts.mount(strip, before="BottomBar")
        strip.paint_with(self._parts.palette)
        composer = self._parts.composer
        composer.before_all = self.direct
        commands = composer.commands

        def run_command(text: str) -> bool:
            runner = self.runner
            step = runner.playing.step if runner is not None else 0
            known = commands(text)
            if known and runner is not None and runner is self.runner and runner.playing.step == step:
                runner.ran(text)
            return known

        composer.commands = run_command
        return strip

    def go(self, lesson: Lesson, by: int) -> None:
        """Begin the next lesson, or the one before, that can be played here; without one the nearest says why."""
        lessons = self.shelf().lessons
        at = next((at for at, one in enumerate(lessons) if one.id == lesson.id), 0)
        others = lessons[at + 1 :] if by > 0 else lessons[:at][::-1]
        found = next((one for one in others if self.refusal(one) is None), None)
        if found is not None and found is not others[0]:
            left = ", ".join(one.title for one in others[: others.index(found)])
            self._parts.tell(Notice(f"left out, as they cannot be played here: {left}"))
        if others:
            self.begin(found or others[0])
        else:
            self._parts.tell(Notice("that was the last lesson" if by > 0 else "this is the first lesson"))

    # --- what a person does --------------------------------------------------------------------------------------------

    def toggle(self) -> None:
        """Give the keyboard to the strip, or back; open the list without a lesson."""
        if self.runner is None:
            self.browse()
        elif not self.runner.back():
            self.runner.take_keyboard()

    def uncover(self) -> None:
        """Close all dialogs over the strip, and give it the keyboard: the very next key is for it."""
        screen = self._parts
        while screen.app.screen is not screen:
            screen.app.screen.dismiss(None)
        if self.runner is not None:
            self.runner.take_keyboard()

    def act(self, what: str, *arguments: Any) -> None:
        if what == "list":
            self.back()
            self.browse()
        elif self.runner is None:
            self._parts.tell(Notice("no lesson is open", f"{name_of('learn')} lists the lessons"))
        else:
            self.runner.act(what, *arguments)

    def leave(self) -> None:
        """Leave the lesson; the reader's own chat comes back, unless another one was opened."""
        runner, self.runner = self.runner, None
        if runner is not None:
            runner.end(back=not self._parts.chat.shows_other)
            self._over()
            if (recording := self.recording) is not None:
                recording.teach(None)


_LABELS = {
    "hint": "hint", "lesson-do": "do it for me", "lesson-skip": "skip step", "lesson-more": "more",
    "lesson-list": "list", "lesson-leave": "leave", "lesson-next": "next lesson", "lesson-before": "previous lesson",
}  # fmt: skip
"""What the key line says of the keys of the strip."""
_IN_A_STEP = frozenset({"hint", "lesson-do", "lesson-skip"})
