"""A person at the keyboard: type, stream, turn knobs, stop, save, quit, and come back."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path
from time import monotonic, sleep

import pytest

from termchat.conversation.store.store import Store
from termchat.decoding.records import Token
from termchat.tui.screen.header_line import context_used
from tests.stalls import Stalls
from tests.whole.chat_steps import COUNT, ENDLESS, FLAGS, Open, counting, gone, ready, save_and_quit, stop, stored, used
from tests.whole.terminal import Terminal


def told(terminal: Terminal) -> list[str]:
    """The chat's own lines, without the panels."""
    lines = [line[:72].rstrip() for line in terminal.text.splitlines()]
    return lines[1 : next(i for i, line in enumerate(lines) if "max_tokens" in line)]


def test_the_main_job(open_terminal: Open, tmp_path: Path) -> None:
    terminal = open_terminal(*ENDLESS)
    counting(terminal)
    # A knob in mid-reply, with a half-written message in the composer.
    terminal.keys("half a message")
    terminal.keys("ctrl+t", "t", "1.5", "enter")
    terminal.wait("temperature 0.8 → 1.5 at token")
    terminal.keys("esc")
    terminal.wait(lambda: "TUNE" not in terminal.text)
    assert "half a message" in terminal.text
    assert "writing" in terminal.text
    terminal.keys("ctrl+l")
    stop(terminal)
    assert "half a message" in terminal.text
    # Idle: a knob reshapes the distribution on the screen.
    terminal.keys("ctrl+t", "t", "0", "enter", "esc")
    terminal.wait(lambda: "preview" in terminal.text.lower())
    target = tmp_path / "story.jsonl"
    lines = save_and_quit(terminal, target)
    assert terminal.restored()
    changes = [line for line in lines if line["record"] == "settings"]
    tokens = [line for line in lines if line["record"] == "token"]
    assert [change["samplers"]["temperature"] for change in changes] == [0.8, 1.5]
    assert {t["settings"] for t in tokens} == {0, 1}
    assert len([r for r in stored(tmp_path) if isinstance(r, Token)]) == len(tokens)


def test_resume_opens_the_chat_as_it_was(open_terminal: Open) -> None:
    first = open_terminal(*ENDLESS, "--max-tokens", "30")
    ready(first)
    first.keys(COUNT, "enter")
    first.wait("max_tokens 30")
    first.keys("ctrl+t", "k", "7", "enter", "esc")
    first.wait(lambda: re.search(r"top_k\s+7\b", first.text) and "TUNE" not in first.text)
    first.settle()
    shown = told(first)
    first.keys("ctrl+q")
    assert first.ended() == 0
    again = open_terminal("--resume", *FLAGS)
    ready(again)
    again.wait(lambda: told(again) == shown)
    assert COUNT in again.text
    assert re.search(r"top_k\s+7\b", again.text)
    again.keys("100, 200, 300, 400,", "enter")
    again.wait(lambda: again.text.count("max_tokens 30") == 2)
    again.keys("ctrl+q")
    assert again.ended() == 0


def test_killed_app_loses_at_most_the_last_second(open_terminal: Open, tmp_path: Path) -> None:
    terminal = open_terminal(*ENDLESS)
    counting(terminal)
    begun = monotonic()
    shown = [(begun, used(terminal))]
    with Stalls(tmp_path) as stalls:
        while monotonic() < begun + 3:
            terminal.read()
            shown.append((monotonic(), used(terminal)))
        worker = terminal.worker()
        terminal.process.kill()
        killed = monotonic()
    terminal.process.wait()
    end = monotonic() + 60
    while not gone(worker):
        assert monotonic() < end
        sleep(0.02)
    # What the screen showed a second before, less what the machine stood still meanwhile.
    had = max(count for at, count in shown if at <= max(killed - 1 - stalls.longest(killed - 2), begun))
    store = Store.open(tmp_path / "data/termchat/sessions.db")
    session = store.latest()
    assert session is not None
    kept = context_used(store.load(session).conversation)
    assert store.close()
    assert kept >= had > 0
    again = open_terminal("--resume", *FLAGS)
    ready(again)
    again.wait("termchat stopped during this reply")
    again.keys("ctrl+o")
    again.wait("writing")
    stop(again)
    again.keys("ctrl+q")
    assert again.ended() == 0


