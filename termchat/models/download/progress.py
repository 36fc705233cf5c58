"""How far a download is, and how long it waits before it tries again."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from math import ceil
from time import monotonic, sleep
from typing import Literal

import msgspec

from termchat.models.download.web import Later
from termchat.models.errors import ModelError

Stage = Literal["asking", "waiting", "checking", "downloading", "placing"]

_WINDOW = 5.0
"""Seconds the rate is taken over: long enough to be calm, short enough to notice a change."""
_EVERY = 0.1


BACKOFF = (0.5, 1.0, 2.0, 4.0, 8.0, 15.0)
"""Seconds before each next try, while none gets further than the tries before."""
LONGEST_WAIT = 600.0
"""Seconds a server may have us wait before we give up instead."""
_TICK = 0.1


class Pulling(msgspec.Struct, frozen=True, kw_only=True):
    """How far a download is."""

    file: str
    """Its name; foreign text."""
    stage: Stage = "asking"
    """`asking` the server; `waiting` for what `note` says; `checking` what is here already; `downloading`; `placing`."""
    done: int = 0
    """Bytes of the model that are here and hashed."""
    total: int | None = None
    """Bytes of the whole model; None while unknown."""
    rate: float = 0.0
    """Bytes per second, of late."""
    note: str = ""
    """Why it waits; foreign text."""

    @property
    def left(self) -> float | None:
        """Seconds to go; None while unknown."""
        return (self.total - self.done) / self.rate if self.total is not None and self.rate > 0 else None


class Gauge:
    """Measures a download and tells of it, but not more often than one can see.

    A model of several files is one download. `cancelled` ends it by raising.
    """

    def __init__(self, told: Callable[[Pulling], None], cancelled: Callable[[], None]) -> None:
        self._told, self._cancelled = told, cancelled
        self._now = Pulling(file="")
        self._before = 0
        self._total: int | None = None
        self._alone = True
        self._size = 0
        self._of: int | None = None
        self._seen: deque[tuple[float, int]] = deque(maxlen=round(_WINDOW / _EVERY))

    def begin(self, file: str, before: int, total: int | None, *, alone: bool) -> None:
        """`before` are the bytes here of the model's other files, `total` those of all of them, if known."""
        self._before, self._total, self._alone = before, total, alone
        self._now = Pulling(file=file, done=before, total=total)
        self._size, self._of = 0, None
        self._seen.clear()

    def poll(self) -> None:
        """Reports again: nothing has happened since, which shows in the rate."""
        self.at(self._now.stage, self._size, self._of, self._now.note)

    def at(self, stage: Stage, size: int, of: int | None = None, note: str = "") -> None:
        """`size` bytes of the file, of `of`."""
        self._cancelled()
        self._size, self._of = size, of
        now = monotonic()
        if (stage, note) != (self._now.stage, self._now.note):
            self._seen.clear()
        elif self._seen and now - self._seen[-1][0] < _EVERY:
            return
        self._seen.append((now, size))
        first, start = self._seen[0]
        moving = stage == "downloading" and now > first and size > start
        self._now = msgspec.structs.replace(
            self._now,
            stage=stage,
            done=self._before + size,
            total=of if self._alone and of is not None else self._total,
            rate=(size - start) / (now - first) if moving else 0.0,
            note=note,
        )
        self._told(self._now)


class Patience:
    """Waits before the next try, longer each time, until it is used up."""

    def __init__(self, gauge: Gauge, backoff: Sequence[float] = BACKOFF) -> None:
        self._gauge, self._backoff = gauge, backoff
        self._tries = 0

    def renew(self) -> None:
        """Call it when a try got further than those before."""
        self._tries = 0

    def spend(self, what: str, later: Later, hint: str, size: int = 0, of: int | None = None) -> None:
        """Waits until `what` may be tried again, as long as the server asks or longer each time; tells so.

        Raises:
            ModelError: it was tried often enough, or the server asks for too much.
        """
        if self._tries == len(self._backoff):
            raise ModelError(f"{what}: {later.reason}", hint)
        seconds = self._backoff[self._tries] if later.wait is None else later.wait
        if seconds > LONGEST_WAIT:
            raise ModelError(f"{what}: {later.reason}, for {seconds:.0f} s", hint)
        self._tries += 1
        end = monotonic() + seconds
        while (left := end - monotonic()) > 0:
            self._gauge.at("waiting", size, of, f"{later.reason}; again in {ceil(left)} s")
            sleep(min(_TICK, left))
