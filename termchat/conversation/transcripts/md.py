"""Markdown for people: the chat that is shown, with what was turned and where it could have gone on in another way."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

from termchat.conversation import setting_changes
from termchat.conversation.session import SessionInfo
from termchat.conversation.transcripts.facts import fact_line, facts, name_of, plain_line
from termchat.conversation.transcripts.transcript import Records
from termchat.conversation.tree import Conversation, Place
from termchat.text import sanitize

if TYPE_CHECKING:
    from markdown_it import MarkdownIt


_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)$")
_TAG = r"<(?=[A-Za-z/!?])"
_BEGINS = re.compile(_TAG)
_ADDRESS = r"<https?://[^\s<>`]*>"
_BARE = re.compile(r"://|www\.")
_MARK = re.compile(rf"\\.|{_ADDRESS}|`+|{_TAG}")
"""An escape, an address that may stay, backticks, or what begins like a tag."""


def inert(text: str) -> str:
    """Markdown without HTML in it; what is inert already stays unchanged."""
    if _BEGINS.search(text) is None:
        return text
    return "\n".join(_lines(text))


def on_a_line(text: str) -> str:
    """The same for plain text on one line, such as a title."""
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
        parts, balanced = _line_parts(line)
        sure = sure and balanced and not _in_address(line)
        yield "".join(part if code and sure else _without_tags(part) for part, code in parts)


def _fenced(parser: MarkdownIt, text: str) -> set[int]:
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


def _line_parts(line: str) -> tuple[list[tuple[str, bool]], bool]:
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


def lines(conversation: Conversation, info: SessionInfo, _: Records) -> Iterator[str]:
    """The chat from root to leaf as people read it, free of control characters and of HTML.

    What changed stands in the text as ⟦temperature 0.8 → 1.2 at token 143⟧, where it was made.
    """
    first = True
    for part in _parts(conversation, info):
        yield from part.split("\n") if first else ["", *part.split("\n")]
        first = False


def _parts(conversation: Conversation, info: SessionInfo) -> Iterator[str]:
    yield f"# {on_a_line(plain_line(conversation.title)) or 'Chat'}"
    yield "\n".join(
        on_a_line(f"- {name}: {value}" if name else f"- {value}") for name, value in facts(conversation, info)
    )
    if conversation.system:
        yield from ("## System", _block(conversation.system))
    forks = setting_changes.forks(conversation)
    for role, group in groupby(conversation.pieces(), key=lambda piece: piece[0].node.role):
        pieces = list(group)
        if role == "user":
            marks = [f"⟦{forks[place]}⟧\n" for span, _ in pieces if (place := Place(span.node.number, 0)) in forks]
            marks += [f"⟦{span.node.omitted}⟧\n" for span, _ in pieces if span.node.omitted is not None]
            yield "## You"
            yield from filter(None, [on_a_line("".join(marks)) + _block("".join(text for _, text in pieces))])
        else:
            marked = list(setting_changes.marked(pieces, forks))
            yield f"## {on_a_line(name_of(marked[0].span.node, info))}"
            yield from filter(None, [_block("".join(map(_with_marks, marked)))])
            told = (on_a_line(sanitize(fact_line(piece.span.node))) for piece in marked)
            yield from filter(None, ["\n".join(f"*{fact}*  " for fact in told if fact).rstrip()])


def _with_marks(piece: setting_changes.Piece) -> str:
    """The shown text with marks after so many tokens."""
    texts = piece.span.node.tokens.texts
    parts: list[str] = []
    done = 0
    for at, mark in piece.marks:
        length = min(texts.start(min(at, len(texts))), len(piece.text))
        parts += [piece.text[done:length], f"⟦{mark}⟧"]
        done = length
    return "".join([*parts, piece.text[done:]])


def _block(text: str) -> str:
    """A turn's text; a code fence that it leaves open is closed, so that it does not swallow the turns after it. Outside of
    fences two spaces keep a line break, which viewers would make a space; where there is no paragraph, they mean nothing."""
    lines = sanitize(text.replace("\r\n", "\n")).strip("\n").split("\n")
    fence = ""
    for number, (line, following) in enumerate(pairwise([*lines, ""])):
        run, rest = found.groups() if (found := _FENCE.match(line)) is not None else ("", "")
        if not fence:
            fence = "" if run[:1] == "`" and "`" in rest else run
            if not fence and line.strip() and following.strip() and not line.endswith(("  ", "\\")):
                lines[number] = f"{line.rstrip()}  "
        elif run[:1] == fence[0] and len(run) >= len(fence) and not rest.strip():
            fence = ""
    return inert("\n".join([*lines, fence] if fence else lines))
