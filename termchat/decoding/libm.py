"""The C library's own float32 functions, which are what llama.cpp compares with.

glibc's results are not always the correctly rounded ones (the logarithm in some 0.7 % of all numbers, the exponential in
0.06 %), and what stands on a border then falls to the other side. Where the process has none to call, numpy's float64
functions, rounded, come nearest.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

_NEARLY_HALF = 0.48
"""From so far off, in units of the last place, the C library may round to the other side."""


def _own(name: str) -> Callable[[float], float] | None:
    try:
        function = getattr(ctypes.CDLL(None), name)
    except (OSError, AttributeError, TypeError):  # Windows has no such handle
        return None
    function.argtypes, function.restype = [ctypes.c_float], ctypes.c_float
    return function  # type: ignore[no-any-return]


_LOGF, _EXPF = _own("logf"), _own("expf")


def logf(value: np.float32) -> np.float32:
    """The natural logarithm of a number above 0."""
    return np.float32(np.log(np.float64(value)) if _LOGF is None else _LOGF(float(value)))


def expf(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """e to the power of each, shape (n,). Only those that float64 leaves in doubt are asked of the C library, one by one."""
    wide = np.exp(values.astype(np.float64))
    found = wide.astype(np.float32)
    if _EXPF is not None:
        doubtful = np.flatnonzero(np.abs(wide - found) > _NEARLY_HALF * np.spacing(found))
        found[doubtful] = [_EXPF(value) for value in values[doubtful].tolist()]
    return found
