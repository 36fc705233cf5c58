"""What a line cannot show or a person cannot type, as backslash escapes; and text that every encoding takes."""

from __future__ import annotations

import re

from termchat.text import sanitize

_NAMED = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "0": "\0"}
_SHOWN = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\\": "\\\\"}
_DIGITS = {"x": 2, "u": 4, "U": 8}
_NUMBER = re.compile("[0-9a-fA-F]+")
_HIGHEST = 0x10FFFF


def well_formed(text: str) -> str:
    """Return the text with U+FFFD for what no encoding takes: bytes of a command line that were not UTF-8, half characters."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def unescape(text: str) -> str:
    r"""`\n`, `\t`, `\r`, `\0`, `\\`, `\xHH`, `\uHHHH` and `\UHHHHHHHH` of a typed text; anything else stays as it is."""
    out, i = [], 0
    while i < len(text):
        mark = text[i + 1 : i + 2] if text[i] == "\\" else ""
        width = _DIGITS.get(mark, 0)
        digits = text[i + 2 : i + 2 + width]
        if mark in _NAMED:
            out.append(_NAMED[mark])
            i += 2
        elif width and _NUMBER.fullmatch(digits) and len(digits) == width and int(digits, 16) <= _HIGHEST:
            out.append(chr(int(digits, 16)))
            i += 2 + width
        else:
            out.append(text[i])
            i += 1
    return "".join(out)


def escape(text: str) -> str:
    """Return the inverse of `unescape` for what a line cannot show, or a reader cannot see."""
    if text.isprintable() and "\\" not in text and sanitize(text, keep="") is text:
        return text
    numbered = {c: f"\\u{ord(c):04x}" if ord(c) < 1 << 16 else f"\\U{ord(c):08x}" for c in set(text)}
    return "".join(_SHOWN.get(c) or (c if c.isprintable() and sanitize(c) is c else numbered[c]) for c in text)
