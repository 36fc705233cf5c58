"""The texts of a reply's tokens."""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate, pairwise
from operator import gt


class Texts(list[str]):
    """Texts of tokens, to which `append` alone adds; equal ones are in memory once."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        super().__init__(map(sys.intern, texts))
        self._starts = array("I", accumulate(map(len, self), initial=0))
        """How many characters come before each text, and how many there are."""

    def __copy__(self) -> Texts:
        return Texts(self)

    def __deepcopy__(self, _: object) -> Texts:
        return Texts(self)

    def append(self, text: str) -> None:
        """Add a text."""
        super().append(sys.intern(text))
        self._starts.append(self._starts[-1] + len(text))

    def join_texts(self, count: int | None = None, begin: int = 0) -> str:
        """Join the first `count` texts, or all, but for those before `begin`."""
        return "".join(self[begin : None if count is None else max(count, 0)])

    def start(self, index: int) -> int:
        """Count the characters before a text; before the one behind the last, all of them."""
        return self._starts[index]

    def find_text(self, offset: int) -> int:
        """Find the text that contains character `offset` of the joined text. Raises IndexError beyond its end."""
        if not 0 <= offset < self._starts[-1]:
            raise IndexError(offset)
        return bisect_right(self._starts, offset) - 1

    def packed(self) -> tuple[bytes, bytes]:
        """Return the texts' UTF-8, and where each ends, as 32-bit words."""
        encoded = [text.encode("utf-8", "surrogatepass") for text in self]
        return b"".join(encoded), array("I", accumulate(map(len, encoded))).tobytes()

    @classmethod
    def unpacked(cls, data: bytes, ends: bytes) -> Texts:
        """Read the result of `packed`. Raises ValueError where the two do not fit to each other."""
        places = array("I", [0])
        places.frombytes(ends)
        if places[-1] != len(data) or any(map(gt, places, places[1:])):
            raise ValueError("the texts end elsewhere")
        if data.isascii():  # which is quicker to take apart
            whole = data.decode("ascii")
            return cls(whole[begin:end] for begin, end in pairwise(places))
        return cls(data[begin:end].decode("utf-8", "surrogatepass") for begin, end in pairwise(places))
