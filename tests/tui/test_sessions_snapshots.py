"""Pictures of the saved chats. After a wanted change: `pytest tests/tui/test_sessions_snapshots.py --snapshot-update`."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.pilot import Pilot

from termchat.config.settings import load
from termchat.decoding.samplers import Tuning
from termchat.engine.port import ModelSpec
from termchat.tui.app import TermchatApp
from termchat.tui.lists import sessions_dialog
from termchat.tui.lists.gather import SessionList
from tests.chats import chat_on, chosen
from tests.tui.fake_engine import FakeEngine
from tests.tui.running_app import without_naps
from tests.tui.sessions_dialog import NOON, FakeStore, Library
from tests.tui.snapshots import Snapshot


@pytest.mark.parametrize(
    ("size", "theme", "number", "keys"),
    [
        ((80, 24), "dark", 300, ("down", "down")),
        ((80, 24), "light", 7, ("i", "n")),
        ((120, 40), "dark", 7, ("down", "ctrl+r")),
        ((120, 40), "light", 300, ("pagedown", "up", "delete")),
        ((40, 12), "dark", 7, ("down",)),
    ],
    ids=["below", "found", "renamed", "deleted", "smallest"],
)
def test_the_saved_chats(
    snap_compare: Snapshot,
    monkeypatch: pytest.MonkeyPatch,
    size: tuple[int, int],
    theme: str,
    number: int,
    keys: tuple[str, ...],
) -> None:
    monkeypatch.setattr(sessions_dialog, "time", lambda: NOON)
    saved = SessionList(FakeStore(number), load({}, {}, Path("/none")))  # type: ignore[arg-type]
    app = TermchatApp(
        chat_on(FakeEngine(), Tuning(seed=42)), chosen(ModelSpec("/tiny.gguf", "tiny")), sessions=saved, theme=theme
    )

    async def play(pilot: Pilot[None]) -> None:
        desk = Library(app, app.chat.engine, pilot)  # type: ignore[arg-type]
        await desk.settle()
        await desk.type("", "f4")
        await desk.at_rest()
        for key in keys:
            await desk.type("", key)
            await desk.at_rest()
        # The next one moves up to the end of a page that one was deleted of.
        await desk.until(lambda: desk.list.searched or len(desk.list.rows) == min(number, sessions_dialog.PAGE))
        await desk.until(lambda: (row := desk.list.row) is not None and (row.id, row.updated) in saved.previews)
        await desk.settle()

    with without_naps():
        assert snap_compare(app, terminal_size=size, run_before=play)
