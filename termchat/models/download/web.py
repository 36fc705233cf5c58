"""HTTP: one GET at a time, in a thread of its own, so that whoever waits for it can stop waiting at any moment.

Redirects are followed here and not by httpx: at each address it is decided anew what it may be sent. Answers and errors are
sorted into those worth another try (`Later`) and those that are final (`ModelError`).
"""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from queue import Empty, Full, Queue
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urljoin

from termchat import __version__
from termchat.models.download.hub import Hub, offline, origin, shown
from termchat.models.errors import ModelError

if TYPE_CHECKING:
    import httpx


CONNECT_SECONDS = 15.0
SILENT_SECONDS = 30.0
"""So long a server may say nothing before the connection counts as lost."""
_WORTH_A_RETRY = frozenset({408, 425, 429, 500, 502, 503, 504})
_NO_NAME = ("Name or service not known", "in name resolution", "nodename nor servname", "getaddrinfo failed")
"""What the systems say of a host that cannot be looked up."""
_ERRNO = re.compile(r"^\[Errno -?\d+\] ")
_TAKEN = frozenset({200, 206, 416})


READ = 1 << 19
"""Most bytes taken from the network at once; more no longer fits the caches of a processor."""
CHUNK = 1 << 17
"""Fewest bytes handed over at once where they come fast: a hand-over costs as much as hashing a tenth of it."""
_AHEAD = 16
"""Chunks the network may be ahead of the disk."""
_LOOK_AGAIN = 0.1
_MOST_HOPS = 10
_MOST_TOLD = 16 << 20
"""Bytes of an answer that is read whole; repositories of hundreds of files take a tenth."""
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_SHA256 = re.compile(r'^(?:W/)?"?([0-9a-f]{64})"?$')


class Later(Exception):
    """A failure that may pass. `wait` is for how many seconds the server asks, if it does."""

    def __init__(self, reason: str, wait: float | None = None) -> None:
        super().__init__(reason)
        self.reason, self.wait = reason, wait


def redirected(url: str, location: str) -> str:
    """Raises:
    ModelError: it leads out of the encrypted, or to no address.
    """
    target = urljoin(url, location)
    if origin(url)[0] == "https" and origin(target)[0] != "https":
        raise ModelError(f"{shown(url)} redirects to {shown(target)}, which is not encrypted", "Check the address.")
    return target


def check(response: httpx.Response, url: str, hub: Hub) -> None:
    """Returns for an answer that has the file in it.

    Raises:
        Later: the server is busy or broken.
        ModelError: it says no.
    """
    status, place = response.status_code, shown(url)
    if status in _WORTH_A_RETRY:
        what = (
            "is rate limiting requests"
            if status == 429
            else f"reports a server error ({status} {response.reason_phrase})"
        )
        raise Later(f"{origin(url)[1]} {what}", _retry_after(response.headers.get("retry-after", "")))
    if status in (401, 403):
        at_hub = origin(url) == origin(hub.endpoint)
        sign_in = "Accept its license on the hub" + (
            "; the token in HF_TOKEN must have access." if hub.token else ", and set HF_TOKEN to your access token."
        )
        raise ModelError(f"access to {place} is restricted ({status})", sign_in if at_hub else "Check the address.")
    if status in (404, 410):
        raise ModelError(f"{place} does not exist ({status})", "Check the spelling.")
    if status not in _TAKEN:
        raise ModelError(f"cannot download {place}: {status} {response.reason_phrase}", "Check the address.")
    if response.headers.get("content-encoding", "identity").lower() != "identity":
        raise ModelError(
            f"{place} was sent compressed although termchat did not ask for that", "Download it with another program."
        )


def _retry_after(text: str) -> float | None:
    """Seconds, from a number or a date; None if it is neither."""
    if (seconds := count(text.strip())) is not None:
        return float(seconds)
    try:
        date = parsedate_to_datetime(text)
    except ValueError:
        return None
    return max(0.0, (date.replace(tzinfo=date.tzinfo or UTC) - datetime.now(UTC)).total_seconds())


