"""What stands where on the screen (the chat at the left, the panels at the right, the composer and the keys below), and what
the chat says, shown there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from textual import events
from textual.app import ComposeResult
from textual.reactive import Reactive
from textual.widget import Widget

from termchat.chat.changes import Notice, PathChanged, ReplyGrew, RoomWanted
from termchat.chat.service import Chat
from termchat.tui.composer.composer import Composer
from termchat.tui.composer.history import History
from termchat.tui.composer.sending import Writing
from termchat.tui.draw.ink import Ink, Line
from termchat.tui.draw.lines_view import Column, LinesView, Row, Slip
from termchat.tui.draw.polling import FRAMES, Pulse
from termchat.tui.keys.tables import situation_of
from termchat.tui.models.gather import Models
from termchat.tui.models.model_switching import Choosing
from termchat.tui.models.welcome import welcome_lines
from termchat.tui.screen.big import BESIDE, Big, Drawer
from termchat.tui.screen.desk import Desk
from termchat.tui.screen.habits import Habits
from termchat.tui.screen.header_line import header_line
from termchat.tui.screen.notices import NoticeSlip, notice_lines, queue_lines, wrapped
from termchat.tui.screen.panels import Panels
from termchat.tui.screen.pointing import Pointing
from termchat.tui.sessions.begin_as import Personating
from termchat.tui.sessions.chat_switching import Conversations, Save
from termchat.tui.sessions.session_list import SessionList
from termchat.tui.slash.attach import Slashing
from termchat.tui.slash.slash import Around
from termchat.tui.terminal.compositor import LineCompositor
from termchat.tui.terminal.screens import LiveScreen, draw_now, use_compositor
from termchat.tui.themes.library import Wardrobe
from termchat.tui.themes.theme_file import Palette
from termchat.tui.tokens.token_bar import Legend, Tokens
from termchat.tui.tokens.turn_versions import TurnVersions
from termchat.tui.transcript import TranscriptView

_SMALLEST = (40, 12)
_WIDE = 150
ALONE = 80
"""Under so many columns an open drawer takes the chat's place."""
_TALL = 30
"""From so many rows on the ribbon says what its colours mean."""


