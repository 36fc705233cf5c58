"""Engines on other machines under a name: the tables `[engines.NAME]` of config.toml. A bad entry falls alone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, get_args

from termchat.config.named_tables import EntryRefused, only, valid_name
from termchat.engine.address import (
    HERE,
    REMOTE_COMMAND,
    AddressError,
    EngineAddress,
    ServerKind,
    address_of,
    checked_url,
    is_url,
)
from termchat.text import guess_of

ON_THIS_MACHINE = "here"
"""The word for the engine on this machine, where another one is configured."""
FIELDS = {
    "url": "ssh://[USER@]HOST[:PORT] runs termchat's own worker there; http://HOST:PORT or https://… is a server",
    "model": "what to ask for there; a name or path of that machine. Empty leaves it to the engine",
    "key_env": "variable that holds the server's key",
    "key_file": "file that holds the server's key; nobody else may open it (chmod 600)",
    "key_keyring": "service under which the keyring holds the key, for the user NAME; needs the package keyring",
    "insecure_key": "send the key over http:// to another machine, unencrypted",
    "ssl_cert_file": "certificates of your own authority, in PEM format",
    "draws": "here: termchat draws each token, every feature works; server: the server streams, faster on slow lines",
    "kind": f"{', '.join(get_args(ServerKind))}: which server it is, if it cannot be seen; openai takes url's path as it is",
    "remote_command": f"command that ssh runs there instead of {REMOTE_COMMAND}",
}
"""Every key of such a table, in words."""

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HOST_AND_PORT = re.compile(r"(?:[\w.-]+|\[[0-9A-Fa-f:]+\]):\d{1,5}(?:/[\w./-]*)?")
_ONLY_SSH = ("remote_command",)
_ONLY_SERVERS = ("key_env", "key_file", "key_keyring", "insecure_key", "ssl_cert_file", "draws", "kind")
_KEYS = ("key_env", "key_file", "key_keyring")


def engine_from(name: str, table: object) -> EngineAddress:
    """One table of the config file.

    Raises:
        EntryRefused: it is none of an engine; its keys lead to the mistake.
    """
    if not isinstance(table, dict):
        raise EntryRefused(f"{name} must be a table, [engines.{name}]")
    valid_name(name)
    if name == ON_THIS_MACHINE:
        raise EntryRefused(f"{name!r} stands for this machine; choose another name")
    only(table, FIELDS, [key for key in FIELDS if key != "insecure_key"])
    if not table.get("url"):
        raise EntryRefused(f"the engine {name} needs a url")
    check_values(table)
    address = EngineAddress(**{**table, "name": name, "url": checked_url(table["url"])})
    for key in _ONLY_SERVERS if address.scheme == "ssh" else _ONLY_SSH:
        if key in table:
            raise EntryRefused(f"{key} does not apply to {address.scheme}://", key)
    return address


def check_values(table: Mapping[str, Any]) -> None:
    """Whether each key that there is can have its value.

    Raises:
        EntryRefused: see `engine_from`.
    """
    try:
        if "url" in table:
            checked_url(table["url"])
    except AddressError as error:
        raise EntryRefused(f"url: {error}", "url") from error
    insecure, draws, variable = (table.get(key) for key in ("insecure_key", "draws", "key_env"))
    if insecure is not None and not isinstance(insecure, bool):
        raise EntryRefused(f"insecure_key must be true or false, not {insecure!r}", "insecure_key")
    if draws is not None and draws not in ("here", "server"):
        raise EntryRefused(f"draws must be one of here, server, not {draws!r}", "draws")
    if (kind := table.get("kind")) is not None and kind not in get_args(ServerKind):
        raise EntryRefused(f"kind must be one of {', '.join(get_args(ServerKind))}, not {kind!r}", "kind")
    if variable and not _VARIABLE.fullmatch(variable):
        # Not quoted: whoever put the key itself here must not find it in a log.
        raise EntryRefused("key_env must be the name of a variable, not the key itself", "key_env")
    given = [key for key in _KEYS if table.get(key)]
    if len(given) > 1:
        raise EntryRefused(f"give one of {' and '.join(given)}, not both", given[1])


def engine_of(wanted: str, known: Mapping[str, EngineAddress]) -> EngineAddress:
    """The engine that a person means: a name, a URL, or "" and "here" for this machine.

    Raises:
        AddressError: there is none of that name, or it is no URL of one.
    """
    if wanted in ("", ON_THIS_MACHINE):
        return HERE
    if wanted in known:
        return known[wanted]
    if is_url(wanted):
        return address_of(wanted)
    if _HOST_AND_PORT.fullmatch(wanted):
        raise AddressError(f"unknown engine {wanted!r} (did you mean http://{wanted}?)")
    names = f"; known engines: {', '.join(known)}" if known else "; [engines.NAME] in config.toml adds one"
    raise AddressError(f"unknown engine {wanted!r}{guess_of(wanted, known)}{names}")
