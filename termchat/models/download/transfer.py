"""One file from the network to its place: resumed, checked while it arrives, and placed in one step or not at all.

While it is incomplete there are `NAME.part` and a note beside it (`NAME.part.json`), which says where it comes from; the note
of a finished file is `NAME.json`.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from termchat import atomic, regular_files
from termchat.models.download.hub import Remote, shown
from termchat.models.download.lock import locked
from termchat.models.download.progress import BACKOFF, Gauge, Patience
from termchat.models.download.web import HttpExchange, Later, Web, WebReply
from termchat.models.errors import ModelError
from termchat.models.gguf.header import read_header
from termchat.text import UNREADABLE

_LONGEST_NOTE = 1 << 16
_PIECE = 1 << 20


_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_RANGE = re.compile(r"bytes (?:(\d{1,18})-(\d{1,18})|\*)/(\d{1,18}|\*)")
_MAGIC = b"GGUF"


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """Where a file comes from. `size` in bytes; `sha256` hex, of the file as it was placed, or as it has to become."""

    url: str
    """Without password and query."""
    size: int | None = None
    sha256: str = ""
    validator: str = ""
    """The server's own mark of what it sent (ETag or date), for asking whether it is still the same."""

    def write(self, path: Path) -> None:
        """In one step.

        Raises:
            OSError: it cannot be written.
        """
        atomic.replace(path, msgspec.json.format(msgspec.json.encode(self)) + b"\n")


def read_note(path: Path) -> Note | None:
    """None if it is missing or invalid."""
    try:
        return msgspec.json.decode(regular_files.read(path, _LONGEST_NOTE), type=Note)
    except (OSError, *UNREADABLE):
        return None


def note_path(path: Path) -> Path:
    return path.with_name(path.name + ".json")


def part_path(path: Path) -> Path:
    return path.with_name(path.name + ".part")


def lock_path(path: Path) -> Path:
    return path.with_name(path.name + ".lock")


def own_files(path: Path) -> tuple[Path, ...]:
    """Everything that a download of this file makes, the file first."""
    part = part_path(path)
    return (path, note_path(path), part, note_path(part))


def pieces(path: Path) -> Iterator[bytes]:
    """Raises:
    OSError: the file cannot be read.
    """
    with regular_files.opened(path, buffering=0) as file:
        while piece := file.read(_PIECE):
            yield piece


class PartFile:
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
        self._file = regular_files.opened(self.path, "ab", buffering=0)
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
        """Raises:
        OSError: the disk takes no more. What it took is there.
        """
        self._hash.update(data)
        view = memoryview(data)
        while view:
            written = self._file.write(view)
            self.size += written
            view = view[written:]

    def restart(self) -> None:
        """Raises:
        OSError: it cannot be emptied.
        """
        self._file.truncate(0)
        self.size = 0
        self._hash = hashlib.sha256()

    def keep(self, note: Note) -> None:
        """Writes the note, if it differs.

        Raises:
            OSError: it cannot be written.
        """
        if note != self.note:
            note.write(note_path(self.path))
            self.note = note

    def place_it(self) -> None:
        """In one step; the note follows.

        Raises:
            OSError: it cannot be moved.
        """
        assert self.note is not None
        os.fsync(self._file.fileno())
        self._file.close()
        msgspec.structs.replace(self.note, size=self.size, sha256=self.sha256).write(note_path(self.place))
        os.replace(self.path, self.place)
        note_path(self.path).unlink(missing_ok=True)
        _sync_folder(self.place.parent)

    def close(self) -> None:
        """An empty one is removed."""
        self._file.close()
        if self.size == 0:
            self.remove()

    def remove(self) -> None:
        self._file.close()
        self.path.unlink(missing_ok=True)
        note_path(self.path).unlink(missing_ok=True)


def digest(path: Path, hashed: Callable[[int], None]) -> str:
    """Hex SHA-256; `hashed` is called with the bytes read so far.

    Raises:
        OSError: the file cannot be read.
    """
    made, size = hashlib.sha256(), 0
    for piece in pieces(path):
        made.update(piece)
        size += len(piece)
        hashed(size)
    return made.hexdigest()


