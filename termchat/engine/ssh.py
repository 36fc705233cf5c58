"""termchat's own worker on another machine, over ssh: everything as at home.

Keys, jump hosts and ports are ssh's own business (~/.ssh/config). What a shell there prints before the worker's hello is
skipped. The worker ends when the line is cut.

A line can also fall silent without an end: a cable is pulled, a machine between sleeps. So the worker gives a sign of life
every few seconds while the app waits for something, whatever it computes, and without any the line is given up.
"""

from __future__ import annotations

import os
import selectors
import subprocess
import sys
from time import monotonic

import termchat
from termchat.decoding.records import Failed
from termchat.engine import wire
from termchat.engine.address import REMOTE_COMMAND, EngineAddress
from termchat.engine.port import Command, EngineError
from termchat.engine.worker_line import ErrorLog, Outbox, WorkerLine
from termchat.text import one_line, size

_OPTIONS = ("BatchMode=yes", "ConnectTimeout=15", "ServerAliveInterval=15", "ServerAliveCountMax=3")
"""Nobody can answer a question that ssh asks; a line that is silent for 45 s is cut."""
_UNREACHED, _NOT_FOUND = 255, (126, 127)
"""Exit codes: ssh's own failures, and a shell's that has no such command."""
_CUT = "rror|failed|Broken pipe|losed by|reset by|imeout|not responding|disconnect|Killed"
"""Words of ssh about a line that was cut."""
_MISSED = 6
"""So many signs of life in a row may be missing, or late on a busy machine."""
_HELLO_WITHIN = 60.0
"""Seconds in which a worker has to say hello, or a shell anything else."""
_MOST_STRAY = 1 << 16
_LONGEST_OUTPUT = 1 << 24
"""Bytes that a command there may print. A list of a thousand models takes a thirtieth of that."""
_LONGEST = 300
_TAIL = 4096


def ssh_command(address: EngineAddress, command: str) -> list[str]:
    """Return the command line that runs a command on that machine."""
    where = ["-p", str(address.port)] if address.port else []
    where += ["-l", address.user] if address.user else []
    options = [part for option in _OPTIONS for part in ("-o", option)]
    return ["ssh", "-T", *options, *where, "--", address.host, command]


def run_there(address: EngineAddress, words: str, within: float) -> bytes:
    """Run another command of the termchat there, instead of `worker`; return its output.

    Raises:
        EngineError: it fails, or takes longer than `within` seconds.
    """
    command, worker, rest = (address.remote_command or REMOTE_COMMAND).rpartition("worker")
    if not worker or rest.strip():
        raise EngineError("engine", f"the remote_command of {address.shown} does not end with worker", "correct it")
    pipe, until = subprocess.PIPE, monotonic() + within
    try:
        process = subprocess.Popen(
            ssh_command(address, command + words),
            stdin=subprocess.DEVNULL,
            stdout=pipe,
            stderr=pipe,
            start_new_session=True,
        )
    except OSError as error:
        raise EngineError("engine", f"{address.shown}: {error}") from error
    with process:
        try:
            printed, errors = _read_outputs(process, until)
            code = process.wait(max(until - monotonic(), 0.0))
        except (ValueError, subprocess.TimeoutExpired) as error:
            why = str(error) if isinstance(error, ValueError) else f"no answer within {within:.0f} s"
            raise EngineError("engine", f"{address.shown}: {why}") from error
        finally:
            process.kill()
    if code:
        lines = errors.decode("utf-8", "replace").strip().splitlines()
        raise EngineError("engine", f"{address.shown}: {one_line(lines[-1], _LONGEST) if lines else code}")
    return printed


def _read_outputs(process: subprocess.Popen[bytes], until: float) -> tuple[bytes, bytes]:
    """Read what a process prints until it closes its pipes: its output, and the end of its errors.

    Raises:
        ValueError: there is more than `_LONGEST_OUTPUT`.
        TimeoutExpired: it prints for longer than that.
    """
    printed, errors = bytearray(), bytearray()
    with selectors.DefaultSelector() as open_pipes:
        open_pipes.register(process.stdout, selectors.EVENT_READ, printed)  # type: ignore[arg-type]
        open_pipes.register(process.stderr, selectors.EVENT_READ, errors)  # type: ignore[arg-type]
        while open_pipes.get_map():
            if (left := until - monotonic()) <= 0:
                raise subprocess.TimeoutExpired(process.args, left)
            for pipe, _ in open_pipes.select(left):
                data = os.read(pipe.fd, _MOST_STRAY)
                if not data:
                    open_pipes.unregister(pipe.fileobj)
                pipe.data.extend(data)
            del errors[:-_TAIL]
            if len(printed) > _LONGEST_OUTPUT:
                raise ValueError(f"it printed more than {size(_LONGEST_OUTPUT)}")
    return bytes(printed), bytes(errors)


