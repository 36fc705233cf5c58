"""The random draw: fixed noise for every (seed, step, token), and no state.

At step n of a reply with seed s, token i carries g = gumbel(s, n, i); the winner is argmax(log p_i + g_i), which draws from
p exactly (the Gumbel-max trick; Maddison, Tarlow and Minka, "A* Sampling", 2014). Turn a knob and the dice stay: the
choice changes only if the winner was cut or overtaken.

Version 1: a 64-bit word from three rounds of the SplitMix64 finaliser (Steele, Lea and Flood, "Fast Splittable
Pseudorandom Number Generators", 2014) over seed, step and id; its upper 52 bits become the middle of one of 2**52 equal
cells of (0, 1); g = -log(-log(u)).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

VERSION = 1

_GOLDEN, _MIX_1, _MIX_2, _LOW = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB, 2**64 - 1
_GOLDEN_64, _MIX_1_64, _MIX_2_64 = np.uint64(_GOLDEN), np.uint64(_MIX_1), np.uint64(_MIX_2)
_S12, _S27, _S30, _S31 = np.uint64(12), np.uint64(27), np.uint64(30), np.uint64(31)

_NO_TOKEN = 2**31


def _mix_bits(x: int) -> int:
    x = (x + _GOLDEN) & _LOW
    x = ((x ^ (x >> 30)) * _MIX_1) & _LOW
    x = ((x ^ (x >> 27)) * _MIX_2) & _LOW
    return x ^ (x >> 31)


def draw_uniform(seed: int, step: int, ids: NDArray[np.int32]) -> NDArray[np.float64]:
    """Shape (n,), strictly inside (0, 1), one for each of the n ids."""
    word = ids.astype(np.uint64)
    word ^= np.uint64(_mix_bits(_mix_bits(seed) ^ step))  # a step's noise is on the way to its token
    return _scale_units(word)


def _mix_all(words: NDArray[np.uint64]) -> None:
    """`_mix_bits`, in place."""
    words += _GOLDEN_64
    words ^= words >> _S30
    words *= _MIX_1_64
    words ^= words >> _S27
    words *= _MIX_2_64
    words ^= words >> _S31


def _scale_units(words: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Mix the words in place, and make each a number in (0, 1)."""
    _mix_all(words)
    words >>= _S12
    u = words.astype(np.float64)
    u += 0.5
    u *= 2.0**-52
    return u


def draw_chance(seed: int, step: int) -> float:
    """Return the step's own number, strictly inside (0, 1), for a stage that acts now and then, from an id of no token."""
    word = (_NO_TOKEN ^ _mix_bits(_mix_bits(seed) ^ step)) & _LOW
    return ((_mix_bits(word) >> 12) + 0.5) * 2.0**-52


def draw_gumbel(seed: int, step: int, ids: NDArray[np.int32]) -> NDArray[np.float64]:
    """Return standard Gumbel noise, shape (n,), for a seed >= 0, a step >= 0 of the reply and n token ids."""
    return _to_gumbel(draw_uniform(seed, step, ids))


def gumbel_of_seeds(seeds: Sequence[int], step: int, ids: NDArray[np.integer[Any]]) -> NDArray[np.float64]:
    """Return `draw_gumbel` for many seeds at once, shape (seeds, n)."""
    keys = np.array(seeds, np.uint64)
    _mix_all(keys)
    keys ^= np.uint64(step & _LOW)
    _mix_all(keys)
    return _to_gumbel(_scale_units(keys[:, None] ^ ids.astype(np.uint64)))


def _to_gumbel(u: NDArray[np.float64]) -> NDArray[np.float64]:
    """-log(-log(u)), in place."""
    np.log(u, out=u)
    np.negative(u, out=u)
    np.log(u, out=u)
    return np.negative(u, out=u)


def draw_noise(seed: int, step: int, ids: Iterable[int]) -> list[float]:
    """Return the numbers of `draw_gumbel` for a few ids, without numpy, to the rounding of the two logarithms."""
    key = _mix_bits(_mix_bits(seed) ^ step)
    numbers = []
    for i in ids:
        word = ((i ^ key) + _GOLDEN) & _LOW
        word = ((word ^ (word >> 30)) * _MIX_1) & _LOW
        word = ((word ^ (word >> 27)) * _MIX_2) & _LOW
        numbers.append(-math.log(-math.log((((word ^ (word >> 31)) >> 12) + 0.5) * 2.0**-52)))
    return numbers
