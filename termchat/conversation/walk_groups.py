"""The groups of a conversation: replies that were made together from one prompt, by the number of their group and their walk.

Nothing but the replies' own Start says that there is a group. Its walks grow from one place of the tree, or, where one began as
a fork of another, from that one's tokens.
"""

from __future__ import annotations

from collections.abc import Mapping

from termchat.conversation.tree import Conversation, Node
from termchat.decoding.group import GroupKind

RANKED: tuple[GroupKind, ...] = ("best", "vote", "beams")
"""Groups that are made for their best walk; the others keep their order."""


def groups_of(conversation: Conversation) -> dict[int, dict[int, Node]]:
    """The living replies of each group by their walk, in order; the groups in the order in which they were made."""
    found: dict[int, dict[int, Node]] = {}
    hidden: set[int | None] = set()
    for number, node in sorted(conversation.nodes.items()):  # a parent was there before what grew from it
        if node.deleted or node.parent in hidden:
            hidden.add(number)
        elif node.group is not None and node.walk is not None:
            found.setdefault(node.group.number, {}).setdefault(node.walk, node)
    return {number: dict(sorted(walks.items())) for number, walks in found.items()}


def origin_of(walks: Mapping[int, Node]) -> tuple[int | None, int]:
    """The node that a group's walks grow from, and at which of its ids."""
    own = {node.number for node in walks.values()}
    return next((node.parent, node.at) for node in walks.values() if node.parent not in own)
