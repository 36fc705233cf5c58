"""A person at the keyboard: type, stream, turn knobs, stop, save, quit, and come back."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep

import msgspec
import pytest

from termchat.decoding.records import Record, Token
from tests.whole.terminal import Terminal

Open = Callable[..., Terminal]
FLAGS = ("--context", "2048", "--threads", "1", "--seed", "1")  # with which these stories are long


def stop(terminal: Terminal) -> None:
    """Esc, once more if need be: the first may close something, or the model may end its story itself just before."""
    end = monotonic() + 20
    while not terminal.is_ready:
        assert monotonic() < end, terminal.text
        terminal.keys("esc")
        pause = monotonic() + 1
        while not terminal.is_ready and monotonic() < pause:
            terminal.read()


def ready(terminal: Terminal) -> None:
    terminal.wait(lambda: terminal.is_ready)


def stored(home: Path) -> list[Record]:
    """Every record in the store, in order."""
    db = sqlite3.connect(f"file:{home / 'data/termchat/sessions.db'}?mode=ro", uri=True)
    rows = db.execute("SELECT record FROM records ORDER BY session, node, seq").fetchall()
    db.close()
    decoder = msgspec.msgpack.Decoder(Record)  # type: ignore[var-annotated]
    return [decoder.decode(row[0]) for row in rows]


def told(terminal: Terminal) -> list[str]:
    """The chat's own lines, without the panels."""
    lines = [line[:72].rstrip() for line in terminal.text.splitlines()]
    return lines[1 : next(i for i, line in enumerate(lines) if "max_tokens" in line)]


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def test_the_main_job(open_terminal: Open, tmp_path: Path) -> None:
    terminal = open_terminal(*FLAGS, "--seed", "42")
    ready(terminal)
    terminal.keys("Tell me a very long story about a fox and a bear.", "enter")
    terminal.wait("writing")
    terminal.wait(lambda: re.search(r"entropy \d", terminal.text))
    # A knob in mid-reply, with a half-written message in the composer.
    terminal.keys("half a message")
    terminal.keys("ctrl+t", "t", "1.5", "enter")
    terminal.wait("temperature 0.8 → 1.5 at token")
    terminal.keys("esc")
    assert "half a message" in terminal.text
    assert "writing" in terminal.text
    terminal.keys("ctrl+l")
    stop(terminal)
    terminal.wait(lambda: terminal.is_ready)
    assert "half a message" in terminal.text
    # Idle: a knob reshapes the distribution on the screen.
    terminal.keys("ctrl+t", "t", "0", "enter", "esc")
    terminal.wait(lambda: "preview" in terminal.text.lower())
    target = tmp_path / "story.jsonl"
    terminal.keys("ctrl+s")
    terminal.wait("Save")
    terminal.keys("ctrl+a", "ctrl+k", str(target), "enter")
    terminal.wait(target.exists)
    terminal.settle()
    terminal.keys("ctrl+q")
    assert terminal.ended() == 0
    assert terminal.restored()
    lines = [json.loads(line) for line in target.read_text().splitlines()]
    changes = [line for line in lines if line["record"] == "settings"]
    tokens = [line for line in lines if line["record"] == "token"]
    assert [change["samplers"]["temperature"] for change in changes] == [0.8, 1.5]
    assert {t["settings"] for t in tokens} == {0, 1}
    assert len([r for r in stored(tmp_path) if isinstance(r, Token)]) == len(tokens)


def test_resume_opens_the_chat_as_it_was(open_terminal: Open) -> None:
    first = open_terminal(*FLAGS, "--max-tokens", "30")
    ready(first)
    first.keys("Tell me a very long story about Paris.", "enter")
    first.wait("max_tokens 30")
    first.keys("ctrl+t", "k", "7", "enter", "esc")
    first.settle()
    shown = told(first)
    first.keys("ctrl+q")
    assert first.ended() == 0
    again = open_terminal("--resume", *FLAGS)
    ready(again)
    assert "Tell me a very long story about Paris." in again.text
    assert told(again) == shown
    assert re.search(r"top_k\s+7\b", again.text)
    again.keys("Tell me a very long story about Rome.", "enter")
    again.wait(lambda: again.text.count("max_tokens 30") == 2)
    again.keys("ctrl+q")
    assert again.ended() == 0


