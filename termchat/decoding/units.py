"""Where sentences, lines and paragraphs end, in every script, while a text comes in pieces.

A sentence ends

- with `.`, `!`, `?` or `…`, before white space or the end of the text. Not with a decimal point, a number at the start of a
  line ("1. First"), a single letter ("e.g.", "J. Smith") or a common abbreviation; some of these do before a capital ("etc.");
- with a mark that means nothing else, such as `。`, `！`, `؟`, `۔` or `।`, whatever follows;
- with its line;
- in Thai and Lao, which have no mark, with a space between two of their letters.

What closes quotes, brackets and emphasis belongs to the sentence, and so do emoji right behind its mark. One without a letter,
digit or emoji is none. A line ends with a line break and a paragraph before an empty line; those with nothing but white space
are none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial

from termchat.decoding.conditions import Quantity

_CLOSING = "\"'”’»)]*_`」』）】》〉］"
_EMOJI = "\u2600-\u27bf\U0001f000-\U0001faff"
_SURE = "。！？｡؟۔।॥።፧։។៕။‼⁇⁈⁉"
_THAI = "\u0e01-\u0e2e\u0e30-\u0e3a\u0e40-\u0e45\u0e47-\u0e4e\u0e81-\u0eae\u0eb0-\u0ec4\u0ec8-\u0ecd"
_AFTER = rf"[{re.escape(_CLOSING)}{_EMOJI}\ufe0f\u200d]*"
_SENTENCE = re.compile(
    rf"(?P<open>[.!?…]+{_AFTER}(?=\s|\Z))|[{_SURE}]+[.!?…{_SURE}]*{_AFTER}|(?=\n)|(?<=[{_THAI}])(?=[ \u00a0]+[{_THAI}])"
)
_CONTENT = re.compile(rf"[^\W_]|[{_EMOJI}]")
_WORD = re.compile(r"(?:^|[^\w.])((?:\w\.)*\w+)\.\Z")
_NUMBERED = re.compile(r"\n\s*[-*>#\s]*(?:\d+|[a-zA-Z])\.\Z")
_NEVER = re.compile("mr|mrs|ms|mx|dr|prof|st|mt|vs|cf|figs?|vol|pp|ca|approx|mme|mlle|sra|srta|sr|dra|hr|fr|bzw|nr")
_BEFORE_SMALL = re.compile("etc|jr|inc|ltd|co|corp|al|usw|usf")
"""Abbreviations that end a sentence only before a capital."""

_NEAR = 24
"""Characters that are looked at on both sides of a point."""
_KEPT = 512
"""Characters of a unit that has not ended which are looked at again."""


def _find_sentences(text: str, begins_line: bool) -> Iterator[int]:
    end, has_content = 0, False
    for match in _SENTENCE.finditer(text):
        begin, end = end, match.end()
        has_content = has_content or _CONTENT.search(text, begin, end) is not None
        before = ("\n" if begins_line and end <= _NEAR else "") + text[max(end - _NEAR, 0) : end]
        if has_content and not (match["open"] == "." and _is_abbreviation(before, text[end : end + _NEAR])):
            has_content = False
            yield end


def _is_abbreviation(text: str, following: str) -> bool:
    """Return whether the point at the end of a text belongs to an abbreviation or a number; `following` comes after it."""
    if _NUMBERED.search(text):
        return True
    match = _WORD.search(text)
    word = match[1].lower().rpartition(".")[2] if match is not None else ""
    if _BEFORE_SMALL.fullmatch(word):
        return not following.lstrip()[:1].isupper()
    return _NEVER.fullmatch(word) is not None or (len(word) == 1 and word.isalpha() and word != "i")


def _find_borders(border: re.Pattern[str], text: str, _begins_line: bool) -> Iterator[int]:
    """Yield the ends of units, which stand before such a border."""
    begin = 0
    for match in border.finditer(text):
        unit, begin = text[begin : match.start()], match.start()
        if unit.strip():
            yield begin


_ENDS: dict[Quantity, Callable[[str, bool], Iterator[int]]] = {
    "sentences": _find_sentences,
    "lines": partial(_find_borders, re.compile(r"\n")),
    "paragraphs": partial(_find_borders, re.compile(r"\n[^\S\n]*\n")),
}
"""Where units end in a text; the last may need what follows it to be sure."""


def ends_sentence(text: str, following: str) -> bool:
    """Return whether a sentence ends with `text`, but for white space, where `following` comes next ("" when nothing does)."""
    ends = [end for end in _find_sentences(text + following, True) if end <= len(text)]
    return bool(ends) and not text[ends[-1] :].strip()


def decode_beginning(data: bytes) -> str:
    """Decode the beginning of a text. Of half a character return one that it may be: a closing mark or an emoji where that is
    possible, else U+FFFD."""
    text = data.decode("utf-8", "ignore")
    if text or not data:
        return text
    if data.startswith(b"\xf0\x9f"):
        return "😀"
    return next((mark for mark in _CLOSING if mark.encode().startswith(data)), "\ufffd")


class UnitCounter:
    """Counts the units of a text that ended, as it comes."""

    def __init__(self, quantity: Quantity) -> None:
        self._ends = _ENDS[quantity]
        self._open = ""
        self._begins_line = True
        self._count = 0

    def push_text(self, text: str) -> None:
        self._open += text

    def count_ended(self, following: str) -> int:
        """Return the number of units that have ended, if `following` comes next."""
        ends = [end for end in self._ends(self._open + following, self._begins_line) if end <= len(self._open)]
        self._count += len(ends)
        cut = max(ends[-1] if ends else 0, len(self._open) - _KEPT)
        if cut:
            self._open, self._begins_line = self._open[cut:], False
        return self._count
