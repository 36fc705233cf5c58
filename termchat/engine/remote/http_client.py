"""One kept-alive HTTP connection to one server, and one beside it for an answer that is streamed. What goes wrong is an
`EngineError` that says what to do.

No redirect is followed: it could take a key, or a chat, to somebody else. Proxies from the environment are not used. Answers
are read up to a limit, and in a limited time.
"""

from __future__ import annotations

import codecs
import contextlib
import http.client
import io
import socket
import ssl
import struct
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

from termchat.engine.address import EngineAddress
from termchat.engine.llama.cells import Aborted
from termchat.engine.port import EngineError
from termchat.engine.remote.server_answers import BadAnswer, read_json, read_part, read_phrase, read_text
from termchat.text import one_line, size

CONNECT = 5.0
"""Seconds until a connection must be there."""
SILENCE = 120.0
"""Seconds in which a server must begin to answer: others may be in front of us."""
WHOLE = 600.0
"""Seconds in which an answer must be there whole once it has begun."""
MOST_OF_STREAM = 8 << 20
"""Bytes of one event, and of all that come without anything new in them."""
_LEAST = 64
"""Bytes that a line counts at least: to look at it costs as much."""
_PIECE = 1 << 18
_PART = 1 << 16
_MOST_OF_ERRORS = 1 << 16
_MORE = 5 << 16
"""Bytes of an answer that may come beside its body: its head, the frames of its parts."""
_SAID = 300
"""Characters of a server's own words that are told."""
_HIDDEN = "(the key)"
_BROKEN = (http.client.HTTPException, OSError, ValueError, AttributeError)
"""How an answer fails; the last two, where its socket is closed while it is read."""
_STALE = (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError)
_AT_ONCE = struct.pack("ii", 1, 0)
"""For SO_LINGER: the server learns at once that nobody listens any more."""


class ServerError(EngineError):
    """The server refused: its `status`, the `type` that it gave the error, and all that it `said`."""

    def __init__(self, kind: str, message: str, hint: str, status: int = 0, type: str = "", said: str = "") -> None:
        super().__init__(kind, message, hint)
        self.status, self.type, self.said = status, type, said


class _StaleConnection(Exception):
    """The server had closed the kept connection before this request; nothing was answered."""


class TooSlow(TimeoutError):
    """An answer has begun, and is not there whole in time."""


class Endless(OSError):
    """There is more of an answer than was wanted."""


class Packed(OSError):
    """An answer is packed in a way that was not asked for."""


class _Bounded(io.RawIOBase):
    """Bytes of a socket, at most so many, that have to come within so many `seconds` in all: its own time-out counts from byte
    to byte."""

    def __init__(self, raw: Any, sock: socket.socket, seconds: float, most: int) -> None:
        self._raw, self._sock, self._most = raw, sock, most
        self._begun = False
        self.limit(seconds, TimeoutError)

    def limit(self, seconds: float, late: type[TimeoutError]) -> None:
        """Begin to count anew."""
        self._until, self._late = monotonic() + seconds, late
        self._left = self._most

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        if (left := self._until - monotonic()) <= 0:
            raise self._late
        self._sock.settimeout(left)
        try:
            count: int = self._raw.readinto(buffer)
        except TimeoutError:
            raise self._late from None
        if not self._begun:
            self._begun = True
            self.limit(WHOLE, TooSlow)
        self._left -= count
        if self._left < 0:
            raise Endless
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Response(http.client.HTTPResponse):
    """An answer of at most `most` bytes, head and all, that begins within `silence` seconds, and is there whole within `WHOLE`;
    one that is read part by part may go on for ever."""

    def __init__(self, sock: socket.socket, *args: Any, silence: float, most: int, **more: Any) -> None:
        super().__init__(sock, *args, **more)
        self._silence, self._bounded = silence, _Bounded(self.fp.detach(), sock, silence, most)
        self.fp = io.BufferedReader(self._bounded)
        self._unpacks: zlib._Decompress | None = None

    def begin(self) -> None:
        super().begin()
        packing = self.headers.get("Content-Encoding", "").strip().lower()
        if packing in ("gzip", "x-gzip"):  # which some proxies do though nobody asked for it
            self._unpacks = zlib.decompressobj(zlib.MAX_WBITS | 16)
        elif packing not in ("", "identity"):
            raise Packed(packing)

    def read_part(self, size: int) -> bytes:
        """Read some bytes of a body that may be a stream, within the same time as its first; b"" at its end."""
        self._bounded.limit(self._silence, TimeoutError)
        return self.read_some(size)

    def read_some(self, size: int) -> bytes:
        """Read some bytes of the body, unpacked; b"" at its end."""
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


