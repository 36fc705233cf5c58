"""llama.cpp's grammar format, GBNF, as the Lark that llguidance reads, with exactly the same language.

llguidance splits a text into terminals before it parses, and takes the longest one. A grammar in which two terminals overlap
would then mean something else. So every terminal that is written here is one character long.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from termchat.decoding.constraint import TextError

_SPACE = re.compile(r"(?:[ \t]|#[^\r\n]*)*")
_SPACE_AND_LINES = re.compile(r"(?:[ \t\r\n]|#[^\r\n]*)*")
_NAME = re.compile(r"[a-zA-Z0-9-]+")
_TOKEN = re.compile(r"(!?)<(?:\[([0-9]+)\]|([^<>\s\[\]]+))>")
_REPEAT = re.compile(r"\{S([0-9]+)S(?:(,)S([0-9]*)S)?\}".replace("S", _SPACE_AND_LINES.pattern))
_CODE = re.compile(
    r"""\\(?:[trn\\"\[\]-]|(?P<digits>x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}))|[^\\]""", re.DOTALL
)
_ESCAPED = {"\\t": "\t", "\\r": "\r", "\\n": "\n"}
_DIGITS = {"x": 2, "u": 4, "U": 8}
_ANY = "/(?s:.)/"
_NOTHING = '""'
_DEEPEST = 100
"""More parentheses than that, one in another, are refused."""


def to_lark(text: str) -> str:
    """Translate a grammar, with the rule `root` as `start`. A rule that is written twice means its last text, as in llama.cpp.

    Raises:
        TextError: it is not GBNF, or names a rule that it does not define.
    """
    return _Parser(text).parse_grammar()


class _Parser:
    """Reads the text from `_at` on. Each method returns the part that it read as Lark."""

    def __init__(self, text: str) -> None:
        self._text, self._at, self._depth = text, 0, 0
        self._rules: dict[str, str] = {}
        self._used: dict[str, int] = {}
        """Each name that is referred to, and where first."""
        self._names: dict[str, str] = {"root": "start"}

    def parse_grammar(self) -> str:
        self._skip_space(_SPACE_AND_LINES)
        while self._at < len(self._text):
            match = _NAME.match(self._text, self._at)
            if match is None:
                raise self._make_error(f"expected the name of a rule (letters, digits, -), not {self._name_next()}")
            self._at = match.end()
            self._skip_space(_SPACE)
            if not self._text.startswith("::=", self._at):
                raise self._make_error(f"expected ::= after {match[0]}, not {self._name_next()}")
            self._at += 3
            self._skip_space(_SPACE_AND_LINES)
            self._rules[match[0]] = self._parse_alternatives(nested=False)
            if self._at < len(self._text) and self._text[self._at] not in "\r\n":
                raise self._make_error("unexpected " + self._name_next())
            self._skip_space(_SPACE_AND_LINES)
        for name, place in self._used.items():
            if name not in self._rules:
                raise TextError.at(self._text, place, f"rule {name} is not defined")
        if "root" not in self._rules:
            raise TextError("a grammar needs a rule named root")
        return "%llguidance {}\n" + "".join(f"{self._lark_name(name)}: {body}\n" for name, body in self._rules.items())

    def _parse_alternatives(self, *, nested: bool) -> str:
        parts = [self._parse_sequence(nested=nested)]
        while self._peek_character() == "|":
            self._at += 1
            self._skip_space(_SPACE_AND_LINES)
            parts.append(self._parse_sequence(nested=nested))
        return " | ".join(parts)

    def _parse_sequence(self, *, nested: bool) -> str:
        items: list[str] = []
        space = _SPACE_AND_LINES if nested else _SPACE
        while (mark := self._peek_character()) and mark not in "|)\r\n":
            if mark in "*+?{":
                if not items:
                    raise self._make_error(f"{mark} needs something before it to repeat")
                items.append(self._parse_repeated(items.pop(), mark))
            else:
                items.append(self._parse_item(mark))
            self._skip_space(space)
        return " ".join(items) or _NOTHING

    def _parse_item(self, mark: str) -> str:
        if mark == '"':
            return self._parse_literal()
        if mark == "[":
            return self._parse_class()
        if mark == "(":
            return self._parse_group()
        if mark == ".":
            self._at += 1
            return _ANY
        if mark in "<!":
            return self._parse_token()
        match = _NAME.match(self._text, self._at)
        if match is None:
            raise self._make_error("unexpected " + self._name_next())
        self._used.setdefault(match[0], self._at)
        self._at = match.end()
        return self._lark_name(match[0])

    def _lark_name(self, name: str) -> str:
        """Name a rule: Lark allows no capitals and no hyphens."""
        return self._names.setdefault(name, f"r{len(self._names)}")

    def _parse_group(self) -> str:
        start = self._at
        self._depth += 1
        if self._depth > _DEEPEST:
            raise self._make_error(f"parentheses are nested more than {_DEEPEST} deep")
        self._at += 1
        self._skip_space(_SPACE_AND_LINES)
        inner = self._parse_alternatives(nested=True)
        if self._peek_character() != ")":
            if self._peek_character():
                raise self._make_error("expected ), not " + self._name_next())
            raise TextError.at(self._text, start, "this parenthesis is never closed")
        self._at += 1
        self._depth -= 1
        return self._add_rule(inner)

    def _parse_repeated(self, item: str, mark: str) -> str:
        if mark != "{":
            self._at += 1
            return item if item == _NOTHING else self._make_single(item) + mark
        match = _REPEAT.match(self._text, self._at)
        if match is None:
            raise self._make_error("write a repetition as {2}, {2,} or {2,5}")
        low, most = int(match[1]), match[3] if match[2] else match[1]
        if most and int(most) < low:
            raise self._make_error(f"{match[0]} repeats at most fewer times than at least")
        self._at = match.end()
        if item == _NOTHING or (most and not int(most)):
            return _NOTHING
        return f"{self._make_single(item)}{{{low},{int(most) if most else ''}}}"

    def _make_single(self, item: str) -> str:
        """Wrap a repetition in a rule: Lark cannot repeat one again."""
        return self._add_rule(item) if item[-1] in "*+?}" else item

    def _add_rule(self, body: str) -> str:
        """Add a rule: llguidance nests parentheses no more than 30 deep."""
        name = f"({len(self._names)}"  # no name in GBNF
        self._rules[name] = body
        return self._lark_name(name)

    def _parse_literal(self) -> str:
        start = self._at
        self._at += 1
        characters = []
        for code, place in self._parse_codes('"', start, "text"):
            if code > 0x10FFFF or 0xD800 <= code < 0xE000:
                raise TextError.at(self._text, place, f"U+{code:04X} is not a character")
            characters.append(json.dumps(chr(code)))
        return f"({' '.join(characters)})" if len(characters) > 1 else "".join(characters) or _NOTHING

    def _parse_class(self) -> str:
        start = self._at
        self._at += 2 if self._text.startswith("[^", start) else 1
        if self._peek_character() == "]":
            raise TextError.at(self._text, start, "a class needs at least one character")
        parts = []
        for low, _ in self._parse_codes("]", start, "class"):
            high = low
            if self._peek_character() == "-" and not self._text.startswith("-]", self._at):
                self._at += 1
                high = self._parse_code(start, "class")
            low, high = (0xE000 if 0xD800 <= low < 0xE000 else low), (0xD7FF if 0xD800 <= high < 0xE000 else high)
            if low <= (high := min(high, 0x10FFFF)):  # else no character is between the two
                parts.append(f"\\x{{{low:X}}}" if low == high else f"\\x{{{low:X}}}-\\x{{{high:X}}}")
        inverted = "^" if self._text.startswith("[^", start) else ""
        if not parts:  # nothing that a text can hold
            return _ANY if inverted else "/[^\\x{0}-\\x{10FFFF}]/"
        return f"/[{inverted}{''.join(parts)}]/"

    def _parse_codes(self, end: str, start: int, what: str) -> Iterator[tuple[int, int]]:
        """Yield code points up to the character `end`, each with its place."""
        while self._peek_character() != end:
            place = self._at
            yield self._parse_code(start, what), place
        self._at += 1

    def _parse_code(self, start: int, what: str) -> int:
        """Read a code point, which may be written as an escape."""
        if not self._peek_character():
            raise TextError.at(self._text, start, f"this {what} is never closed")
        match = _CODE.match(self._text, self._at)
        if match is None:
            kind = self._text[self._at + 1 : self._at + 2]
            if kind in _DIGITS:
                raise self._make_error(f"\\{kind} needs {_DIGITS[kind]} hexadecimal digits")
            raise self._make_error(f"unknown escape \\{kind}; a backslash is written \\\\")
        self._at = match.end()
        if match["digits"]:
            return int(match["digits"][1:], 16)
        return ord(_ESCAPED.get(match[0], match[0][-1]))

    def _parse_token(self) -> str:
        match = _TOKEN.match(self._text, self._at)
        if match is None:
            raise self._make_error("write a token as <[12]> or <name>")
        if match[1] and match[3]:
            raise self._make_error(f"write the excluded token by its id: !<[12]>, not {match[0]}")
        self._at = match.end()
        return f"<[{'^' if match[1] else ''}{int(match[2])}]>" if match[2] else f"<{match[3]}>"

    def _peek_character(self) -> str:
        return self._text[self._at : self._at + 1]

    def _name_next(self) -> str:
        """Name the next character in a message."""
        mark = self._peek_character()
        if not mark:
            return "the end of the text"
        return "the end of the line" if mark in "\r\n" else mark if mark.isprintable() else f"U+{ord(mark):04X}"

    def _skip_space(self, space: re.Pattern[str]) -> None:
        self._at += len(space.match(self._text, self._at)[0])  # type: ignore[index]  # it matches everywhere

    def _make_error(self, message: str) -> TextError:
        return TextError.at(self._text, self._at, message)
