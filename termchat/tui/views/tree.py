"""The tree of branches as lines: a chain of turns goes straight down, a fork goes one step to the right."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from termchat.conversation.tree import Conversation, Node
from termchat.text import one_line
from termchat.tui.draw.ink import Ink, Line, Run
from termchat.tui.draw.marks import ACCENT, FAINT, MUTED, TEXT, column, length

_MOST_DEPTH = 12
"""Forks within forks that are drawn as such."""
_INDENT = 2
_HERE, _MARK = "●", "◆"
_INKS = {"user": Ink("user"), "assistant": TEXT}


class Row(NamedTuple):
    """A turn in the tree. `depth` counts the forks above it, `fork` says that it begins a branch beside others."""

    node: Node
    depth: int
    fork: bool
    last: bool


def tree_rows(conversation: Conversation) -> list[Row]:
    """All turns that are not deleted, each branch whole before the next one; what goes straight on comes after the forks."""
    rows: list[Row] = []
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


def tree_lines(rows: list[Row], width: int, *, path: Collection[int], selected: int, marked: int | None) -> list[Line]:
    """A line a row. `path` holds the turns of the chat as it is shown, `marked` the branch to compare with."""
    return [
        _line(row, width, on_path=row.node.number in path, chosen=index == selected, marked=row.node.number == marked)
        for index, row in enumerate(rows)
    ]


def _below(conversation: Conversation, node: Node | None, depth: int) -> list[Row]:
    """What grows from a turn, the first one last."""
    children = conversation.children(node.number if node is not None else None)
    straight = [child for child in children if node is None or child.at >= node.kept()]
    if node is not None and len(straight) > 1:
        straight = []
    forks = [child for child in children if child not in straight]
    rows = [Row(child, depth + 1, True, child is forks[-1]) for child in forks]
    rows += [Row(child, depth, False, False) for child in straight]
    return rows[::-1]


def _line(row: Row, width: int, *, on_path: bool, chosen: bool, marked: bool) -> Line:
    node = row.node
    depth = min(row.depth, _MOST_DEPTH)
    bend = ("└ " if row.last else "├ ") if row.fork else ""
    stem = " " * (_INDENT * max(depth - int(row.fork), 0)) + bend
    dot = _MARK if marked else _HERE if on_path else "○"
    head: list[Run] = [(stem, FAINT), (dot + " ", Ink("stamp", bold=True) if marked else ACCENT if on_path else FAINT)]
    tail = _tail(row)
    name: list[Run] = [(one_line(node.name, width // 2) + "  ", Ink("stamp", bold=True))] if node.name else []
    room = max(width - length(head) - length(name) - len(tail) - 1, 4)
    text = column(node.text(60).strip() or "…", room)
    runs: list[Run] = [*head, *name, (text, _INKS[node.role] if on_path else MUTED), (" " + tail, MUTED)]
    return Line(tuple(runs), "panel" if chosen else "")


def _tail(row: Row) -> str:
    """How long a reply is, and where it left its parent."""
    node = row.node
    if node.role == "user":
        return ""
    size = f"{len(node.ids)} tok"
    return f"at {node.at} · {size}" if row.fork and node.at else size
