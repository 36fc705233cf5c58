"""The engine: starts the process of a worker, speaks with it, notices its death.

What depends on the place of the model is its `WorkerLine`: how the process is started, what it says before its first frame, and
why it ended.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
from contextlib import suppress
from itertools import count
from math import inf
from pathlib import Path
from time import monotonic

import msgspec

from termchat.decoding.records import Failed, Token, drop_impossible
from termchat.engine import wire
from termchat.engine.address import HERE, EngineAddress
from termchat.engine.port import (
    ALL_FEATURES,
    Command,
    EngineError,
    Event,
    Feature,
    Generate,
    Inspected,
    Load,
    Loaded,
    Paused,
    Steer,
    is_last,
)
from termchat.engine.worker_line import SERVER_WORKER, ErrorLog, Outbox, WorkerLine
from termchat.text import size

_DYING = 3.0
"""Seconds that a process may take to end once it has closed its output."""
_PIPE_SIZE = 1 << 20
_READ = 1 << 16
"""Bytes of one read: at most some thousand events, however small they are."""
_MOST_AT_ONCE, _MOST_EVENTS, _SLICE = 1 << 20, 1 << 12, 0.02
"""Bytes, events and seconds of one `receive`, about; then it returns, whatever more there is: the screen that calls it has
keys to look after. A thousand tokens with their candidates take as many bytes."""
_LONGEST_ANSWER = 1 << 32
"""Bytes between one command or answer and the next. The longest real ones are of groups: 32 replies of 8,192 tokens with 20
candidates each take a seventh of that."""
_GLANCE = 1.0
"""Seconds: what counts at most as silence between two looks, as the app may have stood still itself."""


def line_to(address: EngineAddress) -> WorkerLine:
    """Return the line to a model at this address.

    Raises:
        EngineError: termchat has no engine for it.
    """
    if not address.url:
        return WorkerLine()
    if address.scheme == "ssh":
        from termchat.engine.ssh import SshLine  # not needed by most

        return SshLine(address)
    if address.is_server:
        return WorkerLine([sys.executable, "-P", "-m", SERVER_WORKER])
    raise EngineError("capability", f"{address.shown}: this termchat has no engine for {address.scheme}://")


class LocalEngine:
    """A worker process at the end of a `line`, started by `start` or else by the first command; its native prints and
    tracebacks go to `log`, where that can be written.

    It is where the model is that was loaded last, at first at the `address`: a `Load` from another one changes the line.
    """

    _numbers = count(1)
    """Of the commands of all engines of this program: no answer is taken for another engine's."""

    def __init__(self, log: Path | None = None, line: WorkerLine | None = None, address: EngineAddress = HERE) -> None:
        self._log, self._line, self._address = ErrorLog(log), line or line_to(address), address
        self._open: dict[int, Command] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._since_answer = 0
        self._silent = self._looked = 0.0
        self._offers = ALL_FEATURES

    @property
    def offers(self) -> frozenset[Feature]:
        return self._offers

    @property
    def alive(self) -> bool:
        return self._process is not None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    @property
    def there(self) -> str:
        """The version of termchat on the other machine, "" before its hello."""
        return self._line.there

    def fileno(self) -> int:
        return self._out.fileno() if self._process else -1

    def start(self) -> None:
        """Start the worker, if none runs, so that it is ready by the time of the first command.

        Raises:
            EngineError: the process cannot be started.
        """
        if self._process is not None:
            return
        command, environment = self._line.launch()
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log.open(),
                env=environment,
                start_new_session=True,  # the terminal's signals are the app's; the worker leaves when its input ends
            )
        except OSError as error:
            self._log.close()
            raise EngineError("engine", f"the engine process cannot be started: {error}") from error
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in, self._out = self._process.stdin, self._process.stdout
        self._outbox = Outbox(self._in.fileno())
        self._frames: wire.Frames[Event] = wire.Frames(Event, keeps_bytes=self._line.trusted)
        self._since_answer = 0
        self._offers = ALL_FEATURES
        self._open.clear()
        if sys.platform == "linux":
            import fcntl

            with suppress(OSError):  # a small pipe will do where the kernel grants no large one
                fcntl.fcntl(self._out.fileno(), fcntl.F_SETPIPE_SZ, _PIPE_SIZE)

    def send(self, command: Command) -> int:
        if isinstance(command, Load) and command.spec.engine != self._address:
            self.close()
            self._line, self._address = line_to(command.spec.engine), command.spec.engine
            self._offers = ALL_FEATURES
        self.start()
        number = next(self._numbers)
        self._since_answer = 0
        if not self._open:
            self._silent, self._looked = 0.0, monotonic()
        if not isinstance(command, Steer):
            self._open[number] = command
        self._line.send(command, wire.frame(number, command), self._outbox)
        return number

    def receive(self, timeout: float | None = 0.0) -> list[tuple[int, Event]]:
        until = inf if timeout is None else monotonic() + timeout
        events: list[tuple[int, Event]] = []
        while self._process is not None and not events:
            left = max(until - monotonic(), 0.0)
            events = self._receive(min(left, _GLANCE))
            if monotonic() >= until:
                break
        return events

    def _receive(self, seconds: float) -> list[tuple[int, Event]]:
        """Return the events that come within so many seconds, about; after the first only those at hand."""
        found: list[tuple[int, Event]] = []
        poller = select.poll()
        poller.register(self._out.fileno(), select.POLLIN | select.POLLHUP)
        taken, end = 0, 0.0
        while poller.poll(0.0 if found else seconds * 1e3):
            data = os.read(self._out.fileno(), _READ)
            if not data:
                found.append(self._give_up(None))
                break
            end = end if taken else monotonic() + _SLICE
            taken += len(data)
            self._since_answer += len(data)
            self._silent, self._looked = 0.0, monotonic()
            try:
                found += self._read(data)
            except EngineError as error:
                found.append(self._give_up(Failed(error.kind, error.message, error.hint)))
                break
            if taken >= _MOST_AT_ONCE or len(found) >= _MOST_EVENTS or monotonic() >= end:
                break
        for number, event in found:
            if isinstance(event, Loaded):
                self._offers = event.info.abilities.list_features()
            if is_last(event) and self._open.pop(number, None) is not None:
                self._since_answer = 0
        if not found and self._open:
            now = monotonic()
            self._silent, self._looked = self._silent + min(now - self._looked, _GLANCE), now
            if (failure := self._line.explain_silence(self._silent, self._log)) is not None:
                found.append(self._give_up(failure))
        return found

    def _read(self, data: bytes) -> list[tuple[int, Event]]:
        """Return the events that these bytes complete.

        Raises:
            EngineError: they are not what a worker sends.
        """
        try:
            if self._since_answer > _LONGEST_ANSWER:
                raise wire.FrameError(f"more than {size(_LONGEST_ANSWER)} without an end")
            events = self._frames.feed_bytes(self._line.receive(data, self._outbox, self._log))
        except wire.FrameError as error:
            raise self._line.explain_frames(error) from error
        return events if self._line.trusted else [(number, _drop_impossible(event)) for number, event in events]

    def close(self) -> None:
        if self._process is not None:
            if not self._line.trusted:
                self._out.close()  # what still sends at full speed ends at once, and is not waited for
            self._stop()
            self._log.close()

    def _give_up(self, failure: Failed | None) -> tuple[int, Event]:
        """End what is left of the process; return the command that this concerns, and why (None: the process ended by
        itself)."""
        replies = (number for number, command in self._open.items() if isinstance(command, Generate))
        number = next(replies, min(self._open, default=0))
        self._open.clear()
        code = self._stop(_DYING if failure is None else 0.2)
        failure = failure or self._line.explain_end(code, self._log)
        self._log.close()
        return number, failure

    def _stop(self, within: float = 1.0) -> int:
        """Close the pipes, which ends the process, and wait for that; return its exit code."""
        process = self._process
        assert process is not None
        self._process = None
        self._outbox.close()
        self._in.close()
        try:
            code = process.wait(within)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        self._out.close()
        return code


def _drop_impossible(event: Event) -> Event:
    """Return the event without numbers that cannot be; see `drop_impossible`."""
    if isinstance(event, Token):
        return drop_impossible(event)
    if isinstance(event, (Inspected, Paused)):
        return msgspec.structs.replace(event, token=drop_impossible(event.token))
    return event
