"""A pipe that one writes to without ever waiting for whoever reads it."""

from __future__ import annotations

import os
import select
from threading import Lock, Thread

_LOOK = 100
"""Milliseconds between two looks at whether it was closed."""


class Outbox:
    """Writes at once what the pipe takes; a thread writes the rest as there is room, in order.

    A pipe that nobody reads any more swallows everything: whoever reads the other pipe sees that death.
    """

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor
        self._rest = bytearray()
        self._lock = Lock()
        self._closed = self._writing = False

    def write(self, data: bytes) -> None:
        """Sends it."""
        with self._lock:
            written = 0 if self._rest else _written(self._descriptor, data)
            self._rest += data[written:]
            if self._rest and not self._writing:
                self._writing = True
                Thread(target=self._run, args=(os.dup(self._descriptor),), name="outbox", daemon=True).start()

    def close(self) -> None:
        """Drops what is not written yet; the descriptor is the caller's."""
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
                        del self._rest[: _written(descriptor, self._rest)]
                    if self._closed or not self._rest:
                        self._writing = False
                        return
        finally:
            os.close(descriptor)


def _written(descriptor: int, data: bytes | bytearray) -> int:
    """Writes what there is room for; how many bytes are done with."""
    try:
        return os.write(descriptor, data)
    except BlockingIOError:
        return 0
    except BrokenPipeError:
        return len(data)
