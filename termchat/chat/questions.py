"""What can be asked of a token, a reply or a text. The chat goes on meanwhile, a reply that is streaming too.

Asking does not wait: the newest answers are the fields of `Questions`, and `Answered` says that one has come. Each kind has
one question open at a time, and the newest wins. An answer says what it is about, whatever is shown by then.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Literal

import msgspec

from termchat.chat.changes import Answered, LiveChanged
from termchat.chat.inquiries import Inquiry, Newest, Unanswerable, send_request
from termchat.chat.live import Live
from termchat.chat.state import State, is_foreign
from termchat.conversation.position import WhatIf, position_of, summarise_whatif
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
    ModelInfo,
    Score,
    Scored,
    Spell,
    Spelled,
    Spelling,
    Tokenize,
    Tokenized,
)


class Inspection(msgspec.Struct, frozen=True):
    """The distribution from which token `index` of `node` was drawn, asked again; `now`: under the knobs as they are."""

    node: Node
    index: int
    now: bool
    inspected: Inspected


class WhyNot(msgspec.Struct, frozen=True):
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


class Rescored(msgspec.Struct, frozen=True):
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


class Pieces(msgspec.Struct, frozen=True):
    """The tokens of a typed `text`, or of a `node`, of a reply all of its pieces."""

    node: Node | None
    text: str
    tokenized: Tokenized


class CheckedConstraint(msgspec.Struct, frozen=True):
    """Whether a constraint can be used with the model."""

    constraint: Constraint
    checked: Checked


class Biasing(msgspec.Struct, frozen=True):
    """The tokens that can be biased: those of a typed `text`, the `spellings` of its word, the tokens of each `written`
    bias, in order, and those that the model bans itself.
    """

    text: str
    tokenized: Tokenized
    spellings: list[Spelling]
    written: dict[str, Tokenized]
    suppressed: Tokenized


Answer = Inspection | WhyNot | Rescored | Pieces | CheckedConstraint | Biasing
NO_MODEL = "no model is loaded"
Kind = Literal["inspected", "explained", "scored", "tokenized", "checked", "biased"]
KINDS: tuple[Kind, ...] = ("inspected", "explained", "scored", "tokenized", "checked", "biased")


class Questions:
    """Asks, and holds the newest answer of each kind: None until it is there. `failed` says why the last question has none.

    What is asked under the knobs as they are is asked again whenever one turns, until something else is asked or it is
    forgotten; the answer that is there stays meanwhile.
    """

    def __init__(self, chat: State) -> None:
        self._chat = chat
        self.inspected: Inspection | None = None
        self.explained: WhyNot | None = None
        self.scored: Rescored | None = None
        self.tokenized: Pieces | None = None
        self.checked: CheckedConstraint | None = None
        self.biased: Biasing | None = None
        self.failed: str | None = None
        self._newest: dict[Kind, Newest[Answer]] = {kind: Newest(chat.host) for kind in KINDS}
        self._preview: Newest[Inspection] = Newest(chat.host)
        self._subjects: dict[Kind, object] = {}
        self._live: dict[Kind, Callable[[], Inquiry[Answer]]] = {}

    # --- questions ----------------------------------------------------------------------------------------------------

    def inspect_token(self, node: Node, index: int, *, now: bool = False) -> None:
        """Ask for the distribution at a token, under the settings of then, or `now` the knobs as they are.

        `index` may be the length of the node: what would follow. What a person wrote has no settings of then.
        """
        inquiry = partial(self._ask_inspection, self._chat.conversation, node, index, now=now)
        self._ask_answer("inspected", (node, index, now), inquiry, live=now)

    def _ask_inspection(self, tree: Conversation, node: Node, index: int, *, now: bool) -> Inquiry[Inspection]:
        inspected = yield from send_request(self._step(tree, node, index, now=now), Inspected)
        return Inspection(node, index, now, inspected)

    def explain_token(self, node: Node, index: int, what: int | str, *, now: bool = False) -> None:
        """Ask why a token, given by its id or as text, is not the one drawn there; `now` as in `inspect_token`.

        A text is tokenised first, and its first token is asked about. Mind the space: ' word' and 'word' are two tokens.
        """
        tree = self._chat.conversation

        def inquiry() -> Inquiry[WhyNot]:
            step = self._step(tree, node, index, now=now)
            text, ids = (what, []) if isinstance(what, str) else ("", [what])
            if text:
                ids = (yield from send_request(Tokenize(text), Tokenized)).ids
            if not ids:
                raise Unanswerable("type some text first")
            waiting = self._chat.paused.token.id if self._chat.paused is not None else UNKNOWN
            drawn = node.ids[index] if index < len(node.ids) else waiting
            command = Explain(
                step.ids, ids[0], step.samplers, step.seed, step.done, step.state, step.constraint, step.constraint_begun,
                drawn=drawn,
            )  # fmt: skip
            explained = yield from send_request(command, Explained)
            penalised = explained.explanation.penalised
            pieces: dict[int, str] = {}
            if penalised is not None and penalised.positions:
                names = Describe([step.ids[position] for position in penalised.positions])
                described = yield from send_request(names, Tokenized)
                pieces = dict(zip(penalised.positions, described.names, strict=True))
            return WhyNot(node, index, now, text, len(ids) - 1, explained, pieces)

        self._ask_answer("explained", (node, index, what, now), inquiry, live=now)

    def score_reply(self, node: Node, settings: SamplerSettings | None = None) -> None:
        """Draw the whole reply that `node` is a piece of again in thought, under these settings or the knobs as they are."""
        tree = self._chat.conversation

        def inquiry() -> Inquiry[Rescored]:
            spans = of_one_seed(reply_with(tree, node), node)
            columns = [(span.node.tokens, span.count) for span in spans]
            ids = [i for tokens, count in columns for i in tokens.ids[:count]]
            if not ids:
                raise Unanswerable("no reply to inspect")
            step = self._step(tree, spans[0].node, 0, now=True)
            samplers = settings or step.samplers
            # The constraint may have begun in mid-reply, or after the thoughts.
            last = position_of(tree, spans[-1].node, spans[-1].count)
            begun = last.constraint_begun if last.constraint == step.constraint else step.constraint_begun
            command = Score([*step.ids, *ids], len(ids), samplers, step.seed, step.done, step.constraint, begun)
            scored = yield from send_request(command, Scored)
            texts = [text for tokens, count in columns for text in tokens.texts[:count]]
            places = [Place(span.node.number, at) for span in spans for at in range(span.count)]
            chosen = [by_hand for tokens, count in columns for by_hand in tokens.forced[:count]]
            forced = {index for index, by_hand in enumerate(chosen) if by_hand}
            summary = summarise_whatif(ids, scored.ids, scored.probabilities, forced)
            return Rescored(node, samplers, places, ids, texts, scored, summary)

        self._ask_answer("scored", (node, settings), inquiry, live=settings is None)

    def check_constraint(self, constraint: Constraint) -> None:
        """Ask whether a constraint can be used with the model that is loaded."""

        def inquiry() -> Inquiry[CheckedConstraint]:
            self._require_model()
            if (why := self._chat.refused_constraint(constraint)) is not None:
                raise Unanswerable(why.message)
            return CheckedConstraint(constraint, (yield from send_request(Check(constraint), Checked)))

        self._ask_answer("checked", constraint, inquiry)

    def ask_tokens(self, text: str) -> None:
        """Tokenize a text: no template, no control tokens."""

        def inquiry() -> Inquiry[Pieces]:
            self._require_model()
            return Pieces(None, text, (yield from send_request(Tokenize(text), Tokenized)))

        self._ask_answer("tokenized", text, inquiry)

    def tokens_of(self, node: Node) -> None:
        """Ask for the tokens of a message as they are, with the template's scaffold around it, or of the whole reply of a
        node."""
        tree = self._chat.conversation

        def inquiry() -> Inquiry[Pieces]:
            self._check(tree, node)
            spans = [Span(node, len(node.ids))] if node.role == "user" else reply_with(tree, node)
            ids = [i for span in spans for i in span.node.ids[: span.count]]
            return Pieces(node, node.written, (yield from send_request(Describe(ids), Tokenized)))

        self._ask_answer("tokenized", node, inquiry)

    def ask_biases(self, text: str) -> None:
        """Ask for the tokens of a text and of its word's spellings, and for those of the biases as they are."""

        def inquiry() -> Inquiry[Biasing]:
            model = self._require_model()
            written: dict[str, Tokenized] = {}
            for bias in self._chat.tuning.logit_bias:
                what = biases.parse(bias).what
                command = Tokenize(what) if isinstance(what, str) else Describe([what])
                written[bias] = yield from send_request(command, Tokenized)
            tokenized = yield from send_request(Tokenize(text), Tokenized)
            spellings = (yield from send_request(Spell(text), Spelled)).spellings if text.strip() else []
            suppressed = yield from send_request(Describe(model.suppressed), Tokenized)
            return Biasing(text, tokenized, spellings, written, suppressed)

        self._ask_answer("biased", text, inquiry, live=True)

    def ask_preview(self) -> None:
        """Reshape the distribution of the last reply's last step as knobs are turned, if this model wrote it."""
        chat, tree, live = self._chat, self._chat.conversation, self._chat.live
        spans = [span for span in tree.find_reply() if span.count]
        if chat.phase != "idle" or not spans or chat.is_foreign() or "inspect" not in chat.engine.offers:
            return
        node, index = spans[-1].node, spans[-1].count - 1
        if position_of(tree, node, index).seed is not None:
            self._preview.ask_next(self._ask_inspection(tree, node, index, now=True), partial(self._hear_preview, live))

    def _hear_preview(self, live: Live, answer: Inspection | Failed) -> None:
        # Other live values: another chat is shown. A failure is nobody's concern: the recorded step stays.
        if isinstance(answer, Inspection) and live is self._chat.live and not self._chat.busy:
            live.preview, live.preview_recomputed = answer.inspected.token, answer.inspected.recomputed
            self._chat.add_changes(LiveChanged())

    # --- how they are asked -------------------------------------------------------------------------------------------

    def forget_answers(self, *kinds: Kind) -> None:
        """Drop these answers, or all; they are not asked again."""
        for kind in kinds or KINDS:
            setattr(self, kind, None)
            self._subjects.pop(kind, None)
            self._live.pop(kind, None)
        self.failed = None

    def repeat_current(self) -> None:
        """Ask again the questions under the current knobs, after one was turned."""
        for kind, inquiry in self._live.items():
            self._send(kind, inquiry)

    def _ask_answer(
        self, kind: Kind, subject: object, inquiry: Callable[[], Inquiry[Answer]], *, live: bool = False
    ) -> None:
        if self._subjects.get(kind) != subject:
            setattr(self, kind, None)
        self._subjects[kind] = subject
        self._live.pop(kind, None)
        if live:
            self._live[kind] = inquiry
        self.failed = None
        self._send(kind, inquiry)

    def _send(self, kind: Kind, inquiry: Callable[[], Inquiry[Answer]]) -> None:
        self._newest[kind].ask_next(inquiry(), partial(self._hear_answer, kind, self._subjects[kind]))

    def _hear_answer(self, kind: Kind, subject: object, answer: Answer | Failed) -> None:
        if self._subjects.get(kind) != subject:
            return  # something else was asked since
        failed = isinstance(answer, Failed)
        setattr(self, kind, None if failed else answer)
        self.failed = answer.message if isinstance(answer, Failed) else None
        self._chat.add_changes(Answered())

    def _require_model(self) -> ModelInfo:
        if self._chat.model is None:
            raise Unanswerable(NO_MODEL)
        return self._chat.model

    def _check(self, tree: Conversation, node: Node) -> None:
        if is_foreign(tree.find_path(node.number), self._require_model()):
            raise Unanswerable("a different model wrote this")

    def _step(self, tree: Conversation, node: Node, index: int, *, now: bool) -> Inspect:
        """Build the request for the distribution at a position."""
        chat = self._chat
        self._check(tree, node)
        position = position_of(tree, node, index)
        if not position.ids:
            raise Unanswerable("nothing precedes this token")
        settings = None if now else position.settings
        constraint = chat.constraint if settings is None else position.constraint
        return Inspect(
            position.ids,
            settings or chat.tuning.samplers(),
            position.seed if position.seed is not None else chat.tuning.seed or 0,
            position.done,
            candidates=chat.candidates,
            state=position.state,
            constraint=constraint,
            constraint_begun=position.find_begun(constraint),
        )


def reply_with(tree: Conversation, node: Node) -> list[Span]:
    """Find all pieces of the reply that a node belongs to: those on the shown path if it is there, else those up to it."""
    runs = [list(run) for _, run in groupby(tree.find_path(), key=lambda span: span.node.role)]
    return next((run for run in runs if any(span.node is node for span in run)), None) or tree.find_reply(node.number)


def of_one_seed(spans: list[Span], node: Node) -> list[Span]:
    """Find the pieces around a node that were drawn with its dice: a walk that began in mid-reply may have others."""
    seeds: list[int | None] = []
    for span in spans:
        start = span.node.start
        seeds.append(start.seed if start is not None else seeds[-1] if seeds else None)
    runs = [[span for span, _ in run] for _, run in groupby(zip(spans, seeds, strict=True), key=itemgetter(1))]
    return next(run for run in runs if any(span.node is node for span in run))
