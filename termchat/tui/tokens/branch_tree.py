"""The tree of branches: walk it, name, delete and go to branches, compare their replies with each other or another chat's."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from textual.widget import Widget
from textual.widgets import Input

from termchat.chat.service import Chat
from termchat.conversation.reply_facts import facts_of, list_varying
from termchat.conversation.session import Session
from termchat.conversation.tree import Conversation, Node
from termchat.text import one_line
from termchat.tui.dialogs.base import ARROWS, ListDialog
from termchat.tui.draw.field import Field
from termchat.tui.draw.ink import Ink, Line, Run
from termchat.tui.draw.marks import ACCENT, FAINT, MUTED, TEXT, column, length
from termchat.tui.keys.dialogs import REPLIES, TREE
from termchat.tui.sessions.session_list import SessionList
from termchat.tui.themes.theme_file import Palette
from termchat.tui.tokens.compare import CompareDialog, ComparedReply
from termchat.tui.transcript.turn_source import ending_of

_MOST_DEPTH = 12
"""Forks within forks that are drawn as such."""
_INDENT = 2
_HERE, _MARK = "●", "◆"
_INKS = {"user": Ink("user"), "assistant": TEXT}


class BranchRow(NamedTuple):
    """A turn in the tree. `depth` counts the forks above it, `fork` says that it begins a branch beside others."""

    node: Node
    depth: int
    fork: bool
    last: bool


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
    after = node.count_kept() - 1 if node.role == "assistant" else -1
    return conversation.newest_leaf(node.number, after=after)


def label_of(node: Node) -> str:
    """What a branch is called: its name, else how it begins."""
    return node.name or node.text(40).strip() or f"turn {node.number}"


def reply_of(conversation: Conversation, node: Node) -> int | None:
    """Where the reply ends that a turn is, or the newest one to a message; None where there is none."""
    replies = [child for child in conversation.list_children(node.number) if child.role == "assistant"]
    if node.role == "user":
        return reply_of(conversation, replies[-1]) if replies else None
    onward = [child for child in replies if child.at >= node.count_kept()]
    return reply_of(conversation, onward[-1]) if onward else node.number


def tree_lines(
    conversation: Conversation,
    rows: list[BranchRow],
    width: int,
    *,
    path: Collection[int],
    selected: int,
    marked: int | None,
) -> list[Line]:
    """A line a row. `path` holds the turns of the chat as it is shown, `marked` the branch to compare with."""
    differences = _Differences(conversation)
    return [
        _line(
            row,
            _tail(conversation, row, differences.of(row.node), width // 2),
            width,
            on_path=row.node.number in path,
            chosen=index == selected,
            marked=row.node.number == marked,
        )
        for index, row in enumerate(rows)
    ]


def _below(conversation: Conversation, node: Node | None, depth: int) -> list[BranchRow]:
    """What grows from a turn, the first one last."""
    children = conversation.list_children(node.number if node is not None else None)
    straight = [child for child in children if node is None or child.at >= node.count_kept()]
    if node is not None and len(straight) > 1:
        straight = []
    forks = [child for child in children if child not in straight]
    rows = [BranchRow(child, depth + 1, True, child is forks[-1]) for child in forks]
    rows += [BranchRow(child, depth, False, False) for child in straight]
    return rows[::-1]


def _remark(node: Node) -> str:
    """In the place of a text that there is not."""
    if node.role == "user":
        return "…"
    return f"no text: {(ending_of(node) or 'ended by the model') if node.done else 'unfinished'}"


def _line(row: BranchRow, tail: str, width: int, *, on_path: bool, chosen: bool, marked: bool) -> Line:
    node = row.node
    depth = min(row.depth, _MOST_DEPTH)
    bend = ("└ " if row.last else "├ ") if row.fork else ""
    stem = " " * (_INDENT * max(depth - int(row.fork), 0)) + bend
    dot = _MARK if marked else _HERE if on_path else "○"
    head: list[Run] = [(stem, FAINT), (dot + " ", Ink("stamp", bold=True) if marked else ACCENT if on_path else FAINT)]
    name: list[Run] = [(one_line(node.name, width // 2) + "  ", Ink("stamp", bold=True))] if node.name else []
    room = max(width - length(head) - length(name) - len(tail) - 1, 4)
    text = column(node.text(60).strip() or _remark(node), room)
    runs: list[Run] = [*head, *name, (text, _INKS[node.role] if on_path else MUTED), (" " + tail, MUTED)]
    return Line(tuple(runs), "panel" if chosen else "")


def _tail(conversation: Conversation, row: BranchRow, facts: Mapping[str, str], width: int) -> str:
    """What the row's reply was made of that those beside it were not; how long it is, and where it left its parent."""
    node = row.node
    if node.role == "user":
        prompts = {conversation.system_of(child.number) for child in conversation.list_children(None)}
        shown = node.parent is None and len(prompts) > 1
        return one_line(f"prompt: {conversation.system_of(node.number) or 'none'}", width) if shown else ""
    size = f"{node.size} tok" if node.size is not None else ""
    room = width - len(size) - len(f"at {node.at} · ") - 3
    told = [one_line(" · ".join(f"{name} {facts[name]}" for name in facts), room)] if facts and room > 1 else []
    return " · ".join(filter(None, [*told, *([f"at {node.at}"] if row.fork and node.at else []), size]))


