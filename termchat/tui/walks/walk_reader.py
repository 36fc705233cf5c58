"""The tokens of a group, read as they come: what the trie and the tables are made from."""

from __future__ import annotations

from typing import NamedTuple

from termchat.chat.reply_group import ReplyGroup
from termchat.conversation.node import Node
from termchat.decoding.walk_figures import GroupFigures


class WalkToken(NamedTuple):
    """A token of a walk: the node that holds it, and its place among the node's own."""

    node: Node
    index: int  # type: ignore[assignment]  # hides a method of tuples


class WalkReader:
    """Reads a group on whenever it is asked to. Tokens are counted from where the walks begin, in walks that joined later, too.

    `figures` has the trie and the numbers of what was read.
    """

    def __init__(self, group: ReplyGroup) -> None:
        self.group = group
        self.figures = GroupFigures()
        self._read: dict[int, int] = {}

    def read(self) -> None:
        """Takes in the tokens that came since the last time."""
        for walk in self.group.nodes:
            self.figures.add(walk)
            known, before = self._read.get(walk, 0), 0
            for span in self.group.list_spans(walk):
                tokens = span.node.tokens
                for at in range(max(known - before, 0), span.count):
                    self.figures.append_token(walk, tokens.ids[at], tokens.logprobs[at], tokens.entropies[at])
                before += span.count
            self._read[walk] = max(known, before)

    def token(self, walk: int, at: int) -> WalkToken:
        """A token of a walk that was read."""
        before = 0
        spans = self.group.list_spans(walk)
        for span in spans:
            if at < before + span.count:
                return WalkToken(span.node, at - before)
            before += span.count
        raise IndexError(at)

    def texts(self, walk: int, begin: int, end: int) -> list[str]:
        """The text of each of these tokens."""
        found: list[str] = []
        before = 0
        for span in self.group.list_spans(walk):
            found += span.node.tokens.texts[max(begin - before, 0) : max(min(end - before, span.count), 0)]
            before += span.count
        return found
