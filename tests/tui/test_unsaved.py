"""That a chat cannot be saved, and that it can be again, is read also while nothing else happens on the screen."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from time import monotonic

import pytest

from tests.tui.running_app import PATIENCE, Desktop
from tests.tui.stored_chat import kept, told


async def appears(desk: Desktop, text: str) -> None:
    """Waits for a text on the screen; unlike `Desktop.settle` it never has the app look at anything."""
    end = monotonic() + PATIENCE
    while text not in desk.text:
        assert monotonic() < end, desk.text
        await desk.pilot.pause(0.05)


@asynccontextmanager
async def locked(tmp_path: Path) -> AsyncIterator[tuple[Desktop, sqlite3.Connection]]:
    """A chat in whose store another program holds a transaction, until it rolls that back; the screen has told of it."""
    async with kept(tmp_path) as desk:
        await told(desk)
        desk.chat.session.store.flush(PATIENCE)  # type: ignore[attr-defined]
        with closing(sqlite3.connect(tmp_path / "sessions.db", isolation_level=None)) as holder:
            holder.execute("BEGIN EXCLUSIVE")
            desk.chat.rename_chat("another title")
            await appears(desk, "not saved: another program has locked it")
            yield desk, holder


async def test_an_idle_screen_tells_that_saving_fails_and_that_it_works_again(tmp_path: Path) -> None:
    async with locked(tmp_path) as (desk, holder):
        await desk.type("", "escape")  # read; what still is so is said in the header
        assert "not saved: another" not in desk.text
        assert "not saved   ready" in desk.text.splitlines()[0]
        holder.execute("ROLLBACK")
        await appears(desk, "the chat is saved again")
        await desk.settle()
        assert "not saved" not in desk.text


@pytest.mark.parametrize("keys", [("ctrl+q",), ("f4", "ctrl+q")], ids=["on the chat", "in a list"])
async def test_a_chat_that_cannot_be_saved_is_not_left_by_one_key(tmp_path: Path, keys: tuple[str, ...]) -> None:
    async with locked(tmp_path) as (desk, holder):
        await desk.type("", *keys)
        assert "press Ctrl+Q again to quit; this chat would be lost" in " ".join(desk.text.split())
        assert desk.app.return_code is None
        await desk.pilot.press("ctrl+q")
        assert desk.app.return_code == 0
        holder.execute("ROLLBACK")
