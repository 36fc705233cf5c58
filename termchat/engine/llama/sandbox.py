"""Limits the memory that foreign templates may take, and the time of what `decoding.deadline` cannot interrupt: one operation
that never comes back to Python. The last resort is to end the process, after much longer on the clock, and whoever started it
knows how to start another.
"""

from __future__ import annotations

import faulthandler
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def last_resort(seconds: float) -> Iterator[None]:
    """End the process, from outside Python, when this takes longer in wall-clock time; stderr then has the traceback."""
    faulthandler.dump_traceback_later(seconds, exit=True)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


@contextmanager
def limit_memory(size: int) -> Iterator[None]:
    """Limit the process to `size` bytes more than it has now; Linux only.

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
