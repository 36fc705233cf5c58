"""The app: puts the screen before a chat, loads the model once the first frame is there, and leaves in good order."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from textual import events
from textual.actions import ActionParseResult
from textual.app import SystemCommand
from textual.command import CommandList, CommandPalette
from textual.dom import DOMNode
from textual.filter import DimFilter, LineFilter
from textual.message_pump import MessagePump
from textual.screen import Screen
from textual.theme import Theme
from textual.widgets import Input, TextArea

from termchat.chat.changes import Notice
from termchat.chat.service import Chat
from termchat.engine.port import EngineError
from termchat.models.errors import ModelError
from termchat.text import sanitize
from termchat.tui.draw.field import Field
from termchat.tui.keys.key import NO_KEY, key_of, keys_of, remap
from termchat.tui.keys.tables import (
    APP,
    CHAT,
    COMPOSER,
    KEYS,
    LESSON,
    MODEL,
    TOKENS,
    WALKS,
    actions,
    group_of,
    lacking,
    name_of,
    way_to,
)
from termchat.tui.lessons.learning import Learning
from termchat.tui.lists.gather import Models, SessionList
from termchat.tui.screen.notices import in_short
from termchat.tui.screen.screen import ChatScreen
from termchat.tui.slash.slash import attach
from termchat.tui.terminal.capabilities import EVERYTHING, Abilities
from termchat.tui.terminal.input_stream import BackgroundIs, TypeAhead, burst_of
from termchat.tui.terminal.screens import ClosedOnce, LeavingApp
from termchat.tui.themes.library import ThemeChooser
from termchat.tui.themes.theme_file import AUTO, textual_theme

if sys.platform != "win32":
    from termchat.tui.terminal.driver import Terminal, TerminalGone

HANGUP = 1
"""The number of SIGHUP, for terminals that vanish without one."""
_KEY_SIGNALS = ("SIGINT", "SIGQUIT")
"""What keys send."""


class Menu(CommandPalette, ClosedOnce[None]):
    """Textual's palette."""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Refuse to move by pages where the terminal is too low to show one, at which Textual fails."""
        by_page = action == "command_list" and parameters[0] in ("page_up", "page_down")
        return not by_page or bool(self.query_one(CommandList).scrollable_content_region)


