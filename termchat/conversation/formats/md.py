"""Markdown for people: the chat that is shown, with what was turned and where it could have gone on in another way."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby

from termchat.conversation import stamps
from termchat.conversation.formats.facts import fact_line, facts, line, name_of
from termchat.conversation.formats.inert import inert, on_a_line
from termchat.conversation.session import SessionInfo
from termchat.conversation.transcript import Records
from termchat.conversation.tree import Conversation, Place
from termchat.text import sanitize


def lines(conversation: Conversation, info: SessionInfo, _: Records) -> Iterator[str]:
    """The chat from root to leaf as people read it, free of control characters and of HTML.

    What changed stands in the text as ⟦temperature 0.8 → 1.2 at token 143⟧, where it was made.
    """
    first = True
    for part in _parts(conversation, info):
        yield from part.split("\n") if first else ["", *part.split("\n")]
        first = False


def _parts(conversation: Conversation, info: SessionInfo) -> Iterator[str]:
    yield f"# {on_a_line(line(conversation.title)) or 'Chat'}"
    yield "\n".join(
        on_a_line(f"- {name}: {value}" if name else f"- {value}") for name, value in facts(conversation, info)
    )
    if conversation.system:
        yield from ("## System", _block(conversation.system))
    forks = stamps.forks(conversation)
    for role, group in groupby(conversation.pieces(), key=lambda piece: piece[0].node.role):
        pieces = list(group)
        if role == "user":
            marks = [f"⟦{forks[place]}⟧\n" for span, _ in pieces if (place := Place(span.node.number, 0)) in forks]
            marks += [f"⟦{span.node.omitted}⟧\n" for span, _ in pieces if span.node.omitted is not None]
            yield "## You"
            yield from filter(None, [on_a_line("".join(marks)) + _block("".join(text for _, text in pieces))])
        else:
            marked = list(stamps.marked(pieces, forks))
            yield f"## {on_a_line(name_of(marked[0].span.node, info))}"
            yield from filter(None, [_block("".join(map(_with_marks, marked)))])
            told = (on_a_line(sanitize(fact_line(piece.span.node))) for piece in marked)
            yield from filter(None, ["\n".join(f"*{fact}*  " for fact in told if fact).rstrip()])


def _with_marks(piece: stamps.Piece) -> str:
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
    """A turn's text; a code fence that it leaves open is closed, so that it does not swallow the turns after it."""
    text = sanitize(text.replace("\r\n", "\n")).strip("\n")
    fence = ""
    for found in re.finditer(r"^ {0,3}(`{3,}|~{3,})(.*)$", text, re.MULTILINE):
        run, rest = found.groups()
        if not fence:
            fence = "" if run[0] == "`" and "`" in rest else run
        elif run[0] == fence[0] and len(run) >= len(fence) and not rest.strip():
            fence = ""
    return inert(f"{text}\n{fence}" if fence else text)
