"""The engine: starts the process of a worker, speaks with it, notices its death.

What depends on the place of the model is its `WorkerLine`: how the process is started, what it says before its first frame, and
why it ended.
"""

from __future__ import annotations

import os
import re
import select
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from itertools import count
from math import inf
from pathlib import Path
from threading import Lock, Thread
from time import monotonic
from typing import IO

import msgspec

from termchat import regular_files
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
from termchat.text import size

_LOOK = 100
"""Milliseconds after which the thread checks whether the outbox was closed."""


class Outbox:
    """Writes as much as the pipe takes at once; a thread writes the rest in order, as room comes.

    After the reader's death writes are dropped silently: whoever reads the other pipe notices it.
    """

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor
        self._rest = bytearray()
        self._lock = Lock()
        self._writing = False

    def write(self, data: bytes) -> None:
        with self._lock:
            written = 0 if self._rest else _write_some(self._descriptor, data)
            self._rest += data[written:]
            if self._rest and not self._writing:
                self._writing = True
                Thread(target=self._run, args=(os.dup(self._descriptor),), name="outbox", daemon=True).start()

    def close(self) -> None:
        """Drop the bytes that are not written yet; the caller closes the descriptor."""
        with self._lock:
            self._rest.clear()

    def _run(self, descriptor: int) -> None:
        poller = select.poll()
        poller.register(descriptor, select.POLLOUT)
        writing = True
        try:
            while writing:
                poller.poll(_LOOK)
                with self._lock:
                    del self._rest[: _write_some(descriptor, self._rest)]
                    writing = self._writing = bool(self._rest)
        finally:
            os.close(descriptor)


def _is_listening(server: str) -> bool:
    """Return whether a server listens at HOST:PORT."""
    host, _, port = server.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_MOMENT).close()
    except (OSError, ValueError):
        return False
    return True


def _write_some(descriptor: int, data: bytes | bytearray) -> int:
    """Write as much as the pipe takes; return how many bytes need not be written again."""
    try:
        return os.write(descriptor, data)
    except BlockingIOError:
        return 0
    except BrokenPipeError:
        return len(data)


WORKER, SERVER_WORKER = "termchat.engine.llama.worker", "termchat.engine.remote.server_worker"
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
_LONGEST_LOG = 1 << 20
_STUCK = "Timeout ("
"""The start of the log's last line where a chat template that never finished ended the worker (`llama.sandbox.last_resort`)."""
_DYING_WORDS = rf"\.\w+:\d+: |^\s*what\(\): |^[\w.]*(?:Error|Exception)\b|^{re.escape(_STUCK)}"
"""An abort of llama.cpp, which names a line of its source, an exception of C++ or of Python, a template that never finished."""
_RPC_SIGN = "RPC server"
_RPC_HINT = "start it again, then restart the engine to continue from the last token"
_MOMENT = 0.2
_GLANCE = 1.0
"""Seconds: what counts at most as silence between two looks, as the app may have stood still itself."""
_TAIL = 4096
_OTHERWISE = "use raw mode (/raw in a chat, --raw in a shell), or a different model"


class ErrorLog:
    """What a process prints on stderr: a file at the `path`, or one without a name where that cannot be written."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._file: IO[bytes] | None = None
        self._start = 0

    def open(self) -> IO[bytes]:
        """Open the log for the next process; one of more than 1 MiB makes room, and is kept beside it."""
        self.close()
        file: IO[bytes] | None = None
        if self._path is not None:
            with suppress(OSError):  # a chat without a log is better than none
                self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                if self._path.exists() and self._path.stat().st_size > _LONGEST_LOG:
                    self._path.replace(self._path.with_name(self._path.name + ".old"))
                file = regular_files.opened(self._path, "ab+", permissions=0o600)  # for nobody else to read
        if file is None:
            from tempfile import TemporaryFile  # not needed by most

            file = TemporaryFile()  # noqa: SIM115 - the process writes into it as long as it runs
        self._file, self._start = file, file.seek(0, os.SEEK_END)
        return file

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def tail(self) -> list[str]:
        """Return the last lines that the newest process printed."""
        if self._file is None:
            return []
        file = self._file.fileno()
        at = max(self._start, os.fstat(file).st_size - _TAIL)
        return os.pread(file, _TAIL, at).decode("utf-8", "replace").splitlines()

    def last_reason(self, *more: str) -> str:
        """Return the last line that a process writes when it dies, or that one of `more` patterns matches; what it logged while
        it worked is no reason."""
        pattern = re.compile("|".join((_DYING_WORDS, *more)))
        reasons = [line for line in self.tail() if pattern.search(line)]
        return reasons[-1].strip()[:300] if reasons else ""


class WorkerLine:
    """A worker on this machine, by default llama.cpp's: termchat itself, so that what it encodes is stored as it is.

    A line that is not `trusted` is to another machine, where more may be encoded than is checked. `there` is the version of
    termchat behind it, "" before that is known.
    """

    trusted = True
    there = ""

    def __init__(self, command: list[str] | None = None) -> None:
        self._command = command
        self._rpc: tuple[str, ...] = ()

    def launch(self) -> tuple[list[str], dict[str, str]]:
        """Return the command line of the process, and its environment.

        Raises:
            EngineError: there can be none.
        """
        root = str(Path(__file__).parents[2])
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH")))),
            "OPENBLAS_NUM_THREADS": "1",  # its threads would fight llama.cpp's for the cores
            "GGML_NO_BACKTRACE": "1",  # an abort must not wait for a debugger
        }
        # -P: a file called random.py in the folder where the app was started must not be imported.
        return self._command or [sys.executable, "-P", "-m", WORKER], environment

    def send(self, command: Command, data: bytes, outbox: Outbox) -> None:
        """Send the frame of a command."""
        if isinstance(command, Load):
            self._rpc = command.spec.rpc
        outbox.write(data)

    def receive(self, data: bytes, outbox: Outbox, log: ErrorLog) -> bytes:
        """Return the part of the data that is frames.

        Raises:
            EngineError: no worker is there that can be understood.
        """
        return data

    def explain_silence(self, seconds: float, log: ErrorLog) -> Failed | None:
        """Return a failure if the line is given up after so many seconds in which an answer was due, and nothing came."""
        return None

    def explain_frames(self, error: wire.FrameError) -> EngineError:
        """Return the error for bytes that are no frames."""
        return EngineError("engine", f"invalid message from the engine process: {error}", "restart the engine")

    def explain_end(self, code: int, log: ErrorLog) -> Failed:
        """Return why the process ended by itself, with this exit code."""
        how = f"with exit code {code}"
        if code < 0:
            try:
                how = f"by {signal.Signals(-code).name}"
            except ValueError:
                how = f"by signal {-code}"
        reason = log.last_reason() if code >= 0 or code == -signal.SIGABRT else ""
        if reason.startswith(_STUCK):
            return Failed(
                "engine", "the engine was stopped because the model's chat template never finished", _OTHERWISE
            )
        if code == -signal.SIGABRT and self._rpc and any(_RPC_SIGN in line for line in log.tail()):
            silent = [server for server in self._rpc if not _is_listening(server)] or list(self._rpc)
            gone = f"the rpc server {silent[0]}" if len(silent) == 1 else f"one of the rpc servers {', '.join(silent)}"
            return Failed("engine", f"{gone} broke off, and the engine process ended with it", _RPC_HINT)
        return Failed("engine", f"the engine process ended {how}" + (f": {reason}" if reason else ""))


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
        self._frames, self._since_answer = wire.Frames(wire.EVENTS, keeps_bytes=self._line.trusted), 0
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
            if not events and left <= _GLANCE:
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
