"""A download beside the chat, in a thread of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

from termchat.models.errors import ModelError
from termchat.tui.draw.background import BackgroundTask

if TYPE_CHECKING:
    from termchat.models.download.progress import Pulling


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
        """Whether it was ended by hand; the partial download stays."""
        return self._cancelled.is_set()

    def cancel(self) -> None:
        """End the download, in about a tenth of a second."""
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
