"""Who opens a chat again finds the token cursor and the looks as they were left."""

from __future__ import annotations

from pathlib import Path

import pytest

from termchat.conversation.session import View
from termchat.conversation.store.store import Store
from termchat.conversation.tree import Place
from termchat.tui.transcript import TranscriptView
from termchat.tui.transcript.looks import Look
from tests.tui.running_app import Desktop
from tests.tui.stored_chat import kept, told
from tests.tui.token_mode import index


def look(desk: Desktop) -> Look:
    return desk.app.query_one(TranscriptView).look


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
        assert (index(desk), look(desk)) == (7, "after")
        assert "TOKEN 7" in desk.text
        await desk.type("", "escape", "ctrl+g")  # that was then; from now on it is as ever
        assert index(desk) == 10


async def test_the_look_without_a_cursor_is_kept_too(tmp_path: Path) -> None:
    async with kept(tmp_path) as desk:
        await told(desk)
        await desk.type("", "ctrl+l", "ctrl+l", "ctrl+l")
        assert look(desk) == "entropy"
    async with kept(tmp_path, resume=True) as desk:
        assert look(desk) == "entropy"


async def test_a_look_that_is_chosen_is_kept_at_once_for_who_is_killed(tmp_path: Path) -> None:
    async with kept(tmp_path) as desk:
        await told(desk)
        await desk.type("", "ctrl+g", "h", "h", "ctrl+l")
        store = Store.open(tmp_path / "sessions.db")
        session = store.latest()
        assert session is not None
        await desk.until(lambda: store.load(session).view == View(Place(2, 8), "reading", "after"))
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
