"""The line to a worker: how its process is started, what it says before its first frame, and why it ended."""

from __future__ import annotations

import os
import re
import select
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from threading import Lock, Thread
from typing import IO

from termchat import regular_files
from termchat.decoding.records import Failed
from termchat.engine import wire
from termchat.engine.port import Command, EngineError, Load

_LOOK = 100
"""Milliseconds after which the thread checks whether the outbox was closed."""
WORKER, SERVER_WORKER = "termchat.engine.llama.worker", "termchat.engine.remote.server_worker"
_LONGEST_LOG = 1 << 20
_STUCK = "Timeout ("
"""The start of the log's last line where a chat template that never finished ended the worker (`llama.sandbox.last_resort`)."""
_DYING_WORDS = rf"\.\w+:\d+: |^\s*what\(\): |^[\w.]*(?:Error|Exception)\b|^{re.escape(_STUCK)}"
"""An abort of llama.cpp, which names a line of its source, an exception of C++ or of Python, a template that never finished."""
_RPC_SIGN = "RPC server"
_RPC_HINT = "start it again, then restart the engine to continue from the last token"
_MOMENT = 0.2
_TAIL = 4096
_OTHERWISE = "use raw mode (/raw in a chat, --raw in a shell), or a different model"


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
                Thread(target=self._run, args=(os.dup(self._descriptor),), name="outbox", daemon=True).start()
                self._writing = True  # after the start, which may fail: else nothing would be written any more

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


class ErrorLog:
    """What a process prints on stderr: a file at the `path`, or one without a name where that cannot be written."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._file: IO[bytes] | None = None
        self._start = 0

    def open(self) -> IO[bytes] | int:
        """Open the log for the next process; one of more than 1 MiB makes room, and is kept beside it. Without a place for a
        file it is `subprocess.DEVNULL`."""
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

            with suppress(OSError):
                file = TemporaryFile()  # noqa: SIM115 - the process writes into it as long as it runs
        if file is None:
            return subprocess.DEVNULL
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
