"""The saved chats: search, preview, open, rename, copy, delete and restore."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from time import localtime, strftime, time
from typing import TypeVar

import msgspec
from rich.cells import cell_len
from textual.content import Content

from termchat.chat.opening import fetch_session
from termchat.chat.service import Chat
from termchat.conversation.session import Session, SessionSummary
from termchat.conversation.tree import Role
from termchat.text import one_line, sanitize
from termchat.tui.draw.dialog import KeyHints
from termchat.tui.draw.ink import BLANK, Ink, Line, Run
from termchat.tui.draw.list_dialog import ListColumn, ListDialog, fill_columns
from termchat.tui.draw.marks import ACCENT, MUTED, STRONG, TEXT, count, fitting
from termchat.tui.draw.wrap import Wrapper
from termchat.tui.keys.tables import name_of
from termchat.tui.lists.gather import Opened, SessionList, Turns
from termchat.tui.themes.theme_file import Palette

Result = TypeVar("Result")
T = TypeVar("T")
PAGE = 100
"""Chats read at first, and more each time near the end of the list."""
_AHEAD = 50
"""Rows below the highlighted one from which more are read."""
_KEPT = 200
"""Previews that are kept in memory."""
_SHORT = 40
"""Cells of a title in a message: it may be longer than the screen."""
_HINTS: KeyHints = (
    ("session-enter", "opens"), ("close", "closes"), ("session-rename", "renames"), ("session-duplicate", "copies"),
    ("session-delete", "deletes"), ("session-new", "new chat"), ("session-undelete", "restores"),
)  # fmt: skip
_OPEN: Run = ("● ", Ink("success", bold=True))
_WHEN, _MODEL = 11, 22
_MODEL_FROM = 64
"""Cells from which there is room for the model."""
_LEAST_TITLE = 12
_ROOMY = 12
"""Lines from which dates are worth one."""
_MARKS = re.compile("[\x02\x03]")
_HIT = Ink("accent", bold=True)
_DAY = 86_400
_SPEAKERS: dict[Role, tuple[Run, Ink]] = {
    "user": (("› ", ACCENT), Ink("user")),
    "assistant": (("  ", TEXT), TEXT),
}


def list_columns(width: int, *, searching: bool) -> list[ListColumn]:
    """Return the columns; while a text is searched for, the matches are in the place of the numbers and the model."""
    left = max(width - 2 - _WHEN, 1)
    if searching and left > 3 * _LEAST_TITLE:
        middle, after = [ListColumn("MATCH", left - left * 2 // 5 - 2, gap=2)], [ListColumn("USED", _WHEN)]
    else:
        numbers = [ListColumn("TURNS", 6, right=True), ListColumn("TOKENS", 8, right=True)]
        after = [ListColumn("USED", _WHEN), *(numbers if left >= _LEAST_TITLE + 14 else [])]
        left -= sum(one.width for one in after[1:])
        middle = [ListColumn("MODEL", min(_MODEL, left // 3) - 2, gap=2)] if width >= _MODEL_FROM else []
    title = left - sum(one.width + one.gap for one in middle)
    return [ListColumn("TITLE", max(title - 2, 1), gap=min(title - 1, 2)), *middle, *after]


def session_line(row: SessionSummary, width: int, now: float, *, searching: bool, opened: bool = False) -> Line:
    """Render a chat on one line; `opened`: it is the one on the screen. `now` is in seconds since the epoch."""
    columns = list_columns(width, searching=searching)
    match = next((one.width for one in columns if one.title == "MATCH"), 0)
    cells: dict[str, Run | list[Run]] = {
        "TITLE": (row.called, STRONG if opened else TEXT if row.title else MUTED),
        "MATCH": highlight_matches(row.snippet, match),
        "MODEL": (row.model, MUTED),
        "USED": (format_moment(row.updated, now), MUTED),
        "TURNS": (str(row.turns), TEXT),
        "TOKENS": (count(row.tokens), TEXT),
    }
    return Line((_OPEN if opened else ("  ", TEXT), *fill_columns(columns, cells)))


def format_moment(moment: float, now: float) -> str:
    """Format a moment as people say it, in at most ten cells: 14:05, Tue 14:05, 3 Nov, 2025-11-03."""
    then, today = localtime(moment), localtime(now)
    if then[:3] == today[:3]:
        return strftime("%H:%M", then)
    if 0 <= now - moment < 6 * _DAY:
        return strftime("%a %H:%M", then)
    if then.tm_year == today.tm_year:
        return f"{then.tm_mday} {strftime('%b', then)}"
    return strftime("%Y-%m-%d", then)


def highlight_matches(snippet: str, width: int) -> list[Run]:
    """Render a snippet with the matching words highlighted, the first of them always in view."""
    parts = enumerate(_MARKS.split(re.sub("\r?\n", " ", snippet)))
    runs = [(part, _HIT if index % 2 else MUTED) for index, part in parts if part]
    if len(runs) > 1 and runs[0][1] is MUTED:
        runs[0] = (_end_of(runs[0][0], width // 3), MUTED)
    return list(fitting([(one_line(text, width, cell_len), shade) for text, shade in runs], width))


def preview_lines(row: SessionSummary, turns: Turns | None, width: int, height: int) -> list[Line]:
    """Render a chat's title and facts, then as much of its last turns as fits. `turns` None means they are not read yet."""
    facts = [f"{row.turns} turn" + ("s" if row.turns != 1 else ""), f"{count(row.tokens)} tokens", row.model]
    head = [Line(((one_line(row.called, width), STRONG),)), _muted_line(" · ".join(filter(None, facts)), width)]
    if height >= _ROOMY:
        started, used = (localtime(moment) for moment in (row.created, row.updated))
        head.append(_muted_line(strftime("started %Y-%m-%d", started) + strftime(", used %Y-%m-%d %H:%M", used), width))
    room = height - len(head) - 1
    if room <= 0:
        return head[:height]
    lines: list[Line] = [] if turns is not None else [_muted_line("reading …", width)]
    for role, text in reversed(turns or ()):
        if len(lines) < room:
            mark, ink = _SPEAKERS[role]
            wrapper = Wrapper(width, (mark,), (("  ", TEXT),))
            wrapper.feed(_end_of(text.strip(), width * room), ink)
            lines = [*wrapper.lines, *lines]
    return [*head, BLANK, *lines[-room:]]


