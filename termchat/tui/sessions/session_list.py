"""The list of saved chats without a screen: searched, read page by page, one row highlighted.

The store is never read in the event loop: questions are asked in a thread, and `changed` is called when an answer is there.
What was deleted stays known for as long as the app runs, so that it can be brought back.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import msgspec

from termchat.chat.loading import Choice
from termchat.conversation.session import Session, SessionSummary
from termchat.conversation.store.database import StoreError
from termchat.conversation.tree import Node, Role
from termchat.decoding.records import Token
from termchat.tui.draw.background import TaskQueue

if TYPE_CHECKING:
    from termchat.config.settings import Settings
    from termchat.conversation.store.store import Store

PAGE = 100
"""Chats read at a time."""
_AHEAD = 50
"""Rows below the highlighted one from which the next page is read."""
_KEPT = 200
"""Previews that are kept in memory."""

_T = TypeVar("_T")
Said = Sequence[tuple[Role, str]]
"""Roles and texts of turns."""
Opened = tuple[Session, Choice | None, str]
"""See `opening.fetch`."""


class SessionList:
    """`rows` are the chats found so far, `at` the highlighted one, `more` whether there are further ones.

    `deliver` is set by the screen: it takes, in another thread, what is to be called in the event loop. `changed` hears of
    every answer, `problem` is why there is none.
    """

    def __init__(self, store: Store, config: Settings) -> None:
        self._store, self._config = store, config
        self.deliver: Callable[[Callable[[], object]], object] = lambda _: None
        self.changed: Callable[[], object] = lambda: None
        self._work = TaskQueue(lambda what: self.deliver(what), (StoreError, OSError))
        self.rows: list[SessionSummary] = []
        self.at = 0
        self.more = False
        self.problem = ""
        self._words = self._shown = ""
        self._answered = False
        self._previews: dict[tuple[str, float], Said] = {}
        self._deleted: list[SessionSummary] = []

    @property
    def row(self) -> SessionSummary | None:
        return self.rows[self.at] if self.rows else None

    @property
    def searched(self) -> str:
        """The words with which the rows were found, "" for all chats."""
        return self._shown

    @property
    def looking(self) -> bool:
        """Whether other rows will arrive in a moment."""
        return not self._answered or self._work.waits("list")

    @property
    def deleted(self) -> bool:
        """Whether there is a chat to restore."""
        return bool(self._deleted)

    @property
    def opening(self) -> bool:
        return self._work.waits("open")

    # --- reading -----------------------------------------------------------------------------------------------------

    def search(self, words: str) -> None:
        """Searches chats that contain all words; without words, lists all. The first one is highlighted."""
        self._words = words.strip()
        self._look(PAGE, "")

    def refresh(self, session: str = "") -> None:
        """Reads the rows again; `session` is highlighted if it is among them, else the one that was, else its place."""
        self._look(max(len(self.rows), PAGE), session or (self.row.id if self.row is not None else ""), self.at)

    def choose(self, at: int) -> None:
        """Highlights a row; reads the next page near the end."""
        self.at = at
        if self.more and at + _AHEAD >= len(self.rows) and not (self.looking or self._work.waits("page")):
            offset = len(self.rows)
            self._work.ask("page", lambda: self._store.sessions(PAGE, self._shown, offset), self._add)

    def preview(self, row: SessionSummary) -> Said | None:
        """The last turns of a chat; None while they are not read."""
        return self._previews.get((row.id, row.updated))

    def read(self) -> None:
        """Reads the last turns of the highlighted chat, instead of any that are still waiting to be read."""
        row = self.row
        if row is not None and self.preview(row) is None:
            self._work.ask("preview", lambda: self._store.preview(row.id), lambda said: self._know(row, said))

    def open(self, session: str, loaded: str, hear: Callable[[Opened], object]) -> None:
        """Fetches a chat to continue, unless another is asked for meanwhile; `loaded` is the SHA-256 of the loaded model."""
        from termchat.chat.opening import fetch_session  # in no way to the first frame

        self._open(lambda: fetch_session(self._store, session, self._config, loaded), hear)

    def load(self, session: str, hear: Callable[[Session], object]) -> None:
        """Fetches a chat to look at, unless another is asked for meanwhile."""
        self._open(lambda: self._store.load(session), hear)

    def token(self, session: str, node: Node, index: int) -> Token | None:
        """A token's record of any chat, a few at a time; None also where it cannot be read."""
        with contextlib.suppress(StoreError):
            return self._store.token(session, node.number, index)
        return None

    def of_lesson(self, lesson: str) -> Session | None:
        """The chat in which a lesson was last left, if it is kept. It waits for the disk: not for the event loop."""
        with contextlib.suppress(StoreError):
            session = self._store.of_lesson(lesson)
            return self._store.load(session) if session is not None else None
        return None

    def close(self) -> None:
        """No more answers are wanted; pending changes are still made."""
        self._work.forget("list", "page", "preview", "open")
        self.changed = lambda: None

    # --- changes -----------------------------------------------------------------------------------------------------

    def rename(self, row: SessionSummary, title: str) -> None:
        self.rows = [msgspec.structs.replace(one, title=title) if one.id == row.id else one for one in self.rows]
        self._change(lambda: self._store.rename(row.id, title))

    def duplicate(self, row: SessionSummary) -> None:
        self._change(lambda: self._store.duplicate(row.id))

    def delete(self, row: SessionSummary) -> None:
        """Removes a chat from the list; `undelete` restores it."""
        self._deleted.append(row)
        self.rows = [one for one in self.rows if one.id != row.id]
        self.at = max(min(self.at, len(self.rows) - 1), 0)
        self._change(lambda: self._store.delete(row.id))

    def undelete(self) -> SessionSummary | None:
        """Restores the last deleted chat; None if there is none."""
        if not self._deleted:
            return None
        row = self._deleted.pop()
        self._change(lambda: self._store.restore(row.id), row.id)
        return row

    # --- how it is done ----------------------------------------------------------------------------------------------

    def _look(self, limit: int, session: str, at: int = 0) -> None:
        words = self._words

        def heard(found: list[SessionSummary] | Exception) -> None:
            self._answered = True
            if isinstance(found, Exception):
                self._fail(found)
                return
            self.rows, self.more, self._shown, self.problem = found, len(found) == limit, words, ""
            places = (place for place, row in enumerate(found) if row.id == session)
            self.at = next(places, max(min(at, len(found) - 1), 0))
            self.changed()

        self._work.forget("page")
        self._work.ask("list", lambda: self._store.sessions(limit, words), heard)

    def _add(self, page: list[SessionSummary] | Exception) -> None:
        """The next page; a chat that was used meanwhile has moved to the top, and another one into its place."""
        if isinstance(page, Exception):
            self._fail(page)
            return
        known = {row.id for row in self.rows}
        self.rows += [row for row in page if row.id not in known]
        self.more = len(page) == PAGE
        self.changed()

    def _know(self, row: SessionSummary, said: Said | Exception) -> None:
        if len(self._previews) >= _KEPT:
            self._previews.clear()
        self._previews[row.id, row.updated] = [] if isinstance(said, Exception) else said
        self.changed()

    def _open(self, work: Callable[[], _T], hear: Callable[[_T], object]) -> None:
        def heard(found: _T | Exception) -> None:
            if isinstance(found, Exception):
                self._fail(found)
            else:
                hear(found)

        self._work.ask("open", work, heard)

    def _change(self, work: Callable[[], str | None], session: str = "") -> None:
        """Makes a change, then reads the rows again; highlights what it made, or `session`."""

        def heard(made: str | Exception | None) -> None:
            if isinstance(made, Exception):
                self._fail(made)
            self.refresh(made if isinstance(made, str) else session)

        self._work.change(work, heard)
        self.changed()

    def _fail(self, error: Exception) -> None:
        self.problem = str(error)
        self.changed()
