"""Pictures of a lesson's strip and of the list. After a wanted change, run them with `--snapshot-update`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest
from textual.pilot import Pilot

from termchat import paths
from termchat.decoding.samplers import Tuning
from termchat.engine.port import ModelSpec
from termchat.lessons.playing import LessonState
from termchat.tui.app import TermchatApp
from tests.chats import chat_on, chosen
from tests.tui import fake_engine
from tests.tui.fake_engine import FakeEngine
from tests.tui.made_lessons import SECOND, at_step, begun, write_lessons
from tests.tui.running_app import Desktop, without_naps
from tests.tui.snapshots import CANDIDATES, STORY, Snapshot, pieces

Scene = Callable[[Desktop], Awaitable[None]]


async def asked(desk: Desktop) -> None:
    """A question waits; a key and a page are lit."""
    await begun(desk, "first-own")
    desk.chat.adjust_setting("temperature", 0.0)
    await at_step(desk, 2)


async def hinted(desk: Desktop) -> None:
    """The strip has the keyboard, after a hint."""
    await begun(desk, "first-own")
    await desk.type("", "ctrl+space", "?", "ctrl+space", "?", "ctrl+space")


async def told(desk: Desktop) -> None:
    """The guess stands beside the truth, and a number is asked for."""
    await asked(desk)
    await desk.type("", "2", "enter")
    desk.engine.say(*pieces(STORY)[:40], candidates=CANDIDATES, probability=0.439, logprob=-1.17, entropy=2.4)
    desk.engine.end()
    await desk.settle()
    await at_step(desk, 3)
    await desk.type("4")


async def listed(desk: Desktop) -> None:
    """All lessons, one of them done, one left in the middle, one broken."""
    progress = desk.app.learning.progress
    progress.keep("first-own", LessonState(1, False, ()))
    progress.keep("second-own", LessonState(0, True, ()))
    await desk.type("", "ctrl+space")


@pytest.mark.parametrize(
    ("scene", "size", "theme"),
    [
        (asked, (80, 24), "dark"), (asked, (120, 40), "light"), (asked, (200, 60), "dark"),
        (hinted, (80, 24), "light"), (hinted, (120, 40), "dark"),
        (told, (80, 24), "dark"), (told, (120, 40), "dark"), (told, (200, 60), "light"),
        (listed, (80, 24), "light"), (listed, (120, 40), "dark"), (listed, (200, 60), "light"),
    ],
    ids=lambda value: "x".join(map(str, value)) if isinstance(value, tuple) else getattr(value, "__name__", value),
)  # fmt: skip
def test_a_lesson(
    snap_compare: Snapshot, home: Path, monkeypatch: pytest.MonkeyPatch, scene: Scene, size: tuple[int, int], theme: str
) -> None:
    write_lessons(paths.lessons_folder())
    (paths.lessons_folder() / "82-broken.toml").write_text(SECOND.replace("minutes = 1", 'minutes = "many"'))
    monkeypatch.setattr("termchat.lessons.lesson_file.COURSE", home / "no-course")  # other lessons come and go
    monkeypatch.setattr(
        fake_engine, "INFO", msgspec.structs.replace(fake_engine.INFO, name="SmolLM2-135M-Instruct", context=2048)
    )
    engine = FakeEngine()
    chat = chat_on(engine, Tuning(seed=42))
    app = TermchatApp(chat, chosen(ModelSpec("/tiny.gguf", "SmolLM2-135M-Instruct")), theme=theme)

    async def play(pilot: Pilot[None]) -> None:
        desk = Desktop(app, engine, pilot)
        await desk.settle()
        await scene(desk)

    with without_naps():
        assert snap_compare(app, terminal_size=size, run_before=play)
