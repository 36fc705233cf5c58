"""What the dialogs share: a box in the middle that Esc closes; Ctrl+C does so too, which is the app's doing."""

from __future__ import annotations

from typing import TypeVar

from textual.screen import ModalScreen

from termchat.tui.keys.dialogs import DIALOG
from termchat.tui.terminal.compositor import PlacingCompositor

Result = TypeVar("Result")

_TIGHT = 16
"""Rows of a screen under which a dialog has no empty ones, so that its keys are still told."""


class Dialog(ModalScreen[Result | None]):
    """A modal box; its result is None when it was closed."""

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
        self._compositor = PlacingCompositor()

    def on_resize(self) -> None:
        """Closes ranks where there is little room."""
        self.set_class(self.app.size.height < _TIGHT, "-tight")

    def action_close(self) -> None:
        """Closes it; nothing happens."""
        self.dismiss(None)
