"""The screen of a chat: what stands where, what the chat says shown there, and what a person does to it.

Each action is one call into the room that does it; `__init__` of this package is the map of those.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from textual import events
from textual.app import ComposeResult
from textual.reactive import Reactive
from textual.widget import Widget

from termchat.chat.changes import DrafterChanged, Notice, PathChanged, ReplyGrew
from termchat.chat.service import Chat
from termchat.decoding.biases import format_bias as shown_bias
from termchat.tui.composer.composer import Composer
from termchat.tui.composer.draft_keeping import DraftKeeping
from termchat.tui.composer.history import History
from termchat.tui.composer.sending import FilesRead, Sending
from termchat.tui.constraint.constraint_setting import ConstraintSetting
from termchat.tui.draw.background import FRAMES, EnginePolling
from termchat.tui.draw.ink import Ink, Line
from termchat.tui.draw.lines_view import Column, LinesView, Row, Slip
from termchat.tui.keys.tables import CHAT, MODEL, NOT_OTHERWISE, name_of, situation_of, way_to_type
from termchat.tui.lessons.learning import Learning
from termchat.tui.lessons.strip import LessonStrip
from termchat.tui.models.gather import Models
from termchat.tui.models.model_switching import Heard, ModelSwitching
from termchat.tui.models.welcome import welcome_lines
from termchat.tui.screen.ask_line import AskLine
from termchat.tui.screen.big import Big, newest_reply
from termchat.tui.screen.copying import Copying
from termchat.tui.screen.desk import Desk
from termchat.tui.screen.dialog_table import DIALOGS
from termchat.tui.screen.drawer import ALONE, Drawer
from termchat.tui.screen.features import Features
from termchat.tui.screen.header_line import header_line
from termchat.tui.screen.knobs import KnobsView
from termchat.tui.screen.notices import (
    NoticeSlip,
    full_lines,
    hidden_lines,
    notice_lines,
    queue_lines,
    what_continues,
    wrapped,
)
from termchat.tui.screen.panels import Panels
from termchat.tui.screen.parts import Parts
from termchat.tui.screen.pointing import Pointing
from termchat.tui.sessions.begin_as import PersonaStarting
from termchat.tui.sessions.chat_switching import ChatSwitching, Save
from termchat.tui.sessions.session_list import SessionList
from termchat.tui.slash.slash import Slash
from termchat.tui.terminal.compositor import LineCompositor
from termchat.tui.terminal.screens import LiveScreen, draw_now, use_compositor
from termchat.tui.themes.library import ThemeChooser
from termchat.tui.themes.theme_file import Palette
from termchat.tui.tokens.token_bar import Legend, Tokens
from termchat.tui.tokens.turn_versions import TurnVersions
from termchat.tui.transcript import TranscriptView
from termchat.tui.transcript.looks import LOOKS, next_look
from termchat.tui.walks.walking import Walking
from termchat.tui.walks.walks_view import WalksView

Scroll = Literal["page_up", "page_down", "up", "down", "home", "end"]

_BACK_TO_WALKS = {"back": "walks"}
"""What the keys do otherwise while a message is written below several replies."""
_SMALLEST = (40, 12)
_TALL = 30
"""From so many rows on the ribbon says what its colours mean."""


class ChatScreen(LiveScreen):
    """One chat.

    Args:
        models: those that there are.
        sessions: the saved chats; None where none are kept.
        keymap: id of a key to other keys, where it was remapped.
        save: makes what writes a transcript (see `chat_switching`).
        keep_theme: shows a theme from now on.
        leave: ends the app.
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
    ChatScreen.-small { & #small { display: block; } & #header, & #main, & Desk { display: none; } }
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
        save: Save,
        theme_chooser: ThemeChooser,
        keep_theme: Callable[[str], None],
        leave: Callable[[], None],
        history: History | None = None,
        big: bool = False,
    ) -> None:
        super().__init__()
        use_compositor(self, LineCompositor())
        self._chat, self._palette, self._leave = chat, palette, leave
        self._header, self._welcome, self._small = (LinesView(id=name) for name in ("header", "welcome", "small"))
        self._told = NoticeSlip(self._notice_lines, id="notice")
        self._queue, self._full, self._standing = Slip(id="queue"), Slip(id="full"), Slip(id="standing")
        self._transcript = TranscriptView(palette)
        self._walks = WalksView(chat, palette)
        self._legend = Legend(self._transcript, lambda: newest_reply(chat.conversation))
        self.tokens = Tokens(chat, self._transcript)
        self._panels = Panels()
        self._desk = Desk(chat, keymap)
        self._drawer = Drawer(self, asked=big)
        self.set_class(big, "-projector")
        parts = Parts(
            self, chat, self._transcript, self.tokens, self._panels, self._drawer, self._desk, self._told,
            palette=lambda: self._palette, do=self._do, tell=self.tell,
        )  # fmt: skip
        self._big = Big(parts, self._show_path)
        self._pointing = Pointing(parts)
        self._walking = Walking(parts, self._walks, self._pointing.open_tune)
        self._ask_line = AskLine(parts)
        self._versions = TurnVersions(parts)
        self.copying = Copying(parts)
        self._drafts = DraftKeeping(parts)
        self._writing = Sending(parts, history or History())
        self._choosing = ModelSwitching(parts, models)
        self._conversations = ChatSwitching(parts, sessions, save)
        self.learning = Learning(parts, sessions, self._show_soon, models.end_lesson, big=big)
        personating = PersonaStarting(parts, self._conversations)
        self._constraining = ConstraintSetting(parts)
        self._features = Features(
            parts, self._writing, models, self._choosing, self._conversations, personating, self._constraining,
            theme_chooser, keep_theme, self.learning,
        )  # fmt: skip
        Slash(self._features).attach()
        self.interrupts = {"ctrl+c", *keymap.get("interrupt", "").replace(" ", "").split(",")}
        self.quits = set(keymap.get("quit", "ctrl+q").replace(" ", "").split(","))
        self._interrupted: Literal["", "copied", "stopped"] = ""
        self._pulse: EnginePolling | None = None
        self._attempts = 0
        """Loads of a model by now."""

    # --- the screen --------------------------------------------------------------------------------------------------

    def compose(self) -> ComposeResult:
        yield self._header
        with Row(id="main"):
            with Column(id="chat"):
                yield self._welcome
                yield self._transcript
                yield self._walks
                yield self._legend
                yield self.tokens
                yield self._told
                yield self._queue
                yield self._full
                yield self._standing
            yield self._panels
        yield self._desk
        yield self._small

    def on_mount(self) -> None:
        self.paint_with(self._palette)
        timer = self.set_interval(1 / FRAMES, self.tick, pause=True)
        self._pulse = EnginePolling(timer, lambda: self.call_next(self.tick))
        self._listen(self._pulse.nudge)  # saving fails, or works again, also while nothing else happens
        self.tokens.mode.find()
        self._show_path()
        self._drafts.show()
        self._desk.query_one(Composer).focus()
        self.call_after_refresh(self._writing.begin)
        self.call_after_refresh(self._drafts.begin)

    def on_unmount(self) -> None:
        self._listen(None)
        if self._pulse is not None:
            self._pulse.stop()

    def _listen(self, listener: Callable[[], None] | None) -> None:
        if (store := self._chat.session.store) is not None:
            store.listen(listener)

    def on_resize(self, event: events.Resize) -> None:
        width, height = event.size
        small = width < _SMALLEST[0] or height < _SMALLEST[1]
        self.set_class(small, "-small")
        if not small and self.focused is None:
            # What had the keyboard was hidden, and is shown again before this is done.
            self.app.call_later(self._desk.take_keyboard)
        self.tokens.set_class(height >= _TALL, "-tall")
        self._drawer.fit(width)
        self._desk.composer.fit(height)
        if small:
            needs = f"terminal too small ({width}x{height}), needs {_SMALLEST[0]}x{_SMALLEST[1]}"
            self._small.show_lines([Line(((line, Ink("warning")),)) for line in wrapped(needs, width - 2)])

    def paint_with(self, palette: Palette) -> None:
        self._palette = palette
        self._transcript.palette = palette
        for view in (
            self._header, self._welcome, self._small, self._legend, self._told, self._queue, self._full, self._standing,
            self._panels,
            self._desk, self.tokens, self._ask_line, self._walks, self.learning,
        ):  # fmt: skip
            view.paint_with(palette)

    @property
    def in_lesson(self) -> bool:
        """Whether a lesson is open."""
        return self.learning.runner is not None

    @property
    def place(self) -> str:
        """The title of the group of keys that work now."""
        if self._desk.tune is not None:
            return "TUNE"
        if self.tokens.mode.open:
            return "TOKEN MODE"
        if self.learning.open:
            return "LESSON"
        return "BIG VIEW" if self._panels.big else "WALKS" if self._walking.has_keyboard else "CHAT"

    def tell(self, notice: Notice) -> None:
        self._told.tell(notice)

    def withdraw(self, message: str) -> None:
        """What was told with this message holds no more."""
        self._told.withdraw(message)

    # --- what the chat says ------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Pumps the chat and shows what changed. Called by the timer, the engine's pipe, and after each action."""
        chat = self._chat
        if self._pulse is None:
            return
        self._pulse.disarm()
        changes = chat.pump_events(0)
        self.learning.heard(changes)
        moved = any(isinstance(change, PathChanged) for change in changes)
        if (moved and chat.busy) or chat.loading.attempts != self._attempts:  # the next reply, or another model
            self._told.go_on(warnings=False)
            self._attempts = chat.loading.attempts
        if moved:
            self._show_path()
        else:
            for change in changes:
                if isinstance(change, ReplyGrew) and not self._walking.open:
                    self._transcript.grew(change.number)
        self._walking.heard(changes)
        self.tokens.heard(changes)
        for change in changes:
            if isinstance(change, Notice):
                self.tell(change)
            elif isinstance(change, DrafterChanged):
                self._choosing.drafts_with(change)
        if changes:
            self._ask_line.heard()
            self._constraining.heard()
        self._drafts.follow()
        self._desk.follow()
        if changes:
            self._show_state()
        draw_now(self)
        self._pulse.arm(chat.engine.fileno(), running=chat.busy or chat.phase == "loading")

    def _show_path(self) -> None:
        empty, walks = self._chat.conversation.leaf is None, self._chat.walks.shown is not None
        self._walks.display = walks and not self._panels.big
        self._welcome.display = empty and not walks and not self._panels.big
        self._transcript.display = not empty and not walks and not self._panels.big
        if self._transcript.display and not self._transcript.size:
            # At once: if another asks before that where widgets are, it never hears of its size.
            self.refresh(layout=True)
        self._versions.shown()
        self._transcript.show(self._chat.conversation, running=self._chat.busy)
        self._greet()

    def _greet(self) -> None:
        if self._welcome.display:
            self._welcome.show_lines([] if self.in_lesson else welcome_lines(self._chat, self._room))

    def _show_state(self) -> None:
        self._stale = ""
        chat = self._chat
        room = self._header.room
        self._header.show_lines([header_line(chat, room, self._choosing.downloads, self._big.drafting(room))])
        mode = self.tokens.mode
        self._panels.lit = self.learning.lights.pages
        self._big.show()
        empty, big = chat.conversation.leaf is None, self.focused is self._panels
        walks = self._walking.has_keyboard
        situation = situation_of(chat.phase, empty=empty, tokens=mode.open, big=big, walks=walks)
        asked = self.learning.asked or self._ask_line.asked or self.tokens.asked
        lights, thinking = self.learning.lights, chat.thinking is not None
        below = self._walking.open and isinstance(self.focused, Composer)
        words = self._walking.words if walks else _BACK_TO_WALKS if below else NOT_OTHERWISE
        self._show_way()
        self._desk.show_keys(situation, asked, chat.offers, thinking=thinking, words=words, lit=lights.keys)
        self._legend.draw()
        self._show_waiting()
        self._writing.follow()
        self._ask_line.show()
        self._show_standing()
        self._greet()

    def _show_way(self) -> None:
        """Who gets letters and digits now, where that is not the composer alone."""
        typing = isinstance(self.focused, Composer)
        self._desk.show_way(self.learning.answers if typing else way_to_type(self.place), instead=not typing)

    def _show_standing(self) -> None:
        """Where in its constraint the reply stands, or stood at the cursor."""
        mode, chat = self.tokens.mode, self._chat
        if not self._standing.display and chat.constraint is None and not chat.busy and not mode.open:
            return
        from termchat.tui.constraint.constraint_line import constraint_line  # rarely needed

        place = mode.place if mode.open else None
        line = constraint_line(chat, (place.node, place.at) if place is not None else None, self._room)
        self._standing.show_lines([line] if line is not None else [])

    def _show_slips(self) -> None:
        self._told.draw()
        self._show_standing()
        self._show_waiting()

    def _show_waiting(self) -> None:
        chat = self._chat
        queue = queue_lines(chat.turns.queue, self._room, held=chat.replies.held)
        self._queue.show_lines([*hidden_lines(chat.walks.hidden), *queue])
        asks = chat.phase == "idle"
        self._full.show_lines(full_lines(chat.full, self._room, asks=asks) if chat.full is not None else [])

    def _notice_lines(self, told: Sequence[Notice]) -> list[Line]:
        return notice_lines(told, self._room, what_continues(self._chat))

    @property
    def _room(self) -> int:
        """Cells of a line in the chat's column; a widget that was not shown yet does not know its own."""
        shown = (view for view in (self._transcript, self._walks) if view.display)
        return (next(shown, self._welcome).size.width or self.app.size.width) - 2

    def on_lines_view_laid(self) -> None:
        self._show_soon()
        self._show_slips()
        self.tokens.show()
        self._greet()
        self.learning.laid()

    def _do(self, what: Callable[[], object]) -> None:
        what()
        self.tick()

    # --- what a person does --------------------------------------------------------------------------------------

    def on_composer_submitted(self, event: Composer.Submitted) -> None:
        self._told.go_on()
        if self._ask_line.submitted(event.text):
            return
        self._writing.send(event.text, event.written)
        self._choosing.remind()

    def on_labelled_area_refused(self, event: Composer.Refused) -> None:
        self.tell(event.notice)

    def on_text_area_changed(self) -> None:
        self._writing.changed()
        self._drafts.changed()
        self._show_way()

    def on_files_read(self, message: FilesRead) -> None:
        self._writing.gathered(message)

    def on_desk_tuned(self) -> None:
        if self._desk.tune is None:
            self._drawer.release("tune")
        self.tokens.mode.tune(self._desk.tune is not None)
        self.tick()
        self._show_soon()

    def on_tokens_acted(self) -> None:
        mode = self.tokens.mode
        if mode.open:
            self._desk.home = self.tokens.home
            if self.size.width >= ALONE:
                self._drawer.need("tokens")
        elif self._desk.home is not None:
            self._desk.home = self._big.home
            self._drawer.release("tokens")
            if self._desk.tune is None and self.focused is not self._desk.composer:
                self._desk.take_keyboard()
        self.tick()
        self._show_soon()

    def on_transcript_view_cursor_moved(self) -> None:
        # A click on a token opens token mode; losing the cursor closes it.
        if self.tokens.transcript.cursor is not None and not self.tokens.mode.open:
            self.tokens.enter()
        elif self.tokens.mode.open and not self.tokens.mode.pointed():
            self.tokens.leave()
        self.tokens.show()
        self._show_soon()

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        # The chat itself never has the keyboard, whatever is clicked; whoever clicks into the composer wants to write.
        if event.widget is not self.focused:
            return  # as in `Desk`
        self._ask_line.focused(event.widget)
        self._show_soon()
        if isinstance(event.widget, TranscriptView):
            self._desk.take_keyboard()
        elif self.tokens.mode.open and isinstance(event.widget, Composer):
            self.tokens.leave()

    def take_text(self) -> None:
        """Gives the composer the keyboard, whatever has it: text comes."""
        while self.app.screen is not self:
            self.app.screen.dismiss(None)
        if self._desk.tune is not None:
            self._desk.close_tune()
        if self.tokens.mode.open:
            self.tokens.leave()
        self.set_focus(self._desk.composer)  # not focus(): the very next key is for it

    def action_tokens(self) -> None:
        """Enters; only the key that goes back leaves."""
        if self._desk.tune is not None:
            self._desk.close_tune()
        self.tokens.enter()
        self.tick()

    def action_tune_knob(self, knob: str) -> None:
        self._pointing.tune(knob)

    def action_all_knobs(self) -> None:
        self._pointing.all_knobs()

    def action_choose(self, number: int) -> None:
        self._pointing.choose(number)

    def on_knobs_view_turned(self, event: KnobsView.Turned) -> None:
        self._pointing.turned(event)

    def on_knobs_view_slid(self, event: KnobsView.Slid) -> None:
        self._pointing.slid(event)

    def on_knobs_view_carried(self, event: KnobsView.Carried) -> None:
        self._pointing.carried(event)

    def action_forget_notice(self, at: int) -> None:
        self._told.drop(at)

    def action_tune(self) -> None:
        if self._desk.tune is not None:
            self._desk.close_tune()
        else:
            self._pointing.open_tune()

    def learn(self, lesson: str) -> None:
        """Begins the lesson of that name, or lists all where it is ""."""
        self.learning.open_named(lesson)

    def action_learn(self) -> None:
        self.learning.toggle()

    def action_lesson(self, what: str, *arguments: object) -> None:
        self.learning.act(what, *arguments)

    def on_lesson_strip_typed(self, event: LessonStrip.Typed) -> None:
        self.learning.act("typed", event.key, event.character)

    def on_lesson_strip_turned(self) -> None:
        self.learning.laid()
        self._show_soon()

    def action_back(self) -> None:
        if self.learning.back():
            return
        if self._ask_line.back() or self._desk.back() or self._big.back() or self.tokens.back() or self._walking.back():
            return
        if self._told:
            self._told.forget()
        elif self._chat.full is not None:
            self._do(lambda: self._chat.turns.make_room("stop"))
        elif not self._drawer.beside and self._drawer.shown:
            self.action_panels()
        else:
            self._do(self._chat.stop)

    def action_panels(self) -> None:
        self._drawer.toggle()

    def action_turn_page(self, by: int) -> None:
        self._big.turn(by)

    def action_page(self, page: str) -> None:
        self._big.go(page)

    def action_roll(self, n: int = 0, first: int | None = None) -> None:
        self._big.roll(n, first)

    def action_big(self, page: str | None = None) -> None:
        self._big.toggle(page)

    def on_panels_computed(self) -> None:
        self._big.show()

    def on_panels_pointed(self, event: Panels.Pointed) -> None:
        self._big.point(event.ref)

    def action_look(self) -> None:
        if self.tokens.mode.open:
            self.tokens.next_look()
            self.tokens.show()
            self._walking.share_look()
        elif self._walking.open:
            walks = self._chat.walks.shown
            self._walks.look = next_look(LOOKS, self._walks.look, walks.nodes.values() if walks is not None else ())
        else:
            replies = (span.node for span in self._chat.conversation.find_path())
            self._transcript.look = next_look(LOOKS, self._transcript.look, replies)
            self.tokens.mode.keep()

    def action_continue(self) -> None:
        self._told.forget()
        chat = self._chat
        if chat.full is not None and chat.phase == "idle":
            self.action_dialog("full")
            return
        if chat.phase == "no model" and chat.spec is None:  # nothing was chosen that could be loaded
            self.choose_model()
            return
        again = {
            "failed": chat.loading.restart_engine,
            "no model": chat.loading.restart_engine,
            "paused": chat.replies.resume,
        }
        self._do(again.get(chat.phase, chat.forks.continue_reply))

    def action_regenerate(self, same: bool = False) -> None:
        self._versions.regenerate(same=same)

    async def action_edit(self, node: int | None = None) -> None:
        await self._ask_line.edit(node)

    async def action_prefill(self) -> None:
        await self._ask_line.prefill()

    async def action_find(self) -> None:
        await self._ask_line.find()

    def action_copy_reply(self) -> None:
        self.copying.copy_reply()

    def action_copy_json(self) -> None:
        self.copying.copy_json()

    def action_pretty_json(self) -> None:
        self.copying.show_json()

    def action_walks(self, what: str, *arguments: object) -> None:
        self._walking.act(what, *arguments)

    def action_open_walks(self, group: int | None = None) -> None:
        self._walking.reopen(group)

    def on_walks_view_turned(self) -> None:
        self._walking.look_at()

    def action_unconstrain(self) -> None:
        if not self._constraining.toggle():
            self.action_dialog("constraint")

    def action_copy_thoughts(self) -> None:
        self.copying.copy_thoughts()

    def action_answer(self) -> None:
        if self._chat.replies.may_think:
            self._do(self._chat.replies.end_thinking)
        else:
            self.action_thoughts()

    def action_thoughts(self, node: int | None = None) -> None:
        if not self.tokens.transcript.toggle_thoughts(node):
            self.tell(Notice("no thoughts to show or fold here"))

    def action_copy_code(self) -> None:
        self.copying.copy_code()

    def action_copy_message(self) -> None:
        self.copying.copy_message()

    def action_turn(self, by: int) -> None:
        if self.tokens.mode.open:
            self.tokens.action_move("turn_down" if by > 0 else "turn_up")
        else:
            self._transcript.jump(by)

    def action_version(self, by: int, node: int | None = None) -> None:
        if not self._walking.version(by):
            self._versions.step(by, node)

    def action_new(self) -> None:
        self._conversations.new()

    def action_dialog(self, name: str) -> None:
        self.learning.dialog = name
        DIALOGS[name](self._features)

    def on_tokens_bias_wanted(self, event: Tokens.BiasWanted) -> None:
        knobs = self._desk.knobs
        self._do(lambda: knobs.bias(event.token, event.how))
        amount = shown_bias(knobs.bias_of(event.token)) or "no bias"
        undo = f"{name_of('tune')} z undoes it" if event.how == "ban" else ""
        self.tell(Notice(knobs.error or f"{event.text} ({event.token}): {amount}", undo))
        self._show_soon()

    def on_key_line_stops_wanted(self) -> None:
        self.action_dialog("bias")

    def on_tokens_dialog_wanted(self, event: Tokens.DialogWanted) -> None:
        self.action_dialog(event.name)

    def choose_model(self, problem: str = "", then: Callable[[], object] = lambda: None) -> None:
        """`problem` says why one has to be chosen, `then` is done afterwards."""
        self._choosing.open(problem, then)

    def on_heard(self, message: Heard) -> None:
        self._choosing.heard(message.said)

    def action_copy_chat(self) -> None:
        self._do(self._chat.copy_chat)

    def action_switch_back(self) -> None:
        self._do(self._chat.loading.switch_back)

    def action_unload(self) -> None:
        self._do(self._chat.loading.unload_model)

    def action_reload(self) -> None:
        self._do(self._chat.loading.reload_model)

    def action_editor(self) -> None:
        self.run_worker(self._writing.edit(), group="editor", exclusive=True)

    def action_unfold(self) -> None:
        self._desk.composer.action_unfold()

    def action_interrupt(self) -> None:
        # What was just done is not done again: the next press goes a step further.
        selected = self._desk.query_one(Composer).selected_text or self.get_selected_text()
        if selected and not self._interrupted:
            self._interrupted = "copied"
            self.copying.copy(selected, "the selection")
        elif self._chat.busy and self._interrupted != "stopped":
            self._interrupted = "stopped"
            self._do(self._chat.stop)
        elif self._chat.busy:  # the engine does not hear
            self._leave()
        else:
            self.ask_to_quit()

    def ask_to_quit(self, key: str = "interrupt") -> None:
        """Asks, and quits if that was asked a moment ago."""
        keeps = self._chat.session.store is not None and self._chat.saving_problem is None
        lost = "; your unsent text would be lost" if self._desk.composer.text.strip() and not keeps else ""
        hint = (
            f"it cannot be saved right now; use {name_of('save')} to write it to a file" if self._chat.unsaved else ""
        )
        lost = "; this chat would be lost" if self._chat.unsaved else lost
        if self._told.ask_to_quit(Notice(f"press {name_of(key)} again to quit{lost}", hint)):
            self._leave()

    def quit(self) -> None:
        """Quits; asks first if the chat would be lost."""
        if self._chat.unsaved:
            self.ask_to_quit("quit")
        else:
            self._leave()

    def keep_draft(self) -> None:
        self._drafts.keep()

    def noticed(self, event: events.Event) -> None:
        """Whoever does anything, wherever it goes, has answered whether to quit."""
        if not isinstance(event, events.Key) or event.key not in self.interrupts | self.quits:
            self._interrupted = ""
            self._told.answer()

    def action_scroll(self, where: Scroll) -> None:
        view = self.tokens.transcript
        if where == "end":
            view.follow()
        else:
            getattr(view, f"scroll_{where}")(animate=False)
