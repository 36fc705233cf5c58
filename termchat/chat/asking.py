"""The questions about a token, a reply or a text: what they ask the engine, step by step, and what comes of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from termchat.chat.line import Inquiry, Unanswerable
from termchat.chat.position import is_foreign, position_of
from termchat.chat.state import State
from termchat.chat.whatif import WhatIf, summarise
from termchat.conversation.tree import Conversation, Node, Place, Span
from termchat.decoding.samplers import SamplerSettings
from termchat.engine.port import (
    Describe,
    Explain,
    Explained,
    Inspect,
    Inspected,
    Score,
    Scored,
    Tokenize,
    Tokenized,
)


@dataclass(frozen=True)
class Inspection:
    """The distribution from which token `index` of `node` was drawn, asked again; `now`: under the knobs as they are."""

    node: Node
    index: int
    now: bool
    inspected: Inspected


@dataclass(frozen=True)
class WhyNot:
    """Why another token was not drawn in the place of token `index` of `node`.

    `text` is what was typed ("" where an id was asked about): the answer is about its first token, and `more` others follow
    that. `pieces` are the earlier tokens that the penalties were for, by their position in the context.
    """

    node: Node
    index: int
    now: bool
    text: str
    more: int
    explained: Explained
    pieces: dict[int, str]


@dataclass(frozen=True)
class Rescored:
    """A whole reply drawn again in thought under `settings`: what each token would be, after its own past.

    `places` say where each of the reply's tokens stands; `ids` and `texts` are the reply's own. The lists are of one length.
    """

    node: Node
    settings: SamplerSettings
    places: list[Place]
    ids: list[int]
    texts: list[str]
    scored: Scored
    summary: WhatIf


@dataclass(frozen=True)
class Pieces:
    """The tokens of a typed `text`, or of a `node`."""

    node: Node | None
    text: str
    tokenized: Tokenized


Answer = Inspection | WhyNot | Rescored | Pieces


class _Step(NamedTuple):
    """What the engine has to know of a position."""

    ids: list[int]
    samplers: SamplerSettings
    seed: int
    done: int


def inspection(state: State, chat: Conversation, node: Node, index: int, *, now: bool) -> Inquiry[Answer]:
    """See `Questions.inspect`."""
    step = _step(state, chat, node, index, now=now)
    inspected = yield Inspect(*step, candidates=state.candidates)
    assert isinstance(inspected, Inspected)
    return Inspection(node, index, now, inspected)


def why_not(state: State, chat: Conversation, node: Node, index: int, what: int | str, *, now: bool) -> Inquiry[Answer]:
    """See `Questions.explain`."""
    step = _step(state, chat, node, index, now=now)
    text, asked = (what, []) if isinstance(what, str) else ("", [what])
    if text:
        tokenized = yield Tokenize(text)
        assert isinstance(tokenized, Tokenized)
        asked = tokenized.ids
    if not asked:
        raise Unanswerable("there is no token in an empty text")
    explained = yield Explain(step.ids, asked[0], step.samplers, step.seed, step.done)
    assert isinstance(explained, Explained)
    penalised = explained.explanation.penalised
    pieces: dict[int, str] = {}
    if penalised is not None and penalised.positions:
        described = yield Describe([step.ids[position] for position in penalised.positions])
        assert isinstance(described, Tokenized)
        pieces = dict(zip(penalised.positions, described.names, strict=True))
    return WhyNot(node, index, now, text, len(asked) - 1, explained, pieces)


def rescoring(state: State, chat: Conversation, node: Node, settings: SamplerSettings | None) -> Inquiry[Answer]:
    """See `Questions.score`."""
    spans = reply_with(chat, node)
    columns = [(span.node.tokens, span.count) for span in spans]
    ids = [i for tokens, count in columns for i in tokens.ids[:count]]
    if not ids:
        raise Unanswerable("there is no reply to look at")
    before, samplers, seed, done = _step(state, chat, spans[0].node, 0, now=True)
    samplers = settings or samplers
    scored = yield Score([*before, *ids], len(ids), samplers, seed, done)
    assert isinstance(scored, Scored)
    texts = [text for tokens, count in columns for text in tokens.texts[:count]]
    places = [Place(span.node.number, at) for span in spans for at in range(span.count)]
    chosen = [by_hand for tokens, count in columns for by_hand in tokens.forced[:count]]
    forced = {index for index, by_hand in enumerate(chosen) if by_hand}
    summary = summarise(ids, scored.ids, scored.probabilities, forced)
    return Rescored(node, samplers, places, ids, texts, scored, summary)


def pieces_of_text(state: State, text: str) -> Inquiry[Answer]:
    """See `Questions.tokens`."""
    if state.model is None:
        raise Unanswerable(NO_MODEL)
    tokenized = yield Tokenize(text)
    assert isinstance(tokenized, Tokenized)
    return Pieces(None, text, tokenized)


def pieces_of_node(state: State, chat: Conversation, node: Node) -> Inquiry[Answer]:
    """See `Questions.tokens_of`."""
    _check(state, chat, node)
    tokenized = yield Describe(list(node.ids))
    assert isinstance(tokenized, Tokenized)
    return Pieces(node, node.written, tokenized)


def reply_with(chat: Conversation, node: Node) -> list[Span]:
    """All pieces of the reply that a node belongs to: those on the path that is shown if it is there, else those up to it."""
    path = chat.path()
    last = next((at for at, span in enumerate(path) if span.node is node), None)
    if last is None:
        return chat.reply(node.number)
    while last + 1 < len(path) and path[last + 1].node.role == "assistant":
        last += 1
    first = last
    while first >= 0 and path[first].node.role == "assistant":
        first -= 1
    return path[first + 1 : last + 1]


NO_MODEL = "no model is loaded"


def _check(state: State, chat: Conversation, node: Node) -> None:
    if state.model is None:
        raise Unanswerable(NO_MODEL)
    if is_foreign(chat.path(node.number), state.model):
        raise Unanswerable("another model wrote this")


def _step(state: State, chat: Conversation, node: Node, index: int, *, now: bool) -> _Step:
    _check(state, chat, node)
    position = position_of(chat, node, index)
    if not position.ids:
        raise Unanswerable("nothing stands before this token")
    knobs = state.tuning
    settings = None if now else position.settings
    seed = position.seed if position.seed is not None else knobs.seed or 0
    return _Step(position.ids, settings or knobs.samplers(), seed, position.done)
