"""What becomes of a terminal and of a process: sent to the background, stopped, resized, left alone by time."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from functools import partial
from itertools import cycle, islice
from time import monotonic

import pytest

from tests.attacks import outside_the_grammar
from tests.whole.chat_steps import COMMAND, COUNT, ENDLESS, FLAGS, SHELL, Open, counting, gone, ready, stop, used
from tests.whole.terminal import Terminal


def test_ctrl_z_gives_the_terminal_back_and_fg_takes_it_again(open_terminal: Open) -> None:
    terminal = open_terminal(program=SHELL, PS1="shell> ")
    terminal.wait("shell>")
    shells = terminal.modes
    terminal.keys(COMMAND + "\r")
    counting(terminal)
    ours = terminal.modes
    assert ours != shells
    terminal.keys("half a message")
    terminal.wait("half a message")
    for _ in range(2):
        since = len(terminal.output)
        terminal.keys("ctrl+z")
        terminal.wait("Stopped")
        terminal.wait(lambda: terminal.modes == shells)
        terminal.settle()
        left = bytes(terminal.output[since:])
        assert left.count(b"\x1b[?1049l") == 1
        assert left.index(b"\x1b[?1049l") < left.index(b"Stopped")
        assert b"\x1b[?25h" in left
        terminal.keys("echo seen $((6*7))\r")
        terminal.wait("seen 42")
        # Nothing is written while it stands still; then everything is drawn anew, what moved on meanwhile too.
        terminal.keys("fg\r")
        terminal.wait(lambda: "half a message" in terminal.text and "CHAIN" in terminal.text)
        terminal.wait(lambda: terminal.modes == ours)
        assert "seen 42" not in terminal.text
    stop(terminal)
    terminal.keys(" and more")
    terminal.wait("half a message and more")
    terminal.keys("ctrl+q")
    terminal.wait(lambda: terminal.modes == shells)
    terminal.keys("echo $?$?\r")
    terminal.wait("00")
    assert not outside_the_grammar(bytes(terminal.output))
    terminal.keys("exit\r")
    terminal.ended()


def test_stopped_and_continued_from_outside_it_draws_everything_anew(open_terminal: Open) -> None:
    """No shell stands behind it, as in a window of its own: Ctrl+Z does nothing that could not be undone."""
    terminal = open_terminal(*FLAGS)
    ready(terminal)
    os.kill(terminal.process.pid, signal.SIGSTOP)
    terminal.clear()
    os.kill(terminal.process.pid, signal.SIGCONT)
    terminal.wait(lambda: terminal.is_ready)
    terminal.keys("a message")
    terminal.wait("a message")
    terminal.keys("ctrl+z")
    terminal.settle()
    terminal.keys(" goes on")
    terminal.wait("a message goes on")
    terminal.keys("ctrl+q")
    assert terminal.ended() == 0
    assert terminal.restored()


SIZES = [(1, 1), (500, 200), (80, 24), (2, 50), (120, 1), (39, 11), (40, 12), (200, 60), (1, 200), (100, 30)]


def test_a_storm_of_sizes_while_a_reply_streams(open_terminal: Open) -> None:
    terminal = open_terminal(*ENDLESS)
    counting(terminal)
    for columns, rows in islice(cycle(SIZES), 100):
        terminal.resize(columns, rows)
        terminal.read(0.02)
    terminal.resize(120, 40)
    terminal.wait("CHAIN")
    terminal.wait("write a message")
    terminal.keys("half a message")
    terminal.wait("half a message")
    stop(terminal)
    terminal.settle()
    assert terminal.process.poll() is None
    assert not outside_the_grammar(bytes(terminal.output))
    terminal.keys("ctrl+q")
    assert terminal.ended() == 0


def held(terminal: Terminal) -> int:
    """The worker, which now stands still."""
    worker = terminal.worker()
    os.kill(worker, signal.SIGSTOP)
    return worker


def while_a_reply_hangs(terminal: Terminal) -> int:
    counting(terminal)
    return held(terminal)


def while_a_long_message_waits_for_a_worker_that_hangs(terminal: Terminal) -> int:
    ready(terminal)
    worker = held(terminal)
    terminal.paste("a long text " * 30_000)
    terminal.settle()
    terminal.keys("enter")
    terminal.settle()
    return worker


def while_the_model_loads(terminal: Terminal) -> int:
    terminal.wait("write a message")  # the worker starts before the screen does
    return held(terminal)


def in_a_dialog(keys: str, shown: str) -> Callable[[Terminal], int]:
    def open_it(terminal: Terminal) -> int:
        ready(terminal)
        terminal.keys(keys)
        terminal.wait(shown)
        return terminal.worker()

    open_it.__name__ = f"in_{shown}"
    return open_it


STATES = [
    while_a_reply_hangs,
    while_a_long_message_waits_for_a_worker_that_hangs,
    while_the_model_loads,
    in_a_dialog("ctrl+s", "Save transcript"),
    in_a_dialog("ctrl+p", "Search"),
    in_a_dialog("\x1bOR", "filter, a path"),
]


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__.replace(" ", "_"))
def test_a_second_ctrl_c_always_gets_out(open_terminal: Open, state: Callable[[Terminal], int]) -> None:
    terminal = open_terminal(*ENDLESS)
    worker = state(terminal)
    terminal.keys("ctrl+c", "ctrl+c")
    assert terminal.ended() == 0
    assert terminal.restored()
    assert gone(worker)


def said(terminal: Terminal, replies: int) -> bool:
    """Whether so many replies have reached their length."""
    return terminal.text.count("max_tokens 40") == replies


CLOCK = """
import itertools, sys, time
true = time.time
jumps = itertools.cycle((0, -86400 * 400, 3600, -3600, 86400 * 400))
time.time = lambda: true() + next(jumps)
from termchat.cli import main
sys.argv = ["termchat", *sys.argv[1:]]
main()
"""


def test_a_clock_that_jumps_changes_no_duration_and_loses_no_chat(open_terminal: Open) -> None:
    terminal = open_terminal(*ENDLESS, "--max-tokens", "40", program=("-c", CLOCK))
    for count in (1, 2):
        ready(terminal)
        terminal.keys(COUNT, "enter")
        terminal.wait(partial(said, terminal, count))
    rate = re.search(r"decode (\d+) t/s", terminal.text)
    assert rate is not None
    assert 0 < int(rate[1]) < 5000
    terminal.keys("ctrl+q")
    assert terminal.ended() == 0
    again = open_terminal("--resume", *FLAGS)
    again.wait(COUNT)
    again.keys("ctrl+q")
    assert again.ended() == 0


def test_after_a_long_sleep_the_reply_goes_on(open_terminal: Open) -> None:
    """Sleep: app and worker stand still together, while the clocks go on."""
    terminal = open_terminal(*ENDLESS)
    counting(terminal)
    worker = terminal.worker()
    for process in (terminal.process.pid, worker):
        os.kill(process, signal.SIGSTOP)
    began = monotonic()
    while monotonic() - began < 3.5:
        terminal.read()
    before = used(terminal)
    for process in (worker, terminal.process.pid):
        os.kill(process, signal.SIGCONT)
    terminal.wait(lambda: used(terminal) > before + 20)
    assert "writing" in terminal.text
    stop(terminal)
    terminal.keys("ctrl+q")
    assert terminal.ended() == 0
    assert terminal.restored()
