"""Markdown that is still being written, as it will most likely go on: so that what is drawn does not jump.

What is open at the end of the text is closed, and a table is one from its first bar on.
"""

from __future__ import annotations

import re

_FENCE = re.compile(r"^\s*(?:```|~~~)", re.MULTILINE)
_BEGINS_BLOCK = re.compile(r"\n(?=\s*(?:[-*+>]|\d{1,9}[.)]|#{1,6})\s|\s*\n|\s*\|)")
"""A line break behind which nothing that was open before is open any more."""
_OPENS = re.compile(r"(?:(?<=[\s(\[\"'*_])|^)(\*{1,3}|_{1,3}|~~)(?=[^\s*_~])")
_BARE = re.compile(r"(?:(?<=\s)|^)(?:\*{1,3}|_{1,3}|~{1,2})$")
"""Signs of emphasis with nothing behind them yet."""
_ADDRESS = re.compile(r"\[[^\]\n]*\]\([^)\s]*$")
_BAR = re.compile(r"(?<!\\)\|")
_RULE_BEGUN = re.compile(r"[|:\-\s]*$")


def mended(source: str) -> str:
    """The source of a chunk that still streams, with the emphasis, code or link that is open at its end closed."""
    if _FENCE.search(source):
        return source
    source = source.rstrip()
    tail = source[_last_block(source) :]
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
    return source + _closing(plain)


def _last_block(source: str) -> int:
    return max((found.end() for found in _BEGINS_BLOCK.finditer(source)), default=0)


def _closing(plain: str) -> str:
    """The signs that close what emphasis is open at the end, the innermost first."""
    opened: list[str] = []
    at = 0
    while found := _OPENS.search(plain, at):
        sign, at = found[1], found.end()
        end = _end_of(plain, sign, at)
        if end < 0:
            opened.insert(0, sign)
        else:
            at = end if len(sign) > 1 else at
    closing = "".join(opened)
    there = len(plain) - len(plain.rstrip(closing[:1] or " "))  # of the innermost sign, if a part of it has come
    return closing[there:] if there < len(closing) and not closing[:there].strip(closing[:1]) else closing


def _end_of(plain: str, sign: str, at: int) -> int:
    """Where emphasis with that sign ends that began before `at`; -1 where it is open."""
    alone = re.escape(sign) if len(sign) > 1 else rf"(?<!{re.escape(sign)}){re.escape(sign)}(?!{re.escape(sign)})"
    found = re.compile(rf"(?<=\S){alone}").search(plain, at)
    return found.end() if found is not None else -1


def begun_table(source: str) -> str | None:
    """A table for text that may be the begin of one: bars, and no whole line below them yet. None for other text."""
    head, _, rule = source.partition("\n")
    cells = _BAR.split(head.strip().removeprefix("|").removesuffix("|"))
    if not head.lstrip().startswith("|") or "\n" in rule or not _RULE_BEGUN.match(rule) or not "".join(cells).strip():
        return None
    return f"|{'|'.join(cells)}|\n|{'-|' * len(cells)}\n"


def widest(rows: list[str]) -> str:
    """A row of a table with, in each column, the longest cell of these rows."""
    columns: list[str] = []
    for row in rows:
        cells = [cell.strip() for cell in _BAR.split(row.strip().removeprefix("|").removesuffix("|"))]
        columns += [""] * (len(cells) - len(columns))
        columns = [max(pair, key=len) for pair in zip(columns, cells + [""] * len(columns), strict=False)]
    return f"|{'|'.join(columns)}|\n"
