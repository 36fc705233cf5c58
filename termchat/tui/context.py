"""The screen of a chat, as the rooms of the screen know it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from textual.screen import Screen
from textual.widget import Widget

from termchat.chat.changes import Notice
from termchat.chat.service import Chat
from termchat.tui.composer.chat_composer import ChatComposer
from termchat.tui.pages.panels import Panels
from termchat.tui.pages.token_bar import Tokens
from termchat.tui.pages.tune_mode import Tune
from termchat.tui.terminal.screens import LiveScreen
from termchat.tui.themes.theme_file import Palette
from termchat.tui.transcript import TranscriptView

Result = TypeVar("Result")


class ScreenContext(LiveScreen):
    """The chat, the widgets that show it, and what a room may have the screen do.

    A room calls the chat. What came of it reaches the screen by `Chat.on_change`, and all rooms from there.
    """

    chat: Chat
    palette: Palette
    transcript: TranscriptView
    tokens: Tokens
    panels: Panels
    composer: ChatComposer
    under: Widget | None = None
    """The widget that has the keyboard while nothing else is open; None is the composer."""
    own_tune: Tune
    """What turns the chat's knobs; it keeps its knob while the app runs, and its undo while the chat stays the same."""
    tune: Tune | None = None
    """TUNE, while it is open."""

    def open(self, dialog: Screen[Result], closed: Callable[[Result | None], None] | None = None) -> None:
        """Open a dialog; `closed` gets its result."""
        self.app.push_screen(dialog, closed)

    def choose(self, dialog: Screen[Result | None], take: Callable[[Result], object]) -> None:
        """Open a dialog; `take` gets its result, unless it was closed without one."""

        def closed(result: Result | None) -> None:
            if result is not None:
                take(result)

        self.app.push_screen(dialog, closed)

    def action_dialog(self, name: str) -> None:
        """Open the dialog of that name."""
        raise NotImplementedError

    def tick(self) -> None:
        """Show what changed in the chat now, for callers that go on with the widgets that show it."""
        raise NotImplementedError

    def tell(self, notice: Notice) -> None:
        """Show a notice."""
        raise NotImplementedError

    def withdraw(self, message: str) -> None:
        """Remove the notice with this message, which holds no more."""
        raise NotImplementedError

    def take_keyboard(self) -> None:
        """Give the keyboard to the innermost open widget: TUNE, the page or mode in the chat's place, else the composer."""
        raise NotImplementedError

    @property
    def room(self) -> int:
        """Cells of a line in the chat's column."""
        raise NotImplementedError

    @property
    def knobs(self) -> Tune:
        """What turns knobs, whether TUNE is open or not: all of it can be undone there."""
        return self.tune or self.own_tune

    def open_tune(self, tune: Tune | None = None) -> None:
        """Open TUNE, and the panels if they are hidden; `tune` turns other knobs than the chat's."""
        raise NotImplementedError

    def close_tune(self) -> None:
        raise NotImplementedError

    def show_knobs(self) -> None:
        """Show what TUNE is about now, after a knob was turned or TUNE was opened or closed."""
        raise NotImplementedError
