"""The engine's process as its owner sees it: logs that cannot be written, processes that cannot start, deaths."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from termchat.decoding.records import Failed, Finished
from termchat.decoding.samplers import Tuning
from termchat.engine.local import LocalEngine
from termchat.engine.port import (
    Adjust,
    Cancel,
    Command,
    EngineError,
    Event,
    Force,
    Inspect,
    Inspected,
    Load,
    ModelSpec,
    Pause,
    Probe,
    Probed,
    Resume,
    Step,
    Tokenize,
)
from termchat.engine.worker_line import WorkerLine
from tests.engine.conftest import Driver, request

TUNING = Tuning()
ADJUST = Adjust(TUNING.samplers(), ())
GENERATE = request([1], TUNING)


@pytest.fixture
def engine() -> Iterator[LocalEngine]:
    made = LocalEngine()
    yield made
    made.close()


def answers(engine: LocalEngine, command: Command) -> list[Event]:
    number = engine.send(command)
    found: list[Event] = []
    for _ in range(300):
        found += [event for of, event in engine.receive(0.2) if of == number]
        if found:
            return found
    raise AssertionError("no answer")


def test_a_process_that_was_started_before_takes_the_first_command(engine: LocalEngine) -> None:
    engine.start()
    pid = engine.pid
    engine.start()
    assert isinstance(answers(engine, Probe())[0], Probed)
    assert engine.pid == pid is not None


def killed(engine: LocalEngine) -> tuple[int, Failed]:
    """The number and the failure that follow a kill."""
    assert engine.pid is not None
    os.kill(engine.pid, signal.SIGKILL)
    while engine.alive:
        events = engine.receive(1.0)
    number, failed = events[-1]
    assert isinstance(failed, Failed)
    assert (failed.kind, "SIGKILL" in failed.message) == ("engine", True)
    return number, failed


@pytest.mark.parametrize(
    ("commands", "expected"),
    [
        ([ADJUST, Cancel()], None),
        ([Pause(), Resume(), Step("line"), Force([1])], None),
        ([Cancel(), Tokenize("a"), Tokenize("b")], 1),
        ([Tokenize("a"), GENERATE, ADJUST, GENERATE, Tokenize("b")], 1),
    ],
)
def test_a_death_is_told_to_the_reply_or_to_who_waits_longest(
    engine: LocalEngine, commands: list[Command], expected: int | None
) -> None:
    engine.send(Cancel())
    assert engine.pid is not None
    os.kill(engine.pid, signal.SIGSTOP)
    numbers = [engine.send(command) for command in commands]
    assert killed(engine)[0] == (0 if expected is None else numbers[expected])


def test_what_was_answered_waits_no_more(driver: Driver) -> None:
    ids = driver.prompt("x")
    driver.ask(request(ids, Tuning(max_tokens=2)), Finished)
    driver.ask(Inspect(ids, TUNING.samplers(), seed=1, done=0), Inspected)
    driver.engine.send(ADJUST)
    assert killed(driver.engine)[0] == 0


@pytest.mark.parametrize(
    ("printed", "how", "reason"),
    [
        ("load: failed to mlock, an error of no importance", "os.kill(os.getpid(), 9)", "by SIGKILL"),
        ("load: failed to mlock, an error of no importance", "os.abort()", "by SIGABRT"),
        (
            "/x/llama-vocab.cpp:25: GGML_ASSERT(a == b) failed",
            "os.abort()",
            "llama-vocab.cpp:25: GGML_ASSERT(a == b) failed",
        ),
        ("  what():  unordered_map::at\nload: 1 failed", "os.abort()", "what():  unordered_map::at"),
        ("load: an error", "raise ZeroDivisionError('by zero')", "with exit code 1: ZeroDivisionError: by zero"),
    ],
)
def test_the_reason_of_a_death_is_what_the_process_died_of(tmp_path: Path, printed: str, how: str, reason: str) -> None:
    program = f"import os, sys; print({printed!r}, file=sys.stderr, flush=True); {how}"
    engine = LocalEngine(tmp_path / "log", WorkerLine([sys.executable, "-c", program]))
    (failed,) = answers(engine, Tokenize("a"))
    assert isinstance(failed, Failed)
    assert failed.message.endswith(reason)


@pytest.mark.parametrize("place", ["/proc/none/termchat.log", "/dev/null/termchat.log"])
def test_without_a_place_for_the_log_it_goes_on(place: str) -> None:
    engine = LocalEngine(Path(place))
    failed = answers(engine, Tokenize("a"))[-1]
    assert isinstance(failed, Failed)
    assert failed.message == "no model is loaded"
    assert killed(engine)[1].message == "the engine process ended by SIGKILL"
    engine.close()


def test_the_log_does_not_grow_for_ever(tmp_path: Path) -> None:
    log = tmp_path / "termchat.log"
    log.write_bytes(b"error: of long ago\n" * 100_000)
    engine = LocalEngine(log)
    answers(engine, Tokenize("a"))
    assert log.stat().st_size < 1000
    assert (tmp_path / "termchat.log.old").stat().st_size == 1_900_000
    assert "long ago" not in killed(engine)[1].message
    answers(engine, Tokenize("a"))
    engine.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["termchat.log", "termchat.log.old"]


def test_a_process_that_cannot_start_is_an_engine_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    engine = LocalEngine()
    with pytest.raises(EngineError, match=r"cannot be started: .*nowhere") as caught:
        engine.send(Load(ModelSpec("/m.gguf", "m")))
    assert (caught.value.kind, engine.alive, engine.receive()) == ("engine", False, [])


def test_a_worker_that_cannot_read_its_commands_ends_and_says_why(tmp_path: Path) -> None:
    engine = LocalEngine(tmp_path / "log")
    answers(engine, Tokenize("a"))
    engine.send(Tokenize(7))  # type: ignore[arg-type]
    while engine.alive:
        events = engine.receive(1.0)
    failed = events[-1][1]
    assert isinstance(failed, Failed)
    assert "exit code 1" in failed.message
    assert "Expected `str`, got `int`" in failed.message
