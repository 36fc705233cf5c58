"""Reads the values of a GGUF header one after the other, through a window over the file.

The beginning (`read_beginning`) is checked first: what is not GGUF is named as what it looks like.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import BinaryIO, NamedTuple, NoReturn

from termchat import regular_files
from termchat.models.errors import ModelError

AGAIN = "Download it again."
ANOTHER_FILE = "Choose a file in GGUF format."
WINDOW = 1 << 20
MAX_TEXT = 1 << 20
"""Longest text that is kept; the longest chat templates are a tenth of it."""
MAX_NAME = 200
"""Characters that are shown of a name, whatever the file claims that something is called."""
MAX_STRINGS = 1 << 22
"""Most texts that are walked over in one file; the largest vocabularies and their merges have a fifth of it."""
MAX_NUMBERS = 512
"""Longest array of numbers that is kept: llama.cpp loads no more layers."""
MAX_HEADER = 1 << 28
"""Bytes of the longest header; those of the largest vocabularies have a tenth of it. A model's identity is made of them all."""

_LAYOUTS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
"""Number of a GGUF value type to its layout; 8 is a text, 9 an array."""
_TEXT, _ARRAY = 8, 9
_BLOCK = 256
"""Texts that are gone past at once, where none of them is unusual."""
_USUAL = sorted(range(1, 64), key=lambda length: abs(length - 7))
"""Bytes of a token or a merge, the likeliest first."""
_STRUCTS = {layout: struct.Struct(f"<{layout}") for layout in _LAYOUTS.values()}


MAX_TENSORS = 1 << 16
MAX_METADATA = 1 << 16
_LOOKS_LIKE = (
    (b"version https://git-lfs", "a Git LFS pointer; the real file was not fetched"),
    (b"<!doctype", "a web page"),
    (b"<html", "a web page"),
    (b"<?xml", "XML"),
    (b"PK\x03\x04", "a zip archive, as PyTorch writes them"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"\x28\xb5\x2f\xfd", "a zstandard archive"),
    (b"tjgg", "GGML, the format before GGUF"),
    (b"fmgg", "GGML, the format before GGUF"),
    (b"lmgg", "GGML, the format before GGUF"),
    (b"\0\0\0\0", "zeros, perhaps from an unfinished download"),
    (b"{", "JSON"),
)


class Array(NamedTuple):
    """An array that was skipped."""

    length: int


Value = int | float | str | Array | tuple[int | float, ...]


class HeaderError(ModelError):
    """A file that is not a usable GGUF model."""


@contextmanager
def opened(path: Path, window: int = WINDOW) -> Iterator[Reader]:
    """A reader at the beginning of a file; `window` is how many bytes it fetches at once.

    Raises:
        ModelError: the file cannot be opened or read.
    """
    try:
        opened_file = regular_files.opened(path, buffering=0)
    except regular_files.NotAFile as error:
        raise ModelError(f"{path} is {error.kind}, not a regular file", "Give the path of a GGUF file.") from error
    except (OSError, ValueError) as error:
        raise ModelError(f"{path} cannot be read: {getattr(error, 'strerror', error)}") from error
    with opened_file as file:
        try:
            yield Reader(file, path.name, os.fstat(file.fileno()).st_size, window)
        except OSError as error:
            raise ModelError(f"{path} cannot be read: {error.strerror}") from error


