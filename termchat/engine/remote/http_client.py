"""One kept-alive HTTP connection to one server, and one beside it for an answer that is streamed. What goes wrong is an
`EngineError` that says what to do.

No redirect is followed: it could take a key, or a chat, to somebody else. Proxies from the environment are not used. Answers
are read up to a limit, and have to come steadily (`steady_response`).
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from termchat.engine.address import EngineAddress
from termchat.engine.llama.cells import Aborted
from termchat.engine.port import EngineError
from termchat.engine.remote.event_stream import Caller, EventStream
from termchat.engine.remote.server_answers import BadAnswer, read_json, read_part, read_phrase, read_text
from termchat.engine.remote.steady_response import Endless, Packed, SteadyResponse, TooSlow
from termchat.text import one_line, size

CONNECT = 5.0
"""Seconds until a connection must be there."""
SILENCE = 120.0
"""Seconds in which a server must begin to answer: others may be in front of us."""
_PIECE = 1 << 18
_MOST_OF_ERRORS = 1 << 16
_MOST_OF_HEAD = 1 << 18
_SAID = 300
"""Characters of a server's own words that are told."""
_HIDDEN = "(the key)"


class ServerError(EngineError):
    """The server refused: its `status`, the `type` that it gave the error, and all that it `said`."""

    def __init__(self, kind: str, message: str, hint: str, status: int = 0, type: str = "", said: str = "") -> None:
        super().__init__(kind, message, hint)
        self.status, self.type, self.said = status, type, said


class StaleConnection(Exception):
    """The server had closed the kept connection before this request; nothing was answered."""


