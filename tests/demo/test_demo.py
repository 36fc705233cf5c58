"""The demo plays what was recorded, on the real screen, without a model and without what runs one."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from textual.app import App
from textual.pilot import Pilot

from termchat.chat.questions import WhyNot
from termchat.config import settings
from termchat.conversation.tree import Node
from termchat.decoding.records import Failed, Finished, SettingsRecord, Token
from termchat.engine.port import (
    Adjust,
    Command,
    Event,
    Explain,
    Explained,
    Generate,
    Load,
    Loaded,
    ModelSpec,
    Render,
    ReplyRequest,
)
from termchat.tui import demo_player as demo_app
from termchat.tui.demo import engine as playing
from termchat.tui.demo import tape
from termchat.tui.demo.engine import SPEC, DemoEngine
from termchat.tui.demo_player import build
from termchat.tui.pages.token_answers import why_lines
from tests.tui.fake_engine import FakeEngine
from tests.whole.terminal import Terminal

MOST = 300_000
"""Bytes that the recording may have."""


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The time by which a recording is played."""
    clock = Clock()
    monkeypatch.setattr(playing, "monotonic", clock)
    return clock


def engine(real: Callable[[], FakeEngine] = FakeEngine) -> DemoEngine:
    return DemoEngine(tape.load(), real)


def generate() -> Generate:
    """The command that began the recorded reply, as far as it counts."""
    events = next(exchange.events for exchange in tape.load().exchanges if exchange.asked.startswith("Generate"))
    start = next(event for _, event in events if type(event).__name__ == "Start")
    tuning = demo_app.TUNING
    return Generate([ReplyRequest(start.prompt_ids, tuning.samplers(), tuning.conditions(), 7)])  # type: ignore[union-attr]


def test_the_recording_is_small_and_says_nothing_of_where_it_was_made() -> None:
    raw = tape.FILE.read_bytes()
    assert len(raw) < MOST
    recorded = tape.load()
    texts = repr(recorded)
    assert "/home/" not in texts
    assert "/tmp/" not in texts
    assert str(Path.home()) not in texts or Path.home() == Path("/")
    loaded = next(event for exchange in recorded.exchanges for _, event in exchange.events if isinstance(event, Loaded))
    assert loaded.info.name.startswith("demo: a recording")


def test_a_reply_comes_at_its_own_pace_and_waits_for_the_knob(clock: Clock) -> None:
    demo = engine()
    number = demo.send(generate())
    before = len(demo.receive())
    clock.now += 10_000
    events = [event for _, event in demo.receive()]
    assert before < 10
    assert not any(isinstance(event, Finished) for event in events)
    tuning = demo_app.TUNING.turn_knobs({"temperature": 1.4})
    hot = tuning.samplers()
    demo.send(Adjust(hot, tuning.conditions()))
    found: list[Event] = []
    for _ in range(3):
        clock.now += 10_000
        found += [event for answered, event in demo.receive() if answered == number]
    assert isinstance(found[0], SettingsRecord)
    assert found[0].samplers == hot
    assert isinstance(found[-1], Finished)
    assert sum(isinstance(event, Token) for event in [*events, *found]) == found[-1].tokens


def test_it_goes_on_without_the_knob_once_somebody_else_has_the_keyboard(clock: Clock) -> None:
    demo = engine()
    demo.send(generate())
    demo.free()
    clock.now += 10_000
    assert isinstance(demo.receive()[-1][1], Finished)


@pytest.mark.parametrize("command", [Render([]), generate()])
def test_what_was_not_asked_then_is_refused_kindly(command: Command) -> None:
    demo = engine()
    if isinstance(command, Generate):
        command = Generate([ReplyRequest([1, 2, 3], command.replies[0].samplers, (), 7)])
    number = demo.send(command)
    [(answered, failure)] = demo.receive()
    assert answered == number
    assert isinstance(failure, Failed)
    assert "this is a recording" in failure.message
    assert "F3" in failure.hint


def test_recorded_numbers_are_not_said_to_be_recomputed() -> None:
    answer = next(exchange for exchange in tape.load().exchanges if exchange.asked.startswith("Explain"))
    question = Explain([1, 2], 3, demo_app.TUNING.samplers(), 7, 0)
    demo = DemoEngine(tape.Tape([tape.Exchange(tape.identify(question), answer.events)]), FakeEngine)
    demo.send(question)
    [(_, explained)] = demo.receive()
    assert isinstance(explained, Explained)
    lines = why_lines(WhyNot(Node(1, None, 0, "assistant"), 0, False, "", 0, explained, {}), 46)
    assert lines[0].text.rstrip().startswith("WHY NOT ·the")
    assert not any("recomputed" in line.text for line in lines)


