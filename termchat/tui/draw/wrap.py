"""Text to lines of so many cells, as it comes: nothing that is behind the last word is looked at again.

Lines break after spaces and on either side of an ideograph; a word too long for a line starts a line of its own and
is broken. Spaces at the end of a line hang over its edge and are not drawn. A character and what continues it (accents,
joiners, selectors) are never parted, wherever the tokens part them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from rich.cells import cell_len, get_character_cell_size, split_graphemes

from termchat.text import sanitize
from termchat.tui.draw.ink import BLANK, Ink, Line, Run

TAB = 4
_WORDS = re.compile(r"[ -~]+")
"""What most text is: every character takes a cell, and none but the space is a place to break."""
_PIECE = re.compile(r"\t| +|[^\t ]+")
_IDEOGRAPHS = (
    "\u2e80-\u2fdf\u3000-\u312f\u3190-\u4dbf\u4e00-\ua4cf\uf900-\ufaff\ufe30-\ufe4f\uff00-\uff60\U00020000-\U0003fffd"
)
_STARTS_NO_LINE = frozenset("、。，．・：；？！）］｝〕〉》」』】〙〗ー々ぁぃぅぇぉっゃゅょァィゥェォッャュョ")
_ENDS_NO_LINE = frozenset("（［｛〔〈《「『【〘〖")
_EASY = "\u3041-\u3096\u30a1-\u30fa\u3400-\u4dbf\u4e00-\u9fff"
"""Ideographs that nothing continues, most of the text that has any; of them there may be a run where none starts no line."""
_WIDE = 2
"""Cells of an ideograph."""
_JOINER = "\u200d"


class Wrapper:
    """Wraps runs fed one after the other. `first` and `rest` are put before the first and the other lines."""

    def __init__(self, width: int, first: tuple[Run, ...] = (), rest: tuple[Run, ...] = (), ground: str = "") -> None:
        self._rest, self._ground = rest, ground
        self._indent = sum(cell_len(text) for text, _ in rest)
        self._width = max(width, self._indent + 2)
        self.closed: list[Line] = []
        self.starts = [0]
        """For each line, the open one included, how many characters were fed before it."""
        self._line: list[Run] = list(first)
        self._used = sum(cell_len(text) for text, _ in first)
        self._word: list[Run] = []
        self._word_width = 0
        self._word_start = 0
        self._is_sign = False
        """Whether the word is a sign for one character."""
        self._fed = 0

    def feed(self, text: str, ink: Ink) -> None:
        """Add foreign text; it is sanitised here."""
        parts = bool(self._word) and not self._word[-1][0].isascii()
        for index, line in enumerate(text.split("\n")):
            if index:
                self._end_line(ink)
            if (index or not parts) and _WORDS.fullmatch(line):
                self._feed_words(line, ink)
            elif line:
                self._feed_any(line, ink)

    def _feed_words(self, text: str, ink: Ink) -> None:
        """Do the same as `_feed_any`, a line of the screen at a time: ten times as fast."""
        begin, at, length = self._fed, 0, len(text)
        while at < length:
            if self._word or text.find(" ", at, at + self._width - self._indent + 1) < 0:  # goes on, or may be too long
                end = text.find(" ", at)
                end = end if end >= 0 else length
                if end > at:
                    self._extend_word(text[at:end], ink, parted=False)
                self._fed = begin + end
                if end < length:
                    self._end_word()
                at = end
                continue
            limit = at + self._width - self._used
            if limit >= length:
                cut = text.rfind(" ", at) + 1
            else:
                cut = max(limit if text[limit] == " " else text.rfind(" ", at, limit) + 1, at)
            if cut > at:
                _add(self._line, text[at:cut], ink)
                self._used += cut - at
            if limit < length:
                while cut < length and text[cut] == " ":  # they hang over the edge
                    cut += 1
                if cut < length and self._used > self._indent:
                    self._break(begin + cut)
            at = cut
            self._fed = begin + at

    def _end_line(self, ink: Ink) -> None:
        self._end_word()
        if ink.heat >= 0 and self._used < self._width:
            _add(self._line, " ", ink)
        self._fed += 1
        self._break(self._fed)

    def _feed_any(self, text: str, ink: Ink) -> None:
        for found in _PIECE.finditer(text):
            piece = found[0]
            if piece == "\t" or piece[0] == " ":
                self._end_word()
                size = len(piece) if piece != "\t" else TAB - (self._used - self._indent) % TAB
                if (size := min(size, self._width - self._used)) > 0:
                    _add(self._line, " " * size, ink)
                    self._used += size
                self._fed += len(piece)
            else:
                for part in (piece,) if piece.isascii() else filter(None, _ideograph().split(piece)):
                    parted = _is_parted(self._word, part)
                    if len(part) > 2 and not part.isascii() and _ideograph().match(part):
                        self._feed_ideographs(part, ink, parted=parted)
                        continue
                    shown = sanitize(part)
                    if len(shown) == len(part):
                        self._extend_word(shown, ink, parted=parted)
                        self._fed += len(part)
                        continue
                    for char in part:  # one that is shown as a sign is a word
                        shown = sanitize(char)
                        is_sign = len(shown) > 1
                        self._extend_word(shown, ink, parted=parted or is_sign, is_sign=is_sign)
                        self._fed += 1
                        parted = False

    def _feed_ideographs(self, text: str, ink: Ink, *, parted: bool) -> None:
        """Do the same as `_feed_any`, a line of the screen at a time, fifteen times as fast: a line may break between any."""
        self._extend_word(text[0], ink, parted=parted)
        self._end_word()
        at, last = 1, len(text) - 1
        while at < last:
            if not (size := min((self._width - self._used) // _WIDE, last - at)):
                self._break(self._fed + at)
                continue
            _add(self._line, text[at : at + size], ink)
            self._used += _WIDE * size
            at += size
        self._fed += last
        self._extend_word(text[last], ink, parted=False)  # before what follows there may be no break
        self._fed += 1

    @property
    def lines(self) -> list[Line]:
        """All lines as they stand, the open one with its last word last."""
        if not self._word:
            return [*self.closed, self._make(self._line)]
        if self._word_fits():
            return [*self.closed, self._make(_joined(list(self._line), self._word))]
        return [*self.closed, self._make(self._line), self._make(_joined(list(self._rest), self._word))]

    @property
    def line_starts(self) -> list[int]:
        """For each of `lines`, how many characters were fed before it."""
        return [*self.starts, self._word_start] if self._word and not self._word_fits() else self.starts

    def _extend_word(self, piece: str, ink: Ink, *, parted: bool, is_sign: bool = False) -> None:
        if parted or self._is_sign:
            self._end_word()
        if not self._word:
            self._word_start, self._is_sign = self._fed, is_sign
        _add(self._word, piece, ink)
        self._word_width = (
            self._word_width + len(piece) if piece.isascii() else sum(cell_len(text) for text, _ in self._word)
        )
        room = self._width - self._indent
        if self._word_width > room:
            self._fold(room)

    def _fold(self, room: int) -> None:
        """Put a word that fits no line on lines of its own, but for its last part."""
        if self._used > self._indent:
            self._break(self._word_start)
        word, self._word, used = self._word, [], 0
        first, done = self._word_start, 0
        for text, ink in word:
            for begin, end, size in split_graphemes(text)[0]:
                if used + size > room:
                    _joined(self._line, self._word)
                    self._word = []
                    self._word_start, used = first + (0 if self._is_sign else done), 0
                    self._break(self._word_start)
                _add(self._word, text[begin:end], ink)
                used += size
                done += end - begin
        self._word_width = used

    def _end_word(self) -> None:
        if not self._word:
            return
        if not self._word_fits():
            self._break(self._word_start)
        _joined(self._line, self._word)
        self._used += self._word_width
        self._word, self._word_width = [], 0

    def _word_fits(self) -> bool:
        return self._used + self._word_width <= self._width or self._used <= self._indent

    def _break(self, start: int) -> None:
        self.closed.append(self._make(self._line))
        self.starts.append(start)
        self._line, self._used = list(self._rest), self._indent

    def _make(self, runs: list[Run]) -> Line:
        return Line(tuple(runs), self._ground) if runs or self._ground else BLANK


def wrap_runs(runs: Iterable[Run], width: int, first: tuple[Run, ...] = (), rest: tuple[Run, ...] = ()) -> list[Line]:
    """Wrap foreign text at once; `first` and `rest` are put before the first and the other lines."""
    wrapper = Wrapper(width, first, rest)
    for text, ink in runs:
        wrapper.feed(text, ink)
    return wrapper.lines


@cache
def _ideograph() -> re.Pattern[str]:
    """Compile when the first character outside ASCII comes."""
    easy = f"(?![{''.join(sorted(_STARTS_NO_LINE))}])[{_EASY}]"
    return re.compile(f"((?:{easy}){{3,}}|[{_IDEOGRAPHS}])")


def _is_parted(word: list[Run], piece: str) -> bool:
    """Return whether a line may break between a word and the piece that follows it without a space."""
    if not word or (word[-1][0].isascii() and piece.isascii()):
        return False
    last, first = word[-1][0][-1], piece[0]
    if last in _ENDS_NO_LINE or first in _STARTS_NO_LINE or last == _JOINER or not get_character_cell_size(first):
        return False
    return _ideograph().match(last) is not None or _ideograph().match(first) is not None


def _joined(line: list[Run], word: list[Run]) -> list[Run]:
    for text, ink in word:
        _add(line, text, ink)
    return line


def _add(runs: list[Run], text: str, ink: Ink) -> None:
    """Add a run; a continuation of the last character keeps that character's ink."""
    if runs:
        last, last_ink = runs[-1]
        if last_ink is ink:
            runs[-1] = (last + text, ink)
            return
        cut = len(text) if last_ink == ink else 0 if last.isascii() and text.isascii() else _continuation(last, text)
        if cut:
            runs[-1] = (last + text[:cut], last_ink)
            text = text[cut:]
    if text:
        runs.append((text, ink))


def _continuation(before: str, text: str) -> int:
    """Count the characters of `text` that belong to the last character of `before`."""
    size = 1 if before[-1:] == _JOINER else 0
    while size < len(text) and not text[size].isascii() and not get_character_cell_size(text[size]):
        size += 2 if text[size] == _JOINER else 1
    return min(size, len(text))
