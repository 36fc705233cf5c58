"""Versions of a turn: the other ways in which a chat says the same turn, made by editing, regenerating and forking.

A version of a message is another message in the same place: grown from the same node at the same token. A version of a reply
is another whole reply to the same message, from its first token to where it ends. So a reply that was forked in its middle
has one more version: what both begin with belongs to both. A reply that was stopped and continued has none more, unless the
chat also went on from where it was stopped. A version of a system prompt is another prompt that a first turn was sent with.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from functools import cached_property

from termchat.conversation.tree import Conversation, Node

__all__ = ["Versions", "leaf_of"]


class Versions:
    """The versions of the turns of a conversation. Deleted nodes are not counted, nor is the request for a summary."""

    def __init__(self, conversation: Conversation) -> None:
        self._chat = conversation

    def find_versions(self, first: Node, last: Node) -> tuple[int, list[int]]:
        """Return which of its versions the turn between these nodes is, from 0, and the number of the node that each of them
        ends in: of a message its own. They are in the order in which they were begun. A deleted turn is alone."""
        this = last if first.role == "assistant" else first
        ends = self._reply_versions(first, last) if first.role == "assistant" else self._message_versions(first)
        return (ends.index(this.number), ends) if this.number in ends else (0, [this.number])

    def of_prompt(self) -> tuple[int, list[list[int]]]:
        """Return which of the chat's system prompts that of the shown path is, from 0, and for each the numbers of the first
        turns that have it."""
        firsts = defaultdict[str, list[int]](list)
        for node in self._chat.list_children(None):
            firsts[self._chat.system_of(node.number)].append(node.number)
        shown = self._chat.system
        return (list(firsts).index(shown), list(firsts.values())) if shown in firsts else (0, [[]])

    def _message_versions(self, message: Node) -> list[int]:
        system = self._chat.system_of(message.number)
        return [
            node.number
            for node in self._chat.list_children(message.parent)
            if (node.role, node.at) == ("user", message.at)
            and (message.parent is not None or self._chat.system_of(node.number) == system)
            and (node is message or node.number not in self._requests)
        ]

    def _reply_versions(self, first: Node, last: Node) -> list[int]:
        ends: list[tuple[int, int]] = []
        """The number of the node that begins to differ, and of the one that a version ends in."""
        waiting = [(node.number, node) for node in self._chat.list_children(first.parent) if node.role == "assistant"]
        while waiting:
            begin, node = waiting.pop()
            grown = self._chat.list_children(node.number)
            pieces = [child for child in grown if child.role == "assistant"]
            kept = node.count_kept() if pieces else 0
            onward = next((piece for piece in pieces if piece.at >= kept), None)
            if node is last or onward is None or len(pieces) < len(grown):
                ends.append((begin, node.number))
            waiting += [(begin if piece is onward else piece.number, piece) for piece in pieces]
        return [end for _, end in sorted(ends)]

    @cached_property
    def _requests(self) -> set[int | None]:
        """The numbers of the messages that asked for a summary."""
        nodes = self._chat.nodes
        summaries = (node.omitted.summary for node in nodes.values() if node.omitted is not None)
        return {nodes[number].parent for number in summaries if number is not None and number in nodes}


def leaf_of(conversation: Conversation, end: int, used: Mapping[int, int]) -> int:
    """Choose the leaf to show with the version that ends in a node: the one behind it that was used last, else the newest.

    `used` says when a leaf was shown, the higher the later; what it does not know never was.
    """
    node = conversation.nodes[end]
    onward = [child for child in conversation.list_children(end) if node.role == "user" or child.role == "user"]
    leaves = [node.number for node in conversation.descendants(onward) if conversation.is_end(node)] or [end]
    return max(leaves, key=lambda number: (used.get(number, -1), number))
