"""The screen: the chat at the left, the panels at the right, the composer and the keys below."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from textual import events
from textual.app import ComposeResult

from termchat.chat.changes import Notice, PathChanged, ReplyGrew, RoomWanted
from termchat.chat.service import Chat
from termchat.tui.compositor import LineCompositor
from termchat.tui.gathering import Models
from termchat.tui.history import History
from termchat.tui.keys import CHAT, MODEL, name_of, situation_of
from termchat.tui.pulse import FRAMES, Pulse
from termchat.tui.screens.big import Big
from termchat.tui.screens.choosing import Choosing, Heard
from termchat.tui.screens.conversations import Conversations
from termchat.tui.screens.drawer import BESIDE, Drawer
from termchat.tui.screens.habits import Habits
from termchat.tui.screens.personate import Personating
from termchat.tui.screens.pointing import Pointing
from termchat.tui.screens.selecting import SelectingScreen
from termchat.tui.screens.tokens import Tokens
from termchat.tui.screens.writing import Gathered, Writing
from termchat.tui.sessionlist import SessionList
from termchat.tui.slashing import Around, Slashing
from termchat.tui.themes import Palette
from termchat.tui.transcript import Transcript
from termchat.tui.transcript.ink import Ink, Line
from termchat.tui.transcript.looks import LOOKS
from termchat.tui.views.notices import notice_lines, queue_lines, wrapped
from termchat.tui.views.status import header_line
from termchat.tui.views.welcome import welcome_lines
from termchat.tui.widgets.composer import Composer
from termchat.tui.widgets.desk import Desk
from termchat.tui.widgets.knobs import KnobsView
from termchat.tui.widgets.legend import Legend
from termchat.tui.widgets.lines import Column, LinesView, Row, Slip
from termchat.tui.widgets.panels import Page, Panels
from termchat.tui.widgets.told import Told

_SMALLEST = (40, 12)
_WIDE = 150
_ALONE = 80
"""Under so many columns an open drawer takes the chat's place."""
_TALL = 30
"""From so many rows on the ribbon says what its colours mean."""

Scroll = Literal["page_up", "page_down", "up", "down", "home", "end"]


