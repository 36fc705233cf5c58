"""The one door through which foreign text reaches a terminal or an export.

Foreign is whatever we did not write ourselves: model output, what a user types or pastes, file names, a model's
metadata, error messages. A terminal obeys control characters and reorders text on bidirectional controls; invisible
characters hide text from a reader. All of them come out as marks one can see, the way `less` does it: control
characters as control pictures (ESC is ␛), the others by number, as in <9B> or <U+202E>.

Of the invisible ones, joiners and the variation selectors of emoji, symbols and Mongolian stay, since scripts and emoji are
wrong without them. Every function takes time in proportion to the length of its text, or less.
"""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from pathlib import Path

_JOINERS = "\u180b-\u180d\u180f\u200c\u200d\ufe00-\ufe02\ufe0e\ufe0f"
"""Invisible, but needed: the non-joiner and joiner, variation selectors of Mongolian, of symbols (1 to 3), text and emoji."""

_BEYOND_ASCII = (
    "\x7f-\x9f"  # delete, C1 controls
    "\u2028\u2029"  # line and paragraph separator
    "\ud800-\udfff"  # lone surrogates: no terminal can encode them
    # Default_Ignorable_Code_Point (Unicode 16, DerivedCoreProperties.txt) without the joiners: soft hyphen, fillers, zero
    # width, bidirectional controls, invisible operators, other variation selectors, and tags, a second, invisible ASCII
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe03-\ufe0d\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
    "\ufff9-\ufffb\U00013430-\U0001343f"  # other invisible formats: interlinear annotation, joiners of hieroglyphs
    "\u2800\U00013441\U00013442\U00016fe4\U0001d159"  # blanks that are no spaces: of Braille, hieroglyphs, Khitan, music
)

_ZERO_WIDTH = frozenset({"Mn", "Me", "Cf"})
_JOINER, _WIDENS = "\u200d", "\ufe0f"
_JOINED = re.compile(f"[{_JOINERS}]+")
_PER_CELL = 16
"""Characters that a cell may take: emoji of a family with skin tones have half of that. Of more, the rest is cut."""
_NAME = 100
"""Characters of a name that are compared with known ones: no name is longer."""
_UNITS = ("B", "kB", "MB", "GB", "TB")

UNREADABLE = (ValueError, RecursionError)
"""What a decoder raises for bytes that are not what they should be: another form or type, not UTF-8, nested too deeply."""


@lru_cache(maxsize=8)
def _foreign(keep: str) -> re.Pattern[str]:
    controls = "".join(re.escape(chr(c)) for c in range(0x20) if chr(c) not in keep)
    return re.compile(f"[{controls}{_BEYOND_ASCII}]")


