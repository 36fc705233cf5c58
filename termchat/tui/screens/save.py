"""Ctrl+S: where to save the transcript."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Input, Label

from termchat.conversation.formats import FORMATS, of_file
from termchat.conversation.transcript import TranscriptError
from termchat.text import sanitize
from termchat.tui.dialogkeys import hint
from termchat.tui.screens.dialog import Dialog
from termchat.tui.widgets.field import Field

_WIDE = max(len(form.endings[0]) for form in FORMATS.values())
_LIST = "\n".join(f"{form.endings[0]:<{_WIDE}}  {form.what}" for form in FORMATS.values())


def default_path(title: str) -> Path:
    """A file name made from a chat's title, in the folder where the app was started."""
    words = re.findall(r"\w+", title.lower())[:8]
    return Path(("-".join(words)[:60] or "chat") + ".md")


class SaveDialog(Dialog[Path]):
    """Asks for a path and saves; what went wrong is said in place. The result is the path that was written."""

    KEYS = "SAVE"

    def __init__(self, path: Path, save: Callable[[Path], None]) -> None:
        super().__init__()
        self._path, self._save = path, save
        self._confirmed: Path | None = None

    def compose(self) -> ComposeResult:
        """Title, path, problem, hint."""
        with Vertical():
            yield Label("Save transcript", classes="title", markup=False)
            yield Field(str(self._path))
            yield Label("", classes="problem", markup=False)
            yield Label(hint(("save-enter", "saves"), ("close", "closes")), classes="hint", markup=False)
            yield Label(f"The name's ending says as what:\n{_LIST}", classes="hint", markup=False)

    def on_input_changed(self) -> None:
        """Another path needs another answer."""
        self._confirmed = None
        self._say("")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Saves, asking once more before a file is replaced."""
        if not self.is_current:  # a second Enter in the same burst
            return
        try:
            self._save_as(Path(event.value.strip()).expanduser())
        except TranscriptError as error:
            self._say(f"{error.message}: {error.hint}")
        except (OSError, RuntimeError, ValueError) as error:  # the last two: an unknown ~user, a NUL in the name
            self._say(str(error))

    def _save_as(self, path: Path) -> None:
        of_file(path)
        if path.exists() and path != self._confirmed:
            self._confirmed = path
            self._say(f"{path.name} exists: Enter again overwrites it")
        else:
            self._save(path)
            self.dismiss(path)

    def _say(self, text: str) -> None:
        self.query_one(".problem", Label).update(sanitize(text, keep=""))
