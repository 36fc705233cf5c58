"""Where a token stands: what the model saw before it, and which throw of the dice it was."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from termchat.conversation.tree import Conversation, Node, Span
from termchat.decoding.constraint import Constraint
from termchat.decoding.samplers import SamplerSettings
from termchat.decoding.stage_state import update_state


class Position(NamedTuple):
    """A step of a reply. `ids` stand before it, the last `done` of them are the reply's own.

    `seed` and `settings` (those in force there) are None where no reply began: in what a person wrote, or in a reply that
    failed before its first word. `state` is what stages of the chain remember there. The `constraint` in force there began with
    step `constraint_begun` of the reply.
    """

    ids: list[int]
    done: int
    seed: int | None
    settings: SamplerSettings | None
    state: dict[str, float]
    constraint: Constraint | None = None
    constraint_begun: int = 0

    def find_begun(self, constraint: Constraint | None) -> int:
        """Return the step with which a constraint begins that is in force from here on, if it is not the one that is."""
        return self.constraint_begun if constraint == self.constraint else self.done


def position_of(conversation: Conversation, node: Node, index: int) -> Position:
    """Return the step at which token `index` of a node was drawn; at its length, the one that would follow.

    A reply in several pieces is one: steps are counted from its first token. The dice are those of the piece, which are the
    same in all but where a walk began in mid-reply with its own.
    """
    before = [] if node.whole else conversation.ids_before(node.number)
    ids = [*before, *node.ids[:index]]
    if node.role == "user":
        return Position(ids, 0, None, None, {})
    spans = conversation.find_reply(node.number)
    done = sum(span.count for span in spans[:-1]) + index
    seeds = (span.node.start.seed for span in reversed(spans) if span.node.start is not None)
    record = node.settings_before(index)
    position = Position(ids, done, next(seeds, None), None, _state_before(spans, index))
    if record is None:
        return position
    return position._replace(
        settings=record.samplers, constraint=record.constraint, constraint_begun=record.constraint_begun
    )


def _state_before(spans: Sequence[Span], index: int) -> dict[str, float]:
    """Return what a record holds of it, or what follows from the last token before."""
    node = spans[-1].node
    if index in node.tokens.states:
        return node.tokens.states[index]
    if index == 0 and len(spans) > 1:
        node, index = spans[-2].node, spans[-2].count
    record = node.settings_before(index - 1)
    if index == 0 or record is None or index - 1 not in node.tokens.states:
        return {}
    state = node.tokens.states[index - 1]
    if node.tokens.forced[index - 1]:
        return state
    return update_state(record.samplers, state, node.tokens.probabilities[index - 1])


def constraint_of(conversation: Conversation) -> Constraint | None:
    """Return the constraint of the reply that the chat ends in: a chat that is opened again has it."""
    node = conversation.nodes[conversation.leaf] if conversation.leaf is not None else None
    record = node.settings_before(len(node.tokens)) if node is not None else None
    return record.constraint if record is not None else None


class WhatIf(NamedTuple):
    """`first` is the index of the first token that would differ (None: none), `changed` all such indexes.

    `impossible` are the indexes of tokens that these settings would have cut. `kept` is the share of the drawn tokens that
    would be drawn again, 0 to 1, each after its own past. Tokens that a person forced are not the dice's: they would be forced
    again, whatever the settings.
    """

    first: int | None
    changed: tuple[int, ...]
    impossible: tuple[int, ...]
    kept: float


def summarise_whatif(
    ids: Sequence[int], drawn: Sequence[int], probabilities: Sequence[float], forced: Collection[int] = ()
) -> WhatIf:
    """Compare the ids of a reply with what would be drawn in their places.

    `probabilities` are what each token of the reply would have been drawn with; `forced` the indexes that a person forced.

    Raises:
        ValueError: the three are not of one length.
    """
    rows = zip(range(len(ids)), ids, drawn, probabilities, strict=True)
    free = [row for row in rows if row[0] not in forced]
    changed = tuple(index for index, there, now, _ in free if there != now)
    impossible = tuple(index for index, _, _, probability in free if probability <= 0.0)
    return WhatIf(changed[0] if changed else None, changed, impossible, 1 - len(changed) / len(free) if free else 1.0)
