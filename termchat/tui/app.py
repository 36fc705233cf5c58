"""The app: puts the screen before a chat, loads the model once the first frame is there, and leaves in good order."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from textual import events
from textual.app import App, SystemCommand
from textual.filter import ANSIToTruecolor, LineFilter
from textual.screen import Screen
from textual.widgets import Input

from termchat.chat.changes import Notice
from termchat.chat.service import Chat
from termchat.engine.port import EngineError, ModelSpec
from termchat.text import sanitize
from termchat.tui.gathering import Models
from termchat.tui.keys import APP, CHAT, MODEL, TOKENS, Key
from termchat.tui.screens.chat import ChatScreen
from termchat.tui.sessionlist import SessionList
from termchat.tui.themes import LoadedTheme, Palette, load_themes
from termchat.tui.widgets.field import Field

if sys.platform != "win32":
    from termchat.tui.terminal import BackgroundIs, Terminal, TerminalGone

HANGUP = 1
"""The number of SIGHUP, for terminals that vanish without one."""


def _cannot_save(_path: Path) -> None:
    raise ValueError("this chat is not recorded")


class TermchatApp(App[None]):
    """The whole app. Its return code is 0, or 128 and the number of the signal that ended it.

    Args:
        chat: its engine need not run yet; `chat.load(spec)` is called after the first frame.
        spec: the model to load; None where there is none.
        missing: why there is none; the list of models then opens with it.
        models: those that there are; None looks for them as the user configured.
        sessions: the saved chats; None where none are kept.
        theme: a theme's name, or "auto": dark or light, as the terminal's background is.
        notices: what a person should read at the start.
        save: writes a transcript to a path; raises OSError or ValueError.
        close: called once when the app ends, after the engine has ended, however it ends.
        keymap: id of a key (see `termchat.tui.keys`) to other keys.
    """

    CSS = """
    CommandPalette > Vertical { margin-top: 1; }
    CommandPalette SearchIcon { display: none; }
    """
    BINDINGS = [key.binding for key in APP]  # noqa: RUF012
    ENABLE_COMMAND_PALETTE = True

    def __init__(
        self,
        chat: Chat,
        spec: ModelSpec | None,
        *,
        missing: str = "",
        models: Models | None = None,
        sessions: SessionList | None = None,
        theme: str = "auto",
        notices: Iterable[Notice] = (),
        save: Callable[[Path], None] = _cannot_save,
        close: Callable[[], None] = lambda: None,
        keymap: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(driver_class=Terminal if sys.platform != "win32" else None)
        self.chat = chat
        self.asks_background = theme == "auto"
        self._spec, self._notices, self._at_end, self._ended = spec, list(notices), close, False
        self._missing, self._models = missing, models or Models()
        self._themes, problems = load_themes()
        self._notices += [Notice(str(problem), severity="warning") for problem in problems]
        for loaded in self._themes.values():
            self.register_theme(loaded.theme)
        self.theme = self._find_theme(theme)
        keys = dict(keymap or {})
        self._chat_screen = ChatScreen(
            chat,
            self.palette,
            models=self._models,
            sessions=sessions,
            keymap=keys,
            save=save,
            leave=self.leave,
        )
        self.set_keymap(keys)

    @property
    def palette(self) -> Palette:
        """The colours for widgets that draw their own lines."""
        return self._loaded(self.theme).palette

    def get_default_screen(self) -> Screen[None]:
        """The chat."""
        return self._chat_screen

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Without the one that turns the terminal's own colours into ours: all that we draw has ours."""
        return [
            line_filter for line_filter in super().get_line_filters() if not isinstance(line_filter, ANSIToTruecolor)
        ]

    def on_mount(self) -> None:
        """Listens to signals, and goes on once the first frame is there."""
        loop = asyncio.get_running_loop()
        for name in ("SIGTERM", "SIGHUP", "SIGINT"):
            if sys.platform != "win32":
                number = getattr(signal, name)
                loop.add_signal_handler(number, self.leave, 128 + number)
        self.theme_changed_signal.subscribe(self, lambda _: self._chat_screen.paint_with(self.palette))
        # The terminal shows nothing of ours when it is taken over again, and Textual would only draw what changes.
        self.app_resume_signal.subscribe(self, lambda _: self.refresh())
        self.call_after_refresh(self._begin)

    def on_unmount(self) -> None:
        """The last chance to end the engine and to close the store."""
        self.close()

    async def on_event(self, event: events.Event) -> None:
        """Tells the chat of every key, paste and click before anybody else takes it. Ctrl+C leads out of any dialog."""
        if isinstance(event, (events.Key, events.Paste, events.MouseDown)) and not event.is_forwarded:
            chat = self._chat_screen
            chat.noticed(event)
            if isinstance(event, events.Key) and event.key in chat.interrupts and self.screen is not chat:
                self.screen.dismiss(None)
                chat.ask_to_quit()
                return
        if isinstance(event, events.Paste) and isinstance(self.focused, Input) and not isinstance(self.focused, Field):
            event = events.Paste(sanitize(event.text))  # the palette's, which draws what it holds
        await super().on_event(event)

    def leave(self, code: int = 0) -> None:
        """Ends the reply and the engine, saves, restores the terminal and ends the app."""
        self.close()
        self.exit(return_code=code)

    def close(self) -> None:
        """Ends the engine, then calls what was given to be called last; a second call does nothing."""
        if not self._ended:
            self._ended = True
            mode = self._chat_screen.tokens.mode
            try:
                if mode.open:
                    mode.keep()
                self._models.close()
                self.chat.close()
            finally:
                self._at_end()

    async def action_quit(self) -> None:
        """Ends the app."""
        self.leave()

    def action_help_quit(self) -> None:
        """Ctrl+C where nothing else takes it."""
        self._chat_screen.action_interrupt()

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Everything there is to do, for the palette."""
        if screen is self._chat_screen:
            for key in (*CHAT, *MODEL, *TOKENS, *APP):
                if key.palette:
                    yield SystemCommand(key.palette, key.help, lambda key=key: self._act(key))
        for name in self._themes:
            yield SystemCommand(f"Theme {name}", f"The {name} colours", lambda name=name: setattr(self, "theme", name))

    async def _act(self, key: Key) -> None:
        owner = self if key in APP else self._chat_screen.tokens if key in TOKENS else self._chat_screen
        await self.run_action(key.action, owner)

    def _begin(self) -> None:
        gc.freeze()  # what is there by now stays, an opened chat too: a full collection over it would stop the screen
        for notice in self._notices:
            self._chat_screen.tell(notice)
        if self._spec is not None:
            try:
                self.chat.load(self._spec)
            except (OSError, EngineError) as error:
                self._chat_screen.tell(Notice(str(error), "the engine could not be started", "error"))
        self._chat_screen.tick()
        if self._missing:
            self._chat_screen.action_models(self._missing)

    def _loaded(self, name: str) -> LoadedTheme:
        return self._themes.get(name) or next(iter(self._themes.values()))

    def _find_theme(self, name: str) -> str:
        if name == "auto":
            name = _guessed()
        elif name not in self._themes:
            known = ", ".join(["auto", *self._themes])
            self._notices.append(Notice(f"there is no theme {name!r}", f"there are {known}", "warning"))
        return self._loaded(name).theme.name

    if sys.platform != "win32":

        def on_background_is(self, message: BackgroundIs) -> None:
            """Follows the terminal's background."""
            name = "dark" if message.dark else "light"
            if name in self._themes:
                self.theme = name

        def on_terminal_gone(self, _message: TerminalGone) -> None:
            """Nobody is there any more."""
            self.leave(128 + HANGUP)


def _guessed() -> str:
    """Dark or light, by what some terminals say in COLORFGBG: "15;0" is white on black."""
    background = os.environ.get("COLORFGBG", "").rpartition(";")[2]
    return "light" if background in ("7", "15") else "dark"
