"""Which branch of the conversation is shown, their names, and deleting."""

from __future__ import annotations

from termchat.chat.changes import Notice, PathChanged
from termchat.chat.forks import Forks
from termchat.chat.groups import Walks
from termchat.chat.state import State
from termchat.conversation.session import Session


class Branches:
    """Moves in the tree; the reply on the branch that was shown is stopped."""

    def __init__(self, chat: State, forks: Forks, walks: Walks) -> None:
        self._chat, self._forks, self._walks = chat, forks, walks
        self._deleted: list[tuple[Session, int]] = []

    def select_leaf(self, leaf: int) -> None:
        """Show the path to a node that is not deleted. A reply that is running on another branch ends, and the queue waits."""
        chat, tree = self._chat, self._chat.conversation
        if leaf not in tree.nodes or tree.is_hidden(leaf):
            chat.add_changes(Notice("no such branch"))
        elif leaf != tree.leaf and not self._walks.select_node(leaf):
            self._forks.stop_making()
            chat.show_leaf(leaf)

    def rename_branch(self, number: int, name: str) -> None:
        """Name the branch that starts with a node; "" removes the name."""
        node = self._chat.conversation.nodes[number]
        node.name = " ".join(name.split())
        self._chat.session.save_branch(node)
        self._chat.add_changes(PathChanged())

    def delete_branch(self, number: int) -> None:
        """Hide a node and what grew from it. If it was shown, a living branch beside or before it is shown instead."""
        chat, tree = self._chat, self._chat.conversation
        if tree.is_hidden(number):
            return
        before = tree.leaf
        tree.delete_node(number)
        after = tree.leaf
        if after != before:
            tree.leaf = before
            self._forks.stop_making()
        self._deleted.append((chat.session, number))
        chat.session.save_branch(tree.nodes[number])
        chat.show_leaf(after)

    def restore_branch(self) -> int | None:
        """Restore the last deleted branch of this chat; return its number, or None if there is none."""
        chat, tree = self._chat, self._chat.conversation
        # A turn that was taken back in the meantime cannot come back.
        mine = [pair for pair in self._deleted if pair[0] is chat.session and pair[1] in tree.nodes]
        if not mine:
            return None
        self._deleted.remove(mine[-1])
        number = mine[-1][1]
        tree.restore_node(number)
        chat.session.save_branch(tree.nodes[number])
        if tree.leaf is None:
            chat.show_leaf(tree.newest_leaf(number))
        chat.add_changes(PathChanged())
        return number
