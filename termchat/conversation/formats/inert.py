"""Markdown that stays words: a viewer that knows HTML finds none in it, so that nothing in it runs, asks for anything or hides.

What begins like a tag, a comment or an address gets `&lt;`, which every viewer shows as `<`. In code, where it would be seen
as `&lt;`, it stays as it is, as far as all viewers agree that it is code: the lines of a fence, and a span that cannot be
cut apart, in a paragraph whose lines have no backtick left over and no table's bar in a span.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

_TAG = r"<(?=[A-Za-z/!?])"
_BEGINS = re.compile(_TAG)
_ADDRESS = r"<https?://[^\s<>`]*>"
_BARE = re.compile(r"://|www\.")
_MARK = re.compile(rf"\\.|{_ADDRESS}|`+|{_TAG}")
"""An escape, an address that may stay, backticks, or what begins like a tag."""


def inert(text: str) -> str:
    """Markdown without HTML in it; what is inert already stays as it is."""
    if _BEGINS.search(text) is None:
        return text
    return "\n".join(_lines(text))


def on_a_line(text: str) -> str:
    """The same for a few words that are no Markdown, such as a title."""
    return _BEGINS.sub("&lt;", text)


def _lines(text: str) -> Iterator[str]:
    has_fence = "```" in text or "~~~" in text
    fenced = set.intersection(*(_fenced(parser, text) for parser in _parsers())) if has_fence else set[int]()
    sure = True
    for number, line in enumerate(text.split("\n")):
        if number in fenced or not line.strip():
            sure = True
            yield line
            continue
        parts, balanced = _parts(line)
        sure = sure and balanced and not _in_address(line)
        yield "".join(part if code and sure else _without_tags(part) for part, code in parts)


def _fenced(parser: MarkdownIt, text: str) -> set[int]:
    """The lines of all fences."""
    fences = (token.map for token in parser.parse(text) if token.type == "fence" and token.map is not None)
    return {line for begin, end in fences for line in range(begin, end)}


@cache
def _parsers() -> tuple[MarkdownIt, ...]:
    """Viewers without and with tables, whose heading may look like a fence.

    Of HTML nothing is left when this is done, so they need not know that a fence may stand in it.
    """
    from markdown_it import MarkdownIt

    plain, tables = MarkdownIt("commonmark"), MarkdownIt("commonmark").enable("table")
    return tuple(each.disable(["html_block", "html_inline", "inline"]) for each in (plain, tables))


def _in_address(line: str) -> bool:
    """Whether a backtick stands in a bare address: some viewers make a link of it, and take the backtick along."""
    addresses = ((word, _BARE.search(word)) for word in line.split() if "`" in word)
    return any("`" in word[found.end() :] for word, found in addresses if found is not None)


def _parts(line: str) -> tuple[list[tuple[str, bool]], bool]:
    """The line cut into text and code, and whether each run of backticks has its other one, with no bar in between."""
    parts: list[tuple[str, bool]] = []
    done = at = 0
    while (found := _MARK.search(line, at)) is not None:
        at = found.end()
        if not found[0].startswith("`"):
            continue
        other = re.compile(rf"(?<!`){found[0]}(?!`)").search(line, at)
        if other is None or "|" in line[found.start() : other.end()]:
            return [(line, False)], False
        parts += [(line[done : found.start()], False), (line[found.start() : other.end()], True)]
        done = at = other.end()
    return [*parts, (line[done:], False)], True


def _without_tags(text: str) -> str:
    return re.sub(rf"({_ADDRESS})|{_TAG}", lambda found: found[1] or "&lt;", text)
