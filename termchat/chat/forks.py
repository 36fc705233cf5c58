"""Replies once more: made again, gone on with, or forked at one of their tokens."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from termchat.chat.changes import Notice, PathChanged
from termchat.chat.replies import Replies
from termchat.chat.reply_run import ReplyBeginning
from termchat.chat.state import State
from termchat.chat.turns import Turns
from termchat.conversation.position import position_of
from termchat.conversation.session import Session
from termchat.conversation.tree import Node, Span
from termchat.conversation.unsent import ALONE, Wish
from termchat.decoding.records import Failed
from termchat.engine.port import Event, Tokenize, Tokenized

_END = Wish(then="end")
"""A branch of just the tokens that are given."""


class _Fork(NamedTuple):
    """A fork that waits for its ids (None until they are there), or for the reply that runs to end. `seed` None: its own.
    `prefill` is what a reply that is made again begins with; None: it is no such reply. The replies are those of the `wish`."""

    node: Node
    at: int
    ids: Sequence[int] | None
    wish: Wish
    seed: int | None = None
    prefill: str | None = None


class Forks:
    """What grows from a reply or beside it."""

    def __init__(self, state: State, turns: Turns, replies: Replies) -> None:
        self._state, self._turns, self._replies = state, turns, replies
        self._fork: _Fork | None = None

    @property
    def waits(self) -> bool:
        return self._fork is not None

    def regenerate(self, *, same: bool = False, wish: Wish = ALONE) -> None:
        """Make another reply to the last message, beside the one that is there: with the seed that is set, else a new one. It
        begins as that did, if a person set how.

        `same` keeps the seed of the reply that is there: only other knobs make it another one. `wish` is the plan of the
        replies, and what follows the words that they begin with, here and below.
        """
        state, chat = self._state, self._state.conversation
        if not state.ready("regenerate"):
            return
        spans = chat.reply()
        number = spans[0].node.parent if spans else chat.leaf
        if number is None:
            state.changed(Notice("no reply to regenerate"))
            return
        turn = chat.nodes[number]
        prefill = state.beginning
        switched = state.model is not None and state.model.thinking_switch and turn.think != state.tuning.thinks
        if state.is_foreign() or switched:  # its ids are another model's, or say otherwise: the message is sent again
            state.prefill = prefill or state.prefill
            self._turns.begin_beside(turn, wish=wish)
            return
        before = _seed(spans) if same else None
        seed = state.seed() if before is None else before
        self._ask(_Fork(turn, len(turn.ids), (), wish, seed, prefill), prefill)

    def continue_reply(self) -> None:
        """Continue the last reply from its last token, with its own seed, as if it had never stopped; a reply without ids of
        the loaded model, from its text."""
        state = self._state
        spans = state.conversation.reply()
        if not state.ready("continue"):
            return
        if not spans:
            if state.conversation.leaf is not None:
                self.regenerate()
            else:
                state.changed(Notice("no reply to continue yet"))
            return
        last = spans[-1].node
        reason = last.finished.reason if last.finished is not None else None
        done, text = sum(span.count for span in spans), "".join(span.node.text(span.count) for span in spans)
        if reason == "end" and done and not state.ignores_end:
            state.changed(Notice("the model finished this reply", "regenerate it or send the next message"))
        elif not done and state.model is not None and not state.model.abilities.ids:
            self.regenerate()
        elif not state.offered("continue"):
            pass
        elif state.is_foreign() or (text and not done):
            self.from_text(spans, text)
        elif state.model is not None and state.conversation.length(last.number) >= state.model.context:
            state.changed(Notice("the context is full", f"start a new chat, or {state.larger_context}"))
        else:
            # Whoever continues a reply that was long enough wants as much again.
            self._grow(last, len(last.ids), longer=done if reason == "length" else 0)

    def fork(
        self,
        node: Node,
        at: int,
        *,
        ids: Sequence[int] = (),
        text: str = "",
        seed: int | None = None,
        wish: Wish = ALONE,
    ) -> None:
        """Make another reply from the first `at` tokens of a reply's node, on the path or off it, with its dice or this seed.

        `ids`, or the tokens of `text`, come first whatever the dice say; with neither, the reply is drawn again from there.
        A reply that is running ends first. What cannot be forked is told.
        """
        state = self._state
        if not state.offered("continue"):
            return
        why = self._refusal(node, at) if node.role == "assistant" else "this is not part of a reply"
        if why is not None:
            state.changed(Notice(f"cannot fork: {why}"))
            return
        self.end_running()
        self._ask(_Fork(node, at, ids, wish, seed), text)

    def write(self, node: Node, at: int, ids: Sequence[int]) -> None:
        """Make a branch of just these ids behind the first ones of a reply's node or of a message's; it can be continued. A
        reply that is running ends first."""
        if not self._state.offered("continue"):
            return
        why = self._refusal(node, at)
        if why is not None:
            self._state.changed(Notice(f"cannot make a branch: {why}"))
            return
        self.end_running()
        self._ask(_Fork(node, at, ids, _END), "")

    def from_text(self, spans: Sequence[Span], text: str, *, ends: bool = False) -> None:
        """Continue a reply whose ids are another model's, or are not known, from a text: its turn begins again beside it,
        and the ids of the text for the model that is loaded are forced.
        """
        state = self._state
        turn = state.conversation.nodes.get(spans[0].node.parent or 0)
        if turn is None:
            state.changed(Notice("cannot continue: there is no message before this reply"))
            return
        # Whoever has edited the reply wants the text back where it cannot be sent.
        unsent = None if not text else text if ends else ""
        self._turns.begin_beside(turn, wish=Wish(then="end" if ends else "go on", words=text, unsent=unsent))
        if text:
            state.changed(
                Notice(
                    "the reply continues from its text, on a new branch",
                    "its token ids for this model were made from the text",
                )
            )

    def make(self) -> None:
        """Make the fork that waits, if all is ready for it."""
        fork, state = self._fork, self._state
        if fork is None or fork.ids is None or state.phase != "idle":
            return
        self._fork = None
        before, state.conversation.leaf = state.conversation.leaf, fork.node.number
        if fork.prefill is not None:
            state.prefill = None
        written = bool(fork.prefill) or fork.wish.then == "end"
        self._grow(
            fork.node, fork.at, ids=fork.ids, wish=fork.wish, seed=fork.seed, counted_apart=written,
            prefill=fork.prefill or "", before=before,
        )  # fmt: skip

    def drop(self) -> None:
        self._fork = None

    def _ask(self, fork: _Fork, text: str) -> None:
        """Make a fork, after tokenizing its text if it starts with one."""
        self._fork = fork._replace(ids=None) if text else fork
        if text:
            self._state.line.ask(Tokenize(text), partial(self._hear_ids, self._fork))
        self.make()

    def _hear_ids(self, fork: _Fork, event: Event) -> None:
        if self._fork is not fork:
            return
        if isinstance(event, Tokenized):
            self._fork = fork._replace(ids=event.ids)
            self.make()
        elif isinstance(event, Failed):
            self._fork = None
            self._state.fail(event)

    def end_running(self) -> None:
        """End the reply that is made, and the one that is about to be."""
        if self._state.busy:
            self._turns.cancel() if self._state.phase == "rendering" else self._replies.stop()

    def _refusal(self, node: Node, at: int) -> str | None:
        state, chat = self._state, self._state.conversation
        if state.model is None:
            return "no model is loaded"
        if not 0 <= at <= len(node.ids):
            return f"the reply has {len(node.ids)} tokens here"
        if chat.is_hidden(node.number):
            return "this branch is deleted"
        if state.is_foreign(node.number):
            return "a different model wrote this reply"
        is_last = at == len(node.ids) and not state.ignores_end
        if is_last and at and node.ids[at - 1] in state.model.end_ids:
            return "the model ended the reply before this token"
        return None

    def _grow(
        self,
        node: Node,
        at: int,
        *,
        longer: int | None = None,
        ids: Sequence[int] = (),
        wish: Wish = ALONE,
        seed: int | None = None,
        counted_apart: bool = False,
        prefill: str = "",
        before: int | None = None,
    ) -> None:
        """Start a piece behind a reply's first tokens, as the reply itself would have gone on: same dice, same steps.

        With `counted_apart` it may have as many tokens as the knob says besides those that are forced.
        """
        chat, state = self._state.conversation, self._state
        position = position_of(chat, node, at)
        if seed is None:
            seed = position.seed if position.seed is not None else state.seed()
        if longer is None:
            # What was continued beyond the limit may become as long as it was let.
            limit = state.tuning.max_tokens
            longer = position.done // limit * limit if limit else 0
        if counted_apart:
            longer += len(ids)
        while at == 0 and node.role == "assistant" and node.parent is not None:  # nothing of it is left to grow from
            node, at = chat.nodes[node.parent], node.at
        beginning = ReplyBeginning(
            node, at, seed=seed, done=position.done, longer=longer, ids=ids, then=wish.then, prefill=prefill,
            remembered=position.state, constraint_begun=position.begun(state.constraint),
            plan=wish.plan, before=before,
        )  # fmt: skip
        self._replies.start(beginning)


def _seed(spans: Sequence[Span]) -> int | None:
    """The seed of a reply's first piece; None if it never started."""
    return next((span.node.start.seed for span in spans if span.node.start is not None), None)


