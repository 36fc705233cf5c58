"""Names from the net that become names on disk: only such as stay in the folder they are put into, on any system."""

from __future__ import annotations

from pathlib import PurePosixPath

from termchat.models.errors import ModelError
from termchat.text import sanitize

_LONGEST = 240
"""Bytes of one name; file systems take 255, and a download adds an ending of its own."""
_FORBIDDEN = frozenset('\\:*?"<>|')
_RESERVED = frozenset({"CON", "PRN", "AUX", "NUL", *(f"{port}{n}" for port in ("COM", "LPT") for n in range(1, 10))})


def checked(path: str) -> PurePosixPath:
    """A relative path whose parts are separated by /.

    Raises:
        ModelError: it would lead out of the folder, or some system cannot have a file of that name.
    """
    for name in path.split("/"):
        if why := _wrong(name):
            raise ModelError(
                f"{path!r} cannot be the name of a file here: {why}", "Ask whoever shares it to rename it."
            )
    return PurePosixPath(path)


def _wrong(name: str) -> str:
    """Why a name is refused; "" if it is not."""
    if name in ("", ".", ".."):
        return "it leads out of its folder"
    if sanitize(name, keep="") != name:
        return "it holds control or invisible characters"
    if found := sorted(_FORBIDDEN.intersection(name)):
        return f"it holds {' '.join(found)}"
    if name[-1] in " .":
        return "it ends in a space or a dot"
    if name.split(".")[0].rstrip().upper() in _RESERVED:
        return "Windows keeps that name for a device"
    if len(name.encode()) > _LONGEST:
        return f"it is longer than {_LONGEST} bytes"
    return ""
