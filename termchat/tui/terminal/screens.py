"""When a screen draws: at once, or its state in the next frame; and what a selection on it takes."""

from __future__ import annotations

from typing import Any, Literal, TypeVar

from rich.cells import get_character_cell_size
from rich.console import RenderableType
from textual.app import App
from textual.await_complete import AwaitComplete
from textual.geometry import Offset, Size
from textual.screen import ModalScreen, Screen
from textual.selection import SelectEnd
from textual.widget import Widget

from termchat.tui.terminal.compositor import PlacingCompositor, Settled
from termchat.tui.terminal.scrolling import QuickScrollView


def use_compositor(screen: Screen[Any], compositor: PlacingCompositor) -> None:
    """Has the screen draw with another compositor; only before it is shown."""
    screen._compositor = compositor


def frame_is_due(screen: Screen[Any]) -> bool:
    return bool(screen._dirty_widgets)


def draw_now(screen: Screen[Any]) -> None:
    """Draws the frame that is due, if one is, without the wait for the timer that Textual sets for it."""
    if frame_is_due(screen):
        screen._on_timer_update()


class LeavingApp(App[None]):
    """An app on whose way out nothing fails: its widgets go one by one, and what is in the queue of another asks for them."""

    def exit(self, result: None = None, return_code: int = 0, message: RenderableType | None = None) -> None:
        """Ends the app, as whoever was first wanted it."""
        if not self._exit:
            super().exit(result, return_code, message)

    def leave(self, code: int = 0) -> None:
        """End the app in good order."""
        self.exit(return_code=code)

    def _handle_exception(self, error: Exception) -> None:
        if not self._exit:
            super()._handle_exception(error)


Result = TypeVar("Result")


class ClosedOnce(ModalScreen[Result]):
    """A dialog that two clicks at once do not close twice: the second would close what is beneath it."""

    def dismiss(self, result: Result | None = None) -> AwaitComplete:
        return super().dismiss(result) if self.is_active else AwaitComplete.nothing()  # type: ignore[no-untyped-call]


class SelectingScreen(Screen[None]):
    """A screen on which a selection in a `QuickScrollView` is exactly what the mouse went over."""

    def get_widget_and_offset_at(self, x: int, y: int) -> tuple[Widget | None, Offset | None]:
        # The second cell of a wide character counts as that character, not as the next one.
        widget, offset = super().get_widget_and_offset_at(x, y)
        if isinstance(widget, QuickScrollView) and offset is not None:
            region = self.find_widget(widget).region
            text = widget.render_line(y - region.y).text
            if not text.isascii():
                offset = Offset(_character(text, x - region.x), offset.y)
        return widget, offset

    def _update_select(self) -> None:
        # While the view scrolls under the mouse, the selection grows to the text that is there now.
        state = self._select_state
        if state is not None and state.end is not None and isinstance(state.end.content_widget, QuickScrollView):
            mouse = self.app.mouse_position
            widget, offset = self.get_widget_and_offset_at(*mouse)
            if widget is state.end.content_widget and offset is not None:
                self._select_state = state.update_end(mouse, SelectEnd(state.end.container, widget, offset))
        super()._update_select()


def _character(text: str, cell: int) -> int:
    """The index of the character on a cell; behind the last one, their number."""
    used = 0
    for index, character in enumerate(text):
        used += get_character_cell_size(character)
        if used > cell:
            return index
    return len(text)


class LiveScreen(SelectingScreen, Settled):
    """A screen that shows a state which changes often: once a frame, in the frame after the one that is due.

    `_stale` says whether the state changed since it was shown; `_show_state` shows it, and sets that to "".
    """

    _stale: Literal["", "new", "due"] = ""

    def _show_state(self) -> None:
        raise NotImplementedError

    def show_soon(self) -> None:
        """Has the state shown once, however much of it changes until then."""
        self._stale = self._stale or "new"
        self._update_timer.resume()

    def _on_timer_update(self) -> None:
        if self._stale and not self._layout_required:  # else it would be shown in the sizes from before the layout
            if self._stale == "due" or not self._dirty_widgets:
                self._show_state()
            else:
                self._stale = "due"
        super()._on_timer_update()
        if self._stale:
            self._update_timer.resume()

    def _screen_resized(self, size: Size) -> None:
        if size != self._compositor.size:  # else it was laid out for this size just now
            super()._screen_resized(size)
