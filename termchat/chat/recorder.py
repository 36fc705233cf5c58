"""Who is told what happens in a chat, so that it can be kept. Calls must not wait and must not fail."""

from __future__ import annotations

from collections.abc import Callable

from termchat.conversation.session import Breakpoint, SessionInfo, View
from termchat.conversation.tree import Conversation, Node
from termchat.decoding.records import Record, Token
from termchat.decoding.samplers import Tuning
from termchat.engine.port import ModelInfo


class Recorder:
    """Hears of a conversation what has to be kept; whatever came before is on record already. This one keeps nothing."""

    def opened(self, conversation: Conversation) -> None:
        """Another conversation is the one to keep."""

    def reopened(self, conversation: Conversation, info: SessionInfo) -> Conversation:
        """A saved chat is the one to keep; returns it as it is in memory, if it still is there."""
        return conversation

    def session(self, conversation: Conversation) -> str:
        """The id of the saved chat, "" where it is not kept, or not yet."""
        return ""

    def titled(self, conversation: Conversation) -> None:
        """It has another title."""

    def loaded(self, conversation: Conversation, model: ModelInfo) -> None:
        """The model that will answer."""

    def tuned(self, conversation: Conversation, tuning: Tuning) -> None:
        """A knob was turned."""

    def turn(self, conversation: Conversation, node: Node) -> None:
        """A node was added; a reply's records follow."""

    def record(self, conversation: Conversation, node: Node, record: Record) -> None:
        """The next record of a reply."""

    def selected(self, conversation: Conversation) -> None:
        """Another leaf is shown."""

    def branch(self, conversation: Conversation, node: Node) -> None:
        """A node has another name, was deleted, or came back."""

    def watched(self, conversation: Conversation, breakpoints: tuple[Breakpoint, ...]) -> None:
        """The breakpoints are other ones."""

    def viewed(self, conversation: Conversation, view: View) -> None:
        """It is looked at in another way."""

    def token(self, conversation: Conversation, node: Node, index: int) -> Token | None:
        """The record of token `index` of a reply's node, candidates and all; None if it was not kept."""
        return None

    def notices(self) -> list[tuple[str, str]]:
        """What a person should be told of the keeping, once: message and hint."""
        return []

    def problem(self) -> str | None:
        """Why the chat is not being saved at the moment, or None."""
        return None

    def listen(self, listener: Callable[[], None] | None) -> None:
        """Has `listener` called, on some thread, when there are new notices; None ends that."""
