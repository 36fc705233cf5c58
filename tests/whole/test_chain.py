"""A person turns stages on and moves them while the model writes; what was written so is forked and replayed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.whole.chat_steps import ENDLESS, Open, counting, over, place, save_and_quit, stop, used
from tests.whole.terminal import Terminal, environment

NO_END = ("--logit-bias", "<|im_end|>=ban", "--logit-bias", "<|endoftext|>=ban")
"""What mirostat and adaptive_p write may end: how soon depends on the token at which they are turned on."""


def knobs(terminal: Terminal) -> list[str]:
    """Labels of the knobs that the panel shows, from top to bottom."""
    found = (re.search(r"│ \w (\w+) +\S", line) for line in terminal.text.splitlines())
    return [match[1] for match in found if match]


def goes_on(terminal: Terminal) -> None:
    """Waits for a few more tokens."""
    before = used(terminal)
    terminal.wait(lambda: used(terminal) > before + 3)


def test_stages_are_moved_and_turned_on_while_it_writes_and_all_of_it_is_replayed(
    open_terminal: Open, tmp_path: Path
) -> None:
    terminal = open_terminal(*ENDLESS, *NO_END)
    counting(terminal)
    terminal.keys("ctrl+t", "v")
    terminal.wait("every stage")
    assert {"dry", "xtc", "top_h", "mirostat", "adaptive"} <= {*knobs(terminal)}
    terminal.keys("v", "m", "shift+up", "shift+up")
    terminal.wait(lambda: knobs(terminal)[:5] == ["bias", "repeat", "min_p", "top_k", "top_p"])
    terminal.wait("order: min_p before")  # before the reply has scrolled it away
    goes_on(terminal)
    terminal.keys("c", "0.9", "enter")
    goes_on(terminal)
    terminal.keys("o", "2", "enter")
    terminal.wait("mirostat instead")
    goes_on(terminal)
    terminal.keys("x", "A", "0.7", "enter")
    terminal.wait(lambda: "instead" not in terminal.text and "adaptive" in knobs(terminal))
    goes_on(terminal)
    terminal.keys("esc")
    stop(terminal)
    terminal.wait(lambda: over(tmp_path) == 1)

    # A fork in what adaptive_p wrote.
    terminal.keys("ctrl+g", "2")
    terminal.wait(lambda: used(terminal) > 30)
    goes_on(terminal)
    terminal.keys("esc")
    stop(terminal)
    terminal.wait(lambda: over(tmp_path) == 2 and terminal.is_ready)

    target = tmp_path / "chain.jsonl"
    tokens = [line for line in save_and_quit(terminal, target) if line["record"] == "token"]
    assert {name for line in tokens for name in line.get("state", {})} == {
        "mirostat_mu", "adaptive_sum", "adaptive_weight", "adaptive_p",
    }  # fmt: skip
    again = subprocess.run(
        [sys.executable, "-m", "termchat", "replay", str(target)],
        env=environment(tmp_path, {}), capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert again.returncode == 0, again.stdout + again.stderr
    assert "identical" in again.stdout


def test_a_stage_is_dragged_while_it_writes(open_terminal: Open) -> None:
    terminal = open_terminal(*ENDLESS)
    counting(terminal)
    (x, y), (_, top) = place(terminal, "m min_p"), place(terminal, "k top_k")
    for button, at, end in ((0, y, "M"), (32, y - 1, "M"), (32, top, "M"), (0, top, "m")):
        terminal.keys(f"\x1b[<{button};{x + 4};{at + 1}{end}")
    terminal.wait(lambda: knobs(terminal)[:4] == ["repeat", "min_p", "top_k", "top_p"])
    terminal.wait("order: min_p before")  # before the reply has scrolled it away
    goes_on(terminal)
    stop(terminal)
