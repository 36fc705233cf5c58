"""The messages that were written before: search, and write one again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from textual.widget import Widget
from textual.widgets import Input

from termchat.text import one_line
from termchat.tui.draw.field import Field
from termchat.tui.draw.ink import Line
from termchat.tui.draw.marks import MUTED, STRONG, TEXT
from termchat.tui.history import matches
from termchat.tui.screens.listing import ARROWS, Listing
from termchat.tui.themes.theme_file import Palette

_LOOKED_AT = 2_000
"""Characters of a message that are drawn, at most."""


class HistoryDialog(Listing[str]):
    """The newest first; the result is the one to write again.

    Args:
        typed: what is searched for at first.
    """

    DEFAULT_CSS = "HistoryDialog Input { margin-bottom: 0; }"
    TITLE = "Earlier messages"
    HINTS = (("history-enter", "writes it again"), ("close", "closes"))
    KEYS = "EARLIER MESSAGES"
    BINDINGS = [*ARROWS]  # noqa: RUF012

    def __init__(self, palette: Palette, texts: Sequence[str], typed: str) -> None:
        super().__init__(palette)
        self._texts, self._found = texts, texts
        self._typed = typed if "\n" not in typed else ""

    def inputs(self) -> Iterable[Widget]:
        """What is searched for."""
        yield Field(self._typed, placeholder="search", select_on_focus=False)

    def on_mount(self) -> None:
        """Shows what there is."""
        super().on_mount()
        self._search(self._typed)

    def draw(self, rows: range, chosen: int, width: int) -> list[Line]:
        """A line a message."""
        if not self._found:
            return [Line((("nothing like it was written" if self._texts else "nothing was written yet", MUTED),))]
        return [
            Line(((one_line(text[:_LOOKED_AT], width), STRONG if row == chosen else TEXT),), "panel" * (row == chosen))
            for row, text in zip(rows, self._found[rows.start : rows.stop], strict=True)
        ]

    def on_input_changed(self, event: Input.Changed) -> None:
        """Searches."""
        self._search(event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Takes the chosen one."""
        event.stop()
        if self._found:
            self.dismiss(self._found[self.picker.chosen])

    def _search(self, typed: str) -> None:
        self._found = [text for text in self._texts if matches(text, typed)] if typed else self._texts
        self.picker.show(len(self._found), 0)