class TermchatApp(LeavingApp):
    """The whole app. Its return code is 0, or 128 and the number of the signal that ended it.

    Args:
        chat: its engine need not run yet.
        load: loads the model, after the first frame, and returns the faults of the lists in which it was looked up; raises
            ModelError without one: the list of models then opens.
        models: the known models; None looks for them as the user configured.
        sessions: the saved chats, if chats are saved.
        theme: a theme's name, or "auto": dark or light, as the terminal's background is.
        theme_place: the file and line that asks for the theme, or "".
        keeps_theme: save a theme that is chosen in the config file.
        abilities: the colours and glyphs of the terminal.
        mistakes: faults of the configuration.
        notices: other notices for the start.
        close: called once when the app ends, after the engine has ended, however it ends.
        keymap: id of a key (see `termchat.tui.keys`) to other keys.
        lesson: the lesson to begin with, "" lists them; None: none.
        big: the screen is for a projector.
    """

    CSS = """
    CommandPalette > Vertical { margin-top: 1; }
    CommandPalette SearchIcon { display: none; }
    TextArea .text-area--cursor {
        color: $input-cursor-foreground; background: $input-cursor-background; text-style: $input-cursor-text-style;
    }
    """
    BINDINGS = [key.binding for key in APP]  # noqa: RUF012
    ENABLE_COMMAND_PALETTE = True

    def __init__(
        self,
        chat: Chat,
        load: Callable[[Chat], Iterable[str]] = lambda _: (),
        *,
        models: Models | None = None,
        sessions: SessionList | None = None,
        theme: str = AUTO,
        theme_place: str = "",
        keeps_theme: bool = False,
        abilities: Abilities = EVERYTHING,
        mistakes: Iterable[str] = (),
        notices: Iterable[Notice] = (),
        close: Callable[[], object] = lambda: None,
        keymap: Mapping[str, str] | None = None,
        lesson: str | None = None,
        big: bool = False,
    ) -> None:
        super().__init__(driver_class=Terminal if sys.platform != "win32" else None)
        remap(keymap or {})
        self.set_keymap({id: keys or NO_KEY for id, keys in (keymap or {}).items()})
        self.asks_background = abilities.depth != "none"
        names = (name for key in (*CHAT, *MODEL, *TOKENS, *APP, *COMPOSER) for name in keys_of(key))
        self.alt_keys, self.quit_keys = {name for name in names if name.startswith("alt+")}, keys_of(KEYS["quit"])
        self.unread: set[int] = set()
        """What the terminal's thread has sent and nobody has taken in: ids of the events."""
        self._load, self._models, self._lesson = load, models or Models(), lesson
        self._at_end, self._ended = close, False
        self._typed = TypeAhead(self, self._take)
        self._begun = self._written = False
        self._left: int | None = None
        self._line_filters = [*(f for f in super().get_line_filters() if isinstance(f, DimFilter)), *abilities.filters]
        self.theme_chooser, self._keeps_theme = ThemeChooser(abilities.depth, theme, contrast=big), keeps_theme
        others = list(notices)
        wrong = [
            *(Notice(mistake, severity="warning") for mistake in mistakes),
            *self.theme_chooser.missing(theme_place),
        ]
        self._notices = [*in_short(wrong, len(others)), *others]
        self.palette = self.theme_chooser.of(theme)
        """The colours for widgets that draw their own lines."""
        self.show_theme(self.theme_chooser.wanted)
        self._styled = self.current_theme
        self.stylesheet.set_variables(self.get_css_variables())
        options: dict[str, Any] = {
            "models": self._models,
            "sessions": sessions,
            "theme_chooser": self.theme_chooser,
            "big": big,
        }
        own = ChatScreen(chat, self.palette, **options)
        attach(own)
        self.learning = Learning(own, options, attach)

    @property
    def _chat_screen(self) -> ChatScreen:
        """The screen of the chat that is shown."""
        return self.learning.screen

    @property
    def chat(self) -> Chat:
        """The chat that is shown."""
        return self._chat_screen.chat

    @property
    def typing(self) -> bool:
        """Whether a key that came has not been handled yet; who plays a lesson waits for that."""
        return self._typed.busy

    def get_default_screen(self) -> Screen[None]:
        return self.learning.own

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Return our own filters: Textual's turn the terminal's colours into others, and no colours into greys."""
        return self._line_filters

    def show_theme(self, wanted: str) -> None:
        """Show a theme, or for "auto" the one that suits the background."""
        before, self.palette = self.palette, self.theme_chooser.of(wanted)
        self.register_theme(textual_theme(self.palette))
        self.theme = self.palette.name
        if before.name == self.theme and before != self.palette:
            self.mutate_reactive(TermchatApp.theme)  # other colours under the same name

    def refresh_css(self, animate: bool = True) -> None:
        """Read the style sheets again if the theme is another one: to read them takes as long as to draw the first frame."""
        if self._styled is not self.current_theme:
            self._styled = self.current_theme
            super().refresh_css(animate)

    def action_keep_theme(self, wanted: str) -> None:
        """Show a theme now and at the next start."""
        from termchat.config import file  # not needed before the first frame

        changed, self.theme_chooser.wanted = wanted != self.theme_chooser.wanted, wanted
        self.show_theme(wanted)
        if changed and self._keeps_theme:
            try:
                file.put("theme", wanted)
            except file.ConfigFileError as problem:
                self._chat_screen.tell(Notice(str(problem), "the theme lasts until you quit", "warning"))

    def on_load(self) -> None:
        """Listen to signals before the driver changes the terminal, so that the terminal is always restored."""
        self._listen("SIGTERM", "SIGHUP", *_KEY_SIGNALS)

    def _listen(self, *names: str) -> None:
        if sys.platform != "win32":
            loop = asyncio.get_running_loop()
            for name in names:
                number = getattr(signal, name)
                loop.add_signal_handler(number, self.leave, 128 + number)

    @contextmanager
    def suspend(self) -> Iterator[None]:
        """Give the terminal to another program, whose Ctrl+C is its own, though all processes of the terminal get it.

        Nothing is drawn meanwhile: the terminal's own thread for that has ended.
        """
        with self.batch_update(), super().suspend():
            if sys.platform != "win32":
                loop = asyncio.get_running_loop()
                for name in _KEY_SIGNALS:  # not SIG_IGN, which the program would inherit
                    loop.add_signal_handler(getattr(signal, name), lambda: None)
            try:
                yield
            finally:
                self._listen(*_KEY_SIGNALS)

    def on_mount(self) -> None:
        self.theme_changed_signal.subscribe(self, self._paint)
        # The terminal shows nothing of ours when it is taken over again, and Textual would only draw what changes.
        self.app_resume_signal.subscribe(self, lambda _: self.refresh())
        self.call_after_refresh(self._begin)

    def on_unmount(self) -> None:
        self.close()

    def _paint(self, _theme: Theme) -> None:
        for screen in self.learning.screens:
            screen.paint_with(self.palette)

    async def on_event(self, event: events.Event) -> None:
        """Queue keys and pastes, so that each is handled before the next; note clicks for the chat. Drop all input on the way
        out."""
        if isinstance(event, (events.Key, events.Paste)) and not event.is_forwarded:
            await self._typed.add(event)
            return
        self.unread.discard(id(event))
        if self._ended and isinstance(event, events.InputEvent):
            return
        if isinstance(event, events.MouseDown) and not event.is_forwarded:
            self._chat_screen.note_input(event)
        await super().on_event(event)

    async def _take(self, event: events.Event) -> MessagePump | None:
        """Tell the chat of a key or a paste before anybody else takes it. Ctrl+C leads out of any dialog, Ctrl+Space from
        one to the keys of a lesson. See `TypeAhead`."""
        if not self.screen.is_mounted:  # what it is made of is not there yet, and would be asked for
            self._typed.waiting.appendleft(event)
            return self.screen
        self.unread.discard(id(event))
        if self._ended:
            return None
        chat, taker = self._chat_screen, self.focused or self.screen
        chat.note_input(event)
        if isinstance(event, events.Key) and event.key in chat.interrupts and self.screen is not chat:
            self.screen.dismiss(None)
            chat.ask_to_quit()
            return taker
        is_covered = self.learning.strip is not None and self.screen is not chat
        if is_covered and isinstance(event, events.Key) and actions(CHAT).get(event.key) == "app.learn":
            self.learning.uncover()
            return taker
        if (typed := self._text_for(event)) is not None:
            text, takes = typed
            if not takes(text):
                chat.take_text()
                taker = chat.focused or chat
            elif isinstance(event, events.Paste):
                for character in filter(str.isprintable, text):
                    await super().on_event(events.Key(key_of(character), character))
                return taker
        if isinstance(event, events.Paste) and isinstance(taker, Input) and not isinstance(taker, Field):
            event = events.Paste(sanitize(event.text))  # the palette's, which draws what it holds
        await super().on_event(event)
        written = isinstance(event, events.Key) and event.is_printable and isinstance(taker, (Input, TextArea))
        self._written |= written or isinstance(event, events.Paste)
        return None if written else taker

    def _text_for(self, event: events.Event) -> tuple[str, Callable[[str], bool]] | None:
        """Return the text that comes where letters are keys, with the test whether that place takes it: a paste, letters that
        came at once, or a slash. None for keys, and where a field takes all that is typed."""
        if isinstance(self.focused, (Input, TextArea)) or not isinstance(event, (events.Key, events.Paste)):
            return None
        slash = "/" if isinstance(event, events.Key) and event.character == "/" else ""
        text = event.text if isinstance(event, events.Paste) else burst_of(event) or slash
        if not text:
            return None
        screen, on_chat = self.screen, self.screen is self._chat_screen
        group = group_of(self._chat_screen.place if on_chat else getattr(screen, "KEYS", ""))
        if group is None or (group.written and (on_chat or not screen.is_mounted or screen.query("Input, TextArea"))):
            return None
        return text, getattr(screen, "takes", group.takes)

    def copy_to_clipboard(self, text: str) -> None:
        """Copy through the terminal and with the system's tool."""
        self._chat_screen.copy_to_clipboard(text)

    def leave(self, code: int = 0) -> None:
        """End the reply and the engine, save, restore the terminal and end the app; wait for the first frame, since widgets
        that are being mounted cannot be removed.
        """
        self.close()
        if self._begun:
            self.exit(return_code=code)
        else:
            self._left = code

    def close(self) -> None:
        """End the engine, then call `close`; a second call does nothing."""
        if not self._ended:
            self._ended = True
            try:
                for screen in self.learning.screens:
                    screen.keep_unsent()
                self._models.close()
                self.chat.close()
            finally:
                self._at_end()

    def action_command_palette(self) -> None:
        if not isinstance(self.screen, Menu):
            self.push_screen(Menu())  # without an id: one that was closed just now may still have it

    async def action_quit(self) -> None:
        if not self.chat.unsaved:
            self.leave()
            return
        if self.screen is not self._chat_screen:
            self.screen.dismiss(None)  # what it is asked is read beneath
        self._chat_screen.ask_to_quit("quit")

    def action_keys(self) -> None:
        from termchat.tui.lists.small_dialogs import KeyList  # not needed before the first frame

        if isinstance(self.screen, KeyList):
            self.screen.dismiss(None)
        else:
            place = self._chat_screen.place if self.screen is self._chat_screen else getattr(self.screen, "KEYS", "")
            self.push_screen(KeyList(self.palette, place))

    def action_learn(self) -> None:
        self.learning.toggle()

    def action_open_lesson(self, name: str) -> None:
        self.learning.open_named(name)

    def action_lesson(self, what: str, *arguments: object) -> None:
        self.learning.act(what, *arguments)

    def action_press(self, key: str) -> None:
        event = events.Key(key_of(key) if len(key) == 1 else key, None)
        event.set_sender(self)  # like one from the terminal: it goes up to the app, where bindings are looked up
        self.post_message(event)

    def action_theme(self) -> None:
        from termchat.tui.lists.small_dialogs import ThemePicker  # not needed before the first frame

        if not isinstance(self.screen, ThemePicker):
            self.theme_chooser.renew()  # whoever writes a theme comes here to see it
            self.show_theme(self.theme_chooser.wanted)
            picker = ThemePicker(self.theme_chooser, self.show_theme)
            self.push_screen(picker, lambda wanted: self.action_keep_theme(wanted or self.theme_chooser.wanted))

    def action_help_quit(self) -> None:
        self._chat_screen.action_interrupt()

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        if screen is self._chat_screen:
            lesson = LESSON if self.learning.strip is not None else ()
            for key in (*CHAT, *MODEL, *TOKENS, *lesson, *APP):
                if key.palette:
                    need = lacking(key, self.chat.offers)
                    refused = self.chat.find_refusal(need) if need is not None else None
                    help = refused.message if refused is not None else key.help
                    keys = way_to(key.id)
                    help = f"{keys}  {help}" if keys else help
                    yield SystemCommand(key.palette, help, lambda key=key: screen.run_key(key))
        for name in (AUTO, *self.theme_chooser.all()):
            yield SystemCommand(f"Theme {name}", f"The {name} colours", lambda name=name: self.action_keep_theme(name))

    async def run_action(
        self,
        action: str | ActionParseResult,
        default_namespace: DOMNode | None = None,
        namespaces: Mapping[str, DOMNode] | None = None,
    ) -> bool:
        """Run an action, by key, click, palette or command; refuse with a reason what the engine does not offer. On the way out
        ignore all."""
        if self._ended:
            return True
        typing = self._chat_screen.tokens.typing is not None  # Enter is then the line's own
        if self.screen is self._chat_screen and isinstance(action, str) and not typing:
            needs = (lacking(key, self.chat.offers) for key in (*TOKENS, *WALKS, *MODEL) if key.action == action)
            need = next((need for need in needs if need is not None), None)
            if need is not None and (refused := self.chat.find_refusal(need)) is not None:
                self._chat_screen.tell(Notice(*refused))
                return True
        return await super().run_action(action, default_namespace, namespaces)

    async def _begin(self) -> None:
        self._begun = True
        await self._typed.begin()
        if self._left is not None:
            self.leave(self._left)
            return
        gc.freeze()  # what is there by now stays, an opened chat too: a full collection over it would stop the screen
        gc.enable()
        missing, mistakes = "", list[Notice]()
        try:
            for mistake in self._load(self.chat):
                mistakes.append(Notice(mistake, severity="warning"))
        except ModelError as error:
            missing = f"{error.message}. {error.hint}".strip()
        except (OSError, EngineError) as error:
            self._notices.append(Notice(str(error), "the engine could not be started", "error"))
        for notice in in_short(mistakes, len(self._notices)):
            self._chat_screen.tell(notice)
        self._chat_screen.tick()
        for notice in self._notices:  # not before: the load of a model takes errors away
            self._chat_screen.tell(notice)
        if missing:
            self.call_later(self._offer_models, missing)  # after the keys that have come by now
        else:
            self.call_later(self._learn)

    def _learn(self) -> None:
        """Begin the lesson with which the app was started."""
        if self._lesson is not None:
            self.learning.open_named(self._lesson)

    def _offer_models(self, missing: str) -> None:
        """Open the list of models; say where it is instead if a message is being written, whose keys it would take."""
        if self._written:
            self._chat_screen.tell(Notice(missing, f"{name_of('models')} lists all models", "warning"))
        else:
            self._chat_screen.choosing.open(missing, self._learn)

    if sys.platform != "win32":

        def on_background_is(self, message: BackgroundIs) -> None:
            """Follow the terminal's background."""
            self.theme_chooser.dark = message.dark
            if self.theme_chooser.wanted == AUTO:
                self.show_theme(AUTO)

        def on_terminal_gone(self, _message: TerminalGone) -> None:
            """Leave: the terminal was closed."""
            self.leave(128 + HANGUP)
