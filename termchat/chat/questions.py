"""What can be asked of a token, a reply or a text. The chat goes on meanwhile, a reply that is streaming too.

Asking does not wait: the newest answers are the fields of `Questions`, and `Answered` says that one has come. Each kind has
one question open at a time, and the newest wins. An answer says what it is about, whatever is shown by then.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

from termchat.chat import asking
from termchat.chat.asking import Answer, Inspection, Pieces, Rescored, WhyNot
from termchat.chat.changes import Answered
from termchat.chat.line import Inquiry, Newest
from termchat.chat.state import State
from termchat.conversation.tree import Node
from termchat.decoding.records import Failed
from termchat.decoding.samplers import SamplerSettings

Kind = Literal["inspected", "explained", "scored", "tokenized"]
KINDS: tuple[Kind, ...] = ("inspected", "explained", "scored", "tokenized")


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
        self.failed: str | None = None
        self._newest: dict[Kind, Newest[Answer]] = {kind: Newest(state.line) for kind in KINDS}
        self._subjects: dict[Kind, object] = {}
        self._live: dict[Kind, Callable[[], Inquiry[Answer]]] = {}

    def inspect(self, node: Node, index: int, *, now: bool = False) -> None:
        """The distribution at a token, under the settings of then, or `now` the knobs as they are.

        `index` may be the length of the node: what would follow. What a person wrote has no settings of then.
        """
        inquiry = partial(asking.inspection, self._state, self._state.conversation, node, index, now=now)
        self._ask("inspected", (node, index, now), inquiry, live=now)

    def explain(self, node: Node, index: int, what: int | str, *, now: bool = False) -> None:
        """Why a token, given by its id or as text, is not the one drawn there; `now` as in `inspect`.

        A text is tokenised first, and its first token is asked about. Mind the space: ' word' and 'word' are two tokens.
        """
        inquiry = partial(asking.why_not, self._state, self._state.conversation, node, index, what, now=now)
        self._ask("explained", (node, index, what, now), inquiry, live=now)

    def score(self, node: Node, settings: SamplerSettings | None = None) -> None:
        """The whole reply that `node` is a piece of, under these settings, or under the knobs as they are (None)."""
        inquiry = partial(asking.rescoring, self._state, self._state.conversation, node, settings)
        self._ask("scored", (node, settings), inquiry, live=settings is None)

    def tokens(self, text: str) -> None:
        """What a text is to the model: no template, no control tokens."""
        self._ask("tokenized", text, partial(asking.pieces_of_text, self._state, text), live=False)

    def tokens_of(self, node: Node) -> None:
        """The tokens of a node as they are; of what a person wrote with the template's scaffold around it."""
        inquiry = partial(asking.pieces_of_node, self._state, self._state.conversation, node)
        self._ask("tokenized", node, inquiry, live=False)

    def forget(self, *kinds: Kind) -> None:
        """Lets these answers go, or all; nothing of them is asked again."""
        for kind in kinds or KINDS:
            setattr(self, kind, None)
            self._subjects.pop(kind, None)
            self._live.pop(kind, None)
        self.failed = None

    def tuned(self) -> None:
        """A knob was turned: asks again what was asked under the knobs as they are."""
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
