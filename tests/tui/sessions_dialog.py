"""The app with the list of saved chats open, on a store in memory or a real one."""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from termchat.chat.service import Chat
from termchat.config.settings import load
from termchat.conversation.session import SessionSummary
from termchat.conversation.store.database import StoreError
from termchat.conversation.store.store import Store
from termchat.decoding.samplers import Tuning
from termchat.tui.lists.gather import SessionList
from termchat.tui.lists.sessions_dialog import SessionsDialog
from tests.chats import chat_on
from tests.tui.fake_engine import FakeEngine
from tests.tui.running_app import Desktop, desktop

NOON = time.mktime((2026, 11, 20, 12, 0, 0, 0, 0, -1))
DAY = 86_400
TITLES = (
    "A fox and a bear", "How do I bake bread?", "Regular expressions in Python", "Plan a week in Lisbon",
    "Explain the keyed dice", "Words that rhyme with orange", "What is a KV cache?",
)  # fmt: skip


def summary(number: int, title: str = "", **more: object) -> SessionSummary:
    moment = NOON - number * 3 * 3600
    given = {
        "id": f"s{number}", "title": title or f"Chat number {number}", "created": moment - DAY, "updated": moment,
        "turns": number % 9 + 1, "tokens": 317 * number % 20_000, "model": "SmolLM2-135M-Instruct",
    }  # fmt: skip
    return SessionSummary(**given | more)  # type: ignore[arg-type]


class FakeStore:
    """Saved chats in memory, the newest first; while `closed` nothing is answered. `asked` are all questions."""

    def __init__(self, number: int = len(TITLES)) -> None:
        self.kept = [summary(at, TITLES[at] if at < len(TITLES) else "") for at in range(number)]
        self.removed: dict[str, tuple[int, SessionSummary]] = {}
        self.asked: list[tuple[object, ...]] = []
        self.closed = threading.Event()
        self.closed.set()
        self.broken = ""

    def sessions(
        self, limit: int = 100, search: str = "", offset: int = 0, deleted: bool = False
    ) -> list[SessionSummary]:
        self._ask("sessions", limit, search, offset)
        words = search.lower().split()
        found = [row for row in self.kept if all(word in row.title.lower() for word in words)]
        if words:
            found = [
                msgspec.structs.replace(row, snippet=row.title.lower().replace(words[0], f"\x02{words[0]}\x03"))
                for row in found
            ]
        return found[offset : offset + limit]

    def preview(self, session: str, limit: int = 40) -> list[tuple[str, str]]:
        self._ask("preview", session)
        (row,) = [row for row in self.kept if row.id == session]
        return [("user", row.title), ("assistant", f"This is the reply to {session}. " * 3)]

    def rename(self, session: str, title: str) -> None:
        self._ask("rename", session, title)
        self.kept = [msgspec.structs.replace(row, title=title) if row.id == session else row for row in self.kept]

    def duplicate(self, session: str) -> str:
        self._ask("duplicate", session)
        (row,) = [row for row in self.kept if row.id == session]
        self.kept = [msgspec.structs.replace(row, id="copy"), *self.kept]
        return "copy"

    def delete(self, session: str) -> None:
        self._ask("delete", session)
        at = [row.id for row in self.kept].index(session)
        self.removed[session] = at, self.kept.pop(at)

    def restore(self, session: str) -> None:
        self._ask("restore", session)
        at, row = self.removed.pop(session)
        self.kept.insert(at, row)

    def _ask(self, *what: object) -> None:
        assert threading.current_thread() is not threading.main_thread()  # the event loop's
        self.asked.append(what)
        self.closed.wait(30)
        if self.broken:
            raise StoreError(self.broken)


class Library(Desktop):
    """An app with the list of saved chats."""

    @property
    def open(self) -> bool:
        return isinstance(self.app.screen, SessionsDialog)

    @property
    def list(self) -> SessionsDialog:
        assert isinstance(self.app.screen, SessionsDialog)
        return self.app.screen

    @property
    def header(self) -> str:
        return self.app.screen_stack[0].query_one("#header")._lines[0].text  # type: ignore[attr-defined]

    async def at_rest(self) -> None:
        """Until nothing is asked any more."""
        await self.until(lambda: not self.list.looking)


@asynccontextmanager
async def library(
    store: FakeStore | Store,
    *folders: Path,
    size: tuple[int, int] = (120, 40),
    opened: bool = True,
    chat: Callable[[FakeEngine], Chat] = lambda engine: chat_on(engine, Tuning(seed=1)),
) -> AsyncIterator[Library]:
    config = load({"model_folders": ":".join(map(str, folders))} if folders else {}, {}, Path("/none"))
    async with desktop(size, chat=chat, sessions=SessionList(store, config)) as desk:  # type: ignore[arg-type]
        made = Library(desk.app, desk.engine, desk.pilot)
        if opened:
            await made.type("", "f4")
            await made.at_rest()
        yield made
