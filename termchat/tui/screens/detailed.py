"""What the lists share that show what is highlighted in full, beside the rows or below them."""

from __future__ import annotations

from collections.abc import Callable

from textual.content import Content
from textual.timer import Timer
from textual.widgets import Label

from termchat.tui.screens.listing import Listing, Result

_AT_REST = 0.15
"""Seconds without a key after which what is highlighted is read: reading takes its time from whoever moves on."""


class DetailedListing(Listing[Result]):
    """A list with details, laid out by its classes: `-beside` where these stand beside it, `-low` where there is no room."""

    BESIDE = 110
    """Columns from which the details stand beside the list."""
    LOW = 20
    """Rows below which there is no room for them."""
    _at_rest: Timer | None = None

    def on_resize(self) -> None:
        """Arranges everything for the size."""
        self._arrange()

    def _arrange(self) -> None:
        """Sets the classes for the app's size; also before the first frame, so that it is not laid out twice."""
        width, height = self.app.size
        self.set_class(width >= self.BESIDE, "-beside")
        self.set_class(height < self.LOW, "-low")

    def put(self, selector: str, text: str | Content) -> None:
        """Another text in a label, which costs a layout."""
        label = self.query_one(selector, Label)
        if str(label.content) != str(text):
            label.update(text)

    def at_rest(self, read: Callable[[], object]) -> None:
        """Reads what is highlighted, unless something else is soon."""
        if self._at_rest is not None:
            self._at_rest.stop()
        self._at_rest = self.set_timer(_AT_REST, read)
