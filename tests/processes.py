"""What the kernel says of the processes a test has started."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep


def wait_for_group_end(group: int) -> None:
    """Wait until no process of the group is left; a dead one that is not reaped counts as none."""
    end = monotonic() + 10
    while any(state != "Z" for state in _states(group)):
        assert monotonic() < end
        sleep(0.01)


def _states(group: int) -> Iterator[str]:
    for file in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has just gone
            state, _parent, its_group = file.read_text().rpartition(")")[2].split()[:3]
            if int(its_group) == group:
                yield state
