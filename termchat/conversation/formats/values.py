"""The JSON objects of a file one at a time, whatever the file's size: one a line, one after the other, or in one list."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from termchat.conversation.lines import LineError
from termchat.text import size

MOST_BYTES = 1 << 32
"""Of a file. The largest collections of chats have a quarter of that."""

LONGEST = 1 << 24
"""Bytes of one object."""

DEEPEST = 32
"""Lists and objects within each other; a chat has four."""

_CHUNK = 1 << 16
_NEXT = re.compile(rb"[^\s,]")
_IN_OBJECT = re.compile(rb'["{}\[\]]')
_IN_TEXT = re.compile(rb'["\\]')
_MARK = b"\xef\xbb\xbf"


class Value(NamedTuple):
    """An object as it stands in the file, and the line that it begins in."""

    line: int
    data: bytes


class ValueProblem(LineError):
    """A file is no such file; `line` says where."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line


def values(file: BinaryIO) -> Iterator[Value]:
    """The objects of a file, not yet looked into.

    Raises:
        ValueProblem: what is there is no object, torn, too large or too deep.
        OSError: the file cannot be read.
    """
    scanner = _Scanner()
    taken = 0
    while chunk := file.read(_CHUNK):
        begins = not taken
        taken += len(chunk)
        if taken > MOST_BYTES:
            raise ValueProblem(scanner.line, f"the file is larger than {size(MOST_BYTES)}")
        yield from scanner.take(chunk.removeprefix(_MARK) if begins else chunk)
    scanner.finish()


class _Scanner:
    """Finds where objects begin and end, without reading what is in them."""

    def __init__(self) -> None:
        self.line = 1
        self._begun = 1
        self._value = bytearray()
        self._depth = 0
        self._listed = self._quoted = self._escaped = False

    def take(self, chunk: bytes) -> Iterator[Value]:
        """The objects that end in the next bytes of the file."""
        at = 0
        while at < len(chunk):
            end = self._inside(chunk, at) if self._depth else self._between(chunk, at)
            self.line += chunk.count(b"\n", at, end)
            at = end
            if self._value and not self._depth:
                yield Value(self._begun, bytes(self._value))
                self._value.clear()

    def finish(self) -> None:
        """There is no more."""
        if self._depth or self._listed:
            raise ValueProblem(self.line, "it is torn, its end is missing")

    def _between(self, chunk: bytes, at: int) -> int:
        """Goes on to the next object, and into it; returns how far."""
        found = _NEXT.search(chunk, at)
        if found is None:
            return len(chunk)
        here = self.line + chunk.count(b"\n", at, found.start())
        mark = found[0]
        if mark == b"{":
            self._begun, self._depth = here, 1
            self._value += mark
        elif (mark == b"[") is not self._listed and mark in b"[]":
            self._listed = not self._listed
        else:
            raise ValueProblem(here, "it is no JSON object")
        return found.end()

    def _inside(self, chunk: bytes, at: int) -> int:
        """Goes on to the next place where something changes; returns how far."""
        if self._escaped:
            self._escaped, end = False, at + 1
        else:
            found = (_IN_TEXT if self._quoted else _IN_OBJECT).search(chunk, at)
            end = found.end() if found is not None else len(chunk)
            if found is not None:
                self._change(found[0])
        self._value += chunk[at:end]
        if len(self._value) > LONGEST:
            raise ValueProblem(self._begun, f"a chat is larger than {size(LONGEST)}")
        return end

    def _change(self, mark: bytes) -> None:
        if mark == b'"':
            self._quoted = not self._quoted
        elif mark == b"\\":
            self._escaped = True
        else:
            self._depth += 1 if mark in b"{[" else -1
            if self._depth > DEEPEST:
                raise ValueProblem(self.line, f"it is more than {DEEPEST} lists and objects deep")
