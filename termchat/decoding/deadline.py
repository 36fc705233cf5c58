"""Limits the time that foreign templates and regular expressions may take.

Time is the thread's own processor time, so that a machine that stalls refuses nothing honest, and threads that spin beside
it do not count.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from time import thread_time
from types import FrameType

MATCHING = 0.25
"""Seconds of processor time that regular expressions which a person wrote may take at a step, or in one text."""

_LOOKS = 8
"""How often the clock is checked before the deadline."""


class _Over(BaseException):
    """The deadline has passed. Not an `Exception`, which a template engine might catch."""


@contextmanager
def interrupt_after(seconds: float) -> Iterator[None]:
    """Interrupt Python code and regular expressions after so much processor time; main thread only.

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