def told(error: Exception, url: str) -> Exception:
    """An exception of httpx as one of ours; httpx's own message can contain headers, and so the token."""
    import httpcore
    import httpx

    host = url.partition("://")[2].partition("/")[0].rpartition("@")[2]
    match error:
        case ModelError() | Later():
            return error
        case httpx.ConnectError() if "CERTIFICATE_VERIFY_FAILED" in str(error):
            return ModelError(
                f"the certificate of {host} could not be verified: {error}",
                "If you are behind a proxy, set SSL_CERT_FILE.",
            )
        case httpx.ConnectTimeout():
            return Later(f"{host} did not answer in {CONNECT_SECONDS:.0f} s")
        case httpx.ConnectError():
            return Later(f"cannot connect to {host}: {_why(str(error))}")
        case httpx.TimeoutException() | httpcore.TimeoutException():
            return Later(f"no data received for {SILENT_SECONDS:.0f} s")
        case httpx.LocalProtocolError() | httpx.UnsupportedProtocol() | httpx.InvalidURL():
            return ModelError(f"{shown(url)} cannot be requested", "Check the address.")
        case httpx.TransportError() | httpcore.NetworkError() | OSError():
            return Later("the connection was lost")
    return error


def _why(said: str) -> str:
    """Why there is no connection, without the system's error number."""
    if any(words in said for words in _NO_NAME):
        return "host name not found; is this machine online?"
    return _ERRNO.sub("", said)


def count(text: str) -> int | None:
    """Of a header; None if it is no number."""
    return int(text) if text.isdecimal() and text.isascii() and len(text) < 19 else None


class WebReply(NamedTuple):
    """What a server answered before the body. `sha256` and `size` are what the hub says of the file on the way to it."""

    status: int
    headers: Mapping[str, str]
    sha256: str
    size: int | None


class HttpExchange:
    """One GET that is under way. Close it when done with it, early or not.

    `poll` is called about ten times a second while nothing comes, and ends the wait by raising.
    """

    def __init__(
        self, client: httpx.Client, hub: Hub, url: str, headers: Mapping[str, str], poll: Callable[[], None]
    ) -> None:
        self._client, self._hub, self._url, self._headers, self._poll = client, hub, url, headers, poll
        self._came: Queue[WebReply | bytes | Exception | None] = Queue(_AHEAD)
        self._at = url
        self._left = threading.Event()
        self._socket: socket.socket | None = None
        self._thread = threading.Thread(target=self._run, name="pull", daemon=True)
        self._thread.start()

    def reply(self) -> WebReply:
        """Status 200, 206 or 416.

        Raises:
            Later: the server may answer better another time.
            ModelError: it will not.
        """
        came = self._next()
        assert isinstance(came, WebReply)
        return came

    def chunks(self) -> Iterator[bytes]:
        """Raises:
        Later: the connection was lost.
        """
        while isinstance(came := self._next(), bytes):
            yield came

    def close(self) -> None:
        self._left.set()
        if self._socket is not None and self._thread.is_alive():
            with suppress(OSError):  # it wakes the thread, which may be waiting for more
                self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(1)

    def _next(self) -> WebReply | bytes | None:
        while True:
            try:
                came = self._came.get(timeout=_LOOK_AGAIN)
            except Empty:
                self._poll()
                continue
            if isinstance(came, Exception):
                raise came
            return came

    def _run(self) -> None:
        try:
            self._follow()
        except Exception as error:  # noqa: BLE001 (whoever waits gets it)
            self._give(told(error, self._at))

    def _follow(self) -> None:
        sha256, size = "", None
        for _ in range(_MOST_HOPS):
            url = self._at
            headers = {**self._headers, **self._hub.headers(url)}
            with self._client.stream("GET", url, headers=headers) as response:
                if origin(url) == origin(self._hub.endpoint):
                    found = _SHA256.match(response.headers.get("x-linked-etag", ""))
                    sha256 = found[1] if found else sha256
                    size = count(response.headers.get("x-linked-size", "")) or size
                if response.status_code in _REDIRECTS and "location" in response.headers:
                    self._at = redirected(url, response.headers["location"])
                    continue
                check(response, url, self._hub)
                self._socket = response.extensions["network_stream"].get_extra_info("socket")
                self._give(WebReply(response.status_code, response.headers, sha256, size))
                self._body(response)
                return
        raise ModelError(f"{shown(self._url)} redirects more than {_MOST_HOPS} times", "Check the address.")

    def _body(self, response: httpx.Response) -> None:
        gathered: list[bytes] = []
        length, begun = 0, monotonic()
        try:
            for piece in _pieces(response):
                gathered.append(piece)
                length += len(piece)
                if length >= CHUNK or monotonic() - begun > _LOOK_AGAIN:
                    if not self._give(b"".join(gathered)):
                        return
                    gathered, length, begun = [], 0, monotonic()
        finally:  # what came before the connection broke counts
            if gathered:
                self._give(b"".join(gathered))
        self._give(None)

    def _give(self, came: WebReply | bytes | Exception | None) -> bool:
        """False once nobody waits any more."""
        while not self._left.is_set():
            try:
                self._came.put(came, timeout=_LOOK_AGAIN)
            except Full:
                continue
            return True
        return False


