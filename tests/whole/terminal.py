"""A terminal in a test: the whole program in a pty, its bytes kept, its screen read by pyte.

Nothing here depends on how fast the program is. It is told, as by most terminals today, that a frame may be sent as one: a
test never sees half of one. And whether an Esc is a key or the begin of a sequence is said by what follows it at once.
"""

from __future__ import annotations

import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import monotonic

import pyte

from termchat.tui.terminal.input_stream import BROKEN_S, MANY

KEYS = {
    "enter": "\r", "esc": "\x1b" + "\x1b[?9999;0$y", "left": "\x1b[D", "right": "\x1b[C", "up": "\x1b[A", "down": "\x1b[B",
    "shift+right": "\x1b[1;2C", "shift+up": "\x1b[1;2A", "f11": "\x1b[23~",
    "pageup": "\x1b[5~", "end": "\x1b[F", "ctrl+end": "\x1b[1;5F", "tab": "\t", "backspace": "\x7f",
} | {f"ctrl+{letter}": chr(ord(letter) - 96) for letter in "abcdefghijklmnopqrstuvwxyz"}  # fmt: skip


MODERN = "xterm-256color"
"""The TERM of a terminal that takes frames as one."""
ASKED, TAKES_FRAMES = b"\x1b[?2026$p", b"\x1b[?2026;2$y"
BEGIN, END = b"\x1b[?2026h", b"\x1b[?2026l"
CUT = re.compile(rb"\x1b(?:\[[0-9;:?<>=$]*|[\]P_^][^\x07\x1b]*\x1b?)?\Z")
"""A sequence whose end has not come yet."""
PASTE_RESTS = round(2 * BROKEN_S / 0.01)
"""Hundredths of a second at rest after which a text so long that it is a paste has been taken in: its end is silence."""
UNREAD = re.compile(rb"\x1b\[[0-9;:]*m|\x1b\[[?>=<][0-9;:$]*[a-zA-Z]|\x1b[P_^].*?\x1b\\", re.DOTALL)
"""Colours, most of the bytes of a frame, at which nobody looks here; and what Textual asks a terminal: pyte would print what it
does not know."""


