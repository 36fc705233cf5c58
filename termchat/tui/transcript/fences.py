"""The blocks of code in a reply's Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_OPENS = re.compile(r"((?:\s*(?:[-+*]|\d{1,9}[.)])\s)?\s*)(`{3,}(?=[^`]*$)|~{3,})\s*(\S*)")


class CodeBlock(NamedTuple):
    """The code without its fences, and the language that it says it is, "" without."""

    code: str
    language: str


def blocks(text: str) -> Iterator[CodeBlock]:
    """All fenced blocks, in order; the last may still be open."""
    fence, indent, language = "", 0, ""
    lines: list[str] = []
    for line in text.split("\n"):
        if not fence:
            opens = _OPENS.match(line)
            if opens is not None:
                fence, indent, language = opens[2], len(opens[1]), opens[3]
        elif (end := line.strip()).startswith(fence) and not end.strip(fence[0]):
            yield CodeBlock("\n".join(lines), language)
            fence, lines = "", []
        else:
            lines.append(line[min(indent, len(line) - len(line.lstrip(" "))) :])
    if fence and lines:
        yield CodeBlock("\n".join(lines), language)
