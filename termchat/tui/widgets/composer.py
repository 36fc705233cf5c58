"""Where a person writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rich.text import Text
from textual import events
from textual.message import Message
from textual.widgets import TextArea

from termchat.text import sanitize
from termchat.tui.keys import COMPOSER


class Composer(TextArea):
    """A text field of up to six lines. What was pasted stays as it is, and is drawn with marks for foreign characters."""

    DEFAULT_CSS = """
    Composer {
        height: auto; max-height: 6; width: 1fr; padding: 0 1 0 0; border: none;
        background: $background; color: $text;
        &:focus { border: none; }
        .text-area--cursor-line { background: $background; }
        .text-area--placeholder { color: $muted; }
    }
    """
    BINDINGS = [key.binding for key in COMPOSER]  # noqa: RUF012

    @dataclass
    class Submitted(Message):
        """A person sent what they had written."""

        text: str

    def __init__(self, text: str = "", *, placeholder: str = "", keymap: Mapping[str, str] | None = None) -> None:
        super().__init__(text, placeholder=placeholder, show_line_numbers=False, highlight_cursor_line=False)
        self.cursor_blink = False
        remapped = keymap or {}
        self._own = {name.strip(): key.action for key in COMPOSER for name in remapped.get(key.id, key.keys).split(",")}

    def on_key(self, event: events.Key) -> None:
        """Sends at once: a binding would act before the keys that were pressed just before it have been written."""
        action = self._own.get(event.key)
        if action is not None:
            event.stop()
            event.prevent_default()
            getattr(self, f"action_{action}")()

    def action_send(self) -> None:
        """Sends the text, unless it is blank, and empties the field."""
        if self.text.strip():
            text = self.text
            self.clear()
            self.post_message(self.Submitted(text))

    def action_newline(self) -> None:
        """Begins a new line at the cursor."""
        self.insert("\n")

    def give_back(self, text: str) -> None:
        """Puts a text that could not be sent before what has been written since."""
        written = self.text
        self.load_text(f"{text}\n{written}" if written else text)
        self.move_cursor(self.document.end)

    def get_line(self, line_index: int) -> Text:
        """A line as it is drawn: a foreign character is one mark, so that the cursor stays where it is."""
        line = self.document.get_line(line_index)
        if sanitize(line) is not line:
            line = "".join(map(_mark, line))
        return Text(line, end="", no_wrap=True)


def _mark(char: str) -> str:
    shown = sanitize(char)
    return shown if len(shown) == 1 else "\N{REPLACEMENT CHARACTER}"
