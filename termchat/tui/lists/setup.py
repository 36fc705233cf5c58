"""F2: a new chat with another system prompt, in raw mode, or with the knobs of the chat before."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from textual.widget import Widget
from textual.widgets import Label

from termchat.chat.service import Chat
from termchat.decoding.constraint import format_constraint
from termchat.decoding.samplers import KNOBS
from termchat.text import one_line
from termchat.tui.composer.composer import Composer
from termchat.tui.draw.dialog import Dialog
from termchat.tui.keys.tables import name_of

_MOST_KEPT = 200
"""Cells of what can be kept."""


class Setup(NamedTuple):
    """A new chat; `keep` keeps the knobs, breakpoints and constraint of the one before."""

    system: str
    raw: bool
    keep: bool


def turned(chat: Chat) -> str:
    """Format the knobs, breakpoints and constraint that a new chat would not have; "" for none."""
    knobs = [f"{name} {KNOBS[name].show(value)}" for name, value in chat.list_lost().items()]
    count = len(chat.breakpoints)
    points = [f"{count} breakpoint{'s' if count > 1 else ''}"] if count else []
    constraint = [format_constraint(chat.constraint)] if chat.constraint is not None else []
    return ", ".join([*knobs, *points, *constraint])


class SetupDialog(Dialog[Setup]):
    """`turned` is what can be kept of the chat before, `keep` whether it is by default. `no_raw` is why there is no raw mode,
    "" where there is."""

    DEFAULT_CSS = """
    SetupDialog Composer { background: $panel; margin-top: 1; padding: 0 1; min-height: 3; max-height: 8; }
    SetupDialog #setup-raw { margin-top: 1; }
    """
    KEYS = "NEW CHAT"
    TITLE = "New chat"
    HINTS = (("setup-start", "starts"), ("newline", "inserts a line break"), ("close", "closes"))

    def __init__(self, system: str, *, raw: bool, turned: str, keep: bool = False, no_raw: str = "") -> None:
        super().__init__()
        self._prompt = Composer(system, placeholder="System prompt (optional)")
        self._prompt.sends_blank = True
        what = f"no raw mode: {no_raw}" if no_raw else "raw mode: no chat template, no system prompt"
        self._raw = CheckMark("setup-raw", what, on=raw and not no_raw, works=not no_raw)
        self._keep = CheckMark("setup-keep", f"keep {one_line(turned, _MOST_KEPT)}", on=keep)
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
        self.dismiss(Setup(event.text.strip(), self._raw.on, self._keep.on))


class CheckMark(Label):
    """Something that a key or a click switches. It never has the keyboard, so that Enter has one meaning."""

    def __init__(self, id: str, what: str, *, on: bool = False, works: bool = True) -> None:
        self._key, self._what, self.on, self._works = name_of(id), what, on, works
        super().__init__(self._text, id=id, markup=False)

    def toggle(self) -> None:
        self.on = not self.on and self._works
        self.update(self._text)

    def on_click(self) -> None:
        self.toggle()

    @property
    def _text(self) -> str:
        return f"[{'x' if self.on else ' '}] {self._what}  ({self._key})" if self._works else self._what
