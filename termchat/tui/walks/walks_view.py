"""The widgets of the walks view, and what each of them shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import monotonic

from textual import events, on
from textual.app import ComposeResult
from textual.message import Message

from termchat.chat.reply_group import ReplyGroup
from termchat.chat.service import Chat
from termchat.tui.draw.ink import BLANK, Line
from termchat.tui.draw.lines_view import Column, LinesView, Row, Slip
from termchat.tui.keys.tables import NOT_OTHERWISE, WALKS
from termchat.tui.themes.theme_file import Palette
from termchat.tui.transcript import TranscriptView
from termchat.tui.transcript.looks import Look
from termchat.tui.walks.arrangement import Arrangement, arranged
from termchat.tui.walks.walk_facts import alone_rate, labels_of
from termchat.tui.walks.walk_heads import head_line, list_lines, prompt_lines, title_line
from termchat.tui.walks.walk_pages import WalksPage, first_of, pages_of
from termchat.tui.walks.walk_parting import height_of, parting_lines
from termchat.tui.walks.walk_reader import WalkReader
from termchat.tui.walks.walk_scene import TEXT_PAGE, PageBody, WalksScene
from termchat.tui.walks.walk_table import table_lines

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
        self._group: ReplyGroup | None = None
        self._reader: WalkReader | None = None
        self._labels: dict[int, str] = {}
        self._only: tuple[int, ...] = ()
        self._bodies: dict[str, PageBody] = {}
        self._parting_rows = 0
        self._look: Look = "probability"
        self._page: WalksPage | None = None
        self._top = 0
        """The first line of the page that is in view."""
        self._page_rows = 0
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
        return self._group

    @property
    def look(self) -> Look:
        return self._look

    @look.setter
    def look(self, look: Look) -> None:
        self._look = look
        for column in self._columns.values():
            column.text.look = look
        self._show_list()

    @property
    def cursor(self) -> int:
        """The number of the walk under the cursor."""
        return self._group.cursor if self._group is not None else 0

    @property
    def walks(self) -> list[int]:
        """The numbers of the walks that the text shows."""
        group = self._group
        if group is None:
            return []
        only = [walk for walk in self._only if walk in group.nodes]
        return only if self.cursor in only else sorted(group.nodes)

    @property
    def text(self) -> WalkText | None:
        """The text of the walk under the cursor, None where no group is shown."""
        return next((column.text for walk, column in self._shown() if walk == self.cursor), None)

    @property
    def is_list(self) -> bool:
        return self._group is not None and not self._arranged().columns

    @property
    def page(self) -> str:
        return self._page.name if self._page is not None else TEXT_PAGE

    @property
    def spare(self) -> int:
        """Rows that are empty under what it shows."""
        if self._sheet.display:
            return self._sheet.size.height - self._page_rows
        texts = [column.text for _, column in self._shown()]
        return min((text.size.height - text.virtual_size.height for text in texts), default=0)

    @property
    def words(self) -> Mapping[str, str]:
        """See `PageBody`."""
        body = self._body()
        return body.words if body is not None else NOT_OTHERWISE

    def paint_with(self, palette: Palette) -> None:
        self._palette = palette
        for view in (self.head, self._prompt, self._parting, self._list, self._table, self._sheet):
            view.paint_with(palette)
        for column in self._columns.values():
            column.head.paint_with(palette)
            column.text.palette = palette

    # --- which walks -------------------------------------------------------------------------------------------------

    def show(self, group: ReplyGroup | None) -> None:
        """Shows a group as it is now; None: nothing."""
        if group is not self._group:
            self._group, self._only, self._bodies, self._parting_rows, self._labels = group, (), {}, 0, {}
            self._reader = WalkReader(group) if group is not None else None
            self._page, self._top = first_of(group.group.kind) if group is not None else None, 0
            self._alone = alone_rate(self._chat.conversation)
            for column in self._columns.values():
                column.display = False
        self.lay()

    def turn(self, by: int) -> None:
        """Turns to the next page, or one before."""
        if self._group is not None:
            pages = pages_of(self._group.group.kind)
            at = next((at for at, page in enumerate(pages) if page == self._page), 0)
            self.turn_to(pages[(at + by) % len(pages)].name)

    def turn_to(self, name: str, walks: Sequence[int] = ()) -> None:
        """Turns to the page with that name; the text shows only these walks, or all of them where there are none."""
        if self._group is not None:
            self._page = next(page for page in pages_of(self._group.group.kind) if page.name == name)
            self._top, self._only = 0, tuple(walks)
            self.lay()

    def act(self, what: str, *arguments: object) -> bool:
        """What the page does with a key; False where that is nothing of its own."""
        body, scene = self._body(), self._scene()
        done = body is not None and scene is not None and body.act(scene, what, *arguments)
        if done:
            self._show_seldom()
        return done

    def scroll_by(self, lines: int) -> None:
        """Of a page, and of the text of the walk under the cursor where that is shown."""
        if self.page != TEXT_PAGE:
            self._top = max(self._top + lines, 0)
            self._show_seldom()
        elif (text := self.text) is not None:
            text.scroll_relative(y=lines, animate=False)

    def grew(self) -> None:
        """Takes in new tokens."""
        group = self._group
        if group is None:
            return
        for walk, column in self._shown():
            if self.display or walk == self.cursor:  # in the big view of the panels token mode may be in its text
                column.text.grew(group.nodes[walk].number)
        if not self.display:
            return
        self._show_list()
        self._stale = True
        self.follow()

    def follow(self) -> None:
        """Shows what need not follow every token, where it is time; call it again and again while walks run."""
        if self._stale and monotonic() - self._drawn >= SELDOM:
            self._show_seldom()

    # --- how it is drawn ---------------------------------------------------------------------------------------------

    def lay(self) -> None:
        """Gives every part its room and its content."""
        group = self._group
        if group is None or not self.size or self.cursor not in group.nodes:
            return
        is_text = self.page == TEXT_PAGE
        self._row.display, self._sheet.display = is_text, not is_text
        walks = (self.walks if self._arranged().columns else [self.cursor]) if is_text else []
        for walk in walks:
            if walk not in self._columns:
                self._columns[walk] = WalkColumn(self._palette, self._look)
                after = sum(other < walk for other in self._columns)
                self._row.mount(self._columns[walk], before=after if after < len(self._row.children) else None)
        for walk, column in self._columns.items():
            column.display = walk in walks
            if column.display:
                column.text.show_walk(group, walk)
        self._show_seldom()
        self.post_message(self.Turned())

    def on_resize(self) -> None:
        self.lay()

    def on_lines_view_laid(self) -> None:
        self._show_seldom()

    def _arranged(self) -> Arrangement:
        count = len(self.walks)
        table = len(self._group.nodes) + 2 if self._group is not None else 0
        return arranged(self.size.width, self.size.height, count, self._parting_rows, table)

    def _shown(self) -> list[tuple[int, WalkColumn]]:
        """The columns in use, with their walks."""
        return [(walk, column) for walk, column in self._columns.items() if column.display and self._group is not None]

    def _body(self) -> PageBody | None:
        page = self._page
        if page is None or page.make is None:
            return None
        if page.name not in self._bodies:
            self._bodies[page.name] = page.make()
        return self._bodies[page.name]

    def _scene(self) -> WalksScene | None:
        if self._group is None or self._reader is None:
            return None
        return WalksScene(
            self._chat, self._group, self._reader, self._labels, self.cursor, self._look, self.head.room,
            self._sheet.size.height, self.turn_to,
        )  # fmt: skip

    def _show_list(self) -> None:
        group = self._group
        if group is None or not self.size:
            return
        rows = self._arranged().listed if self.page == TEXT_PAGE else 0
        if group.nodes.keys() - self._labels.keys():  # one has joined
            self._labels |= labels_of(group)
        lines = list_lines(group, self.walks, self._labels, self._look, self.head.room, rows) if rows else []
        self._list.show_lines(lines)

    def _show_seldom(self) -> None:
        scene = self._scene()
        if scene is None or not self.size or self.cursor not in scene.group.nodes:
            return
        self._drawn, self._stale = monotonic(), False
        self._labels |= labels_of(scene.group)
        group, width = scene.group, scene.width
        scene.reader.read()
        wanted = min(height_of(scene.reader), self.size.height // _PARTING)
        self._parting_rows = max(self._parting_rows, wanted)  # it never shrinks: each new height costs a layout
        shown = self._arranged()
        pages = [page.name for page in pages_of(group.group.kind)]
        self.head.show_lines([title_line(group, width, self._alone, pages, self.page)])
        self._prompt.show_lines(prompt_lines(self._chat.conversation, group, width, shown.prompt))
        body = self._body()
        self._show_list()
        self._parting.show_lines(self._parting_lines(scene, shown.parting) if body is None else [])
        self._table.show_lines(self._table_lines(scene, shown.table) if body is None else [])
        for walk, column in self._shown():
            here, paused = walk == self.cursor, walk in group.paused
            line = head_line(walk, group.nodes[walk], self._labels[walk], column.head.room, here=here, paused=paused)
            column.head.show_lines([line])
        if body is not None:
            self._show_page(body, scene)

    def _parting_lines(self, scene: WalksScene, rows: int) -> list[Line]:
        """As many rows in any case, so that nothing moves."""
        lines = parting_lines(scene.reader, scene.cursor, scene.width, rows) if rows else []
        return [*lines, *[BLANK] * (rows - len(lines))]

    def _table_lines(self, scene: WalksScene, rows: int) -> list[Line]:
        lines = table_lines(scene.reader, scene.labels, scene.cursor, scene.width) if rows else []
        return lines[-rows:] if rows else []

    def _show_page(self, body: PageBody, scene: WalksScene) -> None:
        lines, rows = body.draw(scene), scene.rows
        here = body.line_in_view
        if here is not None:
            self._top = min(max(self._top, here - rows + 1), here)
        self._top = max(min(self._top, len(lines) - rows), 0)
        shown = lines[self._top : self._top + rows]
        self._page_rows = len(shown)
        self._sheet.show_lines(shown)
