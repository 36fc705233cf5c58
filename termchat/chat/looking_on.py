"""A chat that another termchat is writing: it is shown as it is saved there, until somebody goes on with it here."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from termchat.chat.changes import LiveChanged, Notice, PathChanged, ReplyGrew, StatusChanged
from termchat.chat.state import State
from termchat.conversation.session import Followed, SessionInfo, SessionNews
from termchat.conversation.tree import Conversation
from termchat.conversation.unsent import Unsent
from termchat.decoding.records import Failed, Record, Start

INTERRUPTED = Failed("interrupted", "termchat stopped during this reply", "use Continue to resume from its last token")
"""Ends a reply whose process went away."""
_LEFT = Failed(
    "interrupted", "copied while another termchat was writing it", "use Continue to resume from its last token"
)


class LookingOn:
    """Nothing of what is only looked on is saved. Whatever makes the chat another one goes on in a copy of it, or in the chat
    itself once nobody else writes it.

    `followed` says what is known of the saved chat, None while no chat is looked on; `writing`, whether somebody writes it.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self.followed: Followed | None = None
        self.writing = False
        self._leaf: int | None = None

    def begin(self, followed: Followed, info: SessionInfo) -> None:
        """The chat that is shown is followed from now on."""
        state = self._state
        self.followed, self.writing, self._leaf = followed, True, state.conversation.leaf
        state.conversation.unsent = Unsent()  # the other's draft and queue are its own
        state.recorder.looks_on(state.conversation, info)
        hint = "it is shown here as it grows; a message from here goes into a copy (/copy-chat makes one now)"
        state.changed(StatusChanged(), Notice("another termchat is writing this chat", hint))

    def end(self) -> None:
        """Another chat is to be shown."""
        self.followed, self.writing = None, False

    def take(self, conversation: Conversation, news: SessionNews) -> None:
        """Shows what was saved since `followed`; what is about another chat, or asked for before it was copied, is dropped."""
        state = self._state
        if self.followed is None or conversation is not state.conversation:
            return
        if (news.followed, news.writing, news.leaf) == (self.followed, self.writing, self._leaf):
            return
        shown, at_end = conversation.leaf, conversation.leaf == self._leaf
        records = defaultdict[int, list[Record]](list)
        for number, record in news.records:
            records[number].append(record)
        for number in sorted(conversation.nodes.keys() & records):  # several where walks grow
            self._add(number, records)
        for node in news.nodes:
            conversation.attach(node)
            self._add(node.number, records)
        self.followed, self.writing, self._leaf = news.followed, news.writing, news.leaf
        conversation.leaf = news.leaf if at_end and news.leaf in conversation.nodes else shown
        if news.nodes or conversation.leaf != shown:
            state.changed(PathChanged())
        if not self.writing:
            self._close(INTERRUPTED)
        state.changed(StatusChanged())

    def own(self) -> None:
        """The chat is to become another one: what follows is said here. Does nothing for a chat that is not looked on."""
        if self.followed is not None:
            self._go_on(copy=self.writing)

    def copy(self) -> None:
        """Goes on in a copy of the chat, looked on or not."""
        state = self._state
        if state.busy or state.conversation.leaf is None:
            why = "a reply is running" if state.busy else "nothing was said yet"
            state.changed(Notice(f"cannot copy the chat: {why}"))
        else:
            self._go_on(copy=True)

    # --- how it is done ----------------------------------------------------------------------------------------------

    def _go_on(self, *, copy: bool) -> None:
        state = self._state
        self.end()
        state.recorder.goes_on(state.conversation, copy=copy)
        self._close(_LEFT, saved=True)
        if copy:
            state.changed(Notice("this is a copy of the chat now", "the chat itself stays as it is"))
        state.changed(PathChanged(), StatusChanged())

    def _add(self, number: int, records: Mapping[int, Sequence[Record]]) -> None:
        state, node = self._state, self._state.conversation.nodes[number]
        for record in records.get(number, ()):
            if isinstance(record, Start):
                state.live.begin()
            state.session.add(node, record)
            if node.walk is None or number == state.conversation.leaf:
                state.live.take(record)
            state.changed(ReplyGrew(number), LiveChanged())

    def _close(self, end: Failed, *, saved: bool = False) -> None:
        """Ends the replies that nobody will write any more."""
        state, chat = self._state, self._state.conversation
        for node in [node for node in chat.nodes.values() if not node.done]:
            if saved:
                state.session.add(node, end)
            else:
                chat.add(node, end)
            state.changed(ReplyGrew(node.number))