class _Edit(NamedTuple):
    """An edited message that waits for the running reply to end; with `system`, the system prompt before it is the one that was
    edited."""

    session: Session
    node: Node
    text: str
    system: bool = False


class Parting(NamedTuple):
    """Where a reply in other words leaves its tokens: it keeps the first `at` of `node`, and then says `rest`."""

    node: Node
    at: int
    rest: str


class Editing:
    """Nothing is rewritten: what was said before stays, on its own branch. `stop` ends what is being made."""

    def __init__(self, state: State, turns: Turns, forks: Forks, stop: Callable[[], None]) -> None:
        self._state, self._turns, self._forks, self._stop = state, turns, forks, stop
        self._waiting: _Edit | None = None

    @property
    def waits(self) -> bool:
        return self._waiting is not None

    def edit(self, node: Node, text: str) -> None:
        """Sends a text in the place of a person's message, beside it; the branch that grew from that stays.

        A reply that is running ends first. What cannot be edited is told, and the text is given back.
        """
        self._edit(_Edit(self._state.session, node, text))

    def edit_system(self, text: str) -> None:
        """Begins a branch with another system prompt, on which the first message of the path is sent again. Before the first
        message it is the chat's own.
        """
        state, chat = self._state, self._state.conversation
        first = chat.path()[0].node if chat.leaf is not None else None
        if text == chat.system:
            state.changed(Notice("the system prompt already reads like this"))
        elif first is None:
            if state.takes(text):
                chat.first_system = text
                state.changed(PathChanged())
        elif first.role != "user":
            state.changed(Notice("cannot edit the system prompt: the chat starts with a reply"))
            state.give_back(state.session, text)
        else:
            self._edit(_Edit(state.session, first, text, system=True))

    def _edit(self, edit: _Edit) -> None:
        state = self._state
        if state.model is None or edit.session.conversation.is_hidden(edit.node.number):
            why = "no model is loaded" if state.model is None else "this branch is deleted"
            state.changed(Notice(f"cannot send the edited {'system prompt' if edit.system else 'message'}: {why}"))
            state.give_back(edit.session, edit.text)
            return
        if not state.takes(edit.text):
            return
        self._stop()
        self._waiting = edit
        self.make()

    def make(self) -> None:
        """Sends the edit that waits, if all is ready for it."""
        edit, state = self._waiting, self._state
        if edit is None or state.phase != "idle":
            return
        self._waiting = None
        edit.session.conversation.unsent.asked = edit.text
        if edit.system:
            self._turns.begin_beside(edit.node, system=edit.text, wish=Wish(unsent=edit.text))
        else:
            self._turns.begin_beside(edit.node, edit.text)

    def drop(self) -> None:
        """Gives back the edit that waits, as another chat or branch is to be shown."""
        edit, self._waiting = self._waiting, None
        if edit is not None:
            self._state.give_back(edit.session, edit.text)

    def replace(self, spans: Sequence[Span], text: str) -> None:
        """Puts other words in the place of a reply, given as its pieces: a branch beside it, which ends with the text.

        What is the same from its begin stays as it was drawn; the tokens after that are forced. It can be continued.
        """
        parting = parting_of(spans, text)
        state = self._state
        if parting is None:
            state.changed(Notice("the reply already reads like this"))
        elif not state.takes(text):
            return
        elif not state.is_foreign(spans[-1].node.number):
            self._forks.fork(parting.node, parting.at, text=parting.rest, wish=_END)
        elif state.ready("save the edited reply"):
            self._forks.from_text(spans, text, ends=True)
        else:
            state.give_back(state.session, text)


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
    """Whether these last bytes of a text end with a complete character."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(data)
    return decoder.getstate()[0] == b""
