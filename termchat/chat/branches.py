"""The branches of a chat: which one is shown, what they are called, and which are gone for now."""

from __future__ import annotations

from collections.abc import Callable

from termchat.chat.changes import LiveChanged, Notice, PathChanged, StatusChanged
from termchat.chat.live import Live
from termchat.chat.looking_on import LookingOn
from termchat.chat.recording import Recorder
from termchat.chat.state import State
from termchat.conversation.tree import Conversation
from termchat.decoding.records import Token


class Branches:
    """Moves in the tree. `leave` stops the reply on the branch that was shown; `walked` shows a leaf that is one of several
    which run together, and says whether it is."""

    def __init__(
        self, state: State, looking_on: LookingOn, leave: Callable[[], None], walked: Callable[[int], bool]
    ) -> None:
        self._state, self._looking_on, self._leave, self._walked = state, looking_on, leave, walked
        self._deleted: list[tuple[Conversation, int]] = []

    def select(self, leaf: int) -> None:
        """Shows the path to a node that is not deleted. A reply that is running on another branch ends, and the queue waits."""
        chat = self._state.conversation
        if leaf not in chat.nodes or chat.is_hidden(leaf):
            self._state.changed(Notice("no such branch"))
        elif leaf != chat.leaf and not self._walked(leaf):
            self._leave()
            chat.leaf = leaf
            self._moved()

    def rename(self, number: int, name: str) -> None:
        """Names the branch that starts with a node; "" removes the name."""
        chat = self._state.conversation
        node = chat.nodes[number]
        self._looking_on.own()
        node.name = " ".join(name.split())
        self._state.recorder.branch(chat, node)
        self._state.changed(PathChanged())

    def delete(self, number: int) -> None:
        """Hides a node and what grew from it. If it was shown, a living branch beside or before it is shown instead."""
        chat = self._state.conversation
        node = chat.nodes[number]
        if chat.is_hidden(number):
            return
        self._looking_on.own()
        before = chat.leaf
        chat.delete(number)
        after = chat.leaf
        if after != before:
            chat.leaf = before
            self._leave()
            chat.leaf = after
        self._deleted.append((chat, number))
        self._state.recorder.branch(chat, node)
        self._moved()

    def undelete(self) -> int | None:
        """Restores what was deleted last in this chat; returns its number, or None if nothing was deleted."""
        state, chat = self._state, self._state.conversation
        # A turn that was taken back in the meantime cannot come back.
        mine = [pair for pair in self._deleted if pair[0] is chat and pair[1] in chat.nodes]
        if not mine:
            return None
        self._deleted.remove(mine[-1])
        number = mine[-1][1]
        chat.undelete(number)
        state.recorder.branch(chat, chat.nodes[number])
        if chat.leaf is None:
            chat.leaf = chat.newest_leaf(number)
            self._moved()
        state.changed(PathChanged())
        return number

    def _moved(self) -> None:
        state, chat = self._state, self._state.conversation
        state.recorder.selected(chat)
        state.live = Live.of(chat, newest_token(state.recorder, chat))
        state.changed(PathChanged(), LiveChanged(), StatusChanged())


def newest_token(recorder: Recorder, conversation: Conversation) -> Token | None:
    """The record of the last token of the reply that the path ends in; its last piece may have none."""
    spans = [span for span in conversation.reply() if span.count]
    return recorder.token(conversation, spans[-1].node, spans[-1].count - 1) if spans else None
