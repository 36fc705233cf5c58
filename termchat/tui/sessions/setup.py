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
    system: str
    raw: bool


class SetupDialog(Dialog[Setup]):
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
        with Vertical():
            yield Label("New chat", classes="title", markup=False)
            yield SystemPrompt(self._system, placeholder="System prompt (optional)")
            yield RawMark(self._raw)
            does = (
                ("setup-start", "starts"), ("newline", "inserts a line break"), ("setup-raw", "switches raw mode"),
                ("close", "closes"),
            )  # fmt: skip
            yield Label(hint(*does), classes="hint", markup=False)

    def action_raw(self) -> None:
        self.query_one(RawMark).toggle()

    def action_start(self) -> None:
        self.query_one(SystemPrompt).action_send()

    def on_composer_submitted(self, event: Composer.Submitted) -> None:
        event.stop()
        self.dismiss(Setup(event.text, self.query_one(RawMark).on))


class RawMark(Label):
    """Whether the chat is raw; a click changes it too. It never has the keyboard, so that Enter has one meaning."""

    def __init__(self, on: bool) -> None:
        self.on = on
        super().__init__(self._text, markup=False)

    def toggle(self) -> None:
        self.on = not self.on
        self.update(self._text)

    def on_click(self) -> None:
        self.toggle()

    @property
    def _text(self) -> str:
        return f"[{'x' if self.on else ' '}] raw mode: no chat template, no system prompt"


class SystemPrompt(Composer):
    """A composer that may also send an empty text."""

    def action_send(self) -> None:
        self.post_message(self.Submitted(self.message.strip()))
