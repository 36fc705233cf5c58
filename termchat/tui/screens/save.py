"""Ctrl+S: where to save the transcript."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Input, Label

from termchat.text import sanitize
from termchat.tui.screens.dialog import Dialog

_SUFFIXES = (".md", ".jsonl")


def default_path(title: str) -> Path:
    """A file name made from a chat's title, in the folder where the app was started."""
    words = re.findall(r"\w+", title.lower())[:8]
    return Path(("-".join(words)[:60] or "chat") + ".md")


class SaveDialog(Dialog[Path]):
    """Asks for a path and saves; what went wrong is said in place. The result is the path that was written."""

    def __init__(self, path: Path, save: Callable[[Path], None]) -> None:
        super().__init__()
        self._path, self._save = path, save
        self._confirmed: Path | None = None

    def compose(self) -> ComposeResult:
        """Title, path, problem, hint."""
        with Vertical():
            yield Label("Save transcript", classes="title", markup=False)
            yield Input(sanitize(str(self._path), keep=""))
            yield Label("", classes="problem", markup=False)
            yield Label(
                "Enter saves, Esc closes. .md is Markdown, .jsonl holds every record.", classes="hint", markup=False
            )

    def on_input_changed(self) -> None:
        """Another path needs another answer."""
        self._confirmed = None
        self._say("")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Saves, asking once more before a file is replaced."""
        if not self.is_current:  # a second Enter in the same burst
            return
        path = Path(event.value.strip()).expanduser()
        if path.suffix not in _SUFFIXES:
            self._say(f"the name must end in {' or '.join(_SUFFIXES)}")
        elif path.exists() and path != self._confirmed:
            self._confirmed = path
            self._say(f"{path.name} exists: Enter again overwrites it")
        else:
            try:
                self._save(path)
            except (OSError, ValueError) as error:
                self._say(str(error))
            else:
                self.dismiss(path)

    def _say(self, text: str) -> None:
        self.query_one(".problem", Label).update(sanitize(text, keep=""))
