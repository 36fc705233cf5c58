"""Asks the store what another termchat has saved of a chat that is looked on."""

from __future__ import annotations

from textual.timer import Timer

from termchat.conversation.session import SessionNews
from termchat.conversation.store.database import StoreError
from termchat.conversation.tree import Conversation
from termchat.tui.draw.background import TaskQueue
from termchat.tui.screen.parts import Parts
from termchat.tui.sessions.session_list import SessionList

PERIOD = 0.4
"""Seconds between two questions; what is streamed is saved about four times in a second."""


class ChatFollowing:
    """Stands between the saved chats and the chat: asks in a thread, while a chat is looked on."""

    def __init__(self, parts: Parts, sessions: SessionList | None) -> None:
        self._screen, self._chat, self._do = parts.screen, parts.chat, parts.do
        self._sessions = sessions
        self._questions = TaskQueue(parts.screen.call_later, (StoreError, OSError))
        self._timer: Timer | None = None

    def follow(self) -> None:
        """Begins or ends with the chat's looking on."""
        wanted = self._chat.looking_on.followed is not None
        if wanted and self._timer is None:
            self._timer = self._screen.set_interval(PERIOD, self._ask)
        elif not wanted and self._timer is not None:
            self._timer.stop()
            self._timer = None

    def _ask(self) -> None:
        chat, sessions = self._chat.conversation, self._sessions
        followed = self._chat.looking_on.followed
        if followed is not None and sessions is not None and not self._questions.waits("news"):
            self._questions.ask("news", lambda: sessions.news(followed), lambda news: self._hear(chat, news))

    def _hear(self, chat: Conversation, news: SessionNews | Exception) -> None:
        if not isinstance(news, Exception):
            self._do(lambda: self._chat.looking_on.take(chat, news))
