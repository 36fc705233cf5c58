"""What tokens are called, in Python and in native code."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cached_property
from typing import Any

import msgspec


class Labels(dict[int, str]):
    """Labels of `n_vocab` tokens by id, made when they are first asked for: a step asks for twenty."""

    def __init__(self, n_vocab: int, make: Callable[[int], str]) -> None:
        self._n_vocab, self._make = n_vocab, make
        self._packed: dict[int, Any] = {}

    def __missing__(self, token: int) -> str:
        found = self[token] = self._make(token)
        return found

    @cached_property
    def pointers(self) -> Any:
        """Where native code finds a label by its id, shape (n_vocab,); null where `point` was not called for it."""
        return (ctypes.c_void_p * self._n_vocab)()

    def point(self, token: int) -> None:
        """Has native code find the label of a token."""
        self._packed[token] = packed = packed_text(self[token])
        self.pointers[token] = ctypes.addressof(packed)


def packed_text(text: str) -> Any:
    """A text as native code copies it: the length in four bytes, as this machine writes them, then msgpack."""
    data = msgspec.msgpack.encode(text)
    return ctypes.create_string_buffer(bytes(ctypes.c_int32(len(data))) + data, 4 + len(data))