class _Differences:
    """What replies have that is not the same for all that stand beside them. Each is looked at once, however many there are."""

    def __init__(self, conversation: Conversation) -> None:
        self._chat = conversation
        self._facts: dict[int, dict[str, str]] = {}
        self._varying: dict[tuple[int, ...], list[str]] = {}

    def of(self, node: Node) -> dict[str, str]:
        """Of a fork, what the reply that it left has not; of a message nothing."""
        parent = self._chat.nodes.get(node.parent or 0)
        beside = [child for child in self._chat.list_children(node.parent) if child.role == "assistant"]
        if parent is not None and parent.role == "assistant":
            beside = [parent, node]
        if len(beside) < 2 or node.role == "user":
            return {}
        numbers = tuple(each.number for each in beside)
        for each in beside:
            if each.number not in self._facts:
                self._facts[each.number] = facts_of(self._chat, each)
        if numbers not in self._varying:
            self._varying[numbers] = list_varying([self._facts[number] for number in numbers])
        mine = self._facts[node.number]
        return {name: mine[name] for name in self._varying[numbers] if mine.get(name, "off") not in ("", "off")}


class BranchListing(ListDialog[int]):
    """The turns of a chat as a tree. The result is a turn of it."""

    AUTO_FOCUS = ""

    def __init__(self, conversation: Conversation, palette: Palette) -> None:
        super().__init__(palette)
        self.conversation = conversation
        self._rows: list[BranchRow] = []
        self._marked: int | None = None

    def on_mount(self) -> None:
        super().on_mount()
        self.show_rows(self.conversation.leaf)

    def draw(self, rows: range, chosen: int, width: int) -> list[Line]:
        path = {span.node.number for span in self.conversation.find_path()}
        shown, selected = self._rows[rows.start : rows.stop], chosen - rows.start
        return tree_lines(self.conversation, shown, width, path=path, selected=selected, marked=self._marked)

    def show_rows(self, number: int | None = None) -> None:
        self._rows = tree_rows(self.conversation)
        self.picker.show(len(self._rows))
        self.choose(number)

    def choose(self, number: int | None) -> None:
        found = [index for index, row in enumerate(self._rows) if row.node.number == number]
        self.picker.show(len(self._rows), found[0] if found else None)

    @property
    def node(self) -> Node | None:
        return self._rows[self.picker.chosen].node if self._rows else None

    @property
    def reply(self) -> int | None:
        """Where the highlighted reply ends, or the reply to the highlighted message; where there is none, that is told."""
        found = reply_of(self.conversation, self.node) if self.node is not None else None
        if found is None:
            self.say("this message has no reply")
        return found


class ReplyPicker(BranchListing):
    """A reply of another chat; `title` is what that is called."""

    HINTS = (("list-up", "browse"), ("reply-choose", "compares with this reply"), ("close", "closes"))
    KEYS = "REPLIES"
    BINDINGS = [*ARROWS, *(key.binding for key in REPLIES)]  # noqa: RUF012

    def __init__(self, conversation: Conversation, title: str, palette: Palette) -> None:
        super().__init__(conversation, palette)
        self._title = title

    def on_mount(self) -> None:
        super().on_mount()
        self.retitle(f"Compare with a reply of: {self._title}")

    def action_choose(self) -> None:
        if (reply := self.reply) is not None:
            self.dismiss(reply)


