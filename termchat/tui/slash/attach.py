"""Commands behind a slash, on the chat's screen: what they act on is made when the first is typed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.screen import Screen

from termchat.tui.composer.composer import Composer
from termchat.tui.slash.slash import Around, Slash

if TYPE_CHECKING:
    from termchat.tui.slash.commands import Deeds


class Slashing:
    """Has a composer take commands, and complete them."""

    def __init__(self, screen: Screen[None], composer: Composer, around: Around) -> None:
        self._screen, self._composer, self._around = screen, composer, around
        self._slash = Slash(self._deeds, self._send, self._keep, around.tell)
        composer.commands = self._take
        composer.sources = [self._slash, *composer.sources]

    def _take(self, written: str) -> bool:
        return written.startswith("/") and self._slash.take(self._composer.attachments.unfold(written))

    def _deeds(self) -> Deeds:
        from termchat.tui.slash.commands import ScreenDeeds  # not needed before the first frame

        return ScreenDeeds(self._screen, self._around)

    def _send(self, text: str) -> None:
        self._composer.post_message(Composer.Submitted(text, text))

    def _keep(self, text: str) -> None:
        self._composer.call_next(self._composer.give_back, text)  # the field is emptied first
