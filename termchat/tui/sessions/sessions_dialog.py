"""The saved chats: search, preview, open, rename, copy, delete and restore."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from time import time
from typing import Literal

from textual.app import ComposeResult
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Input

from termchat.chat.reopening import Past
from termchat.chat.service import Chat
from termchat.conversation.session import SessionSummary
from termchat.text import one_line, sanitize
from termchat.tui.dialogs.base import ARROWS, DetailedListing
from termchat.tui.draw.field import Field
from termchat.tui.draw.ink import Line
from termchat.tui.draw.marks import MUTED
from termchat.tui.keys.dialogs import SESSIONS, hint, name_of
from termchat.tui.sessions.session_lines import heading, preview_lines, session_line
from termchat.tui.sessions.session_list import SessionList
from termchat.tui.themes.theme_file import Palette

_INDENT = 3
"""Cells before a title."""
_TOLD = 40
"""Cells of a title that is spoken of: it may be longer than the screen."""
_DOES = {
    "session-enter": "opens",
    "close": "closes",
    "session-rename": "renames",
    "session-duplicate": "copies",
    "session-delete": "deletes",
    "session-new": "new chat",
    "session-undelete": "restores",
}
"""What the hint says of a key."""


class SessionsDialog(DetailedListing[Past | Literal["new"]]):
    """All saved chats. The result is the chat to continue, or "new".

    Args:
        new: shows an empty chat in place of the one that is open.
        do: does something to the chat and has the screen take in what came of it.
    """

    DEFAULT_CSS = """
    SessionsDialog > Vertical { width: 100%; max-width: 180; height: 100%; max-height: 56; }
    SessionsDialog #list { layers: rows above; }
    SessionsDialog #details { height: 40%; }
    SessionsDialog #name, SessionsDialog #name:focus { layer: above; position: absolute; margin: 0; padding: 0; }
    SessionsDialog.-beside #details { width: 40%; height: 1fr; }
    SessionsDialog.-low .hint { max-height: 2; }
    """
    TITLE = "Chats"
    KEYS = "SAVED CHATS"
    LOW = 18
    BINDINGS = [*ARROWS, *(key.binding for key in SESSIONS if key.action)]  # noqa: RUF012

    def __init__(
        self,
        chat: Chat,
        sessions: SessionList,
        palette: Palette,
        *,
        new: Callable[[], object],
        do: Callable[[Callable[[], object]], None],
    ) -> None:
        super().__init__(palette)
        self._chat, self._list, self._new, self._do = chat, sessions, new, do
        self._search = Field(placeholder="search all chats", id="search", select_on_focus=False)
        self._titled = Field(id="name", classes="-off", select_on_focus=False)
        self._entered = False
        sessions.deliver, sessions.changed = self.call_later, self._changed

    # --- what is seen ------------------------------------------------------------------------------------------------

    def compose(self) -> ComposeResult:
        self.picker.count = len(self._list.rows)  # of when it was open last
        yield from super().compose()

    def listed(self) -> Iterable[Widget]:
        return *super().listed(), self._titled

    def inputs(self) -> Iterable[Widget]:
        self._search.cursor_blink = self._titled.cursor_blink = False
        yield self._search

    def on_mount(self) -> None:
        super().on_mount()
        self.call_after_refresh(lambda: self._list.search(self._search.value))

    def on_unmount(self) -> None:
        """Stops asking, unless the next dialog already does."""
        if self._list.changed == self._changed:
            self._list.close()

    def on_lines_view_laid(self) -> None:
        self._changed()

    def draw(self, rows: range, chosen: int, width: int) -> list[Line]:
        listed = self._list
        if not listed.rows:
            nothing = "no chat contains all these words" if listed.searched else "no saved chats yet"
            return [Line((("searching …" if listed.looking else nothing, MUTED),))]
        now, opened, searching = time(), self._opened, bool(listed.searched)
        return [
            session_line(row, width, now, searching=searching, opened=row.id == opened, chosen=at == chosen)
            for at, row in zip(rows, listed.rows[rows.start : rows.stop], strict=False)
        ]

    def _changed(self) -> None:
        """Draws everything as it is now, and reads the highlighted chat unless something else follows soon."""
        listed = self._list
        self.picker.show(len(listed.rows), listed.at)
        self.heading.show()
        self.details.show()
        self.put(".title", self.title_line())
        self.put(".hint", self.hint())
        if listed.problem:
            self.say(listed.problem)
        self.at_rest(listed.read)
        if self._entered and not listed.looking:
            self._entered = False
            if not listed.problem:
                self._open()

    def headed(self) -> list[Line]:
        return [heading(self.heading.room, searching=bool(self._list.searched))]

    def detailed(self) -> list[Line]:
        row, view = self._list.row, self.details
        return preview_lines(row, self._list.preview(row), view.room, view.size.height) if row is not None else []

    def hint(self) -> Content:
        if self._renaming:
            return hint(("session-enter", "renames"), ("close", "cancels"))
        if self._list.opening:
            return Content("opening …")
        deleted = self._list.deleted
        return hint(*(does for does in _DOES.items() if does[0] != "session-undelete" or deleted))

    def title_line(self) -> str:
        listed = self._list
        number = f"{len(listed.rows):,}" + (" and more" if listed.more else "")
        found = f"{number} found" if listed.searched else f"{number} saved"
        return f"{self.TITLE}   {found if listed.rows else ''}".rstrip()

    @property
    def _opened(self) -> str:
        return self._chat.recorder.session(self._chat.conversation)

    # --- what a person does ------------------------------------------------------------------------------------------

    def on_input_changed(self, event: Input.Changed) -> None:
        if event.input is self._search:
            self.say("")
            self._list.search(event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Opens the highlighted chat, as soon as the search has answered; or renames it."""
        event.stop()
        if event.input is self._titled:
            self._rename(event.value)
        elif self._list.looking:
            self._entered = True
        else:
            self._open()

    def action_move(self, how: str) -> None:
        self._entered = False
        super().action_move(how)
        self._list.choose(self.picker.chosen)
        self._changed()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """While a title is typed nothing else is done; Del is for the search where there is something to erase."""
        if self._renaming:
            return action == "close"
        return action != "drop" or self._search.cursor_at_end

    def action_close(self) -> None:
        if self._renaming:
            self._type_title(False)
        else:
            super().action_close()

    def action_rename(self) -> None:
        if (row := self._list.row) is not None:
            self._titled.value = sanitize(row.title, keep="")
            self._type_title(True)

    def action_duplicate(self) -> None:
        if (row := self._list.row) is not None:
            self._list.duplicate(row)
            self.say("")

    def action_drop(self) -> None:
        row = self._list.row
        if row is None:
            return
        opened = row.id == self._opened
        if opened:
            self._new()
        self._list.delete(row)
        new = "; a new chat is open instead" if opened else ""
        self.tell(f'"{_short(row)}" deleted; {name_of("session-undelete")} restores it{new}')

    def action_undo(self) -> None:
        row = self._list.undelete()
        if row is not None:
            self.tell(f'"{_short(row)}" restored')
        else:
            self.say("nothing to restore")

    def action_new(self) -> None:
        self.dismiss("new")

    def _open(self) -> None:
        row = self._list.row
        if row is None or not self.is_current:
            return
        if row.id == self._opened:
            self.dismiss(None)
            return
        self.say("")
        self._list.open(row.id, self._chat.loaded, self._go)
        self.put(".hint", self.hint())

    def _go(self, past: Past) -> None:
        if self.is_current:
            self.dismiss(past)

    def _rename(self, title: str) -> None:
        row, title = self._list.row, sanitize(" ".join(title.split()), keep="")
        self._type_title(False)
        if row is None or not title or title == sanitize(row.title, keep=""):
            return
        self._list.rename(row, title)
        if row.id == self._opened:
            self._do(lambda: self._chat.retitle(title))

    @property
    def _renaming(self) -> bool:
        return not self._titled.has_class("-off")

    def _type_title(self, typing: bool) -> None:
        """Opens or closes the title, over the row that has it."""
        self._titled.set_class(not typing, "-off")
        if typing:
            top = self.picker.region.y - self.query_one("#list").region.y
            self._titled.styles.offset = (_INDENT, top + self.picker.line)
            self._titled.styles.width = max(self.picker.size.width - _INDENT, 1)
            self._titled.cursor_position = len(self._titled.value)
        self.set_focus(self._titled if typing else self._search)
        self.put(".hint", self.hint())


def _short(row: SessionSummary) -> str:
    return one_line(row.called, _TOLD)
