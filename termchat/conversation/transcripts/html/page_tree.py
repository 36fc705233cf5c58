"""The branches of a chat as the page holds them: which there is room for, and where the script goes from one to another."""

from __future__ import annotations

import copy
from typing import NamedTuple

from termchat.conversation import setting_changes
from termchat.conversation.tree import Conversation, Node
from termchat.conversation.versions import Versions, leaf_of

MOST_TOKENS = 50_000
"""Of all branches but the one that is shown: a browser takes some 25 MB well, and more in another format."""
MOST_NODES = 1_000


class Way(NamedTuple):
    """A way to go on: the node that it goes through or ends in, and the leaf that it leads to."""

    node: int
    leaf: int


class PromptWay(NamedTuple):
    """A system prompt, the first turns that it is the one of, and the leaf to show with it."""

    text: str
    firsts: list[int]
    leaf: int | None


class PageTree:
    """The part of the tree that fits on the page: the branch that is shown, then the others, oldest first."""

    def __init__(self, conversation: Conversation) -> None:
        self.chat = Conversation(conversation.first_system, raw=conversation.raw)
        self.shown = {span.node.number: span.count for span in conversation.find_path()}
        """The nodes on the path that is shown, and how many of their ids it takes."""
        tokens, nodes = MOST_TOKENS, MOST_NODES
        for node in conversation.nodes.values():  # a parent was there before what grew from it
            if node.number not in self.shown:
                without_parent = node.parent is not None and node.parent not in self.chat.nodes
                if node.deleted or without_parent or len(node.tokens) > tokens or not nodes:
                    continue
                tokens, nodes = tokens - len(node.tokens), nodes - 1
            self.chat.attach_node(copy.copy(node))
        self.chat.leaf = conversation.leaf
        self.branches, self.held = len(_find_ends(conversation)), len(_find_ends(self.chat))
        """How many branches the chat has, and how many of them the page."""
        versions = Versions(self.chat)
        self.versions = self._version_ways(versions)
        """By the node that a turn ends in, the versions of the turn."""
        self.prompt, firsts = versions.of_prompt()
        """Which of the prompts is shown."""
        self.prompts = [self._prompt_way(numbers) for numbers in firsts]

    def list_others(self) -> list[Node]:
        return [node for node in self.chat.nodes.values() if node.number not in self.shown]

    def find_ways(self, node: Node) -> dict[int, list[Way]]:
        """Find where a reply continues in several ways before its end, by the number of its tokens before, itself first."""
        kept = node.count_kept() if node.role == "assistant" else 0
        found: dict[int, list[Way]] = {}
        for child in self.chat.list_children(node.number):
            if child.at < kept:
                itself = [Way(node.number, self.chat.newest_leaf(node.number, after=child.at))]
                found.setdefault(child.at, itself).append(Way(child.number, self.chat.newest_leaf(child.number)))
        return found

    def find_piece(self, node: Node) -> tuple[setting_changes.Piece, int]:
        """Return a node of a reply, whole, with its marks, and how many tokens of the reply come before it."""
        spans = self.chat.find_reply(node.number)
        pieces = ((span, span.node.text(span.count)) for span in spans)
        *_, last = setting_changes.mark_pieces(pieces, {})
        return last, sum(span.count for span in spans[:-1])

    def _prompt_way(self, firsts: list[int]) -> PromptWay:
        chat = self.chat
        leaves = [leaf_of(chat, first, {chat.leaf or 0: 0}) for first in firsts]
        leaf = chat.leaf if not firsts or chat.leaf in leaves else max(leaves)
        return PromptWay(chat.system_of(firsts[0]) if firsts else chat.system, firsts, leaf)

    def _version_ways(self, versions: Versions) -> dict[int, list[Way]]:
        chat = self.chat
        leaves = _find_ends(chat)
        alike: dict[tuple[int, ...], list[Way]] = {}
        found: dict[int, list[Way]] = {}
        for node in chat.nodes.values():
            grown = chat.list_children(node.number)
            if node.role == "user" or node.number in leaves or any(child.role == "user" for child in grown):
                first = chat.find_reply(node.number)[0].node if node.role == "assistant" else node
                ends = tuple(versions.find_versions(first, node)[1])
                if ends not in alike:
                    alike[ends] = [Way(end, leaf_of(chat, end, {chat.leaf or 0: 0})) for end in ends]
                if len(ends) > 1:
                    found[node.number] = alike[ends]
        return found


def _find_ends(chat: Conversation) -> set[int]:
    """Return where branches end; the one that is shown may end where another goes on."""
    return {leaf.number for leaf in chat.list_leaves()} | ({chat.leaf} if chat.leaf is not None else set())
