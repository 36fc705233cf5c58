"""Downloads beside the chat: each in a thread of its own, which whoever draws them looks at."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event
from time import monotonic
from typing import TYPE_CHECKING

from termchat.models.errors import ModelError
from termchat.tui.draw.background import BackgroundTask

if TYPE_CHECKING:
    from termchat.models.download.progress import Pulling

_PATIENCE = 2.0
"""Seconds that the end of the app waits for downloads to store what came; a part that is not stored is found again anyway."""


class Pull:
    """One download. `now` is its progress, None before anything is known; it is over when `path` or `problem` is set."""

    def __init__(self, wanted: str, told: Callable[[Pull], object]) -> None:
        self.wanted = wanted
        self.now: Pulling | None = None
        self.path: Path | None = None
        self.problem: ModelError | None = None
        self._cancelled = Event()
        self._aside: BackgroundTask[None] = BackgroundTask(self._work, lambda: told(self))

    @property
    def running(self) -> bool:
        return self.path is None and self.problem is None

    @property
    def cancelled(self) -> bool:
        """Whether a person ended it; the partial download stays."""
        return self._cancelled.is_set()

    def cancel(self) -> None:
        """It takes about a tenth of a second."""
        self._cancelled.set()

    def join(self, seconds: float) -> None:
        self._aside.join(seconds)

    def _work(self) -> Iterator[None]:
        from termchat.models.download.pull import pull  # a slow import, in this thread

        def at(now: Pulling) -> None:
            self.now = now

        try:
            self.path = pull(self.wanted, progress=at, cancelled=self._cancelled.is_set)
        except ModelError as problem:
            self.problem = problem
        except Exception as mistake:  # noqa: BLE001 (the chat goes on, and a person reads what it was)
            self.problem = ModelError(f"{self.wanted} could not be downloaded: {mistake!r}")
        yield


class Pulls:
    """The last download of each model in this run of the app. `told` is called at the end of each, in its thread."""

    def __init__(self, told: Callable[[Pull], object] = lambda _: None) -> None:
        self.told = told
        self._pulls: dict[str, Pull] = {}

    def of(self, wanted: str) -> Pull | None:
        return self._pulls.get(wanted)

    @property
    def running(self) -> list[Pull]:
        return [pull for pull in self._pulls.values() if pull.running]

    def start(self, wanted: str) -> Pull:
        """Also resumes a download that was cancelled or failed; one that runs is left alone."""
        known = self._pulls.get(wanted)
        if known is None or not known.running:
            self._pulls[wanted] = known = Pull(wanted, lambda pull: self.told(pull))
        return known

    def close(self) -> None:
        self.told = lambda _: None
        running = self.running
        for pull in running:
            pull.cancel()
        end = monotonic() + _PATIENCE
        for pull in running:
            pull.join(max(end - monotonic(), 0))
