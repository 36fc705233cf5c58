"""Rounds of the chat without a screen: the service, the store and the real engine's process."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
from collections.abc import Callable
from time import monotonic, sleep

from tests.torture.home import Home
from tests.torture.known import Known, Loss
from tests.torture.plan import Round
from tests.torture.traces import PATIENCE_S, Fault, children, until, worker


def run(home: Home, what: Round) -> Loss:
    """One round. Raises a Fault."""
    process = home.start(
        "-m", "tests.torture.driver", what.kind, str(what.seed), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    told = Told(process, home.known)
    try:
        if what.kind != "starting":
            told.wait("moment")
        sleep(what.delay)
        ended = kill(process.pid, what.end)
        if what.end == "worker":
            told.wait("recovered")
            process.stdin.close()  # type: ignore[union-attr]
            told.wait("closed")
            if process.wait(PATIENCE_S) != 0:
                raise Fault("start", f"the app ended with {process.returncode}")
            return home.check(None)
        process.wait()
        told.rest()
        return home.check(ended)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()  # type: ignore[union-attr]


def kill(app: int, end: str) -> float:
    """Kills the app, its worker or both; returns when it was done. A worker that is to be killed alone is waited for."""
    if end == "worker":
        until(lambda: worker(app), "start", "the app started no worker")
    found = worker(app)
    pids = {"app": [app], "worker": [found], "both": [app, found]}[end]
    for pid in pids:
        if pid is not None:
            os.kill(pid, signal.SIGKILL)
    return monotonic()


class Told:
    """What the driver says, taken into what is known."""

    def __init__(self, process: subprocess.Popen[bytes], known: Known) -> None:
        assert process.stdout is not None
        self._process, self._known = process, known
        self._out = process.stdout.fileno()
        # select takes no descriptor beyond 1,023, and a long run of tests may have as many.
        self._poller = select.poll()
        self._poller.register(self._out, select.POLLIN)
        self._rest = b""
        self._heard: set[str] = set()
        self._take: dict[str, Callable[..., None]] = {
            "node": self._node, "record": self._record, "kept": self._kept, "trouble": self._trouble,
            "closed": self._closed,
        }  # fmt: skip

    def wait(self, word: str) -> None:
        """Reads until this was said.

        Raises:
            Fault: it is not, or something is said that must not be.
        """
        end = monotonic() + PATIENCE_S
        self._heard.discard(word)
        while word not in self._heard:
            if not self._poller.poll(max(end - monotonic(), 0) * 1e3):
                raise Fault(
                    "start", f"the app runs and does not come to say {word!r}; children {children(self._process.pid)}"
                )
            if not self._read():
                raise Fault("start", f"the app ended by itself before it said {word!r}")

    def rest(self) -> None:
        """Reads what was said before the end."""
        while self._read():
            pass

    def _read(self) -> bool:
        data = os.read(self._out, 1 << 16)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            word, *values, at = json.loads(line)
            self._heard.add(word)
            if word in self._take:
                self._take[word](*values, at)
        return bool(data)

    def _node(self, session: str, number: int, at: float) -> None:
        self._known.nodes[session, number] = at

    def _record(self, session: str, number: int, made: int, at: float) -> None:
        self._known.told.setdefault((session, number), []).append((made, at))

    def _kept(self, session: str, number: int, digest: str, _: float) -> None:
        self._known.whole[session, number] = digest

    def _trouble(self, message: str, _: float) -> None:
        raise Fault("start", f"the store says: {message}")

    def _closed(self, whole: bool, _: float) -> None:
        if not whole:
            raise Fault("tokens lost", "the store could not write all at the end")