class SshLine(WorkerLine):
    """A worker on another machine: the process here is ssh, which passes its errors on."""

    trusted = False

    def __init__(self, address: EngineAddress) -> None:
        super().__init__()
        self._address = address
        self._run_there = address.remote_command or REMOTE_COMMAND
        self._before: bytes | None = None
        """What came before the hello; None once that came."""
        self._waiting = bytearray()
        self._patience = 0.0

    def launch(self) -> tuple[list[str], dict[str, str]]:
        if sys.platform == "win32":
            raise EngineError("engine", "ssh:// engines do not work on Windows", "use a server's URL, or WSL")
        self._before = b""
        self._waiting.clear()
        self._patience = _HELLO_WITHIN
        return ssh_command(self._address, self._run_there), dict(os.environ)

    def send(self, command: Command, data: bytes, outbox: Outbox) -> None:
        """Send nothing before the hello: the reader there may be a shell."""
        if self._before is None:
            outbox.write(data)
        else:
            self._waiting += data

    def receive(self, data: bytes, outbox: Outbox, log: ErrorLog) -> bytes:
        """Return what follows the hello, b"" while it has not come.

        Raises:
            EngineError: another termchat is there, or none.
        """
        if self._before is None:
            return data
        self._before += data
        heard = wire.find_hello(self._before)
        if heard is None:
            if len(self._before) > _MOST_STRAY:
                self._before = self._before[: self._before.rfind(b"\n")]  # the line that it is printing is cut
                raise EngineError("engine", *self._no_worker("printed a lot, and no worker started", log))
            return b""
        _, hello, rest = heard
        if hello.protocol != wire.digest_protocol():
            raise self._mismatch(hello.termchat)
        self._before, self.there = None, hello.termchat
        self._patience = hello.beats * _MISSED
        outbox.write((wire.BEAT if hello.beats > 0 else b"") + self._waiting)
        self._waiting.clear()
        return rest

    def explain_silence(self, seconds: float, log: ErrorLog) -> Failed | None:
        if not 0 < self._patience < seconds:
            return None
        if self._before is not None:
            return Failed("engine", *self._no_worker(f"started no worker within {self._patience:.0f} s", log))
        return Failed("engine", f"the line to {self._address.shown} is silent: no word for {self._patience:.0f} s")

    def explain_frames(self, error: wire.FrameError) -> EngineError:
        what = f"invalid message from {self._address.shown}: {error}"
        return EngineError("engine", what, "install the same termchat on both machines")

    def _mismatch(self, there: str) -> EngineError:
        name, here = self._address.shown, termchat.__version__
        if there == here:
            what = f"{name} runs another build of termchat {there} than this machine"
            return EngineError("engine", what, "install the same build on both")
        newer, older = (
            (name, "this machine") if _split_version(there) > _split_version(here) else ("this machine", name)
        )
        wanted = max(there, here, key=_split_version)
        return EngineError(
            "engine",
            f"{name} runs termchat {there}, this machine {here}: they do not understand each other",
            f"install termchat {wanted} on {older}, as on {newer}",
        )

    def explain_end(self, code: int, log: ErrorLog) -> Failed:
        name, address = self._address.shown, self._address
        if self._before is None:
            cut = (_CUT,) if code == _UNREACHED else ("Killed",)
            reason = one_line(log.last_reason(*cut), _LONGEST)
            what = f"the engine on {name} ended"
            if code == _UNREACHED:
                what = f"the line to {name} was cut, or its worker ended"
            return Failed("engine", (what + (f": {reason}" if reason else "")) if code else f"{what} without a word")
        if code == _UNREACHED:
            reason = _last_line(log)
            where = f"{address.user}@{address.host}" if address.user else address.host
            port = f"-p {address.port} " if address.port else ""
            what = f"{name} cannot be reached" + (f": {reason}" if reason else "")
            return Failed("engine", what, f"check it with: ssh {port}{where}")
        return Failed("engine", *self._no_worker(f"could not run {self._run_there!r}", log, code))

    def _no_worker(self, what: str, log: ErrorLog, code: int = 0) -> tuple[str, str]:
        """Return the message and the hint for a machine from which no hello came."""
        stray = (self._before or b"").decode("utf-8", "replace").strip().splitlines()
        reason = _last_line(log) or (one_line(stray[-1], _LONGEST) if stray else "")
        hint = "see what a login there prints"
        if code:
            hint = "see the log for details"
        if code in _NOT_FOUND or not reason:
            hint = "install termchat there, or set remote_command to its path, as in /opt/termchat/bin/termchat worker"
        return f"{self._address.shown} {what}" + (f": {reason}" if reason else ""), hint


def _last_line(log: ErrorLog) -> str:
    """Return the last line on stderr, of ssh or, before the hello, of the shell there."""
    lines = [line for line in log.tail() if line.strip()]
    return one_line(lines[-1].strip(), _LONGEST) if lines else ""


def _split_version(version: str) -> list[int]:
    return [int(part) if part.isdigit() else 0 for part in version.split(".")]
