"""Who opens a chat again finds the token cursor and the looks as they were left."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from termchat.chat.opening import reopen_latest
from termchat.chat.recording import StoreRecorder
from termchat.chat.service import Chat
from termchat.conversation.session import SessionInfo, View
from termchat.conversation.store import Store
from termchat.conversation.tree import Place
from termchat.decoding.samplers import Tuning
from termchat.settings import load
from termchat.tui.transcript import Transcript
from termchat.tui.transcript.looks import Look
from tests.tui.fake_engine import FakeEngine
from tests.tui.test_app import Desktop, desktop
from tests.tui.test_token_mode import WORDS, index


@asynccontextmanager
async def kept(directory: Path, *, resume: bool = False) -> AsyncIterator[Desktop]:
    """A desktop whose chat is kept in a directory; with `resume`, the chat that was kept there."""
    store = Store.open(directory / "sessions.db")

    def chat(engine: FakeEngine) -> Chat:
        if not resume:
            return Chat(engine, Tuning(seed=1), recorder=StoreRecorder(store, SessionInfo()))
        found = reopen_latest(store, load({}, environ={}, file=directory / "none.toml"))
        assert found is not None
        return Chat(
            engine, found.config.tuning, conversation=found.conversation, recorder=found.recorder,
            view=found.recorder.info.view,
        )  # fmt: skip

    async with desktop(chat=chat, close=store.close) as desk:
        yield desk


async def told(desk: Desktop) -> None:
    await desk.sent("tell me", *WORDS)
    desk.engine.end()
    await desk.settle()


def look(desk: Desktop) -> Look:
    return desk.app.query_one(Transcript).look


@pytest.mark.parametrize("leaving", [(), ("escape",)], ids=["quits in token mode", "leaves it first"])
async def test_the_cursor_is_on_the_token_where_it_was_left_in_the_look_that_token_mode_had(
    tmp_path: Path, leaving: tuple[str, ...]
) -> None:
    async with kept(tmp_path) as desk:
        await told(desk)
        await desk.type("", "ctrl+g", "ctrl+l", "h", "h", "h", *leaving)
    async with kept(tmp_path, resume=True) as desk:
        assert look(desk) == "reading"
        await desk.type("", "ctrl+g")
        assert (index(desk), look(desk)) == (7, "entropy")
        assert "TOKEN 7" in desk.text
        await desk.type("", "escape", "ctrl+g")  # that was then; from now on it is as ever
        assert index(desk) == 10


async def test_the_look_without_a_cursor_is_kept_too(tmp_path: Path) -> None:
    async with kept(tmp_path) as desk:
        await told(desk)
        await desk.type("", "ctrl+l", "ctrl+l", "ctrl+l")
        assert look(desk) == "rank"
    async with kept(tmp_path, resume=True) as desk:
        assert look(desk) == "rank"


async def test_a_look_that_is_chosen_is_kept_at_once_for_who_is_killed(tmp_path: Path) -> None:
    async with kept(tmp_path) as desk:
        await told(desk)
        await desk.type("", "ctrl+g", "h", "h", "ctrl+l")
        store = Store.open(tmp_path / "sessions.db")
        session = store.latest()
        assert session is not None
        await desk.until(lambda: store.load(session).info.view == View(Place(2, 8), "reading", "entropy"))
        store.close()


async def test_who_has_gone_on_talking_looks_at_what_is_new(tmp_path: Path) -> None:
    async with kept(tmp_path) as desk:
        await told(desk)
        await desk.type("", "ctrl+g", "g")
    async with kept(tmp_path, resume=True) as desk:
        await desk.sent("and then", " it", " ends")
        desk.engine.end()
        await desk.settle()
        await desk.type("", "ctrl+g")
        assert "TOKEN 1 ·ends" in desk.text
