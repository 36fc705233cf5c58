"""How long to try again what may yet work."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from time import monotonic, sleep

from termchat.models.errors import ModelError
from termchat.models.progress import Gauge
from termchat.models.refusals import Later

BACKOFF = (0.5, 1.0, 2.0, 4.0, 8.0, 15.0)
"""Seconds before each next try, while none gets further than the tries before."""
LONGEST_WAIT = 600.0
"""Seconds a server may have us wait before we give up instead."""

_TICK = 0.1


class Patience:
    """Waits before the next try, longer each time, until it is used up."""

    def __init__(self, gauge: Gauge, backoff: Sequence[float] = BACKOFF) -> None:
        self._gauge, self._backoff = gauge, backoff
        self._tries = 0

    def renew(self) -> None:
        """The last try got further than those before."""
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
