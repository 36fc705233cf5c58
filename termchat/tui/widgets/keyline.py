"""The bottom line: what works now. In TUNE it has the keyboard."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events
from textual.message import Message

from termchat.tui.draw.lines_view import LinesView
from termchat.tui.keys.key import Label, Situation
from termchat.tui.panels.tune_mode import Tune
from termchat.tui.views.hints import asked_line, key_line, tune_line


class KeyLine(LinesView, can_focus=True):
    """Shows keys; while `tuning` is set, keys that are pressed turn knobs."""

    GROUND = "surface"

    class Turned(Message):
        """A key did something in TUNE."""

    class StopsWanted(Message):
        """The stop sequences are to be edited."""

    def __init__(self) -> None:
        super().__init__()
        self.tuning: Tune | None = None
        self._shown: tuple[Situation, Sequence[Label], int] | None = None

    def show_keys(self, situation: Situation, asked: Sequence[Label] = ()) -> None:
        """What works in this situation, or in TUNE; before both, the keys of a line that is typed."""
        if self.tuning is not None and not asked:
            self._shown = None
            self.show_lines([tune_line(self.tuning, self.room)])
        elif self._shown != (situation, asked, self.room):
            self._shown = (situation, asked, self.room)
            self.show_lines([asked_line(asked, self.room) if asked else key_line(situation, self.room)])

    def on_key(self, event: events.Key) -> None:
        """Gives a key to TUNE."""
        if self.tuning is None:
            return
        if event.key == "enter" and self.tuning.selected == "stop":
            self.post_message(self.StopsWanted())
        elif not self.tuning.press(event.key, event.character):
            return
        event.stop()
        event.prevent_default()
        self.post_message(self.Turned())
