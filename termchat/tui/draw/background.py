"""Work beside the screen, in threads that no widget owns and in the engine's process, and when the screen looks at it."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

from textual.timer import Timer

FRAMES = 16
"""Looks per second while something runs."""

T = TypeVar("T")


class BackgroundTask(Generic[T]):
    """Runs `work` in a daemon thread, which may end with the process at any point.

    Args:
        work: yields the results; an exception in it is raised again by `take`.
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
        """Whether there may be more results than can be taken now."""
        return self._thread.is_alive()

    def take(self) -> Iterator[T]:
        """Yield the results since the last call; raise the exception of `work`, if any."""
        while self._made:
            yield self._made.popleft()
        if self._mistake is not None:
            raise self._mistake

    def stop(self) -> None:
        """End the work after the next result."""
        self._stopped.set()

    def join(self, seconds: float) -> None:
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


_T = TypeVar("_T")


class _Job(NamedTuple):
    kind: str
    work: Callable[[], Any]
    hear: Callable[[Any], object]


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
        self._changes: deque[_Job] = deque()
        self._questions: deque[_Job] = deque()
        self._newest: dict[str, _Job] = {}
        self._waiting = threading.Semaphore(0)
        self._thread: threading.Thread | None = None

    def change(self, work: Callable[[], _T], hear: Callable[[_T | Exception], object]) -> None:
        """Do a job after all other changes and before every question; `hear` gets its result, in the event loop."""
        self._put(self._changes, _Job("", work, hear))

    def ask(self, kind: str, work: Callable[[], _T], hear: Callable[[_T | Exception], object]) -> None:
        """Ask a question; `hear` gets the answer in the event loop, unless a newer question of its kind comes before that.

        Questions are answered in order; those without anybody waiting for the answer are dropped.
        """
        self._newest[kind] = job = _Job(kind, work, hear)
        self._put(self._questions, job)

    def waits(self, kind: str) -> bool:
        """Return whether a question of this kind has not been answered yet."""
        return kind in self._newest

    def forget(self, *kinds: str) -> None:
        """Drop the questions of these kinds."""
        for kind in kinds:
            self._newest.pop(kind, None)

    def _put(self, jobs: deque[_Job], job: _Job) -> None:
        jobs.append(job)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="termchat-chats", daemon=True)
            self._thread.start()
        self._waiting.release()

    def _run(self) -> None:
        while self._waiting.acquire():
            job = (self._changes or self._questions).popleft()
            if job.kind and self._newest.get(job.kind) is not job:
                continue
            mistake: BaseException | None = None
            answer: Any = None
            try:
                answer = job.work()
            except self._failures as failure:
                answer = failure
            except BaseException as other:  # noqa: BLE001 (raised again in the event loop)
                mistake = other
            with suppress(RuntimeError):  # the app has ended meanwhile
                self._deliver(partial(self._hear, job, answer, mistake))

    def _hear(self, job: _Job, answer: Any, mistake: BaseException | None) -> None:
        if mistake is not None:
            raise mistake
        if job.kind:
            if self._newest.get(job.kind) is not job:
                return
            del self._newest[job.kind]
        job.hear(answer)


class EnginePolling:
    """Wakes the screen: by a timer while something runs, else when the engine's descriptor is readable. Call `disarm` before
    each look: the descriptor may be gone after it.
    """

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
        """Look again by the timer if something runs, else as soon as the descriptor is readable; -1 is none."""
        if running != self._running:
            self._running = running
            (self._timer.resume if running else self._timer.pause)()
        if not running and descriptor >= 0:
            self._loop.add_reader(descriptor, self._word)
            self._watched = descriptor

    def nudge(self) -> None:
        """Wake the screen from any thread."""
        with suppress(RuntimeError):  # the loop is closed: there is no screen any more
            self._loop.call_soon_threadsafe(self._wake)

    def stop(self) -> None:
        """End the work after the next result."""
        self._timer.stop()

    def _word(self) -> None:
        self.disarm()
        self._wake()
