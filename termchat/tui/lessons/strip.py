"""The strip of a lesson above the composer. It has the keyboard only between the key that leads to it and the next one."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events
from textual.message import Message

from termchat.chat.changes import Notice
from termchat.tui.draw.ink import Line
from termchat.tui.draw.lines_view import Slip
from termchat.tui.keys.tables import LESSON

_NUMBER = frozenset("0123456789.,-")


class LessonStrip(Slip, can_focus=True):
    GROUND = "panel"
    BINDINGS = [key.binding for key in LESSON]  # noqa: RUF012

    class Typed(Message):
        """What was typed that is no key of the table; `key` as Textual names it."""

        def __init__(self, key: str, character: str | None) -> None:
            super().__init__()
            self.key, self.character = key, character

    class Turned(Message):
        """The keyboard came, or went."""

    class Left(Message):
        """The lesson is to be left; the notices are shown in the reader's chat."""

        def __init__(self, *notices: Notice) -> None:
            super().__init__()
            self.notices = notices

    @property
    def drawn(self) -> Sequence[Line]:
        return self._lines

    def on_focus(self) -> None:
        self.post_message(self.Turned())

    def on_blur(self) -> None:
        self.post_message(self.Turned())

    def on_key(self, event: events.Key) -> None:
        number = event.character is not None and event.character in _NUMBER
        if number or event.key in ("enter", "backspace") or event.is_printable:
            event.stop()
            event.prevent_default()
            self.post_message(self.Typed(event.key, event.character))
