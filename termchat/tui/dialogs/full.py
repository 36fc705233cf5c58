"""The context is full: what is to be done about it."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Label

from termchat.chat.changes import Full, Way
from termchat.text import sanitize
from termchat.tui.dialogs.base import Dialog
from termchat.tui.keys.dialogs import FULL, link


class FullDialog(Dialog[Way]):
    """Asks; None is to do nothing."""

    KEYS = "CONTEXT FULL"
    BINDINGS = [key.binding for key in FULL]  # noqa: RUF012

    def __init__(self, full: Full) -> None:
        super().__init__()
        self._full = full

    def compose(self) -> ComposeResult:
        """What is the matter, and the ways out."""
        full = self._full
        turns = f"the oldest {full.turns} turns" if full.turns != 1 else "the oldest turn"
        with Vertical():
            yield Label("The context is full", classes="title", markup=False)
            why = full.failure.message if full.failure is not None else "the reply was cut off where the context ended"
            yield Label(sanitize(why, keep=""), classes="hint", markup=False)
            then = "send the message" if full.failure is not None else "make the reply again"
            drop = link("full-drop", f"leave {turns} out of what the model sees, and {then}", gap="  ")
            yield Label(drop, classes="hint", markup=False)
            if full.can_summarise:
                summarise = f"have the model summarise {turns} first, and {then}"
                yield Label(link("full-summarise", summarise, gap="  "), markup=False)
            back = "the message goes back to where it was written" if full.failure is not None else "leave it as it is"
            yield Label(link("close", f"stop: {back}", gap="  "), markup=False)
            yield Label("Nothing is deleted: the turns stay in the chat, and on record.", classes="hint", markup=False)

    def action_choose(self, way: Way) -> None:
        """One of the ways."""
        if way != "summarise" or self._full.can_summarise:
            self.dismiss(way)
