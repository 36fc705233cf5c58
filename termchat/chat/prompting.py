"""What a model is told: the path as messages, without what is left out of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from termchat.conversation.node import Omission
from termchat.conversation.thoughts import answer_of, thoughts_of
from termchat.conversation.tree import Conversation, Span
from termchat.engine.port import Message

Turn = list[Span]
"""What a person wrote, and all pieces of the reply to it."""


def turns_of(path: Sequence[Span]) -> list[Turn]:
    turns: list[Turn] = []
    for span in path:
        if span.node.role == "user" or not turns:
            turns.append([])
        turns[-1].append(span)
    return turns


def omission_of(path: Sequence[Span]) -> Omission | None:
    """What is left out at the end of a path: the newest turn that says so counts."""
    return next((span.node.omitted for span in reversed(path) if span.node.omitted is not None), None)


def messages(chat: Conversation, leaf: int | None = None) -> list[Message]:
    """What the model is told: the system message, the summary of what is left out if there is one, the rest of the path to
    `leaf` (None: to the one that is shown)."""
    path, system = chat.path(leaf), chat.system if leaf is None else chat.system_of(leaf)
    omitted = omission_of(path)
    said = [Message("system", system)] if system else []
    if omitted is None:
        return said + list(_said(path, raw=chat.raw))
    if omitted.summary is not None and omitted.summary in chat.nodes:
        request = chat.nodes[chat.reply(omitted.summary)[0].node.parent or omitted.summary]
        said += _said([Span(request, len(request.ids)), *chat.reply(omitted.summary)], raw=chat.raw)
    return said + list(_said([span for turn in turns_of(path)[omitted.turns :] for span in turn], raw=chat.raw))


def _said(spans: Sequence[Span], *, raw: bool) -> Iterator[Message]:
    """Spans as messages; a reply in several pieces is one message, its thoughts apart, which the template may leave out; what
    is `raw` has no template, and its text stays whole."""
    for user, group in groupby(spans, key=lambda span: span.node.role == "user"):
        pieces = list(group)
        if user:
            yield from (Message("user", span.node.text(span.count)) for span in pieces)
        else:
            thoughts = None if raw else thoughts_of(pieces)
            text = "".join(span.node.text(span.count) for span in pieces)
            yield (
                Message("assistant", text)
                if thoughts is None
                else Message("assistant", answer_of(pieces), thoughts.text)
            )
