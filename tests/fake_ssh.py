"""A program that stands for ssh: it drops the options and the host, and runs the command on this machine.

SIGTERM cuts the line: everything behind it ends, and it says what ssh says then.
"""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import pytest

from termchat.engine.address import EngineAddress

_SCRIPT = """\
#!/bin/sh
while [ "$1" != "--" ]; do shift; done
shift 2
trap 'trap "" TERM; echo "client_loop: send disconnect: Broken pipe" >&2; kill -TERM 0; exit 255' TERM
exec 3<&0
sh -c "$*" <&3 3<&- &
exec </dev/null 3<&-
wait $!
"""
WORKER = f"{shlex.quote(sys.executable)} -P -m termchat worker"
"""The worker of this very termchat."""
_HASTY = """
import time
from termchat.engine import wire
from termchat.engine.llama.worker import Worker
wire.BEATS_S = {beats}
at_once = Worker._answer_command
def late(self, number, command):
    time.sleep({late})
    return at_once(self, number, command)
Worker._answer_command = late
from termchat.cli.remote_worker import worker
worker([])
"""


def delayed(command: str, seconds: float) -> str:
    """A command behind a line on which everything takes so many seconds longer, each way."""
    program = Path(__file__).with_name("delayed_line.py")
    return f"{shlex.quote(sys.executable)} {shlex.quote(str(program))} {seconds} {shlex.quote(command)}"


def hasty(beats: float, late: float = 0.0) -> str:
    """The command of a worker that gives signs of life every `beats` seconds, and its answers so many seconds late."""
    return f"{shlex.quote(sys.executable)} -P -c {shlex.quote(_HASTY.format(beats=beats, late=late))}"


def install(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Puts it into a folder, which comes first in PATH."""
    monkeypatch.setenv("PATH", path_with(folder))


def path_with(folder: Path) -> str:
    """The PATH in which it is found, once it is put into this folder."""
    program = folder / "ssh"
    program.write_text(_SCRIPT)
    program.chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


def lab(command: str = WORKER, model: str = "smollm2") -> EngineAddress:
    """An engine called lab whose worker is started so."""
    return EngineAddress(name="lab", url="ssh://lab", model=model, remote_command=command)