def _sync_folder(folder: Path) -> None:
    """Makes the new name survive a loss of power, where the system can."""
    if os.name == "nt":  # which opens no folders
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Download:
    """Brings one file to its place. `whole` says that it is a model by itself, not a further part of one."""

    def __init__(
        self, web: Web, remote: Remote, gauge: Gauge, *, whole: bool, backoff: Sequence[float] = BACKOFF
    ) -> None:
        self._web, self._remote, self._gauge = web, remote, gauge
        self._patience = Patience(gauge, backoff)
        self._whole = whole
        self._size, self._sha256 = remote.size, remote.sha256
        self._name = remote.path.name

    def run(self) -> int:
        """Its size in bytes, once it is there; what was there and is right is kept.

        Raises:
            ModelError: it cannot be brought. What came is kept for another time, unless it was wrong.
        """
        path = self._remote.path
        with _disk_errors(path), _folder(path), locked(lock_path(path), self._other):
            for note in (note_path(path), note_path(part_path(path))):
                atomic.sweep(note)
            if self._is_there():
                return path.stat().st_size
            part = PartFile(path, lambda size: self._gauge.at("checking", size, self._size))
            try:
                self._fill(part)
                self._place(part)
            finally:
                part.close()
            return part.size

    def _other(self, holder: str) -> None:
        who = f"process {holder}" if holder else "another process"
        self._gauge.at("waiting", 0, note=f"{who} is downloading the same file")

    def _is_there(self) -> bool:
        """Whether the file is in its place already.

        Raises:
            ModelError: a file is there that is another one, and not ours to replace.
        """
        path, wanted = self._remote.path, self._remote
        if not path.exists():
            return False
        note = read_note(note_path(path))
        size = path.stat().st_size
        if wanted.size is not None and size != wanted.size:
            right = False
        elif not wanted.sha256:
            right = note is None or note.url == shown(wanted.url)
        elif note is not None and note.size == size and note.sha256:
            right = note.sha256 == wanted.sha256
        else:
            right = digest(path, lambda done: self._gauge.at("checking", done, size)) == wanted.sha256
        if not right and note is None:
            raise ModelError(
                f"{path} already exists, differs, and was not downloaded by termchat",
                "Move it away, or use --to to download into another folder.",
            )
        return right

    def _fill(self, part: PartFile) -> None:
        if part.note is None or not self._same(part.note):
            part.restart()
        else:
            self._expect(part.note.size, part.note.sha256)
        furthest = part.size
        while part.size != self._size:
            try:
                self._try(part)
            except Later as error:
                if part.size > furthest:
                    self._patience.renew()
                    furthest = part.size
                kept = f"The {part.size:,} bytes already downloaded are kept; pull again to resume."
                hint = kept if part.size else "Try again later."
                self._patience.spend(self._name, error, hint, part.size, self._size)

    def _same(self, note: Note) -> bool:
        """Whether the part belongs to the file that is wanted now."""
        wanted = self._remote
        if wanted.sha256 and note.sha256:
            return wanted.sha256 == note.sha256
        return note.url == shown(wanted.url) and wanted.size in (None, note.size)

    def _restart(self, part: PartFile) -> None:
        """Forgets the part and what was learned about it."""
        part.restart()
        self._size, self._sha256 = self._remote.size, self._remote.sha256

    def _expect(self, size: int | None, sha256: str) -> bool:
        """Adopts what is known about the file; False, and nothing is adopted, if it contradicts what was known."""
        if size is not None and self._size not in (None, size):
            return False
        if sha256 and self._sha256 not in ("", sha256):
            return False
        self._size, self._sha256 = (self._size if size is None else size), self._sha256 or sha256
        return True

    def _try(self, part: PartFile) -> None:
        """One request, for all that is missing.

        Raises:
            Later: it went wrong in a way that may pass.
        """
        if part.size and not self._sha256 and not (part.note and part.note.validator):
            self._restart(part)  # without a mark or a hash nobody could tell whether the rest belongs to it
        headers = {}
        if part.size:
            headers["Range"] = f"bytes={part.size}-"
            if not self._sha256 and part.note is not None:
                headers["If-Range"] = part.note.validator
        self._gauge.at("asking", part.size, self._size)
        exchange = self._web.get(self._remote.url, headers)
        try:
            if self._begins(part, exchange.reply()):
                self._take(part, exchange)
        finally:
            exchange.close()
        if self._size is None:  # a body without a length ends where it ends
            self._size = part.size
        if part.size != self._size:
            raise Later(f"the connection ended {self._size - part.size:,} bytes early")

    def _take(self, part: PartFile, exchange: HttpExchange) -> None:
        self._check_space(part)
        for chunk in exchange.chunks():
            part.append(chunk)
            if part.size == len(chunk) and not chunk.startswith(_MAGIC):
                self._refuse_content(part)
            if self._size is not None and part.size > self._size:
                self._restart(part)
                raise Later("the server sent more data than expected")
            self._gauge.at("downloading", part.size, self._size)

    def _begins(self, part: PartFile, reply: WebReply) -> bool:
        """Whether the body is the rest of the part, or all of it; False when there is no more to come.

        Raises:
            Later: it is neither; the part is empty now.
            ModelError: the server has another file than the one that is wanted.
        """
        total, start = _extent(reply)
        if reply.status == 416 and total == part.size and self._expect(total, ""):
            return False
        if reply.status == 200:
            if part.size:
                self._restart(part)
        elif reply.status == 416 or start != part.size or not self._expect(total, reply.sha256):
            self._restart(part)
            raise Later("the partial download does not match the file now on the server")
        for size, sha256 in ((reply.size, reply.sha256), (total, "")):
            if not self._expect(size, sha256):
                raise ModelError(
                    f"{shown(self._remote.url)} is not the expected file: it has {size} bytes"
                    + (f" with SHA-256 {sha256}" if sha256 else "")
                    + f", not {self._size}"
                    + (f" with {self._sha256}" if sha256 else ""),
                    "The file has changed at its source.",
                )
        part.keep(
            Note(url=shown(self._remote.url), size=self._size, sha256=self._sha256, validator=_mark(reply.headers))
        )
        return True

    def _check_space(self, part: PartFile) -> None:
        free = shutil.disk_usage(part.path.parent).free
        if self._size is not None and self._size - part.size > free:
            raise ModelError(
                f"{self._name} needs {self._size - part.size:,} more bytes, but {part.path.parent} has only {free:,} free",
                "Free some space, or use --to to download into another folder.",
            )

    def _place(self, part: PartFile) -> None:
        self._gauge.at("placing", part.size, self._size)
        if self._sha256 and part.sha256 != self._sha256:
            found, size = part.sha256, part.size
            part.remove()
            raise ModelError(
                f"{self._name} failed its check: SHA-256 is {found}, expected {self._sha256} ({size} bytes)",
                "It was removed. Pull it again; if it fails again, the file has changed at its source.",
            )
        if self._whole:
            self._refuse_content(part)
        part.place_it()

    def _refuse_content(self, part: PartFile) -> None:
        """Refuses what is not a model, with the header reader's message."""
        try:
            read_header(part.path)
        except ModelError as error:
            part.remove()
            raise ModelError(f"{shown(self._remote.url)} is not a usable model: {error.message}", error.hint) from error


