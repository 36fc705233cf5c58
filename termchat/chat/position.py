"""Where a token stands: what the model saw before it, and which throw of the dice it was."""

from __future__ import annotations

from typing import NamedTuple

from termchat.conversation.tree import Conversation, Node, Span
from termchat.decoding.samplers import SamplerSettings
from termchat.engine.port import ModelInfo


class Position(NamedTuple):
    """A step of a reply. `ids` stand before it, the last `done` of them are the reply's own.

    `seed` and `settings` (those in force there) are None where no reply began: in what a person wrote, or in a reply that
    failed before its first word.
    """

    ids: list[int]
    done: int
    seed: int | None
    settings: SamplerSettings | None


def position_of(conversation: Conversation, node: Node, index: int) -> Position:
    """The step at which token `index` of a node was drawn; at its length, the one that would follow.

    A reply in several pieces is one: steps are counted from its first token, and the dice are its first piece's.
    """
    before = [] if node.whole else conversation.ids_before(node.number)
    ids = [*before, *node.ids[:index]]
    if node.role == "user":
        return Position(ids, 0, None, None)
    spans = conversation.reply(node.number)
    done = sum(span.count for span in spans[:-1]) + index
    seeds = (span.node.start.seed for span in spans if span.node.start is not None)
    return Position(ids, done, next(seeds, None), _in_force(node, index))


def _in_force(node: Node, index: int) -> SamplerSettings | None:
    reached = (settings for settings, at in zip(node.settings, node.settings_at, strict=True) if at <= index)
    newest = max(reached, key=lambda settings: settings.number, default=None)
    return newest.samplers if newest is not None else None


def is_foreign(path: list[Span], model: ModelInfo) -> bool:
    """Whether another model made ids of the path; a turn whose ids are the whole prompt begins anew."""
    foreign = False
    for span in path:
        start = span.node.start
        foreign = foreign and not span.node.whole
        foreign = foreign or (start is not None and start.model.sha256 != model.sha256)
    return foreign
