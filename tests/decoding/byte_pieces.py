"""Bytes as they come from an engine: cut anywhere."""

from __future__ import annotations

from itertools import pairwise


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    """The bytes, cut anywhere: in the middle of characters too."""
    borders = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[a:b] for a, b in pairwise(borders)]
