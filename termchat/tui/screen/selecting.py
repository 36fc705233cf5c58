"""Selecting with the mouse in text of the app's own drawing."""

from __future__ import annotations

from rich.cells import get_character_cell_size
from textual.geometry import Offset
from textual.screen import Screen
from textual.selection import SelectEnd
from textual.widget import Widget

from termchat.tui.transcript.view import DocumentView


class SelectingScreen(Screen[None]):
    """Corrects selections in a `DocumentView` to the text that the mouse passed over."""

    def get_widget_and_offset_at(self, x: int, y: int) -> tuple[Widget | None, Offset | None]:
        """The second cell of a wide character belongs to that character, not to the next."""
        widget, offset = super().get_widget_and_offset_at(x, y)
        if isinstance(widget, DocumentView) and offset is not None:
            region = self.find_widget(widget).region
            text = widget.render_line(y - region.y).text
            if not text.isascii():
                offset = Offset(_character(text, x - region.x), offset.y)
        return widget, offset

    def _update_select(self) -> None:
        """While the view scrolls under the mouse, the selection grows to what is there now."""
        state = self._select_state
        if state is not None and state.end is not None and isinstance(state.end.content_widget, DocumentView):
            mouse = self.app.mouse_position
            widget, offset = self.get_widget_and_offset_at(*mouse)
            if widget is state.end.content_widget and offset is not None:
                self._select_state = state.update_end(mouse, SelectEnd(state.end.container, widget, offset))
        super()._update_select()


def _character(text: str, cell: int) -> int:
    """The index of the character on a cell; after the last one, their number."""
    used = 0
    for index, character in enumerate(text):
        used += get_character_cell_size(character)
        if used > cell:
            return index
    return len(text)
