"""A limit on how long other people's patterns and templates may take."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Interrupts Python code and regular expressions after some time; main thread only.

    Raises:
        TimeoutError: it took longer.
    """

    def on_alarm(_number: int, _frame: FrameType | None) -> NoReturn:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, on_alarm)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