class TreeDialog(BranchListing):
    """All branches of a chat. The result is the turn where the branch to go to ends; `sessions` are chats to compare with."""

    TITLE = "Branches"
    HINTS = (
        ("list-up", "browse"), ("tree-go", "goes there"), ("tree-rename", "names"), ("tree-delete", "deletes"),
        ("tree-undelete", "restores"), ("tree-mark", "marks"), ("tree-compare", "compares with the marked or last reply"),
        ("tree-other", "with a reply of another chat"), ("close", "closes"),
    )  # fmt: skip
    KEYS = "BRANCHES"
    BINDINGS = [*ARROWS, *(key.binding for key in TREE)]  # noqa: RUF012

    def __init__(self, chat: Chat, palette: Palette, sessions: SessionList | None) -> None:
        super().__init__(chat.conversation, palette)
        self._chat, self._sessions = chat, sessions

    def inputs(self) -> Iterable[Widget]:
        yield Field(placeholder="branch name; leave empty to remove it", classes="-off")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return action == "close" or self._input.has_class("-off")

    def action_close(self) -> None:
        if self._input.has_class("-off"):
            super().action_close()
        else:
            self._type(False)

    def action_go(self) -> None:
        if (node := self.node) is not None:
            self.dismiss(leaf_of(self.conversation, node))

    def action_parent(self) -> None:
        if (node := self.node) is not None and node.parent is not None:
            self.choose(node.parent)

    def action_rename(self) -> None:
        if (node := self.node) is not None:
            self._input.value = node.name
            self._type(True)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if (node := self.node) is not None:
            self._chat.branches.rename_branch(node.number, event.value.strip())
        self._type(False)
        self.show_rows()

    def action_drop(self) -> None:
        if (node := self.node) is not None:
            self._chat.branches.delete_branch(node.number)
            self.tell(f'"{label_of(node)}" is deleted; z restores it')
            self.show_rows()

    def action_undo(self) -> None:
        self.say("" if self._chat.branches.restore_branch() is not None else "nothing was deleted")
        self.show_rows()

    def action_mark(self) -> None:
        number = self.node.number if self.node is not None else None
        self._marked = None if number == self._marked else number
        self.show_rows()

    def action_compare(self) -> None:
        chat, reply = self.conversation, self.reply
        marked = chat.nodes.get(self._marked or chat.leaf or 0)
        other = reply_of(chat, marked) if marked is not None else None
        if reply is None or other is None:
            return
        if other == reply:
            self.say("this is the same reply; mark one with m, then compare another with c")
            return
        self.say("")
        self._compare(self._named(other), self._named(reply))

    def action_other(self) -> None:
        from termchat.tui.sessions.chat_picker import ChatPicker  # only for whoever compares with another chat

        sessions, reply = self._sessions, self.reply
        if sessions is None:
            self.say("chats are not saved in this mode")
        if reply is None or sessions is None:
            return
        self.say("")

        def chosen(stored: Session | None) -> None:
            if stored is None:
                return
            title = stored.conversation.title or "untitled"
            other = ReplyPicker(stored.conversation, title, self._palette)
            self.app.push_screen(other, lambda end: over(stored.conversation, end, title, stored.id))

        def over(conversation: Conversation, end: int | None, title: str, stored_id: str) -> None:
            if end is not None:
                there = ComparedReply(conversation, end, title, lambda node, at: sessions.token(stored_id, node, at))
                self._compare(self._named(reply), there)

        self.app.push_screen(ChatPicker(sessions, self._palette), chosen)

    def _named(self, end: int) -> ComparedReply:
        return ComparedReply(
            self.conversation, end, label_of(self.conversation.nodes[end]), self._chat.session.read_token
        )

    def _compare(self, left: ComparedReply, right: ComparedReply) -> None:
        self.app.push_screen(CompareDialog(self._palette, left, right))

    def _type(self, typing: bool) -> None:
        self._input.set_class(not typing, "-off")
        self.set_focus(self._input if typing else None)

    @property
    def _input(self) -> Input:
        return self.query_one(Input)
