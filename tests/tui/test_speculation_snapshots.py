"""Pictures of speculation on a fake engine. After a wanted change, run them with `--snapshot-update`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from termchat.decoding.samplers import Tuning
from termchat.engine.port import ModelSpec
from termchat.tui.app import TermchatApp
from tests.chats import chat_on, chosen
from tests.tui.drafted import fields_in_round, say_plain, say_round
from tests.tui.fake_engine import FakeEngine
from tests.tui.running_app import Desktop, command, without_naps
from tests.tui.snapshots import Snapshot

MESSAGE = "Repeat: the old bear met a fox near the river at night."
COPY = (" The", " old", " bear", " met", " a", " fox", " near", " the", " river")
WHY = "accepted 12 %, breaks even at 61 %"


async def begun(desk: Desktop) -> None:
    """A copy that is drafted, a free text that is not, and a copy again; not over yet."""
    await desk.type(MESSAGE, "enter")
    engine = desk.engine
    say_plain(engine, *COPY)
    say_round(engine, (" at", " night", ".", " The", " old"), (" at", " night", ".", " And"))
    say_plain(engine, " so", " it", " went", " on", ":", " a", " fox", " is", " no", " bear")
    engine.drafting(WHY)
    say_plain(engine, ",", " and", " a", " bear", " no", " fox", ".")
    engine.drafting()
    say_round(engine, COPY[:7], COPY[:8], by="smollm2-fewer")
    say_plain(engine, " river")
    await desk.settle()


async def look(desk: Desktop) -> None:
    await begun(desk)
    await command(desk, "/look drafts")
    await command(desk, "/draft")


async def off(desk: Desktop) -> None:
    """Why nothing is drafted at present."""
    await begun(desk)
    desk.engine.drafting(WHY)
    say_plain(desk.engine, " at", " noon", ".")
    desk.engine.end()
    await command(desk, "/draft")


async def rejected(desk: Desktop) -> None:
    """The token that was taken instead of a drafted one."""
    await begun(desk)
    desk.engine.end()
    await command(desk, "/look drafts")
    await desk.type("", "ctrl+g", *["h"] * 26)


async def in_round(desk: Desktop) -> None:
    await rejected(desk)
    await desk.type("", *["tab"] * 3)


async def stepped(desk: Desktop) -> None:
    """A reply that is paused in the middle of a round."""
    await begun(desk)
    say_round(desk.engine, COPY[:4], COPY[:2])
    desk.engine.wait(piece=" met", **fields_in_round(desk.engine, COPY[:4], 2, " met"))
    await desk.settle()
    await desk.type("", "ctrl+g", *["tab"] * 3)


async def forecast(desk: Desktop) -> None:
    """Before it is on: what it would have gained."""
    desk.chat.adjust_setting("draft", "off")
    await desk.type(MESSAGE, "enter")
    say_plain(desk.engine, *COPY * 4)
    desk.engine.end()
    await command(desk, "/draft")
    await desk.until(lambda: "accepted" in desk.text)


Scene = Callable[[Desktop], Awaitable[None]]


@pytest.mark.parametrize(
    ("scene", "size", "theme"),
    [
        (look, (120, 40), "dark"), (look, (80, 24), "light"), (look, (200, 60), "colorblind-dark"), (off, (120, 40), "light"),
        (rejected, (120, 40), "dark"), (rejected, (80, 24), "light"), (in_round, (80, 24), "dark"),
        (in_round, (120, 40), "light"), (in_round, (200, 60), "dark"), (stepped, (120, 40), "dark"),
        (forecast, (80, 24), "dark"), (forecast, (120, 40), "light"),
    ],
    ids=lambda value: "x".join(map(str, value)) if isinstance(value, tuple) else getattr(value, "__name__", value),
)  # fmt: skip
def test_speculation(snap_compare: Snapshot, scene: Scene, size: tuple[int, int], theme: str) -> None:
    engine = FakeEngine()
    chat = chat_on(engine, Tuning(seed=42, draft="ngram"), kept=True)
    chat.conversation.title = "fox and bear"
    app = TermchatApp(chat, chosen(ModelSpec("/tiny.gguf", "tiny")), theme=theme)

    async def play(pilot: Pilot[None]) -> None:
        desk = Desktop(app, engine, pilot)
        await desk.settle()
        await scene(desk)
        for line in app.screen.query(Input):
            line.cursor_blink = False

    with without_naps():
        assert snap_compare(app, terminal_size=size, run_before=play)
