"""Ctrl+S: where to save the transcript."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Callable, Iterable
from pathlib import Path

from textual.content import Content
from textual.widget import Widget
from textual.widgets import Input, Label

from termchat.conversation.transcripts import FORMATS, of_file
from termchat.conversation.transcripts.transcript import TranscriptError
from termchat.tui.draw.dialog import Dialog, KeyHints
from termchat.tui.draw.field import Field
from termchat.tui.keys.tables import hint

_WIDE = max(len(form.endings[0]) for form in FORMATS.values())
_KEYS: KeyHints = (("save-enter", "saves"), ("close", "closes"))
_FORMATS = "\n".join(f"{form.endings[0]:<{_WIDE}}  {form.what}" for form in FORMATS.values())


def default_path(title: str) -> Path:
    """Return a file name made from a chat's title, in the folder where the app was started."""
    return Path(("-".join(_words(title.lower())[:8])[:60] or "chat") + ".md")


def _words(text: str) -> list[str]:
    """Split a text into words. Marks after letters belong to them: Thai or Hindi would fall apart without."""
    kept = [" "]
    for char in text:
        marks = kept[-1] != " " and unicodedata.category(char).startswith("M")
        kept.append(char if char.isalnum() or char == "_" or marks else " ")
    return "".join(kept).split()


class SaveDialog(Dialog[None]):
    """A path to save to; problems are shown in the dialog.

    `save` begins to save to a path; `over` is to be called in the end, if the dialog is still there.
    """

    KEYS = "SAVE"
    TITLE = "Save transcript"

    def __init__(self, path: Path, save: Callable[[Path], object]) -> None:
        super().__init__()
        self._path, self._save = path, save
        self._confirmed: Path | None = None
        self._saving = False

    def body(self) -> Iterable[Widget]:
        yield Field(str(self._path))
        yield self.message_label()
        yield Label(hint(*_KEYS), id="save-keys", classes="hint", markup=False)

    def hint(self) -> Content:
        return Content(f"The extension chooses the format:\n{_FORMATS}")

    def on_input_changed(self) -> None:
        self._confirmed = None
        self.say("")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        if not self.is_current or self._saving:  # a second Enter in the same burst
            return
        try:
            self._save_as(Path(os.path.expanduser(event.value.strip())))  # an unknown ~user stays as it is
        except TranscriptError as error:
            self.say(f"{error.message}: {error.hint}")
        except (OSError, ValueError) as error:  # such as a name that is too long, or has a NUL in it
            self.say(f"cannot write the file: {getattr(error, 'strerror', None) or error}")

    def _save_as(self, path: Path) -> None:
        folder = path.is_dir()  # whoever writes says so better than the list of endings
        if not folder:
            of_file(path)
        if path.exists() and not folder and path != self._confirmed:
            self._confirmed = path
            self.say(f"{path.name} exists; press Enter again to overwrite it")
        else:
            self._saving = True
            self.put("#save-keys", "Saving … You can close this; saving continues.")
            self._save(path)

    def over(self, problem: str) -> None:
        """Close, or show why the transcript was not saved."""
        self._saving = False
        self.put("#save-keys", hint(*_KEYS))
        self.say(problem)
        if not problem and self.is_current:  # else somebody reads the list of keys
            self.dismiss(None)