def _mark(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "␡"
    if code <= 0x9F:
        return f"<{code:02X}>"
    if 0xD800 <= code <= 0xDFFF:
        return "\N{REPLACEMENT CHARACTER}"
    return f"<U+{code:04X}>"


def sanitize(text: str, keep: str = "\n\t") -> str:
    """The text with every character that could steer a terminal or hide from a reader shown as a mark.

    `keep` holds the ASCII control characters left alone. Text without foreign characters comes back as the same object.
    """
    foreign = _foreign(keep)
    return foreign.sub(_mark, text) if foreign.search(text) else text


def in_place(text: str) -> str:
    """The same on one line, with exactly one character for each, so that a cursor in the text keeps its place."""
    if sanitize(text, keep="") is text:
        return text
    return "".join(mark if len(mark := sanitize(char, keep="")) == 1 else "\N{REPLACEMENT CHARACTER}" for char in text)


def cells(text: str) -> int:
    """Cells the text takes on a terminal, never fewer than it really does; for text without line breaks."""
    if text.isascii():
        return len(text)
    return sum(_cells_of(char) for char in text)


def _cells_of(char: str) -> int:
    if char == _WIDENS:
        return 1
    if unicodedata.category(char) in _ZERO_WIDTH:
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def one_line(text: str, width: int, measure: Callable[[str], int] = cells) -> str:
    """The text on one line of at most `width` cells: sanitised, line breaks as ⏎, cut with … where it is too long.

    `measure` says how many cells a text takes. A letter is not cut from its accents, nor an emoji in two.
    """
    taken = text[: _PER_CELL * (max(width, 0) + 1)]  # before it is measured: foreign text may be of any length
    line = sanitize(taken.replace("\r\n", "⏎").replace("\n", "⏎").replace("\t", " "), keep="")
    if len(taken) == len(text) and measure(line) <= width:
        return line
    if width <= 0:
        return ""
    if line.isascii():
        return line[: width - 1] + "…"
    kept, used = "", 0
    for character in _characters(line):
        used += measure(character)
        if used > width - 1:
            break
        kept += character
    return kept + "…"


def _characters(line: str) -> Iterator[str]:
    """The characters as a reader counts them, about: each with its accents, selectors and what is joined to it."""
    begin = 0
    for at in range(1, len(line)):
        if line[at - 1] != _JOINER and unicodedata.category(line[at]) not in _ZERO_WIDTH:
            yield line[begin:at]
            begin = at
    yield line[begin:]


def character_around(text: str, at: int) -> tuple[int, int]:
    """Where the character begins and ends in which a place lies; the place itself, twice, where it lies between two. A
    character is what a reader takes for one: a grapheme cluster (Unicode Standard Annex 29)."""
    if not 0 < at < len(text) or text[at - 1 : at + 1].isascii():
        return at, at
    from wcwidth import grapheme_boundary_before, iter_graphemes  # rarely needed

    begin = grapheme_boundary_before(text, at + 1)
    return (at, at) if begin == at else (begin, begin + len(next(iter_graphemes(text, begin))))


def erase_last(text: str) -> str:
    """The text without its last character, as a reader counts them."""
    return text[: character_around(text, len(text) - 1)[0]]


def word_letters(text: str) -> str:
    """The text, of the same length, with a letter for each mark and joiner: they belong to the word in which they stand."""
    if text.isascii():
        return text
    return "".join("x" if char in _JOINERS or unicodedata.category(char)[0] == "M" else char for char in text)


def show_piece(text: str) -> str:
    """A token as a list shows it: ·word for a leading space, ⏎ for a line break, ⇥ for a tab, ∅ for nothing.

    What belongs to a character of the token before it is shown, too: a joiner by its number, an accent on ◌.
    """
    if not text:
        return "∅"
    words = text.lstrip(" ")
    spaces = "·" * (len(text) - len(words))
    joined = _JOINED.match(words)
    if joined is not None:
        words = "".join(f"<U+{ord(char):04X}>" for char in joined[0]) + words[joined.end() :]
    elif words and unicodedata.category(words[0]) in ("Mn", "Me"):
        words = "◌" + words
    return spaces + sanitize(words.replace("\n", "⏎").replace("\t", "⇥"), keep="")


def explain_unreadable(error: Exception) -> str:
    """Say in a few words what is wrong with bytes for which a decoder raised one of `UNREADABLE`."""
    if isinstance(error, RecursionError):
        return "nested too deeply"
    return "not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)


def extent(data: bytes) -> str:
    """How long a text in UTF-8 is: 22 characters (16 letters), 22 bytes."""
    text = data.decode("utf-8", "replace")
    counts = (len(text), "character"), (sum(map(str.isalpha, text)), "letter"), (len(data), "byte")
    characters, letters, size = (f"{count:,} {what}{'' if count == 1 else 's'}" for count, what in counts)
    return f"{characters} ({letters}), {size}"


UNKNOWN = "–"
"""What stands for a number that nobody tells."""


def percent(share: float, digits: int = 1) -> str:
    """A share from 0 to 1; one too small for its digits shows as such, and a dash what is not known."""
    if share != share:
        return UNKNOWN
    least = 10.0 ** -(digits + 2)
    return f"<{least:.{digits}%}" if 0 < share < least else f"{share:.{digits}%}"


def guess_of(name: str, known: Iterable[str]) -> str:
    """What a misspelled or shortened name may have meant, case aside: " (did you mean top_k?)"; "" if none is near."""
    folded, word = {one.lower(): one for one in known}, name[:_NAME].lower()
    begun = [one for one in folded if word and one.startswith(word)]
    close = begun or difflib.get_close_matches(word, folded, n=1)
    return f" (did you mean {folded[close[0]]}?)" if close else ""


def size(count: float | None) -> str:
    """Bytes: 98 MB, 1.06 GB; "" if unknown."""
    if count is None:
        return ""
    unit = 0
    while count >= 999.5 and unit < len(_UNITS) - 1:
        count, unit = count / 1000, unit + 1
    digits = 0 if unit < 2 or count >= 99.5 else 1 if count >= 9.95 else 2
    return f"{count:.{digits}f} {_UNITS[unit]}"


def duration(seconds: float) -> str:
    """Seconds: 45 s, 3 min 20 s, 2 h 5 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def home(path: Path | str) -> str:
    text, own = str(path), str(Path.home())
    return "~" + text[len(own) :] if text.startswith(own + "/") else text