def test_killed_worker_is_told_and_one_key_goes_on(open_terminal: Open) -> None:
    terminal = open_terminal(*ENDLESS)
    counting(terminal)
    os.kill(terminal.worker(), signal.SIGKILL)
    terminal.wait("SIGKILL")
    terminal.wait("Ctrl+O restart")
    terminal.keys("ctrl+o")
    terminal.wait("writing")
    stop(terminal)
    terminal.keys("ctrl+q")
    assert terminal.ended() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signals_restore_the_terminal_and_keep_the_chat(open_terminal: Open, tmp_path: Path, number: int) -> None:
    terminal = open_terminal(*ENDLESS)
    counting(terminal)
    worker = terminal.worker()
    terminal.process.send_signal(number)
    assert terminal.ended() == 128 + number
    assert terminal.restored()
    assert gone(worker)
    records = stored(tmp_path)
    assert getattr(records[-1], "reason", None) == "user"


def test_a_terminal_that_goes_away_ends_the_app(open_terminal: Open, tmp_path: Path) -> None:
    terminal = open_terminal(*ENDLESS)
    counting(terminal)
    worker = terminal.worker()
    terminal.hang_up()
    end = monotonic() + 60
    while terminal.process.poll() is None:
        assert monotonic() < end, "the app runs on without a terminal"
        sleep(0.05)
    assert gone(worker)
    assert terminal.process.returncode == 128 + signal.SIGHUP
    assert getattr(stored(tmp_path)[-1], "reason", None) == "user"


def test_sizes_while_streaming(open_terminal: Open) -> None:
    terminal = open_terminal(*ENDLESS, columns=80, rows=24)
    ready(terminal)
    terminal.keys(COUNT, "enter")
    terminal.wait("writing")
    for columns, rows in [(200, 60), (40, 12), (30, 8), (120, 40), (79, 23), (80, 24)]:
        terminal.resize(columns, rows)
        if columns < 40:
            terminal.wait("too small")
        else:
            terminal.wait(lambda: "writing" in terminal.text and "too small" not in terminal.text)
    assert "writing" in terminal.text
    terminal.keys("ctrl+t", "t")
    terminal.wait("temp")
    terminal.keys("right", "esc", "esc")
    stop(terminal)
    terminal.keys("ctrl+q")
    assert terminal.ended() == 0


def test_ctrl_c_stops_then_asks_then_leaves(open_terminal: Open) -> None:
    terminal = open_terminal(*ENDLESS)
    counting(terminal)
    terminal.keys("ctrl+c")
    terminal.wait(lambda: terminal.is_ready)
    terminal.keys("ctrl+c")
    terminal.wait("press Ctrl+C again to quit")
    assert terminal.process.poll() is None
    terminal.keys("ctrl+c")
    assert terminal.ended() == 0
    assert terminal.restored()


def test_text_typed_before_the_model_is_there(open_terminal: Open) -> None:
    terminal = open_terminal(*ENDLESS, "--max-tokens", "12")
    terminal.wait("write a message")
    terminal.keys(COUNT, "enter")
    terminal.wait("reached max_tokens 12")
    assert COUNT in terminal.text


@pytest.mark.parametrize(
    ("model", "hint"), [("/nowhere/\x1b]0;owned\x07model.gguf", "Check the path"), ("no-such-model", "smollm2")]
)
def test_no_model_says_what_to_do(open_terminal: Open, model: str, hint: str) -> None:
    terminal = open_terminal("--model", model)
    terminal.wait(hint)
    assert "file not found" in terminal.text or "no model named" in terminal.text
    terminal.wait("smollm2-360m")  # what can be had
    terminal.settle()
    assert b"owned\x07" not in terminal.foreign
    assert b"\x1b]0;" not in terminal.foreign
    terminal.keys("ctrl+q")
    assert terminal.ended() == 0
