"""The saved chats: search, preview, open, rename, copy, delete and restore."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal

from textual.content import Content
from textual.widget import Widget
from textual.widgets import Input

from termchat.chat.service import Chat
from termchat.conversation.session import SessionSummary
from termchat.text import one_line, sanitize
from termchat.tui.dialogs.base import ARROWS
from termchat.tui.draw.field import Field
from termchat.tui.keys.dialogs import SESSIONS, hint, name_of
from termchat.tui.sessions.chat_picker import SavedChats
from termchat.tui.sessions.session_list import Opened, SessionList
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


class SessionsDialog(SavedChats[Opened | Literal["new"]]):
    """All saved chats. The result is the chat to continue, or "new".

    Args:
        new: shows an empty chat in place of the one that is open.
        do: does something to the chat and has the screen take in what came of it.
    """

    DEFAULT_CSS = """
    SessionsDialog #list { layers: rows above; }
    SessionsDialog #name, SessionsDialog #name:focus { layer: above; position: absolute; margin: 0; padding: 0; }
    """
    KEYS = "SAVED CHATS"
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
        super().__init__(sessions, palette)
        self._chat, self._new, self._do = chat, new, do
        self._titled = Field(id="name", classes="-off", select_on_focus=False)

    def listed(self) -> Iterable[Widget]:
        self._titled.cursor_blink = False
        return *super().listed(), self._titled

    def hint(self) -> Content:
        if self._renaming:
            return hint(("session-enter", "renames"), ("close", "cancels"))
        if self.list.opening:
            return Content("opening …")
        deleted = self.list.deleted
        return hint(*(does for does in _DOES.items() if does[0] != "session-undelete" or deleted))

    @property
    def opened(self) -> str:
        return self._chat.session.current_id

    def entered(self, event: Input.Submitted) -> None:
        if event.input is self._titled:
            self._rename(event.value)
        else:
            super().entered(event)

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
        if (row := self.list.row) is not None:
            self._titled.value = sanitize(row.title, keep="")
            self._type_title(True)

    def action_duplicate(self) -> None:
        if (row := self.list.row) is not None:
            self.list.duplicate(row)
            self.say("")

    def action_drop(self) -> None:
        row = self.list.row
        if row is None:
            return
        opened = row.id == self.opened
        if opened:
            self._new()
        self.list.delete(row)
        new = "; a new chat is open instead" if opened else ""
        self.tell(f'"{_short(row)}" deleted; {name_of("session-undelete")} restores it{new}')

    def action_undo(self) -> None:
        row = self.list.undelete()
        if row is not None:
            self.tell(f'"{_short(row)}" restored')
        else:
            self.say("nothing to restore")

    def action_new(self) -> None:
        self.dismiss("new")

    def take(self, row: SessionSummary) -> None:
        if row.id == self.opened and self._chat.session.is_own:
            self.dismiss(None)
        else:  # one that another termchat writes is read anew
            self.list.open(row.id, self._chat.host.loaded, self.taken)

    def _rename(self, title: str) -> None:
        row, title = self.list.row, sanitize(" ".join(title.split()), keep="")
        self._type_title(False)
        if row is None or not title or title == sanitize(row.title, keep=""):
            return
        self.list.rename(row, title)
        if row.id == self.opened:
            self._do(lambda: self._chat.rename_chat(title))

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
