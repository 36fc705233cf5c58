"""The saved chats: search, preview, open, rename, copy, delete and restore."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from time import localtime, strftime, time
from typing import Literal, NamedTuple, TypeVar

import msgspec
from rich.cells import cell_len
from textual.content import Content

from termchat.chat.service import Chat
from termchat.conversation.session import Session, SessionSummary
from termchat.conversation.tree import Role
from termchat.text import one_line, sanitize
from termchat.tui.draw.dialog import KeyHints
from termchat.tui.draw.ink import BLANK, Ink, Line, Run
from termchat.tui.draw.list_dialog import ListDialog
from termchat.tui.draw.marks import ACCENT, MUTED, STRONG, TEXT, TITLE, column, count, length
from termchat.tui.draw.wrap import Wrapper
from termchat.tui.keys.tables import name_of
from termchat.tui.lists.session_list import Opened, SessionList, Turns
from termchat.tui.themes.theme_file import Palette

Result = TypeVar("Result")
T = TypeVar("T")
PAGE = 100
"""Chats read at a time."""
_AHEAD = 50
"""Rows below the highlighted one from which the next page is read."""
_KEPT = 200
"""Previews that are kept in memory."""
_SHORT = 40
"""Cells of a title in a message: it may be longer than the screen."""
_HINTS: KeyHints = (
    ("session-enter", "opens"), ("close", "closes"), ("session-rename", "renames"), ("session-duplicate", "copies"),
    ("session-delete", "deletes"), ("session-new", "new chat"), ("session-undelete", "restores"),
)  # fmt: skip
_OPEN: Run = ("● ", Ink("success", bold=True))
_WHEN, _TURNS, _TOKENS, _MODEL = 11, 6, 8, 22
_MODEL_FROM = 64
"""Cells from which there is room for the model."""
_LEAST_TITLE = 12
_ROOMY = 12
"""Lines from which dates are worth one."""
_MARKED = re.compile("([\x02\x03])")
_HIT = Ink("accent", bold=True)
_DAY = 86_400
_SPEAKERS: dict[Role, tuple[Run, Ink]] = {
    "user": (("› ", ACCENT), Ink("user")),
    "assistant": (("  ", TEXT), TEXT),
}


class _Columns(NamedTuple):
    """Cells of the columns, 0 for those there is no room for. While something is searched for, `match` says where it stands,
    in the place of the numbers."""

    title: int
    match: int
    model: int
    numbers: bool

    @classmethod
    def of(cls, width: int, *, searching: bool) -> _Columns:
        left = max(width - 2 - _WHEN, 1)
        if searching and left > 3 * _LEAST_TITLE:
            title = left * 2 // 5
            return cls(title, left - title, 0, False)
        numbers = left >= _LEAST_TITLE + _TURNS + _TOKENS
        left -= _TURNS + _TOKENS if numbers else 0
        model = min(_MODEL, left // 3) if width >= _MODEL_FROM else 0
        return cls(left - model, 0, model, numbers)


def heading(width: int, *, searching: bool) -> Line:
    columns = _Columns.of(width, searching=searching)
    text = "  " + column("TITLE", columns.title) + column("MATCH", columns.match) + column("MODEL", columns.model)
    text += column("USED", _WHEN)
    if columns.numbers:
        text += column("TURNS", _TURNS, right=True) + column("TOKENS", _TOKENS, right=True)
    return Line(((text, TITLE),), "surface")


def session_line(row: SessionSummary, width: int, now: float, *, searching: bool, opened: bool = False) -> Line:
    """Render a chat on one line; `opened`: it is the one on the screen. `now` is in seconds since the epoch."""
    columns = _Columns.of(width, searching=searching)
    runs: list[Run] = [_OPEN if opened else ("  ", TEXT)]
    title = column(one_line(row.called, max(columns.title - 2, 1)), columns.title)
    runs.append((title, STRONG if opened else TEXT if row.title else MUTED))
    if columns.match:
        snippet = matched(row.snippet, columns.match - 2)
        runs += [*snippet, (" " * (columns.match - length(snippet)), TEXT)]
    if columns.model:
        runs.append((column(one_line(row.model, columns.model - 2), columns.model), MUTED))
    runs.append((column(when(row.updated, now), _WHEN), MUTED))
    if columns.numbers:
        runs.append((column(str(row.turns), _TURNS, right=True) + column(count(row.tokens), _TOKENS, right=True), TEXT))
    return Line(tuple(runs))


def when(moment: float, now: float) -> str:
    """Format a moment as people say it, in at most ten cells: 14:05, Tue 14:05, 3 Nov, 2025-11-03."""
    then, today = localtime(moment), localtime(now)
    if then[:3] == today[:3]:
        return strftime("%H:%M", then)
    if 0 <= now - moment < 6 * _DAY:
        return strftime("%a %H:%M", then)
    if then.tm_year == today.tm_year:
        return f"{then.tm_mday} {strftime('%b', then)}"
    return strftime("%Y-%m-%d", then)


def matched(snippet: str, width: int) -> list[Run]:
    """Render a snippet with the matching words highlighted, the first of them always in view."""
    runs: list[Run] = []
    ink = MUTED
    for part in _MARKED.split(snippet):
        if part in ("\x02", "\x03"):
            ink = _HIT if part == "\x02" else MUTED
        elif part:
            runs.append((part.replace("\r\n", " ").replace("\n", " "), ink))
    if len(runs) > 1 and runs[0][1] is MUTED:
        runs[0] = (_end_of(runs[0][0], width // 3), MUTED)
    shown: list[Run] = []
    for text, shade in runs:
        room = width - length(shown)
        if room > 0:
            shown.append((one_line(text, room, cell_len), shade))
    return shown


def preview_lines(row: SessionSummary, turns: Turns | None, width: int, height: int) -> list[Line]:
    """Render a chat's title and facts, then as much of its last turns as fits. `turns` None means they are not read yet."""
    counted = f"{row.turns} turn" + ("s" if row.turns != 1 else "")
    facts = [counted, f"{count(row.tokens)} tokens", *([row.model] if row.model else [])]
    head = [Line(((one_line(row.called, width), STRONG),)), _muted(" · ".join(facts), width)]
    if height >= _ROOMY:
        head.append(
            _muted(
                f"started {_date(row.created)}, used {_date(row.updated)} {strftime('%H:%M', localtime(row.updated))}",
                width,
            )
        )
    room = height - len(head) - 1
    if room <= 0:
        return head[:height]
    if turns is None:
        return [*head, BLANK, _muted("reading …", width)]
    return [*head, BLANK, *_last_lines(turns, width, room)]


