"""What a model is told: the path as messages, without what is left out of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from termchat.chat.state import State
from termchat.conversation.node import Omission
from termchat.conversation.thoughts import answer_of, thoughts_of
from termchat.conversation.tree import Conversation, Node, Span
from termchat.engine.port import Message, ModelInfo, Render, Tokenize

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
    """Find the omission in force at the end of a path: that of its newest turn that has one."""
    return next((span.node.omitted for span in reversed(path) if span.node.omitted is not None), None)


def build_messages(tree: Conversation, leaf: int | None = None, model: ModelInfo | None = None) -> list[Message]:
    """Build the messages of a prompt: system message, summary of omitted turns if any, the rest of the path to `leaf` (None:
    the leaf shown). Replies drawn by `model` come with their ids.
    """
    path, system = tree.find_path(leaf), tree.system if leaf is None else tree.system_of(leaf)
    omitted = omission_of(path)
    said = [Message("system", system)] if system else []
    if omitted is not None:
        path = [span for turn in turns_of(path)[omitted.turns :] for span in turn]
        if omitted.summary is not None and omitted.summary in tree.nodes:
            request = tree.nodes[tree.find_reply(omitted.summary)[0].node.parent or omitted.summary]
            path = [Span(request, len(request.ids)), *tree.find_reply(omitted.summary), *path]
    return said + list(_list_messages(path, raw=tree.raw, model=model))


def _list_messages(spans: Sequence[Span], *, raw: bool, model: ModelInfo | None) -> Iterator[Message]:
    """Spans as messages; a reply in several pieces is one message, its thoughts apart, which the template may leave out; what
    is `raw` has no template, and its text stays whole."""
    for user, group in groupby(spans, key=lambda span: span.node.role == "user"):
        pieces = list(group)
        if user:
            yield from (Message("user", span.node.text(span.count)) for span in pieces)
        else:
            thoughts = None if raw else thoughts_of(pieces)
            ids = [] if raw or model is None else _list_drawn(pieces, model)
            if thoughts is None:
                yield Message("assistant", "".join(span.node.text(span.count) for span in pieces), ids=ids)
            else:
                yield Message("assistant", answer_of(pieces), thoughts.text, ids)


def _list_drawn(spans: Sequence[Span], model: ModelInfo) -> list[int]:
    """List the ids of a reply that this model drew, without the end token that ended it."""
    ids: list[int] = []
    for node, count in ((span.node, span.count) for span in spans):
        if node.start is None or node.start.model.sha256 != model.sha256 or not node.tokens.has_ids:
            return []
        ids += node.ids[:count]
    last, count = spans[-1].node, spans[-1].count
    ended = last.finished is not None and last.finished.reason == "end" and count == len(last.ids)
    return ids[:-1] if ended and ids[-1:] and ids[-1] in model.end_ids else ids


def is_cut(path: Sequence[Span]) -> bool:
    """Return whether a person went on from the middle of a prompt of the path: the template would not make it so."""
    cut = False
    for span in path:
        cut = (cut and not span.node.whole) or (span.node.role == "user" and span.count < len(span.node.ids))
    return cut


def build_question(
    chat: State, said: list[Message], text: str, parent: Node | None, *, anew: bool
) -> Render | Tokenize:
    """Make the command that asks for the prompt ids of a turn behind `parent`.

    Args:
        said: all that the model is told, the turn's `text` last.
        anew: the whole prompt is wanted, whatever stands before the turn.
    """
    if chat.conversation.raw:
        whole = "".join(message.content for message in said)
        return Tokenize(whole if anew else text, begin=anew or parent is None)
    tree = chat.conversation
    before = [] if anew else tree.list_ids()
    return Render(said, before, append=not anew and is_cut(tree.find_path()), think=chat.tuning.thinks)
