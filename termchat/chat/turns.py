"""What a person says: the queue, the prompt ids of a turn, and the way back for one that cannot be sent."""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import NamedTuple

from termchat.chat.beginning import Make, ReplyBeginning, Then
from termchat.chat.changes import Notice, PathChanged, StatusChanged
from termchat.chat.full_context import MakingRoom
from termchat.chat.prompting import is_cut, messages
from termchat.chat.replies import Replies
from termchat.chat.state import State
from termchat.conversation.node import Omission
from termchat.conversation.session import Session
from termchat.conversation.tree import Conversation, Node
from termchat.conversation.unsent import Unsent
from termchat.decoding.records import Failed
from termchat.engine.port import Event, Message, Render, Rendered, Tokenize, Tokenized


class _Asked(NamedTuple):
    """A turn whose prompt ids are asked for; `anew`: those of its whole prompt, whatever stands before it. `before` is the leaf
    that was shown until then. The reply is to begin with `text`, and `then` follows. `unsent` is what a person wrote, if that
    is not the turn's message. `make` makes the reply."""

    session: Session
    node: Node
    anew: bool
    before: int | None
    text: str
    then: Then
    unsent: str | None
    make: Make

    @property
    def conversation(self) -> Conversation:
        return self.session.conversation


class _Wish(NamedTuple):
    """How a text of a chat's queue is answered, if not by one reply that goes on."""

    conversation: Conversation
    text: str
    then: Then
    make: Make | None