def _muted(text: str, width: int) -> Line:
    return Line(((one_line(text, width), MUTED),))


def _last_lines(turns: Turns, width: int, rows: int) -> list[Line]:
    lines: list[Line] = []
    for role, text in reversed(turns):
        if len(lines) >= rows:
            break
        mark, ink = _SPEAKERS[role]
        wrapper = Wrapper(width, (mark,), (("  ", TEXT),))
        wrapper.feed(_end_of(text.strip(), width * rows), ink)
        lines = [*wrapper.lines, *lines]
    return lines[-rows:]


def _end_of(text: str, width: int) -> str:
    return text if len(text) <= width else "…" + text[len(text) - max(width - 1, 0) :]


def _date(moment: float) -> str:
    return strftime("%Y-%m-%d", localtime(moment))


class SavedChats(ListDialog[SessionSummary, Result]):
    """All saved chats, searched and read page by page; `take` gets the chosen one."""

    DEFAULT_CSS = """
    SavedChats > Vertical { width: 100%; max-width: 180; height: 100%; max-height: 56; }
    SavedChats #details { height: 40%; }
    SavedChats.-beside #details { width: 40%; height: 1fr; }
    SavedChats.-low .hint { max-height: 2; }
    """
    TITLE = "Chats"
    FIELD = "search all chats"
    LOW = 18

    def __init__(self, sessions: SessionList, palette: Palette) -> None:
        super().__init__(palette)
        self.sessions = sessions
        self.searched, rows = sessions.listed
        """The words with which the rows were found, "" for all chats."""
        self._answered = self._more = False
        """Whether the store has answered, and whether it has more rows than are listed."""
        self._waits = False
        """Whether the highlighted chat is taken once the search has answered."""
        sessions.deliver = self.call_later
        self.set_rows(rows)

    @property
    def opened(self) -> str:
        """The id of the chat on the screen."""
        return ""

    @property
    def looking(self) -> bool:
        """Whether other rows will arrive in a moment."""
        return not self._answered or self.sessions.work.waits("list")

    def take(self, row: SessionSummary) -> None:
        raise NotImplementedError

    def on_mount(self) -> None:
        self.call_after_refresh(self._read_rows)

    def on_unmount(self) -> None:
        """Drop all questions, unless the next dialog has asked already; pending changes are still made."""
        if self.sessions.deliver == self.call_later:
            self.sessions.work.forget("list", "page", "preview", "open")

    def on_lines_view_laid(self) -> None:
        self.changed()

    def title_line(self) -> str:
        number = f"{len(self.rows):,}" + (" and more" if self._more else "")
        counted = f"{number} {'found' if self.searched else 'saved'}" if self.rows else ""
        return f"{self.TITLE}   {counted}".rstrip()

    def render_heading(self, width: int) -> Line:
        return heading(width, searching=bool(self.searched))

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
        """Read the next page near the end of the list."""
        self._waits = False
        words, offset = self.searched, len(self.rows)
        waits = self.looking or self.sessions.work.waits("page")
        if self._more and self.picker.chosen + _AHEAD >= offset and not waits:
            self._ask("page", lambda: self.sessions.store.sessions(PAGE, words, offset), self._add_page)
        self.changed()

    def search(self, text: str) -> None:
        self.say("")
        self._read_rows()

    def enter(self, text: str) -> None:
        """Take the highlighted chat, as soon as the search has answered."""
        if self.looking:
            self._waits = True
        elif self.row is not None and self.is_current:
            self.say("")
            self.take(self.row)
            self.put(".hint", self.hint())

    def taken(self, result: Result) -> None:
        """Close with a result, if it is still open."""
        if self.is_current:
            self.dismiss(result)

    def _ask(self, kind: str, work: Callable[[], T], take: Callable[[T], object]) -> None:
        """Ask the store a question in its thread; `take` gets the answer, a failure is shown."""

        def hear(answer: T | Exception) -> None:
            self._answered = True
            if isinstance(answer, Exception):
                self.problem = str(answer)
                self.changed()
            else:
                take(answer)

        self.sessions.work.ask(kind, work, hear)

    def _read_rows(self, limit: int = PAGE, session: str = "", at: int = 0) -> None:
        """Read the chats that contain all words of the field, and highlight `session`, else the row `at`."""
        words = self.field.value.strip()

        def take(rows: list[SessionSummary]) -> None:
            self._more, self.searched, self.problem = len(rows) == limit, words, ""
            self.sessions.listed = words, rows
            self.changed(rows, next((place for place, row in enumerate(rows) if row.id == session), at))

        self.sessions.work.forget("page")
        self._ask("list", lambda: self.sessions.store.sessions(limit, words), take)

    def _add_page(self, page: list[SessionSummary]) -> None:
        """Add a page; a chat that was used since has moved to the top, and another one into its place."""
        known = {row.id for row in self.rows}
        self._more = len(page) == PAGE
        self.changed([*self.rows, *(row for row in page if row.id not in known)])

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
        self._ask("open", lambda: self.sessions.store.load(row.id), self.taken)


