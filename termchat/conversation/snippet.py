"""A piece of a text around words that were searched for."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

from termchat.conversation.wordless import CHARACTERS

BEGIN, END = "\x02", "\x03"
"""What stands around a word that matches."""

BEFORE, LONGEST = 32, 160
"""Characters of a snippet: before the first match at most, and in all, marks not counted."""


_BEGINS = rf"(?:(?<![^\W_])|(?<=[{CHARACTERS}]))"
_GOES_ON = rf"[^\W_{CHARACTERS}]*"


class Marker:
    """Finds words that begin with one of `words`, whatever their case and accents."""

    def __init__(self, words: Sequence[str]) -> None:
        self._words = re.compile("|".join(map(_pattern, sorted(words, key=len, reverse=True))))

    def snippet(self, text: str) -> str:
        """One line of the text around the first match, each match between BEGIN and END; "" where there is none."""
        folded = fold(text)
        first = self._words.search(folded)
        if first is None:
            return ""
        begin = _word_begin(text, max(first.start() - BEFORE, 0), first.start())
        end = min(begin + LONGEST, len(text))
        parts, done = ["…" if begin else ""], begin
        for match in self._words.finditer(folded, begin, end):
            parts += [_line(text[done : match.start()]), BEGIN, _line(text[match.start() : match.end()]), END]
            done = match.end()
        parts += [_line(text[done:end]), "…" if end < len(text) else ""]
        return "".join(parts).strip()


def _pattern(word: str) -> str:
    """Of what begins with a word, or is it where its script has no spaces."""
    wanted = fold(word)
    begins, goes_on = (re.match(f"[{CHARACTERS}]", char) is None for char in (wanted[:1], wanted[-1:]))
    return (_BEGINS if begins else "") + re.escape(wanted) + (_GOES_ON if goes_on else "")


def fold(text: str) -> str:
    """The text without case and accents, as long as it was."""
    return text.lower() if text.isascii() else "".join(map(_fold, text))


@lru_cache(maxsize=4096)
def _fold(char: str) -> str:
    return unicodedata.normalize("NFKD", char)[0].lower()[:1]


def _word_begin(text: str, begin: int, end: int) -> int:
    """The first place from `begin` on where a word begins, if there is one before `end`."""
    if begin == 0 or text[begin - 1].isspace():
        return begin
    space = next((at for at in range(begin, end) if text[at].isspace()), None)
    return begin if space is None else space + 1


def _line(text: str) -> str:
    """The text with nothing in it that breaks a line, or could be taken for a mark."""
    return re.sub(r"[\s\x02\x03]", " ", text)
