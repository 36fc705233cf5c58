"""The screen of a chat: what a person does to it, by key, mouse and message."""

from __future__ import annotations

from typing import Literal

from textual import events

from termchat.chat.changes import Notice
from termchat.tui.composer.composer import Composer
from termchat.tui.composer.sending import FilesRead
from termchat.tui.keys.tables import CHAT, MODEL, name_of
from termchat.tui.models.model_switching import Heard
from termchat.tui.screen.knobs import KnobsView
from termchat.tui.screen.layout import ALONE, ChatLayout
from termchat.tui.screen.panels import Page, Panels
from termchat.tui.transcript.looks import LOOKS

Scroll = Literal["page_up", "page_down", "up", "down", "home", "end"]


class ChatScreen(ChatLayout):
    """One chat, and its actions: each is one call into the room that does it."""

    BINDINGS = [key.binding for key in (*CHAT, *MODEL)]  # noqa: RUF012

    def on_composer_submitted(self, event: Composer.Submitted) -> None:
        """Sends a message."""
        self._told.go_on()
        if self.habits.submitted(event.text):
            return
        self._writing.send(event.text, event.written)
        self._choosing.remind()

    def on_labelled_area_refused(self, event: Composer.Refused) -> None:
        """Says why."""
        self.tell(event.notice)

    def on_text_area_changed(self) -> None:
        """Counts what is written."""
        self._writing.changed()

    def on_files_read(self, message: FilesRead) -> None:
        """The files of a message were read."""
        self._writing.gathered(message)

    def on_desk_tuned(self) -> None:
        """Shows the knob that was turned."""
        if self._desk.tune is None and not self.tokens.mode.open:
            self._drawer.release()
            self._lay_out()
        self.tick()
        self._show_soon()

    def on_tokens_acted(self) -> None:
        """Shows what token mode did."""
        mode = self.tokens.mode
        if mode.open:
            self._desk.home = self.tokens.home
            if self.size.width >= ALONE:
                self._drawer.need()
        elif self._desk.home is not None:
            self._desk.home = self._big.home
            self._drawer.release()
            if self._desk.tune is None:
                self._desk.take_keyboard()
        self._lay_out()
        self.tick()
        self._show_soon()

    def on_transcript_view_cursor_moved(self) -> None:
        """A click on a token opens token mode; what takes the cursor away closes it."""
        if self._transcript.cursor is not None and not self.tokens.mode.open:
            self.tokens.enter()
        elif self.tokens.mode.open and not self.tokens.mode.pointed():
            self.tokens.leave()
        self.tokens.show()
        self._show_soon()

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """The chat itself never has the keyboard, whatever is clicked; whoever clicks into the composer wants to write."""
        self.habits.focused(event.widget)
        self._show_soon()
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
        else:
            self._open_tune()

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
        if chat.phase == "no model" and chat.spec is None:  # nothing was chosen that could be loaded
            self.action_models()
            return
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

    def action_version(self, by: int, node: int | None = None) -> None:
        """Another version of a turn."""
        self.versions.step(by, node)

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

    def ask_to_quit(self, key: str = "interrupt") -> None:
        """Asks, and quits when that was asked a moment ago."""
        lost = ": what you have written would be lost" if self._desk.query_one(Composer).text.strip() else ""
        hint = f"it cannot be saved now; {name_of('save')} writes it to a file" if self._chat.unsaved else ""
        lost = ": this chat would be lost" if self._chat.unsaved else lost
        if self._told.ask_to_quit(Notice(f"press {name_of(key)} again to quit{lost}", hint)):
            self._leave()

    def quit(self) -> None:
        """Quits; asks before, where the chat would be lost."""
        if self._chat.unsaved:
            self.ask_to_quit("quit")
        else:
            self._leave()

    def noticed(self, event: events.Event) -> None:
        """Someone goes on, whatever it does and wherever it goes: who was asked whether to quit has answered."""
        if not isinstance(event, events.Key) or event.key not in self.interrupts | self.quits:
            self._interrupted = ""
            self._told.answer()

    def action_scroll(self, where: Scroll) -> None:
        """Scrolls the chat, wherever the keyboard is."""
        if where == "end":
            self._transcript.follow()
        else:
            getattr(self._transcript, f"scroll_{where}")(animate=False)
