"""One file from the net to its place: resumed, checked while it comes, and placed in one step or not at all."""

from __future__ import annotations

import errno
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from termchat.models.errors import ModelError
from termchat.models.header import read_header
from termchat.models.hub import shown
from termchat.models.lock import Lock
from termchat.models.partial import Note, Part, digest, lock_path, note_path, read_note
from termchat.models.patience import BACKOFF, Patience
from termchat.models.progress import Gauge
from termchat.models.refusals import Later
from termchat.models.sources import Remote
from termchat.models.web import Exchange, Reply, Web

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_RANGE = re.compile(r"bytes (?:(\d{1,18})-(\d{1,18})|\*)/(\d{1,18}|\*)")
_MAGIC = b"GGUF"


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
        with _disk_errors(path), _folder(path), Lock(lock_path(path), self._other):
            if self._is_there():
                return path.stat().st_size
            part = Part(path, lambda size: self._gauge.at("checking", size, self._size))
            try:
                self._fill(part)
                self._place(part)
            finally:
                part.close()
            return part.size

    def _other(self, holder: str) -> None:
        who = f"process {holder}" if holder else "another process"
        self._gauge.at("waiting", 0, note=f"{who} is pulling the same file")

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
                f"{path} is there already, is another file, and was not downloaded by termchat",
                "Move it away, or pull into another folder with --to.",
            )
        return right

    def _fill(self, part: Part) -> None:
        """Downloads what is missing."""
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
                kept = f"The {part.size:,} bytes that came are kept: pull again to resume."
                hint = kept if part.size else "Try again later."
                self._patience.spend(self._name, error, hint, part.size, self._size)

    def _same(self, note: Note) -> bool:
        """Whether what was begun is what is wanted now."""
        wanted = self._remote
        if wanted.sha256 and note.sha256:
            return wanted.sha256 == note.sha256
        return note.url == shown(wanted.url) and wanted.size in (None, note.size)

    def _restart(self, part: Part) -> None:
        """Forgets what came, and what was said of it."""
        part.restart()
        self._size, self._sha256 = self._remote.size, self._remote.sha256

    def _expect(self, size: int | None, sha256: str) -> bool:
        """Takes what is said of the file; False, and nothing is taken, if it contradicts what was known."""
        if size is not None and self._size not in (None, size):
            return False
        if sha256 and self._sha256 not in ("", sha256):
            return False
        self._size, self._sha256 = (self._size if size is None else size), self._sha256 or sha256
        return True

    def _try(self, part: Part) -> None:
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
            raise Later(f"the connection ended {self._size - part.size:,} bytes too early")

    def _take(self, part: Part, exchange: Exchange) -> None:
        """Has the body written as it comes."""
        self._check_space(part)
        for chunk in exchange.chunks():
            part.append(chunk)
            if part.size == len(chunk) and not chunk.startswith(_MAGIC):
                self._refuse_content(part)
            if self._size is not None and part.size > self._size:
                self._restart(part)
                raise Later("more came than there should be")
            self._gauge.at("downloading", part.size, self._size)

    def _begins(self, part: Part, reply: Reply) -> bool:
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
            raise Later("what came before does not fit what the server has now")
        for size, sha256 in ((reply.size, reply.sha256), (total, "")):
            if not self._expect(size, sha256):
                raise ModelError(
                    f"{shown(self._remote.url)} is another file than the one that is meant: {size} bytes"
                    + (f" with SHA-256 {sha256}" if sha256 else "")
                    + f", not {self._size}"
                    + (f" with {self._sha256}" if sha256 else ""),
                    "It was changed where it comes from.",
                )
        part.keep(
            Note(url=shown(self._remote.url), size=self._size, sha256=self._sha256, validator=_mark(reply.headers))
        )
        return True

    def _check_space(self, part: Part) -> None:
        free = shutil.disk_usage(part.path.parent).free
        if self._size is not None and self._size - part.size > free:
            raise ModelError(
                f"{self._name} needs {self._size - part.size:,} more bytes, and {part.path.parent} has {free:,} free",
                "Free some space, or pull into another folder with --to.",
            )

    def _place(self, part: Part) -> None:
        """Checks it and puts it in its place."""
        self._gauge.at("placing", part.size, self._size)
        if self._sha256 and part.sha256 != self._sha256:
            found, size = part.sha256, part.size
            part.remove()
            raise ModelError(
                f"{self._name} is not what it should be: its {size} bytes have SHA-256 {found}, not {self._sha256}",
                "It is removed. Pull it again; if that does not help, it was changed where it comes from.",
            )
        if self._whole:
            self._refuse_content(part)
        part.place_it()

    def _refuse_content(self, part: Part) -> None:
        """Refuses what is no model; the reader of headers has the words."""
        try:
            read_header(part.path)
        except ModelError as error:
            part.remove()
            raise ModelError(
                f"what {shown(self._remote.url)} gives cannot be used: {error.message}", error.hint
            ) from error


def _extent(reply: Reply) -> tuple[int | None, int]:
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
    """Has the folder there; what was made for nothing is removed again."""
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
    """Has the disk's refusals say what they mean."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise ModelError(
                f"the disk is full: {path.name} cannot be written to {path.parent}",
                "Free some space and pull again: what came is kept.",
            ) from error
        raise ModelError(f"{path} cannot be written: {error.strerror or error}", "Check the folder.") from error
