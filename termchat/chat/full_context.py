"""What happens when a context is full: nothing, or the oldest turns are left out, or the model summarises them first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from termchat.chat.beginning import Make
from termchat.chat.changes import WAYS, Full, Notice, PathChanged, StatusChanged, Way
from termchat.chat.prompting import Turn, omission_of, turns_of
from termchat.chat.replies import Replies
from termchat.chat.state import State
from termchat.conversation.node import Node, Omission
from termchat.decoding.records import Failed

FREE = 4
"""One part in so many of the context is free again once room was made."""

SUMMARY = 8
"""One part in so many of the context is the most that a summary takes."""

REQUEST = "Summarise our conversation so far in a few sentences: names, facts, decisions, and what is still open."
"""What asks a model for a summary; it is a turn as any other."""


def sizes_of(turns: Sequence[Turn]) -> list[int]:
    """About how many ids each turn takes in a prompt. Of one that holds the whole prompt, what stands before is taken away."""
    sizes: list[int] = []
    left_out = 0
    for turn in turns:
        head, size = turn[0].node, sum(span.count for span in turn)
        if head.omitted is not None:
            left_out = head.omitted.turns
        sizes.append(max(size - sum(sizes[left_out:]), 1) if head.whole else size)
    return sizes


def most_kept(sizes: Sequence[int], needed: int, context: int) -> int:
    """How many of the newest turns may stay so that with `needed` more ids a part of the context is free.

    Args:
        sizes: ids of each turn, the oldest first.
    """
    room = context - context // FREE - needed
    kept = 0
    for size in reversed(sizes):
        room -= size
        if room < 0:
            break
        kept += 1
    return kept


class BeginTurn(Protocol):
    """Begins a turn behind a node's first ids, with these turns left out of its prompt."""

    def __call__(
        self, text: str, parent: Node | None, at: int, omitted: Omission | None, *, make: Make | None = None
    ) -> Node: ...


