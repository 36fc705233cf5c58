"""The key that a server asks for: from a variable, a keyring or a file that nobody else can read.

Nothing here says what the key is: not a message, not a log. Whoever reads one passes it to the server alone.
"""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

from termchat import regular_files
from termchat.engine.address import EngineAddress
from termchat.engine.port import EngineError

_OTHERS = 0o077
_MOST = 1 << 16
_KEY = re.compile(r"[\x21-\x7e]+")
"""What can stand in a header."""


def read_key(address: EngineAddress) -> str:
    """Return the key for a server, "" where it has none.

    Raises:
        EngineError: of kind "key": it cannot be had, or would travel unencrypted.
    """
    sources = [name for name in ("key_env", "key_file", "key_keyring") if getattr(address, name)]
    if not sources:
        return ""
    if len(sources) > 1:
        raise _refuse_key(address, f"has both {sources[0]} and {sources[1]}", "give one of them")
    if address.scheme == "http" and not address.is_loopback and not address.insecure_key:
        raise _refuse_key(
            address,
            "would get its key unencrypted over http://",
            "use https:// or an ssh tunnel, or set insecure_key = true for a network you trust",
        )
    text, place = {"key_env": _read_variable, "key_file": _read_file, "key_keyring": _read_keyring}[sources[0]](address)
    key = text.strip()
    if not _KEY.fullmatch(key):
        raise _refuse_key(
            address, f"has no valid key in {place}", "a key is one line of printable ASCII without spaces"
        )
    return key


def key_source(address: EngineAddress) -> str:
    """Return where the key of a server comes from, in words; "" where it has none."""
    places = (
        ("key_env", "the variable {}"),
        ("key_file", "the file {}"),
        ("key_keyring", "the keyring, as {}"),
    )
    return ", ".join(told.format(getattr(address, name)) for name, told in places if getattr(address, name))


def _refuse_key(address: EngineAddress, what: str, hint: str) -> EngineError:
    return EngineError("key", f"the engine {address.shown} {what}", hint)


def _read_variable(address: EngineAddress) -> tuple[str, str]:
    name = address.key_env
    if not os.environ.get(name):
        raise _refuse_key(address, f"needs a key: the variable {name} is not set", f"export {name}=…")
    return os.environ[name], f"the variable {name}"


def _read_file(address: EngineAddress) -> tuple[str, str]:
    path = Path(address.key_file).expanduser()
    try:
        with regular_files.opened(path) as file:
            if os.name == "posix" and os.fstat(file.fileno()).st_mode & _OTHERS:
                raise _refuse_key(
                    address,
                    f"has a key file that other users can open: {path}",
                    f"chmod 600 {shlex.quote(str(path))}",
                )
            data = file.read(_MOST)
    except OSError as error:
        why = regular_files.problem(error)
        raise _refuse_key(address, f"has a key file that cannot be read: {path}: {why}", "correct key_file") from None
    return data.decode("utf-8", "replace"), str(path)


def _read_keyring(address: EngineAddress) -> tuple[str, str]:
    try:
        import keyring
    except ImportError:
        raise _refuse_key(
            address, "has its key in a keyring, and the package keyring is not installed", "pip install keyring"
        ) from None
    try:
        key = keyring.get_password(address.key_keyring, address.shown)
    except Exception as error:  # noqa: BLE001 - each backend has errors of its own
        why = type(error).__name__
        raise _refuse_key(
            address, f"has its key in a keyring that cannot be read: {why}", "unlock it, and retry"
        ) from None
    if not key:
        how = f"keyring set {shlex.quote(address.key_keyring)} {shlex.quote(address.shown)}"
        raise _refuse_key(address, "has no key in the keyring", how)
    return key, "the keyring"
