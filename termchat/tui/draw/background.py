"""Work beside the screen, in threads that no widget owns.

The threads are daemons: those of Textual's `@work` are waited for at the end, so that a disk or a server that does not answer
would keep the app from leaving.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from queue import PriorityQueue
from typing import Any, Generic, TypeVar

FRAMES = 16
"""Looks per second while something runs."""

T = TypeVar("T")


class BackgroundTask(Generic[T]):
    """Runs `work` in a daemon thread, which may end with the process at any point.

    Args:
        work: yields the results; an exception in it is raised again by `take`.
        then: called in the thread at the end, unless it was stopped.
    """

    def __init__(self, work: Callable[[], Iterable[T]], then: Callable[[], object] = lambda: None) -> None:
        self._work, self._then = work, then
        self._results: deque[T] = deque()
        self._is_stopped = False
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def running(self) -> bool:
        """Whether there may be more results than can be taken now."""
        return self._thread.is_alive()

    def take(self) -> Iterator[T]:
        """Yield the results since the last call; raise the exception of `work`, if any."""
        while self._results:
            yield self._results.popleft()
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """End the work after the next result."""
        self._is_stopped = True

    def join(self, seconds: float) -> None:
        self._thread.join(seconds)

    def _run(self) -> None:
        try:
            for result in self._work():
                self._results.append(result)
                if self._is_stopped:
                    return
        except BaseException as error:  # noqa: BLE001 (`take` raises it)
            self._error = error
        finally:
            if not self._is_stopped:
                with suppress(RuntimeError):  # the app has ended meanwhile
                    self._then()


class TaskQueue:
    """Does jobs one after the other in a daemon thread, which may end with the process at any point.

    Args:
        deliver: called in that thread; has its argument called in the event loop.
        failures: exceptions that count as an answer; any other one ends the app.
    """

    def __init__(
        self, deliver: Callable[[Callable[[], object]], object], failures: tuple[type[Exception], ...] = ()
    ) -> None:
        self._deliver, self._failures = deliver, failures
        self._jobs: PriorityQueue[tuple[bool, int, str, Callable[[], Any], Callable[[Any], object]]] = PriorityQueue()
        self._count = 0
        self._newest: dict[str, int] = {}
        """The number of the newest question of each kind, until it is answered."""

    def change(self, work: Callable[[], T], hear: Callable[[T | Exception], object]) -> None:
        """Do a job after all other changes and before every question; `hear` gets its result, in the event loop."""
        self.ask("", work, hear)

    def ask(self, kind: str, work: Callable[[], T], hear: Callable[[T | Exception], object]) -> None:
        """Ask a question; `hear` gets the answer in the event loop, unless a newer question of its kind comes before that.

        Questions are answered in order; those without anybody waiting for the answer are dropped.
        """
        self._count += 1
        if kind:
            self._newest[kind] = self._count
        self._jobs.put((bool(kind), self._count, kind, work, hear))
        if self._count == 1:
            threading.Thread(target=self._run, name="termchat-chats", daemon=True).start()

    def waits(self, kind: str) -> bool:
        """Return whether a question of this kind has not been answered yet."""
        return kind in self._newest

    def forget(self, *kinds: str) -> None:
        """Drop the questions of these kinds."""
        for kind in kinds:
            self._newest.pop(kind, None)

    def _run(self) -> None:
        while True:
            _, number, kind, work, hear = self._jobs.get()
            if kind and self._newest.get(kind) != number:
                continue
            answer = Future[Any]()
            try:
                answer.set_result(work())
            except self._failures as failure:
                answer.set_result(failure)
            except BaseException as mistake:  # noqa: BLE001 (raised again in the event loop)
                answer.set_exception(mistake)
            with suppress(RuntimeError):  # the app has ended meanwhile
                self._deliver(partial(self._hear, number, kind, answer, hear))

    def _hear(self, number: int, kind: str, answer: Future[Any], hear: Callable[[Any], object]) -> None:
        result = answer.result()
        if not kind or self._newest.get(kind) == number:
            self._newest.pop(kind, None)
            hear(result)
