"""The base of all dialogs: a modal box that closes once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Label

from termchat.text import sanitize
from termchat.tui.keys import tables
from termchat.tui.terminal.screens import ClosedOnce

Result = TypeVar("Result")
KeyHints = Sequence[tuple[str, str]]
"""Ids of keys and what they do, for the last line of a dialog."""

_LONGEST_MESSAGE = 2000
"""Characters of a message: an error may quote a foreign text of any length."""
_TIGHT = 16
"""Rows of the screen below which a dialog has no blank lines, so that its keys stay in view."""


class Dialog(ClosedOnce[Result | None]):
    """A modal box: a title, a body, and a line of keys. Its result is None if it was closed."""

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
    BINDINGS = [key.binding for key in tables.DIALOG]  # noqa: RUF012
    KEYS = "DIALOGS"
    """Title of its group of keys, which it binds."""
    TITLE = ""
    HINT = ""
    HINTS: KeyHints = (("close", "closes"),)
    """Keys that the last line names, after `HINT`."""
    problem = ""
    """Message shown when the dialog opens."""

    def __init_subclass__(cls) -> None:
        group = tables.group_of(cls.__dict__.get("KEYS", ""))
        if group is not None and "BINDINGS" not in cls.__dict__:
            cls.BINDINGS = [key.binding for key in group.table if key.action]
        super().__init_subclass__()

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Label(self.title_line(), classes="title", markup=False)
            yield from self.body()
            yield Label(self.hint(), classes="hint", markup=False)

    def title_line(self) -> str:
        return self.TITLE

    def body(self) -> Iterable[Widget]:
        """Yield the widgets between the title and the keys, the label of messages among them."""
        yield self.message_label()

    def message_label(self) -> Label:
        """Return the label that `say` and `tell` write in."""
        return Label(sanitize(self.problem, keep="\n"), classes="problem", markup=False)

    def hint(self) -> Content:
        return tables.hint(*self.hints(), before=self.HINT)

    def hints(self) -> KeyHints:
        return self.HINTS

    def on_resize(self) -> None:
        self.set_class(self.app.size.height < _TIGHT, "-tight")

    def action_close(self) -> None:
        self.dismiss(None)

    def say(self, problem: str, *, news: bool = False) -> None:
        """Show a problem above the keys, or in its place news; "" clears it."""
        label = self.query_one(".problem", Label)
        label.set_class(news, "-news")
        label.update(sanitize(problem[:_LONGEST_MESSAGE], keep=""))

    def tell(self, news: str) -> None:
        """Show news in the place of a problem."""
        self.say(news, news=True)

    def put(self, selector: str, text: str | Content) -> None:
        """Update a label if its text differs: that costs a layout."""
        label = self.query_one(selector, Label)
        if str(label.content) != str(text):
            label.update(text)
