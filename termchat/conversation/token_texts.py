"""The texts of a reply's tokens, and columns of numbers as bytes."""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from operator import gt, sub
from typing import overload


class Texts(Sequence[str]):
    """A sequence of texts that grows at its end; texts that are equal are in memory once."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._starts = array("I", [0])
        """How many characters come before each text, and how many there are."""

    def __len__(self) -> int:
        return len(self._texts)

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> list[str]: ...

    def __getitem__(self, index: int | slice) -> str | list[str]:
        return self._texts[index]

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and not isinstance(other, str) and self._texts == list(other)

    __hash__ = None  # type: ignore[assignment]  # it grows

    def append_text(self, text: str) -> None:
        """Add a text."""
        self._texts.append(sys.intern(text))
        self._starts.append(self._starts[-1] + len(text))

    def join_texts(self, count: int | None = None, begin: int = 0) -> str:
        """Join the first `count` texts, or all, but for those before `begin`."""
        return "".join(self._texts[begin : None if count is None else max(count, 0)])

    def start(self, index: int) -> int:
        """Count the characters before a text; before the one behind the last, all of them."""
        return self._starts[index]

    def find_text(self, offset: int) -> int:
        """Find the text that contains character `offset` of the joined text. Raises IndexError beyond its end."""
        if not 0 <= offset < self._starts[-1]:
            raise IndexError(offset)
        return bisect_right(self._starts, offset) - 1

    def count_lengths(self, begin: int, end: int) -> list[int]:
        """Count the characters of each of these texts."""
        starts = self._starts[begin : min(end, len(self)) + 1]
        return list(map(sub, starts[1:], starts))

    def packed(self) -> tuple[bytes, bytes]:
        """Return the texts' UTF-8, and where each ends, as 32-bit words, little endian."""
        encoded = [text.encode("utf-8", "surrogatepass") for text in self._texts]
        return b"".join(encoded), pack_words(array("I", accumulate(map(len, encoded))))

    @classmethod
    def unpacked(cls, data: bytes, ends: bytes) -> Texts:
        """Read the result of `packed`. Raises ValueError where the two do not fit to each other."""
        places = array("I", [0])
        from_words(places, ends)
        if places[-1] != len(data) or any(map(gt, places, places[1:])):
            raise ValueError("the texts end elsewhere")
        texts = cls()
        if data.isascii():  # which is quicker to take apart
            whole = data.decode("ascii")
            texts._texts = [sys.intern(whole[begin:end]) for begin, end in pairwise(places)]
        else:
            pieces = (data[begin:end].decode("utf-8", "surrogatepass") for begin, end in pairwise(places))
            texts._texts = list(map(sys.intern, pieces))
        texts._starts.extend(accumulate(map(len, texts._texts)))
        return texts


def pack_words(numbers: array[int] | array[float]) -> bytes:
    """Return the numbers' bytes, little endian."""
    if sys.byteorder == "big":
        numbers = numbers[:]
        numbers.byteswap()
    return numbers.tobytes()


def from_words(numbers: array[int] | array[float], data: bytes) -> None:
    """Add what `words` gave. Raises ValueError where it is no whole number of them."""
    begin = len(numbers)
    numbers.frombytes(data)
    if sys.byteorder == "big":
        added = numbers[begin:]
        added.byteswap()
        numbers[begin:] = added  # type: ignore[assignment]