class HttpClient:
    """A connection to the server at `address`, made when it is needed; `key` goes with every request to it. Before the first
    request on a new connection `on_connect` is called, which may ask over it, and says whether that can be stopped.

    `stop` may be called from any thread; everything else belongs to one.
    """

    def __init__(self, address: EngineAddress, key: str = "", *, silence: float = SILENCE) -> None:
        parts = urlsplit(address.url)
        self.shown = address.shown
        self._host, self._port = parts.hostname or "", parts.port
        # People give the URL of OpenAI's API with its /v1; some paths of servers stand beside that, and some APIs have another.
        path = parts.path.rstrip("/")
        self._base = path.removesuffix("/v1")
        self._api = path if path and address.kind == "openai" else f"{self._base}/v1"
        self._ends_in_api = bool(path) and path == self._api
        self.address, self.silence = address, silence
        self._headers = {"Content-Type": "application/json", "User-Agent": "termchat"}
        self._key = key
        if key:
            self._headers["Authorization"] = f"Bearer {key}"
        self._context = self._trusting() if parts.scheme == "https" else None
        self._connection: http.client.HTTPConnection | None = None
        self._socket: socket.socket | None = None
        self._stream: EventStream | None = None
        self._asked = ""
        """The path that was asked last, as far as it is no part of the address."""
        self._answered = self.stopped = self._stoppable = False
        self.on_connect: Callable[[bool], None] | None = None

    def _trusting(self) -> ssl.SSLContext:
        file = self.address.ssl_cert_file
        try:
            return ssl.create_default_context(cafile=Path(file).expanduser() if file else None)
        except (OSError, RuntimeError, ssl.SSLError) as error:
            raise EngineError("tls", f"ssl_cert_file cannot be read: {file}: {_why(error)}", "correct it") from None

    def stop(self) -> None:
        """End the request that is under way if it can be stopped, and every later one of those until `go_on`."""
        self.stopped = True
        stream, found = self._stream, self._socket
        for open_ in (found if self._stoppable else None, None if stream is None else stream.socket):
            if open_ is not None:
                with contextlib.suppress(OSError):
                    # TLS's own shutdown takes the encryption off first, while a request may be on its way in another thread.
                    socket.socket.shutdown(open_, socket.SHUT_RDWR)

    def go_on(self) -> None:
        self.stopped = False

    def close(self) -> None:
        self._let_go()
        if self._stream is not None:
            self._stream.close()

    def _let_go(self) -> None:
        """Close the kept connection."""
        connection, self._connection, self._socket = self._connection, None, None
        if connection is not None:
            connection.close()

    def stream(self, path: str, body: bytes) -> EventStream:
        """Open the events that answer a POST as they come, on a connection of their own: servers close it afterwards, whatever
        they say. It can be stopped, and to close it ends it, too. There is one at a time: an earlier one is closed.

        Raises:
            Aborted, ServerError, EngineError: as `ask`.
        """
        if self.stopped:
            raise Aborted
        if self._stream is not None:
            self._stream.close()
        connection = self._made()
        stream = self._stream = EventStream(self, connection)
        try:
            connection.request("POST", self._whole(path), body, self._headers | {"Accept": "text/event-stream"})
            if self.stopped:  # maybe before there was something to end
                raise Aborted
        except Aborted:
            stream.close()
            raise
        except (http.client.HTTPException, OSError) as error:
            stream.close()
            if self.stopped:
                raise Aborted from None
            raise self.explain(error) from None
        return stream

    def ask(self, method: str, path: str, body: bytes | None, limit: int, *, stoppable: bool = False) -> bytes:
        """Return the body of the answer to a request, at most `limit` bytes; ask again where the kept connection was closed
        meanwhile, also right after the server was met on a new one.

        Raises:
            Aborted: `stop` was called, and it is `stoppable`.
            ServerError, EngineError: the server cannot be reached, refuses, or breaks off.
        """
        met = False
        for _ in range(3):
            if self._connection is None and not met:
                self.meet(stoppable=stoppable)
                met = True
            with contextlib.suppress(_StaleConnection):
                return self._ask(method, path, body, limit, stoppable=stoppable)
        what = f"{self.shown} closes every connection"
        raise EngineError("server", what, "is it starting? go on when it is ready")

    def meet(self, *, stoppable: bool) -> None:
        """Have `on_connect` ask as it does on a new connection."""
        meet, self.on_connect = self.on_connect, None
        try:
            if meet is not None:
                meet(stoppable)
        finally:
            self.on_connect = meet

    def _ask(self, method: str, path: str, body: bytes | None, limit: int, *, stoppable: bool) -> bytes:
        self._stoppable = stoppable
        if stoppable and self.stopped:
            raise Aborted
        if self._connection is None:
            self._answered = False
            self._connection = self._made()
            self._socket = self._connection.sock
        connection = self._connection
        if stoppable and self.stopped:  # while it was made: whoever stopped it saw nothing to end
            raise Aborted
        try:
            connection.sock.settimeout(self.silence)  # the last answer left what was left of its time
            connection.response_class = partial(_Response, silence=self.silence, most=limit + _MORE)  # type: ignore[assignment]
            connection.request(method, self._whole(path), body, self._headers)
            response = connection.getresponse()
            assert isinstance(response, _Response)
            status = response.status
            data = self._read(response, limit if status == 200 else _MOST_OF_ERRORS, strict=status == 200)
        except (http.client.HTTPException, OSError) as error:
            stale, self._answered = self._answered and isinstance(error, _STALE), False
            self._let_go()
            if stoppable and self.stopped:
                raise Aborted from None
            if stale:
                raise _StaleConnection from None
            raise self.explain(error) from None
        except EngineError:
            self._let_go()
            raise
        if stoppable and self.stopped:  # an answer that was cut may look whole
            self._let_go()
            raise Aborted
        self._answered = True
        if response.will_close:
            self._let_go()
        if status != 200:
            raise self.refuse(status, data, response)
        return data

    def get(self, path: str, limit: int, *, stoppable: bool = False) -> bytes:
        return self.ask("GET", path, None, limit, stoppable=stoppable)

    def _whole(self, path: str) -> str:
        """Return a path at the server; those of OpenAI's API begin with /v1 here."""
        if not path.startswith("/v1/"):
            self._asked = path
            return self._base + path
        rest = path.removeprefix("/v1")
        self._asked = rest if self._ends_in_api else path
        return self._api + rest

    def _made(self) -> http.client.HTTPConnection:
        """Make a new connection."""
        connection = (
            http.client.HTTPConnection(self._host, self._port, timeout=CONNECT)
            if self._context is None
            else http.client.HTTPSConnection(self._host, self._port, timeout=CONNECT, context=self._context)
        )
        try:
            connection.connect()
        except ssl.SSLCertVerificationError as error:
            raise EngineError(
                "tls",
                f"the certificate of {self.shown} is not trusted: {one_line(error.verify_message, _SAID)}",
                "give its authority with ssl_cert_file, if it is your own server",
            ) from None
        except ssl.SSLError:
            raise EngineError("tls", f"{self.shown} does not speak TLS", "is it http:// instead of https://?") from None
        except OSError as error:
            if self._context is not None and connection.sock is not None:  # what is there does not answer the handshake
                raise EngineError(
                    "tls", f"{self.shown} does not answer in TLS", "is it http:// instead of https://?"
                ) from None
            raise EngineError(
                "server", f"{self.shown} cannot be reached: {_why(error)}", "is the server running, and the URL right?"
            ) from None
        connection.sock.settimeout(self.silence)
        connection.response_class = partial(_Response, silence=self.silence, most=_MORE)  # type: ignore[assignment]
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def _read(self, response: _Response, limit: int, *, strict: bool) -> bytes:
        """Read the body; more than the limit is an error if `strict`, and cut off otherwise."""
        parts: list[bytes] = []
        count = 0
        if strict and (response.length or 0) > limit:
            raise self._too_long(limit)
        while piece := response.read_some(min(_PIECE, limit + 1 - count)):
            parts.append(piece)
            count += len(piece)
            if count > limit:
                if strict:
                    raise self._too_long(limit)
                self._answered = False
                response.will_close = True
                break
        response.close()
        if response.length:  # a body that ends before its length
            raise http.client.IncompleteRead(b"", response.length)
        return b"".join(parts)

    def _too_long(self, limit: int) -> EngineError:
        return EngineError("server", f"{self.shown} answers with more than {size(limit)}", "check the URL")

    def explain(self, error: Exception) -> EngineError:
        if isinstance(error, TooSlow):
            return EngineError(
                "server", f"{self.shown} answers too slowly", "is the line down? go on when it is better"
            )
        if isinstance(error, Endless):
            return EngineError("server", f"{self.shown} answers without end", "check the URL")
        if isinstance(error, Packed):
            return EngineError(
                "server",
                f"{self.shown} answers with {read_phrase(str(error))} compression",
                "turn off compression on the server",
            )
        if isinstance(error, TimeoutError):
            return EngineError(
                "server",
                f"{self.shown} has not answered for {self.silence:g} s",
                "it may be stopped, or busy for others; go on when it answers again",
            )
        return EngineError(
            "server", f"{self.shown} broke off the connection: {_why(error)}", "is it still running? go on when it is"
        )

    def hidden(self, said: str) -> str:
        """Return a server's words without the key: some servers quote it."""
        return said.replace(self._key, _HIDDEN) if self._key else said

    def refuse(self, status: int, data: bytes, response: http.client.HTTPResponse) -> ServerError:
        location = self.hidden(response.headers.get("Location", ""))
        whole = self.hidden(data.decode("utf-8", "replace"))
        said, type_ = _complaint(whole)
        shown, told = self.shown, f": {said}" if said else ""
        if 300 <= status < 400:
            where = one_line(location.removesuffix(self._asked), _SAID) or "somewhere else"
            return ServerError("server", f"{shown} redirects to {where}", "give that URL, if you trust it", status)
        if status in (401, 403) and not self._key:
            name = self.address.name
            hint = (
                f"set key_env or key_file in [engines.{name}]"
                if name
                else ("give the engine a name: url, and key_env or key_file, in [engines.NAME] of config.toml")
            )
            wants = "wants a key" if status == 401 else "refuses access, maybe for want of a key"
            return ServerError("key", f"{shown} {wants} ({status}){told}", hint, status)
        if status in (401, 403):
            return ServerError("key", f"{shown} refuses the key ({status}){told}", "check key_env or key_file", status)
        wait = response.headers.get("Retry-After", "")
        when = f"in {int(wait)} s" if wait.isascii() and wait.isdigit() and len(wait) < 7 else "later"
        hints = {
            404: "is it a llama-server, and the path of the URL right?",
            429: f"it is busy: try again {when}",
            503: "wait until it is ready, and go on",
        }
        hint = hints.get(status, "see the server's log" if status >= 500 else "")
        return ServerError("server", f"{shown} answers {status}{told}", hint, status, type_, whole)


