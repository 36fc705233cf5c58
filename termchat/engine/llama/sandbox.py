"""Limits the time and memory that foreign templates and regular expressions may take.

Time is the thread's own processor time, so that a machine that stalls refuses nothing honest, and threads that spin beside
it do not count. One operation that never comes back to Python cannot be interrupted: the last resort is to end the process,
after much longer on the clock, and whoever started it knows how to start another.
"""

from __future__ import annotations

import faulthandler
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import thread_time
from types import FrameType

_LOOKS = 8
"""How often the clock is checked before the deadline."""


class _Over(BaseException):
    """The deadline has passed. Not an `Exception`, which a template engine might catch."""


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Interrupts Python code and regular expressions after so much processor time; main thread only.

    Raises:
        TimeoutError: it took longer.
    """
    began = thread_time()
    watching = True

    def look(_number: int, _frame: FrameType | None) -> None:
        nonlocal watching
        if watching and thread_time() - began >= seconds:
            watching = False  # once: on the way out nothing must be interrupted
            raise _Over

    before = signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, seconds / _LOOKS, seconds / _LOOKS)
    try:
        try:
            yield
        finally:
            watching = False
    except _Over:
        raise TimeoutError from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def last_resort(seconds: float) -> Iterator[None]:
    """Ends the process, from outside Python, when this takes longer in wall-clock time; stderr then has the traceback."""
    faulthandler.dump_traceback_later(seconds, exit=True)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


@contextmanager
def memory(size: int) -> Iterator[None]:
    """Limits the process to `size` bytes more than it has now; Linux only.

    Raises:
        MemoryError: more was needed.
    """
    if sys.platform != "linux":
        yield
        return
    import resource

    before, most = resource.getrlimit(resource.RLIMIT_AS)
    wanted = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize() + size
    if before != resource.RLIM_INFINITY:
        wanted = min(wanted, before)
    resource.setrlimit(resource.RLIMIT_AS, (wanted, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (before, most))
