"""An answer that a server sends bit by bit, as server-sent events."""

from __future__ import annotations

import contextlib
import http.client
import socket
import struct
from collections.abc import Callable, Iterator
from time import monotonic

from termchat.engine.llama.cells import Aborted
from termchat.engine.port import EngineError

MOST = 8 << 20
"""Bytes of one event."""
_PIECE = 1 << 16
_MOST_OF_ERRORS = 1 << 16
_AT_ONCE = struct.pack("ii", 1, 0)
"""For SO_LINGER: the server learns at once that nobody listens any more."""


class Caller:
    """What a stream has to know of its client: whether it was stopped, how long a server may be silent, and how what goes wrong
    is told."""

    def __init__(
        self,
        stopped: Callable[[], bool],
        silence: float,
        broken: Callable[[Exception], EngineError],
        refused: Callable[[int, bytes, http.client.HTTPResponse], EngineError],
    ) -> None:
        self.stopped, self.silence, self.broken, self.refused = stopped, silence, broken, refused


class EventStream:
    """The events that come over a `connection` for the request that was sent on it. Comments are signs of life, and nothing
    else. `socket` may be shut down by any thread, once the caller was stopped."""

    def __init__(self, caller: Caller, connection: http.client.HTTPConnection) -> None:
        self._caller, self._connection = caller, connection
        self.socket: socket.socket | None = connection.sock
        self._response: http.client.HTTPResponse | None = None

    def __iter__(self) -> Iterator[bytes]:
        """The data of each event, or the whole answer of a server that does not stream. It ends where the answer does, be it
        cut or not: whoever reads it knows what comes last.

        Raises:
            Aborted: the caller was stopped.
            EngineError: the server refuses, breaks off, is silent, or sends an event without end.
        """
        try:
            for line in self._lines():
                name, _, data = line.partition(b":")
                if name == b"data":
                    yield data.strip()
                elif name == b"error":
                    yield b'{"error":' + data + b"}"
                elif line.startswith(b"{"):
                    yield line
        finally:
            self.close()

    def close(self) -> None:
        """Ends it, wherever it is. It may be called twice."""
        found, self.socket = self.socket, None
        if found is None:
            return
        with contextlib.suppress(OSError):
            found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
        if self._response is not None:
            self._response.close()
        self._connection.close()
        found.close()

    def _lines(self) -> Iterator[bytes]:
        caller, rest, since = self._caller, b"", monotonic()
        try:
            response = self._answered()
            while piece := response.read1(_PIECE):
                *complete, rest = (rest + piece).split(b"\n")
                yield from complete
                if complete:
                    since = monotonic()
                elif len(rest) > MOST or monotonic() - since > caller.silence:
                    raise caller.broken(TimeoutError() if len(rest) <= MOST else OSError("an event without end"))
        except (http.client.HTTPException, OSError, ValueError, AttributeError) as error:
            # The last two: the socket was closed by another thread while it was being read.
            if caller.stopped():
                raise Aborted from None
            raise caller.broken(error) from None
        if caller.stopped():
            raise Aborted
        if rest.startswith(b"{"):
            yield rest

    def _answered(self) -> http.client.HTTPResponse:
        response = self._response = self._connection.getresponse()
        if response.status != 200:
            raise self._caller.refused(response.status, response.read(_MOST_OF_ERRORS), response)
        return response
