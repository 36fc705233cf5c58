"""The bases of all dialogs: a modal box, a list, text to read, and a list with details beside or below it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from textual import events
from textual.app import ComposeResult
from textual.containers import Container, Vertical
from textual.content import Content
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Label

from termchat.text import sanitize
from termchat.tui.draw.ink import Line
from termchat.tui.draw.lines_view import Sheet
from termchat.tui.draw.picker import Picker
from termchat.tui.keys import dialogs
from termchat.tui.keys.dialogs import DIALOG
from termchat.tui.keys.tables import CHAT
from termchat.tui.terminal.compositor import PlacingCompositor
from termchat.tui.terminal.screens import ClosedOnce, use_compositor
from termchat.tui.themes.theme_file import Palette

Result = TypeVar("Result")

_TIGHT = 16
"""Rows of a screen under which a dialog has no empty ones, so that its keys are still told."""


ARROWS = tuple(key.binding for key in dialogs.ARROWS)
"""Keys that move in a list, also while an input has the keyboard."""
_WHEEL = 3
"""Lines of text that the wheel scrolls."""
_MOST_SAID = 2000
"""Characters of what is said below a list: an error may quote a foreign text of any length."""
_AT_REST = 0.15
"""Seconds without a key after which what is highlighted is read: reading takes its time from whoever moves on."""


class Dialog(ClosedOnce[Result | None]):
    """A modal box; its result is None if it was closed."""

    DEFAULT_CSS = """
    Dialog { align: center middle; background: $background 60%; }
    Dialog > Vertical {
        width: 72; max-width: 100%; height: auto; max-height: 100%; padding: 1 2;
        background: $surface; border: round $border;
    }
    Dialog.-tight > Vertical { padding: 0 1; }
    Dialog.-tight > Vertical > * { margin-top: 0; }
    Dialog .title { text-style: bold; height: 1; }
    Dialog .hint { color: $muted; height: auto; margin-top: 1; }
    Dialog Label {
        link-style: none; link-color: $muted; link-background: transparent;
        link-style-hover: underline; link-color-hover: $text; link-background-hover: transparent;
    }
    Dialog .problem { color: $error; height: auto; }
    Dialog .problem.-news { color: $text; }
    Dialog Label { width: 1fr; }
    Dialog Input, Dialog Input:focus { border: none; height: 1; background: $panel; padding: 0 1; margin-top: 1; }
    """
    BINDINGS = [key.binding for key in DIALOG]  # noqa: RUF012
    KEYS = "DIALOGS"
    """The title of its keys in the help."""

    def __init__(self, name: str | None = None, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(name, id, classes)
        use_compositor(self, PlacingCompositor())

    def on_resize(self) -> None:
        self.set_class(self.app.size.height < _TIGHT, "-tight")

    def action_close(self) -> None:
        self.dismiss(None)

    def on_key(self, event: events.Key) -> None:
        """In a lesson, the key that leads to it closes all that covers it."""
        learning = getattr(self.app, "learning", None)
        if learning is not None and learning.runner is not None and dialogs.actions(CHAT).get(event.key) == "learn":
            event.stop()
            event.prevent_default()
            learning.uncover()


class ListDialog(Dialog[Result]):
    """A dialog as large as the screen allows; `draw` makes its rows. The list or its input has the keyboard."""

    DEFAULT_CSS = """
    ListDialog > Vertical { width: 110; height: 100%; max-height: 44; padding: 0 1; }
    ListDialog Picker { margin-top: 1; }
    ListDialog .hint { margin-top: 0; }
    ListDialog Input.-off { display: none; }
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
        with Vertical():
            yield Label(self.TITLE, classes="title", markup=False)
            yield from self.inputs()
            yield self.picker
            yield Label("", classes="problem", markup=False)
            yield Label(dialogs.hint(*self.HINTS, before=self.HINT), classes="hint", markup=False)

    def inputs(self) -> Iterable[Widget]:
        return ()

    def draw(self, rows: range, chosen: int, width: int) -> list[Line]:
        raise NotImplementedError

    def on_mount(self) -> None:
        self.picker.paint_with(self._palette)

    def action_move(self, how: str) -> None:
        self.picker.move(how)

    def on_picker_pointed(self, event: Picker.Pointed) -> None:
        self.point(event)

    def point(self, event: Picker.Pointed) -> None:
        self.action_move(event.how)
        if event.twice:
            self.call_later(self.app.run_action, f"press({self.TWICE!r})")

    def say(self, problem: str) -> None:
        """ "" clears it."""
        self._say(problem, wrong=True)

    def tell(self, news: str) -> None:
        """In the place of a problem."""
        self._say(news, wrong=False)

    def _say(self, text: str, *, wrong: bool) -> None:
        label = self.query_one(".problem", Label)
        label.set_class(not wrong, "-news")
        label.update(sanitize(text[:_MOST_SAID], keep=""))

    def retitle(self, title: str) -> None:
        self.query_one(".title", Label).update(sanitize(title, keep=""))


