"""The widgets of the walks view, and what each of them shows."""

from __future__ import annotations

from collections.abc import Mapping
from time import monotonic
from typing import NamedTuple

from textual import events, on
from textual.app import ComposeResult
from textual.message import Message

from termchat.chat.reply_group import ReplyGroup
from termchat.chat.service import Chat
from termchat.tui.draw.ink import BLANK
from termchat.tui.draw.lines_view import Column, LinesView, Row, Slip
from termchat.tui.keys.tables import NOT_OTHERWISE, WALKS
from termchat.tui.pages.page import Scene
from termchat.tui.pages.parting import height_of, parting_lines
from termchat.tui.pages.shown_group import TEXT_PAGE, ShownGroup
from termchat.tui.pages.walk_heads import alone_rate, head_line, list_lines, prompt_lines, title_line
from termchat.tui.pages.walk_table import table_lines
from termchat.tui.themes.theme_file import Palette
from termchat.tui.transcript import TranscriptView
from termchat.tui.transcript.looks import Look

_NARROWEST = 24
"""Cells of a column that are worth reading; with fewer the walks are a list."""
_MOST_COLUMNS = 8
_PARTING = 6
"""Rows in which the first forks are seen."""
_TABLE = 100
"""Cells in which the table and where the walks part have room."""
_TEXT = 8
"""Rows of text that no other part takes away."""
_HIGH, _HIGHEST = 26, 44
"""Rows from which the prompt has two lines, and three."""
_LISTED = 3
"""A list takes one row in so many at most."""


class Arrangement(NamedTuple):
    """Rows of the prompt, of where the walks part, of the list of walks, and of the table below; the text gets the rest.
    `columns` stand side by side; with 0 the walks are a list, with the one under the cursor in full below it."""

    prompt: int
    parting: int
    listed: int
    table: int
    columns: int


def wanted_width(walks: int) -> int:
    """Cells in which so many walks stand side by side, if they ever do."""
    return max(walks * _NARROWEST if walks <= _MOST_COLUMNS else 0, _TABLE)


