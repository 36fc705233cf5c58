"""The saved chats beside the screen: a thread reads and changes them, never the event loop."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from termchat.chat.loading import Choice
from termchat.conversation.session import Session, SessionSummary
from termchat.conversation.store.database import StoreError
from termchat.conversation.tree import Node, Role
from termchat.decoding.records import Token
from termchat.tui.draw.background import TaskQueue

if TYPE_CHECKING:
    from termchat.config.settings import Settings
    from termchat.conversation.store.store import Store

Turns = Sequence[tuple[Role, str]]
"""Roles and texts of turns."""
Opened = tuple[Session, Choice | None, str]
"""See `opening.fetch`."""


class SessionList:
    """The saved chats; what is known of them outlives the dialogs.

    `deliver` is set by the dialog: it takes, in the thread of `work`, what is to be called in the event loop.
    """

    def __init__(self, store: Store, config: Settings) -> None:
        self.store, self._config = store, config
        self.deliver: Callable[[Callable[[], object]], object] = lambda _: None
        self.work = TaskQueue(lambda call: self.deliver(call), (StoreError, OSError))
        self.listed: tuple[str, Sequence[SessionSummary]] = ("", ())
        """The words that were last searched for, "" for all chats, and the newest chats that have them."""
        self.previews: dict[tuple[str, float], Turns] = {}
        """The last turns of chats, by id and time of change."""
        self.deleted: list[SessionSummary] = []
        """Chats that can be restored, in the order of their deletion."""

    def fetch(self, session: str, loaded: str) -> Opened:
        """Read a chat to continue; `loaded` is the SHA-256 of the loaded model. It waits for the disk."""
        from termchat.chat.opening import fetch_session  # not needed before the first frame

        return fetch_session(self.store, session, self._config, loaded)

    def token(self, session: str, node: Node, index: int) -> Token | None:
        """Read a token's record of any chat, a few at a time; None also if it cannot be read."""
        with contextlib.suppress(StoreError):
            return self.store.token(session, node.number, index)
        return None

    def of_lesson(self, lesson: str) -> Session | None:
        """Read the chat in which a lesson was last left, if it is kept. It waits for the disk."""
        with contextlib.suppress(StoreError):
            session = self.store.of_lesson(lesson)
            return self.store.load(session) if session is not None else None
        return None
