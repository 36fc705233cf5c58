"""What a person says: the queue, the prompt ids of a turn, and the way back for one that cannot be sent."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import msgspec

from termchat.chat.changes import WAYS, Full, Notice, PathChanged, StatusChanged, Way
from termchat.chat.prompting import Turn, messages, omission_of, question, turns_of
from termchat.chat.replies import Replies
from termchat.chat.reply_run import ReplyBeginning
from termchat.chat.state import State
from termchat.conversation.node import Omission
from termchat.conversation.session import Session
from termchat.conversation.tree import Conversation, Node
from termchat.conversation.unsent import ALONE, Queued, Unsent, Wish
from termchat.decoding.records import Failed
from termchat.engine.port import Event, Rendered, Tokenize, Tokenized

FREE = 4
"""One part in so many of the context is free again once room was made."""

SUMMARY = 8
"""One part in so many of the context is the most that a summary takes."""

REQUEST = "Summarise our conversation so far in a few sentences: names, facts, decisions, and what is still open."
"""What asks a model for a summary; it is a turn as any other."""


def sizes_of(turns: Sequence[Turn]) -> list[int]:
    """Estimate how many ids each turn takes in a prompt; a turn that holds the whole prompt counts without those before it."""
    sizes: list[int] = []
    left_out = 0
    for turn in turns:
        head, size = turn[0].node, sum(span.count for span in turn)
        if head.omitted is not None:
            left_out = head.omitted.turns
        sizes.append(max(size - sum(sizes[left_out:]), 1) if head.whole else size)
    return sizes


def most_kept(sizes: Sequence[int], needed: int, context: int) -> int:
    """Count the newest turns that may stay so that with `needed` more ids a part of the context is free.

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


class _Asked(NamedTuple):
    """A turn whose prompt ids are asked for; `anew`: those of its whole prompt, whatever stands before it. `before` is the leaf
    that was shown until then, `wish` how it is to be answered."""

    session: Session
    node: Node
    anew: bool
    before: int | None

    @property
    def wish(self) -> Wish:
        return self.node.wish or ALONE

    @property
    def conversation(self) -> Conversation:
        return self.session.conversation


