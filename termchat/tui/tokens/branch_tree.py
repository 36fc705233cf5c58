"""The tree of branches: walk it, name, delete and compare branches, and go to one."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from textual.widget import Widget
from textual.widgets import Input

from termchat.chat.service import Chat
from termchat.conversation.setting_changes import values
from termchat.conversation.tree import Conversation, Node
from termchat.decoding.samplers import KNOBS
from termchat.text import one_line
from termchat.tui.dialogs.base import ARROWS, ListDialog
from termchat.tui.draw.field import Field
from termchat.tui.draw.ink import Ink, Line, Run
from termchat.tui.draw.marks import ACCENT, FAINT, MUTED, TEXT, column, length
from termchat.tui.keys.dialogs import TREE
from termchat.tui.themes.theme_file import Palette
from termchat.tui.tokens.compare import CompareDialog
from termchat.tui.transcript.source import ending_of

_MOST_DEPTH = 12
"""Forks within forks that are drawn as such."""
_INDENT = 2
_HERE, _MARK = "●", "◆"
_INKS = {"user": Ink("user"), "assistant": TEXT}


class BranchRow(NamedTuple):
    """A turn in the tree. `depth` counts the forks above it, `fork` says that it begins a branch beside others. `remark` says
    of a turn without text what there is to say."""

    node: Node
    depth: int
    fork: bool
    last: bool
    remark: str = ""


def tree_rows(conversation: Conversation) -> list[BranchRow]:
    """All turns that are not deleted, each branch whole before the next one; what goes straight on comes after the forks."""
    rows: list[BranchRow] = []
    waiting = _below(conversation, None, 0)
    while waiting:
        row = waiting.pop()
        rows.append(row)
        waiting += _below(conversation, row.node, row.depth)
    return rows


def leaf_of(conversation: Conversation, node: Node) -> int:
    """Where a turn, taken whole, leads: the newest end behind it."""
    after = node.kept() - 1 if node.role == "assistant" else -1
    return conversation.newest_leaf(node.number, after=after)


def label_of(node: Node) -> str:
    """What a branch is called: its name, else how it begins."""
    return node.name or node.text(40).strip() or f"turn {node.number}"


def tree_lines(
    rows: list[BranchRow], width: int, *, path: Collection[int], selected: int, marked: int | None
) -> list[Line]:
    """A line a row. `path` holds the turns of the chat as it is shown, `marked` the branch to compare with."""
    return [
        _line(row, width, on_path=row.node.number in path, chosen=index == selected, marked=row.node.number == marked)
        for index, row in enumerate(rows)
    ]


def _below(conversation: Conversation, node: Node | None, depth: int) -> list[BranchRow]:
    """What grows from a turn, the first one last."""
    children = conversation.children(node.number if node is not None else None)
    straight = [child for child in children if node is None or child.at >= node.kept()]
    if node is not None and len(straight) > 1:
        straight = []
    forks = [child for child in children if child not in straight]
    rows = [BranchRow(child, depth + 1, True, child is forks[-1], _remark(child, children)) for child in forks]
    rows += [BranchRow(child, depth, False, False, _remark(child, children)) for child in straight]
    return rows[::-1]


def _remark(node: Node, beside: Collection[Node]) -> str:
    """Of a reply without text: why it ended, and the knobs and the seed that are not those of the others beside it."""
    if node.role == "user" or node.text(60).strip():
        return "…"
    others = [other for other in beside if other is not node and other.start is not None and other.settings]
    told = [(ending_of(node) or "ended by the model") if node.done else "unfinished"]
    if node.start is not None and node.settings:
        own = values(node.settings[0])
        told += [
            f"{name} {KNOBS[name].show(value)}"
            for name, value in own.items()
            if any(values(other.settings[0])[name] != value for other in others)
        ]
        if any(other.start is not None and other.start.seed != node.start.seed for other in others):
            told.append(f"seed {node.start.seed}")
    return f"no text: {', '.join(told)}"


def _line(row: BranchRow, width: int, *, on_path: bool, chosen: bool, marked: bool) -> Line:
    node = row.node
    depth = min(row.depth, _MOST_DEPTH)
    bend = ("└ " if row.last else "├ ") if row.fork else ""
    stem = " " * (_INDENT * max(depth - int(row.fork), 0)) + bend
    dot = _MARK if marked else _HERE if on_path else "○"
    head: list[Run] = [(stem, FAINT), (dot + " ", Ink("stamp", bold=True) if marked else ACCENT if on_path else FAINT)]
    tail = _tail(row)
    name: list[Run] = [(one_line(node.name, width // 2) + "  ", Ink("stamp", bold=True))] if node.name else []
    room = max(width - length(head) - length(name) - len(tail) - 1, 4)
    text = column(node.text(60).strip() or row.remark, room)
    runs: list[Run] = [*head, *name, (text, _INKS[node.role] if on_path else MUTED), (" " + tail, MUTED)]
    return Line(tuple(runs), "panel" if chosen else "")


def _tail(row: BranchRow) -> str:
    """How long a reply is, and where it left its parent."""
    node = row.node
    if node.role == "user":
        return ""
    size = f"{len(node.ids)} tok"
    return f"at {node.at} · {size}" if row.fork and node.at else size


class TreeDialog(ListDialog[int]):
    """All branches of a chat. The result is the turn where the branch to go to ends."""

    AUTO_FOCUS = ""
    TITLE = "Branches"
    HINTS = (
        ("list-up", "browse"), ("tree-go", "goes there"), ("tree-rename", "names"), ("tree-delete", "deletes"),
        ("tree-undelete", "restores"), ("tree-mark", "marks"), ("tree-compare", "compares with the marked or current branch"),
        ("close", "closes"),
    )  # fmt: skip
    KEYS = "BRANCHES"
    BINDINGS = [*ARROWS, *(key.binding for key in TREE)]  # noqa: RUF012

    def __init__(self, chat: Chat, palette: Palette) -> None:
        super().__init__(palette)
        self._chat = chat
        self._rows: list[BranchRow] = []
        self._marked: int | None = None

    def inputs(self) -> Iterable[Widget]:
        yield Field(placeholder="branch name; leave empty to remove it", classes="-off")

    def on_mount(self) -> None:
        self.picker.paint_with(self._palette)
        self._show(self._chat.conversation.leaf)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return action == "close" or self._input.has_class("-off")

    def draw(self, rows: range, chosen: int, width: int) -> list[Line]:
        path = {span.node.number for span in self._chat.conversation.path()}
        shown = self._rows[rows.start : rows.stop]
        return tree_lines(shown, width, path=path, selected=chosen - rows.start, marked=self._marked)

    def action_close(self) -> None:
        if self._input.has_class("-off"):
            super().action_close()
        else:
            self._type(False)

    def action_go(self) -> None:
        if (node := self._node) is not None:
            self.dismiss(leaf_of(self._chat.conversation, node))

    def action_parent(self) -> None:
        if (node := self._node) is not None and node.parent is not None:
            self._choose(node.parent)

    def action_rename(self) -> None:
        if (node := self._node) is not None:
            self._input.value = node.name
            self._type(True)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if (node := self._node) is not None:
            self._chat.branches.rename(node.number, event.value.strip())
        self._type(False)
        self._show()

    def action_drop(self) -> None:
        if (node := self._node) is not None:
            self._chat.branches.delete(node.number)
            self.tell(f'"{label_of(node)}" is deleted; z restores it')
            self._show()

    def action_undo(self) -> None:
        self.say("" if self._chat.branches.undelete() is not None else "nothing was deleted")
        self._show()

    def action_mark(self) -> None:
        number = self._node.number if self._node is not None else None
        self._marked = None if number == self._marked else number
        self._show()

    def action_compare(self) -> None:
        chat, node = self._chat.conversation, self._node
        if node is None or chat.leaf is None:
            return
        other = chat.nodes[self._marked] if self._marked is not None else chat.nodes[chat.leaf]
        leaves = leaf_of(chat, other), leaf_of(chat, node)
        if leaves[0] == leaves[1]:
            self.say("this is the same branch; mark one with m, then compare another with c")
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
