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


class _Bar(NamedTuple):
    """A knob's bar: its first cell and the one after its last."""

    knob: str
    begin: int
    end: int


class KnobsView(LinesView):
    """Posts what the mouse does to knobs; see `Ink.knob`."""

    class Turned(Message):
        """The wheel was turned over a knob, up by so many steps."""

        def __init__(self, knob: str, steps: int, coarse: bool) -> None:
            super().__init__()
            self.knob, self.steps, self.coarse = knob, steps, coarse

    class Slid(Message):
        """A bar was dragged to a fraction of its length, 0 to 1; `begins` with the first of one drag."""

        def __init__(self, knob: str, fraction: float, begins: bool) -> None:
            super().__init__()
            self.knob, self.fraction, self.begins = knob, fraction, begins

    class Carried(Message):
        """A knob was dragged onto the row of another, from above it or from below; `begins` with the first of one drag."""

        def __init__(self, knob: str, onto: str, down: bool, begins: bool) -> None:
            super().__init__()
            self.knob, self.onto, self.down, self.begins = knob, onto, down, begins

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._bar: _Bar | None = None
        self._carried = ""
        """The knob whose row is held."""
        self._row = 0
        """Where it was taken, then the row that it was dragged to last."""
        self._dragged = False
        self._at = 0
        self._told: int | None = None
        self._teller: Timer | None = None

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self._wheel(event, 1)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self._wheel(event, -1)

    def _wheel(self, event: events.MouseEvent, steps: int) -> None:
        ink = self.ink_at(event.x, event.y)
        if ink is not None and ink.knob:
            event.stop()
            event.prevent_default()
            self.post_message(self.Turned(ink.knob, steps, event.shift))

    def on_mouse_down(self, event: events.MouseDown) -> None:
        self._bar = self._bar_at(event.x, event.y) if event.button == 1 else None
        self._carried = self._knob_at(event.y) if event.button == 1 and self._bar is None else ""
        self._row, self._dragged = event.y, False
        if self._bar is not None or self._carried:
            event.stop()
            self.capture_mouse()
        if self._bar is not None:
            self._told = None
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
            self._tell()
        if self._bar is not None or self._carried:
            self.release_mouse()
        self._bar, self._carried = None, ""

    def on_click(self, event: events.Click) -> None:
        if self._dragged:  # it ends there, and means nothing of what is under it
            event.stop()
            event.prevent_default()

    def _carry(self, y: int) -> None:
        """The row follows the mouse, and is drawn there before the mouse says more."""
        onto, down, self._row = self._knob_at(y), y > self._row, y
        if onto and onto != self._carried:
            self.post_message(self.Carried(self._carried, onto, down, not self._dragged))
            self._dragged = True

    def _slide(self, x: int) -> None:
        """Goes with the mouse, and says so at most once a frame: a turned knob is work for the engine."""
        self._at = x
        if self._teller is None:
            self._tell()
            self._teller = self.set_timer(1 / FRAMES, self._tell_later)

    def _tell_later(self) -> None:
        self._teller = None
        self._tell()

    def _tell(self) -> None:
        if self._bar is None or self._at == self._told:
            return
        knob, begin, end = self._bar
        fraction = (self._at - begin) / max(end - 1 - begin, 1)
        self.post_message(self.Slid(knob, min(max(fraction, 0.0), 1.0), self._told is None))
        self._told = self._at

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
