"""The tree of branches: walk it, name, delete and go to branches, compare their replies with each other or another chat's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeVar

from termchat.chat.service import Chat
from termchat.conversation.recorded_reply import TokenSource
from termchat.conversation.reply_facts import facts_of, list_varying
from termchat.conversation.session import Session
from termchat.conversation.tree import Conversation, Node
from termchat.text import one_line, sanitize
from termchat.tui.draw.ink import Ink, Line, Run
from termchat.tui.draw.list_dialog import ListDialog
from termchat.tui.draw.marks import ACCENT, FAINT, MUTED, TEXT, column, length
from termchat.tui.lists.compare import CompareDialog, ComparedReply
from termchat.tui.lists.gather import SessionList
from termchat.tui.themes.theme_file import Palette
from termchat.tui.transcript.turn_source import describe_ending

Result = TypeVar("Result")
_MOST_DEPTH = 12
"""Forks within forks that are drawn as such."""
_INDENT = 2
_INKS = {"user": Ink("user"), "assistant": TEXT}


class BranchRow(NamedTuple):
    """A turn in the tree. `depth` counts the forks above it, `fork` says that it begins a branch beside others, of which it may
    be the `last`."""

    node: Node
    depth: int
    fork: bool
    last: bool


def tree_rows(conversation: Conversation) -> list[BranchRow]:
    """Return the turns in order, each branch whole before the next one, a straight continuation after the forks."""
    rows: list[BranchRow] = []
    waiting: list[BranchRow] = []
    node, depth = None, 0
    while True:
        children = conversation.list_children(node.number if node is not None else None)
        straight = [child for child in children if node is None or child.at >= node.count_kept()]
        straight = straight if node is None or len(straight) < 2 else []
        forks = [child for child in children if child not in straight]
        below = [BranchRow(child, depth + 1, True, child is forks[-1]) for child in forks]
        below += [BranchRow(child, depth, False, False) for child in straight]
        waiting += reversed(below)
        if not waiting:
            return rows
        rows.append(waiting.pop())
        node, depth = rows[-1].node, rows[-1].depth


def leaf_of(conversation: Conversation, node: Node) -> int:
    """Return the newest end of the branches through a whole turn."""
    after = node.count_kept() - 1 if node.role == "assistant" else -1
    return conversation.newest_leaf(node.number, after=after)


def label_of(node: Node) -> str:
    """Return the name of a branch, else its beginning."""
    return node.name or node.text(40).strip() or f"turn {node.number}"


def reply_of(conversation: Conversation, node: Node) -> int | None:
    """Return the end of the reply of which a turn is part, or of the newest reply to a message; None for a message without."""
    replies = [child for child in conversation.list_children(node.number) if child.role == "assistant"]
    if node.role == "assistant":
        replies = [child for child in replies if child.at >= node.count_kept()]
    if replies:
        return reply_of(conversation, replies[-1])
    return node.number if node.role == "assistant" else None


def _format_tail(conversation: Conversation, row: BranchRow, facts: Mapping[str, str], width: int) -> str:
    """Format the facts in which a reply differs from its siblings, the place of its fork, and its length."""
    node = row.node
    if node.role == "user":
        prompts = {conversation.system_of(child.number) for child in conversation.list_children(None)}
        shown = node.parent is None and len(prompts) > 1
        return one_line(f"prompt: {conversation.system_of(node.number) or 'none'}", width) if shown else ""
    size = f"{node.size} tok" if node.size is not None else ""
    room = width - len(size) - len(f"at {node.at} · ") - 3
    differing = one_line(" · ".join(f"{name} {facts[name]}" for name in facts), room) if room > 1 else ""
    return " · ".join(filter(None, (differing, f"at {node.at}" if row.fork and node.at else "", size)))


def _read_differing(conversation: Conversation, node: Node, known: dict[int, dict[str, str]]) -> dict[str, str]:
    """Return the facts in which a reply differs from its siblings, a fork from the reply that it left; none of a message.

    Those of the siblings are put into `known`, too: each reply is read once.
    """
    if node.number in known or node.role == "user":
        return known.get(node.number, {})
    parent = conversation.nodes.get(node.parent or 0)
    replies = own = [child for child in conversation.list_children(node.parent) if child.role == "assistant"]
    if parent is not None and parent.role == "assistant":
        replies, own = [parent, node], [node]
    facts = [facts_of(conversation, reply) for reply in replies] if len(replies) > 1 else [{}]
    names = list_varying(facts)
    for reply, mine in zip(own, facts[-len(own) :], strict=True):
        known[reply.number] = {name: mine[name] for name in names if mine.get(name, "off") not in ("", "off")}
    return known[node.number]


class BranchList(ListDialog[BranchRow, Result]):
    """The turns of a chat as a tree."""

    def __init__(self, conversation: Conversation, palette: Palette) -> None:
        super().__init__(palette)
        self.conversation = conversation
        self.marked: int | None = None
        """The turn whose reply others are compared with."""

    def on_mount(self) -> None:
        self.show_rows(self.conversation.leaf)

    def line(self, row: BranchRow, width: int, *, chosen: bool) -> Line:
        node, on_path, marked = row.node, row.node.number in self._path, row.node.number == self.marked
        facts = _read_differing(self.conversation, node, self._differing)
        tail = _format_tail(self.conversation, row, facts, width // 2)
        bend = ("└ " if row.last else "├ ") if row.fork else ""
        stem = " " * (_INDENT * max(min(row.depth, _MOST_DEPTH) - int(row.fork), 0)) + bend
        dot, ink = ("●", ACCENT) if on_path else ("○", FAINT)
        head: list[Run] = [(stem, FAINT), ("◆ ", Ink("stamp", bold=True)) if marked else (dot + " ", ink)]
        if node.name:
            head.append((one_line(node.name, width // 2) + "  ", Ink("stamp", bold=True)))
        text = node.text(60).strip()
        if not text:
            ending = (describe_ending(node) or "ended by the model") if node.done else "unfinished"
            text = "…" if node.role == "user" else f"no text: {ending}"
        text = column(text, max(width - length(head) - len(tail) - 1, 4))
        return Line((*head, (text, _INKS[node.role] if on_path else MUTED), (" " + tail, MUTED)))

    def show_rows(self, number: int | None = None) -> None:
        """Read the tree again, and highlight the turn of that number."""
        self._path = {span.node.number for span in self.conversation.find_path()}
        """The turns of the chat as it is shown."""
        self._differing: dict[int, dict[str, str]] = {}
        """The facts in which replies that were drawn differ from their siblings."""
        rows = tree_rows(self.conversation)
        self.set_rows(rows, next((at for at, row in enumerate(rows) if row.node.number == number), None))

    @property
    def node(self) -> Node:
        """The highlighted turn, for actions in `ON_ROW`."""
        return self.highlighted.node

    @property
    def reply(self) -> int | None:
        """The end of the highlighted reply, or of the reply to the highlighted message; a message without one is refused."""
        reply = reply_of(self.conversation, self.node)
        if reply is None:
            self.say("this message has no reply")
        return reply


class ReplyPicker(BranchList[ComparedReply]):
    """The replies of another chat, of which the result is one; `read` reads the records of its tokens."""

    HINTS = (("list-up", "browse"), ("reply-choose", "compares with this reply"), ("close", "closes"))
    KEYS = "REPLIES"
    ON_ROW = ("choose",)

    def __init__(self, conversation: Conversation, palette: Palette, read: TokenSource) -> None:
        super().__init__(conversation, palette)
        self._read = read

    def title_line(self) -> str:
        return sanitize(f"Compare with a reply of: {self.conversation.title or 'untitled'}", keep="")

    def action_choose(self) -> None:
        if (reply := self.reply) is not None:
            title = self.conversation.title or "untitled"
            self.dismiss(ComparedReply(self.conversation, reply, title, self._read))


class TreeDialog(BranchList[int]):
    """All branches of a chat. The result is the turn where the branch to go to ends; `sessions` are chats to compare with."""

    TITLE = "Branches"
    HINTS = (
        ("list-up", "browse"), ("tree-go", "goes there"), ("tree-rename", "names"), ("tree-delete", "deletes"),
        ("tree-undelete", "restores"), ("tree-mark", "marks"), ("tree-compare", "compares with the marked or last reply"),
        ("tree-other", "with a reply of another chat"), ("close", "closes"),
    )  # fmt: skip
    KEYS = "BRANCHES"
    ON_ROW = ("go", "parent", "rename", "drop", "mark", "compare", "other")
    NAME = "branch name; leave empty to remove it"

    def __init__(self, chat: Chat, palette: Palette, sessions: SessionList | None) -> None:
        super().__init__(chat.conversation, palette)
        self._chat, self._sessions = chat, sessions
        self._name_field.select_on_focus = True

    def action_go(self) -> None:
        self.dismiss(leaf_of(self.conversation, self.node))

    def action_parent(self) -> None:
        self.show_rows(self.node.parent)

    def action_rename(self) -> None:
        node = self.node

        def rename(name: str) -> None:
            self._chat.branches.rename_branch(node.number, name)
            self.end_naming()
            self.show_rows()

        self.type_name(node.name, rename)

    def action_drop(self) -> None:
        self._chat.branches.delete_branch(self.node.number)
        self.tell(f'"{label_of(self.node)}" is deleted; z restores it')
        self.show_rows()

    def action_undo(self) -> None:
        self.say("" if self._chat.branches.restore_branch() is not None else "nothing was deleted")
        self.show_rows()

    def action_mark(self) -> None:
        self.marked = None if self.node.number == self.marked else self.node.number
        self.show_rows()

    def action_compare(self) -> None:
        chat, reply = self.conversation, self.reply
        marked = chat.nodes.get(self.marked or chat.leaf or 0)
        other = reply_of(chat, marked) if marked is not None else None
        if reply is None or other is None:
            return
        if other == reply:
            self.say("this is the same reply; mark one with m, then compare another with c")
            return
        self.say("")
        self._open_compare(self._name_reply(other), self._name_reply(reply))

    def action_other(self) -> None:
        from termchat.tui.lists.sessions_dialog import ChatPicker  # only for whoever compares with another chat

        sessions, reply = self._sessions, self.reply
        if sessions is None:
            self.say("chats are not saved in this mode")
        if reply is None or sessions is None:
            return
        self.say("")

        def chosen(stored: Session | None) -> None:
            if stored is not None:
                id = stored.id
                picker = ReplyPicker(stored.conversation, self._palette, lambda node, at: sessions.token(id, node, at))
                self.app.push_screen(picker, over)

        def over(other: ComparedReply | None) -> None:
            if other is not None:
                self._open_compare(self._name_reply(reply), other)

        self.app.push_screen(ChatPicker(sessions, self._palette), chosen)

    def _name_reply(self, end: int) -> ComparedReply:
        return ComparedReply(
            self.conversation, end, label_of(self.conversation.nodes[end]), self._chat.session.read_token
        )

    def _open_compare(self, left: ComparedReply, right: ComparedReply) -> None:
        self.app.push_screen(CompareDialog(self._palette, left, right))
