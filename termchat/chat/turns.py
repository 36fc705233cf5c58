"""What a person says: the queue, the prompt ids of a turn, and the way back for one that cannot be sent."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import partial
from itertools import accumulate, takewhile
from typing import NamedTuple

import msgspec

from termchat.chat.changes import WAYS, Full, Notice, PathChanged, StatusChanged, Way
from termchat.chat.prompting import Turn, build_messages, build_question, omission_of, turns_of
from termchat.chat.replies import Replies
from termchat.chat.reply_group import ReplyBeginning
from termchat.chat.state import State
from termchat.conversation.node import Omission
from termchat.conversation.session import Session
from termchat.conversation.tree import Node
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
    return sum(1 for _ in takewhile(lambda total: total <= room, accumulate(reversed(sizes))))


class _Asked(NamedTuple):
    """A turn that waits for its prompt ids; `anew`: those of the whole prompt, whatever precedes it. `before` is the leaf
    shown until then, `wish` how to answer it.
    """

    session: Session
    node: Node
    anew: bool
    before: int | None

    @property
    def wish(self) -> Wish:
        return self.node.wish or ALONE


class Turns:
    """Messages go out in order, one after each reply. One full context is handled at a time; `chat.full` is the one that a
    person is asked about."""

    def __init__(self, chat: State, replies: Replies) -> None:
        self._chat, self._replies = chat, replies
        self._cancelled = False
        self._request: tuple[Full, Node] | None = None
        """The turn that asks for a summary, and what is to be sent behind it."""

    @property
    def queue(self) -> list[str]:
        """Texts of the shown chat, sent while a reply was running or the model was loading; the next to go out first."""
        return [message.text for message in self._queue]

    @property
    def _queue(self) -> deque[Queued]:
        return self._chat.conversation.unsent.queue

    def add(self, text: str, wish: Wish) -> None:
        """Queue a message."""
        self._queue.append(Queued(text, wish))
        self._save_queue()

    def send_next(self) -> None:
        """Send the first message of the queue that is not too large."""
        while self._queue and not self._chat.accepts_text(self._queue[0].text):
            self._queue.popleft()
        if self._queue:
            text, wish = self._queue.popleft()
            tree = self._chat.conversation
            parent = tree.nodes[tree.leaf] if tree.leaf is not None else None
            tree.unsent.asked = text
            self.begin_turn(text, parent, parent.count_kept() if parent else 0, wish=wish)

    def take_back(self, number: int) -> str:
        """Remove a message from the queue and return its text; 0 is the next to go out."""
        message = self._queue[number]
        del self._queue[number]
        self._save_queue()
        return message.text

    def move_queued(self, number: int, to: int) -> None:
        """Move a message of the queue to another place."""
        message = self._queue[number]
        del self._queue[number]
        self._queue.insert(to, message)
        self._save_queue()

    def _save_queue(self) -> None:
        self._chat.session.save_unsent()
        self._chat.add_changes(StatusChanged())

    # --- a turn -------------------------------------------------------------------------------------------------------

    def begin_turn(
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
        chat, tree = self._chat, self._chat.conversation
        before, tree.leaf = tree.leaf, parent.number if parent else None
        anew = chat.is_foreign() or omitted is not None
        turn = tree.grow_node("user", parent=tree.leaf, at=at, text=text)
        turn.omitted, turn.system, turn.think, turn.wish = omitted, system, chat.tuning.thinks, wish
        self._cancelled = self._replies.held = False
        chat.enter_phase("rendering")
        chat.add_changes(PathChanged())
        command = build_question(chat, build_messages(tree, model=chat.model), text, parent, anew=anew)
        chat.host.send_command(command, partial(self._hear_prompt, _Asked(chat.session, turn, anew, before)))
        return turn

    def begin_beside(
        self, turn: Node, text: str | None = None, *, system: str | None = None, wish: Wish = ALONE
    ) -> None:
        """Start a sibling of a turn, overriding the given fields (see `begin_turn`)."""
        parent = self._chat.conversation.nodes.get(turn.parent or 0)
        text = turn.written if text is None else text
        self.begin_turn(
            text, parent, turn.at, turn.omitted, system=turn.system if system is None else system, wish=wish
        )

    def stop(self) -> None:
        """End the running reply; take back a turn that still waits for its ids."""
        if self._chat.phase == "rendering":
            self._cancelled = True
        elif self._chat.busy:
            self._replies.stop()

    def _hear_prompt(self, asked: _Asked, event: Event) -> None:
        """Take the prompt ids of a turn; those of what the reply begins with may still be asked for."""
        chat, whole = self._chat, asked.anew
        if isinstance(event, Rendered):
            remark, whole = event.remark, event.whole
            if remark is not None and (asked.node.parent is None or asked.anew):  # once in a chat
                chat.add_changes(Notice(remark.message, remark.hint, "warning"))
        elif isinstance(event, Failed):
            self._refuse_turn(asked, event)
        if not isinstance(event, (Rendered, Tokenized)):
            return
        prefill = asked.wish.words or ("" if self._is_request(asked.node) else chat.first_words)
        if prefill and not self._cancelled and chat.model is not None:
            shown = "" if asked.wish.words else prefill
            chat.host.send_command(Tokenize(prefill), partial(self._hear_prefill, asked, event.ids, whole, shown))
        else:
            self._begin_reply(asked, event.ids, [], "", whole=whole)

    def _hear_prefill(self, asked: _Asked, ids: list[int], whole: bool, prefill: str, event: Event) -> None:
        if isinstance(event, Tokenized):
            self._begin_reply(asked, ids, event.ids, prefill, whole=whole)
        elif isinstance(event, Failed):
            self._refuse_turn(asked, event)

    def _begin_reply(self, asked: _Asked, ids: list[int], forced: list[int], prefill: str, *, whole: bool) -> None:
        """Start the reply with these tokens, those of `prefill`, if they fit into the context."""
        chat, turn, model = self._chat, asked.node, self._chat.model
        turn.prompt_ids.extend(ids)
        turn.whole = whole and turn.parent is not None
        length = asked.session.conversation.count_ids(turn.number) + len(forced)
        if self._cancelled or model is None:
            self._take_back(asked)
        elif length > model.context:
            self._find_room(asked, length, model.context)
        else:
            is_request, unsent = self._is_request(turn), asked.session.conversation.unsent
            if not asked.wish.words and not is_request:
                chat.prefill = None
            if unsent is chat.blank:
                chat.blank = Unsent()
            if not is_request:
                unsent.asked = ""  # it is no longer a text that was not sent
            asked.session.add_node(turn)
            asked.session.save_unsent()
            wish, turn.wish = asked.wish, None
            beginning = ReplyBeginning(
                turn,
                len(turn.ids),
                seed=chat.choose_seed(),
                done=0,
                longer=len(forced),  # what is forced does not count as drawn
                limit=max(model.context // SUMMARY, 1) if is_request else 0,
                ids=forced,
                prefill=prefill,
                then=wish.then,
                plan=wish.plan,
            )
            self._replies.start(beginning)

    def _refuse_turn(self, asked: _Asked, failure: Failed) -> None:
        self._take_back(asked)
        self._chat.report_failure(failure)

    def _take_back(self, asked: _Asked) -> None:
        """Remove an unsent turn from its chat and give its text back to the composer."""
        chat, text = self._chat, asked.node.written
        self._drop_turn(asked)
        if self._request is not None and self._request[1] is asked.node:
            (full, _), self._request = self._request, None
            self._show_again(full)
            text = full.text if full.failure is not None else ""
        chat.give_back(asked.session, text if asked.wish.unsent is None else asked.wish.unsent)
        chat.enter_phase("idle")
        chat.add_changes(PathChanged(), StatusChanged())

    @staticmethod
    def _drop_turn(asked: _Asked) -> None:
        """Remove a turn from its chat and show the leaf from before."""
        tree, leaf = asked.session.conversation, asked.session.conversation.leaf
        tree.drop_node(asked.node)
        if leaf != asked.node.number:  # another branch is shown by now
            tree.leaf = leaf
        elif asked.before is not None and not tree.is_hidden(asked.before):
            tree.leaf = asked.before

    # --- a full context -----------------------------------------------------------------------------------------------

    def make_room(self, way: Way) -> None:
        """Decide about `chat.full`: do nothing, leave out the oldest turns, or have them summarised first."""
        chat = self._chat
        full, chat.full = chat.full, None
        if full is None:
            return
        chat.add_changes(StatusChanged())
        if way != "stop" and chat.phase == "idle":
            self._handle_full(full, way)
        elif full.failure is not None:
            chat.give_back(full.session, full.text)

    def withdraw_question(self) -> None:
        """Ask no more about a full context once the person has done something else."""
        chat, full = self._chat, self._chat.full
        if full is not None and (full.session is not chat.session or full.leaf != chat.conversation.leaf or chat.busy):
            self.make_room("stop")

    def go_on(self) -> bool:
        """With nothing else going on: send what waited for a summary, or ask about a reply that was cut; return whether one of
        them did."""
        chat, tree = self._chat, self._chat.conversation
        cut, self._replies.cut = self._replies.cut, None
        if self._request is not None:
            (full, request), self._request = self._request, None
            summary = next(iter(full.session.conversation.list_children(request.number)), None)
            ended = summary is not None and summary.finished is not None and summary.finished.reason != "user"
            if summary is not None and ended and summary.text().strip() and full.session is chat.session:
                self._send(full, Omission(full.turns, summary.number))
                return True
            if full.failure is not None:
                chat.give_back(full.session, full.text)
            self._show_again(full)
        elif cut is not None and tree.leaf == cut.number:  # the reply can be regenerated with more room
            head = turns_of(tree.find_path(cut.number))[-1][0].node
            made_room = head.omitted is not None and chat.on_full != "ask"
            turns = None if made_room else self._turns_to_omit(head.parent, head.omitted, tree.count_ids(cut.number))
            if turns is not None:
                parent = tree.nodes[head.parent] if head.parent is not None else None
                self._ask_about(Full(chat.session, head.written, parent, head.at, cut.number, turns))
                return True
        return False

    def _is_request(self, turn: Node) -> bool:
        """Tell whether a turn is the one that asks for the summary."""
        return self._request is not None and self._request[1] is turn

    def _find_room(self, asked: _Asked, length: int, context: int) -> None:
        """Take back a turn that does not fit, and see what can be left out."""
        failure = Failed(
            "context",
            f"the prompt has {length} tokens, the context {context}",
            f"shorten it, start a new chat, or {self._chat.abilities.larger_context}",
        )
        chat, tree, turn = self._chat, self._chat.conversation, asked.node
        if asked.wish.words or asked.session is not chat.session or tree.leaf != turn.number:
            self._refuse_turn(asked, failure)
            return
        self._drop_turn(asked)
        chat.enter_phase("idle")
        chat.add_changes(PathChanged())
        if self._request is not None and self._request[1] is turn:
            (full, _), self._request = self._request, None
            chat.add_changes(Notice("no room to ask for a summary", "the turns were dropped without a summary"))
            self._handle_full(full, "drop")
            return
        turns = self._turns_to_omit(turn.parent, turn.omitted, length)
        if turns is None:
            chat.give_back(asked.session, turn.written if asked.wish.unsent is None else asked.wish.unsent)
            chat.report_failure(failure)
            return
        parent = tree.nodes[turn.parent] if turn.parent is not None else None
        full = Full(chat.session, turn.written, parent, turn.at, tree.leaf, turns, failure, asked.wish)
        if turn.omitted is not None:  # more has to go than was thought
            self._send(full, msgspec.structs.replace(turn.omitted, turns=turns))
        else:
            self._ask_about(full)

    def _ask_about(self, full: Full) -> None:
        chat = self._chat
        if chat.on_full == "ask":
            self._replies.held = True  # what else was written waits, too
            chat.full = full
            chat.add_changes(StatusChanged())
        else:
            self._handle_full(full, next(known for known in WAYS if known == chat.on_full))

    def _handle_full(self, full: Full, way: Way) -> None:
        if way == "summarise" and full.can_summarise and full.parent is not None:
            last = turns_of(full.session.conversation.find_path(full.parent.number))[full.turns - 1][-1]
            at = full.at if last.node is full.parent else last.count
            self._request = full, self.begin_turn(REQUEST, last.node, at)
        elif way != "stop":
            self._send(full, Omission(full.turns))
        elif full.failure is not None:
            self._chat.give_back(full.session, full.text)
            self._chat.report_failure(full.failure)

    def _send(self, full: Full, omitted: Omission) -> None:
        self.begin_turn(full.text, full.parent, full.at, omitted, wish=full.wish)

    def _turns_to_omit(self, leaf: int | None, omitted: Omission | None, length: int) -> int | None:
        """Count the turns before a message that have to be left out; None where that does not help."""
        model, tree = self._chat.model, self._chat.conversation
        path = tree.find_path(leaf) if leaf is not None else []
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

    def _show_again(self, full: Full) -> None:
        """Show the chat as it was before."""
        if full.session is self._chat.session:
            full.session.conversation.leaf = full.leaf
            full.session.save_leaf()
            self._chat.add_changes(PathChanged())