def test_killed_app_loses_at_most_the_last_second(open_terminal: Open, tmp_path: Path) -> None:
    terminal = open_terminal(*FLAGS)
    ready(terminal)
    terminal.keys("Tell me a very long story about the sea.", "enter")
    terminal.wait("writing")
    begun = monotonic()
    while monotonic() < begun + 3:
        terminal.read()
    shown = terminal.text
    worker = terminal.worker()
    terminal.process.kill()
    terminal.process.wait()
    end = monotonic() + 5
    while not gone(worker):
        assert monotonic() < end
        sleep(0.02)
    tokens = [record for record in stored(tmp_path) if isinstance(record, Token)]
    spent = sum(t.decode_us + t.sample_us for t in tokens[1:]) / 1e6
    assert spent > 3 - 1 - 0.5, (len(tokens), spent)
    again = open_terminal("--resume", *FLAGS)
    ready(again)
    again.wait("termchat ended before the reply did")
    told = "".join(t.text for t in tokens)
    words = list(re.findall(r"[a-z]{4,}", told))[5:15]
    assert all(word in shown for word in words)
    again.keys("ctrl+o")
    again.wait("writing")
    stop(again)
    again.keys("ctrl+q")
    assert again.ended() == 0


def test_killed_worker_is_told_and_one_key_goes_on(open_terminal: Open) -> None:
    terminal = open_terminal(*FLAGS)
    ready(terminal)
    terminal.keys("Tell me a very long story about a river.", "enter")
    terminal.wait("writing")
    terminal.wait(lambda: len(terminal.text) > 2500)
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
    terminal = open_terminal(*FLAGS)
    ready(terminal)
    terminal.keys("Tell me a very long story about a river.", "enter")
    terminal.wait("writing")
    terminal.wait(lambda: terminal.read(0.5) and re.search(r"decode \d+", terminal.text))
    worker = terminal.worker()
    terminal.process.send_signal(number)
    assert terminal.ended() == 128 + number
    assert terminal.restored()
    assert gone(worker)
    records = stored(tmp_path)
    assert getattr(records[-1], "reason", None) == "user"


def test_a_terminal_that_goes_away_ends_the_app(open_terminal: Open, tmp_path: Path) -> None:
    terminal = open_terminal(*FLAGS)
    ready(terminal)
    terminal.keys("Tell me a very long story about a tower.", "enter")
    terminal.wait("writing")
    worker = terminal.worker()
    terminal.hang_up()
    end = monotonic() + 15
    while terminal.process.poll() is None:
        assert monotonic() < end, "the app runs on without a terminal"
        sleep(0.05)
    assert gone(worker)
    assert terminal.process.returncode == 128 + signal.SIGHUP
    assert getattr(stored(tmp_path)[-1], "reason", None) == "user"


def test_sizes_while_streaming(open_terminal: Open) -> None:
    terminal = open_terminal(*FLAGS, "--seed", "1", columns=80, rows=24)  # a story that is long enough
    ready(terminal)
    terminal.keys("Tell me a very long story about a wolf.", "enter")
    terminal.wait("writing")
    for columns, rows in [(200, 60), (40, 12), (30, 8), (120, 40), (79, 23), (80, 24)]:
        terminal.resize(columns, rows)
        begun = monotonic()
        while monotonic() < begun + 0.7:
            terminal.read()
        if columns < 40:
            assert "too small" in terminal.text
        else:
            assert "too small" not in terminal.text
    assert "writing" in terminal.text
    terminal.keys("ctrl+t", "t")
    terminal.wait("temp")
    terminal.keys("right", "esc", "esc")
    stop(terminal)
    terminal.keys("ctrl+q")
    assert terminal.ended() == 0


def test_ctrl_c_stops_then_asks_then_leaves(open_terminal: Open) -> None:
    terminal = open_terminal(*FLAGS)
    ready(terminal)
    terminal.keys("Tell me a very long story about a wolf.", "enter")
    terminal.wait("writing")
    terminal.keys("ctrl+c")
    terminal.wait(lambda: terminal.is_ready)
    terminal.wait(lambda: terminal.is_ready)
    terminal.keys("ctrl+c")
    terminal.settle()
    assert terminal.process.poll() is None
    terminal.keys("ctrl+c")
    assert terminal.ended() == 0
    assert terminal.restored()


def test_text_typed_before_the_model_is_there(open_terminal: Open) -> None:
    terminal = open_terminal(*FLAGS, "--max-tokens", "12")
    terminal.wait("write a message", limit=10)
    terminal.keys("Say something short.", "enter")
    terminal.wait("max_tokens 12")
    assert "Say something short." in terminal.text


@pytest.mark.parametrize(
    ("model", "hint"), [("/nowhere/\x1b]0;owned\x07model.gguf", "Check the path"), ("no-such-model", "smollm2")]
)
def test_no_model_says_what_to_do(open_terminal: Open, model: str, hint: str) -> None:
    terminal = open_terminal("--model", model)
    terminal.wait(hint)
    assert "there is no" in terminal.text
    terminal.wait("smollm2-360m")  # what can be had
    terminal.settle()
    assert b"owned\x07" not in terminal.foreign
    assert b"\x1b]0;" not in terminal.foreign
    terminal.keys("ctrl+q")
    assert terminal.ended() == 0
