"""The engine on this machine: starts the worker process, speaks with it, notices its death."""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import socket
import subprocess
import sys
from itertools import count
from pathlib import Path
from threading import Lock, Thread
from time import monotonic
from typing import IO

from termchat import regular_files
from termchat.decoding.records import Failed
from termchat.engine import wire
from termchat.engine.port import (
    ALL_FEATURES,
    Command,
    EngineError,
    Event,
    Feature,
    Generate,
    Load,
    Loaded,
    Steer,
    is_last,
)
from termchat.text import size

_LOOK = 100
"""Milliseconds after which the thread checks whether the outbox was closed."""


class Outbox:
    """Writes as much as the pipe takes at once; a thread writes the rest in order.

    After the reader's death writes are dropped silently: whoever reads the other pipe notices it.
    """

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor
        self._rest = bytearray()
        self._lock = Lock()
        self._closed = self._writing = False

    def write(self, data: bytes) -> None:
        with self._lock:
            written = 0 if self._rest else _write_some(self._descriptor, data)
            self._rest += data[written:]
            if self._rest and not self._writing:
                self._writing = True
                Thread(target=self._run, args=(os.dup(self._descriptor),), name="outbox", daemon=True).start()

    def close(self) -> None:
        """Drop unwritten data; the caller closes the descriptor."""
        with self._lock:
            self._closed = True

    def _run(self, descriptor: int) -> None:
        poller = select.poll()
        poller.register(descriptor, select.POLLOUT)
        try:
            while True:
                poller.poll(_LOOK)
                with self._lock:
                    if not self._closed:
                        del self._rest[: _write_some(descriptor, self._rest)]
                    if self._closed or not self._rest:
                        self._writing = False
                        return
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
    """Write as much as the pipe takes; return the number of bytes that need not be written again."""
    try:
        return os.write(descriptor, data)
    except BlockingIOError:
        return 0
    except BrokenPipeError:
        return len(data)


WORKER = "termchat.engine.llama.worker"
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
_OTHERWISE = "use raw mode (/raw in a chat, --raw in a shell), or a different model"