class Turns:
    """Messages go out in order, one after each reply."""

    def __init__(self, state: State, replies: Replies) -> None:
        self._state, self._replies = state, replies
        self._cancelled = False
        self.room = MakingRoom(state, replies, self)

    @property
    def queue(self) -> list[str]:
        """Texts of the shown chat, sent while a reply was running or the model was loading; the next to go out first."""
        return [message.text for message in self._queue]

    @property
    def _queue(self) -> deque[Queued]:
        return self._state.conversation.unsent.queue

    def add(self, text: str, wish: Wish) -> None:
        """Queue a message."""
        self._queue.append(Queued(text, wish))
        self._kept()

    def next(self) -> None:
        """Send the first message of the queue, without those that are too large; nothing else is going on."""
        while self._queue and not self._state.takes(self._queue[0].text):
            self._queue.popleft()
        if self._queue:
            text, wish = self._queue.popleft()
            chat = self._state.conversation
            parent = chat.nodes[chat.leaf] if chat.leaf is not None else None
            chat.unsent.asked = text
            self.begin(text, parent, parent.kept() if parent else 0, wish=wish)

    def hold(self) -> None:
        """Keep the queue of a chat that is opened waiting for the next message."""
        self._replies.held = bool(self.queue)

    def take_back(self, number: int) -> str:
        """Remove a message from the queue and return its text; 0 is the next to go out."""
        message = self._queue[number]
        del self._queue[number]
        self._kept()
        return message.text

    def move(self, number: int, to: int) -> None:
        """Move a message of the queue to another place."""
        message = self._queue[number]
        del self._queue[number]
        self._queue.insert(to, message)
        self._kept()

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
        wish: Wish = ALONE,
    ) -> Node:
        """Start a turn after `parent` and ask for its prompt ids.

        Args:
            omitted: turns that are left out of the prompt.
            system: the system prompt of a first turn, if it is not the one that the chat began with.
            wish: how it is to be answered; the turn has it until its reply begins.
        """
        state, chat = self._state, self._state.conversation
        before, chat.leaf = chat.leaf, parent.number if parent else None
        foreign = state.is_foreign()
        turn = chat.grow("user", parent=chat.leaf, at=at, text=text)
        turn.omitted, turn.system, turn.think, turn.wish = omitted, system, state.tuning.thinks, wish
        anew = foreign or omitted is not None
        self._cancelled = self._replies.held = False
        state.enter("rendering")
        state.changed(PathChanged())
        asked = _Asked(state.session, turn, anew, before)
        state.line.ask(
            question(state, messages(chat, model=state.model), text, parent, anew=anew),
            partial(self._hear, asked),
        )
        return turn

    def begin_beside(
        self, turn: Node, text: str | None = None, *, system: str | None = None, wish: Wish = ALONE
    ) -> Node:
        """Start a turn beside another one: like it, except for what is given (see `begin`)."""
        parent = self._state.conversation.nodes.get(turn.parent or 0)
        text = turn.written if text is None else text
        return self.begin(
            text, parent, turn.at, turn.omitted, system=turn.system if system is None else system, wish=wish
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
        prefill = asked.wish.words or ("" if self.room.is_request(asked.node) else self._state.first_words)
        if prefill and not self._cancelled and self._state.model is not None:
            begin = partial(self._hear_prefill, asked, ids, whole, "" if asked.wish.words else prefill)
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
            if not asked.wish.words and not self.room.is_request(turn):
                self._state.prefill = None
            self._record(asked)
            wish, turn.wish = asked.wish, None
            beginning = ReplyBeginning(
                turn,
                len(turn.ids),
                seed=self._state.seed(),
                done=0,
                longer=len(forced),  # what is forced does not count as drawn
                limit=self.room.limit(turn),
                ids=forced,
                prefill=prefill,
                then=wish.then,
                plan=wish.plan,
            )
            self._replies.start(beginning)

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
        if asked.wish.words or chat is not state.conversation or chat.leaf != asked.node.number:
            self._refuse(asked, failure)
            return
        self._drop(asked)
        state.enter("idle")
        state.changed(PathChanged())
        if self.room.is_request(asked.node):
            self.room.without_summary()
        elif not self.room.refused(asked.node, length, failure):
            state.give_back(asked.session, asked.node.written if asked.wish.unsent is None else asked.wish.unsent)
            state.fail(failure)

    def _refuse(self, asked: _Asked, failure: Failed) -> None:
        self._take_back(asked)
        self._state.fail(failure)

    def _take_back(self, asked: _Asked) -> None:
        """A turn that could not be sent leaves its chat; its text goes back to whoever typed it there."""
        state = self._state
        self._drop(asked)
        unsent = self.room.let_go(asked.node) if asked.wish.unsent is None else asked.wish.unsent
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


class MakingRoom:
    """Handles one full context at a time; `state.full` is the one that a person is asked about."""

    def __init__(self, state: State, replies: Replies, turns: Turns) -> None:
        self._state, self._replies, self._turns = state, replies, turns
        self._request: tuple[Full, Node] | None = None

    def is_request(self, turn: Node) -> bool:
        """Whether a turn is the one that asks for the summary."""
        return self._request is not None and self._request[1] is turn

    def limit(self, turn: Node) -> int:
        """The most tokens that the reply to a turn may have; 0 means no limit."""
        context = self._state.model.context if self._state.model is not None else 0
        return max(context // SUMMARY, 1) if self.is_request(turn) else 0

    def refused(self, turn: Node, length: int, failure: Failed) -> bool:
        """A turn, already taken out of the shown chat again, needs `length` ids, too many; False if nothing can be done."""
        chat, parent = self._state.conversation, turn.parent
        wanted = self._wanted(parent, turn.omitted, length)
        if wanted is None:
            return False
        node = chat.nodes[parent] if parent is not None else None
        full = Full(self._state.session, turn.written, node, turn.at, chat.leaf, wanted, failure, turn.wish or ALONE)
        if turn.omitted is not None:  # more has to go than was thought
            omitted = msgspec.structs.replace(turn.omitted, turns=wanted)
            self._turns.begin(full.text, full.parent, full.at, omitted, wish=full.wish)
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
            self._request = full, self._turns.begin(REQUEST, last.node, at, None)
        elif way != "stop":
            self._turns.begin(full.text, full.parent, full.at, Omission(full.turns), wish=full.wish)
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
            self._turns.begin(full.text, full.parent, full.at, Omission(full.turns, reply.number), wish=full.wish)
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
