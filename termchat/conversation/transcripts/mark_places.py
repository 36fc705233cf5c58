"""Where the marks of a Markdown transcript stand: where something changed, but never in code, JSON or a link, which they would
break. There they stand before the whole of it, on a line of their own if it begins one.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from itertools import chain
from operator import itemgetter
from typing import NamedTuple

from termchat.conversation.transcripts.inert import make_parsers

_BACKTICKS = re.compile(r"\\?`+|\\[^`]|\n[ \t]*\n", re.DOTALL)
"""A run of backticks, the first of them perhaps escaped, another escape, or the end of a paragraph, where code ends."""
_OPENS = re.compile(r"\\.|[\[{]", re.DOTALL)
_INSIDE = re.compile(r'\\.|"(?:[^"\\\n]|\\.)*"|[\[\]{}]', re.DOTALL)
"""An escape or a bracket; within brackets also a text in quotes, as JSON has them."""
_CLOSES = {"}": "{", "]": "["}
_TARGET = re.compile(r"\([^()\n]*\)")
"""Where a link leads to, behind its text in brackets."""
_JSON = re.compile(r'\{\s*"|\[\s*[\[{"]')
"""How JSON begins that was cut off."""
_MAY_BE_CODE = re.compile(r"```|~~~| {4}|\t")
_EMPTY, _SEEN = re.compile(r"[ \t]*\n"), re.compile(r"\S")
_DEEP = re.compile(r"[ \t>]*(?: {4}|\t)[ \t>]*")
_INDENTED, _QUOTED = re.compile(r"[ \t>]*"), re.compile(r"(?: {0,3}>)*")


class _Unbroken(NamedTuple):
    """A part of a text in which no mark may stand: its marks stand before it, on a line of their own that begins with `before`
    and has so many `blank` lines behind it, unless `before` is None."""

    begin: int
    end: int
    before: str | None = None
    blank: int = 0


def place_marks(text: str, marks: list[tuple[int, str]]) -> str:
    """Put each mark before the character that it is for, or before the code or the brackets around that."""
    if not marks:
        return text
    unbroken = _find_unbroken(text)
    found: defaultdict[tuple[int, str | None, int], list[str]] = defaultdict(list)
    for at, mark in marks:
        part = _find_part(text, at, unbroken)
        found[part.begin, part.before, part.blank].append(mark)
    parts, done = [], 0
    for (at, before, blank), told in sorted(found.items(), key=lambda each: each[0][0]):
        parts += [text[done:at], "".join(told)]
        if before is not None:
            parts[-1] = f"{before}{parts[-1]}\n" + f"{before.rstrip()}\n" * blank
        done = at
    return "".join([*parts, text[done:]])


def _find_part(text: str, at: int, unbroken: list[_Unbroken]) -> _Unbroken:
    """Find the part before which a mark stands: the one that it is in, or nothing at its own place."""
    if _EMPTY.match(text, text.rfind("\n", 0, at) + 1):  # on an empty line it would join what that parts
        after = _SEEN.search(text, at)
        at = after.start() if after is not None else len(text)
    index = bisect_right(unbroken, at, key=itemgetter(0)) - 1
    if index >= 0:
        part = unbroken[index]
        goes_on = part.before is not None and text[part.end - 1 : part.end] != "\n"  # behind it, but on its last line
        if at < part.end + goes_on:
            return part
    line = text.rfind("\n", 0, at) + 1
    is_deep = _DEEP.fullmatch(text, line, at) is not None  # so far in, the mark could become a block of code itself
    return _Unbroken(line, line, "") if is_deep else _Unbroken(at, at)


def _find_unbroken(text: str) -> list[_Unbroken]:
    """List blocks and spans of code, and what stands in brackets, such as links and JSON; in order, none in another."""
    blocks, other, done = sorted(_find_blocks(text), key=itemgetter(0, 1)), "", 0
    for block in blocks:  # it ends a paragraph, and what is in it opens and closes nothing around it
        other += text[done : block.begin] + "\n" * (block.end - max(block.begin, done))
        done = max(block.end, done)
    other += text[done:]
    found: list[_Unbroken] = []
    for part in sorted([*blocks, *_find_spans(other), *_in_brackets(other)], key=lambda part: (part.begin, -part.end)):
        if found and part.begin < found[-1].end:
            found[-1] = found[-1]._replace(end=max(found[-1].end, part.end))
        else:
            begin = text.rfind("\n", 0, part.begin) + 1
            before = text[begin : part.begin]
            # Where only spaces and signs of a quote stand before it, the part begins with its line.
            is_inline = part.before is not None or before.strip(" \t>")
            found.append(part if is_inline else _Unbroken(begin, part.end, before))
    return found


def _find_blocks(text: str) -> Iterator[_Unbroken]:
    """Yield blocks of code, as any viewer finds them."""
    if _MAY_BE_CODE.search(text) is None:
        return
    lines = [0, *(found.end() for found in re.finditer("\n", text)), len(text)]
    found: set[_Unbroken] = set()
    for token in chain.from_iterable(parser.parse(text) for parser in make_parsers()):
        if token.type in ("fence", "code_block") and token.map is not None:
            begin, end = (lines[min(line, len(lines) - 1)] for line in token.map)
            is_fence = token.type == "fence"
            before = (_INDENTED if is_fence else _QUOTED).match(text, begin)  # what is indented may be code
            if is_fence and _SEEN.search(text, end) is None and not _is_closed(text[begin:end], token.markup):
                end = len(text) + 1  # what stands behind it is in it, too
            found.add(_Unbroken(begin, end, before[0] if before else "", int(not is_fence)))
    yield from found


def _is_closed(fence: str, sign: str) -> bool:
    """Return whether a block of code ends with a fence of the same signs as its first."""
    _, line, last = fence.rstrip().rpartition("\n")
    last = last.strip(" \t>")
    return bool(line) and len(last) >= len(sign) and set(last) == {sign[0]}


def _find_spans(text: str) -> Iterator[_Unbroken]:
    """Yield spans of code, and the escapes and backticks that make none as they stand."""
    paragraph = 0
    opens: list[tuple[int, tuple[int, int]]] = []
    closes: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    for found in _BACKTICKS.finditer(text):
        if found[0].startswith("\n"):
            paragraph += 1
            continue
        yield _Unbroken(found.start(), found.end())
        signs, escaped = found[0].count("`"), found[0].startswith("\\")
        closes[paragraph, signs].append(found.end())  # where code ends, a backslash is one
        opens.append((found.start() + 2 * escaped, (paragraph, signs - escaped)))
    done = 0
    for begin, run in opens:
        after = bisect_right(closes[run], begin + run[1])
        if run[1] > 0 and begin >= done and after < len(closes[run]):
            done = closes[run][after]
            yield _Unbroken(begin, done)


def _in_brackets(text: str) -> Iterator[_Unbroken]:
    """Yield the parts from each bracket to the one that closes it, whole links, and JSON that was cut off."""
    opened: list[tuple[str, int]] = []
    end = 0
    while (found := (_INSIDE if opened else _OPENS).search(text, end)) is not None:
        sign, at, end = found[0], found.start(), found.end()
        if sign in "[{":
            opened.append((sign, at))
        elif opened and _CLOSES.get(sign) == opened[-1][0]:
            target = _TARGET.match(text, end)
            yield _Unbroken(opened.pop()[1], target.end() if target is not None else end)
    yield from (_Unbroken(at, len(text)) for _, at in opened if _JSON.match(text, at))
