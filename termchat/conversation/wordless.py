"""Scripts that put no spaces between words, Chinese and Japanese: the index knows each of their characters as a word.

What is searched for is found as a run of such words, wherever it stands. Between the characters of a text in the index there
is a mark, which the index takes for a space and which is taken out again before anybody reads the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_MARK = "\x1f"
"""A separator of units: hardly any text has one."""

CHARACTERS = (
    "\u3005-\u3007"  # marks of repetition, a name's mark, zero
    "\u3041-\u3096\u309d-\u309f"  # hiragana
    "\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f"  # katakana
    "\u3100-\u312f\u31a0-\u31bf"  # bopomofo
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
)
"""Of these scripts, as they stand between the brackets of a regular expression."""

_JOINED = "\u3099\u309a\ufe00-\ufe0f\U000e0100-\U000e01ef"
"""What belongs to the character before it: voiced sounds, variants."""

_SLICE = 10_000
"""Characters that are marked at a time."""

# Patterns are compiled when they are first used, and kept by `re`: a start needs none of them.
_APART = rf"(?<=[{CHARACTERS}{_JOINED}])(?=\w)|(?<=\w)(?=[{CHARACTERS}])"
_MARKED = rf"(?<=[{CHARACTERS}{_JOINED}]){_MARK}(?=\w)|(?<=\w){_MARK}(?=[{CHARACTERS}])"


def apart(text: str) -> str:
    """The text with a mark on either side of each such character, where another word or character stands beside it."""
    return text if text.isascii() else "".join(_marked(text))


def _marked(text: str) -> Iterator[str]:
    """The text with its marks, in slices: no other thread runs while one of them is made."""
    for begin in range(0, len(text), _SLICE):
        cut = re.compile(_APART).match(text, begin) if begin else None  # it sees what stands before
        yield (_MARK if cut is not None else "") + re.sub(_APART, _MARK, text[begin : begin + _SLICE])


def together(text: str) -> str:
    """The text that `apart` was given. Where it had such a mark itself between two of these characters, that is gone too."""
    return re.sub(_MARKED, "", text) if _MARK in text else text
