"""Many short texts in one piece of memory: a text takes four bytes more than its own."""

from __future__ import annotations

import re
import sys
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from operator import gt, sub
from typing import overload

_AT_ONCE = 256
"""Texts that are decoded together, at most."""

_CONTINUED = re.compile(rb"[\x80-\xbf]")
"""A byte of UTF-8 that begins no character."""


class Texts(Sequence[str]):
    """A sequence of texts that grows at its end. `characters` is the length of all of them together."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._ends = array("I", [0])
        self._marks = array("I", [0])
        """How many characters come before the first text, the 257th and so on."""
        self.characters = 0

    def __len__(self) -> int:
        return len(self._ends) - 1

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> list[str]: ...

    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            begin, end, step = index.indices(len(self))
            return self._between(begin, max(begin, end)) if step == 1 else [self[at] for at in range(begin, end, step)]
        at = index if index >= 0 else index + len(self)
        if not 0 <= at < len(self):
            raise IndexError(index)
        return self._read(self._ends[at], self._ends[at + 1])

    def __iter__(self) -> Iterator[str]:
        return iter(self._between(0, len(self)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and not isinstance(other, str) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]  # it grows

    def append(self, text: str) -> None:
        """Adds a text."""
        self._data += text.encode("utf-8", "surrogatepass")
        self._ends.append(len(self._data))
        self.characters += len(text)
        if not len(self) % _AT_ONCE:
            self._marks.append(self.characters)

    def joined(self, count: int | None = None, begin: int = 0) -> str:
        """The first `count` texts, or all, as one, but for those before `begin`."""
        return self._read(self._ends[begin], self._ends[-1 if count is None else min(max(count, 0), len(self))])

    def start(self, index: int) -> int:
        """How many characters come before a text; before the one behind the last, all of them."""
        mark = index // _AT_ONCE
        return self._marks[mark] + len(self._read(self._ends[mark * _AT_ONCE], self._ends[index]))

    def at(self, offset: int) -> int:
        """The text that character `offset` of all of them together belongs to. Raises IndexError where there is none."""
        if not 0 <= offset < self.characters:
            raise IndexError(offset)
        mark = bisect_right(self._marks, offset) - 1
        first, behind = mark * _AT_ONCE, min((mark + 1) * _AT_ONCE, len(self))
        before = self._read(self._ends[first], self._ends[behind])[: offset - self._marks[mark]]
        place = self._ends[first] + len(before.encode("utf-8", "surrogatepass"))
        return bisect_right(self._ends, place, first, behind + 1) - 1

    def lengths(self, begin: int, end: int) -> list[int]:
        """How many characters each of these texts has, which takes a third of reading them."""
        ends = self._ends[begin : min(end, len(self)) + 1]
        found = list(map(sub, ends[1:], ends))
        if ends:
            for continued in _CONTINUED.finditer(self._data[ends[0] : ends[-1]]):
                found[bisect_right(ends, ends[0] + continued.start()) - 1] -= 1
        return found

    def packed(self) -> tuple[bytes, bytes]:
        """The texts' UTF-8, and where each ends, as 32-bit words, little endian."""
        return bytes(self._data), words(self._ends[1:])

    @classmethod
    def unpacked(cls, data: bytes, ends: bytes) -> Texts:
        """The inverse of `packed`. Raises ValueError where they do not fit to each other."""
        texts = cls()
        texts._data += data
        from_words(texts._ends, ends)
        if texts._ends[-1] != len(data) or any(map(gt, texts._ends, texts._ends[1:])):
            raise ValueError("the texts end elsewhere")
        if _CONTINUED.search(bytes(map((data + b"\0").__getitem__, texts._ends))) is not None:
            raise ValueError("a text ends within a character")
        for begin, end in pairwise(texts._ends[::_AT_ONCE]):
            texts._marks.append(texts._marks[-1] + len(texts._read(begin, end)))
        texts.characters = texts.start(len(texts))
        return texts

    def _between(self, begin: int, end: int) -> list[str]:
        found: list[str] = []
        for start in range(begin, end, _AT_ONCE):
            ends = self._ends[start : min(start + _AT_ONCE, end) + 1]
            first = ends[0]
            whole = self._data[first : ends[-1]]
            bare = whole.decode("latin-1")  # a character for each byte
            texts = [bare[a - first : b - first] for a, b in pairwise(ends)]
            if whole.isascii():
                found += texts
            else:
                found += (t if t.isascii() else t.encode("latin-1").decode("utf-8", "surrogatepass") for t in texts)
        return found

    def _read(self, begin: int, end: int) -> str:
        return self._data[begin:end].decode("utf-8", "surrogatepass")


def words(numbers: array[int] | array[float]) -> bytes:
    """The numbers' bytes, little endian."""
    if sys.byteorder == "big":
        numbers = numbers[:]
        numbers.byteswap()
    return numbers.tobytes()


def from_words(numbers: array[int] | array[float], data: bytes) -> None:
    """Adds what `words` gave. Raises ValueError where it is no whole number of them."""
    begin = len(numbers)
    numbers.frombytes(data)
    if sys.byteorder == "big":
        added = numbers[begin:]
        added.byteswap()
        numbers[begin:] = added  # type: ignore[assignment]
