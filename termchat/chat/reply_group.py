"""Replies that were made together, and where they begin."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from termchat.chat.live import Live
from termchat.conversation.node import Node
from termchat.conversation.tree import Conversation, Place, Span
from termchat.conversation.unsent import Then
from termchat.conversation.walk_groups import ranking_of
from termchat.decoding.answers import AnswerError
from termchat.decoding.records import Beams, Ranking
from termchat.decoding.walk_plan import ONE, WalkPlan
from termchat.engine.port import Paused, WalksFinished


class ReplyBeginning(NamedTuple):
    """Where the replies of a `plan` begin: at the first `at` ids of `parent`, for a new reply or a piece of one.

    `done` of the ids before them are the reply's own; their cells are decoded again in the batches in which they were decoded
    first, where those are known. A reply may have `longer` more tokens than its settings say, but no more than `limit` (0: as
    many as there is room for). It begins with `ids`, whatever the dice say; `then` is what follows. `prefill` is their text,
    where a person set what the reply begins with. `remembered` is the state of the chain's stages, `constraint_begun` the step
    at which the chat's constraint began. `before` is the leaf that was shown until then.
    """

    parent: Node
    at: int
    seed: int
    done: int
    longer: int = 0
    limit: int = 0
    ids: Sequence[int] = ()
    then: Then = "go on"
    prefill: str = ""
    remembered: Mapping[str, float] = {}
    constraint_begun: int = 0
    plan: WalkPlan = ONE
    before: int | None = None


class ReplyGroup:
    """The replies of one request, each a node; `Replies`, `Walks` and `Run` write the fields.

    A group that is `alone` is one reply, whose records have no number. `origin` is the place from which they grow, `before` the
    leaf that was shown until then. `cursor` is the reply that is selected, `kept` the one from which the chat continues.
    `lives` have the newest step of each, `paused` the next one of those that are paused. `ended` is None while they run, where
    an engine died, and in a chat that was opened again.
    """

    def __init__(self, conversation: Conversation, plan: WalkPlan, origin: Place, before: int | None = None) -> None:
        self.conversation, self.plan, self.origin, self.before = conversation, plan, origin, before
        self.group = plan.group
        self.alone = plan.group.kind == "walks" and plan.group.size == 1
        self.nodes: dict[int, Node] = {}
        self.lives: dict[int, Live] = {}
        self.paused: dict[int, Paused] = {}
        self.cursor = 0
        self.kept: int | None = 0 if self.alone else None
        self.ended: WalksFinished | None = None

    @property
    def running(self) -> list[int]:
        """The walks that have not ended."""
        return [walk for walk, node in self.nodes.items() if not node.done]

    @property
    def beams(self) -> Sequence[Beams]:
        """The steps of a beam search."""
        return self.nodes[0].beams if 0 in self.nodes else []

    @property
    def labels(self) -> dict[int, str]:
        """The settings in which each reply differs, "" if only its seed does; of a joined reply, its branching point."""
        labels = {walk: self.plan.label_walk(walk) for walk in range(self.group.size) if walk in self.nodes}
        for walk, node in self.nodes.items():
            base = self.walk_of(node.parent)
            labels.setdefault(walk, f"from {base + 1}, token {node.at + 1}" if base is not None else "")
        return labels

    def walk_of(self, leaf: int | None) -> int | None:
        """Return the walk whose node this is."""
        return next((walk for walk, node in self.nodes.items() if node.number == leaf), None)

    def list_spans(self, walk: int) -> list[Span]:
        """List the spans of a reply since the origin; a joined reply begins with its part of the other one."""
        return self.conversation.find_path(self.nodes[walk].number, since=self.origin.node)

    def step_of(self, node: int, at: int) -> int:
        """Count the tokens since the origin before a token of one of the walks."""
        walk = self.walk_of(node)
        return sum(span.count for span in self.list_spans(walk)[:-1]) + at if walk is not None else at

    def place_of(self, walk: int, step: int) -> Place | None:
        """Find the place of such a token in a walk, or of its last one where it has not come as far; None before its first."""
        found = None
        for span in self.list_spans(walk):
            if span.count:
                found = Place(span.node.number, min(step, span.count - 1))
            if step < span.count:
                break
            step -= span.count
        return found

    def rank_replies(self, refused: Callable[[AnswerError], object] = lambda _: None) -> Ranking:
        """Rank the replies, best first: as recorded, else by their present figures. `refused` is called with the reason if a
        vote's answers cannot be extracted.
        """
        recorded = self.nodes[0].ranking if 0 in self.nodes else None
        return recorded or ranking_of({walk: self.list_spans(walk) for walk in self.nodes}, self.group, refused)
