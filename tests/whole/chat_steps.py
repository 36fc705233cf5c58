"""What is done in nearly every chat with the whole program, and what its store and its process say of it."""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Any

import msgspec

from termchat.decoding.records import Finished, Record
from tests.whole.terminal import Terminal, environment

Open = Callable[..., Terminal]
FLAGS = ("--context", "2048", "--threads", "1", "--seed", "1")
ENDLESS, COUNT = ("--context", "8192", "--threads", "1", "--seed", "1", "--raw"), "1, 2, 3, 4, 5, 6,"
"""How a reply does not end by itself: it counts on. The end has less than a millionth of the probability, and min_p cuts it; a
story is as long as the model likes, which differs from processor to processor."""
SHORT = (*FLAGS, "--max-tokens", "1")
SHELL = ("-c", "import os; os.execvp('bash', ['bash', '--norc', '--noprofile', '-i'])")
COMMAND = f"{sys.executable} -m termchat {' '.join(ENDLESS)}"


def stop(terminal: Terminal) -> None:
    """Esc, once more if need be: the first may close something."""
    end = monotonic() + 60
    while not terminal.is_ready:
        assert monotonic() < end, terminal.text
        terminal.keys("esc")
        pause = monotonic() + 1
        while not terminal.is_ready and monotonic() < pause:
            terminal.read()


def save_and_quit(terminal: Terminal, target: Path) -> list[dict[str, Any]]:
    """Saves the chat as JSON lines, and quits; the lines."""
    terminal.keys("ctrl+s")
    terminal.wait("Save")
    terminal.keys("ctrl+a", "ctrl+k", str(target), "enter")
    terminal.wait(target.exists)
    terminal.settle()
    terminal.keys("ctrl+q")
    assert terminal.ended() == 0
    return [json.loads(line) for line in target.read_text().splitlines()]


def replayed(terminal: Terminal, home: Path) -> subprocess.CompletedProcess[str]:
    """Saves the chat with a command, quits, and has `termchat replay` make its replies again."""
    saved = home / "chat.jsonl"
    terminal.keys("esc", f"/save {saved}", "enter")
    terminal.wait(saved.exists)
    terminal.settle()
    terminal.keys("ctrl+q")
    assert terminal.ended() == 0
    return subprocess.run(
        [sys.executable, "-m", "termchat", "replay", str(saved)],
        capture_output=True, text=True, timeout=240, check=False, env=environment(home, {}),
    )  # fmt: skip


def ready(terminal: Terminal) -> None:
    terminal.wait(lambda: terminal.is_ready)


def counting(terminal: Terminal) -> None:
    """Has a reply begin that does not end by itself, and waits for some of it."""
    ready(terminal)
    terminal.keys(COUNT, "enter")
    terminal.wait(lambda: used(terminal) > 30 and re.search(r"entropy \d", terminal.text))


def used(terminal: Terminal) -> int:
    """Tokens of the chat, as the header says; 0 where it does not."""
    found = re.search(r"context \S+ (\d+)/", terminal.header)
    return int(found[1]) if found else 0


def stored(home: Path) -> list[Record]:
    """Every record in the store, in order."""
    db = sqlite3.connect(f"file:{home / 'data/termchat/sessions.db'}?mode=ro", uri=True)
    rows = db.execute("SELECT record FROM records ORDER BY session, node, seq").fetchall()
    db.close()
    decoder = msgspec.msgpack.Decoder(Record)  # type: ignore[var-annotated]
    return [decoder.decode(row[0]) for row in rows]


def over(home: Path) -> int:
    """How many replies have ended, as the store says; a header that says ready may be from before the last was asked for."""
    if not (home / "data/termchat/sessions.db").exists():
        return 0
    return sum(isinstance(record, Finished) for record in stored(home))


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def place(terminal: Terminal, text: str, *, after: bool = False) -> tuple[int, int]:
    """The cell on which a text begins, or its last character does."""
    from rich.cells import cell_len

    for y, line in enumerate(terminal.lines):
        if text in line:
            shown = line[: line.index(text)] + (text[:-1] if after else "")
            return cell_len(shown), y
    raise AssertionError(f"{text!r} is not on the screen:\n{terminal.text}")


def said(terminal: Terminal, text: str) -> None:
    """A reply that begins with that text: forced, so that every model says it on every machine."""
    terminal.keys("/prefill", "esc", "enter")
    terminal.wait("Enter accept")
    terminal.keys("ctrl+u", text.replace("\n", "\\n"), "enter")  # the last reply's beginning is there
    terminal.wait("/prefill changes it")
    before = over(terminal.home)
    terminal.keys("go", "enter")
    terminal.wait(lambda: over(terminal.home) > before and terminal.is_ready)
    terminal.settle()