def _muted_line(text: str, width: int) -> Line:
    return Line(((one_line(text, width), MUTED),))


def _end_of(text: str, width: int) -> str:
    return text if len(text) <= width else "…" + text[len(text) - max(width - 1, 0) :]


class SavedChats(ListDialog[SessionSummary, Result]):
    """All saved chats, searched, and read as far as they are looked at; `take` gets the chosen one."""

    DEFAULT_CSS = """
    SavedChats > Vertical { width: 100%; max-width: 180; height: 100%; max-height: 56; }
    SavedChats #details { height: 40%; }
    SavedChats.-beside #details { width: 40%; height: 1fr; }
    SavedChats.-low .hint { max-height: 2; }
    """
    TITLE = "Chats"
    FIELD = "search all chats"
    LOW = 18

    def __init__(self, sessions: SessionList, palette: Palette, chat: Chat | None = None) -> None:
        super().__init__(palette)
        self.sessions, self._chat = sessions, chat
        self.searched, rows = sessions.listed
        """The words with which the rows were found, "" for all chats."""
        self._more = False
        """Whether the store has more rows than are listed."""
        self._waits = False
        """Whether the highlighted chat is taken once the search has answered."""
        sessions.deliver = self.call_later
        self.set_rows(rows)

    @property
    def opened(self) -> str:
        """The id of the chat on the screen, which is marked; "" for none."""
        return self._chat.session.current_id if self._chat is not None else ""

    @property
    def looking(self) -> bool:
        """Whether other rows will arrive in a moment."""
        return not self.is_attached or self.sessions.work.waits("list")

    def take(self, row: SessionSummary) -> None:
        raise NotImplementedError

    def on_mount(self) -> None:
        self._read_rows()

    def on_unmount(self) -> None:
        """Drop all questions, unless the next dialog has asked already; pending changes are still made."""
        if self.sessions.deliver == self.call_later:
            self.sessions.work.forget("list", "preview", "open")

    def on_lines_view_laid(self) -> None:
        self.changed()

    def title_line(self) -> str:
        number = f"{len(self.rows):,}" + (" and more" if self._more else "")
        counted = f"{number} {'found' if self.searched else 'saved'}" if self.rows else ""
        return f"{self.TITLE}   {counted}".rstrip()

    def columns(self, width: int) -> list[ListColumn]:
        return list_columns(width, searching=bool(self.searched))

    def line(self, row: SessionSummary, width: int, *, chosen: bool) -> Line:
        return session_line(row, width, time(), searching=bool(self.searched), opened=row.id == self.opened)

    def empty_lines(self, width: int) -> list[Line]:
        nothing = "no chat contains all these words" if self.searched else "no saved chats yet"
        return [Line((("searching …" if self.looking else nothing, MUTED),))]

    def render_details(self, row: SessionSummary, width: int, height: int) -> list[Line]:
        return preview_lines(row, self.sessions.previews.get((row.id, row.updated)), width, height)

    def hint(self) -> Content:
        return Content("opening …") if self.sessions.work.waits("open") else super().hint()

    def changed(self, rows: Sequence[SessionSummary] | None = None, at: int | None = None) -> None:
        """Draw the chats as they are now, and read the highlighted one unless something else follows soon."""
        if not self.is_attached:  # an answer to a dialog that is closed
            return
        self.set_rows(self.rows if rows is None else rows, at)
        if self.problem:
            self.say(self.problem)
        self.at_rest(self._read_preview)
        if self._waits and not self.looking:
            self._waits = False
            if not self.problem:
                self.enter("")

    def moved(self) -> None:
        """Read more chats near the end of the list."""
        self._waits = False
        if self._more and self.picker.chosen + _AHEAD >= len(self.rows) and not self.looking:
            self._read_rows(len(self.rows) + PAGE, at=None)
        self.changed()

    def search(self, text: str) -> None:
        self.say("")
        self._read_rows()

    def enter(self, text: str) -> None:
        """Take the highlighted chat, as soon as the search has answered."""
        if self.looking:
            self._waits = True
        elif self.row is not None and self.is_active:
            self.say("")
            self.take(self.row)
            self.put(".hint", self.hint())

    def _ask_store(self, kind: str, work: Callable[[], T], take: Callable[[T], object]) -> None:
        """Ask the store a question in its thread; `take` gets the answer, a failure is shown."""

        def hear(answer: T | Exception) -> None:
            if isinstance(answer, Exception):
                self.problem = str(answer)
                self.changed()
            else:
                take(answer)

        self.sessions.work.ask(kind, work, hear)

    def _read_rows(self, limit: int = PAGE, session: str = "", at: int | None = 0) -> None:
        """Read the chats that contain all words of the field, and highlight `session`, else the row `at`; None for the same."""
        words = self.field.value.strip()

        def take(rows: list[SessionSummary]) -> None:
            kept = self.row.id if at is None and self.row is not None else session
            self._more, self.searched, self.problem = len(rows) == limit, words, ""
            self.sessions.listed = words, rows
            self.changed(rows, next((place for place, row in enumerate(rows) if row.id == kept), at))

        self._ask_store("list", lambda: self.sessions.store.sessions(limit, words), take)

    def _read_preview(self) -> None:
        """Read the last turns of the highlighted chat, and no longer those of the ones before."""
        row, previews = self.row, self.sessions.previews
        if row is None or (row.id, row.updated) in previews:
            return

        def hear(turns: Turns | Exception) -> None:
            if len(previews) >= _KEPT:
                previews.clear()
            previews[row.id, row.updated] = [] if isinstance(turns, Exception) else turns
            self.changed()

        self.sessions.work.ask("preview", lambda: self.sessions.store.preview(row.id), hear)


