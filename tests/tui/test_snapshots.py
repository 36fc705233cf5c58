"""Pictures of the screen on a fake engine. After a wanted change: `pytest tests/tui/test_snapshots.py --snapshot-update`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from termchat.decoding.samplers import Tuning
from termchat.engine.port import ModelSpec
from termchat.tui.app import TermchatApp
from tests.chats import chat_on, chosen
from tests.tui.fake_engine import FakeEngine
from tests.tui.running_app import Desktop, without_naps
from tests.tui.snapshots import CANDIDATES, Snapshot

STORY = ("Once", " upon", " a", " time", " a", " **fox**", " met", " a", " bear", ".", " He", " was", " very", " old")


def screen(theme: str) -> tuple[TermchatApp, Callable[..., Awaitable[None]]]:
    """An app, and what brings it into the middle of a reply and then presses keys."""
    engine = FakeEngine()
    chat = chat_on(engine, Tuning(seed=42, stop=("\n6.",), max_tokens=512))
    chat.conversation.title = "fox and bear"
    app = TermchatApp(chat, chosen(ModelSpec("/tiny.gguf", "tiny")), theme=theme)

    async def play(pilot: Pilot[None], *keys: str) -> None:
        desk = Desktop(app, engine, pilot)
        await desk.settle()
        await desk.sent("Write a story about a fox and a bear.", *STORY[:5])
        for at, piece in enumerate(STORY[5:]):
            engine.say(piece, id=8, candidates=CANDIDATES, logprob=-0.5 * at)
        await desk.settle()
        await desk.type("", *keys)
        for line in app.screen.query(Input):
            line.cursor_blink = False

    return app, play


@pytest.mark.parametrize(
    ("size", "theme", "keys"),
    [
        ((120, 40), "dark", ("ctrl+t", "t", "1", "full_stop", "2")),
        ((120, 40), "light", ("ctrl+l",)),
        ((80, 24), "dark", ("ctrl+t", "m", "right")),
        ((80, 24), "light", ("ctrl+s",)),
        ((40, 12), "dark", ()),
    ],
    ids=["tune", "token-look", "drawer", "save", "smallest"],
)
def test_the_screen_in_the_middle_of_a_reply(
    snap_compare: Snapshot, size: tuple[int, int], theme: str, keys: tuple[str, ...]
) -> None:
    app, play = screen(theme)
    with without_naps():
        assert snap_compare(app, terminal_size=size, run_before=lambda pilot: play(pilot, *keys))
