"""A group as the view shows it: its tokens, read as they come, its pages, and the walks whose text is shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from termchat.chat.reply_group import ReplyGroup
from termchat.chat.service import Chat
from termchat.conversation.node import Node
from termchat.conversation.setting_changes import list_values
from termchat.decoding.records import Reason
from termchat.decoding.samplers import KNOBS, Value
from termchat.decoding.walk_figures import GroupFigures
from termchat.decoding.walk_plan import shown_value
from termchat.tui.pages.page import Page
from termchat.tui.transcript.looks import Look

TEXT_PAGE = "text"
"""The name of the page that the view has widgets for."""

_ENDED: dict[Reason, str] = {
    "end": "end", "length": "max_tokens", "stop": "stop sequence", "rule": "rule", "user": "stopped", "context": "context full",
}  # fmt: skip
"""How a reply ended, in a column."""


class WalkToken(NamedTuple):
    """A token of a walk: the node that holds it, and its place among the node's own."""

    node: Node
    index: int  # type: ignore[assignment]  # hides a method of tuples


class ShownGroup:
    """Tokens are counted from where the walks begin, also in walks that joined later.

    `figures` has the trie and the numbers of the tokens that were read, `labels` what sets each walk apart. The text shows the
    walks of `only`, or all if that is empty.
    """

    def __init__(self, chat: Chat, group: ReplyGroup, look: Look) -> None:
        self.chat, self.group, self.look = chat, group, look
        self.figures = GroupFigures()
        self.labels: dict[int, str] = {}
        self.only: tuple[int, ...] = ()
        self.pages: dict[str, Page] = {}
        self.page = Page()
        self._read: dict[int, int] = {}

    @property
    def cursor(self) -> int:
        """The number of the walk under the cursor."""
        return self.group.cursor

    @property
    def walks(self) -> list[int]:
        """The numbers of the walks whose text is shown."""
        only = [walk for walk in self.only if walk in self.group.nodes]
        return only if self.cursor in only else sorted(self.group.nodes)

    def put_pages(self, pages: Sequence[Page]) -> None:
        """Take the pages in the order in which they are turned; the first is shown first."""
        self.pages, self.page = {page.name: page for page in pages}, pages[0]

    def turn_to(self, name: str, walks: Sequence[int] = ()) -> None:
        """Turn to a page, and show the text of these walks, or of all."""
        self.page, self.only = self.pages[name], tuple(walks)

    def read(self) -> None:
        """Read the tokens that came since the last time."""
        self._name_walks()
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
        """Find a token that was read."""
        before = 0
        for span in self.group.list_spans(walk):
            if at < before + span.count:
                return WalkToken(span.node, at - before)
            before += span.count
        raise IndexError(at)

    def text(self, walk: int, end: int) -> str:
        """Join the first `end` tokens of a walk."""
        return "".join(self.texts(walk, 0, end)).strip()

    def texts(self, walk: int, begin: int, end: int) -> list[str]:
        """Return the text of each of these tokens."""
        texts: list[str] = []
        before = 0
        for span in self.group.list_spans(walk):
            texts += span.node.tokens.texts[max(begin - before, 0) : max(min(end - before, span.count), 0)]
            before += span.count
        return texts

    def ending(self, walk: int) -> str:
        """Return the state or the ending of a walk in a word or two."""
        node = self.group.nodes[walk]
        if walk in self.group.paused:
            return "paused"
        if not node.done:
            return "running"
        return _ENDED[node.finished.reason] if node.finished is not None else "interrupted"

    def _name_walks(self) -> None:
        """Find what sets each walk apart: the knobs that do, as they are now; of a grid the run; of one that joined where it
        comes from; where nothing does its seed."""
        plan, differing = self.group.group, knobs_apart(self.group.nodes)
        for walk, node in self.group.nodes.items():
            knobs = differing.get(walk, {}).items()
            names = [f"{KNOBS[name].label} {shown_value(KNOBS[name], value)}" for name, value in knobs]
            if walk >= plan.size:
                names.insert(0, self.group.labels[walk])
            elif plan.runs > 1 and plan.kind == "grid":
                names.append(f"run {walk % plan.runs + 1}")
            self.labels[walk] = " · ".join(names) or (f"seed {node.start.seed}" if node.start is not None else "")


def knobs_apart(nodes: Mapping[int, Node]) -> dict[int, dict[str, Value]]:
    """Find by walk the knobs whose newest values are not the same for all walks."""
    known = {walk: list_values(node.settings[-1]) for walk, node in nodes.items() if node.settings}
    every = list(known.values())
    names = [name for name in KNOBS if name in every[0]] if every else []
    differing = [name for name in names if any(one[name] != every[0][name] for one in every)]
    return {walk: {name: one[name] for name in differing} for walk, one in known.items()}
