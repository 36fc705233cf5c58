"""An answer whose bytes have to come steadily, from its first line on: no server can hold a reader by dripping.

A time-out of the socket alone counts from byte to byte, so that a byte a second keeps an answer going for ever.
"""

from __future__ import annotations

import http.client
import io
import socket
from time import monotonic
from typing import Any

SLOWEST = 20_000
"""Bytes a second at which an answer must come once it has begun, ..."""
GRACE = 20.0
"""... on average, but for so many seconds."""


class TooSlow(TimeoutError):
    """It has begun, and comes too slowly."""


class Endless(OSError):
    """There is more of it than was wanted, head and all."""


class SteadyResponse(http.client.HTTPResponse):
    """An answer of at most `most` bytes; it begins within `silence` seconds."""

    def __init__(self, sock: socket.socket, *args: Any, silence: float, most: int, **more: Any) -> None:
        super().__init__(sock, *args, **more)
        raw = self.fp.detach()
        self.fp = io.BufferedReader(_Steady(raw, sock, silence, most))


class _Steady(io.RawIOBase):
    def __init__(self, raw: Any, sock: socket.socket, silence: float, most: int) -> None:
        self._raw, self._sock, self._left = raw, sock, most
        self._begun: float | None = None
        self._came = 0
        sock.settimeout(silence)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        if self._begun is not None:
            left = self._begun + GRACE + self._came / SLOWEST - monotonic()
            if left <= 0:
                raise TooSlow
            self._sock.settimeout(left)
        try:
            count: int = self._raw.readinto(buffer)
        except TimeoutError:
            raise (TimeoutError if self._begun is None else TooSlow) from None
        self._begun = self._begun or monotonic()
        self._came += count
        if self._came > self._left:
            raise Endless
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()
