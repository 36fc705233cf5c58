"""Paths behind an @, as they are typed."""

from __future__ import annotations

import os
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from time import monotonic
from typing import NamedTuple

from termchat.tui.completing import Completion, Offer
from termchat.tui.draw.background import Aside

_BEFORE = re.compile(r'(?:^|\s)@(?:"([^"]*)|([^\s"]*))$')
_MOST = 50
"""Offers at once."""
_ENTRIES = 200_000
"""Entries of a folder that are looked at."""
_LONGEST = 2.0
"""Seconds after which what was found of a folder has to do."""
_FRESH = 2.0
"""Seconds for which a folder is as it was found."""
_FOLDERS = 32
"""Folders that are remembered."""
_LINE = 1_000
"""Characters before the cursor that are looked at."""


class _Entry(NamedTuple):
    folded: str
    name: str
    is_folder: bool


class _Folder(NamedTuple):
    """What a folder holds, sorted, and the time at which it was read."""

    path: str
    read: float
    shown: Sequence[_Entry]
    hidden: Sequence[_Entry]


class Paths:
    """A source of completions. Folders are read in a thread; until one is there nothing is offered of it.

    Args:
        told: called in that thread when a folder has been read: ask again.
    """

    def __init__(self, told: Callable[[], object]) -> None:
        self._told = told
        self._folders: dict[str, _Folder] = {}
        self._reading: Aside[_Folder] | None = None
        self._wanted = ""

    def complete(self, line: str, column: int, *, first: bool) -> Completion | None:
        """Files and folders whose names begin with what is typed, case aside; hidden ones only behind a dot."""
        found = _BEFORE.search(line[max(column - _LINE, 0) : column])
        if found is None:
            return None
        typed = found[1] if found[1] is not None else found[2]
        start = column - len(typed) - (2 if found[1] is not None else 1)
        name = typed.rpartition("/")[2]
        above = typed[: len(typed) - len(name)]
        if typed == "~":
            return Completion(start, (Offer("@~/", "home"),))
        folder = self._folder(os.path.expanduser(above) or ".")
        return Completion(start, tuple(_offers(folder, above, name))) if folder is not None else None

    def _folder(self, path: str) -> _Folder | None:
        """What a folder holds as far as is known; has it read if that is not now."""
        for folder in self._reading.take() if self._reading is not None else ():
            self._reading = None
            self._folders.pop(folder.path, None)
            self._folders[folder.path] = folder
            if len(self._folders) > _FOLDERS:
                del self._folders[next(iter(self._folders))]
        known = self._folders.get(path)
        if self._reading is None and (known is None or monotonic() - known.read > _FRESH):
            self._reading = Aside(lambda: _read(path), self._told)
        return known


def _offers(folder: _Folder, above: str, name: str) -> Iterator[Offer]:
    folded = name.casefold()
    entries = folder.hidden if name.startswith(".") else folder.shown
    first = bisect_left(entries, folded, key=lambda entry: entry.folded)
    for entry in entries[first : first + _MOST]:
        if not entry.folded.startswith(folded):
            return
        path = above + entry.name + ("/" if entry.is_folder else "")
        if any(char.isspace() for char in path):
            path = f'"{path}' + ("" if entry.is_folder else '"')
        yield Offer(f"@{path}", "folder" if entry.is_folder else "")


def _read(path: str) -> Iterator[_Folder]:
    entries: list[_Entry] = []
    began = monotonic()
    try:
        with os.scandir(path) as found:
            for number, entry in enumerate(islice(found, _ENTRIES)):
                if number % 256 == 0 and monotonic() - began > _LONGEST:
                    break
                if entry.name.isprintable() and '"' not in entry.name:
                    entries.append(_Entry(entry.name.casefold(), entry.name, _is_folder(entry)))
    except (OSError, ValueError):
        pass  # a folder that cannot be read has nothing to offer
    entries.sort()
    shown = [entry for entry in entries if not entry.name.startswith(".")]
    yield _Folder(path, monotonic(), shown, [entry for entry in entries if entry.name.startswith(".")])


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False
