"""A chat as one value: its tree, the settings that it goes on with, and how it is saved."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from time import time
from typing import Any, Protocol, TypedDict, Unpack

import msgspec

from termchat.conversation.store.database import StoreError, StoreNotice
from termchat.conversation.tree import Conversation, Node, Place
from termchat.decoding.conditions import Condition
from termchat.decoding.constraint import Constraint
from termchat.decoding.records import Failed, ModelIdentity, Record, Token
from termchat.decoding.samplers import KNOBS, Tuning

INTERRUPTED = Failed("interrupted", "termchat stopped during this reply", "use Continue to resume from its last token")
"""Ends a reply whose process went away."""
LEFT = Failed(
    "interrupted", "opened while another termchat was writing it", "use Continue to resume from its last token"
)
"""Ends a reply that another process was writing when the chat was read."""
TITLE_LENGTH = 60
_TITLE_WITHIN = 1_000
"""Characters in which a title is looked for: a message may have megabytes."""
_KEPT_RECORDS = 64
"""Records of tokens that are not read again at once."""


class ModelRef(msgspec.Struct, frozen=True):
    """The model of a chat's last reply, or that loaded at its beginning: its name, the full path of its file, and the
    identity found when it was loaded; of a remote one the name or URL of its `engine`, and its name there.
    """

    name: str = ""
    path: str = ""
    identity: ModelIdentity | None = None
    engine: str = ""

    @property
    def known_as(self) -> str:
        """See `known_as`; "" where it was never loaded."""
        return known_as(self.identity.sha256, self.name, self.engine) if self.identity is not None else ""


def known_as(sha256: str, name: str, engine: str) -> str:
    """Return the key of a model: its file's SHA-256, or the name that an engine elsewhere has for it, and where."""
    return f"{sha256 or name}@{engine}" if engine else sha256


class Breakpoint(msgspec.Struct, frozen=True):
    """A condition that a person set for all replies of a chat; one that is not `enabled` is kept, but does nothing."""

    condition: Condition
    enabled: bool = True


class View(msgspec.Struct, frozen=True):
    """How a chat was looked at: the token that was pointed at, and the names of the look and of the one that token mode had.
    "" is the screen's own choice. `lesson` is the id of the lesson whose chat it is: it is not listed among the others."""

    cursor: Place | None = None
    look: str = ""
    token_look: str = ""
    lesson: str = ""


class SessionChanges(TypedDict, total=False):
    """What the store changes of a chat; what is missing, or None, stays."""

    leaf: int | None
    tuning: Tuning
    model: ModelRef
    breakpoints: tuple[Breakpoint, ...]
    view: View


class SessionStore(Protocol):
    """What a session asks of the store that keeps it; see `store.Store`."""

    def begin(
        self, conversation: Conversation, *, tuning: Tuning | None = None, model: ModelRef | None = None
    ) -> str: ...
    def update(self, session: str, **changes: Unpack[SessionChanges]) -> None: ...
    def add_node(self, session: str, node: Node) -> None: ...
    def add_record(self, session: str, number: int, record: Record) -> None: ...
    def update_node(
        self, session: str, number: int, *, name: str | None = None, deleted: bool | None = None
    ) -> None: ...
    def rename(self, session: str, title: str) -> None: ...
    def keep_unsent(self, session: str, draft: str, queue: Sequence[str]) -> None: ...
    def records(self, session: str, number: int) -> Iterator[Record]: ...
    def abandoned(self) -> str: ...
    def messages(self) -> list[str]: ...
    def add_message(self, text: str) -> None: ...
    def problem(self) -> str | None: ...
    def take_notices(self) -> list[StoreNotice]: ...
    def listen(self, listener: Callable[[], None] | None) -> None: ...
    def duplicate(
        self, session: str, conversation: Conversation | None = None, read_to: tuple[int, int] | None = None
    ) -> str: ...
    def current(self, session: str) -> str: ...
    def token(self, session: str, number: int, index: int) -> Token | None: ...


