"""Files that are replaced in one step: whoever reads one, also after a crash, finds the old one or the new one whole.

A writer that is killed leaves a hidden file beside it (`.NAME.*.part`) and nothing else; `sweep` removes those.
"""

from __future__ import annotations

import contextlib
import glob
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from termchat import regular_files

_NAME = 60
"""Characters of the file's name in that of the temporary one: any file system takes the bytes of so many."""


@contextlib.contextmanager
def writing(file: Path, *, overwrite: bool = True) -> Iterator[BinaryIO]:
    """What is written to the stream takes the place of `file` when the context ends without an error.

    The file's folder must exist. The mode stays; only its owner can read a new file. Of a link, the target is replaced.

    Raises:
        FileExistsError: with `overwrite` False, there is such a file by now.
        OSError: it cannot be written, or is no regular file, as /dev/null; what was there still is.
    """
    target = Path(os.path.realpath(file))
    if kind := regular_files.odd_kind(target):
        raise regular_files.NotAFile(target, kind)
    descriptor, name = tempfile.mkstemp(prefix=_prefix(target), suffix=".part", dir=target.parent)
    try:
        with open(descriptor, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(descriptor)
        with contextlib.suppress(FileNotFoundError):
            os.chmod(name, target.stat().st_mode & 0o7777)
        if overwrite or not _linked(name, target):
            os.replace(name, target)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(name)


def replace(file: Path, data: bytes) -> None:
    """Puts these bytes in the place of the file's content (see `writing`); its folder is made if need be.

    Raises:
        OSError: it cannot be written; what was there still is.
    """
    Path(os.path.realpath(file)).parent.mkdir(parents=True, exist_ok=True)
    with writing(file) as stream:
        stream.write(data)


def sweep(file: Path) -> None:
    """Removes what killed writers of this file left behind. Nobody else may be writing it."""
    for left in file.parent.glob(f"{glob.escape(_prefix(file))}*.part"):
        with contextlib.suppress(OSError):
            left.unlink()


def _prefix(file: Path) -> str:
    return f".{file.name[:_NAME]}."


def _linked(name: str, target: Path) -> bool:
    """Gives the file its name unless that is taken; False where the file system has no links."""
    try:
        os.link(name, target)
    except FileExistsError:
        raise
    except OSError:
        if target.exists():
            raise FileExistsError(target) from None
        return False
    return True