class ReadListing(ListDialog[None]):
    BINDINGS = [*ARROWS, *(key.binding for key in dialogs.READING)]  # noqa: RUF012
    HINTS: tuple[tuple[str, str], ...] = (
        ("list-up", "line"), ("list-page-up", "page"), ("read-first", "start and end"), ("close", "closes"),
    )  # fmt: skip
    KEYS = "READING"

    def __init__(self, palette: Palette) -> None:
        super().__init__(palette)
        self.lines: list[Line] = []

    def draw(self, rows: range, chosen: int, width: int) -> list[Line]:
        return self.lines[rows.start : rows.stop]

    def point(self, event: Picker.Pointed) -> None:
        for _ in range(_WHEEL if event.how != "pointed" else 0):
            self.picker.scroll_by(event.how)

    def action_move(self, how: str) -> None:
        self.picker.scroll_by(how)

    def on_lines_view_laid(self) -> None:
        self.lay_out()

    def lay_out(self) -> None:
        """Call it when the text has changed."""
        self.lines = self.made(self.picker.room)
        self.picker.show(len(self.lines))

    def made(self, width: int) -> list[Line]:
        """All lines, at most `width` cells wide."""
        raise NotImplementedError


class DetailedListing(ListDialog[Result]):
    """A list with details, laid out by its classes: `-beside` shows them beside the list, `-low` hides them.

    What stands around the rows is made by `title_line`, `headed`, `detailed` and `hint`; of the sheets that are not yielded by
    `listed` nothing is made. `problem` is what is wrong when it is opened.
    """

    DEFAULT_CSS = """
    DetailedListing Picker { margin-top: 0; }
    DetailedListing #body, DetailedListing #list { height: 1fr; }
    DetailedListing #body { layout: vertical; }
    DetailedListing #heading, DetailedListing #details { margin-top: 1; }
    DetailedListing.-beside #body { layout: horizontal; }
    DetailedListing.-beside #list { width: 1fr; }
    DetailedListing.-beside #details { height: 1fr; margin: 1 0 0 1; }
    DetailedListing.-low #details { display: none; }
    DetailedListing.-low #heading, DetailedListing.-low Input, DetailedListing.-low Input:focus { margin-top: 0; }
    """
    BESIDE = 110
    """Columns from which the details stand beside the list."""
    LOW = 20
    """Rows below which there is no room for them."""
    problem = ""
    _at_rest: Timer | None = None

    def __init__(self, palette: Palette) -> None:
        super().__init__(palette)
        self.heading, self.details = Sheet(self.headed, id="heading"), Sheet(self.detailed, id="details")

    def compose(self) -> ComposeResult:
        """What is known when it is opened is there in the first frame."""
        self._arrange()
        with Vertical():
            yield Label(self.title_line(), classes="title", markup=False)
            yield from self.inputs()
            with Container(id="body"):
                with Container(id="list"):
                    yield from self.listed()
                yield self.details
            yield Label(sanitize(self.problem, keep="\n"), classes="problem", markup=False)
            yield Label(self.hint(), classes="hint", markup=False)

    def listed(self) -> Iterable[Widget]:
        return self.heading, self.picker

    def title_line(self) -> str:
        return self.TITLE

    def headed(self) -> list[Line]:
        return []

    def detailed(self) -> list[Line]:
        raise NotImplementedError

    def hint(self) -> Content:
        return dialogs.hint(*self.HINTS, before=self.HINT)

    def on_mount(self) -> None:
        super().on_mount()
        for sheet in self.query(Sheet):
            sheet.paint_with(self._palette)

    def on_resize(self) -> None:
        self._arrange()

    def _arrange(self) -> None:
        """Sets the classes for the app's size; also before the first frame, so that it is not laid out twice."""
        width, height = self.app.size
        self.set_class(width >= self.BESIDE, "-beside")
        self.set_class(height < self.LOW, "-low")

    def put(self, selector: str, text: str | Content) -> None:
        """Updates a label if its text differs: that costs a layout."""
        label = self.query_one(selector, Label)
        if str(label.content) != str(text):
            label.update(text)

    def at_rest(self, read: Callable[[], object]) -> None:
        """Calls `read` once the selection has rested for a moment."""
        if self._at_rest is not None:
            self._at_rest.stop()
        self._at_rest = self.set_timer(_AT_REST, read)
