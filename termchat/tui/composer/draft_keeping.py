"""Each chat has its own draft: what the composer holds is kept with the chat that is shown, and comes back with it."""

from __future__ import annotations

from textual.timer import Timer

from termchat.tui.draw.background import BackgroundTask
from termchat.tui.screen.parts import Parts

_KEPT_AFTER = 0.4
"""Seconds after a key in which the draft is kept, so that a kill loses no more."""


class DraftKeeping:
    def __init__(self, parts: Parts) -> None:
        self._screen, self._chat, self._composer = parts.screen, parts.chat, parts.composer
        self._shown = parts.chat.session
        self._timer: Timer | None = None
        self._looking: BackgroundTask[str] | None = None

    def show(self) -> None:
        """Shows what the chat was left with; before anything can be typed, since this takes the composer's place."""
        if self._shown.conversation.unsent.draft:
            self._composer.open(self._shown.conversation.unsent.draft)

    def begin(self) -> None:
        """A thread looks for what was left in a chat without a message."""
        if (store := self._chat.session.store) is not None:
            self._looking = BackgroundTask(lambda: [store.abandoned()], lambda: self._screen.call_later(self._found))

    def _found(self) -> None:
        assert self._looking is not None
        self._chat.blank.give_back(*self._looking.take())
        self.follow()

    def changed(self) -> None:
        if self._timer is None:
            self._timer = self._screen.set_timer(_KEPT_AFTER, self.keep)

    def keep(self) -> None:
        self._timer = None
        self._shown.keep_draft(self._composer.draft)

    def follow(self) -> None:
        """Switches drafts where another chat is shown, and puts what was given back before the draft."""
        shown = self._chat.session
        if shown is not self._shown:
            self.keep()
            self._shown = shown
            if shown.conversation.unsent.draft != self._composer.draft:
                self._composer.open(shown.conversation.unsent.draft)
        if shown.conversation.unsent.returned:
            self._composer.give_back(shown.conversation.unsent.returned)
            shown.conversation.unsent.returned = ""
            self.keep()
