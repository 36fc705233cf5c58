"""Markdown for people: the chat that is shown, with what was turned and where it could have gone on in another way.

Replies that were made together stand side by side: in a table where they are short, else under a heading each.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter

from termchat.conversation import setting_changes
from termchat.conversation.session import Session
from termchat.conversation.thoughts import count_thought, thoughts_of
from termchat.conversation.transcripts.facts import fact_line, list_facts, name_of, plain_line
from termchat.conversation.transcripts.groups_on_page import GroupOnPage, GroupsOnPage, WalkOnPage
from termchat.conversation.transcripts.inert import make_inert, make_parsers, on_a_line
from termchat.conversation.transcripts.mark_places import place_marks
from termchat.conversation.transcripts.transcript import Records
from termchat.conversation.tree import Conversation, Place, Span
from termchat.text import sanitize

_CELL = 80
"""Characters of a reply in a table."""

_MARKS = re.compile(r"^(⟦[^⟧]*⟧\s*)+")


def lines(conversation: Conversation, info: Session, _: Records) -> Iterator[str]:
    """Yield the chat from root to leaf as people read it, inert and free of control characters.

    What changed stands in the text as ⟦temperature 0.8 → 1.2 at token 143⟧, where it was made, or before the code or the
    brackets that it would break.
    """
    first = True
    for part in _render_parts(conversation, info):
        yield from part.split("\n") if first else ["", *part.split("\n")]
        first = False


def _render_parts(conversation: Conversation, info: Session) -> Iterator[str]:
    yield f"# {on_a_line(plain_line(conversation.title)) or 'Chat'}"
    yield "\n".join(
        on_a_line(f"- {name}: {value}" if name else f"- {value}") for name, value in list_facts(conversation, info)
    )
    if conversation.system:
        yield from ("## System", _render_block(_clean_text(conversation.system)))
    groups = GroupsOnPage(conversation)
    forks = setting_changes.label_forks(conversation, but=groups.nodes)
    for role, group in groupby(conversation.list_pieces(), key=lambda piece: piece[0].node.role):
        pieces = list(group)
        if role == "user":
            marks = [f"⟦{forks[place]}⟧\n" for span, _ in pieces if (place := Place(span.node.number, 0)) in forks]
            marks += [f"⟦{span.node.omitted}⟧\n" for span, _ in pieces if span.node.omitted is not None]
            yield "## You"
            said = _render_block(_clean_text("".join(text for _, text in pieces)))
            yield from filter(None, [on_a_line(sanitize("".join(marks))) + said])
        else:
            marked = list(setting_changes.mark_pieces(pieces, forks))
            yield f"## {on_a_line(name_of(marked[0].span.node, info))}"
            yield from filter(None, [_render_block(_render_reply(marked))])
            told = (on_a_line(sanitize(fact_line(piece.span.node))) for piece in marked)
            yield from filter(None, ["\n".join(f"*{fact}*  " for fact in told if fact).rstrip()])
            for together in groups.of_turn([span for span, _ in pieces]):
                yield from _render_group(together, pieces[-1][0])


def _render_group(group: GroupOnPage, last: Span) -> Iterator[str]:
    """Yield the walks of a group; the chat's own, which ends the turn with its `last` piece, is not told twice in full."""
    goes_on = next((walk for walk in group.walks if walk.goes_on), None)
    yield f"### {on_a_line(sanitize(group.title))}"
    if goes_on is not None:
        yield f"*The chat continues from walk {goes_on.number}.*"
    wholes = ((Span(walk.node, len(walk.node.ids)), walk.node.text()) for walk in group.walks)
    texts = [_render_reply(list(setting_changes.mark_pieces([whole], {}))) for whole in wholes]
    if all(len(text) <= _CELL and not any(sign in text for sign in "\n|`") for text in texts):
        yield "\n".join(_render_table(group.walks, texts))
        return
    for walk, text in zip(group.walks, texts, strict=True):
        yield f"#### {on_a_line(sanitize(' · '.join(filter(None, [f'Walk {walk.number}', walk.label]))))}"
        shown_above = walk is goes_on and walk.node is last.node and last.count == len(walk.node.ids)
        yield from filter(None, ["*See above.*" if shown_above else _render_block(text)])
        yield f"*{on_a_line(sanitize(walk.told))}*"


