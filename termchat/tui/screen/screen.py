"""The screen of a chat: its widgets, who has the keyboard, and the chat's changes shown."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from textual import events
from textual.app import ComposeResult
from textual.reactive import Reactive
from textual.timer import Timer
from textual.widget import Widget

from termchat.chat.changes import Change, DrafterChanged, Notice, PathChanged, ReplyGrew
from termchat.chat.service import Chat
from termchat.tui.composer.chat_composer import ChatComposer
from termchat.tui.composer.composer import Composer
from termchat.tui.constraint.constraint_setting import ConstraintSetting
from termchat.tui.draw.background import FRAMES
from termchat.tui.draw.ink import Ink, Line, Run
from termchat.tui.draw.lines_view import Column, LinesView, Row
from termchat.tui.keys.key import Key, Label, keys_of
from termchat.tui.keys.tables import (
    APP,
    CHAT,
    KEYS,
    MODEL,
    NO_LIGHTS,
    NOT_OTHERWISE,
    TOKENS,
    Lights,
    situation_of,
    way_to_type,
)
from termchat.tui.lists.gather import Models, SessionList
from termchat.tui.lists.switching import ChatSwitching, ModelSwitching
from termchat.tui.lists.welcome import welcome_lines
from termchat.tui.pages.panels import ALONE, Panels
from termchat.tui.pages.token_bar import Legend, Tokens
from termchat.tui.pages.tune_mode import Tune
from termchat.tui.pages.turn_versions import TurnVersions
from termchat.tui.screen.actions import ChatActions
from termchat.tui.screen.ask_line import AskLine, MessageEdit
from termchat.tui.screen.header_line import header_line
from termchat.tui.screen.key_line import KeyLine, asked_line, key_line, tune_line
from termchat.tui.screen.notices import NoticeSlip, wrapped
from termchat.tui.screen.walks_view import WalksView
from termchat.tui.terminal.screens import draw_now
from termchat.tui.themes.library import ThemeChooser
from termchat.tui.themes.theme_file import Palette
from termchat.tui.transcript import TranscriptView

if TYPE_CHECKING:
    from termchat.tui.pages.drafts import ReplyDrafts

_BACK_TO_WALKS = {"back": "walks"}
"""What the keys do otherwise while a message is written below several replies."""
INVITATION = "write a message"
_SMALLEST = (40, 12)
_TALL = 30
"""From so many rows on the ribbon says what its colours mean."""


_ANSWERS = ("why", "what-if", "ending")
"""What token mode shows on the page of the token, when it is asked for."""


class ChatScreen(ChatActions):
    """One chat.

    Args:
        models: those that there are.
        sessions: the saved chats; None where none are kept.
        big: it is for a projector.
    """

    DEFAULT_CSS = """
    ChatScreen { background: $background; }
    ChatScreen #main { height: 1fr; }
    ChatScreen TranscriptView, ChatScreen #welcome { height: 1fr; }
    ChatScreen #small { display: none; height: 1fr; }
    ChatScreen Panels { display: none; }
    ChatScreen.-panels Panels { display: block; }
    ChatScreen.-wide Panels { width: 60; }
    ChatScreen.-projector Panels { width: 50%; min-width: 47; }
    ChatScreen.-alone.-panels #chat { display: none; }
    ChatScreen.-alone.-panels Panels { width: 1fr; }
    ChatScreen.-big #main { layout: vertical; }
    ChatScreen.-big #chat, ChatScreen.-big.-alone.-panels #chat { display: block; height: auto; }
    ChatScreen.-big Panels { display: block; width: 1fr; }
    ChatScreen #bottom, ChatScreen #bottom > Row { height: auto; }
    ChatScreen #bottom AskLine { visibility: hidden; }
    ChatScreen #prompt { width: 3; }
    ChatScreen.-small { & #small { display: block; } & #header, & #main, & #bottom { display: none; } }
    """
    BLANK = True
    BINDINGS = [key.binding for key in (*CHAT, *MODEL)]  # noqa: RUF012
    focused: Reactive[Widget | None] = Reactive(None, repaint=False)
    """Who has the keyboard: those who get and lose it draw themselves, and nobody else has to."""

    def __init__(
        self,
        chat: Chat,
        palette: Palette,
        *,
        models: Models,
        sessions: SessionList | None,
        theme_chooser: ThemeChooser,
        big: bool = False,
    ) -> None:
        super().__init__()
        self.chat, self.palette = chat, palette
        self.models, self.theme_chooser = models, theme_chooser
        self._header, self._welcome, self._small = (LinesView(id=name) for name in ("header", "welcome", "small"))
        self.transcript = TranscriptView(palette)
        self._edit = MessageEdit(self)
        self._notices = NoticeSlip(self, self._edit)
        self._walks = WalksView(self)
        self._legend = Legend(self.transcript, lambda: chat.conversation.find_reply())
        self.tokens = Tokens(chat, self.transcript)
        self.own_tune = Tune(chat)
        self._tuned = chat.conversation
        self.panels = Panels(self.own_tune, asked=big)
        self.composer = ChatComposer(chat, self.transcript, placeholder=INVITATION)
        self._ask_line, self._prompt = AskLine(self), LinesView(id="prompt")
        self._keys = KeyLine(self, self._ask_line)
        self.set_class(big, "-projector")
        self._suspended = False
        self._versions = TurnVersions(chat, self.transcript)
        self.choosing = ModelSwitching(self, models)
        self.conversations = ChatSwitching(self, sessions)
        self.constraining = ConstraintSetting(self)
        self.interrupts = {"ctrl+c", *keys_of(KEYS["interrupt"])}
        self._timer: Timer | None = None
        """Looks at the chat while something runs; there once the screen is mounted."""
        self._watched = -1
        """The engine's descriptor, while that wakes the screen; -1 for none."""
        self._attempts = 0
        """Loads of a model by now."""
        self._has_changes = False
        """Whether the chat has changed since the last tick."""
        self._in_tokens = False
        """Whether token mode was open when it last acted."""
        self._token_view = "record"
        self._drafts: ReplyDrafts | None = None
        self._working: tuple[object, ...] = ()
        """What the keys on the line depended on when it was rendered."""
        self._key_line = Line(())

    # --- the screen --------------------------------------------------------------------------------------------------

    def compose(self) -> ComposeResult:
        # As the first size has it, before there are widgets whose styles would be found anew.
        self.panels.fit(self.app.size.width, self)
        self.tokens.set_class(self.app.size.height >= _TALL, "-tall", update=False)
        yield self._header
        with Row(id="main"):
            with Column(id="chat"):
                yield self._welcome
                yield self.transcript
                yield self._walks
                yield self._legend
                yield self.tokens
                yield self._notices
            yield self.panels
        yield from self.compose_strip()
        with Column(id="bottom"):
            yield self._ask_line
            yield self.composer.popup
            yield self.composer.edge
            with Row():
                yield self._prompt
                yield self.composer
            yield self._keys
        yield self._small

    def compose_strip(self) -> Iterable[Widget]:
        """Yield what stands above the composer."""
        return ()

    def on_mount(self) -> None:
        self.paint_with(self.palette)
        self._prompt.show_lines([Line((("›", Ink("accent", bold=True)),))])
        self._timer = self.set_interval(1 / FRAMES, self.tick, pause=True)
        self.chat.on_change = self._hear
        self._listen()
        self.tokens.find()
        self._show_path()
        self.composer.focus()

    def on_unmount(self) -> None:
        self.chat.on_change = lambda: None
        if (store := self.chat.session.store) is not None and not self.chat.lesson:
            store.listen(None)
        self._forget_engine()

    def _listen(self) -> None:
        """Hear of the store, if saving fails or works again, also while nothing else happens; and of models."""
        self.choosing.listen()
        if (store := self.chat.session.store) is not None:
            store.listen(self._nudge)

    def _nudge(self) -> None:
        """Have the chat looked at; called in any thread."""
        with suppress(RuntimeError):  # the loop is closed: there is no screen any more
            self.call_later(self.tick)

    def keep_unsent(self) -> None:
        """Save the draft and the place of the token cursor with the chat."""
        self.composer.keep_draft()
        if self.tokens.is_open:
            self.tokens.keep()

    def suspend(self) -> None:
        """Neither draw nor react while the screen of another chat is above this one."""
        self.keep_unsent()
        self._suspended = True
        self._forget_engine()
        if self._timer is not None:
            self._timer.pause()

    def resume(self) -> None:
        """Draw and react again: the screen above is gone."""
        self._suspended = False
        self._listen()
        if self.size != self.app.size:
            self.on_resize(events.Resize(self.app.size, self.app.size))
        self.tick()
        self.show_soon()

    def on_resize(self, event: events.Resize) -> None:
        width, height = event.size
        small = width < _SMALLEST[0] or height < _SMALLEST[1]
        self.set_class(small, "-small")
        if not small and self.focused is None:
            # What had the keyboard was hidden, and is shown again before this is done.
            self.app.call_later(self.take_keyboard)
        self.tokens.set_class(height >= _TALL, "-tall")
        self.panels.fit(width)
        self.composer.fit(height)
        if small:
            needs = f"terminal too small ({width}x{height}), needs {_SMALLEST[0]}x{_SMALLEST[1]}"
            self._small.show_lines([Line(((line, Ink("warning")),)) for line in wrapped(needs, width - 2)])

    def paint_with(self, palette: Palette) -> None:
        self.palette = palette
        self.transcript.palette = palette
        for view in (
            self._header, self._welcome, self._small, self._legend, self._notices, self.panels, self.tokens, self._walks,
        ):  # fmt: skip
            view.paint_with(palette)
        for lines in self.query("#bottom LinesView").results(LinesView):
            lines.paint_with(palette)

    @property
    def lights(self) -> Lights:
        """Keys and pages that are pointed at."""
        return NO_LIGHTS

    @property
    def labels(self) -> Sequence[Label]:
        """Keys of the line above the composer, while it has the keyboard."""
        return self._ask_line.labels or self._edit.labels or self.tokens.asked

    @property
    def answers(self) -> str:
        """Words for the keys in the composer that are no text."""
        return ""

    @property
    def place(self) -> str:
        """The title of the group of keys that work now."""
        if self.tune is not None:
            return "TUNE"
        if self.tokens.is_open:
            return "TOKEN MODE"
        return "BIG VIEW" if self.panels.big else "WALKS" if self._walks.has_keyboard else "CHAT"

    def tell(self, notice: Notice) -> None:
        self._show_changes()  # what the chat has to say was first
        self._notices.tell(notice)

    def withdraw(self, message: str) -> None:
        self._notices.withdraw(message)

    def run_key(self, key: Key) -> None:
        """Do what a key does, as if it was pressed where it works."""
        owner = self.app if key in APP else self.tokens if key in TOKENS else self
        self.app.call_next(self.app.run_action, key.action, owner)

    # --- who has the keyboard ----------------------------------------------------------------------------------------

    def take_keyboard(self) -> None:
        home = self.panels if self.panels.big else self.under or self.composer
        home = self._keys if self.tune is not None else self.tokens.home if self.tokens.is_open else home
        self.set_focus(self._ask_line.home or home)

    def take_text(self) -> None:
        """Give the composer the keyboard, whatever has it: text comes."""
        while self.app.screen is not self:
            self.app.screen.dismiss(None)
        if self.tune is not None:
            self.close_tune()
        if self.tokens.is_open:
            self.tokens.leave()
        self.set_focus(self.composer)  # not focus(): the very next key is for it

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        widget = event.widget
        if widget is not self.focused:
            return  # a key that came meanwhile has given the keyboard to somebody else
        if widget is not self._ask_line.home:
            self._ask_line.leave()
        self.show_soon()
        # Neither the chat nor the line of keys has the keyboard if it is clicked; whoever clicks the composer wants to write.
        if isinstance(widget, TranscriptView) or (self.tune is None and widget is self._keys):
            self.take_keyboard()
        elif isinstance(widget, Composer) and self.tune is not None:
            self.close_tune()
        elif isinstance(widget, Composer) and self.tokens.is_open:
            self.tokens.leave()

    def open_tune(self, tune: Tune | None = None) -> None:
        self.panels.need("tune")
        self.tune = tune or self.own_tune
        self.set_focus(self._keys)  # not focus(): the very next key is for it
        self.show_knobs()

    def close_tune(self) -> None:
        self.knobs.drop()
        if self._ask_line.edits_knob:
            self._ask_line.leave()
        self.tune = None
        self.take_keyboard()
        self.show_knobs()

    def show_knobs(self) -> None:
        if self.tune is None:
            self.panels.release("tune")
        self.tokens.tune(self.tune is not None)
        self.show_soon()

    def on_panels_turned(self) -> None:
        self.show_knobs()

    # --- what the chat says ------------------------------------------------------------------------------------------

    def _hear(self) -> None:
        self._has_changes = True
        self.call_next(self._show_changes)

    def _show_changes(self) -> None:
        if self._has_changes:
            self.tick()

    def tick(self) -> None:
        """Pump the chat and show what changed. Called by the timer, the engine's pipe, and when the chat says so."""
        chat = self.chat
        if self._timer is None or self._suspended:
            return
        self._forget_engine()
        self._has_changes = False
        changes = chat.pump_events(0)
        self.heed(changes)
        moved = any(isinstance(change, PathChanged) for change in changes)
        if (moved and chat.busy) or chat.host.attempts != self._attempts:  # the next reply, or another model
            self._notices.forget_problems(warnings=False)
            self._attempts = chat.host.attempts
        if moved:
            if chat.conversation is not self._tuned:  # another chat has knobs of its own
                self._tuned = chat.conversation
                self.own_tune.forget()
                self._notices.forget()
            self._show_path()
        else:
            for change in changes:
                if isinstance(change, ReplyGrew) and not self._walks.open:
                    self.transcript.grew(change.number)
        self._walks.heard(changes)
        self.tokens.heard(changes)
        for change in changes:
            if isinstance(change, Notice):
                self._notices.tell(change)
            elif isinstance(change, DrafterChanged):
                self.models.drafts_with(change.sha256, change.draft_model)
        if changes:
            self._ask_line.follow_chat()
            self._edit.follow_chat()
            self.constraining.heard()
        self.composer.follow_chat()
        if changes:
            self._show_state()
        draw_now(self)
        if chat.busy or chat.phase == "loading":
            self._timer.resume()
        else:
            self._timer.pause()
            self._watch_engine()

    def _watch_engine(self) -> None:
        """Have the engine wake the screen once."""
        descriptor = self.chat.engine.fileno()
        if descriptor >= 0:
            asyncio.get_running_loop().add_reader(descriptor, self._wake)
            self._watched = descriptor

    def _forget_engine(self) -> None:
        """Take the engine's descriptor out of the loop: after the next look at the chat it may be gone."""
        if self._watched >= 0:
            asyncio.get_running_loop().remove_reader(self._watched)
            self._watched = -1

    def _wake(self) -> None:
        self._forget_engine()
        self.call_next(self.tick)

    def heed(self, changes: Sequence[Change]) -> None:
        """Take in what the chat reports before it is shown."""

    def _show_path(self) -> None:
        empty, walks = self.chat.conversation.leaf is None, self.chat.walks.shown is not None
        self._walks.display = walks and not self.panels.big
        self._welcome.display = empty and not walks and not self.panels.big
        self.transcript.display = not empty and not walks and not self.panels.big
        if self.transcript.display and not self.transcript.size:
            # At once: if another asks before that where widgets are, it never hears of its size.
            self.refresh(layout=True)
        self._versions.shown()
        self.transcript.show(self.chat.conversation, running=self.chat.busy)
        self._greet()

    def _greet(self) -> None:
        if self._welcome.display:
            self._welcome.show_lines([] if self.chat.lesson else welcome_lines(self.chat, self.room))

    def _show_state(self) -> None:
        self._stale = False
        chat = self.chat
        room = self._header.room
        self._header.show_lines([header_line(chat, room, self.models.downloads, self._draft_runs(room))])
        mode = self.tokens
        self.panels.lit = self.lights.pages
        self.show_panels()
        empty, big = chat.conversation.leaf is None, self.focused is self.panels
        walks = self._walks.has_keyboard
        situation = situation_of(chat.phase, empty=empty, tokens=mode.is_open, big=big, walks=walks)
        thinking = chat.thinking is not None
        below = self._walks.open and isinstance(self.focused, Composer)
        words = self._walks.words if walks else _BACK_TO_WALKS if below else NOT_OTHERWISE
        self._show_way()
        lit, labels, keys = self.lights.keys, self.labels, self._keys
        if labels:
            line = asked_line(labels, keys.room)
        elif self.tune is not None:
            line = tune_line(self.tune, keys.room, editing=self._ask_line.edits_knob)
        else:
            working = situation, keys.room, chat.offers, thinking, words, lit
            if working != self._working:  # to look through all tables costs a tenth of a frame
                self._working = working
                self._key_line = key_line(situation, keys.room, chat.offers, thinking=thinking, words=words, lit=lit)
            line = self._key_line
        keys.show_lines([line])
        self._legend.draw()
        self._notices.draw()
        self._greet()

    def _show_way(self) -> None:
        """Show who gets letters and digits now, if that is not the composer alone."""
        typing, composer = isinstance(self.focused, Composer), self.composer
        words = self.answers if typing else way_to_type(self.place)
        invitation = " · or ".join(filter(None, (words, "" if words and not typing else INVITATION)))
        if composer.placeholder != invitation:
            composer.placeholder = invitation
        composer.edge.head("" if composer.is_blank else words)

    @property
    def room(self) -> int:
        """Cells of a line in the chat's column; a widget that was not shown yet does not know its own."""
        shown = (view for view in (self.transcript, self._walks) if view.display)
        return (next(shown, self._welcome).size.width or self.app.size.width) - 2

    def on_lines_view_laid(self) -> None:
        self.show_soon()
        self._notices.draw()
        self.tokens.show()
        self._greet()

    # --- the panels --------------------------------------------------------------------------------------------------

    def show_panels(self) -> None:
        if not self.panels.display:
            return
        mode = self.tokens
        if mode.is_open:
            if mode.view != self._token_view and mode.view in _ANSWERS and not self.panels.big:
                self.panels.page = "chain"
            self._token_view = mode.view
        reply = self.tokens.transcript.cursor_reply if mode.is_open else self.chat.conversation.find_reply()
        tuning = self.tune is not None
        self.panels.show_reply(reply, self.knobs, mode if mode.is_open else None, tuning=tuning)

    def on_panels_computed(self) -> None:
        self.show_panels()

    def on_panels_pointed(self, event: Panels.Pointed) -> None:
        self.tokens.transcript.set_cursor(event.ref)

    def _draft_runs(self, width: int) -> list[Run]:
        """Render what drafts do for the newest reply, in so many cells; nothing for one that was over when the chat was opened:
        to read all of it may take a while."""
        reply = self.chat.conversation.find_reply()
        if not reply or not reply[-1].node.settings or reply[-1].node.settings[-1].draft is None:
            return []
        from termchat.tui.pages.drafts import ReplyDrafts, header_runs

        self._drafts = self._drafts or ReplyDrafts(self.chat)
        if reply[-1].node.done and not self._drafts.knows(reply):
            return []
        self._drafts.follow(reply)
        return header_runs(self._drafts, width)

    # --- news of widgets ---------------------------------------------------------------------------------------------

    def on_composer_submitted(self, event: Composer.Submitted) -> None:
        self._notices.forget_problems()
        if self._edit.send(event.text):
            return
        self.composer.send(event.text, event.written)
        self.choosing.remind()

    def on_composer_refused(self, event: Composer.Refused) -> None:
        self.tell(event.notice)

    def on_text_area_changed(self) -> None:
        self._show_way()

    def on_tokens_acted(self) -> None:
        is_open, was_open = self.tokens.is_open, self._in_tokens
        self._in_tokens = is_open
        if is_open and self.size.width >= ALONE:
            self.panels.need("tokens")
        elif was_open and not is_open:
            self.panels.release("tokens")
            if self.tune is None and self.focused is not self.composer:
                self.take_keyboard()
        self.show_soon()

    def on_transcript_view_cursor_moved(self) -> None:
        # A click on a token opens token mode; losing the cursor closes it.
        if self.tokens.transcript.cursor is not None and not self.tokens.is_open:
            self.tokens.enter()
        elif self.tokens.is_open and not self.tokens.pointed():
            self.tokens.leave()
        self.tokens.show()
        self.show_soon()

    def note_input(self, event: events.Event) -> None:
        """Note that the person did something, which answers whether to quit."""
        if not isinstance(event, events.Key) or event.key not in {*self.interrupts, *keys_of(KEYS["quit"])}:
            self._interrupted = ""
            self._notices.withdraw_question()