class MakingRoom:
    """Handles one full context at a time; `state.full` is the one that a person is asked about."""

    def __init__(self, state: State, replies: Replies, begin: BeginTurn) -> None:
        self._state, self._replies, self._begin = state, replies, begin
        self._request: tuple[Full, Node] | None = None

    def is_request(self, turn: Node) -> bool:
        """Whether a turn is the one that asks for the summary."""
        return self._request is not None and self._request[1] is turn

    def limit(self, turn: Node) -> int:
        """The most tokens that the reply to a turn may have; 0 means no limit."""
        context = self._state.model.context if self._state.model is not None else 0
        return max(context // SUMMARY, 1) if self.is_request(turn) else 0

    def refused(self, turn: Node, length: int, failure: Failed, make: Make) -> bool:
        """A turn, already taken out of the shown chat again, needs `length` ids, too many; False if nothing can be done.
        `make` makes its reply."""
        chat, parent = self._state.conversation, turn.parent
        wanted = self._wanted(parent, turn.omitted, length)
        if wanted is None:
            return False
        node = chat.nodes[parent] if parent is not None else None
        full = Full(self._state.session, turn.written, node, turn.at, chat.leaf, wanted, failure, make)
        if turn.omitted is not None:  # more has to go than was thought
            self._begin(full.text, full.parent, full.at, msgspec.structs.replace(turn.omitted, turns=wanted), make=make)
        else:
            self._ask(full)
        return True

    def make(self, way: Way) -> None:
        """Answers what is to be done about `state.full`: nothing, leave the oldest turns out, or have them summarised first."""
        full, self._state.full = self._state.full, None
        if full is None:
            return
        self._state.changed(StatusChanged())
        if way != "stop" and self._state.phase == "idle":
            self._do(full, way)
        elif full.failure is not None:
            self._state.give_back(full.session, full.text)

    def withdraw(self) -> None:
        """Asks no more about a full context once the person has done something else."""
        state, full = self._state, self._state.full
        elsewhere = full is not None and (
            full.conversation is not state.conversation or full.leaf != state.conversation.leaf
        )
        if elsewhere or state.busy:
            self.make("stop")

    def go_on(self) -> bool:
        """With nothing else going on: sends what waited for a summary, asks about a reply that was cut; whether it did."""
        cut, self._replies.cut = self._replies.cut, None
        if self._request is not None:
            (full, request), self._request = self._request, None
            return self._summarised(full, request)
        return cut is not None and self._state.conversation.leaf == cut.number and self._cut(cut)

    def let_go(self, turn: Node) -> str:
        """A turn cannot be sent; returns the text that its person wrote."""
        if self._request is None or self._request[1] is not turn:
            return turn.written
        (full, _), self._request = self._request, None
        self._show(full)
        return full.text if full.failure is not None else ""

    def without_summary(self) -> None:
        """There is no room to ask for a summary."""
        assert self._request is not None
        (full, _), self._request = self._request, None
        self._state.changed(Notice("no room to ask for a summary", "the turns were dropped without a summary"))
        self._do(full, "drop")

    # --- how it is done ----------------------------------------------------------------------------------------------

    def _ask(self, full: Full) -> None:
        way = self._state.on_full
        if way == "ask":
            self._replies.held = True  # what else was written waits, too
            self._state.full = full
            self._state.changed(StatusChanged())
        else:
            self._do(full, next(known for known in WAYS if known == way))

    def _do(self, full: Full, way: Way) -> None:
        if way == "summarise" and full.can_summarise and full.parent is not None:
            last = turns_of(full.conversation.path(full.parent.number))[full.turns - 1][-1]
            at = full.at if last.node is full.parent else last.count
            self._request = full, self._begin(REQUEST, last.node, at, None)
        elif way != "stop":
            self._begin(full.text, full.parent, full.at, Omission(full.turns), make=full.make)
        elif full.failure is not None:
            self._state.give_back(full.session, full.text)
            self._state.fail(full.failure)

    def _wanted(self, leaf: int | None, omitted: Omission | None, length: int) -> int | None:
        """How many turns before a message have to be left out; None where that does not help."""
        model, chat = self._state.model, self._state.conversation
        path = chat.path(leaf) if leaf is not None else []
        turns = turns_of(path)
        omitted = omitted or omission_of(path)
        gone = omitted.turns if omitted is not None else 0
        if model is None or gone >= len(turns):
            return None
        sizes = sizes_of(turns)[gone:]
        needed = max(length - sum(sizes), 1)
        if needed > model.context:  # no turn that goes makes room for it
            return None
        return max(len(turns) - most_kept(sizes, needed, model.context), gone + 1)

    def _cut(self, reply: Node) -> bool:
        """A reply ended because the context did: it can be regenerated with more room."""
        state, chat = self._state, self._state.conversation
        head = turns_of(chat.path(reply.number))[-1][0].node
        if head.omitted is not None and state.on_full != "ask":
            return False  # room was made for it already
        wanted = self._wanted(head.parent, head.omitted, chat.length(reply.number))
        if wanted is None:
            return False
        parent = chat.nodes[head.parent] if head.parent is not None else None
        self._ask(Full(state.session, head.written, parent, head.at, reply.number, wanted))
        return True

    def _summarised(self, full: Full, request: Node) -> bool:
        chat = full.conversation
        reply = next(iter(chat.children(request.number)), None)
        ended = reply is not None and reply.finished is not None and reply.finished.reason != "user"
        if reply is not None and ended and reply.text().strip() and chat is self._state.conversation:
            self._begin(full.text, full.parent, full.at, Omission(full.turns, reply.number), make=full.make)
            return True
        if full.failure is not None:
            self._state.give_back(full.session, full.text)
        self._show(full)
        return False

    def _show(self, full: Full) -> None:
        """Shows the chat as it was before."""
        if full.conversation is self._state.conversation:
            full.conversation.leaf = full.leaf
            full.session.save_leaf()
            self._state.changed(PathChanged())
