"""Work beside the screen: a thread makes results, the screen takes them a batch at a time, when it draws anyway."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, Generic, NamedTuple, TypeVar

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


_T = TypeVar("_T")


class _Job(NamedTuple):
    kind: str
    work: Callable[[], Any]
    hear: Callable[[Any], object]


class InTurn:
    """Does what it is told in a thread of its own, which ends with the process, wherever it is.

    Args:
        deliver: takes, in that thread, what is to be called in the event loop.
        failures: exceptions that are an answer too; any other one ends the app.
    """

    def __init__(
        self, deliver: Callable[[Callable[[], object]], object], failures: tuple[type[Exception], ...] = ()
    ) -> None:
        self._deliver, self._failures = deliver, failures
        self._jobs: list[_Job] = []
        self._newest: dict[str, _Job] = {}
        self._wake = threading.Condition()
        self._thread: threading.Thread | None = None

    def change(self, work: Callable[[], _T], hear: Callable[[_T | Exception], object]) -> None:
        """Does something after all other changes and before every question; `hear` gets what came of it, in the event loop."""
        self._put(_Job("", work, hear), first=True)

    def ask(self, kind: str, work: Callable[[], _T], hear: Callable[[_T | Exception], object]) -> None:
        """Asks something; `hear` gets the answer in the event loop, unless something else of the kind is asked before it comes.

        What is asked first is answered first, but for questions that nobody waits for any more.
        """
        job = _Job(kind, work, hear)
        self._newest[kind] = job
        self._put(job)

    def waits(self, kind: str) -> bool:
        """Whether an answer of this kind is still to come."""
        return kind in self._newest

    def forget(self, *kinds: str) -> None:
        """Nobody waits for these answers any more."""
        for kind in kinds:
            self._newest.pop(kind, None)
        with self._wake:
            self._jobs = [job for job in self._jobs if job.kind not in kinds]

    def _put(self, job: _Job, *, first: bool = False) -> None:
        with self._wake:
            kept = [other for other in self._jobs if first or other.kind != job.kind]
            at = sum(not other.kind for other in kept) if first else len(kept)
            self._jobs = [*kept[:at], job, *kept[at:]]
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="termchat-chats", daemon=True)
                self._thread.start()
            self._wake.notify()

    def _run(self) -> None:
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._jobs)
                job = self._jobs.pop(0)
            self._do(job)

    def _do(self, job: _Job) -> None:
        mistake: BaseException | None = None
        answer: Any = None
        try:
            answer = job.work()
        except self._failures as failure:
            answer = failure
        except BaseException as other:  # noqa: BLE001 (raised again in the event loop)
            mistake = other
        with contextlib.suppress(RuntimeError):  # the app has ended meanwhile
            self._deliver(lambda: self._hear(job, answer, mistake))

    def _hear(self, job: _Job, answer: Any, mistake: BaseException | None) -> None:
        if mistake is not None:
            raise mistake
        if job.kind and self._newest.get(job.kind) is not job:
            return
        self._newest.pop(job.kind, None)
        job.hear(answer)
