"""What of a chat a model is told when its context cannot hold all of it: whole turns are left out, the oldest first.

Nothing is deleted. The node of a turn whose prompt leaves others out says so (see `Omission`); the prompts of the turns after
it are rendered from what is left there, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from termchat.conversation.node import Omission
from termchat.conversation.tree import Conversation, Span
from termchat.engine.port import Message

FREE = 4
"""One part in so many of the context is free again once room was made."""

SUMMARY = 8
"""One part in so many of the context is the most that a summary takes."""

REQUEST = "Summarise our conversation so far in a few sentences: names, facts, decisions, and what is still open."
"""What asks a model for a summary; it is a turn as any other."""

Turn = list[Span]
"""What a person wrote, and all pieces of the reply to it."""


def turns_of(path: Sequence[Span]) -> list[Turn]:
    """The turns of a path, in order."""
    turns: list[Turn] = []
    for span in path:
        if span.node.role == "user" or not turns:
            turns.append([])
        turns[-1].append(span)
    return turns


def omission_of(path: Sequence[Span]) -> Omission | None:
    """What is left out at the end of a path: the newest turn with a mark says it."""
    return next((span.node.omitted for span in reversed(path) if span.node.omitted is not None), None)


def sizes_of(turns: Sequence[Turn]) -> list[int]:
    """About how many ids each turn takes in a prompt. Of one that holds the whole prompt, what stands before is taken away."""
    sizes: list[int] = []
    left_out = 0
    for turn in turns:
        head, size = turn[0].node, sum(span.count for span in turn)
        if head.omitted is not None:
            left_out = head.omitted.turns
        sizes.append(max(size - sum(sizes[left_out:]), 1) if head.whole else size)
    return sizes


def most_kept(sizes: Sequence[int], needed: int, context: int) -> int:
    """How many of the newest turns may stay so that with `needed` more ids a part of the context is free.

    Args:
        sizes: ids of each turn, the oldest first.
    """
    room = context - context // FREE - needed
    kept = 0
    for size in reversed(sizes):
        room -= size
        if room < 0:
            break
        kept += 1
    return kept


def messages(chat: Conversation) -> list[Message]:
    """What the model is told: the system message, the summary of what is left out if there is one, the rest of the path."""
    path = chat.path()
    omitted = omission_of(path)
    said = [Message("system", chat.system)] if chat.system else []
    if omitted is None:
        return said + list(_said(path))
    if omitted.summary is not None and omitted.summary in chat.nodes:
        request = chat.nodes[chat.reply(omitted.summary)[0].node.parent or omitted.summary]
        said += _said([Span(request, len(request.ids)), *chat.reply(omitted.summary)])
    return said + list(_said([span for turn in turns_of(path)[omitted.turns :] for span in turn]))


def _said(spans: Sequence[Span]) -> Iterator[Message]:
    """Spans as messages; a reply in several pieces is one, every message of a person its own."""
    for user, group in groupby(spans, key=lambda span: span.node.role == "user"):
        texts = [span.node.text(span.count) for span in group]
        if user:
            yield from (Message("user", text) for text in texts)
        else:
            yield Message("assistant", "".join(texts))
