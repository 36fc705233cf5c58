"""Half characters: JSON may escape one half of a pair of surrogates alone, but there is no such character to keep or show."""

from __future__ import annotations

import re

_MAY_BE = re.compile(rb"\\u[dD][89a-fA-F]")
_ESCAPES = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)
"""An escape of JSON: both halves of a character, a half alone, or any other."""


def replaced(data: bytes) -> tuple[bytes, int]:
    """JSON with U+FFFD, the sign for what is no character, for each half that stands alone; and how many those were."""
    if _MAY_BE.search(data) is None:
        return data, 0
    count = 0

    def replace(found: re.Match[bytes]) -> bytes:
        nonlocal count
        if found[1] is None:
            return found[0]
        count += 1
        return rb"\ufffd"

    return _ESCAPES.sub(replace, data), count
