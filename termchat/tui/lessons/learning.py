"""The lessons of the app: lists them, begins one on a screen of its own above the reader's chat, and leaves it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from termchat.chat.changes import Notice
from termchat.chat.host import Choice
from termchat.tui.draw.background import BackgroundTask
from termchat.tui.keys.tables import name_of
from termchat.tui.lessons.lesson_keeping import LessonKeeping
from termchat.tui.lists.gather import Models, SessionList
from termchat.tui.screen.screen import ChatScreen

if TYPE_CHECKING:  # with the rest of lessons, when the first of them is opened
    from termchat.conversation.session import Session
    from termchat.lessons.lesson import Lesson
    from termchat.lessons.playing import LessonState
    from termchat.tui.lessons.lesson_screen import LessonScreen
    from termchat.tui.lessons.lesson_session import LessonSession


class Learning(LessonKeeping):
    """`options` are those of the reader's screen, for the screens of lessons; `sessions` are the saved chats, where those of
    lessons are kept, too; `attach` gives a screen its commands."""

    def __init__(
        self,
        own: ChatScreen,
        options: Mapping[str, Any],
        models: Models,
        sessions: SessionList | None,
        attach: Callable[[ChatScreen], None],
        *,
        big: bool = False,
    ) -> None:
        super().__init__(own, big=big)
        self._options, self._models, self._sessions, self._attach = options, models, sessions, attach
        self._screen: LessonScreen | None = None
        self._choice: Choice | None = None
        """How the model ran before the lesson."""
        self._finding: BackgroundTask[Session | None] | None = None
        self._begins: tuple[Lesson, LessonState, tuple[Notice, ...]] | None = None

    @property
    def screen(self) -> ChatScreen:
        """The screen of the chat that is shown: a lesson's, or the reader's own."""
        return self._screen or self.own

    @property
    def screens(self) -> list[ChatScreen]:
        """The screens of all chats, that of a lesson last."""
        return [self.own, self._screen] if self._screen is not None else [self.own]

    @property
    def session(self) -> LessonSession | None:
        """The lesson that is played."""
        return self._screen.session if self._screen is not None else None

    # --- which lesson --------------------------------------------------------------------------------------------------

    def browse(self) -> None:
        """List the lessons, to begin one."""
        from termchat.tui.lessons.lesson_list import LessonsDialog
        from termchat.tui.lessons.lesson_words import known_lessons

        def closed(choice: tuple[Lesson, bool] | None) -> None:
            if choice is not None:
                self.begin(choice[0], anew=choice[1])

        at = self.session.lesson.id if self.session is not None else ""
        dialog = LessonsDialog(
            self.screen.palette, known_lessons(), self.progress.all, self.refusal, at, self.progress.last,
            recorded=self.recording is not None,
        )  # fmt: skip
        self.screen.open(dialog, closed)

    def open_named(self, name: str) -> None:
        """Begin the lesson of that name; list all where it is "", or unknown."""
        from termchat.lessons.shelf import LessonRefused
        from termchat.tui.lessons.lesson_words import known_lessons

        if name:
            try:
                self.begin(known_lessons().lesson(name))
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
            self.recording.teach(lesson.id)
        state = self.progress.of(lesson.id)
        if anew or self.recording is not None:
            state = LessonState(0, state.done, state.guesses)
        self._begins = lesson, state, notices
        sessions = self._sessions
        if state.step and sessions is not None and (state.resumes is None or state.resumes.leaf is not None):
            self._finding = BackgroundTask(
                lambda: [sessions.of_lesson(lesson.id)], lambda: self.screen.call_later(self._found)
            )
        else:
            self.screen.call_next(self._start, None)

    def _found(self) -> None:
        assert self._finding is not None
        self._start(next(iter(self._finding.take()), None))

    def _start(self, left: Session | None) -> None:
        """Show a lesson on a screen of its own, in place of that of the lesson before."""
        from termchat.lessons.lesson_chat import begin_chat
        from termchat.tui.lessons.lesson_screen import LessonScreen

        if self._begins is None:
            return
        (lesson, state, notices), self._begins = self._begins, None
        own = self.own
        if self._screen is None:
            own.rest()
            self._choice = own.chat.host.wanted
        self._end()
        chat = begin_chat(own.chat, lesson, left)
        chat.run_as(self._choice)
        self._screen = LessonScreen(chat, own.palette, self, lesson, state, **self._options)
        self._screen.session.notices = notices
        self._attach(self._screen)
        own.app.push_screen(self._screen)

    def _go(self, by: int) -> None:
        """Begin the next lesson, or the one before, that can be played here; without one the nearest says why."""
        from termchat.tui.lessons.lesson_words import known_lessons

        assert self.session is not None
        lessons, id = known_lessons().lessons, self.session.lesson.id
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
        if self.session is None:
            self.browse()
        elif not self.session.back():
            self.session.take_keyboard()

    def uncover(self) -> None:
        """Close all dialogs over the strip, and give it the keyboard: the very next key is for it."""
        self._close_dialogs()
        if self.session is not None:
            self.session.take_keyboard()

    def _close_dialogs(self) -> None:
        while self.screen.app.screen is not self.screen:
            self.screen.app.screen.dismiss(None)

    def act(self, what: str, *arguments: Any) -> None:
        """Do what a key of the strip does."""
        session = self.session
        if session is None and what != "list":
            self.screen.tell(Notice("no lesson is open", f"{name_of('learn')} lists the lessons"))
            return
        if session is not None and what in ("list", "go", "leave"):
            session.back()
        match what:
            case "list":
                self.browse()
            case "go":
                self._go(*arguments)
            case "leave":
                self.leave()
            case _:
                assert session is not None
                session.act(what, *arguments)

    def leave(self, *notices: Notice) -> None:
        """Leave the lesson: the reader's own chat is shown again, or the one that was opened in the lesson."""
        if self._screen is None:
            return
        chat = self._screen.chat
        self._end()
        if self.recording is not None:
            self.recording.teach(None)
        self.own.chat.come_back(chat, self._choice)
        self.own.go_on()
        for notice in notices:
            self.own.tell(notice)

    def _end(self) -> None:
        """End the lesson, and take away its screen."""
        if self._screen is not None:
            self._screen.session.end()
            self._screen.rest()
            self._close_dialogs()
            self._screen.chat.forks.stop_making()
            self._screen = None
            self.own.app.pop_screen()
            self._models.end_lesson()