class LocalEngine:
    """A worker process, started by `start` or else by the first command. Its native prints and tracebacks go to `log`, where
    that can be written; at its start a log of more than 1 MiB makes room, and the one before is kept beside it. `command` runs
    another worker than llama.cpp's.
    """

    _numbers = count(1)
    """Of the commands of all engines of this program: no answer is taken for another engine's."""

    def __init__(self, log: Path | None = None, *, command: list[str] | None = None) -> None:
        self._log, self._command = log, command
        self._open: dict[int, Command] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._frames = self._make_frames()
        self._since_answer = 0
        self._log_start: int | None = None
        self._offers = ALL_FEATURES
        self._rpc: tuple[str, ...] = ()

    @property
    def offers(self) -> frozenset[Feature]:
        return self._offers

    @property
    def alive(self) -> bool:
        return self._process is not None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def fileno(self) -> int:
        return self._out.fileno() if self._process else -1

    def start(self) -> None:
        """Start the worker unless it runs, so that it is ready for the first command.

        Raises:
            EngineError: the process cannot be started.
        """
        if self._process is None:
            self._start()

    def send(self, command: Command) -> int:
        self.start()
        number = next(self._numbers)
        self._since_answer = 0
        if isinstance(command, Load):
            self._rpc = command.spec.rpc
        if not isinstance(command, Steer):
            self._open[number] = command
        self._write(wire.frame(number, command))
        return number

    def _write(self, data: bytes) -> None:
        self._outbox.write(data)

    def receive(self, timeout: float | None = 0.0) -> list[tuple[int, Event]]:
        if self._process is None:
            return []
        found: list[tuple[int, Event]] = []
        poller = select.poll()
        poller.register(self._out.fileno(), select.POLLIN | select.POLLHUP)
        wait = None if timeout is None else max(timeout, 0.0) * 1e3
        taken, end = 0, 0.0
        while poller.poll(wait):
            data = os.read(self._out.fileno(), _READ)
            if not data:
                found.append(self._given_up(None))
                break
            end = end if taken else monotonic() + _SLICE
            taken += len(data)
            self._since_answer += len(data)
            try:
                found += self._read(data)
            except EngineError as error:
                found.append(self._given_up(Failed(error.kind, error.message, error.hint)))
                break
            if found:
                wait = 0.0
            slow = taken >= _MOST_AT_ONCE or len(found) >= _MOST_EVENTS or monotonic() >= end
            if slow and (found or timeout is not None):
                break
        for number, event in found:
            if isinstance(event, Loaded):
                self._offers = event.info.abilities.list_features()
            if is_last(event) and self._open.pop(number, None) is not None:
                self._since_answer = 0
        return found

    def close(self) -> None:
        if self._process is not None:
            self._end_process()

    def _end_process(self, within: float = 1.0) -> int:
        """Close the pipes, which ends the process, and wait for that; its exit code."""
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

    def _read(self, data: bytes) -> list[tuple[int, Event]]:
        """Return the events that these bytes complete.

        Raises:
            EngineError: they are not what a worker sends.
        """
        try:
            if self._since_answer > _LONGEST_ANSWER:
                raise wire.FrameError(f"more than {size(_LONGEST_ANSWER)} without an end")
            return self._frames.feed_bytes(data)
        except wire.FrameError as error:
            raise self._refuse_message(error) from error

    def _refuse_message(self, error: wire.FrameError) -> EngineError:
        return EngineError("engine", f"invalid message from the engine process: {error}", "restart the engine")

    def _make_frames(self) -> wire.Frames[tuple[int, Event]]:
        """Make the reader of the worker's frames, whose tokens are stored as encoded there."""
        return wire.Frames(wire.EVENTS, keeps_bytes=True)

    def _build_launch(self) -> tuple[list[str], dict[str, str]]:
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

    def _start(self) -> None:
        command, environment = self._build_launch()
        log = self._open_log()
        self._log_start = log.tell() if log is not None else None
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL if log is None else log,
                env=environment,
                start_new_session=True,  # the terminal's signals are the app's; the worker leaves when its input ends
            )
        except OSError as error:
            raise EngineError("engine", f"the engine process cannot be started: {error}") from error
        finally:
            if log is not None:
                log.close()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in, self._out = self._process.stdin, self._process.stdout
        self._outbox = Outbox(self._in.fileno())
        self._frames, self._since_answer = self._make_frames(), 0
        self._offers = ALL_FEATURES
        self._open.clear()
        if sys.platform == "linux":
            import fcntl

            with contextlib.suppress(OSError):  # a small pipe will do where the kernel grants no large one
                fcntl.fcntl(self._out.fileno(), fcntl.F_SETPIPE_SZ, _PIPE_SIZE)

    def _open_log(self) -> IO[bytes] | None:
        if self._log is None:
            return None
        try:
            self._log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self._log.exists() and self._log.stat().st_size > _LONGEST_LOG:
                self._log.replace(self._log.with_name(self._log.name + ".old"))
            return regular_files.opened(self._log, "ab", permissions=0o600)  # for nobody else to read
        except OSError:
            return None  # a chat without a log is better than none

    def _given_up(self, failure: Failed | None) -> tuple[int, Event]:
        """End the process; return the failed commands and why (None: the process ended unasked)."""
        replies = (number for number, command in self._open.items() if isinstance(command, Generate))
        number = next(replies, min(self._open, default=0))
        self._open.clear()
        code = self._end_process(_DYING if failure is None else 0.2)
        return number, failure if failure is not None else self._describe_failure(code)

    def _describe_failure(self, code: int) -> Failed:
        """Describe why the process ended unasked, with this exit code."""
        how = f"with exit code {code}"
        if code < 0:
            try:
                how = f"by {signal.Signals(-code).name}"
            except ValueError:
                how = f"by signal {-code}"
        said = self._last_reason() if code >= 0 or code == -signal.SIGABRT else ""
        if said.startswith(_STUCK):
            return Failed(
                "engine", "the engine was stopped because the model's chat template never finished", _OTHERWISE
            )
        if code == -signal.SIGABRT and self._rpc and any(_RPC_SIGN in line for line in self._read_tail()):
            return Failed("engine", f"{self._find_gone()} broke off, and the engine process ended with it", _RPC_HINT)
        return Failed("engine", f"the engine process ended {how}" + (f": {said}" if said else ""))

    def _find_gone(self) -> str:
        """Find which of the rpc servers is gone, as far as a moment tells."""
        silent = [server for server in self._rpc if not _is_listening(server)]
        among = silent or list(self._rpc)
        return f"the rpc server {among[0]}" if len(among) == 1 else f"one of the rpc servers {', '.join(among)}"

    def _last_reason(self, *more: str) -> str:
        """Return the last line of the log that a dying process writes, or that one of `more` patterns matches; lines logged
        during work are no reason.
        """
        pattern = re.compile("|".join((_DYING_WORDS, *more)))
        reasons = [line for line in self._read_tail() if pattern.search(line)]
        return reasons[-1].strip()[:300] if reasons else ""

    def _read_tail(self) -> list[str]:
        """Return the last lines of the log, as far as they are of this process."""
        if self._log is None or self._log_start is None:
            return []
        try:
            with regular_files.opened(self._log) as file:
                file.seek(max(self._log_start, self._log.stat().st_size - 4096))
                return file.read().decode("utf-8", "replace").splitlines()
        except OSError:
            return []
