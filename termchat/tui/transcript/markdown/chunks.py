"""A reply's Markdown cut into top-level chunks while it streams: only the last chunk is open, and none grows without end.

A chunk can be parsed and laid out without the others. Where a paragraph, list item, quote, table or code block gets
longer than `LIMIT` it goes on in another chunk, so that what is looked at again with every token stays small.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from termchat.tui.transcript.markdown.inline import widest

LIMIT = 1600
"""Characters after which a chunk is cut at the next line, or at a space where the line itself is that long."""

_NO_FENCE = "\n"
"""Closes no code block, since no line has it."""

CODE_LINES = (12, 24, 100)
"""Lines after which a code block is cut where it seems to begin anew, outside of long comments and strings, anywhere."""

Kind = Literal["paragraph", "line", "list", "quote", "table", "indented", "code", "math"]

_FENCE = re.compile(r"( {0,3})(`{3,}|~{3,})\s*([^\s`]*)[^`\n]*$")
_HEADING = re.compile(r" {0,3}#{1,6}(\s|$)")
_RULE = re.compile(r" {0,3}([-*_])[ \t]*(\1[ \t]*){2,}$")
_ITEM = re.compile(r" {0,3}([-*+]|\d{1,9}[.)])(\s+|$)")
_QUOTE = re.compile(r" {0,3}>")
_UNDERLINE = re.compile(r" {0,3}(=+|-{2,})\s*$")
_TABLE_RULE = re.compile(r" {0,3}\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$")
_MAY_BECOME_A_MARKER = re.compile(
    r"\s*([-*+_=~`#>|]{1,3}|\d{1,2}[.)]?|([-*+]|\d{1,9}[.)])\s+\[([ xX]?|[ xX]\])|\\)\s*$"
)
_MATH = re.compile(r" {0,3}(\$\$|\\\[)")
_MATH_ENDS = {"$$": "$$", "\\[": "\\]"}

_STARTS: tuple[tuple[re.Pattern[str], Kind], ...] = (
    (_HEADING, "line"),
    (_RULE, "line"),
    (_ITEM, "list"),
    (_QUOTE, "quote"),
    (_MATH, "math"),
)
_BALANCED = (('"""', '"""'), ("'''", "'''"), ("/*", "*/"), ("<!--", "-->"))


@dataclass(slots=True)
class Chunk:
    """A piece of Markdown from `start` to `end` (characters of the reply).

    `gap` says that a blank line stands before it; `indent` that it goes on inside a list item, and how deep; `head` is
    what must be parsed before it: a table's head, and a row as wide as those before. Of code, `source` is without the fences;
    `first` says that it begins the block, and `lead` how many characters the line with the opening fence has.
    """

    kind: Kind
    start: int
    end: int
    source: str = ""
    gap: bool = False
    indent: int = 0
    head: str = ""
    fence: str = ""
    language: str = ""
    first: bool = True
    lead: int = 0


class Splitter:
    """Takes a reply's text as it comes, from character `at` on; gives the chunks that are finished and those that are still
    open. With the name of a language in `code` all of it is one code block."""

    def __init__(self, at: int = 0, *, code: str = "") -> None:
        self._code = code
        self._chunks: list[Chunk] = []
        self._open: Chunk | None = None
        self._gap = at > 0
        self._rest = ""
        self._at = at
        self._mid_line = False

    def feed(self, text: str) -> None:
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            self._take(line + "\n")
        if len(self._rest) > LIMIT:
            *pieces, self._rest = _pieces(self._rest)
            for piece in pieces:
                self._push(piece)

    def finished(self) -> list[Chunk]:
        """The chunks finished since the last time."""
        chunks, self._chunks = self._chunks, []
        return chunks

    def open(self, *, done: bool = False) -> list[Chunk]:
        """The chunks that may still change, as they stand; `done` says that no more text comes.

        A last line that is only a marker so far ("-", "``") is left out until it shows what it is.
        """
        tail = Splitter(code=self._code)
        tail._open = replace(self._open) if self._open is not None else None
        tail._gap, tail._at, tail._mid_line = self._gap, self._at, self._mid_line
        if self._rest and (done or self._mid_line or self._code or not _MAY_BECOME_A_MARKER.match(self._rest)):
            tail._push(self._rest)
        return [*tail._chunks, *([tail._open] if tail._open is not None else [])]

    def _take(self, line: str) -> None:
        if len(line) <= LIMIT:
            self._push(line)
            return
        for piece in _pieces(line):
            self._push(piece)

    def _push(self, line: str) -> None:
        """A line, or a piece of a very long one (all its pieces but the last end without a line break)."""
        mid_line, self._mid_line = self._mid_line, not line.endswith("\n")
        body = line.rstrip("\n")
        current = self._open
        if mid_line and current is not None and body.strip():
            self._continue_in_next(current, line, gap=False)
        elif current is not None and current.kind == "code":
            self._push_code(current, line, body)
        elif not body.strip():
            self._gap = True
            if current is not None:
                current.source += line
                current.end += len(line)
        elif current is not None and self._goes_on(current, body):
            if _is_long(current):
                self._continue_in_next(current, line, gap=self._gap)
            else:
                if current.kind == "paragraph" and current.source.count("\n") == 1 and _is_table(current.source, body):
                    current.kind, current.head = "table", ""
                current.source += line
                current.end += len(line)
            self._gap = False
        else:
            self._begin(line, body)
        self._at += len(line)

    def _begin(self, line: str, body: str) -> None:
        self._close()
        chunk = Chunk("paragraph", self._at, self._at + len(line), line, gap=self._gap)
        fence = _FENCE.match(body) if not self._code else None
        if self._code:
            chunk.kind, chunk.language, chunk.fence = "code", self._code, _NO_FENCE
        elif fence is not None:
            chunk.kind, chunk.source, chunk.lead = "code", "", len(line)
            chunk.indent, chunk.fence, chunk.language = len(fence[1]), fence[2], fence[3]
        else:
            chunk.kind = next((kind for pattern, kind in _STARTS if pattern.match(body)), "paragraph")
            if chunk.kind == "paragraph" and _depth(body) >= 4:
                chunk.kind = "indented"
        self._open, self._gap = chunk, False

    def _close(self) -> None:
        if self._open is not None:
            self._chunks.append(self._open)
            self._open = None

    def _continue_in_next(self, current: Chunk, line: str, *, gap: bool) -> None:
        following = replace(
            current, start=self._at, end=self._at + len(line), source=line, gap=gap, first=False, lead=0
        )
        if current.kind == "list" and not current.indent:
            marker = _ITEM.match(current.source)
            following.indent = len(marker[0].rstrip()) + 1 if marker else 2
        if current.kind == "table":
            rows = (current.head + current.source).splitlines(keepends=True)
            following.head = "".join(rows[:2]) + widest(rows[2:])
        self._close()
        self._open = following

    def _push_code(self, current: Chunk, line: str, body: str) -> None:
        if _closes(body, current.fence):
            current.end += len(line)
            self._close()
            self._gap = False
            return
        if _may_cut(current.source, body):
            self._continue_in_next(current, "", gap=False)
            current = self._open or current
        current.source += dedent(line, current.indent)
        current.end += len(line)

    def _goes_on(self, current: Chunk, body: str) -> bool:
        """Whether a line that is not blank belongs to the open chunk."""
        starts = _starts_block(body)
        match current.kind:
            case "line" | "code":
                return False
            case "math":
                return not self._gap and not _is_ended_math(current.source)
            case "list":
                return _depth(body) >= 2 or (not self._gap and not starts)
            case "indented":
                return _depth(body) >= 4
            case "quote":
                return not self._gap and (_QUOTE.match(body) is not None or not starts)
            case _:
                return not self._gap and (not starts or (current.kind == "paragraph" and bool(_UNDERLINE.match(body))))


def _pieces(line: str) -> Iterator[str]:
    """A very long line in pieces that end with a space where there is one."""
    at = 0
    while len(line) - at > LIMIT:  # never the rest of the line: that may be megabytes
        cut = line.rfind(" ", at + LIMIT // 2, at + LIMIT) + 1 or at + LIMIT
        yield line[at:cut]
        at = cut
    yield line[at:]


def _starts_block(body: str) -> bool:
    return _FENCE.match(body) is not None or any(pattern.match(body) for pattern, _ in _STARTS)


def _is_table(head: str, body: str) -> bool:
    return "|" in head and "-" in body and _TABLE_RULE.match(body) is not None


def _is_ended_math(source: str) -> bool:
    begin = _MATH.match(source)
    return begin is None or _MATH_ENDS[begin[1]] in source[begin.end() :]


def _is_long(chunk: Chunk) -> bool:
    """Whether a chunk is to be cut; a code block inside a list item is left whole as long as may be."""
    if len(chunk.source) <= LIMIT:
        return False
    fences = len(re.findall(r"^\s*(?:```|~~~)", chunk.source, re.MULTILINE))
    return fences % 2 == 0 or len(chunk.source) > 4 * LIMIT


def _closes(body: str, fence: str) -> bool:
    body = body.strip() if _depth(body) < 4 else ""
    return len(body) >= len(fence) and not body.strip(fence[0])


def _may_cut(code: str, following: str) -> bool:
    """Whether what follows can be highlighted without what was before it."""
    lines = code.count("\n")
    if lines < CODE_LINES[0] or lines >= CODE_LINES[2]:
        return lines >= CODE_LINES[2]
    if lines < CODE_LINES[1] and not code.endswith("\n\n") and (not following or following[0] in " \t)]}"):
        return False
    return all(
        code.count(begin) % 2 == 0 if begin == end else code.count(begin) == code.count(end) for begin, end in _BALANCED
    )


def _depth(body: str) -> int:
    """Columns before the first character that is not white."""
    return len(body.expandtabs(4)) - len(body.expandtabs(4).lstrip(" "))


def dedent(line: str, depth: int) -> str:
    """Remove so many spaces from the begin of a line, as far as it has them."""
    return line[min(depth, len(line) - len(line.lstrip(" "))) :]
