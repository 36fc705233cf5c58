"""Several replies from one place of a conversation: what was asked, their nodes, and how they stand."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from termchat.chat.live import Live
from termchat.conversation.tree import Conversation, Node, Place, Span
from termchat.conversation.walk_groups import groups_of, origin_of
from termchat.conversation.walk_ranking import ids_of_beam, ranking_of
from termchat.decoding.answers import AnswerError
from termchat.decoding.group import MOST_WALKS, Group
from termchat.decoding.records import Beams, Ranking, SettingsRecord
from termchat.decoding.samplers import SamplerSettings, Value
from termchat.decoding.walk_plan import WalkPlan
from termchat.engine.port import Paused, WalksFinished


class WalkGroup:
    """Replies that were made together, each a node; `Walks` writes all fields.

    `origin` is the place from which they grow, `before` the leaf that was shown until then. `cursor` is the walk that is looked
    at, `kept` the one that goes on. `lives` and `paused` have the newest step of each, and what those wait with that are
    paused. `ended` is None while they run, where an engine died, and in a chat that was opened again.
    """

    def __init__(
        self, conversation: Conversation, group: Group, plan: WalkPlan, origin: Place, before: int | None = None
    ) -> None:
        self.conversation, self.group, self.plan, self.origin, self.before = conversation, group, plan, origin, before
        self.nodes: dict[int, Node] = {}
        self.lives: dict[int, Live] = {}
        self.paused: dict[int, Paused] = {}
        self.cursor = 0
        self.kept: int | None = None
        self.ended: WalksFinished | None = None

    @property
    def running(self) -> list[int]:
        """The walks that have not ended."""
        return [walk for walk, node in self.nodes.items() if not node.done]

    @property
    def from_reply(self) -> bool:
        """Whether they grow from a token of a reply, and not from what a person wrote."""
        return self.conversation.nodes[self.origin.node].role == "assistant"

    @property
    def beams(self) -> Sequence[Beams]:
        """The steps of a beam search."""
        return self.nodes[0].beams if 0 in self.nodes else []

    @property
    def labels(self) -> dict[int, str]:
        """What is its own of each walk, "" where only the seed is; of one that joined, where it grew from another."""
        return {walk: self._label(walk) for walk in self.nodes}

    def walk_of(self, leaf: int | None) -> int | None:
        """The walk whose node this is."""
        return next((walk for walk, node in self.nodes.items() if node.number == leaf), None)

    def spans(self, walk: int) -> list[Span]:
        """What a walk has said since the origin: of one that joined, first what it has of the other walk."""
        return self.conversation.path(self.nodes[walk].number, since=self.origin.node)

    def step_of(self, node: int, at: int) -> int:
        """How many tokens since the origin stand before a token of one of the walks."""
        walk = self.walk_of(node)
        return sum(span.count for span in self.spans(walk)[:-1]) + at if walk is not None else at

    def place_of(self, walk: int, step: int) -> Place | None:
        """The opposite: where in a walk that token is, or its last one where it has not come as far; None before its first."""
        found = None
        for span in self.spans(walk):
            if span.count:
                found = Place(span.node.number, min(step, span.count - 1))
            if step < span.count:
                break
            step -= span.count
        return found

    def ids(self, walk: int) -> list[int]:
        return [i for span in self.spans(walk) for i in span.node.ids[: span.count]]

    def ids_of_beam(self, step: int, place: int, *, dropped: bool = False) -> list[int]:
        """The ids of a beam since the origin: of the one at that place of a step (`Beam.walk`), or of one that was dropped
        there; empty if there is none."""
        at = next((at for at, beams in enumerate(self.beams) if beams.step == step), None)
        if at is None:
            return []
        known = self.beams[at].dropped if dropped else self.beams[at].beams
        beam = next((beam for beam in known if beam.walk == place), None)
        return ids_of_beam(self.beams, beam, at) if beam is not None else []

    def ranking(self, refused: Callable[[AnswerError], object] = lambda _: None) -> Ranking:
        """The walks, best first: as it is on record, else as they are now. `refused` is told why no answers of a vote can be
        taken out."""
        recorded = self.nodes[0].ranking if 0 in self.nodes else None
        return recorded or ranking_of({walk: self.spans(walk) for walk in self.nodes}, self.group, refused)

    def _label(self, walk: int) -> str:
        if walk < self.plan.size:
            return self.plan.label(walk)
        node = self.nodes[walk]
        base = self.walk_of(node.parent)
        return f"from {base + 1}, token {node.at + 1}" if base is not None else ""


def groups(conversation: Conversation) -> list[WalkGroup]:
    """All groups of a conversation that have a walk which is not deleted, in the order in which they were made."""
    made = (_reopened(conversation, nodes) for nodes in groups_of(conversation).values())
    return [group for group in made if group is not None]


def _reopened(conversation: Conversation, nodes: dict[int, Node]) -> WalkGroup | None:
    """The group of these walks; None where nothing stands before them, as in a file from elsewhere."""
    parent, at = origin_of(nodes)
    group = next(iter(nodes.values())).group
    if parent is None or group is None:
        return None
    changes = _changes({walk: node.settings for walk, node in nodes.items()}, min(group.size, MOST_WALKS))
    plan = WalkPlan(
        group.kind, len(changes), changes, group.knobs, group.runs, group.same_dice, group.answer, group.beams,
        group.length_penalty,
    )  # fmt: skip
    made = WalkGroup(conversation, group, plan, Place(parent, at))
    made.nodes = nodes
    made.cursor = made.walk_of(conversation.leaf) or next(iter(nodes))
    return made


def _changes(settings: dict[int, list[SettingsRecord]], size: int) -> tuple[dict[str, Value], ...]:
    """The knobs of each walk that not all began with."""
    first = {walk: records[0].samplers for walk, records in settings.items() if records}
    differing = [
        name
        for name in SamplerSettings.__struct_fields__
        if len({getattr(samplers, name) for walk, samplers in first.items() if walk < size}) > 1
    ]
    return tuple(
        {name: getattr(first[walk], name) for name in differing} if walk in first else {} for walk in range(size)
    )
