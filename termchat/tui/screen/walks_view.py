"""The walks view: a group of replies in the place of the transcript, and what its keys do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import monotonic
from typing import NamedTuple

from textual import events, on
from textual.app import ComposeResult

from termchat.chat.changes import Change, Notice, PathChanged, WalksChanged, WalksGrew
from termchat.chat.reply_group import ReplyGroup
from termchat.decoding.group import GroupKind
from termchat.decoding.walk_plan import WalkPlan
from termchat.tui.context import ScreenContext
from termchat.tui.draw.ink import BLANK, Line
from termchat.tui.draw.lines_view import Column, LinesView, Row, Slip
from termchat.tui.keys.tables import NOT_OTHERWISE, WALKS, name_of
from termchat.tui.pages.scene import Scene
from termchat.tui.pages.shown_group import TEXT_PAGE, GroupPage, ShownGroup, TablePage
from termchat.tui.pages.tune_mode import Tune
from termchat.tui.themes.theme_file import Palette
from termchat.tui.transcript import TokenRef, TranscriptView
from termchat.tui.transcript.looks import Look

_NARROWEST = 24
"""Cells of a column that are worth reading; with fewer the walks are a list."""
_MOST_COLUMNS = 8
_PARTING = 3
"""Rows in which the first forks are seen."""
_TABLE = 100
"""Cells in which the table and where the walks part have room."""
_TEXT = 8
"""Rows of text that no other part takes away."""
_HIGH, _HIGHEST = 26, 44
"""Rows from which the prompt has two lines, and three."""
_THIRD = 3
"""A list, or where the walks part, takes one row in so many at most."""
_FAR = 10**6
"""Lines, more than any text has."""
NOTHING = "there is nothing to reply to yet"

SELDOM = 0.5
"""Seconds between looks at what need not follow every token: heads, rates, where the walks part, tables."""


class Arrangement(NamedTuple):
    """Rows of the prompt, of where the walks part, of the list of walks, and of the table below; the text gets the rest.
    `columns` stand side by side; with 0 the walks are a list, with the one under the cursor in full below it."""

    prompt: int
    parting: int
    listed: int
    table: int
    columns: int


def arrange_parts(width: int, height: int, walks: int, parting: int, table: int) -> Arrangement:
    """Share the rows. `parting` and `table` are the rows that these parts would like to have. The text comes first: the table
    gets all of its rows, or one for its last line, and the parting enough for the first forks, or none."""
    columns = walks if 0 < walks <= _MOST_COLUMNS and width // walks >= _NARROWEST else 0
    prompt = 1 + (height >= _HIGH) + (height >= _HIGHEST)
    listed = 0 if columns else min(walks, max(height // _THIRD, 1))
    left = height - 1 - prompt - listed - _TEXT
    shown_table = table if table <= left else max(min(left, 1), 0)
    left -= shown_table
    shown_parting = min(parting, left) if left >= min(parting, _PARTING) else 0
    return Arrangement(prompt, shown_parting, listed, shown_table, columns)


def begin_walks(context: ScreenContext, plan: WalkPlan, message: str = "") -> None:
    """Make the replies of a plan to a message; without one from the token under the cursor, or to the last message."""
    walks, place = context.chat.walks, context.tokens.place
    if message:
        context.composer.hand_over(message, lambda text: walks.start(plan, text=text))
    elif place is not None:
        context.tokens.leave()
        walks.start(plan, node=place.node, at=place.at)
    else:
        walks.start(plan)


def _make_pages(shown: ShownGroup) -> None:
    """Give a group its pages, in the order in which they are turned; the first is shown first."""
    from termchat.tui.pages.beams_page import BeamsPage  # no page is there in the first frame
    from termchat.tui.pages.group_tables import GridPage, RankingPage, VotePage
    from termchat.tui.pages.parting_pages import LockstepPage, PartingPage

    first: dict[GroupKind, type[GroupPage]] = {
        "grid": GridPage, "compare": LockstepPage, "best": RankingPage, "vote": VotePage, "beams": BeamsPage,
    }  # fmt: skip
    kind = shown.group.group.kind
    pages: list[type[GroupPage]] = [*([first[kind]] if kind in first else []), GroupPage, PartingPage, TablePage]
    shown.pages = {page.name: page(shown) for page in pages}
    shown.page = shown.pages[pages[0].name]


class WalkText(TranscriptView):
    """The text of one walk, from where the walks begin."""

    DEFAULT_CSS = "WalkText { width: 1fr; }"

    def __init__(self, walk: int, palette: Palette, look: Look) -> None:
        super().__init__(palette)
        self.set_reactive(TranscriptView.look, look)
        self._document.look = look
        self._walk = walk

    @on(events.Click)
    async def choose(self) -> None:
        """Select the walk, before the click points at a token of it."""
        await self.app.run_action(f"walks('choose', {self._walk + 1})", self.screen)


class WalkColumn(Column):
    """One walk: its head above its text."""

    DEFAULT_CSS = "WalkColumn { width: 1fr; height: 1fr; } WalkColumn WalkText { height: 1fr; }"

    def __init__(self, walk: int, palette: Palette, look: Look) -> None:
        super().__init__()
        self.head, self.text = LinesView(), WalkText(walk, palette, look)
        self.head.paint_with(palette)

    def compose(self) -> ComposeResult:
        yield self.head
        yield self.text


class WalksHead(Slip, can_focus=True):
    """The lines over the texts: the title, and where there is room the prompt, where the walks part, and the list of walks. It
    has the keyboard while the walks are steered."""

    DEFAULT_CSS = "WalksHead { height: 1; display: block; }"
    BINDINGS = [key.binding for key in WALKS]  # noqa: RUF012


class WalksView(Column):
    """A group of walks in the place of the transcript: one of its pages, or the texts, side by side where there is room, else a
    list with the text of the walk under the cursor.

    A key calls the method `do_NAME` of its action, unless the page uses the key. Keys work while `head` has the keyboard.
    """

    DEFAULT_CSS = """
    WalksView { height: 1fr; display: none; }
    WalksView #walks-columns { height: 1fr; }
    WalksView #walks-page { height: 1fr; display: none; }
    """

    def __init__(self, context: ScreenContext) -> None:
        super().__init__()
        self.context, self._chat = context, context.chat
        self.head, self._table = WalksHead(id="walks-head"), Slip()
        self._above: list[Line] = []
        """The lines of the head above the list of walks."""
        self._listed = 0
        """Rows of that list."""
        self._row = Row(id="walks-columns")
        self._sheet = LinesView(id="walks-page")
        self._columns: dict[int, WalkColumn] = {}
        """By walk, so that each keeps its place and its cursor while there is room for one only."""
        self.shown: ShownGroup | None = None
        self.look: Look = "probability"
        self._parting_rows = self._page_rows = 0
        self._top = 0
        """The first line of the page that is in view."""
        self._drawn = 0.0
        self._stale = False

    def compose(self) -> ComposeResult:
        yield self.head
        yield self._row
        yield self._sheet
        yield self._table

    def paint_with(self, palette: Palette) -> None:
        for view in (self.head, self._table, self._sheet):
            view.paint_with(palette)
        for column in self._columns.values():
            column.head.paint_with(palette)
            column.text.palette = palette

    @property
    def group(self) -> ReplyGroup | None:
        """The group that is drawn; the chat may have gone on to another one."""
        return self.shown.group if self.shown is not None else None

    @property
    def open(self) -> bool:
        return self._chat.walks.shown is not None

    @property
    def has_keyboard(self) -> bool:
        """True while its keys work."""
        return self.context.focused is self.head

    @property
    def words(self) -> Mapping[str, str]:
        """Labels of the keys that do something else on the page, by the ids of the keys."""
        return self.shown.page.words if self.shown is not None else NOT_OTHERWISE

    @property
    def text(self) -> WalkText | None:
        """The text of the walk under the cursor."""
        if self.shown is None or self.shown.cursor not in self._columns:
            return None
        column = self._columns[self.shown.cursor]
        return column.text if column.display else None

    @property
    def spare(self) -> int:
        """Number of empty rows under the content."""
        if self._sheet.display:
            return self._sheet.size.height - self._page_rows
        texts = [column.text for column in self._columns.values() if column.display]
        return min((text.size.height - text.virtual_size.height for text in texts), default=0)

    # --- what it shows -----------------------------------------------------------------------------------------------

    def heard(self, changes: Sequence[Change]) -> None:
        if any(isinstance(change, WalksChanged | PathChanged) for change in changes):
            self.show()
        elif self.shown is not None:
            if any(isinstance(change, WalksGrew) for change in changes):
                self._take_tokens(self.shown)
            if self._stale and monotonic() - self._drawn >= SELDOM:
                self._show_seldom()

    def show(self) -> None:
        """Show the chat's group as it is now, or close the view."""
        before, group = self.group, self._chat.walks.shown
        if group is None and before is None:
            return
        if group is not before:
            self.shown = ShownGroup(self._chat, group, self.look) if group is not None else None
            if self.shown is not None:
                _make_pages(self.shown)
            self._parting_rows = self._top = 0
            for column in self._columns.values():
                column.display = False
        self.lay()
        walks = len(group.nodes) if group is not None else 0
        room = max(
            walks * _NARROWEST if walks <= _MOST_COLUMNS else 0, _TABLE
        )  # where they stand side by side, if ever
        self.context.panels.make_room(room if group is not None else 0)
        if (group is None) != (before is None):
            self.context.under = self.head if group is not None else None
            self.context.take_keyboard()

    def lay(self) -> None:
        """Give every part its room and its content."""
        shown = self.shown
        if shown is not None and self.size and shown.cursor in shown.group.nodes:
            is_text = shown.page.name == TEXT_PAGE
            self._row.display, self._sheet.display = is_text, not is_text
            walks = (shown.walks if self._arrange(shown).columns else [shown.cursor]) if is_text else []
            for walk in walks:
                if walk not in self._columns:
                    self._columns[walk] = WalkColumn(walk, self.context.palette, self.look)
                    after = sum(other < walk for other in self._columns)
                    self._row.mount(self._columns[walk], before=after if after < len(self._row.children) else None)
            for walk, column in self._columns.items():
                column.display = walk in walks
                if column.display:
                    column.text.show_reply(shown.group.list_spans(walk), running=walk in shown.group.running)
            self._show_seldom()
        tokens = self.context.tokens
        was_open = tokens.is_open
        tokens.look_at(self.text if self.open else None)  # token mode is about the walk under the cursor
        if was_open != tokens.is_open:
            tokens.follow()

    def on_resize(self) -> None:
        self.lay()

    def on_lines_view_laid(self) -> None:
        self._show_seldom()

    def set_look(self, look: Look) -> None:
        """Show all walks in a look."""
        self.look = look
        for column in self._columns.values():
            column.text.look = look
        if self.shown is not None:
            self.shown.look = look
        self._show_seldom()

    def _arrange(self, shown: ShownGroup) -> Arrangement:
        return arrange_parts(*self.size, len(shown.walks), self._parting_rows, len(shown.group.nodes) + 2)

    def _take_tokens(self, shown: ShownGroup) -> None:
        """Show the tokens that came."""
        for walk, column in self._columns.items():
            # In the big view of the panels token mode may be in the text of the walk under the cursor.
            if column.display and (self.display or walk == shown.cursor):
                column.text.grew(shown.group.nodes[walk].number)
        if self.display:
            self._stale = True
            if self._listed:
                self.head.show_lines([*self._above, *shown.list_lines(self.head.room, self._listed)])

    def _show_seldom(self) -> None:
        """Show what need not follow every token."""
        shown = self.shown
        if shown is None or not self.size or shown.cursor not in shown.group.nodes:
            return
        from termchat.tui.pages.parting_pages import parting_lines

        self._drawn, self._stale = monotonic(), False
        shown.read()
        width, is_text = self.head.room, shown.page.name == TEXT_PAGE
        wanted = min(1 + len(shown.stretches), self.size.height // _THIRD)
        self._parting_rows = max(self._parting_rows, wanted)  # it never shrinks: each new height costs a layout
        room = self._arrange(shown)
        self._above = [shown.title_line(width), *shown.prompt_lines(width, room.prompt)]
        if is_text and room.parting:
            parting = parting_lines(shown, width, room.parting)
            self._above += [*parting, *[BLANK] * (room.parting - len(parting))]
        self._listed = room.listed if is_text else 0
        listed = shown.list_lines(width, self._listed) if self._listed else []
        self.head.show_lines([*self._above, *listed])
        self._table.show_lines(shown.table_lines(width)[-room.table :] if is_text and room.table else [])
        for walk, column in self._columns.items():
            if column.display:
                column.head.show_lines([shown.head_line(walk, column.head.room)])
        if not is_text:
            rows = self._sheet.size.height
            lines = shown.page.lines(Scene(width, rows))
            self._top = max(min(self._top, len(lines) - rows), 0)
            self._page_rows = len(lines[self._top : self._top + rows])
            self._sheet.show_lines(lines[self._top : self._top + rows])

    # --- keys --------------------------------------------------------------------------------------------------------

    def act(self, what: str, *arguments: object) -> None:
        """Run the action of a key: by the page, else by the method `do_NAME`."""
        if (shown := self.shown) is None or not self.open:
            return
        page = shown.page
        if not page.act(what, *arguments):
            getattr(self, f"do_{what}")(shown, *arguments)
        elif page is shown.page:
            self._show_seldom()
        else:
            self.lay()

    def back(self) -> bool:
        """Move from the composer to the walks, end running ones, or close the view; False if none is open."""
        if not self.open:
            return False
        walks = self._chat.walks
        if not self.has_keyboard:
            self.context.take_keyboard()
        elif walks.running:
            self._chat.replies.stop()
        else:
            walks.leave_group()
        return True

    def reopen(self, number: int | None) -> None:
        """Show a group of the chat again: the one with that number, or of the last reply that belongs to one (None)."""
        path = self._chat.conversation.find_path()
        last = next((span.node.group for span in reversed(path) if span.node.group is not None), None)
        if number is None and last is None:
            self.context.tell(Notice("this branch has no walks", f"{name_of('walks')} starts some"))
        else:
            self._chat.walks.open(number or (last.number if last is not None else 0))

    def do_choose(self, shown: ShownGroup, number: int) -> None:
        """Go to the walk with that number, from 1."""
        if number - 1 in shown.group.nodes:
            self._select_walk(shown.group, number - 1)
        else:
            self.context.tell(Notice(f"there are {len(shown.group.nodes)} walks"))

    def do_go(self, shown: ShownGroup, by: int) -> None:
        walks = shown.walks
        if walks:
            self._select_walk(shown.group, walks[(walks.index(shown.cursor) + by) % len(walks)])

    def _select_walk(self, group: ReplyGroup, walk: int) -> None:
        """Select a walk. In token mode the cursor goes to the same step of it, or to its last one."""
        tokens = self.context.tokens
        ref = tokens.transcript.cursor
        if not tokens.is_open or ref is None:
            self._chat.walks.select_reply(walk)
            return
        step = group.step_of(ref.node, ref.index)
        tokens.leave()
        self._chat.walks.select_reply(walk)
        self.context.tick()
        if tokens.enter() and (place := group.place_of(walk, step)) is not None:
            tokens.transcript.set_cursor(TokenRef(*place))
            tokens.follow()

    def do_line(self, shown: ShownGroup, by: int) -> None:
        if shown.page.name == TEXT_PAGE and not self._arrange(shown).columns:
            self.do_go(shown, by)
        else:
            self._scroll(shown, by)

    def do_jump(self, shown: ShownGroup, by: int) -> None:
        self._scroll(shown, by * _FAR)

    def _scroll(self, shown: ShownGroup, lines: int) -> None:
        """Scroll the page, or the text of the walk under the cursor."""
        if shown.page.name != TEXT_PAGE:
            self._top = max(self._top + lines, 0)
            self._show_seldom()
        elif (text := self.text) is not None:
            text.scroll_relative(y=lines, animate=False)

    def do_keep(self, shown: ShownGroup) -> None:
        self._chat.walks.keep_reply(shown.cursor)

    def do_keep_all(self, _: ShownGroup) -> None:
        self._chat.walks.keep_all()

    def do_stop(self, shown: ShownGroup) -> None:
        self._chat.replies.stop(shown.cursor)

    def do_pause(self, shown: ShownGroup, one: bool = False) -> None:
        replies, group = self._chat.replies, shown.group
        if replies.run is None:
            self.context.tell(Notice("no walk is running"))
        elif one:
            (replies.resume if shown.cursor in group.paused else replies.pause)(shown.cursor)
        else:
            waits = all(walk in group.paused for walk in group.running)
            (replies.resume if waits else replies.pause)()

    def do_step(self, shown: ShownGroup, one: bool = False) -> None:
        if not shown.group.paused:
            self.context.tell(Notice("pause the walks before stepping", f"{name_of('walk-pause')} pauses them"))
        else:
            self._chat.replies.step("token", shown.cursor if one else None)

    def do_tune(self, shown: ShownGroup) -> None:
        """Open TUNE with the knobs of this walk."""
        run, walk = self._chat.replies.run, shown.cursor
        if run is not None and run.group is shown.group and walk in run.group.running:
            self.context.open_tune(Tune(self._chat, run, walk))
        else:
            hint = f"{name_of('tune')} turns the knobs of the running walks, or of the next reply"
            self.context.tell(Notice("this walk has ended", hint))

    def do_fork(self, _: ShownGroup) -> None:
        """Go to token mode, where a candidate is chosen."""
        if self.context.tokens.enter():
            self.context.tell(Notice("choose the token to fork at", "1-9 takes a candidate, x redraws from there"))

    def do_turn(self, shown: ShownGroup, by: int) -> None:
        """Turn to the next page, or one before."""
        names = list(shown.pages)
        self.do_page(shown, names[(names.index(shown.page.name) + by) % len(names)])

    def do_page(self, shown: ShownGroup, name: str) -> None:
        shown.page, shown.only = shown.pages[name], ()
        self._top = 0
        self.lay()