class ChatPicker(SavedChats[Session]):
    """A chat to compare with, which is the result."""

    TITLE = "Compare with a reply of another chat"
    HINTS = (("reply-choose", "opens"), ("close", "closes"))

    def take(self, row: SessionSummary) -> None:
        self._ask_store("open", lambda: self.sessions.store.load(row.id), self.dismiss)


class SessionsDialog(SavedChats[Opened]):
    """All saved chats, to continue one or change it. The result is the chat to continue.

    Args:
        new: shows an empty chat in place of the one that is open.
    """

    KEYS = "SAVED CHATS"
    NAME = ""
    NAME_COLUMN = 3
    ON_ROW = ("rename", "duplicate", "drop")

    def __init__(self, chat: Chat, sessions: SessionList, palette: Palette, *, new: Callable[[], object]) -> None:
        super().__init__(sessions, palette, chat)
        self._chat: Chat = chat
        self._new = new

    def hints(self) -> KeyHints:
        if self.is_naming:
            return ("session-enter", "renames"), ("close", "cancels")
        return [hint for hint in _HINTS if hint[0] != "session-undelete" or self.sessions.deleted]

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave Del to the search where it has something to delete."""
        return super().check_action(action, parameters) and (action != "drop" or self.field.cursor_at_end)

    def action_rename(self) -> None:
        row = self.highlighted
        before = sanitize(row.title, keep="")

        def rename(typed: str) -> None:
            self.end_naming()
            title = sanitize(typed, keep="")
            if title in ("", before):
                return
            self.rows = [msgspec.structs.replace(one, title=title) if one.id == row.id else one for one in self.rows]
            self._change_store(lambda: self.sessions.store.rename(row.id, title))
            if row.id == self.opened:
                self._chat.rename_chat(title)

        self.type_name(before, rename)

    def action_duplicate(self) -> None:
        row = self.highlighted
        self._change_store(lambda: self.sessions.store.duplicate(row.id))
        self.say("")

    def action_drop(self) -> None:
        row = self.highlighted
        opened = row.id == self.opened
        if opened:
            self._new()
        self.sessions.deleted.append(row)
        self.rows = [one for one in self.rows if one.id != row.id]
        self._change_store(lambda: self.sessions.store.delete(row.id))
        new = "; a new chat is open instead" if opened else ""
        self.tell(f'"{one_line(row.called, _SHORT)}" deleted; {name_of("session-undelete")} restores it{new}')

    def action_undo(self) -> None:
        if not self.sessions.deleted:
            self.say("nothing to restore")
            return
        row = self.sessions.deleted.pop()
        self._change_store(lambda: self.sessions.store.restore(row.id), row.id)
        self.tell(f'"{one_line(row.called, _SHORT)}" restored')

    def action_new(self) -> None:
        if self.is_active:
            self._new()
            self.dismiss(None)

    def take(self, row: SessionSummary) -> None:
        if row.id == self.opened and self._chat.session.is_own:
            self.dismiss(None)
        else:  # one that another termchat writes is read anew
            fetch = partial(fetch_session, self.sessions.store, row.id, self.sessions.config, self._chat.host.loaded)
            self._ask_store("open", fetch, self.dismiss)

    def _change_store(self, work: Callable[[], str | None], session: str = "") -> None:
        """Make a change, then read the rows again; highlight the new chat, else `session`, else the same chat or place."""

        def hear(answer: str | Exception | None) -> None:
            if not self.is_attached:  # the next dialog reads its own rows
                return
            if isinstance(answer, Exception):
                self.problem = str(answer)
            same = self.row.id if self.row is not None else ""
            highlighted = answer if isinstance(answer, str) else session or same
            self._read_rows(max(len(self.rows), PAGE), highlighted, self.picker.chosen)
            self.changed()

        self.sessions.work.change(work, hear)
        self.changed()
