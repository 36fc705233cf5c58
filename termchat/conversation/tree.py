"""A conversation is a tree of turns over token ids.

Every node says `(parent, at)`: it grows from its parent's own ids, cut at `at`. The next turn, a regenerated reply, a
continuation and (later) a fork are this one rule; nothing is copied and nothing is rewritten. The path from the root to
the leaf is the chat; its ids are the truth, its text is derived.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Literal

import msgspec

from termchat.decoding.records import Failed, Finished, Prefill, Record, Settings, Start, Token

Role = Literal["user", "assistant"]


class TokenColumns:
    """The tokens of a reply as columns, one array a field; candidates stay in the store.

    `texts[i]` is what token i let out (see `Token.text`); `settings[i]` is the number of its `Settings` record.
    """

    def __init__(self) -> None:
        self.ids = array("i")
        self.texts: list[str] = []
        self.data = bytearray()
        self.ends = array("Q")
        self.logits = array("f")
        self.logprobs = array("f")
        self.ranks = array("i")
        self.probabilities = array("f")
        self.entropies = array("f")
        self.p_ends = array("f")
        self.settings = array("i")
        self.decode_us = array("i")
        self.sample_us = array("i")

    def __len__(self) -> int:
        return len(self.ids)

    def append(self, token: Token) -> None:
        """Adds the newest token."""
        self.ids.append(token.id)
        self.texts.append(token.text)
        self.data += token.bytes
        self.ends.append(len(self.data))
        self.logits.append(token.logit)
        self.logprobs.append(token.logprob)
        self.ranks.append(token.rank)
        self.probabilities.append(token.probability)
        self.entropies.append(token.entropy)
        self.p_ends.append(token.p_end)
        self.settings.append(token.settings)
        self.decode_us.append(min(token.decode_us, 2**31 - 1))
        self.sample_us.append(min(token.sample_us, 2**31 - 1))


class Node:
    """One turn, or a piece of one: what a person wrote, or a run of the loop.

    A user node's `ids` are the prompt ids that its text added to the path, scaffold and system message included. A reply's
    `ids` are its tokens'. Append-only: records go in with `add`.
    """

    def __init__(self, number: int, parent: int | None, at: int, role: Role, *, text: str = "") -> None:
        self.number = number
        self.parent = parent
        self.at = at
        self.role: Role = role
        self.written = text
        self.prompt_ids = array("i")
        self.tokens = TokenColumns()
        self.start: Start | None = None
        self.settings: list[Settings] = []
        self.settings_at: list[int] = []
        self.prefill: Prefill | None = None
        self.finished: Finished | None = None
        self.failed: Failed | None = None

    @property
    def ids(self) -> array[int]:
        """The node's own ids."""
        return self.tokens.ids if self.role == "assistant" else self.prompt_ids

    @property
    def done(self) -> bool:
        """Whether no further record will come."""
        return self.role == "user" or self.finished is not None or self.failed is not None

    @property
    def pending(self) -> str:
        """Text that ends the reply but came with no token: held for a stop that never came."""
        return self.finished.held if self.finished is not None and self.finished.reason != "stop" else ""

    def add(self, record: Record) -> None:
        """Takes the next record of this reply. `settings_at[i]` is the count of tokens before `settings[i]`."""
        if isinstance(record, Token):
            self.tokens.append(record)
        elif isinstance(record, Start):
            self.start = record
        elif isinstance(record, Settings):
            self.settings.append(record)
            self.settings_at.append(len(self.tokens))
        elif isinstance(record, Prefill):
            self.prefill = record
        elif isinstance(record, Finished):
            self.finished = record
        else:
            self.failed = record

    def text(self, count: int | None = None) -> str:
        """What is shown of the node; of a reply, of its first `count` tokens."""
        if self.role == "user":
            return self.written
        if count is None or count >= len(self.tokens):
            return "".join(self.tokens.texts) + self.pending
        return "".join(self.tokens.texts[:count])

    def kept(self) -> int:
        """How many of its ids the next turn grows from: all, but for tokens that a stop sequence swallowed whole."""
        if self.finished is None or self.finished.reason != "stop":
            return len(self.ids)
        shown = len(self.text().encode())
        before = self.tokens.ends
        count = next((i for i, end in enumerate(before) if end >= shown), len(before) - 1) + 1 if shown else 0
        return min(count, len(before))


class Span(msgspec.Struct, frozen=True):
    """A node on a path, and how many of its own ids the path takes."""

    node: Node
    count: int


class Conversation:
    """The tree and the chat in it: the path from the root to `leaf`."""

    def __init__(self, system: str = "", *, raw: bool = False) -> None:
        self.system = system
        self.raw = raw
        self.title = ""
        self.nodes: dict[int, Node] = {}
        self.leaf: int | None = None

    def grow(self, role: Role, *, parent: int | None, at: int, text: str = "") -> Node:
        """A new node, and the leaf from now on."""
        node = Node(max(self.nodes, default=0) + 1, parent, at, role, text=text)
        self.nodes[node.number] = node
        self.leaf = node.number
        return node

    def path(self, leaf: int | None = None) -> list[Span]:
        """Root to leaf. The leaf is taken whole, every other node as far as its child says."""
        spans: list[Span] = []
        number, count = (self.leaf if leaf is None else leaf), None
        while number is not None:
            node = self.nodes[number]
            spans.append(Span(node, len(node.ids) if count is None else count))
            number, count = node.parent, node.at
        spans.reverse()
        return spans

    def ids(self, leaf: int | None = None) -> list[int]:
        """All ids of the path, in order."""
        return [i for span in self.path(leaf) for i in span.node.ids[: span.count]]

    def reply(self, leaf: int | None = None) -> list[Span]:
        """The spans of the reply that the path ends in: one, or several when it was stopped and continued."""
        spans: list[Span] = []
        for span in reversed(self.path(leaf)):
            if span.node.role != "assistant":
                break
            spans.insert(0, span)
        return spans

    def turns(self, leaf: int | None = None) -> Iterator[tuple[Role, str]]:
        """Roles and shown texts of the path; a reply in several pieces is one turn."""
        role: Role | None = None
        text = ""
        for span in self.path(leaf):
            piece = span.node.text(None if span.count == len(span.node.ids) else span.count)
            if span.node.role == role:
                text += piece
                continue
            if role is not None:
                yield role, text
            role, text = span.node.role, piece
        if role is not None:
            yield role, text
