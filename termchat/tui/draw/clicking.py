"""What a click on drawn lines does, and the underline that shows it under the mouse."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from textual import events, on
from textual.geometry import Region
from textual.widget import Widget

from termchat.tui.draw.ink import MARGIN, Ink, Line, Run
from termchat.tui.terminal.compositor import touch


class Clickable(Widget):
    """A widget of lines whose runs may do something (see `Ink.does`). The last of the bases: style sheets see the first only.

    A subclass knows the lines (`line_at`), and passes them through `underlined` before it draws them.
    """

    _hovered: tuple[int, str] = (-1, "")
    """The number of the line under the mouse, and the action that a click there runs."""

    @property
    def first_line(self) -> int:
        """The number of the line on the widget's first row."""
        return 0

    def line_at(self, number: int) -> Line | None:
        raise NotImplementedError

    def redraw(self, number: int) -> None:
        """Only where its underline came or went: the text is the same."""
        y = number - self.first_line
        if 0 <= y < self.size.height:
            touch(self, Region(0, y, self.size.width, 1))

    def ink_at(self, x: int, y: int) -> Ink | None:
        """By the cell of the widget; None where no run is."""
        line = self.line_at(self.first_line + y)
        return line.ink_at(x - MARGIN) if line is not None else None

    def underlined(self, number: int, line: Line) -> Line:
        """The line, its words underlined that do what a click would do now."""
        at, does = self._hovered
        return line._replace(runs=tuple(_underlined(line.runs, does))) if number == at else line

    @on(events.Click)
    async def act(self, event: events.Click) -> None:
        ink = self.ink_at(event.x, event.y)
        if event.button == 1 and ink is not None and ink.does and self.text_selection is None:
            event.stop()
            event.prevent_default()  # a second click soon after would select text
            await self.app.run_action(ink.does, self.screen)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        ink = self.ink_at(event.x, event.y)
        does = ink.does if ink is not None else ""
        self._hover(self.first_line + event.y if does else -1, does)

    def on_leave(self) -> None:
        self._hover(-1, "")

    def _hover(self, number: int, does: str) -> None:
        if self._hovered == (number, does):
            return
        before, self._hovered = self._hovered[0], (number, does)
        for changed in {before, number} - {-1}:
            self.redraw(changed)


def _underlined(runs: Iterable[Run], does: str) -> Iterator[Run]:
    """The runs; the words with that action are underlined, the space around them is not."""
    for text, ink in runs:
        word = text.strip() if ink.does == does else ""
        if not word:
            yield text, ink
            continue
        before, after = text.split(word)
        yield from ((before, ink), (word, ink._replace(underline=True)), (after, ink))