class ChatLayout(LiveScreen):
    """One chat: brings what it says to the widgets. What a person does is brought to it by `ChatScreen`.

    `models` are those that there are, `sessions` the saved chats, None where none are kept; `save` makes what writes a
    transcript (see `saving`); `keep_theme` shows a theme from now on; `leave` ends the app; `keymap` is id to keys where they
    were remapped.
    """

    DEFAULT_CSS = """
    ChatLayout { background: $background; }
    ChatLayout #main { height: 1fr; }
    ChatLayout TranscriptView, ChatLayout #welcome { height: 1fr; }
    ChatLayout #small { display: none; height: 1fr; }
    ChatLayout Panels { display: none; }
    ChatLayout.-panels Panels { display: block; }
    ChatLayout.-wide Panels { width: 60; }
    ChatLayout.-alone.-panels #chat { display: none; }
    ChatLayout.-alone.-panels Panels { width: 1fr; }
    ChatLayout.-big #main { layout: vertical; }
    ChatLayout.-big #chat, ChatLayout.-big.-alone.-panels #chat { display: block; height: auto; }
    ChatLayout.-big Panels { display: block; width: 1fr; }
    ChatLayout.-small { & #small { display: block; } & #header, & #main, & Desk { display: none; } }
    """
    BLANK = True
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
        wardrobe: Wardrobe,
        keep_theme: Callable[[str], None],
        leave: Callable[[], None],
        history: History | None = None,
    ) -> None:
        super().__init__()
        use_compositor(self, LineCompositor())
        self._chat, self._palette, self._save, self._leave = chat, palette, save, leave
        self._header, self._welcome, self._small = (LinesView(id=name) for name in ("header", "welcome", "small"))
        self._told = NoticeSlip(self._notice_lines, id="notice")
        self._queue = Slip(id="queue")
        self._transcript = TranscriptView(palette)
        self._legend = Legend(self._transcript)
        self.tokens = Tokens(chat, self._transcript)
        self._panels = Panels()
        self._desk = Desk(chat, keymap)
        self._drawer = Drawer()
        self._big = Big(
            self,
            chat,
            self._panels,
            self._transcript,
            self.tokens,
            self._desk,
            self._drawer,
            self._lay_out,
            self._show_path,
        )
        composer, edge, follow = self._desk.composer, self._desk.edge, self._transcript.follow
        self._writing = Writing(self, chat, composer, edge, history or History(), self._do, self.tell, follow)
        self.habits = Habits(self, chat, self._transcript, self.tokens, self._desk, self._do, self.tell)
        self.versions = TurnVersions(chat, self._transcript, self._do, self.tell)
        self._pointing = Pointing(chat, self._desk, self.tokens, self._open_tune, self._do)
        self.interrupts = {"ctrl+c", *keymap.get("interrupt", "").replace(" ", "").split(",")}
        self.quits = set(keymap.get("quit", "ctrl+q").replace(" ", "").split(","))
        self._interrupted: Literal["", "copied", "stopped"] = ""
        self._pulse: Pulse | None = None
        self._choosing = Choosing(self, chat, models, self._do, self.tell)
        self._conversations = Conversations(self, chat, self.tokens, sessions, keymap, self._do, self.tell)
        self._personating = Personating(self, chat, self._conversations, self._do, self.tell)
        rooms = (self._choosing, self._conversations, self._personating, self.tokens)
        around = Around(chat, models, *rooms, save, wardrobe, keep_theme, self._do, self.tell)
        self._slashing = Slashing(self, composer, around)

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
        self._chat.recorder.listen(self._pulse.nudge)  # saving fails, or works again, also while nothing else happens
        self.tokens.mode.find()
        self._show_path()
        self._desk.query_one(Composer).focus()
        self.call_after_refresh(self._writing.begin)

    def on_unmount(self) -> None:
        """Looks no more."""
        self._chat.recorder.listen(None)
        if self._pulse is not None:
            self._pulse.stop()

    def on_resize(self, event: events.Resize) -> None:
        """Arranges everything for the size."""
        width, height = event.size
        small = width < _SMALLEST[0] or height < _SMALLEST[1]
        self.set_class(small, "-small")
        if not small and self.focused is None:
            # What had the keyboard was hidden, and is shown again before this is done.
            self.app.call_later(self._desk.take_keyboard)
        self.set_class(width >= _WIDE, "-wide")
        self.set_class(width < ALONE, "-alone")
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
        draw_now(self)
        self._pulse.arm(chat.engine.fileno(), running=chat.busy or chat.phase == "loading")

    def _ask_for_room(self) -> None:
        from termchat.tui.dialogs.full import FullDialog  # not needed before the first frame

        if self._chat.full is not None:
            self.app.push_screen(
                FullDialog(self._chat.full), lambda way: self._do(lambda: self._chat.make_room(way or "stop"))
            )

    def _show_path(self) -> None:
        empty = self._chat.conversation.leaf is None
        self._welcome.display = empty and not self._panels.big
        self._transcript.display = not empty and not self._panels.big
        if self._transcript.display and not self._transcript.size:
            self.refresh(
                layout=True
            )  # at once: if another asks before that where widgets are, it never hears of its size
        self.versions.shown()
        self._transcript.show(self._chat.conversation, running=self._chat.busy)
        if empty:
            self._welcome.show_lines(welcome_lines(self._chat, self._room))

    def _show_state(self) -> None:
        self._stale = ""
        chat = self._chat
        self._header.show_lines([header_line(chat, self._header.room, self._choosing.downloads)])
        mode = self.tokens.mode
        self._big.show()
        empty, big = chat.conversation.leaf is None, self.focused is self._panels
        situation = situation_of(chat.phase, empty=empty, tokens=mode.open, big=big)
        self._desk.show_keys(situation, self.habits.asked or self.tokens.asked)
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
        return (column.size.width or self.app.size.width) - 2

    def on_lines_view_laid(self) -> None:
        """Fills the room there is."""
        self._show_soon()
        self._show_slips()
        self.tokens.show()
        if self._welcome.display:
            self._welcome.show_lines(welcome_lines(self._chat, self._welcome.room))

    def _open_tune(self) -> None:
        """TUNE, and the drawer with it."""
        self._drawer.need()
        self._lay_out()
        self._desk.open_tune()

    def _lay_out(self) -> None:
        self.set_class(self._drawer.shown, "-panels")

    def _do(self, what: Callable[[], object]) -> None:
        what()
        self.tick()
