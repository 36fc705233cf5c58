"""What a line cannot show or a person cannot type, as backslash escapes; and text that every encoding takes."""

from __future__ import annotations

from termchat.text import sanitize

_NAMED = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "0": "\0"}
_SHOWN = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\\": "\\\\"}
_DIGITS = {"x": 2, "u": 4, "U": 8}
_HIGHEST = 0x10FFFF


def well_formed(text: str) -> str:
    """The text with U+FFFD for what no encoding takes: bytes of a command line that were not UTF-8, half characters."""
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
        elif width and _is_character(digits, width):
            out.append(chr(int(digits, 16)))
            i += 2 + width
        else:
            out.append(text[i])
            i += 1
    return "".join(out)


def escape(text: str) -> str:
    r"""The inverse of `unescape` for what a line cannot show, or a reader cannot see."""
    if text.isprintable() and "\\" not in text and sanitize(text, keep="") is text:
        return text
    return "".join(_SHOWN.get(c) or (c if c.isprintable() and sanitize(c) is c else _numbered(c)) for c in text)


def _numbered(character: str) -> str:
    number = ord(character)
    return f"\\u{number:04x}" if number < 1 << 16 else f"\\U{number:08x}"


def _is_character(digits: str, width: int) -> bool:
    if len(digits) < width or not all(c in "0123456789abcdefABCDEF" for c in digits):
        return False
    return int(digits, 16) <= _HIGHEST
