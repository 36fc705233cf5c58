"""An answer whose bytes have to come steadily, from its first line on: no server can hold a reader by dripping.

A time-out of the socket alone counts from byte to byte, so that a byte a second keeps an answer going for ever.
"""

from __future__ import annotations

import http.client
import io
import socket
import zlib
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


class Packed(OSError):
    """It is packed in a way that nobody asked for."""


class SteadyResponse(http.client.HTTPResponse):
    """An answer of at most `most` bytes; it begins within `silence` seconds. What is read part by part may go on for ever."""

    def __init__(self, sock: socket.socket, *args: Any, silence: float, most: int, **more: Any) -> None:
        super().__init__(sock, *args, **more)
        self._steady = _Steady(self.fp.detach(), sock, silence, most)
        self.fp = io.BufferedReader(self._steady)
        self._unpacks: zlib._Decompress | None = None

    def begin(self) -> None:
        super().begin()
        packing = self.headers.get("Content-Encoding", "").strip().lower()
        if packing in ("gzip", "x-gzip"):  # which some proxies do though nobody asked for it
            self._unpacks = zlib.decompressobj(zlib.MAX_WBITS | 16)
        elif packing not in ("", "identity"):
            raise Packed(packing)

    def read_part(self, size: int) -> bytes:
        """Some bytes of a body that may be a stream, within the same time; b"" at its end."""
        self._steady.begin_part()
        return self.read_some(size)

    def read_some(self, size: int) -> bytes:
        """Some bytes of the body, unpacked; b"" at its end."""
        unpacks = self._unpacks
        if unpacks is None:
            return self.read1(size)
        try:
            while packed := unpacks.unconsumed_tail or self.read1(size):
                if not unpacks.eof and (data := unpacks.decompress(packed, size)):
                    return data
        except zlib.error as error:
            raise OSError(str(error)) from None
        return b""


class _Steady(io.RawIOBase):
    def __init__(self, raw: Any, sock: socket.socket, silence: float, most: int) -> None:
        self._raw, self._sock, self._silence, self._left = raw, sock, silence, most
        self._begun: float | None = None
        self._part_until: float | None = None
        self._came = 0
        sock.settimeout(silence)

    def begin_part(self) -> None:
        self._part_until = monotonic() + self._silence

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        if self._part_until is not None:
            if (left := self._part_until - monotonic()) <= 0:
                raise TimeoutError
            self._sock.settimeout(left)
            return self._raw.readinto(buffer)  # type: ignore[no-any-return]
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
