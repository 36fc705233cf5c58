"""The app on a chat that a store in a directory keeps."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from termchat.chat.opening import load_latest
from termchat.chat.service import Chat
from termchat.config.settings import load
from termchat.conversation.store.store import Store
from termchat.decoding.samplers import Tuning
from tests.chats import chat_on
from tests.tui.fake_engine import FakeEngine
from tests.tui.running_app import Desktop, desktop
from tests.tui.token_mode import WORDS


@asynccontextmanager
async def kept(directory: Path, *, resume: bool = False) -> AsyncIterator[Desktop]:
    """A desktop whose chat is kept in a directory; with `resume`, the chat that was kept there."""
    store = Store.open(directory / "sessions.db")

    def chat(engine: FakeEngine) -> Chat:
        if not resume:
            return chat_on(engine, Tuning(seed=1), store=store)
        found = load_latest(store, load({}, environ={}, file=directory / "none.toml"))
        assert found is not None
        return chat_on(engine, session=found)

    async with desktop(chat=chat, close=store.close) as desk:
        yield desk


async def told(desk: Desktop) -> None:
    await desk.sent("tell me", *WORDS)
    desk.engine.end()
    await desk.settle()
