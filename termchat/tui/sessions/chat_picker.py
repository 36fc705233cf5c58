"""Saved chats to choose one from: searched, with a preview of the highlighted one."""

from __future__ import annotations

from collections.abc import Iterable
from time import time
from typing import TypeVar

from textual.app import ComposeResult
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Input

from termchat.conversation.session import Session, SessionSummary
from termchat.tui.dialogs.base import ARROWS, DetailedListing
from termchat.tui.draw.field import Field
from termchat.tui.draw.ink import Line
from termchat.tui.draw.marks import MUTED
from termchat.tui.keys.dialogs import hint
from termchat.tui.sessions.session_lines import heading, preview_lines, session_line
from termchat.tui.sessions.session_list import SessionList
from termchat.tui.themes.theme_file import Palette

Result = TypeVar("Result")


class SavedChats(DetailedListing[Result]):
    """All saved chats; `take` gets the chosen one. `opened` is the id of the chat on the screen."""

    DEFAULT_CSS = """
    SavedChats > Vertical { width: 100%; max-width: 180; height: 100%; max-height: 56; }
    SavedChats #details { height: 40%; }
    SavedChats.-beside #details { width: 40%; height: 1fr; }
    SavedChats.-low .hint { max-height: 2; }
    """
    TITLE = "Chats"
    LOW = 18

    def __init__(self, sessions: SessionList, palette: Palette) -> None:
        super().__init__(palette)
        self.list = sessions
        self._search = Field(placeholder="search all chats", id="search", select_on_focus=False)
        self._waits = False
        sessions.deliver, sessions.changed = self.call_later, self.changed

    @property
    def opened(self) -> str:
        return ""

    def take(self, row: SessionSummary) -> None:
        raise NotImplementedError

    def compose(self) -> ComposeResult:
        self.picker.count = len(self.list.rows)  # of when it was open last
        yield from super().compose()

    def inputs(self) -> Iterable[Widget]:
        self._search.cursor_blink = False
        yield self._search

    def on_mount(self) -> None:
        super().on_mount()
        self.call_after_refresh(lambda: self.list.search(self._search.value))

    def on_unmount(self) -> None:
        """Stops asking, unless the next dialog already does."""
        if self.list.changed == self.changed:
            self.list.close()

    def on_lines_view_laid(self) -> None:
        self.changed()

    def draw(self, rows: range, chosen: int, width: int) -> list[Line]:
        listed = self.list
        if not listed.rows:
            nothing = "no chat contains all these words" if listed.searched else "no saved chats yet"
            return [Line((("searching …" if listed.looking else nothing, MUTED),))]
        now, opened, searching = time(), self.opened, bool(listed.searched)
        return [
            session_line(row, width, now, searching=searching, opened=row.id == opened, chosen=at == chosen)
            for at, row in zip(rows, listed.rows[rows.start : rows.stop], strict=False)
        ]

    def changed(self) -> None:
        """Draws everything as it is now, and reads the highlighted chat unless something else follows soon."""
        listed = self.list
        self.picker.show(len(listed.rows), listed.at)
        self.heading.show()
        self.details.show()
        self.put(".title", self.title_line())
        self.put(".hint", self.hint())
        if listed.problem:
            self.say(listed.problem)
        self.at_rest(listed.read)
        if self._waits and not listed.looking:
            self._waits = False
            if not listed.problem:
                self._take()

    def headed(self) -> list[Line]:
        return [heading(self.heading.room, searching=bool(self.list.searched))]

    def detailed(self) -> list[Line]:
        row, view = self.list.row, self.details
        return preview_lines(row, self.list.preview(row), view.room, view.size.height) if row is not None else []

    def title_line(self) -> str:
        listed = self.list
        number = f"{len(listed.rows):,}" + (" and more" if listed.more else "")
        found = f"{number} found" if listed.searched else f"{number} saved"
        return f"{self.TITLE}   {found if listed.rows else ''}".rstrip()

    def on_input_changed(self, event: Input.Changed) -> None:
        if event.input is self._search:
            self.say("")
            self.list.search(event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.entered(event)

    def entered(self, event: Input.Submitted) -> None:
        """Takes the highlighted chat, as soon as the search has answered."""
        if self.list.looking:
            self._waits = True
        else:
            self._take()

    def action_move(self, how: str) -> None:
        self._waits = False
        super().action_move(how)
        self.list.choose(self.picker.chosen)
        self.changed()

    def _take(self) -> None:
        if self.list.row is not None and self.is_current:
            self.say("")
            self.take(self.list.row)
            self.put(".hint", self.hint())

    def taken(self, result: Result) -> None:
        """Closes with a result, if it is still open."""
        if self.is_current:
            self.dismiss(result)


class ChatPicker(SavedChats[Session]):
    """The result is the chosen chat."""

    TITLE = "Compare with a reply of another chat"
    KEYS = "LISTS"
    BINDINGS = [*ARROWS]  # noqa: RUF012

    def hint(self) -> Content:
        return Content("opening …") if self.list.opening else hint(("reply-choose", "opens"), ("close", "closes"))

    def take(self, row: SessionSummary) -> None:
        self.list.load(row.id, self.taken)
