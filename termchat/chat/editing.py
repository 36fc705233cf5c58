"""Messages written anew: what a person said, or what the model did, each on a branch beside the old one."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Sequence
from typing import NamedTuple

from termchat.chat.again import Again
from termchat.chat.changes import Notice
from termchat.chat.state import State
from termchat.chat.turns import Turns
from termchat.conversation.tree import Conversation, Node, Span


class _Edit(NamedTuple):
    """A person's message in other words, that waits for the reply that runs to end."""

    conversation: Conversation
    node: Node
    text: str


class Parting(NamedTuple):
    """Where a reply in other words leaves its tokens: it keeps the first `at` of `node`, and then says `rest`."""

    node: Node
    at: int
    rest: str


class Editing:
    """Nothing is rewritten: what was said before stays, on its own branch. `stop` ends what is being made."""

    def __init__(self, state: State, turns: Turns, again: Again, stop: Callable[[], None]) -> None:
        self._state, self._turns, self._again, self._stop = state, turns, again, stop
        self._waiting: _Edit | None = None

    @property
    def waits(self) -> bool:
        """Whether an edit waits to be sent."""
        return self._waiting is not None

    def edit(self, node: Node, text: str) -> None:
        """Sends a text in the place of a person's message; what cannot be edited is told, and the text given back."""
        state = self._state
        if state.model is None or state.conversation.is_hidden(node.number):
            why = "no model is loaded" if state.model is None else "this branch is deleted"
            state.changed(Notice(f"cannot send the edited message: {why}"))
            state.give_back(text)
            return
        self._stop()
        self._waiting = _Edit(state.conversation, node, text)
        self.make()

    def make(self) -> None:
        """Sends the edit that waits, if all is ready for it."""
        edit, state = self._waiting, self._state
        if edit is None or state.phase != "idle":
            return
        self._waiting = None
        node, nodes = edit.node, edit.conversation.nodes
        self._turns.begin(
            edit.text, nodes[node.parent] if node.parent is not None else None, node.at, omitted=node.omitted
        )

    def drop(self) -> None:
        """Gives back the edit that waits: something else is to be shown."""
        edit, self._waiting = self._waiting, None
        if edit is not None:
            self._state.give_back(edit.text)

    def replace(self, spans: Sequence[Span], text: str) -> None:
        """Puts other words in a reply's place: its tokens as far as they say the same, the rest forced, and its end there."""
        parting = parting_of(spans, text)
        if parting is None:
            self._state.changed(Notice("the reply says this already"))
        else:
            self._again.fork(parting.node, parting.at, text=parting.rest, then="end")


def parting_of(spans: Sequence[Span], text: str) -> Parting | None:
    """Where a reply parts from a text that is to stand in its place; None where it says just that.

    No character is parted: a token that begins one which the next token ends stays only with that.
    """
    if text == "".join(span.node.text(span.count) for span in spans):
        return None
    shown = 0
    parting = Parting(spans[0].node, 0, text)
    for node, count in ((span.node, span.count) for span in spans):
        tokens = node.tokens
        for at, piece in enumerate(tokens.texts[:count]):
            if not text.startswith(piece, shown):
                return parting
            shown += len(piece)
            end = tokens.ends[at]
            if piece and _is_whole(bytes(tokens.data[max(end - _LONGEST, 0) : end])):
                parting = Parting(node, at + 1, text[shown:])
    return parting


_LONGEST = 4
"""Bytes of the longest character."""


def _is_whole(data: bytes) -> bool:
    """Whether these last bytes of a text end with a character's."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(data)
    return decoder.getstate()[0] == b""
