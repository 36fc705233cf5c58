"""Replies once more: made again, or gone on with."""

from __future__ import annotations

from termchat.chat.changes import Notice
from termchat.chat.replies import Replies
from termchat.chat.state import State
from termchat.chat.turns import Turns


class Again:
    """What grows from a reply that is there, or beside it."""

    def __init__(self, state: State, turns: Turns, replies: Replies) -> None:
        self._state, self._turns, self._replies = state, turns, replies

    def regenerate(self) -> None:
        """Another reply to the last message."""
        state, chat = self._state, self._state.conversation
        if not state.ready("regenerate"):
            return
        spans = chat.reply()
        number = spans[0].node.parent if spans else chat.leaf
        if number is None:
            state.changed(Notice("there is no reply to make again"))
            return
        turn = chat.nodes[number]
        if state.is_foreign():  # its ids are another model's: the message is sent again
            self._turns.begin(turn.written, chat.nodes[turn.parent] if turn.parent is not None else None, turn.at)
        else:
            self._replies.start(turn, len(turn.ids), seed=state.seed(), done=0)

    def go_on(self) -> None:
        """Goes on with the last reply from its last token."""
        state = self._state
        spans = state.conversation.reply()
        if not state.ready("continue"):
            return
        if not spans:
            if state.conversation.leaf is not None:
                self.regenerate()
            return
        last = spans[-1].node
        reason = last.finished.reason if last.finished is not None else None
        if reason == "end":
            state.changed(Notice("the model ended this reply itself", "regenerate it, or write the next message"))
            return
        if state.is_foreign():
            state.changed(Notice("another model wrote this reply", "regenerate it, or write the next message"))
            return
        done = sum(span.count for span in spans)
        first = spans[0].node.start
        seed = first.seed if first is not None else state.seed()
        # Whoever continues a reply that was long enough wants as much again.
        self._replies.start(last, len(last.ids), seed=seed, done=done, longer=done if reason == "length" else 0)
