"""Lines in which knobs stand: the wheel turns the one under the mouse, a bar is dragged, and so is a stage to another row."""

from __future__ import annotations

from typing import NamedTuple

from rich.cells import cell_len
from textual import events
from textual.message import Message
from textual.timer import Timer

from termchat.tui.draw.background import FRAMES
from termchat.tui.draw.ink import MARGIN
from termchat.tui.draw.lines_view import LinesView
from termchat.tui.panels.tune_mode import Tune


class _Bar(NamedTuple):
    """A knob's bar: its first cell and the one after its last."""

    knob: str
    begin: int
    end: int


class KnobsView(LinesView):
    """Turns knobs with the mouse; see `Ink.knob`."""

    class Turned(Message):
        """The mouse turned a knob."""

    def __init__(self, knobs: Tune) -> None:
        super().__init__()
        self._knobs = knobs
        """The knobs that are shown."""
        self._is_open = False
        """Whether TUNE is open, which shows what a knob says to a turn."""
        self._bar: _Bar | None = None
        self._carried = ""
        """The knob whose row is held."""
        self._row = 0
        """Where it was taken, then the row that it was dragged to last."""
        self._dragged = False
        self._at = 0
        self._slid_to: int | None = None
        self._next_slide: Timer | None = None

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self._wheel(event, 1)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self._wheel(event, -1)

    def _wheel(self, event: events.MouseEvent, steps: int) -> None:
        ink = self.ink_at(event.x, event.y)
        if ink is not None and ink.knob:
            event.stop()
            event.prevent_default()
            self._knobs.turn(ink.knob, steps, coarse=event.shift)
            self._end_turn()

    def on_mouse_down(self, event: events.MouseDown) -> None:
        self._bar = self._bar_at(event.x, event.y) if event.button == 1 else None
        self._carried = self._knob_at(event.y) if event.button == 1 and self._bar is None else ""
        self._row, self._dragged = event.y, False
        if self._bar is not None or self._carried:
            event.stop()
            self.capture_mouse()
        if self._bar is not None:
            self._slid_to = None
            self._slide(event.x)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self._bar is not None:
            event.stop()
            self._slide(event.x)
        elif self._carried and event.y != self._row:
            self._carry(event.y)

    def on_mouse_up(self, event: events.MouseUp) -> None:
        if self._bar is not None:
            event.stop()
            self._at = event.x
            self._set_slid()
        if self._bar is not None or self._carried:
            self.release_mouse()
        self._bar, self._carried = None, ""

    def on_click(self, event: events.Click) -> None:
        if self._dragged:  # it ends there, and means nothing of what is under it
            event.stop()
            event.prevent_default()

    def _carry(self, y: int) -> None:
        """Have the row follow the mouse; it is drawn there before the mouse says more."""
        onto, down, self._row = self._knob_at(y), y > self._row, y
        if onto and onto != self._carried:
            self._knobs.carry(self._carried, onto, down=down, begins=not self._dragged)
            self._end_turn()
            self._dragged = True

    def _slide(self, x: int) -> None:
        """Follow the mouse, and post so at most once a frame: a turned knob is work for the engine."""
        self._at = x
        if self._next_slide is None:
            self._set_slid()
            self._next_slide = self.set_timer(1 / FRAMES, self._slide_later)

    def _slide_later(self) -> None:
        self._next_slide = None
        self._set_slid()

    def _set_slid(self) -> None:
        if self._bar is None or self._at == self._slid_to:
            return
        knob, begin, end = self._bar
        fraction = (self._at - begin) / max(end - 1 - begin, 1)
        self._knobs.slide(knob, min(max(fraction, 0.0), 1.0), begins=self._slid_to is None)
        self.post_message(self.Turned())
        self._slid_to = self._at

    def _end_turn(self) -> None:
        if not self._is_open:
            self._knobs.back()  # nobody reads there what the knob said to it
        self.post_message(self.Turned())

    def _knob_at(self, y: int) -> str:
        return next((ink.knob for _, ink in self._lines[y].runs if ink.knob), "") if 0 <= y < len(self._lines) else ""

    def _bar_at(self, x: int, y: int) -> _Bar | None:
        bar: _Bar | None = None
        end = MARGIN
        for text, ink in self._lines[y].runs if y < len(self._lines) else ():
            begin, end = end, end + cell_len(text)
            if ink.knob and not ink.does:
                bar = _Bar(ink.knob, bar.begin if bar is not None else begin, end)
        return bar if bar is not None and bar.begin <= x < bar.end else None
