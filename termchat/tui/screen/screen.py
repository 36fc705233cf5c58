"""The screen of a chat: what stands where, what the chat says shown there, and what a person does to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from textual import events
from textual.app import ComposeResult
from textual.reactive import Reactive
from textual.widget import Widget

from termchat.chat.changes import Change, DrafterChanged, Notice, PathChanged, ReplyGrew
from termchat.chat.service import Chat
from termchat.decoding.biases import format_bias as shown_bias
from termchat.tui.composer.composer import Composer
from termchat.tui.composer.sending import ChatComposer
from termchat.tui.constraint.constraint_setting import ConstraintSetting
from termchat.tui.draw.background import FRAMES, EnginePolling
from termchat.tui.draw.ink import Ink, Line
from termchat.tui.draw.lines_view import Column, LinesView, Row
from termchat.tui.keys.key import Label
from termchat.tui.keys.tables import CHAT, MODEL, NO_LIGHTS, NOT_OTHERWISE, Lights, name_of, situation_of, way_to_type
from termchat.tui.lists.chat_switching import ChatSwitching
from termchat.tui.lists.gather import Models
from termchat.tui.lists.model_switching import Heard, ModelSwitching
from termchat.tui.lists.session_list import SessionList
from termchat.tui.lists.welcome import welcome_lines
from termchat.tui.pages.panels import ALONE, Panels
from termchat.tui.pages.record import piece_of
from termchat.tui.pages.token_bar import Legend, Tokens
from termchat.tui.pages.tune import Tune
from termchat.tui.pages.turn_versions import TurnVersions
from termchat.tui.pages.walks_view import WalksView
from termchat.tui.screen.ask_actions import AskActions
from termchat.tui.screen.bottom_bar import INVITATION, BottomBar
from termchat.tui.screen.copy_actions import CopyActions
from termchat.tui.screen.dialog_table import DIALOGS, DialogScreen
from termchat.tui.screen.header_line import header_line
from termchat.tui.screen.notices import (
    NoticeSlip,
    full_lines,
    hidden_lines,
    notice_lines,
    queue_lines,
    what_continues,
    wrapped,
)
from termchat.tui.screen.panel_actions import PanelActions, newest_reply
from termchat.tui.screen.walking import Walking
from termchat.tui.terminal.screens import LeavingApp, draw_now
from termchat.tui.themes.library import ThemeChooser
from termchat.tui.themes.theme_file import Palette
from termchat.tui.transcript import TranscriptView
from termchat.tui.transcript.looks import LOOKS, next_look

Scroll = Literal["page_up", "page_down", "up", "down", "home", "end"]

_BACK_TO_WALKS = {"back": "walks"}
"""What the keys do otherwise while a message is written below several replies."""
_SMALLEST = (40, 12)
_TALL = 30
"""From so many rows on the ribbon says what its colours mean."""


class ChatScreen(PanelActions, AskActions, CopyActions, DialogScreen):
    """One chat.

    Args:
        models: those that there are.
        sessions: the saved chats; None where none are kept.
        keymap: id of a key to other keys, where it was remapped.
        keep_theme: shows a theme from now on.
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
    ChatScreen.-small { & #small { display: block; } & #header, & #main, & BottomBar { display: none; } }
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
        keymap: Mapping[str, str],
        theme_chooser: ThemeChooser,
        keep_theme: Callable[[str], None],
        big: bool = False,
    ) -> None:
        super().__init__()
        self.chat, self.palette = chat, palette
        self.models, self.theme_chooser, self.keep_theme = models, theme_chooser, keep_theme
        self._header, self._welcome, self._small = (LinesView(id=name) for name in ("header", "welcome", "small"))
        self._notices = NoticeSlip(self._lines_below, id="notice")
        self._shows_standing = False
        """Whether the place in a constraint is among the lines below the chat."""
        self.transcript = TranscriptView(palette)
        self._walks = WalksView(chat, palette)
        self._legend = Legend(self.transcript, lambda: newest_reply(chat.conversation))
        self.tokens = Tokens(chat, self.transcript)
        tune = Tune(chat)
        self.panels = Panels(tune, asked=big)
        self.composer = ChatComposer(chat, self.transcript, placeholder=INVITATION, keymap=keymap)
        self._bottom = BottomBar(self, tune)
        self.set_class(big, "-projector")
        self.dialog = ""
        """Name of the dialog that was opened last."""
        self._rests = False
        self._walking = Walking(self, self._walks)
        self._versions = TurnVersions(chat, self.transcript)
        self.choosing = ModelSwitching(self, models)
        self.conversations = ChatSwitching(self, sessions)
        self.constraining = ConstraintSetting(self)
        self.interrupts = {"ctrl+c", *keymap.get("interrupt", "").replace(" ", "").split(",")}
        self.quits = set(keymap.get("quit", "ctrl+q").replace(" ", "").split(","))
        self._interrupted: Literal["", "copied", "stopped"] = ""
        self._pulse: EnginePolling | None = None
        self._attempts = 0
        """Loads of a model by now."""
        self._has_changes = False
        """Whether the chat has changed since the last tick."""
        self._in_tokens = False
        """Whether token mode was open when it last acted."""

    # --- the screen --------------------------------------------------------------------------------------------------

    def compose(self) -> ComposeResult:
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
        yield self._bottom
        yield self._small

    def on_mount(self) -> None:
        self.paint_with(self.palette)
        timer = self.set_interval(1 / FRAMES, self.tick, pause=True)
        self._pulse = EnginePolling(timer, lambda: self.call_next(self.tick))
        self.chat.on_change = self._hear
        self._listen()
        self.tokens.mode.find()
        self._show_path()
        self.composer.focus()

    def on_unmount(self) -> None:
        self.chat.on_change = lambda: None
        if (store := self.chat.session.store) is not None and not self.chat.lesson:
            store.listen(None)
        if self._pulse is not None:
            self._pulse.stop()

    def _listen(self) -> None:
        """Hear of the store, if saving fails or works again, also while nothing else happens; and of models."""
        self.choosing.listen()
        if (store := self.chat.session.store) is not None and self._pulse is not None:
            store.listen(self._pulse.nudge)

    def rest(self) -> None:
        """Neither draw nor react while the screen of another chat is above this one."""
        self.composer.keep_draft()
        if self.tokens.mode.open:
            self.tokens.mode.keep()
        self._rests = True
        if self._pulse is not None:
            self._pulse.disarm()
            self._pulse.arm(-1, running=False)

    def go_on(self) -> None:
        """Draw and react again: the screen above is gone."""
        self._rests = False
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
            self._header, self._welcome, self._small, self._legend, self._notices, self.panels, self._bottom,
            self.tokens, self._walks, self._asking,
        ):  # fmt: skip
            if view is not None:
                view.paint_with(palette)

    @property
    def lights(self) -> Lights:
        """Keys and pages that are pointed at."""
        return NO_LIGHTS

    @property
    def labels(self) -> Sequence[Label]:
        """Keys of what stands above the composer, while it has the keyboard."""
        return self.asked_keys or self.tokens.asked

    @property
    def answers(self) -> str:
        """Words for the keys in the composer that are no text."""
        return ""

    @property
    def place(self) -> str:
        """The title of the group of keys that work now."""
        if self.tune is not None:
            return "TUNE"
        if self.tokens.mode.open:
            return "TOKEN MODE"
        return "BIG VIEW" if self.panels.big else "WALKS" if self._walking.has_keyboard else "CHAT"

    def tell(self, notice: Notice) -> None:
        self._show_changes()  # what the chat has to say was first
        self._notices.tell(notice)

    def withdraw(self, message: str) -> None:
        self._notices.withdraw(message)

    def forget_notices(self) -> None:
        self._notices.forget()

    # --- who has the keyboard ----------------------------------------------------------------------------------------

    def take_keyboard(self) -> None:
        home = self.panels if self.panels.big else self.under or self.composer
        self.set_focus(self._bottom.tune_home or (self.tokens.home if self.tokens.mode.open else home))

    def take_text(self) -> None:
        """Give the composer the keyboard, whatever has it: text comes."""
        while self.app.screen is not self:
            self.app.screen.dismiss(None)
        if self.tune is not None:
            self.close_tune()
        if self.tokens.mode.open:
            self.tokens.leave()
        self.set_focus(self.composer)  # not focus(): the very next key is for it

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        # The chat itself never has the keyboard, whatever is clicked; whoever clicks into the composer wants to write.
        if event.widget is not self.focused:
            return  # as in `BottomBar`
        self.leave_asked(event.widget)
        self.show_soon()
        if isinstance(event.widget, TranscriptView):
            self.take_keyboard()
        elif self.tokens.mode.open and isinstance(event.widget, Composer):
            self.tokens.leave()

    @property
    def knobs(self) -> Tune:
        return self._bottom.knobs

    @property
    def tune(self) -> Tune | None:
        return self._bottom.tune

    def open_tune(self, tune: Tune | None = None) -> None:
        self.panels.need("tune")
        self._bottom.open_tune(tune)

    def close_tune(self) -> None:
        self._bottom.close_tune()

    def show_knobs(self) -> None:
        if self.tune is None:
            self.panels.release("tune")
        self.tokens.mode.tune(self.tune is not None)
        self.show_soon()

    def on_key_line_turned(self) -> None:
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
        if self._pulse is None or self._rests:
            return
        self._pulse.disarm()
        self._has_changes = False
        changes = chat.pump_events(0)
        self.heed(changes)
        moved = any(isinstance(change, PathChanged) for change in changes)
        if (moved and chat.busy) or chat.host.attempts != self._attempts:  # the next reply, or another model
            self._notices.forget_problems(warnings=False)
            self._attempts = chat.host.attempts
        if moved:
            self._show_path()
        else:
            for change in changes:
                if isinstance(change, ReplyGrew) and not self._walking.open:
                    self.transcript.grew(change.number)
        self._walking.heard(changes)
        self.tokens.heard(changes)
        for change in changes:
            if isinstance(change, Notice):
                self._notices.tell(change)
            elif isinstance(change, DrafterChanged):
                self.choosing.drafts_with(change)
        if changes:
            self.follow_asked()
            self.constraining.heard()
        self.composer.follow_chat()
        self._bottom.follow()
        if changes:
            self._show_state()
        draw_now(self)
        self._pulse.arm(chat.engine.fileno(), running=chat.busy or chat.phase == "loading")

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
            self._welcome.show_lines([] if self.chat.lesson else welcome_lines(self.chat, self._room))

    def _show_state(self) -> None:
        self._stale = ""
        chat = self.chat
        room = self._header.room
        self._header.show_lines([header_line(chat, room, self.choosing.downloads, self.draft_runs(room))])
        mode = self.tokens.mode
        self.panels.lit = self.lights.pages
        self.show_panels()
        empty, big = chat.conversation.leaf is None, self.focused is self.panels
        walks = self._walking.has_keyboard
        situation = situation_of(chat.phase, empty=empty, tokens=mode.open, big=big, walks=walks)
        thinking = chat.thinking is not None
        below = self._walking.open and isinstance(self.focused, Composer)
        words = self._walking.words if walks else _BACK_TO_WALKS if below else NOT_OTHERWISE
        self._show_way()
        keys, lit = self._bottom.keys, self.lights.keys
        keys.show_keys(situation, self.labels, chat.offers, thinking=thinking, words=words, lit=lit)
        self._legend.draw()
        self._notices.draw()
        self.show_asked()
        self._greet()

    def _show_way(self) -> None:
        """Show who gets letters and digits now, if that is not the composer alone."""
        typing = isinstance(self.focused, Composer)
        self._bottom.show_way(self.answers if typing else way_to_type(self.place), instead=not typing)

    def _lines_below(self, notices: Sequence[Notice]) -> list[Line]:
        """Render the lines below the chat: notices, the queue, a full context, and the place of a reply in its constraint."""
        chat, room = self.chat, self._room
        lines = notice_lines(notices, room, what_continues(chat)) + hidden_lines(chat.walks.hidden)
        lines += queue_lines(chat.turns.queue, room, held=chat.replies.held)
        if chat.full is not None:
            lines += full_lines(chat.full, room, asks=chat.phase == "idle")
        mode = self.tokens.mode
        if self._shows_standing or chat.constraint is not None or chat.busy or mode.open:
            from termchat.tui.constraint.constraint_line import constraint_line  # rarely needed

            place = mode.place if mode.open else None
            line = constraint_line(chat, (place.node, place.at) if place is not None else None, room)
            self._shows_standing = line is not None
            lines += [line] if line is not None else []
        return lines

    @property
    def _room(self) -> int:
        """Cells of a line in the chat's column; a widget that was not shown yet does not know its own."""
        shown = (view for view in (self.transcript, self._walks) if view.display)
        return (next(shown, self._welcome).size.width or self.app.size.width) - 2

    def on_lines_view_laid(self) -> None:
        self.show_soon()
        self._notices.draw()
        self.tokens.show()
        self._greet()

    # --- what a person does --------------------------------------------------------------------------------------

    def on_composer_submitted(self, event: Composer.Submitted) -> None:
        self._notices.forget_problems()
        if self.send_edited(event.text):
            return
        self.composer.send(event.text, event.written)
        self.choosing.remind()

    def on_labelled_area_refused(self, event: Composer.Refused) -> None:
        self.tell(event.notice)

    def on_text_area_changed(self) -> None:
        self._show_way()

    def on_tokens_acted(self) -> None:
        is_open, was_open = self.tokens.mode.open, self._in_tokens
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
        if self.tokens.transcript.cursor is not None and not self.tokens.mode.open:
            self.tokens.enter()
        elif self.tokens.mode.open and not self.tokens.mode.pointed():
            self.tokens.leave()
        self.tokens.show()
        self.show_soon()

    def action_tokens(self) -> None:
        """Enter token mode; only the key that goes back leaves."""
        if self.tune is not None:
            self.close_tune()
        self.tokens.enter()

    def action_forget_notice(self, at: int) -> None:
        self._notices.drop(at)

    def action_back(self) -> None:
        if self.close_asked() or self._bottom.back():
            return
        if self.panels.big:
            self._set_big(False)
            return
        if self.tokens.back() or self._walking.back():
            return
        if self._notices:
            self._notices.forget()
        elif self.chat.full is not None:
            self.chat.turns.make_room("stop")
        elif not self.panels.beside and self.panels.is_shown:
            self.panels.toggle()
        else:
            self.chat.stop()

    def action_big(self, page: str | None = None) -> None:
        if page is not None:
            self.panels.page = page
        self._set_big(page is not None or not self.panels.big)

    def _set_big(self, big: bool) -> None:
        """Open or close the big view, in which the panels take the place of the chat and have the keyboard, except in TUNE."""
        self.panels.enlarge(big)
        self.panels.can_focus = big
        self.set_class(big, "-big")
        self._show_path()
        self.take_keyboard()
        self.show_panels()

    def action_look(self) -> None:
        if self.tokens.mode.open:
            self.tokens.next_look()
            self.tokens.show()
            self._walking.share_look()
        elif self._walking.open:
            walks = self.chat.walks.shown
            self._walks.look = next_look(LOOKS, self._walks.look, walks.nodes.values() if walks is not None else ())
        else:
            replies = (span.node for span in self.chat.conversation.find_path())
            self.transcript.look = next_look(LOOKS, self.transcript.look, replies)
            self.tokens.mode.keep()

    def action_continue(self) -> None:
        self._notices.forget()
        chat = self.chat
        if chat.full is not None and chat.phase == "idle":
            self.action_dialog("full")
            return
        if chat.phase == "no model" and chat.spec is None:  # nothing was chosen that could be loaded
            self.choosing.open()
            return
        again = {
            "failed": chat.loading.restart_engine,
            "no model": chat.loading.restart_engine,
            "paused": chat.replies.resume,
        }
        again.get(chat.phase, chat.forks.continue_reply)()

    def action_regenerate(self, same: bool = False) -> None:
        self._versions.regenerate(same=same)

    def action_walks(self, what: str, *arguments: object) -> None:
        self._walking.act(what, *arguments)

    def action_open_walks(self, group: int | None = None) -> None:
        self._walking.reopen(group)

    def on_walks_view_turned(self) -> None:
        self._walking.look_at()

    def action_unconstrain(self) -> None:
        if not self.constraining.toggle():
            self.action_dialog("constraint")

    def action_answer(self) -> None:
        if self.chat.replies.may_think:
            self.chat.replies.end_thinking()
        else:
            self.action_thoughts()

    def action_thoughts(self, node: int | None = None) -> None:
        if not self.tokens.transcript.toggle_thoughts(node):
            self.tell(Notice("no thoughts to show or fold here"))

    def action_turn(self, by: int) -> None:
        if self.tokens.mode.open:
            self.tokens.action_move("turn_down" if by > 0 else "turn_up")
        else:
            self.transcript.jump(by)

    def action_version(self, by: int, node: int | None = None) -> None:
        if not self._walking.version(by):
            self._versions.step(by, node)

    def action_new(self) -> None:
        self.conversations.begin()

    def action_dialog(self, name: str) -> None:
        self.dialog = name
        DIALOGS[name](self)

    def action_bias(self, how: str) -> None:
        """Ban the token under the cursor or what a paused reply would take next, or add to its logit: "ban", "more"."""
        if (shown := self.tokens.mode.shown()) is None:
            return
        knobs, token = self.knobs, shown.token
        knobs.bias(token.id, how)
        amount = shown_bias(knobs.bias_of(token.id)) or "no bias"
        undo = f"{name_of('tune')} z undoes it" if how == "ban" else ""
        self.tell(Notice(knobs.error or f"{piece_of(token)} ({token.id}): {amount}", undo))
        self.show_soon()

    def on_key_line_stops_wanted(self) -> None:
        self.action_dialog("bias")

    def on_heard(self, message: Heard) -> None:
        self.choosing.heard(message.news)

    def action_copy_chat(self) -> None:
        self.chat.copy_chat()

    def action_switch_back(self) -> None:
        self.chat.loading.switch_back()

    def action_unload(self) -> None:
        self.chat.loading.unload_model()

    def action_reload(self) -> None:
        self.chat.loading.reload_model()

    def action_editor(self) -> None:
        self.composer.edit_outside()

    def action_unfold(self) -> None:
        self.composer.action_unfold()

    def action_interrupt(self) -> None:
        # What was just done is not done again: the next press goes a step further.
        selected = self.composer.selected_text or self.get_selected_text()
        if selected and not self._interrupted:
            self._interrupted = "copied"
            self.copy_to_clipboard(selected, "the selection")
        elif self.chat.busy and self._interrupted != "stopped":
            self._interrupted = "stopped"
            self.chat.stop()
        elif self.chat.busy:  # the engine does not hear
            self._leave()
        else:
            self.ask_to_quit()

    def ask_to_quit(self, key: str = "interrupt") -> None:
        """Ask whether to quit, and quit if that was asked a moment ago."""
        keeps = self.chat.session.store is not None and self.chat.saving_problem is None
        lost = "; your unsent text would be lost" if self.composer.text.strip() and not keeps else ""
        hint = f"it cannot be saved right now; use {name_of('save')} to write it to a file" if self.chat.unsaved else ""
        lost = "; this chat would be lost" if self.chat.unsaved else lost
        if self._notices.ask_to_quit(Notice(f"press {name_of(key)} again to quit{lost}", hint)):
            self._leave()

    def _leave(self) -> None:
        assert isinstance(self.app, LeavingApp)
        self.app.leave()

    def quit(self) -> None:
        """Quit; ask first if the chat would be lost."""
        if self.chat.unsaved:
            self.ask_to_quit("quit")
        else:
            self._leave()

    def note_input(self, event: events.Event) -> None:
        """Note that the person did something, which answers whether to quit."""
        if not isinstance(event, events.Key) or event.key not in self.interrupts | self.quits:
            self._interrupted = ""
            self._notices.withdraw_question()

    def action_scroll(self, where: Scroll) -> None:
        view = self.tokens.transcript
        if where == "end":
            view.follow()
        else:
            getattr(view, f"scroll_{where}")(animate=False)
