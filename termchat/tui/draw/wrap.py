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
_PIECE = re.compile(r"[ -~]* |\t|[^ \t]+")
"""Words of ASCII up to a space, most of all: every character takes a cell, and none but the space is a place to break. Else a
tab, or another word."""
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
        for index, line in enumerate(text.split("\n")):
            if index:
                self._end_word()
                if ink.heat >= 0 and self._used < self._width:
                    _add(self._line, " ", ink)
                self._fed += 1
                self._break(self._fed)
            for piece in _PIECE.findall(line):
                if piece in ("\t", " "):
                    self._end_word()
                    size = 1 if piece == " " else TAB - (self._used - self._indent) % TAB
                    if (size := min(size, self._width - self._used)) > 0:
                        _add(self._line, " " * size, ink)
                        self._used += size
                    self._fed += 1
                elif piece.isascii() and piece.isprintable():
                    self._feed_words(piece, ink)
                else:
                    self._feed_foreign(piece, ink)

    def _feed_words(self, text: str, ink: Ink) -> None:
        """Add ASCII text, as much at a time as a line has room for."""
        begin, at = self._fed, 0
        while at < len(text):
            edge = at + self._width - self._used
            end = -1 if self._word else text.rfind(" ", at, edge + 1)
            if end >= 0:
                while end < len(text) and text[end] == " ":
                    end += 1
                if shown := text[at : min(end, edge)]:  # spaces hang over the edge
                    _add(self._line, shown, ink)
                self._used += len(shown)
                at = end
            else:  # a word that goes on, that may do so, or that the line has no room for
                end = text.find(" ", at)
                word = text[at:end] if end >= 0 else text[at:]
                if word:
                    self._extend_word(word, ink, parted=_is_parted(self._word, word))
                at += len(word)
                self._fed = begin + at
                if end >= 0:
                    self._end_word()
            self._fed = begin + at

    def _feed_foreign(self, text: str, ink: Ink) -> None:
        for part in filter(None, _ideograph().split(text)):
            parted = _is_parted(self._word, part)
            if len(part) > 2 and _ideograph().match(part):
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
        """Add ideographs between any of which a line may break, as many at a time as a line has room for."""
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
        last = [list(self._line)]
        if self._word and not self._word_fits():
            last.append(list(self._rest))
        _join(last[-1], self._word)
        return [*self.closed, *map(self._make, last)]

    @property
    def line_starts(self) -> list[int]:
        """For each of `lines`, how many characters were fed before it."""
        return [*self.starts, self._word_start] if self._word and not self._word_fits() else self.starts

    def _extend_word(self, piece: str, ink: Ink, *, parted: bool, is_sign: bool = False) -> None:
        if parted or self._is_sign:
            self._end_word()
        if not self._word:
            self._word_start, self._is_sign = self._fed, is_sign
        is_easy = piece.isascii() and (not self._word or self._word[-1][0].isascii())
        _add(self._word, piece, ink)
        self._word_width = self._word_width + len(piece) if is_easy else sum(cell_len(text) for text, _ in self._word)
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
                    _join(self._line, self._word)
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
        _join(self._line, self._word)
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


def _join(line: list[Run], word: list[Run]) -> None:
    for text, ink in word:
        _add(line, text, ink)


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
