"""Pictures of walks on a fake engine. After a wanted change: `pytest tests/tui/test_walks_snapshots.py --snapshot-update`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from unittest.mock import patch

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from termchat.decoding import walk_plan
from termchat.decoding.samplers import Tuning
from termchat.engine.port import ModelSpec
from termchat.tui.app import TermchatApp
from termchat.tui.screen import walks_view
from termchat.tui.terminal.capabilities import Abilities
from tests.chats import chat_on, chosen
from tests.tui.fake_engine import FakeEngine
from tests.tui.running_app import Desktop, without_naps
from tests.tui.snapshots import CANDIDATES, STORY, Snapshot, pieces
from tests.tui.walks import say, walk


async def running(desk: Desktop, walks: int = 4) -> None:
    """Walks in the middle of their replies."""
    await walk(desk, walk_plan.walks(walks))
    words = pieces(STORY)
    for number in range(walks):
        say(desk.engine, number, " ", *words[3 * number : 40 + 6 * number])
    desk.engine.say(" and", walk=0, id=8, candidates=CANDIDATES, decode_us=20_000, sample_us=400)
    await desk.settle()


async def eight(desk: Desktop) -> None:
    await running(desk, 8)
    await desk.type("", "3")


async def over(desk: Desktop) -> None:
    await running(desk)
    for number, reason in enumerate(("end", "length", "user", "end")):
        desk.engine.end(reason, walk=number)
    await desk.type("", "2")


async def parting(desk: Desktop) -> None:
    await running(desk)
    await desk.type("", "tab")


async def table(desk: Desktop) -> None:
    await running(desk)
    await desk.type("", "tab", "tab", "3")


async def tuned(desk: Desktop) -> None:
    """The knobs of one, while two of them wait."""
    await running(desk)
    await desk.type("", "3", "p", "4", "p", "2", "t", "t", "right", "right")


async def token(desk: Desktop) -> None:
    await running(desk)
    await desk.type("", "ctrl+g")


async def many(desk: Desktop) -> None:
    await running(desk, 20)
    await desk.type("", "1", "up", "up")


Scene = Callable[[Desktop], Awaitable[None]]


@pytest.mark.parametrize(
    ("scene", "size", "theme"),
    [
        (running, (120, 40), "dark"), (running, (120, 40), "light"), (running, (120, 40), "none"),
        (running, (80, 24), "dark"), (eight, (200, 60), "dark"), (many, (120, 40), "light"), (over, (120, 40), "dark"),
        (parting, (80, 24), "light"), (table, (80, 24), "dark"), (tuned, (200, 60), "light"), (token, (120, 40), "dark"),
    ],
    ids=lambda value: "x".join(map(str, value)) if isinstance(value, tuple) else getattr(value, "__name__", value),
)  # fmt: skip
def test_walks(snap_compare: Snapshot, scene: Scene, size: tuple[int, int], theme: str) -> None:
    engine = FakeEngine()
    chat = chat_on(engine, Tuning(seed=42))
    chat.conversation.title = "the sea"
    abilities = {"abilities": Abilities("none")} if theme == "none" else {"theme": theme}
    app = TermchatApp(chat, chosen(ModelSpec("/tiny.gguf", "tiny")), **abilities)  # type: ignore[arg-type]

    async def play(pilot: Pilot[None]) -> None:
        desk = Desktop(app, engine, pilot)
        await desk.settle()
        await scene(desk)
        for line in app.screen.query(Input):
            line.cursor_blink = False

    with without_naps(), patch.object(walks_view, "SELDOM", 0.0):
        assert snap_compare(app, terminal_size=size, run_before=play)
