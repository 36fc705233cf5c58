"""The one door through which foreign text reaches a terminal or an export.

Foreign is whatever we did not write ourselves: model output, what a user types or pastes, file names, a model's
metadata, error messages. A terminal obeys control characters and reorders text on bidirectional controls; invisible
characters hide text from a reader. All of them come out as marks one can see, the way `less` does it: control
characters as control pictures (ESC is ␛), the others by number, as in <9B> or <U+202E>.

Joiners and variation selectors stay, since scripts and emoji are wrong without them.
"""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import Path

_BEYOND_ASCII = (
    "\x7f-\x9f"  # delete, C1 controls
    "\u00ad"  # soft hyphen
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # bidirectional controls
    "\u200b\u2060-\u2065\u206a-\u206f\ufeff\u180e"  # zero width, invisible operators, deprecated formats
    "\u2028\u2029"  # line and paragraph separator
    "\ufff9-\ufffb"  # interlinear annotation
    "\ud800-\udfff"  # lone surrogates: no terminal can encode them
    "\U000e0000-\U000e007f"  # tags: a second, invisible ASCII
)

_ZERO_WIDTH = frozenset({"Mn", "Me", "Cf"})
_WIDENS = "\ufe0f"
_NAME = 100
"""Characters of a name that are compared with those that there are: no name is longer."""


_UNITS = ("B", "kB", "MB", "GB", "TB")


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

    `measure` says how many cells a text takes.
    """
    line = sanitize(text.replace("\r\n", "⏎").replace("\n", "⏎").replace("\t", " "), keep="")
    if measure(line) <= width:
        return line
    kept, used = "", 0
    for char in line:
        size = measure(kept + char) if not char.isascii() else used + 1
        if size > width - 1:
            break
        kept, used = kept + char, size
    return kept + "…" if width > 0 else ""


def show_piece(text: str) -> str:
    """A token as a list shows it: ·word for a leading space, ⏎ for a line break, ⇥ for a tab, ∅ for nothing."""
    if not text:
        return "∅"
    words = text.lstrip(" ")
    shown = "·" * (len(text) - len(words)) + words
    return sanitize(shown.replace("\n", "⏎").replace("\t", "⇥"), keep="")


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
