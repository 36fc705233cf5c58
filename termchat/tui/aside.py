"""Work beside the screen: a thread makes results, the screen takes them a batch at a time, when it draws anyway."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Generic, TypeVar

T = TypeVar("T")


class Aside(Generic[T]):
    """Runs `work` in a thread that no one waits for: it ends with the process, wherever it is.

    Args:
        work: makes the results, one after the other; a mistake in it is raised again by `take`.
        then: called in the thread at the end.
    """

    def __init__(self, work: Callable[[], Iterable[T]], then: Callable[[], object] = lambda: None) -> None:
        self._work, self._then = work, then
        self._made: deque[T] = deque()
        self._stopped = threading.Event()
        self._mistake: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def running(self) -> bool:
        """Whether there may be more than what can be taken now."""
        return self._thread.is_alive()

    def take(self) -> Iterator[T]:
        """What was made since the last time."""
        while self._made:
            yield self._made.popleft()
        if self._mistake is not None:
            raise self._mistake

    def stop(self) -> None:
        """Ends it after the result that is being made."""
        self._stopped.set()

    def join(self, seconds: float) -> None:
        """Waits for the end, but no longer than that."""
        self._thread.join(seconds)

    def _run(self) -> None:
        try:
            for one in self._work():
                self._made.append(one)
                if self._stopped.is_set():
                    return
        except BaseException as mistake:  # noqa: BLE001 (whoever takes gets it)
            self._mistake = mistake
        finally:
            with suppress(RuntimeError):  # the app has ended meanwhile
                self._then()
