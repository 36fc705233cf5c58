"""Token mode on the screen: the ribbon, which has the keyboard, the line that is typed below it, and its dialogs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

from textual import events
from textual.app import ComposeResult
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input

from termchat.chat.changes import Answered, Change, Notice
from termchat.chat.service import Chat
from termchat.conversation.tree import Span
from termchat.engine.port import Unit
from termchat.tui.draw.field import Field
from termchat.tui.draw.ink import MARGIN
from termchat.tui.draw.lines_view import Column, LinesView, Slip
from termchat.tui.keys.key import Label
from termchat.tui.keys.tables import TOKENS, name_of
from termchat.tui.panels.record import piece_of
from termchat.tui.panels.ribbon import legend_line, ribbon_line, token_at
from termchat.tui.themes.theme_file import Palette
from termchat.tui.tokens.mode import PROMPTS, TokenMode, Typing
from termchat.tui.tokens.panel import View
from termchat.tui.transcript import TranscriptView
from termchat.tui.transcript.cursor.cursor import Move
from termchat.tui.transcript.looks import TOKEN_LOOKS, next_look

if TYPE_CHECKING:
    from termchat.tui.tokens.bias_dialog import BiasDialog
    from termchat.tui.tokens.tokenizer import PiecesDialog


class Ribbon(LinesView, can_focus=True):
    """The reply under the cursor on one line, and what its colours mean on another where there is room."""

    class Clicked(Message):
        """A cell of the reply."""

        def __init__(self, column: int) -> None:
            super().__init__()
            self.column = column

    def on_click(self, event: events.Click) -> None:
        if event.button == 1 and event.y == 0:
            self.post_message(self.Clicked(event.x - MARGIN))


class Tokens(Column):
    """What token mode puts under the transcript. Its keys work while the ribbon has the keyboard."""

    DEFAULT_CSS = """
    Tokens { height: auto; }
    Tokens.-tall Ribbon { height: 2; }
    Tokens Input, Tokens Input:focus { height: 1; border: none; padding: 0 1; background: $panel; }
    """
    BINDINGS = [key.binding for key in TOKENS]  # noqa: RUF012

    class Acted(Message):
        """A key did something, or the mode was opened or closed."""

    class DialogWanted(Message):
        """A key asks for one of the screen's dialogs."""

        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

    class BiasWanted(Message):
        """A token, which is shown as this text, is to be banned, or to get a higher logit: "ban", "more"."""

        def __init__(self, token: int, text: str, how: str) -> None:
            super().__init__()
            self.token, self.text, self.how = token, text, how

    def __init__(self, chat: Chat, transcript: TranscriptView) -> None:
        super().__init__()
        self.mode = TokenMode(chat, transcript)
        self.ribbon = Ribbon()
        self._chat = chat
        self._input = Field(select_on_focus=False)  # it may get the keyboard back in mid word
        self.display = self._input.display = False  # not by a class: that costs as much as all the lines in view
        self._asking: PiecesDialog | BiasDialog | None = None

    def compose(self) -> ComposeResult:
        yield self.ribbon
        yield self._input

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return self.screen.focused is not self._input

    def paint_with(self, palette: Palette) -> None:
        self.ribbon.paint_with(palette)

    # --- in and out --------------------------------------------------------------------------------------------------

    def enter(self) -> bool:
        """Opens token mode; False if there is no token yet."""
        if not self.mode.enter():
            self._chat.add_changes(Notice("no tokens yet", "send a message first"))
            return False
        self.follow()
        self.screen.set_focus(self.ribbon)  # not focus(): the very next key is for it
        return True

    def back(self) -> bool:
        """Closes the innermost thing; False if nothing was open."""
        if not self.mode.open:
            return False
        self.mode.back()
        self.follow()
        if self.mode.open:
            self.screen.set_focus(self.ribbon)
        return True

    def leave(self) -> None:
        self.mode.leave()
        self.follow()

    def next_look(self) -> None:
        """The next of the looks that show tokens; it is kept, should nobody be able to when the app ends."""
        replies = (span.node for span in self.transcript.cursor_reply)
        self.transcript.look = next_look(TOKEN_LOOKS, self.transcript.look, replies)
        self.mode.keep()

    @property
    def transcript(self) -> TranscriptView:
        """The view of the reply that is looked at."""
        return self.mode.transcript

    @property
    def home(self) -> Widget:
        """What has the keyboard: the line while one is typed, else the ribbon."""
        return self._input if self.mode.typing is not None else self.ribbon

    @property
    def asked(self) -> list[Label]:
        """The keys of the line that is being typed; none if there is none."""
        return [Label("Enter", "accept"), Label(name_of("back"), "back")] if self.mode.typing is not None else []

    # --- what it shows -----------------------------------------------------------------------------------------------

    def heard(self, news: Sequence[Change]) -> None:
        if news and self.mode.open:
            self.mode.heard(news)
            self.show()
        if self._asking is not None and any(isinstance(change, Answered) for change in news):
            self._asking.hear(self._chat.questions)

    def show(self) -> None:
        look = self.transcript.look
        if self.mode.open and look != "reading":
            line = ribbon_line(self.transcript.cursor_reply, look, self.transcript.cursor, self.ribbon.room)
            self.ribbon.show_lines([line, legend_line(look, self.transcript.cursor_reply)])

    def follow(self) -> None:
        """Shows what token mode has open, and posts `Acted`."""
        typing = self.mode.typing is not None
        self.display = self.mode.open
        if typing != self._input.display:
            self._input.display = typing
            self._input.clear()
        self.show()
        self.post_message(self.Acted())

    def on_ribbon_clicked(self, event: Ribbon.Clicked) -> None:
        look = self.transcript.look
        if look != "reading":
            ref = token_at(self.transcript.cursor_reply, look, event.column, self.ribbon.room)
            if ref is not None:
                self.transcript.set_cursor(ref)

    # --- keys --------------------------------------------------------------------------------------------------------

    def action_move(self, how: Move) -> None:
        self._act(lambda: self.mode.move(how))

    def action_half_page(self, how: Literal["up", "down"]) -> None:
        for _ in range(max(self.transcript.size.height // 2, 1)):
            self.mode.move(how)
        self.follow()

    def action_choose(self, number: int) -> None:
        self._act(lambda: self.mode.choose(number))

    def action_cut(self) -> None:
        self._act(self.mode.cut)

    def action_cut_paused(self) -> None:
        self._act(lambda: self.mode.cut(paused=True))

    def action_bias(self, how: str) -> None:
        """Bans the token under the cursor or what a paused reply would take next, or adds to its logit."""
        shown = self.mode.shown()
        if shown is not None:
            self.post_message(self.BiasWanted(shown.token.id, piece_of(shown.token), how))

    def action_ask(self, when: str) -> None:
        self._act(lambda: self.mode.ask(now=when == "now"))

    def action_show(self, view: View) -> None:
        if self.mode.open or self.enter():
            self._act(lambda: self.mode.show(view))

    def action_fork_there(self) -> None:
        self._act(self.mode.fork_there)

    def action_pause(self) -> None:
        self._act(self.mode.pause)

    def action_step(self, unit: Unit) -> None:
        self._act(lambda: self.mode.step(unit))

    def action_type(self, what: Typing) -> None:
        self._input.placeholder = PROMPTS[what]
        self.mode.typing = what
        self.follow()
        self.screen.set_focus(self._input)  # not focus(): the very next key is for it

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.screen.set_focus(self.ribbon)
        self._act(lambda: self.mode.submit(event.value))

    def _act(self, what: Callable[[], None]) -> None:
        what()
        self.follow()

    def action_dialog(self, name: str) -> None:
        self.post_message(self.DialogWanted(name))

    def read(self, dialog: PiecesDialog | BiasDialog) -> None:
        """Opens a dialog that hears of answers."""

        def closed(_result: None) -> None:
            self._asking = None

        self._asking = dialog
        self.app.push_screen(dialog, closed)


class Legend(Slip):
    """What the colours of a token look mean, outside of token mode. `reply` is the one that the chat ends in."""

    def __init__(self, transcript: TranscriptView, reply: Callable[[], Sequence[Span]]) -> None:
        super().__init__(id="legend")
        self._transcript, self._reply = transcript, reply

    def on_mount(self) -> None:
        self.watch(self._transcript, "look", self.draw)

    def draw(self) -> None:
        look = self._transcript.look
        shows = look != "reading" and not self._transcript.pointing
        self.show_lines([legend_line(look, self._reply())] if look != "reading" and shows else [])
