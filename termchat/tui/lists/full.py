"""What to do when the context is full."""

from __future__ import annotations

from collections.abc import Iterable

from textual.content import Content
from textual.widget import Widget
from textual.widgets import Label

from termchat.chat.changes import Full, Way
from termchat.text import sanitize
from termchat.tui.draw.dialog import Dialog
from termchat.tui.keys.tables import link


class FullDialog(Dialog[Way]):
    """Asks what to do when the context is full; None means nothing."""

    KEYS = "CONTEXT FULL"
    TITLE = "The context is full"

    def __init__(self, full: Full) -> None:
        super().__init__()
        self._full = full

    def body(self) -> Iterable[Widget]:
        full = self._full
        turns = f"the oldest {full.turns} turns" if full.turns != 1 else "the oldest turn"
        if full.failure is not None:
            why, then, back = full.failure.message, "send the message", "put the message back into the composer"
        else:
            why, then = "the reply was cut off because the context is full", "regenerate the reply"
            back = "leave the chat as it is now"
        yield Label(sanitize(why, keep=""), classes="hint", markup=False)
        drop = link("full-drop", f"drop {turns} from the model's context, then {then}", gap="  ")
        yield Label(drop, classes="hint", markup=False)
        if full.can_summarise:
            summarise = f"let the model summarise {turns}, then {then}"
            yield Label(link("full-summarise", summarise, gap="  "), markup=False)
        yield Label(link("close", back, gap="  "), markup=False)

    def hint(self) -> Content:
        return Content("Nothing is deleted: the turns stay in the saved chat.")

    def action_choose(self, way: Way) -> None:
        if way != "summarise" or self._full.can_summarise:
            self.dismiss(way)