def _extent(reply: WebReply) -> tuple[int | None, int]:
    """How many bytes the file has, if the reply says so, and with which the body begins (-1 if it does not say)."""
    if reply.status == 200:
        length = reply.headers.get("content-length", "")
        return (int(length) if length.isdecimal() else None), 0
    found = _RANGE.fullmatch(reply.headers.get("content-range", ""))
    if found is None:
        return None, -1
    return (None if found[3] == "*" else int(found[3])), (-1 if found[1] is None else int(found[1]))


def _mark(headers: Mapping[str, str]) -> str:
    """What the server knows the content by, such that If-Range takes it."""
    mark = headers.get("etag", "")
    return mark if mark.startswith('"') else headers.get("last-modified", "")


@contextmanager
def _folder(path: Path) -> Iterator[None]:
    """Creates the folder; removes it again if it stays empty."""
    made = [folder for folder in path.parents if not folder.exists()]
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        yield
    finally:
        with suppress(OSError):  # not empty
            for folder in made:
                folder.rmdir()


@contextmanager
def _disk_errors(path: Path) -> Iterator[None]:
    """Turns the disk's errors into messages with a hint."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise ModelError(
                f"the disk is full: cannot write {path.name} to {path.parent}",
                "Free some space and pull again to resume.",
            ) from error
        raise ModelError(f"{path} cannot be written: {error.strerror or error}", "Check the folder.") from error
