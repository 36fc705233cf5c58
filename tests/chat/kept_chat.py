"""A chat that is kept in a store, on a fake engine."""

from __future__ import annotations

from termchat.chat.opening import fetch_session
from termchat.config.settings import Settings
from termchat.conversation.store.store import Store
from termchat.decoding.samplers import Tuning
from tests.chat.driven_chat import Faked


class Kept(Faked):
    """A chat that is kept in a store, and goes from chat to chat there."""

    def __init__(self, store: Store, config: Settings) -> None:
        self.store, self.config = store, config
        super().__init__(Tuning(seed=7), store=store)

    @property
    def session(self) -> str:
        return self.chat.session.current_id

    def open(self, session: str) -> None:
        self.chat.show_session(*fetch_session(self.store, session, self.config, self.chat.host.loaded))
        self.pump()

    def texts(self) -> list[str]:
        return [text for _, text in self.chat.conversation.list_turns()]

    def updated(self, session: str) -> float:
        assert self.store.flush()
        return self.store.load(session).updated
