"""An answer that a server sends bit by bit, as server-sent events."""

from __future__ import annotations

import codecs
import contextlib
import http.client
import socket
import struct
from collections.abc import Callable, Iterator
from time import monotonic

from termchat.engine.llama.cells import Aborted
from termchat.engine.port import EngineError
from termchat.engine.remote.steady_response import Endless, SteadyResponse

MOST = 8 << 20
"""Bytes of one event, and of all that come without anything new in them."""
_LEAST = 64
"""Bytes that a line counts at least: to look at it costs as much."""
_PIECE = 1 << 16
_MOST_OF_ERRORS = 1 << 16
_BROKEN = (http.client.HTTPException, OSError, ValueError, AttributeError)
"""How an answer fails; the last two, where its socket is closed while it is read."""
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
    else. `socket` may be shut down by any thread, once the caller was stopped.

    Whoever reads them says with `moved` when there was something new: without that they have an end.
    """

    def __init__(self, caller: Caller, connection: http.client.HTTPConnection) -> None:
        self._caller, self._connection = caller, connection
        self.socket: socket.socket | None = connection.sock
        self._response: SteadyResponse | None = None
        self._idle = 0

    def begin(self) -> None:
        """Waits until the server begins to answer.

        Raises:
            Aborted: the caller was stopped.
            EngineError: the server refuses, breaks off, or is silent.
        """
        if self._response is not None:
            return
        try:
            response = self._connection.getresponse()
            assert isinstance(response, SteadyResponse)
            self._response = response
            refused = response.status != 200
            data = response.read(_MOST_OF_ERRORS) if refused else b""
        except _BROKEN as error:
            raise self._ended(error) from None
        if refused:
            self.close()
            raise self._caller.refused(response.status, data, response)

    def moved(self) -> None:
        """The reply came further with the last event."""
        self._idle = 0

    def __iter__(self) -> Iterator[bytes]:
        """The data of each event. It ends where the answer does, be it cut or not: whoever reads it knows what comes last.

        Raises:
            Aborted, EngineError: as `begin`; or an event has no end.
        """
        for line in self.lines():
            name, _, data = line.partition(b":")
            if not line.endswith(b"\n"):
                return  # it is cut
            if name == b"data":
                yield data.strip()
            elif name == b"error":
                yield b'{"error":' + data + b"}"

    def lines(self) -> Iterator[bytes]:
        """The lines of the answer, each with "\\n" at its end, whatever the server ends them with; the last one may be cut."""
        caller, rest, since, begins = self._caller, b"", monotonic(), True
        try:
            self.begin()
            assert self._response is not None
            while piece := self._response.read_part(_PIECE):
                # An end of two characters makes an empty line more, which says nothing.
                first, *others = piece.replace(b"\r", b"\n").split(b"\n")
                *complete, rest = rest + first, *others
                for line in complete:
                    self._idle += max(len(line), _LEAST)
                    if self._idle > MOST:
                        raise Endless
                    yield (line.removeprefix(codecs.BOM_UTF8) if begins else line) + b"\n"
                    begins = False
                if complete:
                    since = monotonic()
                elif len(rest) > MOST:
                    raise Endless
                elif monotonic() - since > caller.silence:
                    raise caller.broken(TimeoutError())
        except http.client.IncompleteRead:
            pass
        except _BROKEN as error:
            raise self._ended(error) from None
        finally:
            self.close()
        if caller.stopped():
            raise Aborted
        if rest:
            yield rest

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

    def _ended(self, error: Exception) -> Exception:
        """What it means that the answer fails so."""
        self.close()
        return Aborted() if self._caller.stopped() else self._caller.broken(error)