@dataclass(eq=False)
class Session:
    """A chat with its current settings and its store (None: it is not saved).

    `id` is "" until the first turn is saved; times are seconds since the epoch, UTC; `named`: a person gave the title.
    `model` wrote the last reply, or was loaded when the chat began. `origins` says where each setting's value came from.
    The `constraint` is what the running reply and those that follow have to match. `newest` is the record of the last token of
    the path that is shown. `read_to` is set while another process writes the chat: the newest node and record that were read;
    nothing is saved then, and the first change from here goes on in a copy. `kept` has the records of tokens by node where they
    are to be kept in memory. `listeners` are called with the node of each record that is added, and the record.
    """

    id: str = ""
    created: float = 0.0
    updated: float = 0.0
    model: ModelRef = field(default_factory=ModelRef)
    tuning: Tuning = field(default_factory=Tuning)
    breakpoints: tuple[Breakpoint, ...] = ()
    view: View = field(default_factory=View)
    named: bool = False
    conversation: Conversation = field(default_factory=Conversation)
    origins: dict[str, str] = field(default_factory=dict)
    constraint: Constraint | None = None
    newest: Token | None = None
    store: SessionStore | None = None
    read_to: tuple[int, int] | None = None
    kept: dict[int, list[Token]] | None = None
    listeners: list[Callable[[Node, Record], object]] = field(default_factory=list)
    _records: dict[tuple[int, int], Token] = field(default_factory=dict, init=False)
    """Records of tokens that were read from the store, by node and index."""

    def __post_init__(self) -> None:
        self.origins = dict.fromkeys(KNOBS, "default") | self.origins

    @property
    def current_id(self) -> str:
        """Id of the chat in the store: a new one once another process has continued the same chat."""
        return self.store.current(self.id) if self.store is not None else self.id

    @property
    def is_own(self) -> bool:
        """Whether no other process was writing the chat when it was read."""
        return self.read_to is None

    @property
    def unfinished(self) -> tuple[int, ...]:
        """The replies without an end: one is being written here or elsewhere, or its process went away in the middle."""
        return tuple(number for number, node in self.conversation.nodes.items() if not node.done)

    @property
    def growing(self) -> set[int]:
        """The unfinished replies that may still be written: the newest one, and those that are made together with it."""
        nodes = self.conversation.nodes
        return {number for number in self.unfinished if _are_together(nodes[number], nodes[max(nodes)])}

    def add(self, node: Node, record: Record) -> None:
        """Add the next record of a reply: to the tree, to the store, to the listeners."""
        self.conversation.add(node, record)
        if isinstance(record, Token):
            if node.number == self.conversation.leaf:
                self.newest = record
            if self.kept is not None:
                self.kept.setdefault(node.number, []).append(record)
        if self.store is not None and self.id and self.is_own:
            self.store.add_record(self.id, node.number, record)
        for listener in self.listeners:
            listener(node, record)

    def add_node(self, node: Node, model: ModelRef | None = None) -> None:
        """Save a turn that was added to the tree, a reply with the `model` that writes it; the first one names the chat."""
        chat = self.conversation
        if self.store is None:
            return
        if not chat.title:
            chat.title = title_of(node.written)
        self._ensure_own()
        if not self.id:
            self.id = self.store.begin(chat, tuning=self.tuning, model=self.model)
            self.store.update(self.id, breakpoints=self.breakpoints, view=self.view)
            if not self.view.lesson:
                self.store.keep_unsent("", "", ())
            self.created = time()
        if model is not None:
            self.update_settings(model=model)
        self.store.add_node(self.id, node)

    def update_settings(self, **changes: Any) -> None:
        """Change settings, and save those that differ, without marking the chat as used."""
        changes = {name: value for name, value in changes.items() if getattr(self, name) != value}
        for name, value in changes.items():
            setattr(self, name, value)
        if changes and self.store is not None and self.id and self.is_own:
            self.store.update(self.id, **changes)

    def rename_chat(self, title: str) -> None:
        """Give the chat another title."""
        self._ensure_own()
        self.conversation.title = title
        if self.store is not None and self.id:
            self.store.rename(self.id, title)

    def save_leaf(self) -> None:
        """Save which branch is shown."""
        if self.store is not None and self.id and self.is_own:
            self.store.update(self.id, leaf=self.conversation.leaf)

    def save_branch(self, node: Node) -> None:
        """Save the name of a branch, and whether it is deleted."""
        self._ensure_own()
        if self.store is not None and self.id:
            self.store.update_node(self.id, node.number, name=node.name, deleted=node.deleted)

    def save_unsent(self) -> None:
        """Save the unsent text. The store has one for all chats without a message, lessons excepted."""
        unsent = self.conversation.unsent
        if self.store is not None and self.is_own and (self.id or not self.view.lesson):
            self.store.keep_unsent(self.id, unsent.written, unsent.waiting)

    def copy_chat(self) -> None:
        """Go on in a copy of the saved chat, as it is here."""
        if self.store is None or not self.id:
            return
        was_own = self.is_own
        self.id, self.read_to = self.store.duplicate(self.id, self.conversation, self.read_to), None
        settings = {name: getattr(self, name) for name in ("model", "tuning", "breakpoints", "view")}
        self.store.update(self.id, leaf=self.conversation.leaf, **settings)
        for node in self.conversation.nodes.values():
            if node.failed is LEFT and not was_own:  # else it is on record
                self.store.add_record(self.id, node.number, LEFT)
        self.save_unsent()

    def _ensure_own(self) -> None:
        if not self.is_own:
            self.copy_chat()

    def read_token(self, node: Node, index: int) -> Token | None:
        """Read the record of a token of a reply as it was drawn, candidates and all, once; None if it was not kept."""
        if self.kept is not None:
            tokens = self.kept.get(node.number, [])
            return tokens[index] if 0 <= index < len(tokens) else None
        if self.store is None or not self.id or node.role != "assistant":
            return None
        record = self._records.get((node.number, index))
        if record is None:
            with contextlib.suppress(StoreError):
                record = self.store.token(self.id, node.number, index)
        if record is not None:
            if len(self._records) >= _KEPT_RECORDS:
                self._records.clear()
            self._records[node.number, index] = record
        return record

    def read_newest(self) -> None:
        """Read the record of the last token of the reply that the path ends in; its last piece may have none."""
        spans = [span for span in self.conversation.find_reply() if span.count]
        self.newest = self.read_token(spans[-1].node, spans[-1].count - 1) if spans else None

    def close_interrupted(self) -> None:
        """End the unfinished replies of a chat that was just read, in memory: of a process that went away, or that writes."""
        growing = set() if self.is_own else self.growing
        for number in self.unfinished:
            self.conversation.nodes[number].add(LEFT if number in growing else INTERRUPTED)

    def keep_draft(self, text: str) -> None:
        """Save what the composer has, if it is something else than before."""
        if text != self.conversation.unsent.draft:
            self.conversation.unsent.draft = text
            self.save_unsent()


def _are_together(node: Node, newest: Node) -> bool:
    if node.group is not None and newest.group is not None:
        return node.group.number == newest.group.number
    return (node.parent, node.at) == (newest.parent, newest.at)


def title_of(text: str) -> str:
    """Make a title of the first message of a chat."""
    words = " ".join(text.lstrip()[:_TITLE_WITHIN].split())
    return words if len(words) <= TITLE_LENGTH else words[: TITLE_LENGTH - 1].rsplit(" ", 1)[0] + "…"


class SessionSummary(msgspec.Struct, frozen=True):
    """A line of the list of chats. `created` and `updated` are seconds since the epoch, UTC; `turns` counts what the person
    wrote, `tokens` those of all replies, also of one that streams or that a kill cut off.

    `snippet` is a piece of text around what was searched for, the words that match between U+0002 and U+0003; "" where
    nothing was.
    """

    id: str
    title: str
    created: float
    updated: float
    turns: int
    tokens: int
    model: str
    snippet: str = ""

    @property
    def called(self) -> str:
        """Title of the chat as shown to a person."""
        return self.title or "untitled"
