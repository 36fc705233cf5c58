"""A file that is being downloaded, and the note of where it comes from, which stays beside it when it is whole.

`x.gguf` is `x.gguf.part` until it is whole and checked, with `x.gguf.part.json` beside it; then `x.gguf` with `x.gguf.json`.
The hash is not kept: it is made again from what is there, so that a part is never believed for what it was before a crash.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

_LONGEST_NOTE = 1 << 16
_PIECE = 1 << 20


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """Where a file comes from. `size` in bytes; `sha256` hex, of the file as it was placed, or as it has to become."""

    url: str
    """Without password and query."""
    size: int | None = None
    sha256: str = ""
    validator: str = ""
    """The server's own mark of what it sent (ETag or date), for asking whether it is still the same."""

    def write(self, path: Path) -> None:
        """Writes it in one step.

        Raises:
            OSError: it cannot be written.
        """
        new = path.with_name(path.name + ".new")
        new.write_bytes(msgspec.json.format(msgspec.json.encode(self)) + b"\n")
        os.replace(new, path)


def read_note(path: Path) -> Note | None:
    """The note at a path; None if there is none that can be understood."""
    try:
        with path.open("rb") as file:
            return msgspec.json.decode(file.read(_LONGEST_NOTE), type=Note)
    except (OSError, msgspec.DecodeError):
        return None


def note_path(path: Path) -> Path:
    """Where the note of a file lies."""
    return path.with_name(path.name + ".json")


def part_path(path: Path) -> Path:
    """Where a file lies until it is whole."""
    return path.with_name(path.name + ".part")


def lock_path(path: Path) -> Path:
    """What is locked while a file is pulled."""
    return path.with_name(path.name + ".lock")


def own_files(path: Path) -> tuple[Path, ...]:
    """Everything that a download of this file makes, the file first."""
    part = part_path(path)
    return (path, note_path(path), part, note_path(part))


def pieces(path: Path) -> Iterator[bytes]:
    """The content of a file, piece by piece.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb", buffering=0) as file:
        while piece := file.read(_PIECE):
            yield piece


class Part:
    """The part of a file that is here, open for more. `size` in bytes.

    `hashed` is called with the bytes hashed so far, while what is there already is hashed; it ends that by raising.

    Raises:
        OSError: it cannot be opened or read.
    """

    def __init__(self, path: Path, hashed: Callable[[int], None]) -> None:
        self.place = path
        self.path = part_path(path)
        self.note = read_note(note_path(self.path))
        self.size = 0
        self._hash = hashlib.sha256()
        self._file = open(self.path, "ab", buffering=0)  # noqa: SIM115 (closed by close)
        try:
            for piece in pieces(self.path):
                self._hash.update(piece)
                self.size += len(piece)
                hashed(self.size)
        except BaseException:
            self._file.close()
            raise

    @property
    def sha256(self) -> str:
        """Hex, of what is here."""
        return self._hash.hexdigest()

    def append(self, data: bytes) -> None:
        """Adds to it.

        Raises:
            OSError: the disk takes no more. What it took is there.
        """
        self._hash.update(data)
        view = memoryview(data)
        while view:
            written = self._file.write(view)
            self.size += written
            view = view[written:]

    def restart(self) -> None:
        """Empties it.

        Raises:
            OSError: it cannot be.
        """
        self._file.truncate(0)
        self.size = 0
        self._hash = hashlib.sha256()

    def keep(self, note: Note) -> None:
        """Notes where it comes from.

        Raises:
            OSError: the note cannot be written.
        """
        if note != self.note:
            note.write(note_path(self.path))
            self.note = note

    def place_it(self) -> None:
        """Puts the whole file in its place, in one step, and its note beside it.

        Raises:
            OSError: it cannot be.
        """
        assert self.note is not None
        os.fsync(self._file.fileno())
        self._file.close()
        msgspec.structs.replace(self.note, size=self.size, sha256=self.sha256).write(note_path(self.place))
        os.replace(self.path, self.place)
        note_path(self.path).unlink(missing_ok=True)
        _sync_folder(self.place.parent)

    def close(self) -> None:
        """Closes it; it stays for another time, unless it is empty."""
        self._file.close()
        if self.size == 0:
            self.remove()

    def remove(self) -> None:
        """Closes it and removes it with its note."""
        self._file.close()
        self.path.unlink(missing_ok=True)
        note_path(self.path).unlink(missing_ok=True)


def digest(path: Path, hashed: Callable[[int], None]) -> str:
    """Hex SHA-256 of a file; `hashed` as in `Part`.

    Raises:
        OSError: it cannot be read.
    """
    made, size = hashlib.sha256(), 0
    for piece in pieces(path):
        made.update(piece)
        size += len(piece)
        hashed(size)
    return made.hexdigest()


def _sync_folder(folder: Path) -> None:
    """Has the new name survive a loss of power, where the system can."""
    if os.name == "nt":  # which opens no folders
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