class ChatScreen(SelectingScreen):
    """One chat: brings what a person does to it, and what it says to the widgets.

    `models` are those that there are, `sessions` the saved chats, None where none are kept; `save` writes a transcript to a
    path and raises OSError or ValueError; `leave` ends the app; `keymap` is id to keys where they were remapped.
    """

    DEFAULT_CSS = """
    ChatScreen { background: $background; }
    ChatScreen #main { height: 1fr; }
    ChatScreen Transcript, ChatScreen #welcome { height: 1fr; }
    ChatScreen #small { display: none; height: 1fr; }
    ChatScreen Panels { display: none; }
    ChatScreen.-panels Panels { display: block; }
    ChatScreen.-wide Panels { width: 60; }
    ChatScreen.-alone.-panels #chat { display: none; }
    ChatScreen.-alone.-panels Panels { width: 1fr; }
    ChatScreen.-big #main { layout: vertical; }
    ChatScreen.-big #chat, ChatScreen.-big.-alone.-panels #chat { display: block; height: auto; }
    ChatScreen.-big Panels { display: block; width: 1fr; }
    ChatScreen.-small { & #small { display: block; } & #header, & #main, & Desk { display: none; } }
    """
    BLANK = True
    BINDINGS = [key.binding for key in (*CHAT, *MODEL)]  # noqa: RUF012

    def __init__(
        self,
        chat: Chat,
        palette: Palette,
        *,
        models: Models,
        sessions: SessionList | None,
        keymap: Mapping[str, str],
        save: Callable[[Path], None],
        leave: Callable[[], None],
        history: History | None = None,
    ) -> None:
        super().__init__()
        self._compositor = LineCompositor()
        self._chat, self._palette, self._save, self._leave = chat, palette, save, leave
        self._header, self._welcome, self._small = (LinesView(id=name) for name in ("header", "welcome", "small"))
        self._told = Told(self._notice_lines, id="notice")
        self._queue = Slip(id="queue")
        self._transcript = Transcript(palette)
        self._legend = Legend(self._transcript)
        self.tokens = Tokens(chat, self._transcript)
        self._panels = Panels()
        self._desk = Desk(chat, keymap)
        self._drawer = Drawer()
        self._big = Big(
            self, chat, self._panels, self._transcript, self.tokens, self._desk, self._drawer, self._lay_out, self._show_path
        )
        composer, edge, follow = self._desk.composer, self._desk.edge, self._transcript.follow
        self._writing = Writing(self, chat, composer, edge, history or History(), self._do, self.tell, follow)
        self.habits = Habits(self, chat, self._transcript, self.tokens, self._desk, self._do, self.tell)
        self.interrupts = {"ctrl+c", *keymap.get("interrupt", "").replace(" ", "").split(",")}
        self._interrupted: Literal["", "copied", "stopped"] = ""
        self._pointing = Pointing(chat, self._desk, self.tokens, self.action_tune, self._do)
        self._pulse: Pulse | None = None
        self._choosing = Choosing(self, chat, models, self._do, self.tell)
        self._conversations = Conversations(self, chat, self.tokens, sessions, keymap, self._do, self.tell)
        self._personating = Personating(self, chat, self._conversations, self._do, self.tell)
        rooms = (self._choosing, self._conversations, self._personating, self.tokens)
        self._slashing = Slashing(self, composer, Around(chat, models, *rooms, save, self._do, self.tell))

    # --- the screen --------------------------------------------------------------------------------------------------

    def compose(self) -> ComposeResult:
        """Header, chat, panels, composer, keys."""
        yield self._header
        with Row(id="main"):
            with Column(id="chat"):
                yield self._welcome
                yield self._transcript
                yield self._legend
                yield self.tokens
                yield self._told
                yield self._queue
            yield self._panels
        yield self._desk
        yield self._small

    def on_mount(self) -> None:
        """Begins to look at the engine."""
        self.paint_with(self._palette)
        timer = self.set_interval(1 / FRAMES, self.tick, pause=True)
        self._pulse = Pulse(timer, lambda: self.call_next(self.tick))
        self.tokens.mode.find()
        self._show_path()
        self._desk.query_one(Composer).focus()
        self.call_after_refresh(self._writing.begin)

    def on_unmount(self) -> None:
        """Looks no more."""
        if self._pulse is not None:
            self._pulse.stop()

    def on_resize(self, event: events.Resize) -> None:
        """Arranges everything for the size."""
        width, height = event.size
        small = width < _SMALLEST[0] or height < _SMALLEST[1]
        self.set_class(small, "-small")
        if not small and self.focused is None:  # what had the keyboard was hidden
            self._desk.query_one(Composer).focus()
        self.set_class(width >= _WIDE, "-wide")
        self.set_class(width < _ALONE, "-alone")
        self.tokens.set_class(height >= _TALL, "-tall")
        self._drawer.beside = width >= BESIDE
        self._desk.composer.fit(height)
        self._lay_out()
        if small:
            needs = f"terminal too small ({width}x{height}), needs {_SMALLEST[0]}x{_SMALLEST[1]}"
            self._small.show_lines([Line(((line, Ink("warning")),)) for line in wrapped(needs, width - 2)])

    def paint_with(self, palette: Palette) -> None:
        """Draws in other colours from now on."""
        self._palette = palette
        self._transcript.palette = palette
        for view in (
            self._header, self._welcome, self._small, self._legend, self._told, self._queue, self._panels, self._desk,
            self.tokens, self.habits,
        ):  # fmt: skip
            view.paint_with(palette)

    @property
    def place(self) -> str:
        """The title of the keys that work here."""
        if self._desk.tune is not None:
            return "TUNE"
        return "TOKEN MODE" if self.tokens.mode.open else "BIG VIEW" if self._panels.big else "CHAT"

    def tell(self, notice: Notice) -> None:
        """Shows a notice."""
        self._told.tell(notice)

    # --- what the chat says ------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Takes in what happened, and shows the newest of it."""
        chat = self._chat
        if self._pulse is None:
            return
        self._pulse.disarm()
        changes = chat.pump(0)
        if any(isinstance(change, PathChanged) for change in changes):
            self._show_path()
        else:
            for change in changes:
                if isinstance(change, ReplyGrew):
                    self._transcript.grew(change.number)
        self.tokens.heard(changes)
        for change in changes:
            if isinstance(change, Notice):
                self.tell(change)
            elif isinstance(change, RoomWanted):
                self._ask_for_room()
        if chat.returned:
            self._desk.query_one(Composer).give_back(chat.returned)
            chat.returned = ""
        if changes:
            self._show_state()
        if self._dirty_widgets:
            self._on_timer_update()  # at once: the timer that Textual would set for it is one more thing to wait for
        self._pulse.arm(chat.engine.fileno(), running=chat.busy or chat.phase == "loading")

    def _ask_for_room(self) -> None:
        from termchat.tui.screens.full import FullDialog  # not needed before the first frame

        if self._chat.full is not None:
            self.app.push_screen(
                FullDialog(self._chat.full), lambda way: self._do(lambda: self._chat.make_room(way or "stop"))
            )

    def _show_path(self) -> None:
        empty = self._chat.conversation.leaf is None
        self._welcome.display = empty and not self._panels.big
        self._transcript.display = not empty and not self._panels.big
        if self._transcript.display and not self._transcript.size:
            self.refresh(layout=True)  # at once: if another asks before that where widgets are, it never hears of its size
        self._transcript.show(self._chat.conversation, running=self._chat.busy)
        if empty:
            self._welcome.show_lines(welcome_lines(self._chat, self._welcome.room))

    def _show_state(self) -> None:
        chat = self._chat
        self._header.show_lines([header_line(chat, self._header.room, self._choosing.downloads)])
        mode = self.tokens.mode
        self._big.show()
        empty, big = chat.conversation.leaf is None, self._panels.big
        self._desk.show_keys(situation_of(chat.phase, empty=empty, tokens=mode.open, big=big))
        self._legend.draw()
        self._queue.show_lines(queue_lines(chat.queue, self._room))
        self._writing.follow()
        self.habits.heard()

    def _show_slips(self) -> None:
        self._told.draw()
        self._queue.show_lines(queue_lines(self._chat.queue, self._room))

    def _notice_lines(self, told: Sequence[Notice]) -> list[Line]:
        return notice_lines(told, self._room, dead=self._chat.phase == "failed")

    @property
    def _room(self) -> int:
        """Cells of a line in the chat's column; those that are not shown yet do not know it."""
        column = self._transcript if self._transcript.display else self._welcome
        return (column.size.width or self.size.width) - 2

    def on_lines_view_laid(self) -> None:
        """Fills the room there is."""
        self._show_state()
        self._show_slips()
        self.tokens.show()
        if self._welcome.display:
            self._welcome.show_lines(welcome_lines(self._chat, self._welcome.room))

    def _lay_out(self) -> None:
        self.set_class(self._drawer.shown, "-panels")

    # --- what a person does ------------------------------------------------------------------------------------------

    def on_composer_submitted(self, event: Composer.Submitted) -> None:
        """Sends a message."""
        if self.habits.submitted(event.text):
            return
        self._writing.send(event.text, event.written)

    def on_labelled_area_refused(self, event: Composer.Refused) -> None:
        """Says why."""
        self.tell(event.notice)

    def on_text_area_changed(self) -> None:
        """Counts what is written."""
        self._writing.changed()

    def on_gathered(self, message: Gathered) -> None:
        """The files of a message were read."""
        self._writing.gathered(message)

    def on_desk_tuned(self) -> None:
        """Shows the knob that was turned."""
        if self._desk.tune is None and not self.tokens.mode.open:
            self._drawer.release()
            self._lay_out()
        self.tick()
        self._show_state()

    def on_tokens_acted(self) -> None:
        """Shows what token mode did."""
        mode = self.tokens.mode
        if mode.open:
            self._desk.home = self.tokens.ribbon
            if self.size.width >= _ALONE:
                self._drawer.need()
        elif self._desk.home is not None:
            self._desk.home = self._big.home
            self._drawer.release()
            if self._desk.tune is None:
                self._desk.take_keyboard()
        self._lay_out()
        self.tick()
        self._show_state()

    def on_transcript_cursor_moved(self) -> None:
        """A click on a token opens token mode; what takes the cursor away closes it."""
        if self._transcript.cursor is not None and not self.tokens.mode.open:
            self.tokens.enter()
        elif self.tokens.mode.open and not self.tokens.mode.pointed():
            self.tokens.leave()
        self.tokens.show()
        self._show_state()

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """The chat itself never has the keyboard, whatever is clicked; whoever clicks into the composer wants to write."""
        self.habits.focused(event.widget)
        if event.widget is self._transcript:
            self._desk.take_keyboard()
        elif self.tokens.mode.open and isinstance(event.widget, Composer):
            self.tokens.leave()

    def action_tokens(self) -> None:
        """Opens or closes token mode; what is being written stays."""
        if self.tokens.mode.open:
            self.tokens.leave()
        else:
            self.tokens.enter()
        self.tick()

    def action_tune_knob(self, knob: str) -> None:
        """TUNE, on a knob."""
        self._pointing.tune(knob)

    def action_choose(self, number: int) -> None:
        """A candidate."""
        self._pointing.choose(number)

    def on_knobs_view_turned(self, event: KnobsView.Turned) -> None:
        """The wheel turns it."""
        self._pointing.turned(event)

    def on_knobs_view_slid(self, event: KnobsView.Slid) -> None:
        """A drag sets it."""
        self._pointing.slid(event)

    def action_forget_notice(self, at: int) -> None:
        """A notice was read."""
        self._told.drop(at)

    def action_tune(self) -> None:
        """Opens or closes TUNE, and the drawer with it."""
        if self._desk.tune is not None:
            self._desk.close_tune()
            return
        self._drawer.need()
        self._lay_out()
        self._desk.open_tune()

    def action_back(self) -> None:
        """Closes the innermost thing, then stops the reply."""
        if self.habits.back() or self._desk.back() or self._big.back() or self.tokens.back():
            return
        if self._told:
            self._told.forget()
        elif not self._drawer.beside and self._drawer.shown:
            self.action_panels()
        else:
            self._do(self._chat.stop)

    def action_panels(self) -> None:
        """Shows or hides the panels."""
        self._drawer.toggle()
        self._lay_out()

    def action_turn_page(self, by: int) -> None:
        """Another page of the panels."""
        self._big.turn(by)

    def action_page(self, page: Page) -> None:
        """That page of the panels."""
        self._big.go(page)

    def action_big(self, page: Page | None = None) -> None:
        """The panels in place of the chat, and back."""
        self._big.toggle(page)

    def on_panels_pointed(self, event: Panels.Pointed) -> None:
        """Puts the cursor on the token."""
        self._big.point(event.ref)

    def action_look(self) -> None:
        """The next look; in token mode, of those that show tokens."""
        if self.tokens.mode.open:
            self.tokens.next_look()
            self.tokens.show()
        else:
            self._transcript.look = LOOKS[(LOOKS.index(self._transcript.look) + 1) % len(LOOKS)]
            self.tokens.mode.keep()

    def action_continue(self) -> None:
        """Goes on with the reply, be it paused or over; a dead engine is started first."""
        self._told.forget()
        chat = self._chat
        failed = chat.phase in ("failed", "no model")
        self._do(chat.restart if failed else chat.resume if chat.phase == "paused" else chat.continue_reply)

    def action_regenerate(self, same: bool = False) -> None:
        """Another reply to the last message; `same`: with the same dice."""
        self.habits.regenerate(same=same)

    async def action_edit(self) -> None:
        """An earlier message, to be written anew."""
        await self.habits.edit()

    async def action_prefill(self) -> None:
        """How the next reply begins."""
        await self.habits.prefill()

    async def action_find(self) -> None:
        """A text in the chat."""
        await self.habits.find()

    def action_copy_reply(self) -> None:
        """The last reply."""
        self.habits.copy_reply()

    def action_copy_code(self) -> None:
        """The last block of code, or the one before."""
        self.habits.copy_code()

    def action_copy_message(self) -> None:
        """The reply under the cursor."""
        self.habits.copy_message()

    def action_turn(self, by: int) -> None:
        """A turn up or down."""
        self.habits.turn(by)

    def action_new(self) -> None:
        """An empty chat."""
        self._conversations.new()

    def action_models(self, problem: str = "") -> None:
        """All models; `problem` is why one has to be chosen."""
        self._choosing.open(self._palette, problem)

    def on_heard(self, message: Heard) -> None:
        """Something became of a model."""
        self._choosing.heard(message.said)

    def action_switch_back(self) -> None:
        """The model before this one."""
        self._do(self._chat.switch_back)

    def action_unload(self) -> None:
        """No model, and its memory free."""
        self._do(self._chat.unload)

    def action_reload(self) -> None:
        """The model anew."""
        self._do(self._chat.reload)

    def action_setup(self) -> None:
        """A new chat that begins another way."""
        self._conversations.set_up()

    def action_persona(self) -> None:
        """All personas."""
        self._personating.open(self._palette)

    def action_sessions(self) -> None:
        """All saved chats."""
        self._conversations.browse(self._palette)

    def action_save(self) -> None:
        """Asks where to save the transcript."""
        self._conversations.save(self._save)

    def action_editor(self) -> None:
        """The message in the editor; the chat goes on meanwhile."""
        self.run_worker(self._writing.edit(), group="editor", exclusive=True)

    def action_history(self) -> None:
        """All messages that were written."""
        self._writing.browse_history(self._palette)

    def action_queue(self) -> None:
        """All messages that wait."""
        self._writing.browse_queue(self._palette)

    def action_unfold(self) -> None:
        """The text of what was pasted."""
        self._desk.composer.action_unfold()

    def action_interrupt(self) -> None:
        """Copies the selection, else stops the reply, else asks, and then quits. What was just done is not done again."""
        selected = self._desk.query_one(Composer).selected_text or self.get_selected_text()
        if selected and not self._interrupted:
            self._interrupted = "copied"
            self.habits.copy(selected, "the selection")
        elif self._chat.busy and self._interrupted != "stopped":
            self._interrupted = "stopped"
            self._do(self._chat.stop)
        elif self._chat.busy:  # the engine does not hear
            self._leave()
        else:
            self.ask_to_quit()

    def ask_to_quit(self) -> None:
        """Asks, and quits when that was asked a moment ago."""
        lost = ": what you have written would be lost" if self._desk.query_one(Composer).text.strip() else ""
        if self._told.ask_to_quit(Notice(f"press {name_of('interrupt')} again to quit{lost}")):
            self._leave()

    def noticed(self, event: events.Event) -> None:
        """Someone goes on, whatever it does and wherever it goes: who was asked whether to quit has answered."""
        if not isinstance(event, events.Key) or event.key not in self.interrupts:
            self._interrupted = ""
            self._told.answer()

    def action_scroll(self, where: Scroll) -> None:
        """Scrolls the chat, wherever the keyboard is."""
        if where == "end":
            self._transcript.follow()
        else:
            getattr(self._transcript, f"scroll_{where}")(animate=False)

    def _do(self, what: Callable[[], object]) -> None:
        what()
        self.tick()
