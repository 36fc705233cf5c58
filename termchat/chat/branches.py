"""The branches of a chat: which one is shown, what they are called, and which are gone for now."""

from __future__ import annotations

from collections.abc import Callable

from termchat.chat.changes import Notice, PathChanged
from termchat.chat.state import State
from termchat.conversation.session import Session


class Branches:
    """Moves in the tree. `leave` stops the reply on the branch that was shown; `walked` shows a leaf that is one of several
    which run together, and says whether it is."""

    def __init__(self, state: State, leave: Callable[[], None], walked: Callable[[int], bool]) -> None:
        self._state, self._leave, self._walked = state, leave, walked
        self._deleted: list[tuple[Session, int]] = []

    def select(self, leaf: int) -> None:
        """Shows the path to a node that is not deleted. A reply that is running on another branch ends, and the queue waits."""
        chat = self._state.conversation
        if leaf not in chat.nodes or chat.is_hidden(leaf):
            self._state.changed(Notice("no such branch"))
        elif leaf != chat.leaf and not self._walked(leaf):
            self._leave()
            chat.leaf = leaf
            self._state.show_leaf()

    def rename(self, number: int, name: str) -> None:
        """Names the branch that starts with a node; "" removes the name."""
        chat = self._state.conversation
        node = chat.nodes[number]
        node.name = " ".join(name.split())
        self._state.session.save_branch(node)
        self._state.changed(PathChanged())

    def delete(self, number: int) -> None:
        """Hides a node and what grew from it. If it was shown, a living branch beside or before it is shown instead."""
        chat = self._state.conversation
        node = chat.nodes[number]
        if chat.is_hidden(number):
            return
        before = chat.leaf
        chat.delete(number)
        after = chat.leaf
        if after != before:
            chat.leaf = before
            self._leave()
            chat.leaf = after
        self._deleted.append((self._state.session, number))
        self._state.session.save_branch(node)
        self._state.show_leaf()

    def undelete(self) -> int | None:
        """Restores what was deleted last in this chat; returns its number, or None if nothing was deleted."""
        state, chat = self._state, self._state.conversation
        # A turn that was taken back in the meantime cannot come back.
        mine = [pair for pair in self._deleted if pair[0] is state.session and pair[1] in chat.nodes]
        if not mine:
            return None
        self._deleted.remove(mine[-1])
        number = mine[-1][1]
        chat.undelete(number)
        state.session.save_branch(chat.nodes[number])
        if chat.leaf is None:
            chat.leaf = chat.newest_leaf(number)
            self._state.show_leaf()
        state.changed(PathChanged())
        return number
