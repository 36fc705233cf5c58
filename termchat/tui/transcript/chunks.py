"""A reply's Markdown cut into top-level chunks while it streams: only the last chunk is open, and none grows without end.

A chunk can be parsed and laid out without the others. Where a paragraph, list item, quote, table or code block gets
longer than `LIMIT` it goes on in another chunk, so that what is looked at again with every token stays small.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

LIMIT = 1600
"""Characters after which a chunk is cut at the next line, or at a space where the line itself is that long."""

_NO_FENCE = "\n"
"""Closes no code block, since no line has it."""

CODE_LINES = (12, 24, 100)
"""Lines after which a code block is cut where it seems to begin again, outside of long comments and strings, anywhere."""

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
    (_FENCE, "code"),
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
    """Cuts a reply's text as it comes, from character `at` on, into finished chunks and chunks that are still open.
    With the name of a language in `code` all of it is one code block."""

    def __init__(self, at: int = 0, *, code: str = "") -> None:
        self._code = code
        self._chunks: list[Chunk] = []
        self._open: Chunk | None = None
        self._gap = at > 0
        self._rest = ""
        self._at = at
        self._mid_line = False

    def feed(self, text: str) -> None:
        *lines, rest = (self._rest + text).split("\n")
        *pieces, self._rest = _cut_line(rest)
        for piece in [*(piece for line in lines for piece in _cut_line(line + "\n")), *pieces]:
            self._push(piece)

    def finished(self) -> list[Chunk]:
        """Return the chunks finished since the last time."""
        chunks, self._chunks = self._chunks, []
        return chunks

    def open(self, *, done: bool = False) -> list[Chunk]:
        """Return the chunks that may still change, as they are; `done` says that no more text comes.

        A last line that is only a marker so far ("-", "``") is left out until it shows what it is.
        """
        tail = Splitter(code=self._code)
        tail._open = replace(self._open) if self._open is not None else None
        tail._gap, tail._at, tail._mid_line = self._gap, self._at, self._mid_line
        if self._rest and (done or self._mid_line or self._code or not _MAY_BECOME_A_MARKER.match(self._rest)):
            tail._push(self._rest)
        return [*tail._chunks, *([tail._open] if tail._open is not None else [])]

    def _push(self, line: str) -> None:
        """Take a line, or a piece of a very long one (all its pieces but the last end without a line break)."""
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
                if (
                    current.kind == "paragraph"
                    and current.source.count("\n") == 1
                    and "|" in current.source
                    and "-" in body
                    and _TABLE_RULE.match(body)
                ):
                    current.kind, current.head = "table", ""
                current.source += line
                current.end += len(line)
            self._gap = False
        else:
            self._begin(line, body)
        self._at += len(line)

    def _begin(self, line: str, body: str) -> None:
        self._close()
        chunk = Chunk(_find_kind(body), self._at, self._at + len(line), line, gap=self._gap)
        if self._code:
            chunk.kind, chunk.language, chunk.fence = "code", self._code, _NO_FENCE
        elif (fence := _FENCE.match(body)) is not None:
            chunk.source, chunk.lead = "", len(line)
            chunk.indent, chunk.fence, chunk.language = len(fence[1]), fence[2], fence[3]
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
            following.head = "".join(rows[:2]) + _make_widest(rows[2:])
        self._close()
        self._open = following

    def _push_code(self, current: Chunk, line: str, body: str) -> None:
        end = body.strip() if _depth(body) < 4 else ""
        if len(end) >= len(current.fence) and not end.strip(current.fence[0]):
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
        """Return True if a line that is not blank belongs to the open chunk."""
        starts = _find_kind(body) not in ("paragraph", "indented")
        match current.kind:
            case "line" | "code":
                return False
            case "math":
                begin = _MATH.match(current.source)
                return not self._gap and begin is not None and _MATH_ENDS[begin[1]] not in current.source[begin.end() :]
            case "list":
                return _depth(body) >= 2 or (not self._gap and not starts)
            case "indented":
                return _depth(body) >= 4
            case "quote":
                return not self._gap and (_QUOTE.match(body) is not None or not starts)
            case _:
                return not self._gap and (not starts or (current.kind == "paragraph" and bool(_UNDERLINE.match(body))))


def _cut_line(line: str) -> Iterator[str]:
    """Cut a very long line into pieces that end with a space where there is one."""
    at = 0
    while len(line) - at > LIMIT:  # never the rest of the line: that may be megabytes
        cut = line.rfind(" ", at + LIMIT // 2, at + LIMIT) + 1 or at + LIMIT
        yield line[at:cut]
        at = cut
    yield line[at:]


def _find_kind(body: str) -> Kind:
    """Find the kind of chunk that begins with a line."""
    kind: Kind = next((kind for pattern, kind in _STARTS if pattern.match(body)), "paragraph")
    return "indented" if kind == "paragraph" and _depth(body) >= 4 else kind


def _is_long(chunk: Chunk) -> bool:
    """Return True if a chunk is to be cut; a code block inside a list item is left whole as long as may be."""
    if len(chunk.source) <= LIMIT:
        return False
    fences = len(_FENCES.findall(chunk.source))
    return fences % 2 == 0 or len(chunk.source) > 4 * LIMIT


def _may_cut(code: str, following: str) -> bool:
    """Return True if the following code can be highlighted without the code before it."""
    lines = code.count("\n")
    if lines < CODE_LINES[0] or lines >= CODE_LINES[2]:
        return lines >= CODE_LINES[2]
    if lines < CODE_LINES[1] and not code.endswith("\n\n") and (not following or following[0] in " \t)]}"):
        return False
    return all(
        code.count(begin) % 2 == 0 if begin == end else code.count(begin) == code.count(end) for begin, end in _BALANCED
    )


def _depth(body: str) -> int:
    """Count the columns before the first character that is not white."""
    return len(body.expandtabs(4)) - len(body.expandtabs(4).lstrip(" "))


def dedent(line: str, depth: int) -> str:
    """Remove so many spaces from the begin of a line, as far as it has them."""
    return line[min(depth, len(line) - len(line.lstrip(" "))) :]


# --- a chunk that still streams -----------------------------------------------------------------------------------------

_FENCES = re.compile(r"^\s*(?:```|~~~)", re.MULTILINE)
_BEGINS_BLOCK = re.compile(r"\n(?=\s*(?:[-*+>]|\d{1,9}[.)]|#{1,6})\s|\s*\n|\s*\|)")
"""A line break behind which nothing that was open before is open any more."""
_OPENING = re.compile(r"(?:(?<=[\s(\[\"'*_])|^)(\*{1,3}|_{1,3}|~~)(?=[^\s*_~])")
_BARE = re.compile(r"(?:(?<=\s)|^)(?:\*{1,3}|_{1,3}|~{1,2})$")
"""Signs of emphasis with nothing behind them yet."""
_ADDRESS = re.compile(r"\[[^\]\n]*\]\([^)\s]*$")
_BAR = re.compile(r"(?<!\\)\|")
_RULE_BEGUN = re.compile(r"[|:\-\s]*$")


def close_marks(source: str) -> str:
    """Close the emphasis, code or link that is open at the end of a chunk that still streams."""
    if _FENCES.search(source):
        return source
    source = source.rstrip()
    tail = source[max((match.end() for match in _BEGINS_BLOCK.finditer(source)), default=0) :]
    if tail.lstrip().startswith("|"):
        tail = tail[tail.rfind("|") + 1 :]
    outside = tail.split("`")
    if len(outside) % 2 == 0:
        return source.removesuffix("`") if tail.endswith("`") else source + "`"
    plain = "``".join(outside[::2])  # what is in code means nothing
    if bare := _BARE.search(plain):
        source, plain = source[: len(source) - len(bare[0])].rstrip(), plain[: bare.start()]
    if _ADDRESS.search(plain):
        source, plain = source + ")", plain + ")"
    return source + _find_closing(plain)


def _find_closing(plain: str) -> str:
    """Find the signs that close the emphasis that is open at the end, the innermost first."""
    closing, at = "", 0
    while opening := _OPENING.search(plain, at):
        sign, at = opening[1], opening.end()
        alone = re.escape(sign) if len(sign) > 1 else rf"(?<!{re.escape(sign)}){re.escape(sign)}(?!{re.escape(sign)})"
        end = re.compile(rf"(?<=\S){alone}").search(plain, at)
        if end is None:
            closing = sign + closing
        elif len(sign) > 1:
            at = end.end()
    there = len(plain) - len(plain.rstrip(closing[:1] or " "))  # of the innermost sign, if a part of it has come
    return closing[there:] if there < len(closing) and not closing[:there].strip(closing[:1]) else closing


def complete_table(source: str) -> str | None:
    """Make a table of text that may be the begin of one: bars, and no whole line below them yet. None for other text."""
    head, _, rule = source.partition("\n")
    cells = _split_row(head)
    if not head.lstrip().startswith("|") or "\n" in rule or not _RULE_BEGUN.match(rule) or not "".join(cells).strip():
        return None
    return f"|{'|'.join(cells)}|\n|{'-|' * len(cells)}\n"


def _make_widest(rows: list[str]) -> str:
    """Make a row of a table with, in each column, the longest cell of these rows."""
    columns: list[str] = []
    for row in rows:
        cells = [cell.strip() for cell in _split_row(row)]
        columns += [""] * (len(cells) - len(columns))
        columns = [max(pair, key=len) for pair in zip(columns, cells + [""] * len(columns), strict=False)]
    return f"|{'|'.join(columns)}|\n"


def _split_row(row: str) -> list[str]:
    return _BAR.split(row.strip().removeprefix("|").removesuffix("|"))
