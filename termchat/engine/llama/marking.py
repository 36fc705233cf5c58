"""Names of control tokens in what people wrote, broken up by a character that nothing else has."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import chain

_PRIVATE = (range(0xE000, 0xF8FF), range(0xF0000, 0xFFFFD))


def unused(texts: Iterable[str]) -> str:
    """A private-use character that no text has, nor the one that follows it."""
    used = set().union(*texts)
    return next(chr(c) for c in chain(*_PRIVATE) if not {chr(c), chr(c + 1)} & used)


def broken(text: str, names: re.Pattern[str], mark: str) -> str:
    """The text with the mark inside every name."""
    # Breaking one name may leave another (a name inside or across a name), but none that begins before it.
    parts, at = [], 0
    while (found := names.search(text, at)) is not None:
        parts.append(text[at : found.start() + 1])
        at = found.start() + 1
    return mark.join([*parts, text[at:]])
