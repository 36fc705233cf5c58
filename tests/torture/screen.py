"""Rounds of the whole app in a terminal, which show what a person would have seen."""

from __future__ import annotations

import re
import signal
from time import monotonic, sleep

from termchat.tui.screen.header_line import context_used
from tests.torture.home import Home
from tests.torture.known import Loss
from tests.torture.plan import SIGNALS, Round
from tests.torture.talking import kill
from tests.torture.traces import MARK, Fault
from tests.whole.terminal import Terminal

LENGTHS = {"starting": "8", "streaming": "150", "saving": "6"}


class Watched(Terminal):
    """A terminal whose status line is looked at whenever something came: how many ids the chat had, and when."""

    def __init__(self, *args: object, **more: object) -> None:
        self.counts: list[tuple[float, int]] = []
        super().__init__(*args, **more)  # type: ignore[arg-type]

    def take(self, data: bytes) -> None:
        super().take(data)
        found = re.search(r"context \S+ (\d+)/", self.header)
        if found is not None:
            self.counts.append((monotonic(), int(found[1])))


def run(home: Home, what: Round) -> Loss:
    """One round. Raises a Fault."""
    variables = {"HOME": str(home.folder), MARK: home.mark}
    flags = ("--resume", "--context", "4096", "--threads", "1", "--max-tokens", LENGTHS[what.moment])
    terminal = Watched(home.folder, *flags, **variables)
    try:
        if what.moment != "starting":
            _converse(terminal, what)
        sleep(what.delay)
        ended = _end(terminal, what.end)
        _look_at_terminal(terminal, what)
    except AssertionError as error:
        raise Fault("start", str(error)) from error
    finally:
        terminal.close()
    in_order = what.end in SIGNALS or what.end == "worker"
    home.check(None if in_order else ended)
    if what.moment == "starting":
        return Loss()
    return _compare(home, terminal, None if in_order else ended)


def _converse(terminal: Watched, what: Round) -> None:
    """A message, up to the moment that the round is about."""
    terminal.wait(lambda: terminal.is_ready)
    before = terminal.counts[-1][1] if terminal.counts else 0
    terminal.keys("Tell me a very long story.", "enter")
    terminal.wait(lambda: terminal.counts[-1:] and terminal.counts[-1][1] > before)
    if what.moment == "streaming":
        terminal.wait(lambda: "writing" in terminal.header or terminal.is_ready)
    else:
        terminal.wait(lambda: terminal.is_ready)


def _end(terminal: Watched, end: str) -> float:
    """Ends it in this way and waits until it has ended; returns when it was told to."""
    terminal.read(0)
    process = terminal.process
    if end == "hang up":
        at = monotonic()
        terminal.hang_up()
        process.wait(60)
    elif end in SIGNALS:
        at = monotonic()
        process.send_signal(getattr(signal, end))
        terminal.ended(60)
    else:
        at = kill(process.pid, end)
        if end == "worker":
            _recover(terminal)
        else:
            process.wait(60)
            while terminal.read(0.02):
                pass
    return at


def _recover(terminal: Watched) -> None:
    """One key has the engine again, and it answers."""
    terminal.wait("Ctrl+O restart")
    terminal.keys("ctrl+o")
    terminal.wait(lambda: "writing" in terminal.text or terminal.is_ready)
    end = monotonic() + 60
    while not terminal.is_ready:
        assert monotonic() < end, terminal.text
        terminal.keys("esc")
        terminal.settle(0.5)
    terminal.keys("ctrl+q")
    assert terminal.ended(60) == 0


def _look_at_terminal(terminal: Watched, what: Round) -> None:
    if what.end in ("SIGTERM", "SIGHUP", "worker"):
        entered = b"\x1b[?1049h" in terminal.output
        if entered and not terminal.restored():
            raise Fault("terminal", f"{what.end} left the terminal as it was in the app")
        wanted = {"worker": 0}.get(what.end, 128 + int(getattr(signal, what.end, 0)))
        code = terminal.process.returncode
        if code != wanted and (entered or code != -(wanted - 128)):  # before its first frame it dies as any program
            raise Fault("terminal", f"{what.end}: the exit code is {code}, not {wanted}")


def _compare(home: Home, terminal: Watched, ended: float | None) -> Loss:
    """What the screen showed is in the store; with `ended` up to what a kill may cost, else all of it."""
    chat = home.latest()
    stored = context_used(chat) if chat is not None else 0
    unseen = [at for at, count in terminal.counts if count > stored]
    if not unseen:
        return Loss()
    shown = max(count for _, count in terminal.counts)
    if ended is None or ended - unseen[0] > home.limit(ended):
        raise Fault("tokens lost", f"the screen showed {shown} ids, the store has {stored}")
    return Loss(ended - unseen[0], shown - stored)
