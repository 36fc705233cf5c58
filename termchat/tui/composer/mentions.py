"""Files that a message names as `@path`: completion while typing, and the text that goes to the model with them.

The model gets the message as it was written, then each file in a fenced block under its name; the chat shows just that. A
word behind an @ that names no file is a word. A file that is in the message already is not added twice.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from time import monotonic
from typing import NamedTuple

from termchat import regular_files
from termchat.text import size
from termchat.tui.composer.completion import Completion, Offer
from termchat.tui.draw.background import BackgroundTask

LARGEST = 1_000_000
"""Bytes of the largest file that is put into a message."""
_MENTION = re.compile(r'(?<!\S)@(?:"([^"\n]+)"|([^\s"]\S*))')
_STOPS = ".,;:!?)]}'"
_LOOKED_AT = 8192
"""Bytes at the beginning of a file that say whether it is text."""


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


class Unreadable(Exception):
    """A file cannot be put into a message; the message says which and why."""


class Included(NamedTuple):
    """A message with its files. `files` are the names and sizes in bytes of those that are in `text`."""

    text: str
    files: tuple[tuple[str, int], ...]


def mentions(text: str) -> Iterator[str]:
    """The names after @, each once."""
    seen: set[str] = set()
    for quoted, plain in _MENTION.findall(text):
        name = quoted or plain
        if name not in seen:
            seen.add(name)
            yield name


def include(written: str, message: str) -> Included:
    """The message with every file that is named in what was written. Reads the disk.

    Args:
        written: where names are looked for.
        message: what the files are put behind: the same, with all that was attached.

    Raises:
        Unreadable: a file that is named cannot be put in.
    """
    parts, files = [message], []
    for name in mentions(written):
        found = _find(name)
        if found is not None and f"\n\n{found[0]}\n```" not in message:
            shown, path = found
            text, length = _read_file(shown, path)
            files.append((shown, length))
            parts.append(_block(shown, text))
    return Included("\n\n".join(parts), tuple(files))


def _find(name: str) -> tuple[str, Path] | None:
    """The file that a name means, without trailing punctuation if need be; None where there is none."""
    for shown in (name, name.rstrip(_STOPS)):
        if not shown:
            continue
        path = Path(shown)
        try:
            path = path.expanduser()
            path.lstat()
        except (OSError, RuntimeError, ValueError):
            continue
        return shown, path
    return None


def _read_file(shown: str, path: Path) -> tuple[str, int]:
    """The text and its size in bytes. Raises Unreadable."""
    try:
        with regular_files.opened(path) as opened:
            length, data = os.fstat(opened.fileno()).st_size, opened.read(LARGEST + 1)
    except regular_files.NotAFile as error:
        instead = "; name a file inside it" if path.is_dir() else ", not a regular file"
        raise Unreadable(f"@{shown} is {error.kind}{instead}") from error
    except OSError as error:
        raise Unreadable(f"@{shown} cannot be read: {error.strerror or error}") from error
    if len(data) > LARGEST:
        raise Unreadable(f"@{shown} is too large: {size(max(length, len(data)))}, at most {size(LARGEST)}")
    if b"\0" in data[:_LOOKED_AT]:
        raise Unreadable(f"@{shown} is not text")
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n"), len(data)
    except UnicodeDecodeError as error:
        raise Unreadable(f"@{shown} is not UTF-8 text (byte {error.start})") from error


def _block(shown: str, text: str) -> str:
    """A fenced block, its fence longer than any in the text."""
    longest = max((len(run) for run in re.findall("`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{shown}\n{fence}\n{text}{'' if text.endswith(chr(10)) else chr(10)}{fence}"


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
    """Completes paths. Folders are read in a thread; until one is read, nothing is suggested from it.

    Args:
        told: called in that thread when a folder has been read: ask again.
    """

    def __init__(self, told: Callable[[], object]) -> None:
        self._told = told
        self._folders: dict[str, _Folder] = {}
        self._reading: BackgroundTask[_Folder] | None = None
        self._wanted = ""

    def complete(self, line: str, column: int, *, first: bool) -> Completion | None:
        """Files and folders whose names start with the draft's, ignoring case; hidden ones only after a dot."""
        found = _BEFORE.search(line[max(column - _LINE, 0) : column])
        if found is None:
            return None
        typed = found[1] if found[1] is not None else found[2]
        start = column - len(typed) - (2 if found[1] is not None else 1)
        return Completion(start, tuple(map(_mention, self.paths(typed))))

    def paths(self, typed: str) -> list[Offer]:
        """The files and folders whose paths start as typed, as far as their folder is read."""
        name = typed.rpartition("/")[2]
        above = typed[: len(typed) - len(name)]
        if typed == "~":
            return [Offer("~/", "home folder")]
        folder = self._folder(os.path.expanduser(above) or ".")
        return list(_offers(folder, above, name)) if folder is not None else []

    def _folder(self, path: str) -> _Folder | None:
        """The entries of a folder as far as they are known; starts reading it if they are old."""
        for folder in self._reading.take() if self._reading is not None else ():
            self._reading = None
            self._folders.pop(folder.path, None)
            self._folders[folder.path] = folder
            if len(self._folders) > _FOLDERS:
                del self._folders[next(iter(self._folders))]
        known = self._folders.get(path)
        if self._reading is None and (known is None or monotonic() - known.read > _FRESH):
            self._reading = BackgroundTask(lambda: _read_folder(path), self._told)
        return known


def _offers(folder: _Folder, above: str, name: str) -> Iterator[Offer]:
    folded = name.casefold()
    entries = folder.hidden if name.startswith(".") else folder.shown
    first = bisect_left(entries, folded, key=lambda entry: entry.folded)
    for entry in entries[first : first + _MOST]:
        if not entry.folded.startswith(folded):
            return
        path = above + entry.name + ("/" if entry.is_folder else "")
        yield Offer(path, "folder" if entry.is_folder else "")


def _mention(offer: Offer) -> Offer:
    """The same behind an @, in quotes if need be."""
    path = offer.text
    if any(char.isspace() for char in path):
        path = f'"{path}' + ("" if path.endswith("/") else '"')
    return offer._replace(text=f"@{path}")


def _read_folder(path: str) -> Iterator[_Folder]:
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