class Reader:
    """A position in a GGUF file of `size` bytes. Every method reads on from it, and refuses to read past the end."""

    def __init__(self, file: BinaryIO, name: str, size: int, window: int = WINDOW) -> None:
        self.name = name
        self.position = 0
        self.size = size
        self._file = file
        self._fetch = window
        self._window = b""
        self._start = 0
        self._strings = MAX_STRINGS

    def peek(self, count: int) -> bytes:
        """Up to `count` of the next bytes; fewer only at the file's end."""
        offset = self.position - self._start
        if not 0 <= offset <= offset + count <= len(self._window):
            self._file.seek(self.position)
            self._window, self._start, offset = self._fill(max(count, self._fetch)), self.position, 0
        return self._window[offset : offset + count]

    def take(self, count: int, what: str) -> bytes:
        """The next `count` bytes, which hold `what`."""
        data = self.peek(count) if count <= self.size - self.position else b""
        if len(data) < count:
            self._ended(what)
        self._advance(count, what)
        return data

    def skip(self, count: int, what: str) -> None:
        if count > self.size - self.position:
            self._ended(what)
        self._advance(count, what)

    def _advance(self, count: int, what: str) -> None:
        self.position += count
        if self.position > MAX_HEADER:
            raise HeaderError(
                f"{self.name}: the header claims more than {MAX_HEADER >> 20} MiB, with {what}; the file is damaged",
                AGAIN,
            )

    def number(self, layout: str, what: str) -> int:
        """The next whole number, little endian; `layout` is a letter of `struct`."""
        return int(self._scalar(layout, what))

    def text(self, what: str, longest: int = MAX_TEXT) -> str:
        """The next text; bytes that are not UTF-8 show as U+FFFD."""
        at = self.position
        length = self.number("Q", what)
        if length > longest:
            raise HeaderError(f"{self.name}: {what} claims {length} bytes (byte {at}); the file is damaged", AGAIN)
        return self.take(length, what).decode("utf-8", "replace")

    def value(self, key: str, *, keep: bool) -> Value | None:
        """The next metadata value, or None if it is not to be kept; of a long array or one of texts only its length."""
        what = f"the value of {key[:MAX_NAME]!r}"
        kind = self._kind(what)
        if kind == _ARRAY:
            return self._array(what, keep=keep)
        if kind == _TEXT and keep:
            return self.text(what)
        if kind == _TEXT:
            self.skip(self.number("Q", what), what)
            return None
        number = self._scalar(_LAYOUTS[kind], what)
        return number if keep else None

    def _scalar(self, layout: str, what: str) -> int | float:
        form = _STRUCTS[layout]
        return form.unpack(self.take(form.size, what))[0]  # type: ignore[no-any-return]

    def _kind(self, what: str) -> int:
        at = self.position
        kind = self.number("I", what)
        if kind not in _LAYOUTS and kind not in (_TEXT, _ARRAY):
            raise HeaderError(
                f"{self.name}: {what} has the unknown type {kind} (byte {at}); the file is damaged", AGAIN
            )
        return kind

    def _array(self, what: str, *, keep: bool) -> Array | tuple[int | float, ...]:
        kind = self._kind(what)
        at = self.position
        count = self.number("Q", what)
        if kind == _ARRAY or (kind == _TEXT and count > self._strings):
            raise HeaderError(
                f"{self.name}: {what} has an impossible array size (byte {at}); the file is damaged", AGAIN
            )
        if kind == _TEXT:
            self._strings -= count
            self._skip_texts(count, what)
            return Array(count)
        layout = _LAYOUTS[kind]
        if keep and count <= MAX_NUMBERS:
            size = _STRUCTS[layout].size
            return struct.unpack(f"<{count}{layout}", self.take(count * size, what))
        self.skip(count * _STRUCTS[layout].size, what)
        return Array(count)

    def _skip_texts(self, count: int, what: str) -> None:
        """Skips `count` texts: the one part of a header that is long and has to be walked."""
        while count:
            if len(self.peek(8)) < 8:
                self._ended(what)
            window, offset = self._window, self.position - self._start
            while count >= _BLOCK and (block := _usual_texts().match(window, offset)):
                offset = block.end()
                count -= _BLOCK
            self.position = self._start + offset
            offset, walked = _walk(window, offset, min(count, _BLOCK))
            if offset > self.size - self._start:
                self._break_off(walked, what)
            count -= walked
            self._advance(self._start + offset - self.position, what)

    def _break_off(self, count: int, what: str) -> NoReturn:
        """Refuses the text, of the next `count`, that the end of the file cuts off."""
        for _ in range(count):
            self.skip(self.number("Q", what), what)
        self._ended(what)

    def _fill(self, count: int) -> bytes:
        pieces = []
        while count > 0 and (piece := self._file.read(count)):
            pieces.append(piece)
            count -= len(piece)
        return b"".join(pieces)

    def _ended(self, what: str) -> NoReturn:
        where = "before" if self.position == self.size else f"in the middle (byte {self.position}) of"
        raise HeaderError(
            f"{self.name} ends at byte {self.size}, {where} {what}", f"The download is incomplete. {AGAIN}"
        )


