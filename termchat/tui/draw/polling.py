"""When the screen looks at the engine: by a timer while something runs, else when the engine's descriptor is readable."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from textual.timer import Timer

FRAMES = 16
"""Looks per second while something runs."""


class EnginePolling:
    """Wakes the screen. Call `disarm` before each look: the engine's descriptor may be gone after it."""

    def __init__(self, timer: Timer, wake: Callable[[], object]) -> None:
        self._timer, self._wake = timer, wake
        self._loop = asyncio.get_running_loop()
        self._watched = -1
        self._running = False

    def disarm(self) -> None:
        if self._watched >= 0:
            self._loop.remove_reader(self._watched)
            self._watched = -1

    def arm(self, descriptor: int, *, running: bool) -> None:
        """Looks again by the timer if something runs, else as soon as the descriptor is readable (-1: there is none)."""
        if running != self._running:
            self._running = running
            (self._timer.resume if running else self._timer.pause)()
        if not running and descriptor >= 0:
            self._loop.add_reader(descriptor, self._word)
            self._watched = descriptor

    def nudge(self) -> None:
        """Wakes the screen from another thread."""
        with contextlib.suppress(RuntimeError):  # the loop is closed: there is no screen any more
            self._loop.call_soon_threadsafe(self._wake)

    def stop(self) -> None:
        self.disarm()
        self._timer.stop()

    def _word(self) -> None:
        self.disarm()
        self._wake()
