"""The exponentials of a row of logits: by ggml's own vector code where the build has it, else by numpy.

ggml's is three times as fast as numpy's here, and this is the dearest part of observing a step. It is no part of llama.cpp's
public interface, so it is tried out before it is used.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Row = NDArray[np.float32]
"""Contiguous, shape (n,)."""


class Exponentials:
    """Rows of `n` logits to weights. `weights` are those of the last row, shape (n,), float32."""

    def __init__(self, n: int, *, native: bool = True) -> None:
        self.weights: Row = np.empty(n, np.float32)
        self._to = self.weights.ctypes.data
        self._function = _NATIVE if native else None

    def compute_sum(self, logits: Row, highest: float) -> float:
        """Compute exp(logit - highest) of each logit; return their sum."""
        if self._function is None:
            np.subtract(logits, np.float32(highest), out=self.weights)
            np.exp(self.weights, out=self.weights)
            return float(self.weights.sum())
        address = logits.__array_interface__["data"][0]  # its `ctypes` takes several times as long
        return float(self._function(len(logits), self._to, address, highest))


def _find_native() -> Any:
    """Return ggml's function if it exists and gives the right numbers."""
    import llama_cpp

    folder = Path(llama_cpp.__file__).parent / "lib"
    for name in ("libggml-cpu.so", "libggml-cpu.dylib", "ggml-cpu.dll"):
        try:
            function = ctypes.CDLL(str(folder / name)).ggml_vec_soft_max_f32
        except (OSError, AttributeError):
            continue
        function.restype = ctypes.c_double
        function.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_float]
        return function if _is_right(function) else None
    return None


def _is_right(function: Any) -> bool:
    row = np.linspace(-80.0, 0.0, 1003, dtype=np.float32)
    row[::7] = -np.inf
    weights = np.empty_like(row)
    total = function(len(row), weights.ctypes.data, row.ctypes.data, 0.0)
    expected = np.exp(row.astype(np.float64))
    return bool(np.allclose(weights, expected, rtol=1e-5, atol=0.0) and abs(total / expected.sum() - 1) < 1e-6)


_NATIVE = _find_native()
