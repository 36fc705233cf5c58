"""Engines on other machines under a name: the tables `[engines.NAME]` of config.toml. A bad entry falls alone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from termchat.config.named_tables import EntryRefused, check_keys, check_name
from termchat.decoding.setting import SettingError, declared
from termchat.engine.address import (
    HERE,
    AddressError,
    EngineAddress,
    address_of,
    checked_url,
    is_url,
)
from termchat.text import guess_of

ON_THIS_MACHINE = "here"
"""The word for the engine on this machine, where another one is configured."""
FIELDS = declared(EngineAddress)
"""Every key of such a table."""

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HOST_AND_PORT = re.compile(r"(?:[\w.-]+|\[[0-9A-Fa-f:]+\]):\d{1,5}(?:/[\w./-]*)?")
_ONLY_SSH = ("remote_command",)
_ONLY_SERVERS = ("key_env", "key_file", "key_keyring", "insecure_key", "ssl_cert_file", "draws", "kind")
_KEYS = ("key_env", "key_file", "key_keyring")


def engine_from(name: str, table: object) -> EngineAddress:
    """Read one table of the config file.

    Raises:
        EntryRefused: it is no engine; its keys lead to the mistake.
    """
    if not isinstance(table, dict):
        raise EntryRefused(f"{name} must be a table, [engines.{name}]")
    check_name(name)
    if name == ON_THIS_MACHINE:
        raise EntryRefused(f"{name!r} stands for this machine; choose another name")
    check_keys(table, FIELDS, ())
    if not table.get("url"):
        raise EntryRefused(f"the engine {name} needs a url")
    values = check_values(table)
    address = EngineAddress(**{**values, "name": name, "url": checked_url(values["url"])})
    for key in _ONLY_SERVERS if address.scheme == "ssh" else _ONLY_SSH:
        if key in values:
            raise EntryRefused(f"{key} does not apply to {address.scheme}://", key)
    return address


def check_values(table: Mapping[str, object]) -> dict[str, Any]:
    """Check the values of known keys; return them in their own types.

    Raises:
        EntryRefused: see `engine_from`.
    """
    values: dict[str, Any] = {}
    for key, value in table.items():
        try:
            values[key] = FIELDS[key].check(value)
            if key == "url":
                checked_url(values[key])
        except SettingError as error:
            raise EntryRefused(str(error), key) from error
        except AddressError as error:
            raise EntryRefused(f"url: {error}", key) from error
    if (variable := values.get("key_env")) and not _VARIABLE.fullmatch(variable):
        # Not quoted: whoever put the key itself here must not find it in a log.
        raise EntryRefused("key_env must be the name of a variable, not the key itself", "key_env")
    keys = [key for key in _KEYS if values.get(key)]
    if len(keys) > 1:
        raise EntryRefused(f"give one of {' and '.join(keys)}, not both", keys[1])
    return values


def engine_of(wanted: str, known: Mapping[str, EngineAddress]) -> EngineAddress:
    """Resolve the name or the URL of an engine; "" and "here" are this machine.

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