def test_another_model_is_loaded_by_a_real_engine() -> None:
    real = FakeEngine()
    demo = engine(lambda: real)
    demo.send(Load(SPEC))
    demo.close()
    demo.send(Load(ModelSpec("/tiny.gguf", "tiny")))
    assert isinstance(real.commands[0], Load)
    assert demo.fileno() == real.fileno()
    demo.close()
    assert real.closed


async def until(pilot: Pilot[None], condition: Callable[[], bool]) -> None:
    """Waits for something to be true, two minutes at most."""
    for _ in range(6000):
        if condition():
            return
        await pilot.pause(0.02)
    raise AssertionError(f"it never came true; the screen:\n{shown(pilot.app)}")


class Watched(DemoEngine):
    """The engine of the demo; what it is asked is kept."""

    def __init__(self) -> None:
        super().__init__(tape.load(), FakeEngine)
        self.commands: list[Command] = []

    def send(self, command: Command) -> int:
        self.commands.append(command)
        return super().send(command)


async def test_the_whole_script_is_played_with_nothing_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its answers are those of the recording: a script that asks anything else needs another one."""
    started = time.monotonic()
    monkeypatch.setattr(playing, "monotonic", lambda: started + (time.monotonic() - started) * 20)
    monkeypatch.setattr(demo_app, "STEPS", [step._replace(pause=0.0, pace=0.0) for step in demo_app.STEPS])
    demo, refused = Watched(), []
    app = build(settings.load({}, {}, tmp_path / "none"), demo, tmp_path, theme="dark")
    async with app.run_test(size=(120, 40)) as pilot:
        seen = ""

        def over() -> bool:
            nonlocal seen
            seen += shown(app)
            demo.on_refused = refused.append
            return app.is_over and "End of the demo" in seen and not app._typed.waiting

        await until(pilot, over)
        assert app.chat.failure is None
    assert not refused
    for said in ("Demo: a recording of", demo_app.PROMPT, "TUNE", "temperature 0.8 → 1.4", "pip install"):
        assert said in seen
    assert [one.samplers.temperature for one in app.chat.conversation.find_reply()[0].node.settings] == [0.8, 1.4]
    recorded = {exchange.asked for exchange in tape.load().exchanges}
    for kind in (Load, Generate, Explain):
        wanted = {tape.identify(command) for command in demo.commands if isinstance(command, kind)}
        assert wanted
        assert wanted <= recorded


async def test_any_key_takes_the_keyboard(tmp_path: Path) -> None:
    app = build(settings.load({}, {}, tmp_path / "none"), engine(), tmp_path, theme="dark")
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: app.is_playing)
        await pilot.press("x")
        await until(pilot, lambda: app.is_over)
        assert "the keyboard is yours" in shown(app)
        assert not app.query_one("Composer").text  # type: ignore[attr-defined]
        await until(pilot, lambda: app.chat.phase == "idle")
        await pilot.press("f3")
        await until(pilot, lambda: "on this machine" in shown(app))
        assert "demo: a recording" not in shown(app)
        await pilot.press("escape", "h", "i", "enter")
        await until(pilot, lambda: "no model is loaded to answer" in shown(app))
        assert app.query_one("Composer").text == "hi"  # type: ignore[attr-defined]


def test_it_runs_where_llama_cpp_cannot_be_imported(tmp_path: Path) -> None:
    (tmp_path / "blocked").mkdir()
    (tmp_path / "blocked" / "llama_cpp.py").write_text("raise ImportError('there is none')\n")
    terminal = Terminal(tmp_path, "--demo", PYTHONPATH=str(tmp_path / "blocked"))
    try:
        terminal.wait("Demo: a recording of", 120)
        terminal.wait("writing", 120)
        terminal.keys("x")
        terminal.wait("the keyboard is yours", 60)
        terminal.keys("ctrl+q")
        assert terminal.ended(60) == 0
        assert terminal.restored()
    finally:
        terminal.close()


def shown(app: App[None]) -> str:
    """What stands on the screen."""
    return "\n".join(strip.text.rstrip() for strip in app.screen._compositor.render_strips())
