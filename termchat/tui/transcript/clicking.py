"""Clicking on what does something in a transcript, as the marks of a version in the head of a turn."""

from __future__ import annotations

from rich.cells import cell_len
from rich.style import Style
from textual import events
from textual.geometry import Region
from textual.selection import Selection
from textual.strip import Strip

from termchat.tui.draw.ink import MARGIN
from termchat.tui.terminal.compositor import touch
from termchat.tui.transcript.moving import MovingView
from termchat.tui.transcript.scroll import restyled

_UNDER_MOUSE = Style(underline=True)


class ClickingView(MovingView):
    """A view whose runs may do something (see `Ink`): a click has the screen do it; under the mouse they are underlined."""

    _over: tuple[int, str] = (-1, "")
    """The line of the document that the mouse is on, and what a click does there."""

    async def _on_click(self, event: events.Click) -> None:
        """Has the screen do what is clicked."""
        does = self._does(event.x, event.y)
        if does and event.button == 1 and self.text_selection is None:
            event.stop()
            event.prevent_default()  # a second click, soon after, selects nothing
            await self.app.run_action(does, self.screen)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Shows what can be clicked."""
        does = self._does(event.x, event.y)
        self._go_over(self._top + event.y if does else -1, does)

    def on_leave(self) -> None:
        """The mouse is elsewhere."""
        self._go_over(-1, "")

    def _does(self, x: int, y: int) -> str:
        """What a click on a cell of the view does, "" for nothing."""
        line = self._document.line(self._top + y) if not self.is_on_hint(x, y) else None
        ink = line.ink_at(x - MARGIN) if line is not None else None
        return ink.does if ink is not None else ""

    def _go_over(self, line: int, does: str) -> None:
        before, self._over = self._over[0], (line, does)
        changed = [y for y in {before - self._top, line - self._top} if 0 <= y < self._rows]
        if changed:
            touch(self, *(Region(0, y, self.size.width, 1) for y in changed))

    def _view_line(self, y: int, top: int, selection: Selection | None) -> Strip:
        strip = super()._view_line(y, top, selection)
        at, does = self._over
        line = self._document.line(at) if at == top + y else None
        end = MARGIN
        for text, ink in line.runs if line is not None else ():
            begin, end = end, end + cell_len(text)
            if ink.does == does:
                word = text.strip()
                begin += cell_len(text[: text.index(word)])
                strip = restyled(strip, begin, begin + cell_len(word), _UNDER_MOUSE)
        return strip
