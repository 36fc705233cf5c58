"""What servers answer instead of a file, and what goes wrong on the way, in our words: to try again, or to give up."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING
from urllib.parse import urljoin

from termchat.models.errors import ModelError
from termchat.models.hub import Hub, origin, shown

if TYPE_CHECKING:  # see `web`
    import httpx

CONNECT_SECONDS = 15.0
SILENT_SECONDS = 30.0
"""So long a server may say nothing before the connection counts as lost."""
_WORTH_A_RETRY = frozenset({408, 425, 429, 500, 502, 503, 504})
_NO_NAME = ("Name or service not known", "in name resolution", "nodename nor servname", "getaddrinfo failed")
"""What the systems say of a host that cannot be looked up."""
_ERRNO = re.compile(r"^\[Errno -?\d+\] ")
_TAKEN = frozenset({200, 206, 416})


class Later(Exception):
    """It went wrong in a way that may pass. `wait` is for how many seconds the server asks, if it does."""

    def __init__(self, reason: str, wait: float | None = None) -> None:
        super().__init__(reason)
        self.reason, self.wait = reason, wait


def redirected(url: str, location: str) -> str:
    """Where a redirect leads.

    Raises:
        ModelError: out of the encrypted, or to no address.
    """
    target = urljoin(url, location)
    if origin(url)[0] == "https" and origin(target)[0] != "https":
        raise ModelError(f"{shown(url)} redirects to {shown(target)}, which is not encrypted", "Check the address.")
    return target


def check(response: httpx.Response, url: str, hub: Hub) -> None:
    """Passes what has the file in it.

    Raises:
        Later: the server is busy or broken.
        ModelError: it says no.
    """
    status, place = response.status_code, shown(url)
    if status in _WORTH_A_RETRY:
        what = "asks to wait" if status == 429 else f"is in trouble ({status} {response.reason_phrase})"
        raise Later(f"{origin(url)[1]} {what}", _retry_after(response.headers.get("retry-after", "")))
    if status in (401, 403):
        at_hub = origin(url) == origin(hub.endpoint)
        sign_in = "Accept its licence on the hub" + (
            "; the token of HF_TOKEN must have access." if hub.token else ", and set HF_TOKEN to a token of yours."
        )
        raise ModelError(f"{place} is not for everyone ({status})", sign_in if at_hub else "Check the address.")
    if status in (404, 410):
        raise ModelError(f"there is no {place} ({status})", "Check how it is written.")
    if status not in _TAKEN:
        raise ModelError(f"{place} cannot be had: {status} {response.reason_phrase}", "Check the address.")
    if response.headers.get("content-encoding", "identity").lower() != "identity":
        raise ModelError(f"{place} comes compressed, which was not asked for", "Download it with another program.")


def _retry_after(text: str) -> float | None:
    """Seconds, from a number or a date."""
    if (seconds := count(text.strip())) is not None:
        return float(seconds)
    try:
        date = parsedate_to_datetime(text)
    except ValueError:
        return None
    return max(0.0, (date.replace(tzinfo=date.tzinfo or UTC) - datetime.now(UTC)).total_seconds())


def told(error: Exception, url: str) -> Exception:
    """An exception of httpx as one of ours; httpx's own words can hold headers, and so the token."""
    import httpcore
    import httpx

    host = url.partition("://")[2].partition("/")[0].rpartition("@")[2]
    match error:
        case ModelError() | Later():
            return error
        case httpx.ConnectError() if "CERTIFICATE_VERIFY_FAILED" in str(error):
            return ModelError(f"{host} cannot prove who it is: {error}", "If a proxy is in between, set SSL_CERT_FILE.")
        case httpx.ConnectTimeout():
            return Later(f"{host} did not answer in {CONNECT_SECONDS:.0f} s")
        case httpx.ConnectError():
            return Later(f"no connection to {host}: {_why(str(error))}")
        case httpx.TimeoutException() | httpcore.TimeoutException():
            return Later(f"nothing came for {SILENT_SECONDS:.0f} s")
        case httpx.LocalProtocolError() | httpx.UnsupportedProtocol() | httpx.InvalidURL():
            return ModelError(f"{shown(url)} cannot be asked for", "Check the address.")
        case httpx.TransportError() | httpcore.NetworkError() | OSError():
            return Later("the connection was lost")
    return error


def _why(said: str) -> str:
    """Why there is no connection, without the numbers of the system."""
    if any(words in said for words in _NO_NAME):
        return "its name cannot be found; is this machine online?"
    return _ERRNO.sub("", said)


def count(text: str) -> int | None:
    """A number of a header; None if it is none."""
    return int(text) if text.isdecimal() and text.isascii() and len(text) < 19 else None
