"""Where an engine is: on this machine, on another one over ssh, or behind the URL of a server."""

from __future__ import annotations

import re
from typing import Annotated, Literal, get_args
from urllib.parse import urlsplit

import msgspec

from termchat.decoding.setting import Setting

SCHEMES = ("ssh", "http", "https")
ServerKind = Literal["llama-server", "vllm", "sglang", "openai"]
"""What can answer behind a URL; "openai" is any server of its chat API, of which only texts are known."""
SIGN = "@"
"""What a model elsewhere is asked for with begins so: @lab, @lab/qwen3-8b."""
REMOTE_COMMAND = "termchat worker"
"""What ssh runs on the other machine unless an address says otherwise."""

_NETLOC = re.compile(r"(?:(?P<user>[^@]*)@)?(?P<host>\[[0-9A-Fa-f:.]+(?:%\w+)?\]|[^:@\[\]]+)(?::(?P<port>\d{1,5}))?")
_NAME = re.compile(r"[\w.+][\w.+-]*")
"""A host, or who logs in there; a leading dash would be an option of ssh."""
_UNSEEN = re.compile(r"[\x00-\x20\x7f-\xa0\u2028\u2029]")


class AddressError(ValueError):
    """Not the address of an engine. The message does not quote it: it may hold a password."""


class EngineAddress(msgspec.Struct, frozen=True):
    """Where an engine is and how to reach it: a table [engines.NAME] of the config file, or a URL. It holds no secret.

    `name` is that of the table; "" if only the URL was given.
    """

    name: str = ""
    url: Annotated[str, Setting(
        foreign=True,
        help="ssh://[USER@]HOST[:PORT] runs termchat's own worker there; http://HOST:PORT or https://… is a server",
    )] = ""  # fmt: skip
    model: Annotated[str, Setting(
        foreign=True, help="what to ask for there; a name or path of that machine. Empty leaves it to the engine",
    )] = ""  # fmt: skip
    key_env: Annotated[str, Setting(foreign=True, help="variable that holds the server's key")] = ""
    key_file: Annotated[str, Setting(
        foreign=True, help="file that holds the server's key; nobody else may open it (chmod 600)",
    )] = ""  # fmt: skip
    key_keyring: Annotated[str, Setting(
        foreign=True,
        help="service under which the keyring holds the key, for the user NAME; needs the package keyring",
    )] = ""  # fmt: skip
    insecure_key: Annotated[bool, Setting(help="send the key over http:// to another machine, unencrypted")] = False
    ssl_cert_file: Annotated[str, Setting(
        foreign=True, help="certificates of your own authority, in PEM format",
    )] = ""  # fmt: skip
    draws: Annotated[Literal["here", "server"], Setting(
        help="here: termchat draws each token, every feature works; server: the server streams, faster on slow lines",
    )] = "here"  # fmt: skip
    kind: Annotated[ServerKind | None, Setting(
        kind="choice", choices=get_args(ServerKind),
        help=f"{', '.join(get_args(ServerKind))}: which server it is, if it cannot be seen; "
        "openai takes url's path as it is",
    )] = None  # fmt: skip
    remote_command: Annotated[str, Setting(
        foreign=True, help=f"command that ssh runs there instead of {REMOTE_COMMAND}",
    )] = ""  # fmt: skip

    @property
    def shown(self) -> str:
        """The address as shown to a person."""
        return self.name or self.url or "this machine"

    def asked_as(self, model: str = "") -> str:
        """What a model of this engine is asked for with, "" being the engine's own choice."""
        return f"{SIGN}{self.shown}" + (f"/{model}" if model else "")

    @property
    def scheme(self) -> str:
        """One of `SCHEMES`; "" is this machine."""
        return self.url.partition("://")[0].lower() if self.url else ""

    @property
    def is_server(self) -> bool:
        return self.scheme in ("http", "https")

    @property
    def user(self) -> str:
        return self._part("user")

    @property
    def host(self) -> str:
        """Without the brackets of an IPv6 address."""
        return self._part("host").strip("[]")

    @property
    def port(self) -> int:
        """0 where none is given."""
        return int(self._part("port") or 0)

    @property
    def is_loopback(self) -> bool:
        """Whether requests stay on this machine."""
        return self.host.lower() in ("localhost", "::1") or re.fullmatch(r"127(?:\.\d+){3}", self.host) is not None

    def _part(self, name: str) -> str:
        found = _NETLOC.fullmatch(urlsplit(self.url).netloc) if self.url else None
        return (found[name] or "") if found else ""


HERE = EngineAddress()


def name_model(model: str) -> str:
    """Return a short name for a model of an engine elsewhere: some are called by their file."""
    return model.replace("\\", "/").rsplit("/", 1)[-1].removesuffix(".gguf") if model.endswith(".gguf") else model


def is_url(text: str) -> bool:
    """Return whether a text is meant as the URL of an engine, right or wrong, and not as a name or a path."""
    return text.partition("://")[0].lower() in SCHEMES and "://" in text


def checked_url(url: str) -> str:
    """Return the URL, without slashes at its end.

    Raises:
        AddressError: it is none of an engine.
    """
    if not is_url(url):
        raise AddressError("an engine's URL starts with ssh://, http:// or https://")
    try:
        parts = urlsplit(url)
    except ValueError:
        raise AddressError("not a URL") from None
    found, ssh = _NETLOC.fullmatch(parts.netloc), parts.scheme == "ssh"
    if "@" in parts.netloc and (not ssh or ":" in parts.netloc.rpartition("@")[0]):
        raise AddressError("a URL may not hold a password or a key" + ("" if ssh else "; use key_env or key_file"))
    if _UNSEEN.search(url) or found is None or not _is_host(found["host"], found["user"]):
        raise AddressError(f"no valid host after {parts.scheme}://")
    if found["port"] is not None and not 0 < int(found["port"]) < 65536:
        raise AddressError("the port must be from 1 to 65535")
    if parts.query or parts.fragment or "?" in url or "#" in url:
        raise AddressError("a URL of an engine takes no ? and no #; a key belongs in key_env or key_file")
    if not parts.path.isascii():
        raise AddressError("the path of a URL is ASCII; write other characters as in %C3%BC")
    if ssh and parts.path.strip("/"):
        raise AddressError("ssh:// takes no path; name the model with model, the command with remote_command")
    return url.rstrip("/")


def address_of(url: str) -> EngineAddress:
    """Return the address that a URL alone gives.

    Raises:
        AddressError: it is none.
    """
    return EngineAddress(url=checked_url(url))


def _is_host(host: str, user: str | None) -> bool:
    try:
        host.encode("idna")  # as who connects to it does
    except UnicodeError:
        return False
    return (host.startswith("[") or _NAME.fullmatch(host) is not None) and (
        user is None or _NAME.fullmatch(user) is not None
    )