class Turns:
    """Messages go out in order, one after each reply."""

    def __init__(self, state: State, replies: Replies) -> None:
        self._state, self._replies = state, replies
        self._cancelled = False
        self._wishes: list[_Wish] = []
        self.room = MakingRoom(state, replies, self.begin)

    @property
    def queue(self) -> deque[str]:
        """Texts of the shown chat, sent while a reply was running or the model was loading; the next to go out first."""
        return self._state.conversation.unsent.queue

    def add(self, text: str, *, then: Then = "go on", make: Make | None = None) -> None:
        """Queues a message; for the rest see `begin`. A text that is taken back is a message as any other."""
        if make is not None:
            self._wishes.append(_Wish(self._state.conversation, text, then, make))
        self.queue.append(text)
        self._kept()

    def next(self) -> None:
        """Sends the first text of the queue, without those that are too large; nothing else is going on."""
        while self.queue and not self._state.takes(self.queue[0]):
            self.queue.popleft()
        if self.queue:
            text = self.queue.popleft()
            wish = self._wish(text)
            self.say(text, then=wish.then, make=wish.make)

    def _wish(self, text: str) -> _Wish:
        """How this text is to be answered, which is forgotten."""
        chat = self._state.conversation
        wish = next((wish for wish in self._wishes if wish.conversation is chat and wish.text == text), None)
        if wish is None:
            return _Wish(chat, text, "go on", None)
        self._wishes.remove(wish)
        return wish

    def say(self, text: str, *, then: Then = "go on", make: Make | None = None) -> None:
        """Sends a message at the end of the chat; for the rest see `begin`."""
        chat = self._state.conversation
        parent = chat.nodes[chat.leaf] if chat.leaf is not None else None
        chat.unsent.asked = text
        self.begin(text, parent, parent.kept() if parent else 0, then=then, make=make)

    def hold(self) -> None:
        """Has the queue of a chat that is opened wait for the next message."""
        self._replies.held = bool(self.queue)

    def take_back(self, number: int) -> str:
        """Removes a message from the queue and returns it; 0 is the next to go out."""
        text = self._remove(number)
        if text not in self.queue:
            self._wish(text)
        self._kept()
        return text

    def move(self, number: int, to: int) -> None:
        self.queue.insert(to, self._remove(number))
        self._kept()

    def _remove(self, number: int) -> str:
        text = self.queue[number]
        del self.queue[number]
        return text

    def _kept(self) -> None:
        self._state.session.save_unsent()
        self._state.changed(StatusChanged())

    def begin(
        self,
        text: str,
        parent: Node | None,
        at: int,
        omitted: Omission | None = None,
        *,
        system: str | None = None,
        reply: str = "",
        then: Then = "go on",
        unsent: str | None = None,
        make: Make | None = None,
    ) -> Node:
        """Starts a turn after `parent` and asks for its prompt ids.

        Args:
            omitted: turns that are left out of the prompt.
            system: the system prompt of a first turn, if it is not the one that the chat began with.
            reply: what the reply begins with, whatever the next one was to begin with; `then` is what follows.
            unsent: what is given back if it cannot be sent; None stands for `text`.
            make: what makes the reply, or the replies; None makes one.
        """
        state, chat = self._state, self._state.conversation
        before, chat.leaf = chat.leaf, parent.number if parent else None
        foreign = state.is_foreign()
        turn = chat.grow("user", parent=chat.leaf, at=at, text=text)
        turn.omitted, turn.system, turn.think = omitted, system, state.tuning.thinks
        anew = foreign or omitted is not None
        self._cancelled = self._replies.held = False
        state.enter("rendering")
        state.changed(PathChanged())
        asked = _Asked(state.session, turn, anew, before, reply, then, unsent, make or self._replies.start)
        state.line.ask(
            question(state, messages(chat, model=state.model), text, parent, anew=anew),
            partial(self._hear, asked),
        )
        return turn

    def begin_beside(
        self,
        turn: Node,
        text: str | None = None,
        *,
        system: str | None = None,
        reply: str = "",
        then: Then = "go on",
        unsent: str | None = None,
        make: Make | None = None,
    ) -> Node:
        """A turn beside another one: like it, but for what is given (see `begin`)."""
        parent = self._state.conversation.nodes.get(turn.parent or 0)
        text = turn.written if text is None else text
        system = turn.system if system is None else system
        return self.begin(
            text, parent, turn.at, turn.omitted, system=system, reply=reply, then=then, unsent=unsent, make=make
        )

    def cancel(self) -> None:
        """Takes the turn back as soon as its ids arrive."""
        self._cancelled = True

    def _hear(self, asked: _Asked, event: Event) -> None:
        if isinstance(event, Rendered):
            remark, first = event.remark, asked.node.parent is None or asked.anew
            if remark is not None and first:  # once in a chat
                self._state.changed(Notice(remark.message, remark.hint, "warning"))
            self._prompted(asked, event.ids, whole=event.whole)
        elif isinstance(event, Tokenized):
            self._prompted(asked, event.ids, whole=asked.anew)
        elif isinstance(event, Failed):
            self._refuse(asked, event)

    def _prompted(self, asked: _Asked, ids: list[int], *, whole: bool) -> None:
        """The prompt ids of the turn are there; of what the reply begins with they may still be asked for."""
        prefill = asked.text or ("" if self.room.is_request(asked.node) else self._state.first_words)
        if prefill and not self._cancelled and self._state.model is not None:
            begin = partial(self._hear_prefill, asked, ids, whole, "" if asked.text else prefill)
            self._state.line.ask(Tokenize(prefill), begin)
        else:
            self._begin(asked, ids, [], "", whole=whole)

    def _hear_prefill(self, asked: _Asked, ids: list[int], whole: bool, prefill: str, event: Event) -> None:
        if isinstance(event, Tokenized):
            self._begin(asked, ids, event.ids, prefill, whole=whole)
        elif isinstance(event, Failed):
            self._refuse(asked, event)

    def _begin(self, asked: _Asked, ids: list[int], forced: list[int], prefill: str, *, whole: bool) -> None:
        """Starts the reply, with these tokens first, which are those of `prefill`, if there is room for it."""
        turn, model = asked.node, self._state.model
        turn.prompt_ids.extend(ids)
        turn.whole = whole and turn.parent is not None
        length = asked.conversation.length(turn.number) + len(forced)
        if self._cancelled or model is None:
            self._take_back(asked)
        elif length > model.context:
            self._make_room(asked, length, model.context)
        else:
            if not asked.text and not self.room.is_request(turn):
                self._state.prefill = None
            self._record(asked)
            beginning = ReplyBeginning(
                turn,
                len(turn.ids),
                seed=self._state.seed(),
                done=0,
                longer=len(forced),  # what is forced does not count as drawn
                limit=self.room.limit(turn),
                ids=forced,
                prefill=prefill,
                then=asked.then,
            )
            asked.make(beginning)

    def _record(self, asked: _Asked) -> None:
        """Keeps the turn; from now on it is no longer a text that was not sent."""
        state, unsent = self._state, asked.conversation.unsent
        if unsent is state.blank:
            state.blank = Unsent()
        if not self.room.is_request(asked.node):
            unsent.asked = ""
        asked.session.add_node(asked.node)
        asked.session.save_unsent()

    def _make_room(self, asked: _Asked, length: int, context: int) -> None:
        failure = Failed(
            "context",
            f"the prompt has {length} tokens, the context {context}",
            f"shorten it, start a new chat, or {self._state.larger_context}",
        )
        state, chat = self._state, asked.conversation
        if asked.text or chat is not state.conversation or chat.leaf != asked.node.number:
            self._refuse(asked, failure)
            return
        self._drop(asked)
        state.enter("idle")
        state.changed(PathChanged())
        if self.room.is_request(asked.node):
            self.room.without_summary()
        elif not self.room.refused(asked.node, length, failure, asked.make):
            state.give_back(asked.session, asked.node.written if asked.unsent is None else asked.unsent)
            state.fail(failure)

    def _refuse(self, asked: _Asked, failure: Failed) -> None:
        self._take_back(asked)
        self._state.fail(failure)

    def _take_back(self, asked: _Asked) -> None:
        """A turn that could not be sent leaves its chat; its text goes back to whoever typed it there."""
        state = self._state
        self._drop(asked)
        unsent = self.room.let_go(asked.node) if asked.unsent is None else asked.unsent
        state.give_back(asked.session, unsent)
        state.enter("idle")
        state.changed(PathChanged(), StatusChanged())

    @staticmethod
    def _drop(asked: _Asked) -> None:
        """Removes a turn from its chat, which shows what it showed before."""
        chat, leaf = asked.conversation, asked.conversation.leaf
        chat.drop(asked.node)
        if leaf != asked.node.number:  # another branch is shown by now
            chat.leaf = leaf
        elif asked.before is not None and not chat.is_hidden(asked.before):
            chat.leaf = asked.before


def question(state: State, said: list[Message], text: str, parent: Node | None, *, anew: bool) -> Render | Tokenize:
    """What asks for the prompt ids of a turn behind `parent`.

    Args:
        said: all that the model is told, the turn's `text` last.
        anew: the whole prompt is wanted, whatever stands before the turn.
    """
    if state.conversation.raw:
        whole = "".join(message.content for message in said)
        return Tokenize(whole if anew else text, begin=anew or parent is None)
    chat = state.conversation
    before = [] if anew else chat.ids()
    return Render(said, before, append=not anew and is_cut(chat.path()), think=state.tuning.thinks)
