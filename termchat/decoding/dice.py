"""The random draw: fixed noise for every (seed, step, token), and no state.

At step n of a reply with seed s, token i carries g = gumbel(s, n, i); the winner is argmax(log p_i + g_i), which draws from
p exactly (the Gumbel-max trick; Maddison, Tarlow and Minka, "A* Sampling", 2014). Turn a knob and the dice stay: the
choice changes only if the winner was cut or overtaken.

Version 1: a 64-bit word from three rounds of the SplitMix64 finaliser (Steele, Lea and Flood, "Fast Splittable
Pseudorandom Number Generators", 2014) over seed, step and id; its upper 52 bits become the middle of one of 2**52 equal
cells of (0, 1); g = -log(-log(u)).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

VERSION = 1

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_S27, _S30, _S31, _S12 = np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(12)


def _mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    x = x + _GOLDEN
    x = (x ^ (x >> _S30)) * _MIX_1
    x = (x ^ (x >> _S27)) * _MIX_2
    return x ^ (x >> _S31)


def uniform(seed: int, step: int, ids: NDArray[np.int32]) -> NDArray[np.float64]:
    """Shape (n,), strictly inside (0, 1), one for each of the n ids."""
    key = _mix(_mix(np.array([seed], np.uint64)) ^ np.uint64(step))
    word = _mix(key ^ ids.astype(np.uint64))
    return ((word >> _S12).astype(np.float64) + 0.5) * 2.0**-52


def gumbel(seed: int, step: int, ids: NDArray[np.int32]) -> NDArray[np.float64]:
    """Standard Gumbel noise, shape (n,), for a seed >= 0, a step >= 0 of the reply and n token ids."""
    return -np.log(-np.log(uniform(seed, step, ids)))