def arranged(width: int, height: int, walks: int, parting: int, table: int) -> Arrangement:
    """For `walks` of them. `parting` and `table` are the rows that these parts would like to have. The text comes first: the
    table gets all of its rows, or one for its last line, and the parting enough for the first forks, or none."""
    columns = walks if 0 < walks <= _MOST_COLUMNS and width // walks >= _NARROWEST else 0
    prompt = 1 + (height >= _HIGH) + (height >= _HIGHEST)
    listed = 0 if columns else min(walks, max(height // _LISTED, 1))
    left = height - 1 - prompt - listed - _TEXT
    shown_table = table if table <= left else max(min(left, 1), 0)
    left -= shown_table
    shown_parting = min(parting, left) if left >= min(parting, _PARTING) else 0
    return Arrangement(prompt, shown_parting, listed, shown_table, columns)


SELDOM = 0.5
"""Seconds between looks at what need not follow every token: heads, rates, where the walks part, tables."""
_PARTING = 3
"""Where the walks part takes one row in so many at most, beside their text."""


class WalkText(TranscriptView):
    """The text of one walk, from where the walks begin."""

    DEFAULT_CSS = "WalkText { width: 1fr; }"

    def __init__(self, palette: Palette, look: Look) -> None:
        super().__init__(palette)
        self.set_reactive(TranscriptView.look, look)
        self._document.look = look
        self.walk = 0

    def show_walk(self, group: ReplyGroup, walk: int) -> None:
        self.walk = walk
        self.show_reply(group.list_spans(walk), running=walk in group.running)

    @on(events.Click)
    async def choose(self) -> None:
        """Before it points at a token the walk is the one that is looked at."""
        await self.app.run_action(f"walks('choose', {self.walk + 1})", self.screen)


class WalkColumn(Column):
    """One walk: its head above its text."""

    DEFAULT_CSS = "WalkColumn { width: 1fr; height: 1fr; } WalkColumn WalkText { height: 1fr; }"

    def __init__(self, palette: Palette, look: Look) -> None:
        super().__init__()
        self.head, self.text = LinesView(), WalkText(palette, look)
        self.head.paint_with(palette)

    def compose(self) -> ComposeResult:
        yield self.head
        yield self.text


class WalksHead(LinesView, can_focus=True):
    """The line over all walks. It has the keyboard while the walks are steered."""

    BINDINGS = [key.binding for key in WALKS]  # noqa: RUF012


class WalksView(Column):
    """Shows a group of walks: its page, and which walk is under the cursor.

    The walks stand side by side where there is room, else as a list with the one under the cursor in full. `page` is the name
    of what Tab has turned to.
    """

    DEFAULT_CSS = """
    WalksView { height: 1fr; display: none; }
    WalksView #walks-columns { height: 1fr; }
    WalksView #walks-page { height: 1fr; display: none; }
    """

    class Turned(Message):
        """Another walk's text is the one that is looked at."""

    def __init__(self, chat: Chat, palette: Palette) -> None:
        super().__init__()
        self._chat, self._palette = chat, palette
        self.head = WalksHead(id="walks-head")
        self._prompt, self._parting, self._list, self._table = (Slip() for _ in range(4))
        self._row = Row(id="walks-columns")
        self._sheet = LinesView(id="walks-page")
        self._columns: dict[int, WalkColumn] = {}
        """By walk, so that each keeps its place and its cursor while there is room for one only."""
        self._shown: ShownGroup | None = None
        self._look: Look = "probability"
        self._parting_rows = self._page_rows = 0
        self._top = 0
        """The first line of the page that is in view."""
        self._drawn = 0.0
        self._stale = False
        self._alone: float | None = None

    def compose(self) -> ComposeResult:
        yield self.head
        yield self._prompt
        yield self._parting
        yield self._list
        yield self._row
        yield self._sheet
        yield self._table

    @property
    def group(self) -> ReplyGroup | None:
        return self._shown.group if self._shown is not None else None

    @property
    def look(self) -> Look:
        return self._look

    @look.setter
    def look(self, look: Look) -> None:
        self._look = look
        if self._shown is not None:
            self._shown.look = look
        for column in self._columns.values():
            column.text.look = look
        self._show_list()

    @property
    def cursor(self) -> int:
        """The number of the walk under the cursor."""
        return self._shown.cursor if self._shown is not None else 0

    @property
    def walks(self) -> list[int]:
        """The numbers of the walks that the text shows."""
        return self._shown.walks if self._shown is not None else []

    @property
    def text(self) -> WalkText | None:
        """The text of the walk under the cursor, None where no group is shown."""
        return next((column.text for walk, column in self._visible_columns() if walk == self.cursor), None)

    @property
    def is_list(self) -> bool:
        return self._shown is not None and not self._arrange_parts(self._shown).columns

    @property
    def page(self) -> str:
        return self._shown.page.name if self._shown is not None else TEXT_PAGE

    @property
    def spare(self) -> int:
        """Number of empty rows under the content."""
        if self._sheet.display:
            return self._sheet.size.height - self._page_rows
        texts = [column.text for _, column in self._visible_columns()]
        return min((text.size.height - text.virtual_size.height for text in texts), default=0)

    @property
    def words(self) -> Mapping[str, str]:
        """The keys that do something else on the page, by their ids, and what."""
        return self._shown.page.words if self._shown is not None else NOT_OTHERWISE

    def paint_with(self, palette: Palette) -> None:
        self._palette = palette
        for view in (self.head, self._prompt, self._parting, self._list, self._table, self._sheet):
            view.paint_with(palette)
        for column in self._columns.values():
            column.head.paint_with(palette)
            column.text.palette = palette

    # --- which walks -------------------------------------------------------------------------------------------------

    def show(self, group: ReplyGroup | None) -> None:
        """Show a group as it is now; None: nothing."""
        if group is not self.group:
            self._shown = ShownGroup(self._chat, group, self._look) if group is not None else None
            if self._shown is not None:
                from termchat.tui.pages.group_pages import make_pages  # no page is there in the first frame

                self._shown.put_pages(make_pages(self._shown))
            self._parting_rows = self._top = 0
            self._alone = alone_rate(self._chat.conversation)
            for column in self._columns.values():
                column.display = False
        self.lay()

    def turn(self, by: int) -> None:
        """Turn to the next page, or one before."""
        if self._shown is not None:
            names = list(self._shown.pages)
            self.turn_to(names[(names.index(self.page) + by) % len(names)])

    def turn_to(self, name: str) -> None:
        if self._shown is not None:
            self._shown.turn_to(name)
            self._top = 0
            self.lay()

    def act(self, what: str, *arguments: object) -> bool:
        """What the page does with a key; False where that is nothing of its own."""
        if self._shown is None:
            return False
        page = self._shown.page
        if done := page.act(what, *arguments):
            self._show_seldom() if page is self._shown.page else self.lay()
        return done

    def scroll_by(self, lines: int) -> None:
        """Of a page, and of the text of the walk under the cursor where that is shown."""
        if self.page != TEXT_PAGE:
            self._top = max(self._top + lines, 0)
            self._show_seldom()
        elif (text := self.text) is not None:
            text.scroll_relative(y=lines, animate=False)

    def grew(self) -> None:
        """Take in new tokens."""
        if (group := self.group) is None:
            return
        for walk, column in self._visible_columns():
            if self.display or walk == self.cursor:  # in the big view of the panels token mode may be in its text
                column.text.grew(group.nodes[walk].number)
        if not self.display:
            return
        self._show_list()
        self._stale = True
        self.follow()

    def follow(self) -> None:
        """Show what need not follow every token, where it is time; call it again and again while walks run."""
        if self._stale and monotonic() - self._drawn >= SELDOM:
            self._show_seldom()

    # --- how it is drawn ---------------------------------------------------------------------------------------------

    def lay(self) -> None:
        """Give every part its room and its content."""
        shown = self._shown
        if shown is None or not self.size or shown.cursor not in shown.group.nodes:
            return
        is_text = self.page == TEXT_PAGE
        self._row.display, self._sheet.display = is_text, not is_text
        walks = (shown.walks if self._arrange_parts(shown).columns else [shown.cursor]) if is_text else []
        for walk in walks:
            if walk not in self._columns:
                self._columns[walk] = WalkColumn(self._palette, self._look)
                after = sum(other < walk for other in self._columns)
                self._row.mount(self._columns[walk], before=after if after < len(self._row.children) else None)
        for walk, column in self._columns.items():
            column.display = walk in walks
            if column.display:
                column.text.show_walk(shown.group, walk)
        self._show_seldom()
        self.post_message(self.Turned())

    def on_resize(self) -> None:
        self.lay()

    def on_lines_view_laid(self) -> None:
        self._show_seldom()

    def _arrange_parts(self, shown: ShownGroup) -> Arrangement:
        return arranged(*self.size, len(shown.walks), self._parting_rows, len(shown.group.nodes) + 2)

    def _visible_columns(self) -> list[tuple[int, WalkColumn]]:
        """The columns in use, with their walks."""
        return [(walk, column) for walk, column in self._columns.items() if column.display and self._shown is not None]

    def _show_list(self) -> None:
        if (shown := self._shown) is None or not self.size:
            return
        rows = self._arrange_parts(shown).listed if self.page == TEXT_PAGE else 0
        if rows and shown.group.nodes.keys() - shown.labels.keys():  # one has joined
            shown.read()
        self._list.show_lines(list_lines(shown, self.head.room, rows) if rows else [])

    def _show_seldom(self) -> None:
        shown = self._shown
        if shown is None or not self.size or shown.cursor not in shown.group.nodes:
            return
        self._drawn, self._stale = monotonic(), False
        shown.read()
        width, text = self.head.room, self.page == TEXT_PAGE
        wanted = min(height_of(shown), self.size.height // _PARTING)
        self._parting_rows = max(self._parting_rows, wanted)  # it never shrinks: each new height costs a layout
        room = self._arrange_parts(shown)
        self.head.show_lines([title_line(shown.group, width, self._alone, list(shown.pages), self.page)])
        self._prompt.show_lines(prompt_lines(self._chat.conversation, shown.group, width, room.prompt))
        self._show_list()
        parting = parting_lines(shown, width, room.parting) if text and room.parting else []
        self._parting.show_lines([*parting, *[BLANK] * (room.parting - len(parting))] if text else [])
        self._table.show_lines(table_lines(shown, width)[-room.table :] if text and room.table else [])
        for walk, column in self._visible_columns():
            column.head.show_lines([head_line(shown, walk, column.head.room)])
        if not text:
            rows = self._sheet.size.height
            lines = shown.page.lines(Scene(width, rows))
            self._top = max(min(self._top, len(lines) - rows), 0)
            self._page_rows = len(lines[self._top : self._top + rows])
            self._sheet.show_lines(lines[self._top : self._top + rows])
