"""A new chat with another system prompt, or without a template."""

from __future__ import annotations

from typing import NamedTuple

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Checkbox, Label

from termchat.tui.screens.dialog import Dialog
from termchat.tui.widgets.composer import Composer


class Setup(NamedTuple):
    """How a new chat begins."""

    system: str
    raw: bool


class SetupDialog(Dialog[Setup]):
    """Asks how a new chat is to begin."""

    DEFAULT_CSS = """
    SetupDialog Composer { background: $panel; margin-top: 1; padding: 0 1; min-height: 3; max-height: 8; }
    SetupDialog Checkbox, SetupDialog Checkbox:focus {
        border: none; background: $surface; padding: 0; margin-top: 1; height: 1;
    }
    """

    def __init__(self, system: str, *, raw: bool) -> None:
        super().__init__()
        self._system, self._raw = system, raw

    def compose(self) -> ComposeResult:
        """System prompt and raw mode."""
        with Vertical():
            yield Label("New chat", classes="title", markup=False)
            yield SystemPrompt(self._system, placeholder="system prompt, may stay empty")
            yield Checkbox("raw completion: no chat template, no system prompt", self._raw)
            yield Label(
                "Enter starts the chat, Ctrl+J a new line, Tab raw mode, Esc closes.", classes="hint", markup=False
            )

    def on_composer_submitted(self, event: Composer.Submitted) -> None:
        """Starts the chat."""
        event.stop()
        self.dismiss(Setup(event.text, self.query_one(Checkbox).value))


class SystemPrompt(Composer):
    """A composer that may also send nothing."""

    def action_send(self) -> None:
        """Sends the text as it stands."""
        self.post_message(self.Submitted(self.text.strip()))
