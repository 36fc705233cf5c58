"""What the dialogs with a list share: a title, rows, what went wrong, and the keys that work there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widget import Widget
from textual.widgets import Label

from termchat.text import sanitize
from termchat.tui.draw.ink import Line
from termchat.tui.draw.picker import Picker
from termchat.tui.keys import dialogs
from termchat.tui.screens.dialog import Dialog
from termchat.tui.themes.theme_file import Palette

Result = TypeVar("Result")

ARROWS = tuple(key.binding for key in dialogs.ARROWS)
"""Keys that move in a list, also while an input has the keyboard."""

_WHEEL = 3
"""Lines of text that the wheel scrolls."""


class Listing(Dialog[Result]):
    """A dialog as large as the screen allows; `draw` makes its rows. The list or its input has the keyboard."""

    DEFAULT_CSS = """
    Listing > Vertical { width: 110; height: 100%; max-height: 44; padding: 0 1; }
    Listing Picker { margin-top: 1; }
    Listing .hint { margin-top: 0; }
    Listing Input.-off { display: none; }
    """
    TITLE = ""
    HINT = ""
    HINTS: tuple[tuple[str, str], ...] = (("close", "closes"),)
    """The keys that the last line names, by their ids, and what they do; `HINT` is said before them."""
    KEYS = "LISTS"
    TWICE = "enter"
    """The key that a double click on a row presses."""

    def __init__(self, palette: Palette) -> None:
        super().__init__()
        self._palette = palette
        self.picker = Picker(self.draw)

    def compose(self) -> ComposeResult:
        """Title, input, list, problem, hint."""
        with Vertical():
            yield Label(self.TITLE, classes="title", markup=False)
            yield from self.inputs()
            yield self.picker
            yield Label("", classes="problem", markup=False)
            yield Label(dialogs.hint(*self.HINTS, before=self.HINT), classes="hint", markup=False)

    def inputs(self) -> Iterable[Widget]:
        """What stands between title and list."""
        return ()

    def draw(self, rows: range, chosen: int, width: int) -> list[Line]:
        """The lines of a range of rows."""
        raise NotImplementedError

    def on_mount(self) -> None:
        """Colours."""
        self.picker.paint_with(self._palette)

    def action_move(self, how: str) -> None:
        """Goes to another row."""
        self.picker.move(how)

    def on_picker_pointed(self, event: Picker.Pointed) -> None:
        """Does what the mouse wants."""
        self.point(event)

    def point(self, event: Picker.Pointed) -> None:
        """The mouse chooses a row; twice at once, it does what a key does."""
        self.action_move(event.how)
        if event.twice:
            self.call_later(self.app.run_action, f"press({self.TWICE!r})")

    def say(self, problem: str) -> None:
        """Says what went wrong, or "" that nothing is."""
        self._say(problem, wrong=True)

    def tell(self, news: str) -> None:
        """Says in the same place what was done."""
        self._say(news, wrong=False)

    def _say(self, text: str, *, wrong: bool) -> None:
        label = self.query_one(".problem", Label)
        label.set_class(not wrong, "-news")
        label.update(sanitize(text, keep=""))

    def retitle(self, title: str) -> None:
        """Another title."""
        self.query_one(".title", Label).update(sanitize(title, keep=""))


class ReadListing(Listing[None]):
    """Lines that are only read."""

    BINDINGS = [*ARROWS, *(key.binding for key in dialogs.READING)]  # noqa: RUF012
    HINTS: tuple[tuple[str, str], ...] = (
        ("list-up", "line"), ("list-page-up", "page"), ("read-first", "start and end"), ("close", "closes"),
    )  # fmt: skip
    KEYS = "TEXT TO READ"

    def __init__(self, palette: Palette) -> None:
        super().__init__(palette)
        self.lines: list[Line] = []

    def draw(self, rows: range, chosen: int, width: int) -> list[Line]:
        """The lines in view."""
        return self.lines[rows.start : rows.stop]

    def point(self, event: Picker.Pointed) -> None:
        """The wheel scrolls; no row is chosen."""
        for _ in range(_WHEEL if event.how != "pointed" else 0):
            self.picker.scroll_by(event.how)

    def action_move(self, how: str) -> None:
        """Scrolls."""
        self.picker.scroll_by(how)

    def on_lines_view_laid(self) -> None:
        """Lines for another width."""
        self.lay_out()

    def lay_out(self) -> None:
        """Makes `lines` for the room there is, and shows them."""
        self.lines = self.made(self.picker.room)
        self.picker.show(len(self.lines))

    def made(self, width: int) -> list[Line]:
        """All lines, `width` cells wide."""
        raise NotImplementedError
