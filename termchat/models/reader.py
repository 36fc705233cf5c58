"""Reads the values of a GGUF header one after the other, through a window over the file."""

from __future__ import annotations

import os
import struct
from io import FileIO
from typing import NamedTuple, NoReturn

from termchat.models.errors import ModelError

AGAIN = "Download it again."
ANOTHER_FILE = "Choose a file in GGUF format."
WINDOW = 1 << 20
MAX_TEXT = 1 << 20
"""Longest text that is kept; the longest chat templates are a tenth of it."""
MAX_STRINGS = 1 << 22
"""Most texts an array is walked for; the largest vocabularies have a tenth of it."""

_LAYOUTS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
"""Number of a GGUF value type to its layout; 8 is a text, 9 an array."""
_TEXT, _ARRAY = 8, 9
_STRUCTS = {layout: struct.Struct(f"<{layout}") for layout in _LAYOUTS.values()}


class Array(NamedTuple):
    """An array that was skipped."""

    length: int


Value = int | float | str | Array


class HeaderError(ModelError):
    """A file that is not a usable GGUF model."""


class Reader:
    """A position in a GGUF file. Every method reads on from it, and refuses to read past the file's end."""

    def __init__(self, file: FileIO, name: str) -> None:
        self.name = name
        self.position = 0
        self.size = os.fstat(file.fileno()).st_size
        self._file = file
        self._window = b""
        self._start = 0

    def peek(self, count: int) -> bytes:
        """Up to `count` of the next bytes; fewer only at the file's end."""
        offset = self.position - self._start
        if not 0 <= offset <= offset + count <= len(self._window):
            self._file.seek(self.position)
            self._window, self._start, offset = self._fill(max(count, WINDOW)), self.position, 0
        return self._window[offset : offset + count]

    def take(self, count: int, what: str) -> bytes:
        """The next `count` bytes, which hold `what`."""
        data = self.peek(count) if count <= self.size - self.position else b""
        if len(data) < count:
            self._ended(what)
        self.position += count
        return data

    def skip(self, count: int, what: str) -> None:
        """Goes past `count` bytes."""
        if count > self.size - self.position:
            self._ended(what)
        self.position += count

    def number(self, layout: str, what: str) -> int:
        """The next whole number, little endian; `layout` is a letter of `struct`."""
        return int(self._scalar(layout, what))

    def text(self, what: str, longest: int = MAX_TEXT) -> str:
        """The next text; bytes that are not UTF-8 show as U+FFFD."""
        at = self.position
        length = self.number("Q", what)
        if length > longest:
            raise HeaderError(f"{self.name}: {what} claims {length} bytes (byte {at}); it is damaged", AGAIN)
        return self.take(length, what).decode("utf-8", "replace")

    def value(self, key: str, *, keep: bool) -> Value | None:
        """The next metadata value, or None if it is not to be kept; of an array only its length."""
        what = f"the value of {key!r}"
        kind = self._kind(what)
        if kind == _ARRAY:
            return Array(self._skip_array(what))
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
            raise HeaderError(f"{self.name}: {what} is of the unknown type {kind} (byte {at}); it is damaged", AGAIN)
        return kind

    def _skip_array(self, what: str) -> int:
        kind = self._kind(what)
        at = self.position
        count = self.number("Q", what)
        if kind == _ARRAY or (kind == _TEXT and count > MAX_STRINGS):
            raise HeaderError(f"{self.name}: {what} is an absurd array (byte {at}); it is damaged", AGAIN)
        if kind == _TEXT:
            self._skip_texts(count, what)
        else:
            self.skip(count * _STRUCTS[_LAYOUTS[kind]].size, what)
        return count

    def _skip_texts(self, count: int, what: str) -> None:
        """Goes past `count` texts: the one part of a header that is long and has to be walked."""
        length_at = _STRUCTS["Q"].unpack_from
        while count:
            if len(self.peek(8)) < 8:
                self._ended(what)
            window, offset = self._window, self.position - self._start
            walked = 0
            try:
                for walked in range(count):  # noqa: B007 (how far it came is used below)
                    (length,) = length_at(window, offset)
                    offset += 8 + length
                walked = count
            except (struct.error, OverflowError):  # the next length is not in this window
                pass
            count -= walked
            if offset > self.size - self._start:
                self._ended(what)
            self.position = self._start + offset

    def _fill(self, count: int) -> bytes:
        pieces = []
        while count > 0 and (piece := self._file.read(count)):
            pieces.append(piece)
            count -= len(piece)
        return b"".join(pieces)

    def _ended(self, what: str) -> NoReturn:
        raise HeaderError(
            f"{self.name} ends at byte {self.size}, in the middle of {what} (it begins at byte {self.position})",
            f"The download was not finished. {AGAIN}",
        )
