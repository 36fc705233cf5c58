"""A piece of a text around words that were searched for."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache

from termchat.conversation.wordless import CHARACTERS, EMOJI, KEYCAP, SIGNS, UNIT, VARIES, VOWELS

BEGIN, END = "\x02", "\x03"
"""What stands around a word that matches."""

BEFORE, LONGEST = 32, 160
"""Characters of a snippet: before the first match at most, and in all, marks not counted."""


_OF_WORD = rf"(?:[^\W_{CHARACTERS}]|[{VOWELS}])"
"""Of a word that has to be found from its beginning on."""
_GOES_ON = f"{_OF_WORD}*"
_SIGNS_GO_ON = rf"[{SIGNS}]*"
_VARIES = rf"[{VARIES}]*"
_HANGUL = ("\uac00", "\ud7a3")
_BETWEEN = "[\\s\u200b]?"
"""What may stand between two words of the index that were searched for as one."""
_PIECES = rf"{UNIT}|[{CHARACTERS}][{SIGNS}]*|[^{CHARACTERS}{SIGNS}{EMOJI}]+?(?={UNIT}|[{CHARACTERS}]|$)"


class Marker:
    """Finds words that begin with one of `words`, whatever their case and accents."""

    def __init__(self, words: Sequence[str]) -> None:
        longest_first = sorted(words, key=len, reverse=True)
        self._begun = [re.match(rf"{UNIT}|[{CHARACTERS}]", word) is None for word in longest_first]
        pieces = [_pieces(word) for word in longest_first]
        self._go_on = [_goes_on(of_word[-1]) for of_word in pieces]
        # Only the words themselves: to make a pattern of all that may stand around them takes longer than to search.
        self._words = re.compile("|".join(f"({_BETWEEN.join(map(_pattern_of_piece, of_word))})" for of_word in pieces))

    def snippet(self, text: str) -> str:
        """One line of the text around the first match, each match between BEGIN and END; "" where there is none."""
        folded = fold(text)
        first = next(self._matches(folded, 0, len(text)), None)
        if first is None:
            return ""
        begin = _word_begin(text, max(first[0] - BEFORE, 0), first[0])
        end = _whole(text, begin + LONGEST)
        parts, done = ["…" if begin else ""], begin
        for start, stop in self._matches(folded, begin, end):
            parts += [_line(text[done:start]), BEGIN, _line(text[start:stop]), END]
            done = stop
        parts += [_line(text[done:end]), "…" if end < len(text) else ""]
        return "".join(parts).strip()

    def _matches(self, folded: str, begin: int, end: int) -> Iterator[tuple[int, int]]:
        """Where they begin and end: of what begins with a word, or is it where its script has no spaces."""
        while (found := self._words.search(folded, begin, end)) is not None:
            number, start = (found.lastindex or 1) - 1, found.start()
            if self._begun[number] and start and re.match(_OF_WORD, folded[start - 1]):
                begin = start + 1
                continue
            goes_on = re.compile(self._go_on[number]).match(folded, found.end(), end)
            begin = goes_on.end() if goes_on is not None else found.end()
            yield start, begin


def _pieces(word: str) -> list[str]:
    return re.findall(_PIECES, fold(word)) or [fold(word)]


def _goes_on(last: str) -> str:
    """What belongs to a word behind its last piece."""
    return "" if re.match(UNIT, last) else _SIGNS_GO_ON if re.match(f"[{CHARACTERS}]", last) else _GOES_ON


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
    place = re.compile(f"[^{SIGNS}{VOWELS}{VARIES}]").search(text, at)
    return place.start() if place is not None else len(text)


def _line(text: str) -> str:
    """The text with nothing in it that breaks a line, or could be taken for a mark."""
    return re.sub(r"[\s\x02\x03]", " ", text)
