"""A list with a chosen row; it draws only the rows in view."""

from __future__ import annotations

from collections.abc import Callable

from textual import events
from textual.geometry import Region, Size
from textual.message import Message
from textual.strip import Strip

from termchat.tui.draw.ink import Line
from termchat.tui.draw.lines_view import LinesView

Draw = Callable[[range, int, int], list[Line]]
"""Makes the lines of a range of rows, from that, the chosen row and the width in cells."""

_MOVES: dict[str, Callable[[int, int], int]] = {
    "up": lambda row, _: row - 1,
    "down": lambda row, _: row + 1,
    "page_up": lambda row, page: row - page,
    "page_down": lambda row, page: row + page,
    "first": lambda _row, _page: 0,
    "last": lambda _row, _page: 10**9,
}


class Picker(LinesView):
    """A list of `count` rows, rendered by `draw`, one of them chosen. Its owner has the keyboard, and calls `move`."""

    DEFAULT_CSS = "Picker { height: 1fr; }"
    GROUND = "surface"

    class Pointed(Message):
        """The mouse wants a move: "up" or "down" by the wheel, "pointed" to the row that was clicked; `twice` at once."""

        def __init__(self, how: str, twice: bool = False) -> None:
            super().__init__()
            self.how, self.twice = how, twice

    def __init__(self, draw: Draw) -> None:
        super().__init__()
        self._draw = draw
        self._top = 0
        self.count = 0
        self.chosen = 0
        self._clicked = 0
        self._arranged = Size()

    @property
    def line(self) -> int:
        """The line of the chosen row, counted from the first row in view."""
        return self.chosen - self._top

    def show(self, count: int, chosen: int | None = None) -> None:
        """Show other rows, with the chosen one in view."""
        self.show_lines(self._arrange(count, chosen))

    def render_lines(self, crop: Region) -> list[Strip]:
        """Render the visible rows, already in the first frame of a new size."""
        if self.size != self._arranged:
            self._arranged = self.size
            self._strips.clear()
            self._lines = self._arrange(self.count, self.chosen)
        return super().render_lines(crop)

    def _arrange(self, count: int, chosen: int | None) -> list[Line]:
        self.count = count
        self.chosen = min(max(self.chosen if chosen is None else chosen, 0), max(count - 1, 0))
        rows = max(self.size.height, 1)
        self._top = min(max(self._top, self.chosen - rows + 1), self.chosen, max(count - rows, 0))
        shown = range(self._top, min(self._top + rows, count))
        return self._draw(shown, self.chosen, self.room)

    def move(self, how: str) -> None:
        """Choose another row: up, down, page_up, page_down, first, last, or pointed for the clicked one."""
        self.show(self.count, self._to(how, self.chosen))

    def scroll_by(self, how: str) -> None:
        """Scroll rows without a chosen one; `how` as for `move`."""
        last = max(self.count - max(self.size.height, 1), 0)
        self._top = min(max(self._to(how, self._top), 0), last)
        self.show(self.count, self._top)

    def _to(self, how: str, row: int) -> int:
        return self._clicked if how == "pointed" else _MOVES[how](row, max(self.size.height - 1, 1))

    def on_click(self, event: events.Click) -> None:
        row = self._top + event.y
        if event.button == 1 and row < self.count:
            self._clicked = row
            self.post_message(self.Pointed("pointed", event.chain == 2))

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.post_message(self.Pointed("up"))

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.post_message(self.Pointed("down"))

    def on_resize(self) -> None:
        self.show(self.count)
