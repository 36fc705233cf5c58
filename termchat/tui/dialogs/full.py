"""What to do when the context is full."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Label

from termchat.chat.changes import Full, Way
from termchat.text import sanitize
from termchat.tui.dialogs.base import Dialog
from termchat.tui.keys.dialogs import link


class FullDialog(Dialog[Way]):
    """Asks what to do when the context is full; None means nothing."""

    KEYS = "CONTEXT FULL"

    def __init__(self, full: Full) -> None:
        super().__init__()
        self._full = full

    def compose(self) -> ComposeResult:
        full = self._full
        turns = f"the oldest {full.turns} turns" if full.turns != 1 else "the oldest turn"
        with Vertical():
            yield Label("The context is full", classes="title", markup=False)
            why = (
                full.failure.message
                if full.failure is not None
                else "the reply was cut off because the context is full"
            )
            yield Label(sanitize(why, keep=""), classes="hint", markup=False)
            then = "send the message" if full.failure is not None else "regenerate the reply"
            drop = link("full-drop", f"drop {turns} from the model's context, then {then}", gap="  ")
            yield Label(drop, classes="hint", markup=False)
            if full.can_summarise:
                summarise = f"let the model summarise {turns}, then {then}"
                yield Label(link("full-summarise", summarise, gap="  "), markup=False)
            back = (
                "put the message back into the composer" if full.failure is not None else "leave the chat as it is now"
            )
            yield Label(link("close", back, gap="  "), markup=False)
            yield Label("Nothing is deleted: the turns stay in the saved chat.", classes="hint", markup=False)

    def action_choose(self, way: Way) -> None:
        if way != "summarise" or self._full.can_summarise:
            self.dismiss(way)