class SessionsDialog(SavedChats[Opened | Literal["new"]]):
    """All saved chats, to continue one or change it. The result is the chat to continue, or "new".

    Args:
        new: shows an empty chat in place of the one that is open.
    """

    KEYS = "SAVED CHATS"
    NAME = ""
    NAME_COLUMN = 3

    def __init__(
        self,
        chat: Chat,
        sessions: SessionList,
        palette: Palette,
        *,
        new: Callable[[], object],
    ) -> None:
        super().__init__(sessions, palette)
        self._chat, self._new = chat, new

    @property
    def opened(self) -> str:
        return self._chat.session.current_id

    def hints(self) -> KeyHints:
        if self.is_naming:
            return ("session-enter", "renames"), ("close", "cancels")
        return [hint for hint in _HINTS if hint[0] != "session-undelete" or self.sessions.deleted]

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave Del to the search where it has something to delete."""
        return super().check_action(action, parameters) and (action != "drop" or self.field.cursor_at_end)

    def action_rename(self) -> None:
        row = self.row
        if row is not None:
            self.type_name(sanitize(row.title, keep=""), lambda title: self._rename(row, sanitize(title, keep="")))

    def _rename(self, row: SessionSummary, title: str) -> None:
        self.end_naming()
        if title and title != sanitize(row.title, keep=""):
            self.rows = [msgspec.structs.replace(one, title=title) if one.id == row.id else one for one in self.rows]
            self._change(lambda: self.sessions.store.rename(row.id, title))
            if row.id == self.opened:
                self._chat.rename_chat(title)

    def action_duplicate(self) -> None:
        row = self.row
        if row is not None:
            self._change(lambda: self.sessions.store.duplicate(row.id))
            self.say("")

    def action_drop(self) -> None:
        row = self.row
        if row is None:
            return
        opened = row.id == self.opened
        if opened:
            self._new()
        self.sessions.deleted.append(row)
        self.rows = [one for one in self.rows if one.id != row.id]
        self._change(lambda: self.sessions.store.delete(row.id))
        new = "; a new chat is open instead" if opened else ""
        self.tell(f'"{one_line(row.called, _SHORT)}" deleted; {name_of("session-undelete")} restores it{new}')

    def action_undo(self) -> None:
        if not self.sessions.deleted:
            self.say("nothing to restore")
            return
        row = self.sessions.deleted.pop()
        self._change(lambda: self.sessions.store.restore(row.id), row.id)
        self.tell(f'"{one_line(row.called, _SHORT)}" restored')

    def action_new(self) -> None:
        self.dismiss("new")

    def take(self, row: SessionSummary) -> None:
        if row.id == self.opened and self._chat.session.is_own:
            self.dismiss(None)
        else:  # one that another termchat writes is read anew
            loaded = self._chat.host.loaded
            self._ask("open", lambda: self.sessions.fetch(row.id, loaded), self.taken)

    def _change(self, work: Callable[[], str | None], session: str = "") -> None:
        """Make a change, then read the rows again; highlight the chat it made, else `session`, else the same chat or place."""

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