class Web:
    """The network as downloads use it: one hub, one set of connections, made when first needed. Close it when done.

    Raises:
        ModelError: what the environment says of the hub cannot be used.
    """

    def __init__(self, poll: Callable[[], None]) -> None:
        self.hub = Hub.from_environment()
        self._poll = poll
        self._made: httpx.Client | None = None

    def get(self, url: str, headers: Mapping[str, str] | None = None) -> HttpExchange:
        """Raises:
        ModelError: the environment forbids the network, or what it says of proxies or certificates cannot be used.
        """
        if variable := offline():
            raise ModelError(f"{variable} is set, so termchat stays offline", f"Unset {variable} to go online.")
        return HttpExchange(self._client(), self.hub, url, headers or {}, self._poll)

    def read(self, url: str) -> bytes:
        """A short answer, whole.

        Raises:
            Later: it may be had another time.
            ModelError: it cannot be had, or is not short.
        """
        exchange = self.get(url)
        try:
            exchange.reply()
            answer = b""
            for chunk in exchange.chunks():
                answer += chunk
                if len(answer) > _MOST_TOLD:
                    raise ModelError(f"the response from {shown(url)} is unreasonably long", "Check the address.")
            return answer
        finally:
            exchange.close()

    def close(self) -> None:
        if self._made is not None:
            self._made.close()

    def _client(self) -> httpx.Client:
        if self._made is None:
            import httpx

            try:
                self._made = httpx.Client(
                    timeout=httpx.Timeout(SILENT_SECONDS, connect=CONNECT_SECONDS),
                    headers={"User-Agent": f"termchat/{__version__}", "Accept-Encoding": "identity"},
                )
            except (ValueError, OSError, ImportError) as error:
                raise ModelError(
                    f"cannot set up a connection: {error}", "Check HTTPS_PROXY and SSL_CERT_FILE."
                ) from error
        return self._made


def _pieces(response: httpx.Response) -> Iterator[bytes]:
    """The body as it comes.

    httpx passes on 64 KiB at a time and copies each more than once, which takes longer than network, disk and hash together
    where all are fast. A body of a known length is as plain on the wire, so after httpx's first piece, which is all it has
    read so far, the rest is taken from the connection itself. Its length shows whether that holds.
    """
    body = response.iter_raw()
    first = next(body, b"")
    yield first
    length = count(response.headers.get("content-length", ""))
    if length is None or "transfer-encoding" in response.headers or not response.http_version.startswith("HTTP/1"):
        yield from body
        return
    stream = response.extensions["network_stream"]
    left = length - len(first)
    while left > 0:
        piece = stream.read(min(left, READ), SILENT_SECONDS)
        if not piece:
            raise Later("the connection was lost")
        left -= len(piece)
        yield piece
