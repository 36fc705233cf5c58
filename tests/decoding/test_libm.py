"""The C library's float32 functions: bit for bit what a C program gets, and numpy's to the last place."""

from __future__ import annotations

import ctypes

import numpy as np

from termchat.decoding.arithmetic import expf, logf


def test_exponentials_are_those_of_the_c_library() -> None:
    c = ctypes.CDLL(None).expf
    c.argtypes, c.restype = [ctypes.c_float], ctypes.c_float
    values = np.concatenate([[0.0], -np.random.default_rng(5).random(60_000) * 25]).astype(np.float32)
    own = expf(values)
    assert own.tolist() == [c(value) for value in values.tolist()]
    rounded = np.exp(values.astype(np.float64)).astype(np.float32)
    assert np.abs(own - rounded).max() <= np.spacing(rounded).max()


def test_masked_tokens_weigh_nothing() -> None:
    assert expf(np.array([-np.inf, 0, -200], np.float32)).tolist() == [0.0, 1.0, 0.0]


def test_logarithms_are_within_the_last_place() -> None:
    for value in np.random.default_rng(6).random(2_000).astype(np.float32):
        exact = np.log(np.float64(value))
        assert abs(float(logf(value)) - exact) <= np.spacing(np.float32(abs(exact)))
