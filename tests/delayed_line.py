"""A line that is slow, not narrow: every byte arrives so much later, in both directions, and many are on their way at once.

`DelayedPort` stands before a server of this machine. Run as a program, with SECONDS and a COMMAND, this stands before that
command, which is spoken to over its pipes.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from queue import SimpleQueue
from time import monotonic, sleep

_PIECE = 1 << 16


class DelayedPort:
    """Listens on a free port of the loopback and speaks with another one there; `delay` seconds in each direction."""

    def __init__(self, port: int, delay: float = 0.0) -> None:
        self._there, self.delay = port, delay
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        threading.Thread(target=self._listen, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listening.getsockname()[1]}"

    def close(self) -> None:
        for one in (self._listening, *self._open):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _listen(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                here, _ = self._listening.accept()
                there = socket.create_connection(("127.0.0.1", self._there))
                self._open += [here, there]
                for one, other in ((here, there), (there, here)):
                    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    relay(lambda one=one: one.recv(_PIECE), other.sendall, _ending(other), lambda: self.delay)  # type: ignore[misc]


def _ending(one: socket.socket) -> Callable[[], object]:
    return lambda: one.shutdown(socket.SHUT_WR)


def relay(
    read: Callable[[], bytes], write: Callable[[bytes], object], end: Callable[[], object], delay: Callable[[], float]
) -> threading.Thread:
    """Has threads write what is read so much later; `end` is called behind the last of it. Returns the one that writes."""
    due: SimpleQueue[tuple[float, bytes]] = SimpleQueue()

    def take() -> None:
        data = b"!"
        while data:
            try:
                data = read()
            except OSError:
                data = b""
            due.put((monotonic() + delay(), data))

    def give() -> None:
        with contextlib.suppress(OSError):
            while True:
                when, data = due.get()
                sleep(max(when - monotonic(), 0.0))
                if not data:
                    break
                write(data)
        with contextlib.suppress(OSError):
            end()

    threading.Thread(target=take, daemon=True).start()
    writer = threading.Thread(target=give, daemon=True)
    writer.start()
    return writer


def main(delay: float, command: str) -> int:
    process = subprocess.Popen(["/bin/sh", "-c", command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
    assert process.stdin is not None
    assert process.stdout is not None
    to, of = process.stdin, process.stdout
    relay(lambda: os.read(0, _PIECE), to.write, to.close, lambda: delay)
    relay(lambda: os.read(of.fileno(), _PIECE), lambda data: os.write(1, data), lambda: None, lambda: delay).join()
    return process.wait()


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), sys.argv[2]))