class HttpClient:
    """A connection to the server at `address`, made when it is needed; `key` goes with every request to it.

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
        self._address, self._silence = address, silence
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
        self._answered = self._stopped = self._stoppable = False

    def _trusting(self) -> ssl.SSLContext:
        file = self._address.ssl_cert_file
        try:
            return ssl.create_default_context(cafile=Path(file).expanduser() if file else None)
        except (OSError, RuntimeError, ssl.SSLError) as error:
            raise EngineError("tls", f"ssl_cert_file cannot be read: {file}: {_why(error)}", "correct it") from None

    @property
    def connected(self) -> bool:
        return self._connection is not None

    def stop(self) -> None:
        """Ends the request that is under way if it can be stopped, and every later one of those until `go_on`."""
        self._stopped = True
        stream, found = self._stream, self._socket
        for open_ in (found if self._stoppable else None, None if stream is None else stream.socket):
            if open_ is not None:
                with contextlib.suppress(OSError):
                    # TLS's own shutdown takes the encryption off first, while a request may be on its way in another thread.
                    socket.socket.shutdown(open_, socket.SHUT_RDWR)

    def go_on(self) -> None:
        self._stopped = False

    def close(self) -> None:
        self._let_go()
        if self._stream is not None:
            self._stream.close()

    def _let_go(self) -> None:
        """Closes the kept connection."""
        connection, self._connection, self._socket = self._connection, None, None
        if connection is not None:
            connection.close()

    def stream(self, path: str, body: bytes) -> EventStream:
        """The events that answer a POST as they come, on a connection of their own: servers close it afterwards, whatever they
        say. It can be stopped, and to close it ends it, too. There is one at a time: an earlier one is closed.

        Raises:
            Aborted, ServerError, EngineError: as `ask`.
        """
        if self._stopped:
            raise Aborted
        if self._stream is not None:
            self._stream.close()
        connection = self._made()
        self._limit(connection, _MOST_OF_ERRORS)
        caller = Caller(lambda: self._stopped, self._silence, self._broken, self._refused)
        stream = self._stream = EventStream(caller, connection)
        try:
            connection.request("POST", self._whole(path), body, self._headers | {"Accept": "text/event-stream"})
            if self._stopped:  # maybe before there was something to end
                raise Aborted
        except Aborted:
            stream.close()
            raise
        except (http.client.HTTPException, OSError) as error:
            stream.close()
            if self._stopped:
                raise Aborted from None
            raise self._broken(error) from None
        return stream

    def ask(self, method: str, path: str, body: bytes | None, limit: int, *, stoppable: bool = False) -> bytes:
        """The body of the answer to a request, at most `limit` bytes.

        Raises:
            StaleConnection: ask again.
            Aborted: `stop` was called, and it is `stoppable`.
            ServerError, EngineError: the server cannot be reached, refuses, or breaks off.
        """
        self._stoppable = stoppable
        if stoppable and self._stopped:
            raise Aborted
        connection = self._connected()
        if stoppable and self._stopped:  # while it was made: whoever stopped it saw nothing to end
            raise Aborted
        self._limit(connection, limit + _MOST_OF_ERRORS)
        try:
            connection.request(method, self._whole(path), body, self._headers)
            response = connection.getresponse()
            assert isinstance(response, SteadyResponse)
            status = response.status
            data = self._read(response, limit if status == 200 else _MOST_OF_ERRORS, strict=status == 200)
        except (http.client.HTTPException, OSError) as error:
            stale, self._answered = self._answered and _is_stale(error), False
            self._let_go()
            if stoppable and self._stopped:
                raise Aborted from None
            if stale:
                raise StaleConnection from None
            raise self._broken(error) from None
        except EngineError:
            self._let_go()
            raise
        if stoppable and self._stopped:  # an answer that was cut may look whole
            self._let_go()
            raise Aborted
        self._answered = True
        if response.will_close:
            self._let_go()
        if status != 200:
            raise self._refused(status, data, response)
        return data

    def get(self, path: str, limit: int, *, stoppable: bool = False) -> bytes:
        """Return the answer to a GET, asking once more if the server closed the kept connection meanwhile.

        Raises:
            Aborted, ServerError, EngineError: as `ask`.
        """
        for _ in range(2):
            with contextlib.suppress(StaleConnection):
                return self.ask("GET", path, None, limit, stoppable=stoppable)
        raise self.closing_error()

    def closing_error(self) -> EngineError:
        return EngineError("server", f"{self.shown} closes every connection", "is it starting? go on when it is ready")

    def _whole(self, path: str) -> str:
        """A path at the server; those of OpenAI's API begin with /v1 here."""
        if not path.startswith("/v1/"):
            self._asked = path
            return self._base + path
        rest = path.removeprefix("/v1")
        self._asked = rest if self._ends_in_api else path
        return self._api + rest

    def _connected(self) -> http.client.HTTPConnection:
        if self._connection is not None:
            return self._connection
        self._answered = False
        connection = self._connection = self._made()
        self._socket = connection.sock
        return connection

    def _limit(self, connection: http.client.HTTPConnection, most: int) -> None:
        """The body of the next answer has so many bytes at most."""
        connection.response_class = partial(  # type: ignore[assignment]
            SteadyResponse, silence=self._silence, most=most + _MOST_OF_HEAD
        )

    def _made(self) -> http.client.HTTPConnection:
        """A new connection."""
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
        connection.sock.settimeout(self._silence)
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def _read(self, response: SteadyResponse, limit: int, *, strict: bool) -> bytes:
        """The body; what is beyond the limit is an error if `strict`, and cut off otherwise."""
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

    def _broken(self, error: Exception) -> EngineError:
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
                f"{self.shown} has not answered for {self._silence:g} s",
                "it may be stopped, or busy for others; go on when it answers again",
            )
        return EngineError(
            "server", f"{self.shown} broke off the connection: {_why(error)}", "is it still running? go on when it is"
        )

    def hidden(self, said: str) -> str:
        """What the server says is wrong, without the key: some servers quote it."""
        return said.replace(self._key, _HIDDEN) if self._key else said

    def _refused(self, status: int, data: bytes, response: http.client.HTTPResponse) -> ServerError:
        location = self.hidden(response.headers.get("Location", ""))
        whole = self.hidden(data.decode("utf-8", "replace"))
        said, type_ = _complaint(whole)
        shown, told = self.shown, f": {said}" if said else ""
        if 300 <= status < 400:
            where = one_line(location.removesuffix(self._asked), _SAID) or "somewhere else"
            return ServerError("server", f"{shown} redirects to {where}", "give that URL, if you trust it", status)
        if status in (401, 403) and not self._key:
            name = self._address.name
            hint = (
                f"set key_env or key_file in [engines.{name}]"
                if name
                else ("give the engine a name: url, and key_env or key_file, in [engines.NAME] of config.toml")
            )
            wants = "wants a key" if status == 401 else "refuses access, maybe for want of a key"
            return ServerError("key", f"{shown} {wants} ({status}){told}", hint, status)
        if status in (401, 403):
            return ServerError("key", f"{shown} refuses the key ({status}){told}", "check key_env or key_file", status)
        hints = {
            404: "is it a llama-server, and the path of the URL right?",
            429: f"it is busy: try again {_when(response.headers.get('Retry-After', ''))}",
            503: "wait until it is ready, and go on",
        }
        hint = hints.get(status, "see the server's log" if status >= 500 else "")
        return ServerError("server", f"{shown} answers {status}{told}", hint, status, type_, whole)


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


def _when(seconds: str) -> str:
    """When to try again, as a server says it."""
    return f"in {int(seconds)} s" if seconds.isascii() and seconds.isdigit() and len(seconds) < 7 else "later"


def _is_stale(error: Exception) -> bool:
    return isinstance(error, (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError))


def _why(error: Exception) -> str:
    if isinstance(error, http.client.IncompleteRead):
        return "the answer is cut off"
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return one_line(text, _SAID)
