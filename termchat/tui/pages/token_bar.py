"""Token mode on the screen: the ribbon, which has the keyboard, the line that is typed below it, and its dialogs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Concatenate, Literal, ParamSpec, Protocol, runtime_checkable

from textual import events
from textual.app import ComposeResult
from textual.message import Message
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Input

from termchat.chat.changes import Answered, Change, Notice
from termchat.chat.questions import Questions
from termchat.chat.service import Chat
from termchat.conversation.tree import Span
from termchat.tui.draw.field import Field
from termchat.tui.draw.ink import MARGIN
from termchat.tui.draw.lines_view import Column, LinesView, Slip
from termchat.tui.keys.key import Label
from termchat.tui.keys.tables import TOKENS, name_of
from termchat.tui.pages.ribbon import ribbon_line, token_at
from termchat.tui.pages.token_mode import PROMPTS, TokenMode, Typing, View
from termchat.tui.themes.theme_file import Palette
from termchat.tui.transcript import TranscriptView
from termchat.tui.transcript.looks import TOKEN_LOOKS, legend_line, next_look

P = ParamSpec("P")


@runtime_checkable
class ShowsAnswers(Protocol):
    """A dialog that takes in the answers to questions."""

    def hear(self, questions: Questions) -> None: ...


class Ribbon(LinesView, can_focus=True):
    """The reply under the cursor on one line, and the meaning of its colours on another if it fits."""

    class Clicked(Message):
        """A cell of the reply."""

        def __init__(self, column: int) -> None:
            super().__init__()
            self.column = column

    def on_click(self, event: events.Click) -> None:
        if event.button == 1 and event.y == 0:
            self.post_message(self.Clicked(event.x - MARGIN))


def _acting(do: Callable[Concatenate[TokenMode, P], object]) -> Callable[Concatenate[Tokens, P], None]:
    """Make an action of the bar from one of token mode."""

    def act(bar: Tokens, /, *arguments: P.args, **options: P.kwargs) -> None:
        do(bar.mode, *arguments, **options)
        bar.follow()

    return act


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

    def __init__(self, chat: Chat, transcript: TranscriptView) -> None:
        super().__init__()
        self.mode = TokenMode(chat, transcript)
        self.ribbon = Ribbon()
        self._chat = chat
        self._input = Field(select_on_focus=False)  # it may get the keyboard back in mid word
        self.display = self._input.display = False  # not by a class: that costs as much as all the lines in view
        self._asking: object = None

    def compose(self) -> ComposeResult:
        yield self.ribbon
        yield self._input

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return self.screen.focused is not self._input

    def paint_with(self, palette: Palette) -> None:
        self.ribbon.paint_with(palette)

    # --- in and out --------------------------------------------------------------------------------------------------

    def enter(self) -> bool:
        """Open token mode; False for a chat without tokens."""
        if not self.mode.enter():
            self._chat.add_changes(Notice("no tokens yet", "send a message first"))
            return False
        self.follow()
        self.screen.set_focus(self.ribbon)  # not focus(): the very next key is for it
        return True

    def back(self) -> bool:
        """Close the innermost thing; False if nothing was open."""
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
        """Turn to the next look of tokens, and save it with the chat."""
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
        """The keys of the line while one is typed."""
        return [Label("Enter", "accept"), Label(name_of("back"), "back")] if self.mode.typing is not None else []

    # --- what it shows -----------------------------------------------------------------------------------------------

    def heard(self, news: Sequence[Change]) -> None:
        if news and self.mode.open:
            self.mode.heard(news)
            self.show()
        if isinstance(self._asking, ShowsAnswers) and any(isinstance(change, Answered) for change in news):
            self._asking.hear(self._chat.questions)

    def show(self) -> None:
        look = self.transcript.look
        if self.mode.open and look != "reading":
            line = ribbon_line(self.transcript.cursor_reply, look, self.transcript.cursor, self.ribbon.room)
            self.ribbon.show_lines([line, legend_line(look, self.transcript.cursor_reply)])

    def follow(self) -> None:
        """Show what token mode has open, and posts `Acted`."""
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

    action_move = _acting(TokenMode.move)
    action_choose = _acting(TokenMode.choose)
    action_cut = _acting(TokenMode.cut)
    action_ask = _acting(TokenMode.ask)
    action_fork_there = _acting(TokenMode.fork_there)
    action_pause = _acting(TokenMode.pause)
    action_step = _acting(TokenMode.step)
    _show, _submit = _acting(TokenMode.show), _acting(TokenMode.submit)

    def action_half_page(self, how: Literal["up", "down"]) -> None:
        for _ in range(max(self.transcript.size.height // 2, 1)):
            self.mode.move(how)
        self.follow()

    async def action_bias(self, how: str) -> None:
        await self.app.run_action(f"bias({how!r})", self.screen)

    def action_show(self, view: View) -> None:
        if self.mode.open or self.enter():
            self._show(view)

    def action_type(self, what: Typing) -> None:
        self._input.placeholder = PROMPTS[what]
        self.mode.typing = what
        self.follow()
        self.screen.set_focus(self._input)  # not focus(): the very next key is for it

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.screen.set_focus(self.ribbon)
        self._submit(event.value)

    async def action_dialog(self, name: str) -> None:
        await self.app.run_action(f"dialog({name!r})", self.screen)

    def read(self, dialog: Screen[None]) -> None:
        """Open a dialog that shows answers."""

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
