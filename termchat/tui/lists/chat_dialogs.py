"""Dialogs about the chat as a whole: F2 begins a new one, Ctrl+S saves its transcript."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Callable, Iterable
from pathlib import Path

from textual.content import Content
from textual.widget import Widget
from textual.widgets import Input, Label

from termchat.chat.service import Chat
from termchat.conversation.transcripts import FORMATS, of_file
from termchat.conversation.transcripts.transcript import TranscriptError
from termchat.decoding.constraint import format_constraint
from termchat.decoding.samplers import KNOBS
from termchat.text import one_line
from termchat.tui.composer.composer import Composer
from termchat.tui.draw.dialog import Dialog, KeyHints
from termchat.tui.draw.field import Field
from termchat.tui.keys.tables import hint, name_of

_MOST_KEPT = 200
"""Cells of the settings that can be kept."""
_SAVE_KEYS: KeyHints = (("save-enter", "saves"), ("close", "closes"))
_WIDE = max(len(form.endings[0]) for form in FORMATS.values())
_FORMATS = "\n".join(f"{form.endings[0]:<{_WIDE}}  {form.what}" for form in FORMATS.values())


def list_turned(chat: Chat) -> str:
    """Format the knobs, breakpoints and constraint that a new chat would not have; "" for none."""
    knobs = [f"{name} {KNOBS[name].show(value)}" for name, value in chat.list_lost().items()]
    count = len(chat.breakpoints)
    points = [f"{count} breakpoint{'s' if count > 1 else ''}"] if count else []
    constraint = [format_constraint(chat.constraint)] if chat.constraint is not None else []
    return ", ".join([*knobs, *points, *constraint])


class SetupDialog(Dialog[tuple[str, bool, bool]]):
    """A new chat with another system prompt, in raw mode where the engine has that, or with the settings of the chat before.

    The result is the system prompt, and whether raw mode is on and the settings are kept.
    """

    DEFAULT_CSS = """
    SetupDialog Composer { background: $panel; margin-top: 1; padding: 0 1; min-height: 3; max-height: 8; }
    SetupDialog #setup-raw { margin-top: 1; }
    """
    KEYS = "NEW CHAT"
    TITLE = "New chat"
    HINTS = (("setup-start", "starts"), ("newline", "inserts a line break"), ("close", "closes"))

    def __init__(self, chat: Chat, system: str) -> None:
        super().__init__()
        self._prompt = Composer(system, placeholder="System prompt (optional)")
        self._prompt.sends_blank = True
        refused, turned = chat.find_refusal("raw"), list_turned(chat)
        mode = "raw mode: no chat template, no system prompt"
        self._raw = CheckMark("setup-raw", mode, on=chat.configured.conversation.raw)
        if refused is not None:
            self._raw = CheckMark("setup-raw", f"no raw mode: {refused.message}", works=False)
        self._keep = CheckMark("setup-keep", f"keep {one_line(turned, _MOST_KEPT)}", on=not chat.conversation.nodes)
        self._keep.display = bool(turned)

    def body(self) -> Iterable[Widget]:
        return self._prompt, self._raw, self._keep

    def action_raw(self) -> None:
        self._raw.toggle()

    def action_keep(self) -> None:
        if self._keep.display:
            self._keep.toggle()

    def action_start(self) -> None:
        self._prompt.action_send()

    def on_composer_submitted(self, event: Composer.Submitted) -> None:
        event.stop()
        self.dismiss((event.text.strip(), self._raw.on, self._keep.on))


class CheckMark(Label):
    """A setting that a key or a click switches. It never has the keyboard, so that Enter has one meaning."""

    def __init__(self, id: str, what: str, *, on: bool = False, works: bool = True) -> None:
        self._key, self._what, self.on, self._works = name_of(id), what, not on and works, works
        super().__init__(id=id, markup=False)
        self.toggle()

    def toggle(self) -> None:
        self.on = not self.on and self._works
        self.update(f"[{'x' if self.on else ' '}] {self._what}  ({self._key})" if self._works else self._what)

    def on_click(self) -> None:
        self.toggle()


def default_path(title: str) -> Path:
    """Return a file name made from the words of a chat's title, in the working folder."""
    kept = [" "]
    for char in title.lower():
        # Marks after letters belong to their word: Thai or Hindi would fall apart without.
        marks = kept[-1] != " " and unicodedata.category(char).startswith("M")
        kept.append(char if char.isalnum() or char == "_" or marks else " ")
    return Path(("-".join("".join(kept).split()[:8])[:60] or "chat") + ".md")


class SaveDialog(Dialog[None]):
    """A path to save to; problems are shown in the dialog.

    `save` begins to save to a path for this dialog; `end_saving` is to be called in the end, if the dialog is still there.
    """

    KEYS = "SAVE"
    TITLE = "Save transcript"

    def __init__(self, path: Path, save: Callable[[Path, SaveDialog], object]) -> None:
        super().__init__()
        self._path, self._save = path, save
        self._confirmed: Path | None = None
        self._saving = False

    def body(self) -> Iterable[Widget]:
        yield Field(str(self._path))
        yield self.message_label()
        yield Label(hint(*_SAVE_KEYS), id="save-keys", classes="hint", markup=False)

    def hint(self) -> Content:
        return Content(f"The extension chooses the format:\n{_FORMATS}")

    def on_input_changed(self) -> None:
        self._confirmed = None
        self.say("")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        if not self.is_current or self._saving:  # a second Enter in the same burst
            return
        try:
            path = Path(os.path.expanduser(event.value.strip()))  # an unknown ~user stays as it is
            folder = path.is_dir()  # the writer says so better than the list of endings
            if not folder:
                of_file(path)
            if path.exists() and not folder and path != self._confirmed:
                self._confirmed = path
                self.say(f"{path.name} exists; press Enter again to overwrite it")
                return
            self._saving = True
            self.put("#save-keys", "Saving … You can close this; saving continues.")
            self._save(path, self)
        except TranscriptError as error:
            self.say(f"{error.message}: {error.hint}")
        except (OSError, ValueError) as error:  # such as a name that is too long, or has a NUL in it
            self.say(f"cannot write the file: {getattr(error, 'strerror', None) or error}")

    def end_saving(self, problem: str) -> None:
        """Close, or show why the transcript was not saved."""
        self._saving = False
        self.put("#save-keys", hint(*_SAVE_KEYS))
        self.say(problem)
        if not problem:
            self.dismiss(None)
