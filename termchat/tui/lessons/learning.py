"""The lessons of the app: lists them, begins one on a screen of its own above the reader's chat, leaves it, and plays one by
its deeds, to see whether every step passes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from time import monotonic
from typing import TYPE_CHECKING, Any

from termchat.chat.changes import Notice
from termchat.chat.host import Choice
from termchat.tui.draw.background import BackgroundTask
from termchat.tui.keys.tables import name_of
from termchat.tui.lessons.lesson_keeping import LessonKeeping
from termchat.tui.screen.screen import ChatScreen

if TYPE_CHECKING:  # with the rest of lessons, when the first of them is opened
    from termchat.lessons.lesson import Lesson
    from termchat.lessons.playing import LessonState
    from termchat.tui.lessons.lesson_screen import LessonScreen, LessonStrip

_LOOK = 0.02
_LOADING, _DEEDS, _RESULT = 300.0, 600.0, 5.0
"""Seconds in which model and lesson must be there, deeds must be done, and what they came to must be seen."""


class Learning(LessonKeeping):
    """Lists lessons, and has one of them played at a time.

    Args:
        own: the screen of the reader's chat.
        options: those of that screen, for the screens of lessons.
        attach: gives a screen its commands.
    """

    def __init__(self, own: ChatScreen, options: Mapping[str, Any], attach: Callable[[ChatScreen], None]) -> None:
        super().__init__(own, big=options["big"])
        self._options, self._attach = options, attach
        self._screen: LessonScreen | None = None
        self._choice: Choice | None = None
        """How the model ran before the lesson."""

    @property
    def screen(self) -> ChatScreen:
        """The screen of the chat that is shown: a lesson's, or the reader's own."""
        return self._screen or self.own

    @property
    def screens(self) -> list[ChatScreen]:
        """The screens of all chats, that of a lesson last."""
        return [self.own, self._screen] if self._screen is not None else [self.own]

    @property
    def strip(self) -> LessonStrip | None:
        """The lesson that is played."""
        return self._screen.strip if self._screen is not None else None

    # --- which lesson --------------------------------------------------------------------------------------------------

    def browse(self) -> None:
        """List the lessons, to begin one."""
        from termchat.tui.lessons.lesson_list import LessonsDialog
        from termchat.tui.lessons.lesson_words import read_lessons

        def closed(choice: tuple[Lesson, bool] | None) -> None:
            if choice is not None:
                self.begin(choice[0], anew=choice[1])

        at = self.strip.lesson.id if self.strip is not None else ""
        self.screen.open(LessonsDialog(self.screen.palette, read_lessons(), self, at), closed)

    def open_named(self, name: str) -> None:
        """Begin the lesson of that name; list all where it is "", or unknown."""
        from termchat.lessons.lesson_file import LessonRefused
        from termchat.tui.lessons.lesson_words import read_lessons

        if name:
            try:
                self.begin(read_lessons().lesson(name))
                return
            except LessonRefused as error:
                self.screen.tell(Notice(str(error), severity="warning"))
        self.browse()

    def begin(self, lesson: Lesson, *notices: Notice, anew: bool = False) -> None:
        """Begin a lesson, or resume it in the chat in which it was left; the notices are shown there."""
        from termchat.lessons.playing import LessonState

        if (refused := self.refusal(lesson)) is not None:
            why = f"{refused.message}; {refused.hint}"
            self.screen.tell(Notice(f"{lesson.title} cannot be played here", why, "warning"))
            return
        if self.recording is not None:
            self.recording.play_lesson(lesson.id)
        state = self.progress.of(lesson.id)
        if anew or self.recording is not None:
            state = LessonState(0, state.done, state.guesses)
        self.own.run_worker(self._start(lesson, state, notices), group="lesson", exclusive=True)

    async def _start(self, lesson: Lesson, state: LessonState, notices: tuple[Notice, ...]) -> None:
        """Show a lesson on a screen of its own, in place of that of the lesson before."""
        from termchat.lessons.playing import begin_chat
        from termchat.tui.lessons.lesson_screen import LessonScreen

        left, own, sessions = None, self.own, self.own.conversations.sessions
        if state.step and sessions is not None and (state.resumes is None or state.resumes.leaf is not None):
            over = asyncio.Event()
            reading = BackgroundTask(lambda: [sessions.of_lesson(lesson.id)], lambda: own.call_later(over.set))
            await over.wait()
            (left,) = reading.take()
        if self._screen is None:
            own.suspend()
            self._choice = own.chat.host.wanted
        self._end()
        chat = begin_chat(own.chat, lesson, left)
        chat.run_as(self._choice)
        self._screen = LessonScreen(chat, own.palette, self, lesson, state, **self._options)
        self._attach(self._screen)
        own.app.push_screen(self._screen)
        for notice in notices:
            self._screen.call_later(self._screen.tell, notice)  # once it has begun

    def _go(self, by: int) -> None:
        """Begin the next lesson, or the one before, that can be played here; without one the nearest says why."""
        from termchat.tui.lessons.lesson_words import read_lessons

        assert self.strip is not None
        lessons, id = read_lessons().lessons, self.strip.lesson.id
        at = next((at for at, one in enumerate(lessons) if one.id == id), 0)
        others = lessons[at + 1 :] if by > 0 else lessons[:at][::-1]
        if not others:
            self.screen.tell(Notice("that was the last lesson" if by > 0 else "this is the first lesson"))
            return
        playable = next((place for place, one in enumerate(others) if self.refusal(one) is None), 0)
        skipped = ", ".join(one.title for one in others[:playable])
        notices = [Notice(f"left out, as they cannot be played here: {skipped}")] if skipped else []
        self.begin(others[playable], *notices)

    # --- what a person does --------------------------------------------------------------------------------------------

    def toggle(self) -> None:
        """Give the keyboard to the strip, or back; open the list without a lesson."""
        if self.strip is None:
            self.browse()
        elif not self.strip.back():
            self.strip.take_keyboard()

    def uncover(self) -> None:
        """Close all dialogs over the strip, and give it the keyboard: the very next key is for it."""
        self._close_dialogs()
        if self.strip is not None:
            self.strip.take_keyboard()

    def _close_dialogs(self) -> None:
        while self.screen.app.screen is not self.screen:
            self.screen.app.screen.dismiss(None)

    def act(self, what: str, *arguments: Any) -> None:
        """Do what a key of the strip does."""
        strip = self.strip
        if strip is None and what != "list":
            self.screen.tell(Notice("no lesson is open", f"{name_of('learn')} lists the lessons"))
            return
        if strip is not None and not strip.begun:
            self.screen.call_later(self.act, what, *arguments)  # once it has begun
            return
        if strip is not None and what != "answer":
            strip.back()
        match what:
            case "list":
                self.browse()
            case "go":
                self._go(*arguments)
            case "leave":
                self.leave()
            case _:
                getattr(strip, f"action_{what}")(*arguments)

    def leave(self, *notices: Notice, strip: object = None) -> None:
        if self._screen is None or strip not in (None, self.strip):
            return
        chat = self._screen.chat
        self._end()
        if self.recording is not None:
            self.recording.play_lesson(None)
        self.own.chat.come_back(chat, self._choice)
        self.own.resume()
        for notice in notices:
            self.own.tell(notice)

    def _end(self) -> None:
        """End the lesson, and take away its screen."""
        if self._screen is not None:
            self._screen.strip.end()
            self._screen.suspend()
            self._close_dialogs()
            self._screen.chat.forks.stop_making()
            self._screen = None
            self.own.app.pop_screen()
            self.own.models.end_lesson()

    # --- a lesson that plays itself ------------------------------------------------------------------------------------

    async def play(self, lesson: Lesson, say: Callable[[str], object] = lambda _: None) -> list[str]:
        """Play a lesson by its deeds; return what went wrong, and what its steps claim that is not so."""
        from termchat.tui.lessons.autoplay import Autoplay

        chat = self.own.chat
        if not await self._wait(lambda: chat.phase == "idle", _LOADING):
            why = chat.failure
            return [f"{why.message}{'; ' + why.hint if why.hint else ''}" if why is not None else "no model is loaded"]
        if (refused := self.refusal(lesson)) is not None:
            return [f"{refused.message}; {refused.hint}"]
        self.begin(lesson, anew=True)
        await self._wait(lambda: self.strip is not None and self.strip.begun, _LOADING)
        strip, problems = self.strip, list[str]()
        if strip is None:
            return ["the lesson does not begin"]
        playing, autoplay = strip.playing, Autoplay(self.screen)
        while not playing.finished and not problems:
            at, step = playing.step, playing.current
            early = "; its check holds before anything is done" if playing.already else ""
            say(f"step {playing.number} of {len(lesson.steps)}{early}")
            if not strip.passes(at):
                strip.action_do()
            done = await self._wait(lambda: not strip.doing and not autoplay.runs, _DEEDS)
            if not done or strip.note:
                problem = strip.note or "its deeds do not end"
            elif await self._wait(lambda at=at: strip.passes(at), _RESULT):  # type: ignore[misc]
                continue
            elif unmet := [check.written for check in step.checks if not check.holds(strip.facts)]:
                problem = f"not met: {'; '.join(unmet)}"
            else:
                problem = (
                    "its question waits" if playing.asks is not None else "its check holds before anything is done"
                )
            problems.append(f"step {at + 1}{f' (line {step.line})' if step.line else ''}: {problem}")
        if playing.missed:
            problems.append(f"what it says is not so with this model: {'; '.join(playing.missed)}")
        self.leave()
        return problems

    async def _wait(self, condition: Callable[[], object], seconds: float) -> bool:
        """Wait until a condition holds, the chat failed, or time is over; return whether it holds."""
        end = monotonic() + seconds
        while not condition():
            if monotonic() > end or self.screen.chat.phase == "failed":
                return bool(condition())
            await asyncio.sleep(_LOOK)
        return True
