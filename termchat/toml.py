"""TOML files that people write: read with one clear error, lines found again for what is wrong in them, and values written."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from termchat import regular_files

MOST = 1 << 20
"""Bytes of the largest file that is read; nobody writes more by hand."""

DEEPEST = 32
"""Tables and lists within each other, and parts of a key. Nothing of ours has more than four."""
LONGEST_NUMBER = 1000
"""Digits of a number; Python itself refuses 4,300."""

_BOM = "\ufeff"
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_HIDDEN = re.compile(r"[\x7f-\x9f\u2028\u2029]")
"""What JSON lets stand and TOML refuses, or no editor shows."""
_KEY = r"""(?:[\w-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')"""
_DOTTED = rf"{_KEY}(?:[ \t]*\.[ \t]*{_KEY})*"
_HEADER = re.compile(rf"[ \t]*\[\[?[ \t]*({_DOTTED})[ \t]*\]\]?")
_PAIR = re.compile(rf"[ \t]*({_DOTTED})[ \t]*=[ \t]*")
_TOKEN = re.compile(
    r'''"""(?:\\.|[^\\])*?"{3,5}|\'\'\'.*?'{3,5}'''  # texts of several lines
    r"""|"(?:\\.|[^"\\\n])*"|'[^'\n]*\'|\#[^\n]*|[\[\]{}]|\n""",
    re.DOTALL,
)
_SUSPICIOUS = re.compile(rf"[0-9_]{{{LONGEST_NUMBER}}}|(?:\.[^\n.]*+){{{DEEPEST}}}")
"""A quick look: texts and comments match, too."""
_TOO_LONG = (
    (re.compile(rf"[0-9](?:_?[0-9]){{{LONGEST_NUMBER}}}"), f"a number has more than {LONGEST_NUMBER:,} digits"),
    (re.compile(rf"(?<![\w-])(?:[\w-]++[ \t]*+\.[ \t]*+){{{DEEPEST}}}"), f"a key has more than {DEEPEST} parts"),
)
"""What takes tomllib time without end, or makes it raise what is no error of TOML."""
_INTEGERS = range(-(1 << 63), 1 << 63)
"""Those that TOML has."""


class TomlError(Exception):
    """A file that cannot be read as TOML; the message names the file, and the line where there is one."""

    @property
    def is_missing(self) -> bool:
        """Whether there is no such file."""
        return isinstance(self.__cause__, FileNotFoundError)


class OutOfRange:
    """Stands for a value that no setting can have; prints as `what`. Every check of a value refuses it."""

    def __init__(self, what: str) -> None:
        self.what = what

    def __repr__(self) -> str:
        return self.what

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OutOfRange) and other.what == self.what

    __hash__ = None  # type: ignore[assignment]


class Statement(NamedTuple):
    """A line that says something: a table's header, or a key with its value. All but `line` are offsets into the text."""

    line: int
    keys: tuple[str, ...]
    """With those of the table."""
    start: int
    value: int
    """Where the value begins; -1 for a header."""
    end: int
    """Behind the value or the header; a comment may follow."""
    after: int
    """The beginning of the next line."""


class TomlFile:
    """A TOML file: its `text` as it is written (line ends too, without a byte order mark), its `table`, and its statements.

    Raises:
        TomlError: it cannot be read, is too large, not UTF-8 or not TOML. The cause is the error that was met.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            text = regular_files.read(path, MOST).decode("utf-8")
            self.mark = _BOM if text.startswith(_BOM) else ""
            self.text = text.removeprefix(_BOM)
            self.table: dict[str, Any] = parsed(self.text)
        except OSError as error:
            raise TomlError(f"{path} cannot be read: {regular_files.problem(error)}") from error
        except UnicodeDecodeError as error:
            raise TomlError(f"{path} is not UTF-8 text (byte {error.start})") from error
        except ValueError as error:
            raise TomlError(f"{path} is not valid TOML: {error}") from error

    def place(self, *keys: str) -> str:
        """Where a key stands, for a message: "config.toml, line 3"; the table's line if the key has none of its own."""
        while keys:
            if keys in self._lines:
                return f"{self.path.name}, line {self._lines[keys]}"
            keys = keys[:-1]
        return self.path.name

    @cached_property
    def statements(self) -> list[Statement]:
        return list(_statements(self.text))

    @cached_property
    def _lines(self) -> dict[tuple[str, ...], int]:
        lines: dict[tuple[str, ...], int] = {}
        for statement in self.statements:
            for count in range(len(statement.keys), 0, -1):  # a dotted key makes its tables, too
                lines.setdefault(statement.keys[:count], statement.line)
        return lines


def parsed(text: str) -> dict[str, Any]:
    """Parse a text, with or without a byte order mark, into a table. Whole numbers beyond 64 bits, and what lies too deep,
    become `OutOfRange`: all other values can be compared and printed.

    Raises:
        ValueError: it is not TOML, with the line as far as there is one.
    """
    text = text.removeprefix(_BOM)
    bare = _blank_texts(text) if _SUSPICIOUS.search(text) else ""
    for pattern, problem in _TOO_LONG:
        if (match := pattern.search(bare)) is not None:
            line, begin = text.count("\n", 0, match.start()) + 1, text.rfind("\n", 0, match.start())
            raise ValueError(f"{problem} (at line {line}, column {match.start() - begin})")
    try:
        table = tomllib.loads(text)
    except RecursionError:
        raise ValueError("brackets are nested too deeply") from None
    return {key: _replace_unusable(value) for key, value in table.items()}


def _blank_texts(text: str) -> str:
    """The text with its strings and comments blanked, every character in its place."""
    return _TOKEN.sub(lambda token: re.sub(r"[^\n]", "_", token[0]) if token[0][0] in "\"'#" else token[0], text)


def _replace_unusable(value: Any, depth: int = 1) -> Any:
    if isinstance(value, int) and value not in _INTEGERS:
        return OutOfRange("a number beyond 64 bits")
    if not isinstance(value, (dict, list)):
        return value
    if depth == DEEPEST:
        return OutOfRange(f"more than {DEEPEST} levels of tables and lists")
    if isinstance(value, list):
        return [_replace_unusable(one, depth + 1) for one in value]
    return {key: _replace_unusable(one, depth + 1) for key, one in value.items()}


def literal(value: object) -> str:
    """A value as TOML writes it: a text, a number, a truth value, or a list of them."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, str):
        return _HIDDEN.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(value, ensure_ascii=False))
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(literal(item) for item in value)}]"
    raise TypeError(f"{value!r} cannot be written as TOML")


def dotted(keys: Sequence[str]) -> str:
    """Keys as TOML writes them before an = or in a header."""
    return ".".join(key if _BARE.fullmatch(key) else literal(key) for key in keys)


def _statements(text: str) -> Iterator[Statement]:
    """Of a text that is known to be TOML."""
    table: tuple[str, ...] = ()
    at, line = 0, 1
    while at < len(text):
        start = at
        if found := _HEADER.match(text, at):
            table = keys = _parts(found[1])
            value, end = -1, found.end()
            _, at = _ends(text, end)
        elif found := _PAIR.match(text, at):
            keys, value = (*table, *_parts(found[1])), found.end()
            end, at = _ends(text, value)
        else:
            at = text.find("\n", at) + 1 or len(text)
            line += 1
            continue
        yield Statement(line, keys, start, value, end, at)
        line += text.count("\n", start, at)


def _ends(text: str, at: int) -> tuple[int, int]:
    """Where the value that begins there ends, and where the line after it begins."""
    depth, end = 0, -1
    for token in _TOKEN.finditer(text, at):
        if token[0] in "[{":
            depth += 1
        elif token[0] in "]}":
            depth -= 1
        elif depth == 0 and token[0] == "\n":
            return _trimmed(text, at, token.start() if end < 0 else end), token.end()
        elif depth == 0 and token[0].startswith("#"):
            end = token.start()
    return _trimmed(text, at, len(text) if end < 0 else end), len(text)


def _trimmed(text: str, begin: int, end: int) -> int:
    return begin + len(text[begin:end].rstrip())


def _parts(dotted: str) -> tuple[str, ...]:
    parts = re.findall(_KEY, dotted)
    return tuple(next(iter(tomllib.loads(f"{part} = 0"))) if part[0] in "\"'" else part for part in parts)
