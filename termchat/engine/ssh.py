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
import tempfile
from pathlib import Path
from time import monotonic
from typing import IO

import msgspec

import termchat
from termchat.decoding.records import Failed, Token, drop_impossible
from termchat.engine import wire
from termchat.engine.address import REMOTE_COMMAND, EngineAddress
from termchat.engine.local import LocalEngine
from termchat.engine.port import Command, EngineError, Event, Inspected, Paused
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
_LOOK = 1.0
"""Seconds: what counts at most between two looks, as the app may have stood still itself."""
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
    """What another command of the termchat there prints, instead of `worker`.

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


class SshEngine(LocalEngine):
    """The worker on another machine: the process here is ssh, and its errors and those there go to `log`."""

    def __init__(self, address: EngineAddress, log: Path | None = None) -> None:
        super().__init__(log)
        self._address = address
        self._run_there = address.remote_command or REMOTE_COMMAND
        self.there = ""
        """The version of termchat there, "" before its hello."""
        self._before: bytes | None = None
        self._waiting = bytearray()
        self._unlogged: IO[bytes] | None = None
        self._patience = self._silent = self._looked = 0.0

    def _build_launch(self) -> tuple[list[str], dict[str, str]]:
        if sys.platform == "win32":
            raise EngineError("engine", "ssh:// engines do not work on Windows", "use a server's URL, or WSL")
        self._before = b""
        self._waiting.clear()
        self._patience = _HELLO_WITHIN
        return ssh_command(self._address, self._run_there), dict(os.environ)

    def _open_log(self) -> IO[bytes] | None:
        """Open a log in any case: error messages quote ssh's last lines."""
        if (log := super()._open_log()) is not None:
            return log
        self._unlogged = tempfile.TemporaryFile()  # noqa: SIM115 - ssh writes into it as long as it runs
        return os.fdopen(os.dup(self._unlogged.fileno()), "wb")

    def _make_frames(self) -> wire.Frames[tuple[int, Event]]:
        """What another machine encodes is not stored as it is: more may be in it than was checked."""
        return wire.Frames(wire.EVENTS)

    def send(self, command: Command) -> int:
        if not self._open:
            self._silent, self._looked = 0.0, monotonic()
        return super().send(command)

    def receive(self, timeout: float | None = 0.0) -> list[tuple[int, Event]]:
        until = None if timeout is None else monotonic() + timeout
        while True:
            left = _LOOK if until is None else min(max(until - monotonic(), 0.0), _LOOK)
            found = super().receive(left) or self._given_up_if_silent()
            if found or not self.alive or (until is not None and monotonic() >= until):
                return found

    def close(self) -> None:
        if self.alive:
            self._out.close()  # what still sends at full speed ends at once, and is not waited for
        super().close()

    def _given_up_if_silent(self) -> list[tuple[int, Event]]:
        """Give up if no sign of life came in time while an answer is due."""
        now = monotonic()
        self._silent += min(now - self._looked, _LOOK)
        self._looked = now
        if not (self.alive and self._open and 0 < self._patience < self._silent):
            return []
        if self._before is not None:
            error = self._no_worker(f"started no worker within {self._patience:.0f} s")
            return [self._given_up(Failed(error.kind, error.message, error.hint))]
        what = f"the line to {self._address.shown} is silent: no word for {self._patience:.0f} s"
        return [self._given_up(Failed("engine", what))]

    def _write(self, data: bytes) -> None:
        """Write nothing before the hello: the reader may still be a shell."""
        if self._before is None:
            super()._write(data)
        else:
            self._waiting += data

    def _read(self, data: bytes) -> list[tuple[int, Event]]:
        self._silent, self._looked = 0.0, monotonic()
        events = super()._read(data if self._before is None else self._read_hello(data))
        return [(number, _drop_impossible(event)) for number, event in events]

    def _refuse_message(self, error: wire.FrameError) -> EngineError:
        what = f"invalid message from {self._address.shown}: {error}"
        return EngineError("engine", what, "install the same termchat on both machines")

    def _read_hello(self, data: bytes) -> bytes:
        """What follows the hello, b"" while it has not come.

        Raises:
            EngineError: another termchat is there, or none.
        """
        assert self._before is not None
        self._before += data
        try:
            heard = wire.find_hello(self._before)
        except wire.FrameError as error:
            raise self._refuse_message(error) from error
        if heard is None:
            if len(self._before) > _MOST_STRAY:
                self._before = self._before[: self._before.rfind(b"\n")]  # the line that it is printing is cut
                raise self._no_worker("printed a lot, and no worker started")
            return b""
        _, hello, rest = heard
        if hello.protocol != wire.digest_protocol():
            raise self._describe_mismatch(hello.termchat)
        self._before, self.there = None, hello.termchat
        self._patience = hello.beats * _MISSED
        super()._write((wire.BEAT if hello.beats > 0 else b"") + self._waiting)
        self._waiting.clear()
        return rest

    def _describe_mismatch(self, there: str) -> EngineError:
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

    def _describe_failure(self, code: int) -> Failed:
        name = self._address.shown
        cut = (_CUT,) if code == _UNREACHED else ("Killed",)
        said = one_line(self._last_reason(*cut), _LONGEST) if self._before is None else self._last_said()
        because = f": {said}" if said else ""
        if self._before is None:
            what = (
                f"the line to {name} was cut, or its worker ended"
                if code == _UNREACHED
                else f"the engine on {name} ended"
            )
            return Failed("engine", f"{what}{because}" if code else f"the engine on {name} ended without a word")
        if code == _UNREACHED:
            where = f"{self._address.user}@{self._address.host}" if self._address.user else self._address.host
            port = f"-p {self._address.port} " if self._address.port else ""
            return Failed("engine", f"{name} cannot be reached{because}", f"check it with: ssh {port}{where}")
        error = self._no_worker(f"could not run {self._run_there!r}", code)
        return Failed(error.kind, error.message, error.hint)

    def _no_worker(self, what: str, code: int = 0) -> EngineError:
        stray = (self._before or b"").decode("utf-8", "replace").strip().splitlines()
        said = self._last_said() or (one_line(stray[-1], _LONGEST) if stray else "")
        hint = "see what a login there prints"
        if code:
            hint = "see the log for details"
        if code in _NOT_FOUND or not said:
            hint = "install termchat there, or set remote_command to its path, as in /opt/termchat/bin/termchat worker"
        return EngineError("engine", f"{self._address.shown} {what}" + (f": {said}" if said else ""), hint)

    def _last_said(self) -> str:
        """Return the last line on stderr: of ssh, or of the remote shell before the hello."""
        lines = [line for line in self._read_tail() if line.strip()]
        return one_line(lines[-1].strip(), _LONGEST) if lines else ""

    def _read_tail(self) -> list[str]:
        if self._unlogged is None:
            return super()._read_tail()
        self._unlogged.seek(max(0, os.fstat(self._unlogged.fileno()).st_size - 4096))
        return self._unlogged.read().decode("utf-8", "replace").splitlines()


def _drop_impossible(event: Event) -> Event:
    """Return the event without numbers that cannot be; see `drop_impossible`."""
    if isinstance(event, Token):
        return drop_impossible(event)
    if isinstance(event, (Inspected, Paused)):
        return msgspec.structs.replace(event, token=drop_impossible(event.token))
    return event


def _split_version(version: str) -> list[int]:
    return [int(part) if part.isdigit() else 0 for part in version.split(".")]
