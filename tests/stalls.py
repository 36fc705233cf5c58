"""How long a machine stood still: what no program can help, where a test says by when something has to be done."""

from __future__ import annotations

import os
import tempfile
import threading
from pathlib import Path
from time import monotonic, sleep
from types import TracebackType

EACH_S = 0.1
"""Between two looks."""


class Stalls:
    """Watches, as a context manager, how much later than it should a thread runs and the disk of a folder has written."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._late: list[tuple[float, float]] = []
        self._over = False
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Stalls:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over = True
        self._thread.join()

    def longest(self, since: float) -> float:
        """Seconds of the longest one that ended after that time of the monotonic clock."""
        return max((late for at, late in tuple(self._late) if at >= since), default=0.0)

    def _watch(self) -> None:
        with tempfile.TemporaryFile(dir=self._folder, buffering=0) as file:
            due = monotonic()
            while not self._over:
                file.write(b"!")
                os.fsync(file.fileno())
                now = monotonic()
                self._late.append((now, now - due))
                sleep(EACH_S)
                due = now + EACH_S
