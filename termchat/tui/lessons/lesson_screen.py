"""The screen of a lesson: that of its chat, with a strip above the composer that says what to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from textual.app import ComposeResult

from termchat.chat.changes import Change
from termchat.chat.service import Chat
from termchat.lessons.lesson import Lesson
from termchat.lessons.playing import LessonState
from termchat.tui.keys.key import Label, keys_of
from termchat.tui.keys.tables import CHAT, LESSON, Lights, name_of
from termchat.tui.lessons.lesson_keeping import LessonKeeping
from termchat.tui.lessons.lesson_session import LessonSession
from termchat.tui.lessons.strip import LessonStrip
from termchat.tui.screen.bottom_bar import BottomBar
from termchat.tui.screen.screen import ChatScreen
from termchat.tui.themes.theme_file import Palette

_LABELS = {
    "hint": "hint", "lesson-do": "do it for me", "lesson-skip": "skip step", "lesson-more": "more",
    "lesson-list": "list", "lesson-leave": "leave", "lesson-next": "next lesson", "lesson-before": "previous lesson",
}  # fmt: skip
"""What the key line says of the keys of the strip."""
_IN_A_STEP = frozenset({"hint", "lesson-do", "lesson-skip"})


class LessonScreen(ChatScreen):
    """The chat of a lesson, begun or resumed from a state."""

    AUTO_FOCUS = "Composer"

    def __init__(
        self, chat: Chat, palette: Palette, keeping: LessonKeeping, lesson: Lesson, state: LessonState, **options: Any
    ) -> None:
        super().__init__(chat, palette, **options)
        self.session = LessonSession(keeping, self, lesson, state)

    def compose(self) -> ComposeResult:
        for widget in super().compose():
            if isinstance(widget, BottomBar):
                yield self.session.strip
            yield widget

    def on_mount(self) -> None:
        self.call_next(self._begin)  # behind the same of `ChatScreen`, which Textual calls by itself

    def _begin(self) -> None:
        self.tick()
        self.session.begin()

    def paint_with(self, palette: Palette) -> None:
        super().paint_with(palette)
        self.session.strip.paint_with(palette)

    def heed(self, changes: Sequence[Change]) -> None:
        self.session.heard(changes)

    @property
    def place(self) -> str:
        place = super().place
        return "LESSON" if self.session.open and place not in ("TUNE", "TOKEN MODE") else place

    @property
    def lights(self) -> Lights:
        return self.session.lights

    @property
    def labels(self) -> Sequence[Label]:
        """Keys of the strip, while it has the keyboard."""
        if not self.session.open:
            return super().labels
        over = self.session.playing.finished
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
    def answers(self) -> str:
        return self.session.answers

    def action_back(self) -> None:
        if not self.session.back():
            super().action_back()

    def on_lines_view_laid(self) -> None:
        self.session.laid()

    def on_lesson_strip_typed(self, event: LessonStrip.Typed) -> None:
        self.session.act("typed", event.key, event.character)

    def on_lesson_strip_turned(self) -> None:
        self.session.laid()
        self.show_soon()