def _render_table(walks: Sequence[WalkOnPage], texts: Sequence[str]) -> Iterator[str]:
    labels = any(walk.label for walk in walks)
    names = list(dict.fromkeys(name for walk in walks for name, _ in walk.figures))
    yield _write_row(["walk", *["settings"] * labels, "reply", *names])
    yield _write_row(
        ["--:", *[":--"] * labels, ":--", *(":--" if name in ("ending", "answer") else "--:" for name in names)]
    )
    for walk, text in zip(walks, texts, strict=True):
        number = f"**{walk.number}**" if walk.goes_on else str(walk.number)
        figures = dict(walk.figures)
        yield _write_row([number, *[walk.label] * labels, text, *(figures.get(name, "") for name in names)])


def _write_row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(on_a_line(sanitize(cell.replace("|", "\\|"))).strip() for cell in cells) + " |"


def _render_reply(pieces: list[setting_changes.Piece]) -> str:
    """Return the text of a reply with its marks, sanitised."""
    text = "".join(piece.text for piece in pieces)
    marks: list[tuple[int, str]] = []
    begin = drawn = 0
    for piece in pieces:
        texts = piece.span.node.tokens.texts
        for at, mark in sorted([*_mark_thoughts(piece), *piece.marks, *_mark_forced(piece, drawn)], key=itemgetter(0)):
            marks.append((begin + min(texts.start(min(at, len(texts))), len(piece.text)), f"⟦{mark}⟧"))
        begin += len(piece.text)
        drawn += piece.span.count
    plain, done = "", 0
    for index, (at, mark) in enumerate(marks):
        at -= text[at - 1 : at + 1] == "\r\n"
        plain += _clean_text(text[done:at])
        marks[index], done = (len(plain), _clean_text(mark)), at
    return place_marks(plain + _clean_text(text[done:]), marks)


def _mark_thoughts(piece: setting_changes.Piece) -> Iterator[tuple[int, str]]:
    """Yield where the thoughts of a piece begin, and where they end."""
    if (thoughts := thoughts_of([piece.span])) is not None:
        yield 0, "thinking"
        yield count_thought(piece.span.node, piece.span.count), str(thoughts)


def _mark_forced(piece: setting_changes.Piece, drawn: int) -> Iterator[tuple[int, str]]:
    """Yield where tokens begin that a person forced, not a search; `drawn` tokens of the reply come before the piece."""
    at = 0
    for by_hand, run in groupby(piece.span.node.tokens.by_hand[: piece.span.count]):
        count = len(list(run))
        if by_hand:
            yield at, f"{count} token{'s' if count > 1 else ''} forced at token {drawn + at}"
        at += count


def _clean_text(text: str) -> str:
    return sanitize(text.replace("\r\n", "\n"))


def _render_block(text: str) -> str:
    """Return a sanitised text of a turn. A code fence that it leaves open is closed, so that it swallows no turn after it."""
    text = text.strip("\n")
    fence = ""
    for found in re.finditer(r"^ {0,3}(`{3,}|~{3,})(.*)$", text, re.MULTILINE):
        run, rest = found.groups()
        if not fence:
            fence = "" if run[0] == "`" and "`" in rest else run
        elif run[0] == fence[0] and len(run) >= len(fence) and not rest.strip():
            fence = ""
    return make_inert(_keep_breaks(f"{text}\n{fence}" if fence else text))


def _keep_breaks(text: str) -> str:
    """Keep line breaks in paragraphs by two spaces: viewers would make a space of them. JSON stays as it is."""
    lines = text.split("\n")
    for token in make_parsers()[1].parse(text):
        if token.type == "paragraph_open" and token.map is not None:
            begin, end = token.map
            if not _MARKS.sub("", "\n".join(lines[begin:end])).startswith(("{", "[")):
                for number in range(begin, end - 1):
                    if not lines[number].endswith(("  ", "\\")):
                        lines[number] += "  "
    return "\n".join(lines)
