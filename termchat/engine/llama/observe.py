"""The observed step in one call of native code: `observe.c`, which is compiled when termchat is installed.

It also holds the function that llama.cpp asks whether a decode has to stop (see `native.AbortFlag`).

`chain.py` does the same with `decoding.arithmetic` and `decoding.draw`, slower. It takes the steps that native code declines,
and all of them where it could not be compiled.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from termchat.decoding import arithmetic


class Labels(dict[int, str]):
    """Labels of `n_vocab` tokens by id, made on first use: a step needs twenty."""

    def __init__(self, n_vocab: int, make: Callable[[int], str]) -> None:
        self._n_vocab, self._make = n_vocab, make
        self._packed: dict[int, Any] = {}

    def __missing__(self, token: int) -> str:
        label = self[token] = self._make(token)
        return label

    @cached_property
    def pointers(self) -> Any:
        """Where native code finds a label by its id, shape (n_vocab,); null where `point_label` was not called for it."""
        return (ctypes.c_void_p * self._n_vocab)()

    def point_label(self, token: int) -> None:
        """Make the label of a token visible to native code."""
        self._packed[token] = packed = packed_text(self[token])
        self.pointers[token] = ctypes.addressof(packed)


def packed_text(text: str) -> Any:
    """Encode a text as native code copies it: the length in four bytes, as this machine writes them, then msgpack."""
    data = msgspec.msgpack.encode(text)
    return ctypes.create_string_buffer(bytes(ctypes.c_int32(len(data))) + data, 4 + len(data))


ABI = 13
"""Of the calls; a library that was built from another version of the source is left alone."""

LIBRARY = Path(__file__).with_name("libobserve.so")

_Ids, _Numbers = ctypes.POINTER(ctypes.c_int32), ctypes.POINTER(ctypes.c_double)


class Mask(NamedTuple):
    """Which tokens a constraint allows: 32 in each of the `bits`, the lowest first. `after_chain`: see `Constraint`."""

    bits: NDArray[np.uint32]
    after_chain: bool

    def unpack_allowed(self, n_vocab: int) -> NDArray[np.bool_]:
        """Of each token whether it is allowed, shape (n_vocab,)."""
        return np.unpackbits(self.bits.view(np.uint8), bitorder="little")[:n_vocab].astype(np.bool_)


class NativeStep(ctypes.Structure):
    """`step` of the source: the arguments of every step, its lasting state, and its results."""

    _fields_ = tuple(
        (name, kind)
        for kind, names in (
            (ctypes.c_void_p, "logits"),
            (ctypes.c_uint64, "seed step"),
            (ctypes.c_int32, "needs forced n_moving"),
            (ctypes.c_int32, "n_vocab n_ends n_stages n_biased candidates masking hiding cut after"),
            (ctypes.c_float, "share"),
            (ctypes.c_double, "change"),
            (_Ids, "rules ends biased"),
            (_Numbers, "knobs bias"),
            (ctypes.c_void_p, "moving allowed masked samplers apply"),
            (ctypes.c_int32, "n_watched chosen rank near_tie n_allowed n_kept"),
            (ctypes.c_double, "entropy p_end before won margin kept kept_of_all"),
            (_Ids, "ids removed_by survivors"),
            (_Numbers, "logits_of logprobs probabilities noise biases masses"),
        )
        for name in names.split()
    )


ASKED = struct.Struct("PQQiii")
"""What is asked of every step: set together, since one by one takes several times as long."""


class NativePacking(ctypes.Structure):
    """`packing` of the source."""

    _fields_ = (
        ("names", ctypes.c_void_p),
        ("stages", ctypes.c_void_p),
        ("out", ctypes.c_void_p),
        ("room", ctypes.c_int32),
    )


@cache
def load(path: Path = LIBRARY) -> Any:
    """Open the library, once; None if it was not built, or from another version of its source."""
    try:
        library = ctypes.PyDLL(str(path))  # the calls are short: to let other threads in costs more than it gives
        if library.termchat_abi() != ABI:
            return None
    except (OSError, AttributeError):
        return None
    library.termchat_observe.restype = library.termchat_spell.restype = ctypes.c_bool
    library.termchat_pack.restype = ctypes.c_int32
    library.termchat_limit.argtypes = (ctypes.c_void_p, ctypes.c_double)
    for name in ("expf", "logf", "log2f"):
        function = arithmetic.c_rows[name] = getattr(library, f"termchat_{name}")
        function.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32)
    return library
