"""Markdown that does nothing but show its text: no viewer runs, fetches or hides any of it.

Backslashes and entities are put before tags, images, definitions of links and footnotes, and entities of invisible
characters. Code stays as it is where every viewer takes it for code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from html import unescape
from typing import TYPE_CHECKING

from termchat.text import sanitize

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

_TAG = r"<(?=[A-Za-z/!?])"
_ADDRESS = r"<https?://[^\s<>`]*>"
_ENTITY = r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{0,31});"
_IMAGE = r"!(?=\[)"
_LIVE = re.compile(rf"\\.|{_ADDRESS}|{_TAG}|{_IMAGE}|{_ENTITY}")
"""An escape or an address, which stay; what begins like a tag or an image; an entity."""
_ON_A_LINE = re.compile(rf"\\.|{_TAG}|{_IMAGE}|{_ENTITY}")
_MARK = re.compile(rf"\\.|{_ADDRESS}|`+|{_TAG}")
"""An escape, an address that may stay, backticks, or what begins like a tag."""
_BARE = re.compile(r"://|www\.")
_LABEL = re.compile(r"(?:[ \t>]|[-+*]|\d{1,9}[.)])*\[")
"""What a definition begins with, in quotes and lists too."""
_DEFINES = re.compile(r"\\.|\]:")
_MAY_ACT = re.compile(rf"{_TAG}|{_IMAGE}|\]:|&")


def make_inert(text: str) -> str:
    """Return inert Markdown; inert text stays unchanged."""
    if _MAY_ACT.search(text) is None:
        return text
    return "\n".join(_inert_lines(text))


def on_a_line(text: str) -> str:
    """Return plain text on one line, such as a title, as inert Markdown; it has no code."""
    return _ON_A_LINE.sub(_escape_live, text)


def _inert_lines(text: str) -> Iterator[str]:
    has_fence = "```" in text or "~~~" in text
    fenced = set.intersection(*(_find_fenced(parser, text) for parser in make_parsers())) if has_fence else set[int]()
    sure = True
    for number, line in enumerate(text.split("\n")):
        if number in fenced or not line.strip():
            sure = True
            yield line
            continue
        line = _escape_definition(line)
        parts, balanced = _split_code(line)
        sure = sure and balanced and not _has_tick_in_address(line)
        yield "".join(part if code and sure else _LIVE.sub(_escape_live, part) for part, code in parts)


def _find_fenced(parser: MarkdownIt, text: str) -> set[int]:
    fences = (token.map for token in parser.parse(text) if token.type == "fence" and token.map is not None)
    return {line for begin, end in fences for line in range(begin, end)}


@cache
def make_parsers() -> tuple[MarkdownIt, ...]:
    """Build viewers without and with tables, whose heading may look like a fence. They find blocks only.

    Of HTML nothing is left when this is done, so they need not know that a fence may stand in it.
    """
    from markdown_it import MarkdownIt

    plain, tables = MarkdownIt("commonmark"), MarkdownIt("commonmark").enable("table")
    return tuple(each.disable(["html_block", "html_inline", "inline"]) for each in (plain, tables))


def _escape_definition(line: str) -> str:
    """Return the line without a definition, which a viewer would not show: its label may have begun on a line before."""
    if "]:" not in line:
        return line
    bare = re.sub(r"\\.", "", line).partition("]:")[0]
    if _LABEL.match(line) is None and "[" in bare:
        return line
    return _DEFINES.sub(lambda found: "]\\:" if found[0] == "]:" else found[0], line)


def _has_tick_in_address(line: str) -> bool:
    """Return whether a backtick stands in a bare address: some viewers make a link of it, and take the backtick along."""
    addresses = ((word, _BARE.search(word)) for word in line.split() if "`" in word)
    return any("`" in word[found.end() :] for word, found in addresses if found is not None)


def _split_code(line: str) -> tuple[list[tuple[str, bool]], bool]:
    """Return the line cut into text and code, and whether each run of backticks has its other one, with no bar in between."""
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


def _escape_live(found: re.Match[str]) -> str:
    it = found[0]
    if it == "<":
        return "&lt;"
    if it == "!":
        return "\\!"
    if it.startswith("&") and sanitize(character := unescape(it)) != character:
        return f"&amp;{it[1:]}"
    return it