class Terminal:
    """`termchat` with its own home, in a terminal of some size."""

    def __init__(
        self, home: Path, *args: str, columns: int = 120, rows: int = 40, program: Sequence[str] = ("-m", "termchat"),
        **variables: str,
    ) -> None:  # fmt: skip
        self.home = home
        self.output = bytearray()
        self.screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self.screen)
        self._coming = b""
        self._lines: list[str] | None = None
        self._takes_frames = variables.get("TERM", MODERN) == MODERN
        self._main, side = os.openpty()
        self._set_size(side, columns, rows)

        def own_terminal() -> None:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen(
            [sys.executable, *program, *args],
            stdin=side, stdout=side, stderr=side, env=environment(home, variables),
            start_new_session=True, preexec_fn=own_terminal,
        )  # fmt: skip
        self._side = side
        self.before = termios.tcgetattr(side)

    @staticmethod
    def _set_size(descriptor: int, columns: int, rows: int) -> None:
        fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    @property
    def keyboard(self) -> int:
        """The descriptor on which a person types."""
        return self._main

    @property
    def modes(self) -> list[object]:
        """How the terminal takes what is typed."""
        return termios.tcgetattr(self._side)[:4]

    @property
    def lines(self) -> list[str]:
        """What stands on the screen, by row."""
        if self._lines is None:
            self._lines = self.screen.display
        return self._lines

    @property
    def text(self) -> str:
        """The same without the blanks at the ends of lines."""
        return "\n".join(line.rstrip() for line in self.lines)

    @property
    def header(self) -> str:
        """The first row alone, which takes less time."""
        row = self.screen.buffer[0]
        return "".join(row[x].data for x in range(self.screen.columns))

    @property
    def is_ready(self) -> bool:
        """Whether the header says so, also beside messages that wait; a reply may have the word, too."""
        return re.search(r" ready(  \+\d+ queued)?$", self.header.rstrip()) is not None

    def clear(self) -> None:
        """Forgets what stands on the screen."""
        self.screen.reset()
        self._lines = None

    @property
    def foreign(self) -> bytes:
        """All bytes that came, without the one sequence of Textual's own that looks like an attack: the pointer's shape."""
        return re.sub(rb"\x1b\]22;[a-z-]*\x07", b"", bytes(self.output))

    def read(self, timeout: float = 0.05) -> bool:
        """Takes in what has come; False when nothing came."""
        poller = select.poll()  # select takes no descriptor beyond 1,023, and a long run of tests may have as many
        poller.register(self._main, select.POLLIN)
        if not poller.poll(timeout * 1e3):
            return False
        try:
            data = os.read(self._main, 1 << 16)
        except OSError:
            return False
        self.output += data
        if self._takes_frames and ASKED in self.output[-len(data) - len(ASKED) + 1 :]:
            os.write(self._main, TAKES_FRAMES)
        self.take(data)
        return bool(data)

    def take(self, data: bytes) -> None:
        """What is done with bytes that came: they go to the screen, a frame when all of it is there."""
        came = self._coming + data
        end = begun if (begun := came.rfind(BEGIN)) > came.rfind(END) else len(came)
        if cut := CUT.search(came, 0, end):
            end = cut.start()
        data, self._coming = came[:end], came[end:]
        self._stream.feed(UNREAD.sub(self._known, data))
        self._lines = None

    @staticmethod
    def _known(found: re.Match[bytes]) -> bytes:
        if found[0] == b"\x1b[?1049h":
            return b"\x1b[2J"  # the other screen, which is empty; pyte has only one
        return found[0] if re.fullmatch(rb"\x1b\[\?(25|7|6)[hl]", found[0]) else b""

    def wait(self, wanted: str | Callable[[], object], limit: float = 60.0) -> None:
        """Until a text stands on the screen, or something is true."""
        condition = wanted if callable(wanted) else lambda: wanted in self.text
        end = monotonic() + limit
        while not condition():
            self.read()
            if monotonic() > end or (self.process.poll() is not None and not self.read(0)):
                assert condition(), f"waited for {wanted!r}; exit {self.process.poll()}; the screen:\n{self.text}"
                return

    def settle(self, seconds: float = 0.4) -> None:
        """Until what was typed has been read, and nothing has come for some time since."""
        while self.read(seconds) or (self._is_unread and self.process.poll() is None):
            pass

    @property
    def _is_unread(self) -> bool:
        """Whether something that was typed has not been read."""
        waiting = struct.unpack("i", fcntl.ioctl(self._side, termios.FIONREAD, bytes(4)))
        return bool(waiting[0])

    def keys(self, *names: str) -> None:
        """Presses keys by name, each when the one before has been taken in; other texts are typed. After an Esc comes an answer
        that nobody asked for: another key at once would be taken for Alt with that key."""
        for name in names:
            os.write(self._main, KEYS.get(name, name).encode())
            end, rests, enough = monotonic() + 10, 0, 2 if len(name) < MANY else PASTE_RESTS
            while rests < enough and self.process.poll() is None and monotonic() < end:
                self.read(0.01)
                rests = rests + 1 if self._is_at_rest else 0

    @property
    def _is_at_rest(self) -> bool:
        """Whether who has the terminal has read what was typed, and no thread of it has anything to do."""
        try:
            threads = Path(f"/proc/{os.tcgetpgrp(self._main)}/task").glob("*/stat")
            states = [path.read_text().rpartition(")")[2].split()[0] for path in threads]
        except OSError:
            return False  # somebody else has it by now
        return not self._is_unread and not {"R", "D"} & {*states}

    def paste(self, text: str) -> None:
        """A bracketed paste."""
        os.write(self._main, b"\x1b[200~" + text.encode() + b"\x1b[201~")

    def resize(self, columns: int, rows: int) -> None:
        """The terminal gets another size."""
        self.screen.resize(rows, columns)
        self._lines = None
        self._set_size(self._main, columns, rows)
        os.killpg(self.process.pid, signal.SIGWINCH)

    @property
    def has_worker(self) -> bool:
        """Whether the engine has been started."""
        try:
            return self.worker() > 0
        except AssertionError:
            return False

    def worker(self) -> int:
        """The process id of the engine."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        for child in children:
            if b"engine.llama.worker" in Path(f"/proc/{child}/cmdline").read_bytes():
                return int(child)
        raise AssertionError("there is no worker")

    def ended(self, limit: float = 60.0) -> int:
        """Waits for the end and returns the exit code."""
        end = monotonic() + limit
        while self.process.poll() is None and monotonic() < end:
            self.read()
        while self.read(0.05):
            pass
        code = self.process.poll()
        assert code is not None, f"still running; the screen:\n{self.text}"
        return code

    def restored(self) -> bool:
        """Whether the terminal is as it was: its modes, the main screen, a cursor."""
        modes = re.findall(rb"\x1b\[\?(1049|25|1000|1003|2004)([hl])", bytes(self.output))
        last = dict(modes)
        return (
            termios.tcgetattr(self._side) == self.before
            and last.get(b"1049") == b"l"
            and last.get(b"25") == b"h"
            and last.get(b"1003", b"l") == b"l"
            and last.get(b"2004", b"l") == b"l"
        )

    def hang_up(self) -> None:
        """The terminal goes away."""
        os.close(self._side)
        os.close(self._main)
        self._main = self._side = -1

    def close(self) -> None:
        """Ends whatever is left."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for descriptor in (self._main, self._side):
            if descriptor >= 0:
                os.close(descriptor)
        self._main = self._side = -1


def environment(home: Path, variables: Mapping[str, str]) -> dict[str, str]:
    """A process environment with a home of its own, nothing of ours inherited."""
    dropped = ("TERMCHAT_", "XDG_", "NO_COLOR", "COLORFGBG", "TMUX", "TEXTUAL")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    folders = {f"XDG_{kind}_HOME": str(home / kind.lower()) for kind in ("CONFIG", "DATA", "STATE", "CACHE")}
    return kept | folders | {"TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "C.UTF-8"} | dict(variables)
