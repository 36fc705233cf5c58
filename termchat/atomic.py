"""Files that are replaced in one step: whoever reads one, also after a crash, finds the old one or the new one whole."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path


def replace(file: Path, data: bytes) -> None:
    """Puts these bytes in the place of what the file holds; its folder is made if need be.

    The mode stays; a new file is nobody else's to read. Where the file is a link, what it links to is replaced.

    Raises:
        OSError: it cannot be written; what was there still is.
    """
    target = Path(os.path.realpath(file))
    target.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with open(descriptor, "wb") as written:
            written.write(data)
            written.flush()
            os.fsync(descriptor)
        with contextlib.suppress(FileNotFoundError):
            os.chmod(name, target.stat().st_mode & 0o7777)
        os.replace(name, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
