"""Completion in the composer: the sources' protocol, and the popup that shows what they offer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from textual import events
from textual.message import Message

from termchat.text import cells, one_line, sanitize
from termchat.tui.draw.ink import MARGIN, Ink, Line
from termchat.tui.draw.lines_view import Slip
from termchat.tui.draw.marks import MUTED

_ROWS = 8
_WIDEST = 40
"""Cells of the column of texts."""
_TEXT, _CHOSEN = Ink("text"), Ink("accent", bold=True)


class Offer(NamedTuple):
    """One suggestion: the `text` to insert, and a word on what it is. Both may be foreign; whoever draws sanitises."""

    text: str
    help: str = ""


class Completion(NamedTuple):
    """Suggestions to replace `line[start:column]`, the best first."""

    start: int
    offers: tuple[Offer, ...]


class CompletionSource(Protocol):
    """Knows one kind of thing that can be completed: paths behind @, commands behind /."""

    def complete(self, line: str, column: int, *, first: bool) -> Completion | None:
        """What fits before the cursor, which stands at `column` of this line; None where this source has nothing to say.

        `first`: it is the first line of the message. Called at every key, in the event loop: it takes a millisecond at most.
        """
        ...


class Popup(Slip):
    GROUND = "panel"

    @dataclass
    class Clicked(Message):
        number: int

    def __init__(self) -> None:
        super().__init__(id="popup")
        self.completion: Completion | None = None
        self.chosen = 0
        self._top = 0

    def put(self, completion: Completion | None) -> None:
        """None closes it; otherwise the first offer is selected."""
        self.completion = completion if completion is not None and completion.offers else None
        self.chosen = self._top = 0
        self._draw()

    @property
    def offer(self) -> Offer | None:
        return self.completion.offers[self.chosen] if self.completion is not None else None

    def move(self, rows: int) -> None:
        """After the last comes the first."""
        if self.completion is not None:
            self.chosen = (self.chosen + rows) % len(self.completion.offers)
            self._draw()

    def on_resize(self) -> None:
        super().on_resize()
        self._draw()

    def on_click(self, event: events.Click) -> None:
        event.stop()
        if self.completion is not None and self._top + event.y < len(self.completion.offers):
            self.post_message(self.Clicked(self._top + event.y))

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.move(1)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.move(-1)

    def _draw(self) -> None:
        offers: Sequence[Offer] = self.completion.offers if self.completion is not None else ()
        self._top = min(max(self._top, self.chosen - _ROWS + 1), self.chosen)
        shown = offers[self._top : self._top + _ROWS]
        room = max(self.room or self.app.size.width - 2 * MARGIN, 1)
        texts = [_tail(sanitize(offer.text, keep=""), min(_WIDEST, room)) for offer in shown]
        column = max(map(cells, texts), default=0) + 2
        lines = []
        for row, (offer, text) in enumerate(zip(shown, texts, strict=True)):
            ink = _CHOSEN if self._top + row == self.chosen else _TEXT
            more = ""
            if row == _ROWS - 1 and self._top + _ROWS < len(offers):
                more = f"  {len(offers) - self._top - _ROWS} more"
            help = one_line(offer.help, max(room - column - len(more), 0))
            lines.append(Line(((text + " " * (column - cells(text)), ink), (help + more, MUTED)), "panel"))
        self.show_lines(lines)


def _tail(text: str, width: int) -> str:
    """The text in at most `width` cells; a long one loses its start, as paths differ at the end."""
    if len(text) > 4 * width:  # a long one is not measured as a whole
        text = "…" + text[-4 * width :]
    while cells(text) > width:
        text = "…" + text[2:]
    return text
