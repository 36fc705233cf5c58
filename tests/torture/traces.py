"""What may be left of a process that ended: others that it started, and locks."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep

MARK = "TORTURE_ROUND"
"""The variable in the environment of all that a round starts, by which orphans are known as its own."""

PATIENCE_S = 60.0
"""For whatever must come to be; the machine may be slow and busy."""


class Fault(Exception):
    """Something that must not be. `kind` is what is counted."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind


def until(condition: Callable[[], object], kind: str, message: str, limit: float = PATIENCE_S) -> None:
    """Waits until something is true.

    Raises:
        Fault: it does not come to be.
    """
    end = monotonic() + limit
    while not condition():
        if monotonic() > end:
            raise Fault(kind, message)
        sleep(0.005)


def children(pid: int) -> list[int]:
    """Processes that a process started, as far as it still lives."""
    with contextlib.suppress(OSError):
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def worker(pid: int) -> int | None:
    """The engine's process of an app."""
    for child in children(pid):
        with contextlib.suppress(OSError):
            if b"engine.llama.worker" in Path(f"/proc/{child}/cmdline").read_bytes():
                return child
    return None


def marked(mark: str) -> list[int]:
    """Living processes of a round."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal() and int(folder.name) != os.getpid():
            with contextlib.suppress(OSError):
                if wanted in (folder / "environ").read_bytes().split(b"\0"):  # a zombie has none
                    found.append(int(folder.name))
    return found


def no_orphans(mark: str) -> None:
    """Waits until all that a round started has ended.

    Raises:
        Fault: something stays.
    """
    until(lambda: not marked(mark), "orphan", "a process of the round lives on")


def no_lock(path: Path) -> None:
    """Takes the right to write, at once.

    Raises:
        Fault: somebody holds it.
    """
    if not path.exists():
        return
    with contextlib.closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as db:
        try:
            db.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            raise Fault("lock", f"{path}: {error}") from error
        db.execute("ROLLBACK")
