"""What is known of a chat beside its tree: when, with which model, with which knobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import msgspec

from termchat.conversation.tree import Conversation, Node, Place
from termchat.decoding.conditions import Condition
from termchat.decoding.records import ModelIdentity, Record
from termchat.decoding.samplers import Tuning


class ModelRef(msgspec.Struct, frozen=True):
    """The model that wrote a chat's last reply, or that was loaded when the chat began: its name, the full path of its file,
    and what it was found to be once loaded; on another machine the name of the `engine` there, or its URL, and what that engine
    calls the model."""

    name: str = ""
    path: str = ""
    identity: ModelIdentity | None = None
    engine: str = ""

    @property
    def known_as(self) -> str:
        """See `known_as`; "" where it was never loaded."""
        return known_as(self.identity.sha256, self.name, self.engine) if self.identity is not None else ""


def known_as(sha256: str, name: str, engine: str) -> str:
    """What tells whether two models are one: a file's SHA-256, or the name that an engine elsewhere has for it, and where."""
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


class SessionInfo(msgspec.Struct, frozen=True):
    """A saved chat without its turns. Times are seconds since the epoch, UTC. `named`: a person gave the title."""

    id: str = ""
    created: float = 0.0
    updated: float = 0.0
    model: ModelRef = ModelRef()
    tuning: Tuning = Tuning()
    breakpoints: tuple[Breakpoint, ...] = ()
    view: View = View()
    named: bool = False


class _Recorder(Protocol):
    def record(self, conversation: Conversation, node: Node, record: Record) -> None: ...


class Session:
    """A chat and where it is kept; `listeners` are called with each record that is added and its node."""

    def __init__(self, conversation: Conversation, recorder: _Recorder) -> None:
        self.conversation, self.recorder = conversation, recorder
        self.listeners: list[Callable[[Node, Record], object]] = []

    def add(self, node: Node, record: Record) -> None:
        """Add the next record of a reply: to the tree, to the store, to the listeners."""
        self.conversation.add(node, record)
        self.recorder.record(self.conversation, node, record)
        for listener in self.listeners:
            listener(node, record)


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
        """What a person is told the chat is called."""
        return self.title or "untitled"


class Followed(NamedTuple):
    """A chat that another process writes, read up to node `node` and the record at place `seq`."""

    session: str
    node: int
    seq: int


class SessionNews(NamedTuple):
    """What was added to a saved chat: nodes without their records, and records with the numbers of their nodes, all in order.
    `leaf` is where the chat ends, `writing` whether another process still writes its newest reply.
    """

    followed: Followed
    nodes: Sequence[Node]
    records: Sequence[tuple[int, Record]]
    leaf: int | None
    writing: bool


class StoredSession(msgspec.Struct, frozen=True):
    """A chat as it was. `interrupted` are the replies whose end was never written: the process went away in the middle. The
    newest reply, or group of replies, is none of them where another process is writing it; `followed` then says what was
    read, to go on from.
    """

    info: SessionInfo
    conversation: Conversation
    interrupted: tuple[int, ...] = ()
    followed: Followed | None = None
