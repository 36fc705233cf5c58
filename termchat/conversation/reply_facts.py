"""What two replies were made of: the facts of each by name, and those in which they differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from termchat.conversation.setting_changes import value_texts
from termchat.conversation.tree import Conversation, Node, Span
from termchat.decoding.constraint import format_constraint
from termchat.decoding.records import SettingsRecord
from termchat.decoding.setting import Setting

_MODEL, _FILE = "model", "model file"
_NO_FACTS = ("draft", "draft_max", "draft_always")
"""Knobs that say how fast a reply is made, and not what it says."""


class DifferingFact(NamedTuple):
    """A fact and its values, as they are shown; "" where a reply does not have it."""

    name: str
    left: str
    right: str


def facts_of(conversation: Conversation, end: Node) -> dict[str, str]:
    """Return the facts of the reply that ends in a node, by name: model, system prompt, message, and each knob; of
    one that was turned while the reply ran, all values. The seed is the one that was drawn with."""
    spans = conversation.find_reply(end.number)
    start = next((span.node.start for span in reversed(spans) if span.node.start is not None), None)
    facts: dict[str, str] = {}
    if start is not None:
        facts = {_MODEL: f"{start.model.name} {start.model.quantization}".strip(), _FILE: start.model.sha256[:8]}
    message = conversation.nodes.get(spans[0].node.parent or 0)
    facts |= {"system prompt": conversation.system_of(end.number), "message": message.written if message else ""}
    reached = [settings for span in spans for settings in _settings_reached(span)]
    if start is not None and reached:  # a reply from elsewhere has no seed that is known
        facts["seed"] = str(start.seed)
    constrained = [format_constraint(settings.constraint) for settings in reached]
    if any(constrained):
        facts["constraint"] = " → ".join(text or "none" for text, _ in groupby(constrained))
    return facts | {name: text for name, text in value_texts(reached, Setting.show).items() if name not in _NO_FACTS}


def compare_facts(left: Mapping[str, str], right: Mapping[str, str]) -> list[DifferingFact]:
    """Return the facts whose values differ. A model's file is one only where its name is the same."""
    names = list_varying((left, right))
    return [DifferingFact(name, left.get(name, ""), right.get(name, "")) for name in names]


def list_varying(facts: Sequence[Mapping[str, str]]) -> list[str]:
    """Return the names of the facts that are not the same for all of these replies."""
    names = dict.fromkeys(name for each in facts for name in each)
    found = [name for name in names if len({each.get(name, "") for each in facts}) > 1]
    return [name for name in found if name != _FILE or _MODEL not in found]


def constraint_cost(spans: Sequence[Span]) -> float | None:
    """Return how hard a constraint bent a reply: the sum over its tokens of -ln of the probability mass that it allowed, 0
    if it never forbade anything. None without a constraint.
    """
    columns = [(span.node.tokens, span.count) for span in spans]
    if not any(any(tokens.allowed[:count]) for tokens, count in columns):
        return None
    return sum(sum(tokens.bent[:count]) for tokens, count in columns)


def is_same_model(left: Mapping[str, str], right: Mapping[str, str]) -> bool:
    """Return whether the ids of two replies mean the same tokens."""
    return left.get(_FILE) == right.get(_FILE)


def _settings_reached(span: Span) -> list[SettingsRecord]:
    """Return the settings with which tokens of a span were drawn, in order."""
    node = span.node
    begun = zip(node.settings_at, node.settings, strict=True)
    return [
        settings
        for (at, settings), end in zip(begun, [*node.settings_at[1:], len(node.ids) + 1], strict=False)
        if at < end and at < max(span.count, 1)
    ]
