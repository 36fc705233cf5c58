"""What a line cannot show or a person cannot type, as backslash escapes; and text that every encoding takes."""

from __future__ import annotations

import re

from termchat.text import sanitize

_NAMED = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "0": "\0"}
_SHOWN = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\\": "\\\\"}
_ESCAPE = re.compile(r"\\(?:([ntr\\0])|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})")
_HIGHEST = 0x10FFFF


def well_formed(text: str) -> str:
    """Replace what no encoding takes (bytes of a command line that were not UTF-8, half characters) by U+FFFD."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def unescape(text: str) -> str:
    r"""Replace `\n`, `\t`, `\r`, `\0`, `\\`, `\xHH`, `\uHHHH` and `\UHHHHHHHH` in typed text; anything else stays."""

    def replace(match: re.Match[str]) -> str:
        if match[1]:
            return _NAMED[match[1]]
        code = int(match[0][2:], 16)
        return chr(code) if code <= _HIGHEST else match[0]

    return _ESCAPE.sub(replace, text)


def escape(text: str) -> str:
    r"""Escape what a line cannot show, or a reader cannot see; the inverse of `unescape`."""
    if text.isprintable() and "\\" not in text and sanitize(text, keep="") is text:
        return text
    numbered = {c: f"\\u{ord(c):04x}" if ord(c) < 1 << 16 else f"\\U{ord(c):08x}" for c in set(text)}
    return "".join(_SHOWN.get(c) or (c if c.isprintable() and sanitize(c) is c else numbered[c]) for c in text)
