"""What the chat screen and its collaborators share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from textual.screen import Screen

from termchat.chat.changes import Notice
from termchat.chat.service import Chat
from termchat.tui.composer.composer import Composer
from termchat.tui.pages.token_bar import Tokens
from termchat.tui.screen.desk import Desk
from termchat.tui.screen.drawer import Drawer
from termchat.tui.screen.notices import NoticeSlip
from termchat.tui.screen.panels import Panels
from termchat.tui.themes.theme_file import Palette
from termchat.tui.transcript import TranscriptView

Result = TypeVar("Result")


@dataclass(frozen=True)
class Parts:
    """The chat, the widgets that show it, and what a collaborator may have the screen do."""

    screen: Screen[None]
    chat: Chat
    transcript: TranscriptView
    tokens: Tokens
    panels: Panels
    drawer: Drawer
    desk: Desk
    notices: NoticeSlip
    palette: Callable[[], Palette]
    do: Callable[[Callable[[], object]], None]
    """Does something to the chat and has the screen take in what came of it."""
    tell: Callable[[Notice], None]
    """Shows a notice."""

    @property
    def composer(self) -> Composer:
        return self.desk.composer

    def open(self, dialog: Screen[Result], closed: Callable[[Result | None], None] | None = None) -> None:
        """`closed` gets the dialog's result."""
        self.screen.app.push_screen(dialog, closed)
