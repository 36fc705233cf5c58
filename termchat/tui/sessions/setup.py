"""A new chat with another system prompt, or without a template."""

from __future__ import annotations

from typing import NamedTuple

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Label

from termchat.tui.composer.composer import Composer
from termchat.tui.dialogs.base import Dialog
from termchat.tui.keys.dialogs import SETUP, hint


class Setup(NamedTuple):
    """How a new chat begins."""

    system: str
    raw: bool


class SetupDialog(Dialog[Setup]):
    """Asks how a new chat is to begin."""

    DEFAULT_CSS = """
    SetupDialog Composer { background: $panel; margin-top: 1; padding: 0 1; min-height: 3; max-height: 8; }
    SetupDialog RawMark { margin-top: 1; }
    """
    KEYS = "NEW CHAT"
    BINDINGS = [key.binding for key in SETUP]  # noqa: RUF012

    def __init__(self, system: str, *, raw: bool) -> None:
        super().__init__()
        self._system, self._raw = system, raw

    def compose(self) -> ComposeResult:
        """System prompt and raw mode."""
        with Vertical():
            yield Label("New chat", classes="title", markup=False)
            yield SystemPrompt(self._system, placeholder="system prompt, may stay empty")
            yield RawMark(self._raw)
            does = (
                ("setup-start", "starts the chat"), ("newline", "a new line"), ("setup-raw", "raw mode"), ("close", "closes"),
            )  # fmt: skip
            yield Label(hint(*does), classes="hint", markup=False)

    def action_raw(self) -> None:
        """The other mode."""
        self.query_one(RawMark).toggle()

    def action_start(self) -> None:
        """Starts the chat, should the text not have the keyboard."""
        self.query_one(SystemPrompt).action_send()

    def on_composer_submitted(self, event: Composer.Submitted) -> None:
        """Starts the chat."""
        event.stop()
        self.dismiss(Setup(event.text, self.query_one(RawMark).on))


class RawMark(Label):
    """Whether the chat is raw; a click changes it too. It never has the keyboard, so that Enter has one meaning."""

    def __init__(self, on: bool) -> None:
        self.on = on
        super().__init__(self._text, markup=False)

    def toggle(self) -> None:
        """The other mode."""
        self.on = not self.on
        self.update(self._text)

    def on_click(self) -> None:
        """The other mode."""
        self.toggle()

    @property
    def _text(self) -> str:
        return f"[{'x' if self.on else ' '}] raw completion: no chat template, no system prompt"


class SystemPrompt(Composer):
    """A composer that may also send nothing."""

    def action_send(self) -> None:
        """Sends the text as it stands."""
        self.post_message(self.Submitted(self.message.strip()))
