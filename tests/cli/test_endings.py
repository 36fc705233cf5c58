"""How commands end when they are not let finish: Ctrl+C, a reader who leaves, a terminal that can do nothing."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from termchat import paths
from tests.conversation.stored import saved_in_home
from tests.pull.file_server import FileServer, gguf

TERMCHAT = [sys.executable, "-m", "termchat"]
WITHIN = 120.0


@contextmanager
def started(*args: str, **variables: str) -> Iterator[subprocess.Popen[bytes]]:
    """A command in a process group of its own, as a shell starts it."""
    process = subprocess.Popen(
        [*TERMCHAT, *args],
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a background job has it ignored
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdout, process.stderr):
            assert stream is not None
            stream.close()


def until(condition: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + WITHIN
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.02)


def children(process: subprocess.Popen[bytes]) -> list[int]:
    """Of its first thread."""
    try:
        return [int(pid) for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]
    except OSError:
        return []


def interrupted(process: subprocess.Popen[bytes]) -> str:
    """Ctrl+C, as a terminal sends it to all of the group; what was said on stderr."""
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=WITHIN)
    assert process.returncode == 130, said.decode()
    assert b"Traceback" not in said
    return said.decode()


def test_ctrl_c_ends_doctor_and_its_engine() -> None:
    with started("doctor") as process:
        until(lambda: bool(children(process)), process)
        engines = children(process)
        assert interrupted(process) == ""
    until_gone(engines)


def test_ctrl_c_ends_tune_and_its_engine_and_keeps_nothing(model_path: Path) -> None:
    with started("tune", "--seconds", "600", "--json", TERMCHAT_MODEL=str(model_path)) as process:
        assert process.stderr is not None
        assert process.stderr.readline()  # it measures
        engines = children(process)
        assert engines
        interrupted(process)
    until_gone(engines)
    assert not paths.tuned_file().exists()


def test_ctrl_c_ends_an_export_that_nobody_reads() -> None:
    saved_in_home("long", "tell", "word " * 20_000)
    with started("sessions", "export", "last") as process:
        assert process.stdout is not None
        assert process.stdout.read(1)  # it writes, until the pipe is full
        os.killpg(process.pid, signal.SIGINT)
        process.stdout.close()
        assert process.wait(WITHIN) == 130
        assert process.stderr is not None
        assert process.stderr.read() == b""


def test_a_download_that_was_interrupted_goes_on_where_it_was(server: FileServer, home: Path) -> None:
    large, held = gguf(3_000_000), threading.Event()
    url = server.put("/a.gguf", large, hold=(2_000_000, held))
    part = home / "models" / "a.gguf.part"
    with started("models", "pull", url, "--to", str(home / "models")) as process:
        until(lambda: part.exists() and part.stat().st_size > 0, process)
        said = interrupted(process)
    assert "stopped; the part already downloaded is kept" in said
    assert "Run the command again to resume." in said
    kept = part.stat().st_size
    assert kept > 0
    held.set()
    server.put("/a.gguf", large)
    with started("models", "pull", url, "--to", str(home / "models")) as process:
        assert process.wait(WITHIN) == 0
    assert (home / "models" / "a.gguf").read_bytes() == large
    assert not part.exists()


WRITING = [
    ("--help",),
    ("run", "--help"),
    ("config", "show"),
    ("config", "init", "--print"),
    ("models", "list"),
    ("sessions", "export", "last"),
    ("completion", "zsh"),
]


@pytest.mark.parametrize("args", WRITING, ids=" ".join)
def test_a_stdout_that_takes_nothing_is_told_in_a_line(args: tuple[str, ...]) -> None:
    if args[0] == "sessions":
        saved_in_home("long", "tell", "word " * 2000)
    with open("/dev/full", "wb") as full:
        done = subprocess.run([*TERMCHAT, *args], stdout=full, stderr=subprocess.PIPE, timeout=WITHIN)
    assert done.returncode == 1
    assert done.stderr == b"termchat: the output cannot be written: No space left on device\n"


@pytest.mark.parametrize(("args", "code"), [("list", 0), ("export last", 1)])
def test_without_any_stdout_there_is_no_traceback(args: str, code: int) -> None:
    saved_in_home("long", "tell", "a word")
    command = [*TERMCHAT, "sessions", *args.split()]
    done = subprocess.run(["sh", "-c", '"$@" >&-', "sh", *command], stderr=subprocess.PIPE, timeout=WITHIN)
    assert done.returncode == code
    assert done.stderr == (b"termchat: stdout is closed\n" if code else b"")


@pytest.mark.parametrize("args", WRITING, ids=" ".join)
def test_a_reader_who_leaves_ends_it_without_a_word(args: tuple[str, ...]) -> None:
    if args[0] == "sessions":
        saved_in_home("long", "tell", "word " * 2000)
    with started(*args) as process:
        assert process.stdout is not None
        process.stdout.close()  # before anything was written
        assert process.wait(WITHIN) == 141
        assert process.stderr is not None
        assert process.stderr.read() == b""


@pytest.mark.parametrize("term", [None, "", "dumb"])
def test_a_terminal_that_can_do_nothing_is_refused_with_a_way_out(term: str | None) -> None:
    environ = {name: value for name, value in os.environ.items() if name != "TERM"}
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        TERMCHAT,
        env=environ if term is None else {**environ, "TERM": term},
        stdin=follower,
        stdout=follower,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    os.close(follower)
    _, said = process.communicate(timeout=WITHIN)
    os.close(leader)
    assert process.returncode == 2
    assert b"Use: termchat run PROMPT" in said
    assert b"\x1b" not in said


def until_gone(pids: list[int]) -> None:
    end = time.monotonic() + WITHIN
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        assert time.monotonic() < end
        time.sleep(0.02)


_LEFT_IN_THE_BUFFER = """
import sys
from termchat.cli.main import _leave
sys.stdout.write("the last frame")
sys.stderr = open("/dev/full", "w")
sys.stderr.write("and where the cursor is put back")
_leave(129)
"""


def test_what_a_terminal_that_went_away_was_not_told_does_not_change_how_the_chat_ends() -> None:
    buffering = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with open("/dev/full", "w") as full:
        process = subprocess.run([sys.executable, "-c", _LEFT_IN_THE_BUFFER], stdout=full, env=buffering, check=False)
    assert process.returncode == 129


_INTERRUPTED_WHILE_IT_IMPORTS = """
import os, runpy, signal, sys

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has what it starts in the background ignore it

class Finder:
    def find_spec(self, name, *_):
        if name == "termchat.cli.main":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Finder())
sys.argv = ["termchat", "--version"]
runpy.run_module("termchat", run_name="__main__")
"""


def test_ctrl_c_at_once_ends_it_without_a_word() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _INTERRUPTED_WHILE_IT_IMPORTS], capture_output=True, timeout=WITHIN, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, b"", b"")