@cache
def _usual_texts() -> re.Pattern[bytes]:
    """A block of texts of usual lengths, as they are in a file: a length in 8 bytes, then so many bytes.

    The engine of regular expressions walks them more than twice as fast as a loop can.
    """
    one = b"|".join(re.escape(bytes([length])) + rb"\0\0\0\0\0\0\0.{%d}" % length for length in _USUAL)
    return re.compile(rb"(?s:%b){%d}+" % (one, _BLOCK))


def _walk(window: bytes, offset: int, most: int) -> tuple[int, int]:
    """Where it is behind up to `most` texts that begin in a window, perhaps behind its end too; and how many there were."""
    length_at = _STRUCTS["Q"].unpack_from
    walked = 0
    try:
        for walked in range(most):  # noqa: B007 (how far it came is used below)
            offset += 8 + length_at(window, offset)[0]
    except (struct.error, OverflowError):  # the next length is not in this window
        return offset, walked
    return offset, most


class Beginning(NamedTuple):
    """What the file claims: its format's version, and how many tensors and metadata entries follow."""

    version: int
    tensors: int
    pairs: int


def read_beginning(reader: Reader) -> Beginning:
    """Reads on to the first metadata entry.

    Raises:
        HeaderError: it is no GGUF file, of a version that cannot be read, or it claims what no file holds.
    """
    _check_magic(reader)
    return Beginning(
        _version(reader), _count(reader, "tensors", MAX_TENSORS), _count(reader, "metadata entries", MAX_METADATA)
    )


def _check_magic(reader: Reader) -> None:
    if reader.size == 0:
        raise HeaderError(f"{reader.name} is empty", AGAIN)
    first = reader.peek(64)
    if first[:4] == b"GGUF":
        reader.skip(4, "the magic number")
        return
    raise HeaderError(f"{reader.name} is not a GGUF file. At byte 0 it looks like {_looks(first)}", ANOTHER_FILE)


def _looks(first: bytes) -> str:
    """What a file that starts with these bytes seems to be."""
    if first[8:9] == b"{" and int.from_bytes(first[:8], "little") < 100 << 20:
        return "safetensors: convert it with llama.cpp's convert_hf_to_gguf.py"
    bare = first.lstrip().lower()
    for start, words in _LOOKS_LIKE:
        if first.startswith(start) or bare.startswith(start):
            return words
    if b"\0" not in first and first.isascii():
        return f"text: {first.decode()!r}"
    return f"bytes {first[:4].hex(' ')}"


def _version(reader: Reader) -> int:
    at = reader.position
    version = reader.number("I", "the version")
    if version & 0xFFFF == 0 and version:
        raise HeaderError(
            f"{reader.name} is big-endian (byte {at}), which llama.cpp cannot read on this machine", ANOTHER_FILE
        )
    if version not in (2, 3):
        raise HeaderError(
            f"{reader.name} is GGUF version {version} (byte {at}); only versions 2 and 3 can be read", ANOTHER_FILE
        )
    return version


def _count(reader: Reader, what: str, most: int) -> int:
    at = reader.position
    count = reader.number("Q", f"the number of {what}")
    if count > most:
        raise HeaderError(f"{reader.name} claims {count} {what} (byte {at}); the file is damaged", AGAIN)
    return count
