"""Models that were opened by their paths, outside of all folders that are searched: lists and names find them again."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import msgspec

from termchat import atomic, paths, regular_files

MOST = 50
"""Paths that are remembered, the newest first."""
_LARGEST = 1 << 20


def opened_paths() -> list[Path]:
    """Return the remembered paths, the newest first, whether or not the files are still there."""
    with contextlib.suppress(OSError, msgspec.DecodeError):
        texts = msgspec.json.decode(regular_files.read(paths.opened_models_file(), _LARGEST), type=list[str])
        return [Path(text) for text in texts if text and "\0" not in text]
    return []


def remember(path: Path) -> None:
    """Remember a model's (first) file; where that cannot be written, it is forgotten."""
    path = Path(os.path.abspath(path))
    known = opened_paths()
    if known[:1] == [path]:
        return
    texts = [str(one) for one in (path, *(one for one in known if one != path))][:MOST]
    with contextlib.suppress(OSError, UnicodeEncodeError):  # a name that is no Unicode
        atomic.replace(paths.opened_models_file(), msgspec.json.encode(texts))
