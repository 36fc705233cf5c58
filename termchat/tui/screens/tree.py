"""The tree of branches: walk it, name, delete and compare branches, and go to one."""

from __future__ import annotations

from collections.abc import Iterable

from textual.widget import Widget
from textual.widgets import Input

from termchat.chat.service import Chat
from termchat.conversation.tree import Node
from termchat.tui.draw.field import Field
from termchat.tui.draw.ink import Line
from termchat.tui.keys.dialogs import TREE
from termchat.tui.screens.compare import CompareDialog
from termchat.tui.screens.listing import ARROWS, Listing
from termchat.tui.themes.theme_file import Palette
from termchat.tui.views.tree import Row, label_of, leaf_of, tree_lines, tree_rows


class TreeDialog(Listing[int]):
    """All branches of a chat. The result is the turn where the branch to go to ends."""

    AUTO_FOCUS = ""
    TITLE = "Branches"
    HINTS = (
        ("list-up", "walk"), ("tree-go", "goes there"), ("tree-rename", "names"), ("tree-delete", "deletes"),
        ("tree-undelete", "brings back"), ("tree-mark", "marks"), ("tree-compare", "compares with the marked or shown one"),
        ("close", "closes"),
    )  # fmt: skip
    KEYS = "BRANCHES"
    BINDINGS = [*ARROWS, *(key.binding for key in TREE)]  # noqa: RUF012

    def __init__(self, chat: Chat, palette: Palette) -> None:
        super().__init__(palette)
        self._chat = chat
        self._rows: list[Row] = []
        self._marked: int | None = None

    def inputs(self) -> Iterable[Widget]:
        """A name, while one is typed."""
        yield Field(placeholder="a name for this branch; empty takes it away", classes="-off")

    def on_mount(self) -> None:
        """Begins at the end of the chat that is shown."""
        self.picker.paint_with(self._palette)
        self._show(self._chat.conversation.leaf)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """While a name is typed, keys are letters."""
        return action == "close" or self._input.has_class("-off")

    def draw(self, rows: range, chosen: int, width: int) -> list[Line]:
        """The branches in view."""
        path = {span.node.number for span in self._chat.conversation.path()}
        shown = self._rows[rows.start : rows.stop]
        return tree_lines(shown, width, path=path, selected=chosen - rows.start, marked=self._marked)

    def action_close(self) -> None:
        """Closes the name, then the tree."""
        if self._input.has_class("-off"):
            super().action_close()
        else:
            self._type(False)

    def action_go(self) -> None:
        """Goes to the end of the branch."""
        if (node := self._node) is not None:
            self.dismiss(leaf_of(self._chat.conversation, node))

    def action_parent(self) -> None:
        """To the turn that this one grew from."""
        if (node := self._node) is not None and node.parent is not None:
            self._choose(node.parent)

    def action_rename(self) -> None:
        """Asks for a name."""
        if (node := self._node) is not None:
            self._input.value = node.name
            self._type(True)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Names the branch."""
        event.stop()
        if (node := self._node) is not None:
            self._chat.rename(node.number, event.value.strip())
        self._type(False)
        self._show()

    def action_drop(self) -> None:
        """Deletes the branch, and all that grew from it."""
        if (node := self._node) is not None:
            self._chat.delete(node.number)
            self.tell(f'"{label_of(node)}" is deleted; z brings it back')
            self._show()

    def action_undo(self) -> None:
        """Brings back what was deleted last."""
        self.say("" if self._chat.undelete() is not None else "nothing was deleted")
        self._show()

    def action_mark(self) -> None:
        """Marks the branch to compare others with, or takes the mark away."""
        number = self._node.number if self._node is not None else None
        self._marked = None if number == self._marked else number
        self._show()

    def action_compare(self) -> None:
        """Shows it beside the marked branch, or beside the chat as it is shown."""
        chat, node = self._chat.conversation, self._node
        if node is None or chat.leaf is None:
            return
        other = chat.nodes[self._marked] if self._marked is not None else chat.nodes[chat.leaf]
        leaves = leaf_of(chat, other), leaf_of(chat, node)
        if leaves[0] == leaves[1]:
            self.say("that is the same branch: m marks one, c compares another with it")
            return
        self.say("")
        self.app.push_screen(CompareDialog(self._palette, chat, leaves, (label_of(other), label_of(node))))

    def _show(self, number: int | None = None) -> None:
        """Reads the tree anew."""
        self._rows = tree_rows(self._chat.conversation)
        self.picker.show(len(self._rows))
        self._choose(number)

    def _choose(self, number: int | None) -> None:
        found = [index for index, row in enumerate(self._rows) if row.node.number == number]
        self.picker.show(len(self._rows), found[0] if found else None)

    def _type(self, typing: bool) -> None:
        self._input.set_class(not typing, "-off")
        self.set_focus(self._input if typing else None)

    @property
    def _node(self) -> Node | None:
        return self._rows[self.picker.chosen].node if self._rows else None

    @property
    def _input(self) -> Input:
        return self.query_one(Input)
