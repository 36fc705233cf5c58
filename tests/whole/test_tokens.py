"""A person questions tokens: pause, step, force, fork, go back, compare, ask why, what if, replay."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.whole.chat_steps import ENDLESS, FLAGS, Open, counting, over, ready, save_and_quit
from tests.whole.terminal import Terminal, environment


def panel(terminal: Terminal) -> str:
    """What stands in the panels."""
    return "\n".join(line[76:].rstrip() for line in terminal.text.splitlines())


def chat(terminal: Terminal) -> str:
    """What stands in the chat's column, on one line."""
    return " ".join(" ".join(line[:73] for line in terminal.text.splitlines()[1:34]).split())


def waits(terminal: Terminal, step: int | None = None) -> int:
    """Waits for the reply to pause (before that step); returns the step."""
    pattern = rf"PENDING {step if step is not None else '([0-9]+)'}\b"
    terminal.wait(lambda: "paused" in terminal.text and re.search(pattern, panel(terminal)))
    found = re.search(r"PENDING ([0-9]+)", panel(terminal))
    assert found is not None
    return int(found[1])


def token(terminal: Terminal, what: str) -> Callable[[], object]:
    return lambda: re.search(rf"^TOKEN {what}", panel(terminal), re.MULTILINE)


def test_stream_pause_step_force_fork_go_back_compare_and_replay(open_terminal: Open, tmp_path: Path) -> None:
    terminal = open_terminal(*ENDLESS)
    counting(terminal)

    # Pause, step, force: a candidate is taken whatever the dice say.
    terminal.keys("ctrl+g", " ")
    step, other = waits(terminal), None
    while other is None:  # where it paused every other candidate may be a mark or a line's end
        terminal.keys("n")
        step = waits(terminal, step + 1)
        other = re.search(r"^([2-9]) ·?([0-9A-Za-z]+) ", panel(terminal), re.MULTILINE)  # which is shown as it is
    terminal.keys(other[1])
    waits(terminal, step + 1)
    terminal.wait(lambda: chat(terminal).split("▌")[0].rstrip().endswith(other[2]))

    # A knob turned while it waits moves the pending distribution.
    terminal.keys("ctrl+t", "t", "0", "enter", "a", str(step + 40), "enter", "esc")
    terminal.wait(lambda: "temperature 0.8 → 0.0" in chat(terminal) and "after 100.0%" in panel(terminal))
    terminal.wait(lambda: f"max_tokens off → {step + 40}" in chat(terminal))
    terminal.keys(" ")
    terminal.wait(lambda: over(tmp_path) == 1 and terminal.is_ready)
    first = chat(terminal)

    # Why not, the exact distribution, what if.
    terminal.keys("g")
    terminal.wait(token(terminal, "0"))
    terminal.keys("w", "zebra", "enter")
    terminal.wait(lambda: "WHY NOT ze" in panel(terminal) and "To survive it needs" in panel(terminal))
    terminal.keys("esc", "i")
    terminal.wait(lambda: "RECOMPUTED" in panel(terminal))
    terminal.keys("esc", "v")
    terminal.wait(lambda: "%" in panel(terminal) and "WHAT IF" in panel(terminal).upper())
    terminal.keys("esc")

    # A fork at the first token, back to the other branch, both side by side.
    terminal.keys("g")
    terminal.wait(token(terminal, "0"))
    terminal.keys("2")
    terminal.wait(lambda: over(tmp_path) == 2 and terminal.is_ready and chat(terminal) != first)
    terminal.settle()
    second = chat(terminal)
    terminal.keys("y")
    terminal.wait("Branches")
    terminal.keys("g", "down", "m", "end", "c")
    terminal.settle()
    terminal.keys("esc")
    terminal.wait("Branches")
    terminal.keys("g", "down", "enter")
    terminal.wait(lambda: "Branches" not in terminal.text and chat(terminal) != second)
    terminal.settle()

    # Saved, and said again to the last bit by another process.
    target = tmp_path / "story.jsonl"
    terminal.keys("g", "l", "l")
    terminal.wait(token(terminal, "2"))
    terminal.keys("esc")
    lines = save_and_quit(terminal, target)
    assert terminal.restored()
    forced = [line for line in lines if line["record"] == "token" and line["forced"]]
    assert len(forced) == 2
    assert any(line["candidates"][int(other[1]) - 1]["id"] == line["id"] for line in forced)
    again = subprocess.run(
        [sys.executable, "-m", "termchat", "replay", str(target)],
        env=environment(tmp_path, {}), capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert again.returncode == 0, again.stdout + again.stderr
    assert "identical" in again.stdout

    # And opened again, the cursor where it was.
    resumed = open_terminal("--resume", *FLAGS)
    ready(resumed)
    resumed.wait(lambda: chat(resumed) == chat(terminal))
    resumed.keys("ctrl+g")
    resumed.wait(token(resumed, "2"))
    resumed.keys("ctrl+q")
    assert resumed.ended() == 0