class EventStream:
    """The events that come over a `connection` for the request that was sent on it. Comments are signs of life, and nothing
    else. `socket` may be shut down by any thread, once the client was stopped.

    Whoever reads them says with `moved` when there was something new: without that they have an end.
    """

    def __init__(self, client: HttpClient, connection: http.client.HTTPConnection) -> None:
        self._client, self._connection = client, connection
        self.socket: socket.socket | None = connection.sock
        self._response: _Response | None = None
        self._idle = 0

    def begin(self) -> None:
        """Wait until the server begins to answer.

        Raises:
            Aborted: the client was stopped.
            EngineError: the server refuses, breaks off, or is silent.
        """
        if self._response is not None:
            return
        try:
            response = self._connection.getresponse()
            assert isinstance(response, _Response)
            self._response = response
            refused = response.status != 200
            data = response.read(_MOST_OF_ERRORS) if refused else b""
        except _BROKEN as error:
            raise self._ended(error) from None
        if refused:
            self.close()
            raise self._client.refuse(response.status, data, response)

    def moved(self) -> None:
        """Note that the reply came further with the last event."""
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
        client, rest, since, begins = self._client, b"", monotonic(), True
        try:
            self.begin()
            assert self._response is not None
            while piece := self._response.read_part(_PART):
                # An end of two characters makes an empty line more, which says nothing.
                first, *others = piece.replace(b"\r", b"\n").split(b"\n")
                *complete, rest = rest + first, *others
                for line in complete:
                    self._idle += max(len(line), _LEAST)
                    if self._idle > MOST_OF_STREAM:
                        raise Endless
                    yield (line.removeprefix(codecs.BOM_UTF8) if begins else line) + b"\n"
                    begins = False
                if complete:
                    since = monotonic()
                elif len(rest) > MOST_OF_STREAM:
                    raise Endless
                elif monotonic() - since > client.silence:
                    raise client.explain(TimeoutError())
        except http.client.IncompleteRead:
            pass
        except _BROKEN as error:
            raise self._ended(error) from None
        finally:
            self.close()
        if client.stopped:
            raise Aborted
        if rest:
            yield rest

    def close(self) -> None:
        """End it, wherever it is. It may be called twice."""
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
        return Aborted() if self._client.stopped else self._client.explain(error)


def _complaint(data: str) -> tuple[str, str]:
    """What a server says is wrong, and the type that it gives it."""
    with contextlib.suppress(BadAnswer):
        answer = read_json(data.encode())
        error = next(filter(None, (read_part(answer, name) for name in ("error", "detail", "message"))), "")
        if isinstance(error, dict):
            return _read_words(error.get("message", "")), read_text(error.get("type"))
        return _read_words(error), ""
    return "", ""


def _read_words(said: Any) -> str:
    return one_line(read_text(said if isinstance(said, str) else str(said)), _SAID)


def _why(error: Exception) -> str:
    if isinstance(error, http.client.IncompleteRead):
        return "the answer is cut off"
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return one_line(text, _SAID)
