"""A conversation is a tree of turns over token ids.

Every node says `(parent, at)`: it grows from its parent's own ids, cut at `at`. The next turn, a regenerated reply, a
continuation and a fork are this one rule; nothing is copied and nothing is rewritten. The path from the root to the leaf is
the chat; its ids are the truth, its text is derived. A reply's own end is a branch too, beside those that grow out of its
middle. What a person deleted is left out of every answer about branches.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import groupby, takewhile
from typing import NamedTuple

import msgspec

from termchat.conversation.node import Node, Role, TokenColumns
from termchat.conversation.unsent import Unsent
from termchat.decoding.records import Record, Start

__all__ = ["HEAD", "Conversation", "Node", "Place", "Role", "Span", "TokenColumns"]


HEAD = 0
"""The number of a system prompt as a message; those of the tree's nodes begin at 1."""


class Place(NamedTuple):
    """A token of the tree: the number of its node, and its position among the node's own ids."""

    node: int
    at: int


class Span(msgspec.Struct, frozen=True):
    """A node on a path, and how many of its own ids the path takes."""

    node: Node
    count: int


class Conversation:
    """The tree and the chat in it: the path from the root to `leaf`. A `raw` one has no template, and so no system prompt.

    `first_system` is the system prompt that the chat began with. A branch may have another one, which its first turn says; so
    it is the same for a whole path, see `system`.
    """

    def __init__(self, system: str = "", *, raw: bool = False) -> None:
        self.first_system = system
        self.raw = raw
        self.title = ""
        self.nodes: dict[int, Node] = {}
        self.leaf: int | None = None
        self.unsent = Unsent()
        self._below: defaultdict[int | None, list[Node]] = defaultdict(list)
        self._head: Node | None = None

    @property
    def system(self) -> str:
        """The system prompt of the path that is shown."""
        return self.system_of(self.leaf)

    def system_of(self, number: int | None) -> str:
        """Return the system prompt of the path to a node; None is the one of a chat that has no turn yet."""
        if self.raw:
            return ""
        *_, first = (None, *self._upwards(number))
        return self.first_system if first is None or first.system is None else first.system

    @property
    def head(self) -> Node:
        """The system prompt of the path that is shown, as a message: a node that is not in the tree, the same one as long as
        the prompt is."""
        if self._head is None or self._head.written != self.system:
            self._head = Node(HEAD, None, 0, "user", text=self.system)
        return self._head

    def grow_node(self, role: Role, *, parent: int | None, at: int, text: str = "") -> Node:
        """Add a new node, the leaf from now on."""
        return self.attach_node(Node(max(self.nodes, default=0) + 1, parent, at, role, text=text))

    def attach_node(self, node: Node) -> Node:
        """Put a node in its place, and make it the leaf."""
        self.nodes[node.number] = node
        self._below[node.parent].append(node)
        parent = self.nodes[node.parent] if node.parent is not None else None
        node.earlier = parent if parent is None or parent.role == "assistant" else parent.earlier
        self._mark_continued(node.parent)
        self.leaf = node.number
        return node

    def drop_node(self, node: Node) -> None:
        """Take a node back, before anything grew from it; where it was the leaf, its parent is."""
        del self.nodes[node.number]
        self._below[node.parent].remove(node)
        self._mark_continued(node.parent)
        if self.leaf == node.number:
            self.leaf = node.parent

    def delete_node(self, number: int) -> None:
        """Hide a node and all that grew from it; a leaf among them gives way to the newest one beside or before it."""
        node = self.nodes[number]
        node.deleted = True
        self._mark_continued(node.parent)
        if self.leaf is not None and self.is_hidden(self.leaf):
            parent = node.parent
            while parent is not None and self.is_hidden(parent):
                parent = self.nodes[parent].parent
            above = [self.nodes[parent]] if parent is not None else self.list_children(None)
            self.leaf = self.newest_leaf(above[-1].number) if above else None

    def restore_node(self, number: int) -> None:
        """Bring a deleted node back, with what grew from it; the leaf stays where it is."""
        self.nodes[number].deleted = False
        self._mark_continued(self.nodes[number].parent)

    def freeze_tree(self) -> Conversation:
        """Return the tree as it is now, for a thread that reads it while this one grows."""
        chat = Conversation(self.first_system, raw=self.raw)
        chat.title, chat.leaf = self.title, self.leaf
        chat.nodes = {number: node.freeze_node() for number, node in self.nodes.items()}
        for parent, below in self._below.items():
            chat._below[parent] = [chat.nodes[node.number] for node in below]
        return chat

    def find_path(self, leaf: int | None = None, *, since: int | None = None) -> list[Span]:
        """Return the path from the root, or from behind the node `since`. The leaf is taken whole, every other node as far
        as its child says.
        """
        return self._collect_spans(leaf, lambda node: node.number != since)

    def _collect_spans(self, leaf: int | None, holds: Callable[[Node], bool]) -> list[Span]:
        """Return the last part of the path, as far up as `holds`; nothing above it is walked."""
        spans: list[Span] = []
        count: int | None = None
        for node in takewhile(holds, self._upwards(self.leaf if leaf is None else leaf)):
            spans.append(Span(node, len(node.ids) if count is None else count))
            count = node.at
        spans.reverse()
        return spans

    def list_ids(self, leaf: int | None = None) -> list[int]:
        """Return all ids of the path, in order."""
        return _join_ids(self.find_path(leaf)).tolist()

    def count_ids(self, leaf: int | None = None) -> int:
        """Return how many ids the path has."""
        return len(_join_ids(self.find_path(leaf)))

    def ids_before(self, number: int) -> list[int]:
        """Return all ids that stand before a node on its path."""
        return _join_ids(self.find_path(number)[:-1]).tolist()

    def stands_on_path(self, number: int, ids: list[int]) -> bool:
        """Return whether these are all ids before a node on its path. For a long path quicker than to compare `ids_before`."""
        try:
            return _join_ids(self.find_path(number)[:-1]) == array("i", ids)
        except OverflowError:  # one of them is no token's
            return False

    def add(self, node: Node, record: Record) -> None:
        """Take the next record of a reply. A Start keeps no prompt that the path has, too: `list_prompt` gives it.

        Kept for every turn, the prompts would grow with the square of the chat.
        """
        if isinstance(record, Start) and self.stands_on_path(node.number, record.prompt_ids):
            record = msgspec.structs.replace(record, prompt_ids=[])
        node.add(record)

    def list_prompt(self, number: int) -> list[int]:
        """Return all ids that stood before the first token that a reply's node drew."""
        start = self.nodes[number].start
        return start.prompt_ids if start is not None and start.prompt_ids else self.ids_before(number)

    def list_cells(self, number: int) -> array[int]:
        """Return the prompt of a reply's node, and the tokens that it drew."""
        start, tokens = self.nodes[number].start, self.nodes[number].tokens
        own = start is not None and start.prompt_ids
        return (array("i", own) if own else _join_ids(self.find_path(number)[:-1])) + tokens.ids

    def find_reply(self, leaf: int | None = None) -> list[Span]:
        """Return the spans of the reply that the path ends in: one, or several when it was stopped and continued."""
        return self._collect_spans(leaf, lambda node: node.role == "assistant")

    def list_pieces(self) -> Iterator[tuple[Span, str]]:
        """Yield the spans of the path, and the text that each adds to the chat."""
        return ((span, span.node.text(span.count)) for span in self.find_path())

    def turn_spans(self) -> Iterator[list[Span]]:
        """Yield the turns of the path: a message each, or all pieces of a reply."""
        for role, group in groupby(self.find_path(), key=lambda span: span.node.role):
            spans = list(group)
            yield from [spans] if role == "assistant" else ([span] for span in spans)

    def list_turns(self) -> Iterator[tuple[Role, str]]:
        """Yield the roles and shown texts of the turns of the path."""
        for spans in self.turn_spans():
            yield spans[0].node.role, "".join(span.node.text(span.count) for span in spans)

    # --- branches ----------------------------------------------------------------------------------------------------

    def is_hidden(self, number: int) -> bool:
        """Return whether the node, or one that it grew from, was deleted."""
        return any(node.deleted for node in self._upwards(number))

    def list_children(self, number: int | None) -> list[Node]:
        """List the living nodes that grow from a node, oldest first; of None, the first turns."""
        return [node for node in self._below[number] if not node.deleted]

    def list_leaves(self) -> list[Node]:
        """List the ends of living branches, the oldest first; a reply from whose middle others grew still ends one itself."""
        ends = (node for node in self.descendants(self.list_children(None)) if self.is_end(node))
        return sorted(ends, key=lambda node: node.number)

    def is_end(self, node: Node) -> bool:
        """Return whether a living branch ends in a node."""
        return all(child.at < node.count_kept() for child in self.list_children(node.number))

    def descendants(self, nodes: list[Node]) -> Iterator[Node]:
        """Yield living nodes and all living nodes that grew from them."""
        waiting = [*nodes]
        while waiting:
            yield (node := waiting.pop())
            waiting += self.list_children(node.number)

    def newest_leaf(self, number: int, after: int = -1) -> int:
        """Return the newest end among the branches that pass through more than `after` of a node's ids."""
        grown = [child for child in self.list_children(number) if child.at > after]
        return max((node.number for node in self.descendants(grown)), default=number)

    def find_forks(self) -> dict[Place, list[Node]]:
        """Find the tokens of the path before which it could have gone on in other ways, in order, and the nodes of these."""
        forks: dict[Place, list[Node]] = {}
        before: Node | None = None
        others: list[Node] = []
        for node, count in ((span.node, span.count) for span in self.find_path()):
            children = sorted(self.list_children(node.number), key=lambda child: child.at)
            if before is not None and node.at < before.count_kept():
                others.append(before)
            beside = self.list_children(before.number if before is not None else None)
            others += (other for other in beside if other.at == node.at and other is not node)
            others += (child for child in children if child.at == 0 < count)
            if others and (count or node.text()):
                forks[Place(node.number, 0)], others = others, []
            for child in children:
                if 0 < child.at < count:
                    forks.setdefault(Place(node.number, child.at), []).append(child)
            before = node
        return forks

    def _upwards(self, number: int | None) -> Iterator[Node]:
        """Yield a node and those that it grew from, up to the root."""
        while number is not None:
            yield (node := self.nodes[number])
            number = node.parent

    def _mark_continued(self, number: int | None) -> None:
        if number is not None and (parent := self.nodes[number]).role == "assistant":
            after = (node for node in self.list_children(number) if node.role == "assistant")
            parent.continued = any(node.at == len(parent.ids) for node in after)


def _join_ids(spans: list[Span]) -> array[int]:
    ids = array("i")
    begin = max((at for at, span in enumerate(spans) if span.node.whole), default=0)
    for span in spans[begin:]:
        ids += span.node.ids[: span.count]
    return ids
