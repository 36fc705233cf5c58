"""What frames cost on the screen's event loop, in milliseconds of the processor: for the benchmarks."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from time import thread_time
from typing import Any, NamedTuple, TypeVar

from textual.screen import Screen

from termchat.tui.app import TermchatApp

_T = TypeVar("_T")
_REST = 0.03
"""Seconds in which all frames of one thing that is done have come."""


class Watched(TermchatApp):
    """Notes what each frame costs: from the one before it, or from when there was nothing to do, to its end."""

    drawn: asyncio.Event
    frames: list[float]
    first: float | None = None
    """When the first frame since somebody began to watch was drawn; the event loop may go on with other things after it."""

    def _display(self, screen: Screen[Any], renderable: Any) -> None:
        super()._display(screen, renderable)
        now = thread_time()
        self.first = now if self.first is None else self.first
        self.frames.append((now - _clock.since) * 1e3)
        _clock.since = now
        self.drawn.set()


class _Clock:
    since = 0.0


_clock = _Clock()


class _Idle(selectors.DefaultSelector):
    """Where the event loop waits."""

    def select(self, timeout: float | None = None) -> Any:
        found = super().select(timeout)
        if timeout is None or timeout > 0:
            _clock.since = thread_time()
        return found


def run(main: Coroutine[Any, Any, _T]) -> _T:
    """Runs the main part of a benchmark with frames."""
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(_Idle())) as runner:
        return runner.run(main)


class Cost(NamedTuple):
    """Of one thing that was done: its dearest frame, and all from its begin to its first frame, whatever came in between."""

    frame: float
    shown: float


async def measure(
    app: Watched, do: Callable[[], object], count: int, *, rest: float = 0.0, of: Callable[[], object] = object
) -> list[Cost]:
    """Does something so many times. What draws nothing, or leaves what `of` says as it is, does not count."""
    taken: list[Cost] = []
    for _ in range(count):
        await asyncio.sleep(rest)
        app.drawn.clear()
        app.frames.clear()
        app.first = None
        before = of()
        begun = _clock.since = thread_time()
        do()
        try:
            await asyncio.wait_for(app.drawn.wait(), 1.0)
        except TimeoutError:
            continue  # nothing changed
        shown = ((app.first or thread_time()) - begun) * 1e3
        await asyncio.sleep(_REST)
        if of() != before:  # else the frame that came was of something else: the cursor was at the end
            taken.append(Cost(max(app.frames), shown))
    return taken
