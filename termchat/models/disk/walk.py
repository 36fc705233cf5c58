"""Goes through a folder of somebody else's and groups what may be a model, whatever the tree holds.

Links are followed, each folder is entered once, and depth and number are bounded: loops, folders that may not be read and
files that vanish meanwhile cost nothing more than a word.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from termchat import regular_files
from termchat.models.entry import PART, SUFFIX, parts

MAX_DEPTH = 12
MAX_ENTRIES = 200_000
"""Most names looked at under one folder, files and folders together."""

_UNFINISHED = (".incomplete", ".part", ".partial", ".download", ".downloadinprogress", ".crdownload", ".tmp")
_UNFINISHED_START = "incomplete-"
_NO_MODELS = ("datasets--", "spaces--", ".git")
"""Beginnings of folders that are never entered; in a Hugging Face cache data sets may have millions of files."""


class CandidateFile(NamedTuple):
    """Files that together may be a model: one, or the parts of a set in order. `size` in bytes, `modified` in seconds since
    1970, `identity` that of the first file (links followed)."""

    files: tuple[Path, ...]
    size: int
    modified: float
    identity: tuple[int, int]


class RefusedFile(NamedTuple):
    """A file or folder that is skipped, and why."""

    path: Path
    reason: str


def walk(root: Path, *, inner: bool = True) -> Iterator[CandidateFile | RefusedFile]:
    """The candidates in a folder, and in its `inner` ones, in the order of names."""
    entered: set[tuple[int, int]] = set()
    waiting = [(root, 0)]
    left = MAX_ENTRIES
    while waiting:
        folder, depth = waiting.pop()
        try:
            status = folder.stat()
            identity = (status.st_dev, status.st_ino)
            if identity in entered:
                continue
            entered.add(identity)
            with os.scandir(folder) as scan:
                names = sorted((entry.name, _is_folder(entry)) for entry in scan)
        except (OSError, ValueError) as error:
            yield RefusedFile(folder, f"cannot be read: {getattr(error, 'strerror', error)}")
            continue
        left -= len(names)
        if left < 0:
            yield RefusedFile(folder, f"too many files under {root}: stopped after {MAX_ENTRIES}")
            return
        yield from _files(folder, [name for name, is_folder in names if not is_folder])
        folders = [folder / name for name, is_folder in names if is_folder and not name.startswith(_NO_MODELS)]
        if not inner:
            return
        if folders and depth >= MAX_DEPTH:
            yield RefusedFile(folder, f"is {depth} folders deep; its subfolders were not searched")
            continue
        waiting.extend((path, depth + 1) for path in reversed(folders))


def candidate(files: tuple[Path, ...]) -> CandidateFile | RefusedFile:
    """Refused unless all of them are non-empty files."""
    sizes = []
    first = None
    for path in files:
        try:
            status = path.stat()
        except FileNotFoundError:
            link = path.is_symlink()
            return RefusedFile(path, "is a broken link" if link else "does not exist")
        except OSError as error:
            return RefusedFile(path, f"cannot be accessed: {error.strerror}")
        if kind := regular_files.odd_kind(path):
            return RefusedFile(path, f"is {kind}, not a regular file")
        if status.st_size == 0:
            return RefusedFile(path, "is empty")
        sizes.append(status.st_size)
        first = first or status
    assert first is not None
    return CandidateFile(files, sum(sizes), first.st_mtime, (first.st_dev, first.st_ino))


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link in a ring
        return False


def _files(folder: Path, names: list[str]) -> Iterator[CandidateFile | RefusedFile]:
    here = set(names)
    told: set[str] = set()
    for name in names:
        lower = name.lower()
        if lower.endswith(_UNFINISHED) or lower.startswith(_UNFINISHED_START):
            if SUFFIX in lower or folder.name == "blobs":
                yield RefusedFile(folder / name, "is an unfinished download")
        elif lower.endswith(SUFFIX) and name not in told:
            whole = _set_of(name)
            told.update(whole)
            lacking = [str(number) for number, part in enumerate(whole, 1) if part not in here]
            if lacking:
                which = lacking[0] if len(lacking) == 1 else _few(lacking)
                yield RefusedFile(folder / name, f"belongs to a model in {len(whole)} parts; missing: {which}")
            else:
                yield candidate(tuple(folder / part for part in whole))


def _set_of(name: str) -> tuple[str, ...]:
    """All files of the model that this file is part of."""
    found = PART.search(name)
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        return (name,)
    return parts(f"{name[: found.start()]}-00001{name[found.start() + 6 :]}")


def _few(texts: list[str], most: int = 5) -> str:
    if len(texts) > most:
        return f"{', '.join(texts[:most])} and {len(texts) - most} more"
    return f"{', '.join(texts[:-1])} and {texts[-1]}"
