"""A piece of a text around words that were searched for."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

from termchat.conversation.wordless import CHARACTERS, EMOJI, KEYCAP, SIGNS, UNIT, VARIES

BEGIN, END = "\x02", "\x03"
"""What stands around a word that matches."""

BEFORE, LONGEST = 32, 160
"""Characters of a snippet: before the first match at most, and in all, marks not counted."""


_BEGINS = rf"(?:(?<![^\W_])|(?<=[{CHARACTERS}]))"
_GOES_ON = rf"[^\W_{CHARACTERS}]*"
_SIGNS_GO_ON = rf"[{SIGNS}]*"
_VARIES = rf"[{VARIES}]*"
_HANGUL = ("\uac00", "\ud7a3")
_BETWEEN = "[\\s\u200b]?"
"""What may stand between two words of the index that were searched for as one."""
_PIECES = rf"{UNIT}|[{CHARACTERS}][{SIGNS}]*|[^{CHARACTERS}{SIGNS}{EMOJI}]+?(?={UNIT}|[{CHARACTERS}]|$)"


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
        end = _whole(text, begin + LONGEST)
        parts, done = ["…" if begin else ""], begin
        for match in self._words.finditer(folded, begin, end):
            parts += [_line(text[done : match.start()]), BEGIN, _line(text[match.start() : match.end()]), END]
            done = match.end()
        parts += [_line(text[done:end]), "…" if end < len(text) else ""]
        return "".join(parts).strip()


def _pattern(word: str) -> str:
    """Of what begins with a word, or is it where its script has no spaces."""
    pieces = re.findall(_PIECES, fold(word)) or [fold(word)]
    last = pieces[-1]
    goes_on = "" if re.match(UNIT, last) else _SIGNS_GO_ON if re.match(f"[{CHARACTERS}]", last) else _GOES_ON
    begins = "" if re.match(rf"{UNIT}|[{CHARACTERS}]", word) else _BEGINS
    return begins + _BETWEEN.join(map(_pattern_of_piece, pieces)) + goes_on


def _pattern_of_piece(piece: str) -> str:
    if re.match(KEYCAP, piece):
        return f"{re.escape(piece[0])}\ufe0f?{piece[-1]}"
    if re.match(UNIT, piece):
        return re.escape(re.sub(rf"(?<!^)[{VARIES}]", "", piece)) + _VARIES
    return re.escape(piece)


def fold(text: str) -> str:
    """The text without case and accents, as long as it was."""
    return text.lower() if text.isascii() else "".join(map(_fold, text))


@lru_cache(maxsize=4096)
def _fold(char: str) -> str:
    if _HANGUL[0] <= char <= _HANGUL[1] or re.match(f"[{EMOJI}]", char):
        return char  # what it would be taken apart into begins many another
    return unicodedata.normalize("NFKD", char)[0].lower()[:1]


def _word_begin(text: str, begin: int, end: int) -> int:
    """The first place from `begin` on where a word begins, if there is one before `end`."""
    if begin == 0 or text[begin - 1].isspace():
        return begin
    space = next((at for at in range(begin, end) if text[at].isspace()), None)
    return _whole(text, begin) if space is None else space + 1


def _whole(text: str, at: int) -> int:
    """The first place from there on where no sign of a character before it stands, nor what varies an emoji."""
    place = re.compile(f"[^{SIGNS}{VARIES}]").search(text, at)
    return place.start() if place is not None else len(text)


def _line(text: str) -> str:
    """The text with nothing in it that breaks a line, or could be taken for a mark."""
    return re.sub(r"[\s\x02\x03]", " ", text)
