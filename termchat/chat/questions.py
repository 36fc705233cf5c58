"""What can be asked of a token, a reply or a text. The chat goes on meanwhile, a reply that is streaming too.

Asking does not wait: the newest answers are the fields of `Questions`, and `Answered` says that one has come. Each kind has
one question open at a time, and the newest wins. An answer says what it is about, whatever is shown by then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

from termchat.chat.changes import Answered, LiveChanged
from termchat.chat.live import Live
from termchat.chat.requests import Inquiry, Newest, Unanswerable
from termchat.chat.state import State, is_foreign
from termchat.conversation.position import WhatIf, position_of, summarise
from termchat.conversation.tree import Conversation, Node, Place, Span
from termchat.decoding import biases
from termchat.decoding.constraint import Constraint
from termchat.decoding.records import UNKNOWN, Failed
from termchat.decoding.samplers import SamplerSettings
from termchat.engine.port import (
    Check,
    Checked,
    Describe,
    Explain,
    Explained,
    Inspect,
    Inspected,
    Score,
    Scored,
    Spell,
    Spelled,
    Spelling,
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
    """The tokens of a typed `text`, or of a `node`, of a reply all of its pieces."""

    node: Node | None
    text: str
    tokenized: Tokenized


@dataclass(frozen=True)
class CheckedConstraint:
    """Whether a constraint can be used with the model."""

    constraint: Constraint
    checked: Checked


@dataclass(frozen=True)
class Biasing:
    """What can be biased: the tokens of a typed `text`, the `spellings` of its word, the tokens of each bias that is `written`,
    in order, and those that the model bans itself."""

    text: str
    tokenized: Tokenized
    spellings: list[Spelling]
    written: dict[str, Tokenized]
    suppressed: Tokenized


Answer = Inspection | WhyNot | Rescored | Pieces | CheckedConstraint | Biasing


def inspection(state: State, chat: Conversation, node: Node, index: int, *, now: bool) -> Inquiry[Inspection]:
    """See `Questions.inspect`."""
    inspected = yield _step(state, chat, node, index, now=now)
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
        raise Unanswerable("type some text first")
    explained = yield Explain(
        step.ids, asked[0], step.samplers, step.seed, step.done, step.state, step.constraint, step.constraint_begun,
        drawn=_standing(state, node, index),
    )  # fmt: skip
    assert isinstance(explained, Explained)
    penalised = explained.explanation.penalised
    pieces: dict[int, str] = {}
    if penalised is not None and penalised.positions:
        described = yield Describe([step.ids[position] for position in penalised.positions])
        assert isinstance(described, Tokenized)
        pieces = dict(zip(penalised.positions, described.names, strict=True))
    return WhyNot(node, index, now, text, len(asked) - 1, explained, pieces)


def _standing(state: State, node: Node, index: int) -> int:
    """The token at a place of a node; behind its last one, that which a paused reply waits with."""
    if index < len(node.ids):
        return node.ids[index]
    return state.paused.token.id if state.paused is not None else UNKNOWN


def rescoring(state: State, chat: Conversation, node: Node, settings: SamplerSettings | None) -> Inquiry[Answer]:
    """See `Questions.score`."""
    spans = of_one_seed(reply_with(chat, node), node)
    columns = [(span.node.tokens, span.count) for span in spans]
    ids = [i for tokens, count in columns for i in tokens.ids[:count]]
    if not ids:
        raise Unanswerable("no reply to inspect")
    step = _step(state, chat, spans[0].node, 0, now=True)
    samplers = settings or step.samplers
    last = position_of(chat, spans[-1].node, spans[-1].count)  # it may have begun in mid-reply, or after the thoughts
    begun = last.constraint_begun if last.constraint == step.constraint else step.constraint_begun
    scored = yield Score([*step.ids, *ids], len(ids), samplers, step.seed, step.done, step.constraint, begun)
    assert isinstance(scored, Scored)
    texts = [text for tokens, count in columns for text in tokens.texts[:count]]
    places = [Place(span.node.number, at) for span in spans for at in range(span.count)]
    chosen = [by_hand for tokens, count in columns for by_hand in tokens.forced[:count]]
    forced = {index for index, by_hand in enumerate(chosen) if by_hand}
    summary = summarise(ids, scored.ids, scored.probabilities, forced)
    return Rescored(node, samplers, places, ids, texts, scored, summary)


def check_of(state: State, constraint: Constraint) -> Inquiry[Answer]:
    """See `Questions.check`."""
    if state.model is None:
        raise Unanswerable(NO_MODEL)
    if (why := state.refused_constraint(constraint)) is not None:
        raise Unanswerable(why.message)
    checked = yield Check(constraint)
    assert isinstance(checked, Checked)
    return CheckedConstraint(constraint, checked)


def pieces_of_text(state: State, text: str) -> Inquiry[Answer]:
    """See `Questions.tokens`."""
    if state.model is None:
        raise Unanswerable(NO_MODEL)
    tokenized = yield Tokenize(text)
    assert isinstance(tokenized, Tokenized)
    return Pieces(None, text, tokenized)


def biasing(state: State, text: str) -> Inquiry[Answer]:
    """See `Questions.biases`."""
    if state.model is None:
        raise Unanswerable(NO_MODEL)
    written: dict[str, Tokenized] = {}
    for bias in state.tuning.logit_bias:
        what = biases.parse(bias).what
        tokens = yield Tokenize(what) if isinstance(what, str) else Describe([what])
        assert isinstance(tokens, Tokenized)
        written[bias] = tokens
    tokenized = yield Tokenize(text)
    spelled = (yield Spell(text)) if text.strip() else Spelled([])
    suppressed = yield Describe(state.model.suppressed)
    assert isinstance(tokenized, Tokenized)
    assert isinstance(spelled, Spelled)
    assert isinstance(suppressed, Tokenized)
    return Biasing(text, tokenized, spelled.spellings, written, suppressed)


def pieces_of_node(state: State, chat: Conversation, node: Node) -> Inquiry[Answer]:
    """See `Questions.tokens_of`."""
    _check(state, chat, node)
    spans = [Span(node, len(node.ids))] if node.role == "user" else reply_with(chat, node)
    tokenized = yield Describe([i for span in spans for i in span.node.ids[: span.count]])
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


def of_one_seed(spans: list[Span], node: Node) -> list[Span]:
    """The pieces around a node that were drawn with its dice: a walk that began in mid-reply may have others than the reply."""
    seeds: list[int | None] = []
    for span in spans:
        start = span.node.start
        seeds.append(start.seed if start is not None else seeds[-1] if seeds else None)
    first = last = next(at for at, span in enumerate(spans) if span.node is node)
    while first and seeds[first - 1] == seeds[last]:
        first -= 1
    while last + 1 < len(spans) and seeds[last + 1] == seeds[first]:
        last += 1
    return spans[first : last + 1]


NO_MODEL = "no model is loaded"


def _check(state: State, chat: Conversation, node: Node) -> None:
    if state.model is None:
        raise Unanswerable(NO_MODEL)
    if is_foreign(chat.path(node.number), state.model):
        raise Unanswerable("a different model wrote this")


def _step(state: State, chat: Conversation, node: Node, index: int, *, now: bool) -> Inspect:
    """Build the request for the distribution at a position."""
    _check(state, chat, node)
    position = position_of(chat, node, index)
    if not position.ids:
        raise Unanswerable("nothing precedes this token")
    settings = None if now else position.settings
    constraint = state.constraint if settings is None else position.constraint
    return Inspect(
        position.ids,
        settings or state.tuning.samplers(),
        position.seed if position.seed is not None else state.tuning.seed or 0,
        position.done,
        candidates=state.candidates,
        state=position.state,
        constraint=constraint,
        constraint_begun=position.begun(constraint),
    )


Kind = Literal["inspected", "explained", "scored", "tokenized", "checked", "biased"]
KINDS: tuple[Kind, ...] = ("inspected", "explained", "scored", "tokenized", "checked", "biased")


class Questions:
    """Asks, and holds the newest answer of each kind: None until it is there. `failed` says why the last question has none.

    What is asked under the knobs as they are is asked again whenever one turns, until something else is asked or it is
    forgotten; the answer that is there stays meanwhile.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self.inspected: Inspection | None = None
        self.explained: WhyNot | None = None
        self.scored: Rescored | None = None
        self.tokenized: Pieces | None = None
        self.checked: CheckedConstraint | None = None
        self.biased: Biasing | None = None
        self.failed: str | None = None
        self._newest: dict[Kind, Newest[Answer]] = {kind: Newest(state.line) for kind in KINDS}
        self._subjects: dict[Kind, object] = {}
        self._live: dict[Kind, Callable[[], Inquiry[Answer]]] = {}

    def inspect(self, node: Node, index: int, *, now: bool = False) -> None:
        """The distribution at a token, under the settings of then, or `now` the knobs as they are.

        `index` may be the length of the node: what would follow. What a person wrote has no settings of then.
        """
        inquiry = partial(inspection, self._state, self._state.conversation, node, index, now=now)
        self._ask("inspected", (node, index, now), inquiry, live=now)

    def explain(self, node: Node, index: int, what: int | str, *, now: bool = False) -> None:
        """Why a token, given by its id or as text, is not the one drawn there; `now` as in `inspect`.

        A text is tokenised first, and its first token is asked about. Mind the space: ' word' and 'word' are two tokens.
        """
        inquiry = partial(why_not, self._state, self._state.conversation, node, index, what, now=now)
        self._ask("explained", (node, index, what, now), inquiry, live=now)

    def score(self, node: Node, settings: SamplerSettings | None = None) -> None:
        """The whole reply that `node` is a piece of, under these settings, or under the knobs as they are (None)."""
        inquiry = partial(rescoring, self._state, self._state.conversation, node, settings)
        self._ask("scored", (node, settings), inquiry, live=settings is None)

    def check(self, constraint: Constraint) -> None:
        """Whether a constraint can be used with the model that is loaded."""
        self._ask("checked", constraint, partial(check_of, self._state, constraint), live=False)

    def tokens(self, text: str) -> None:
        """Tokenizes a text: no template, no control tokens."""
        self._ask("tokenized", text, partial(pieces_of_text, self._state, text), live=False)

    def biases(self, text: str) -> None:
        """The tokens of a text and of its word's spellings, and those of the biases as they are."""
        self._ask("biased", text, partial(biasing, self._state, text), live=True)

    def tokens_of(self, node: Node) -> None:
        """The tokens of a message as they are, with the template's scaffold around it, or of the whole reply of a node."""
        inquiry = partial(pieces_of_node, self._state, self._state.conversation, node)
        self._ask("tokenized", node, inquiry, live=False)

    def forget(self, *kinds: Kind) -> None:
        """Drops these answers, or all; they are not asked again."""
        for kind in kinds or KINDS:
            setattr(self, kind, None)
            self._subjects.pop(kind, None)
            self._live.pop(kind, None)
        self.failed = None

    def tuned(self) -> None:
        """A knob was turned: asks again what was asked under the current knobs."""
        for kind, inquiry in self._live.items():
            self._send(kind, inquiry)

    def _ask(self, kind: Kind, subject: object, inquiry: Callable[[], Inquiry[Answer]], *, live: bool) -> None:
        if self._subjects.get(kind) != subject:
            setattr(self, kind, None)
        self._subjects[kind] = subject
        self._live.pop(kind, None)
        if live:
            self._live[kind] = inquiry
        self.failed = None
        self._send(kind, inquiry)

    def _send(self, kind: Kind, inquiry: Callable[[], Inquiry[Answer]]) -> None:
        self._newest[kind].ask(inquiry(), partial(self._hear, kind, self._subjects[kind]))

    def _hear(self, kind: Kind, subject: object, answer: Answer | Failed) -> None:
        if self._subjects.get(kind) != subject:
            return  # something else was asked since
        failed = isinstance(answer, Failed)
        setattr(self, kind, None if failed else answer)
        self.failed = answer.message if isinstance(answer, Failed) else None
        self._state.changed(Answered())


class Preview:
    """Reshapes the last distribution as knobs are turned."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._newest: Newest[Inspection] = Newest(state.line)

    def ask(self) -> None:
        """Ask for the last step of the last reply, if this model wrote it."""
        state = self._state
        spans = [span for span in state.conversation.reply() if span.count]
        if state.phase != "idle" or not spans or state.is_foreign() or "inspect" not in state.engine.offers:
            return
        node, index = spans[-1].node, spans[-1].count - 1
        if position_of(state.conversation, node, index).seed is not None:
            inquiry = inspection(state, state.conversation, node, index, now=True)
            self._newest.ask(inquiry, partial(self._hear, state.live))

    def _hear(self, live: Live, answer: Inspection | Failed) -> None:
        # Other live values: another chat is shown. A failure is nobody's concern: the recorded step stays.
        if isinstance(answer, Inspection) and live is self._state.live and not self._state.busy:
            live.preview, live.preview_recomputed = answer.inspected.token, answer.inspected.recomputed
            self._state.changed(LiveChanged())
