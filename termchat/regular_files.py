"""Opens files that may turn out to be anything: what is no regular file is refused, and nothing is waited for.

A pipe that has taken a file's name would hold up whoever opens it for as long as nobody writes to it, and to open a device
may do anything. `atomic` replaces files; it refuses the same.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO, cast

PIPE = "a pipe"
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: PIPE,
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
_NEVER_WAIT = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)


class NotAFile(OSError):
    """Something else has the file's name; `kind` says what, as "a pipe"."""

    def __init__(self, path: str | Path, kind: str) -> None:
        super().__init__(errno.EINVAL, f"it is {kind}, not a regular file", str(path))
        self.kind = kind


def odd_kind(path: Path) -> str:
    """What is at the path ("a pipe"), where that is neither a regular file nor nothing; else ""."""
    try:
        return _odd(path.stat())
    except ValueError:
        return ""
    except OSError:
        return "a broken link" if path.is_symlink() else ""


def opened(path: Path, mode: str = "rb", *, buffering: int = -1, permissions: int = 0o666) -> BinaryIO:
    """As `open` does it for bytes, but regular files only; `permissions` are those of a new one, before the umask.

    Raises:
        NotAFile: it is something else.
        OSError: it cannot be opened.
    """

    def opener(name: str, flags: int) -> int:
        if os.path.exists(name):  # looked at beforehand, too, as to open a device may have effects of its own
            _check(path, os.stat(name))
        descriptor = os.open(name, flags | _NEVER_WAIT, permissions)
        try:
            _check(path, os.fstat(descriptor))
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    return cast(BinaryIO, open(path, mode, buffering, opener=opener))


def read(path: Path, most: int) -> bytes:
    """The whole file, of at most so many bytes.

    Raises:
        NotAFile: it is something else.
        OSError: it cannot be read, or is larger.
    """
    with opened(path) as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise OSError(errno.EFBIG, f"it is larger than {most >> 10} KiB", str(path))
    return data


def problem(error: OSError) -> str:
    """Why a file of our own could not be read, and what to do about what is none; for behind "PATH cannot be read: "."""
    return f"{error.strerror or error}{'; remove or replace it' if isinstance(error, NotAFile) else ''}"


def _check(path: Path, status: os.stat_result) -> None:
    if kind := _odd(status):
        raise NotAFile(path, kind)


def _odd(status: os.stat_result) -> str:
    return "" if stat.S_ISREG(status.st_mode) else _KINDS.get(stat.S_IFMT(status.st_mode), "a special file")
