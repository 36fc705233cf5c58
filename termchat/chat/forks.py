"""Replies once more: made again, gone on with, or forked at one of their tokens."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from termchat.chat.changes import Notice, PathChanged
from termchat.chat.replies import Replies
from termchat.chat.reply_group import ReplyBeginning
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
    """A fork that waits for its ids (None until they arrive) or for the running reply to end. `seed` None: the reply's own.
    `prefill`: the beginning of a regenerated reply; None for any other fork. The replies are those of the `wish`.
    """

    node: Node
    at: int
    ids: Sequence[int] | None
    wish: Wish
    seed: int | None = None
    prefill: str | None = None


class _Edit(NamedTuple):
    """An edited message that waits for the running reply to end; with `system`, the system prompt before it is the one that was
    edited."""

    session: Session
    node: Node
    text: str
    system: bool = False


class Forks:
    """Branches that grow from a reply or a message, or beside it. Nothing is rewritten: the old text stays on its own
    branch.
    """

    def __init__(self, chat: State, turns: Turns, replies: Replies) -> None:
        self._chat, self._turns, self._replies = chat, turns, replies
        self._fork: _Fork | None = None
        self._edit: _Edit | None = None

    @property
    def waits(self) -> bool:
        return self._fork is not None or self._edit is not None

    def make_waiting(self, *, edits: bool = False) -> None:
        """Make the fork that waits, else send the edit, if all is ready for it. The edit waits for the fork's ids, too, unless
        `edits`.
        """
        chat, fork, edit = self._chat, self._fork, self._edit
        if chat.phase != "idle":
            return
        if fork is not None and fork.ids is not None:
            self._fork = None
            before, chat.conversation.leaf = chat.conversation.leaf, fork.node.number
            if fork.prefill is not None:
                chat.prefill = None
            self._grow_piece(fork, before=before)
        elif edit is not None and (fork is None or edits):
            self._edit = None
            edit.session.conversation.unsent.asked = edit.text
            if edit.system:
                self._turns.begin_beside(edit.node, system=edit.text, wish=Wish(unsent=edit.text))
            else:
                self._turns.begin_beside(edit.node, edit.text)

    def drop_waiting(self) -> None:
        """Forget the fork that waits and give back the edit, as another chat or branch is to be shown."""
        edit, self._fork, self._edit = self._edit, None, None
        if edit is not None:
            self._chat.give_back(edit.session, edit.text)

    def stop_making(self) -> None:
        """Stop the fork that is being made, before another chat or branch is shown."""
        self.drop_waiting()
        self._turns.stop()

    # --- replies ------------------------------------------------------------------------------------------------------

    def regenerate(self, *, same: bool = False, wish: Wish = ALONE) -> None:
        """Make another reply to the last message, beside the one that is there: with the seed that is set, else a new one. It
        begins as that did, if a person set how.

        `same` keeps the seed of the reply that is there: only other knobs make it another one. `wish` is the plan of the
        replies, and what follows the words that they begin with, here and below.
        """
        chat, tree = self._chat, self._chat.conversation
        if not chat.check_ready("regenerate"):
            return
        spans = tree.find_reply()
        number = spans[0].node.parent if spans else tree.leaf
        if number is None:
            chat.add_changes(Notice("no reply to regenerate"))
            return
        turn = tree.nodes[number]
        prefill = chat.beginning
        switched = chat.model is not None and chat.model.thinking_switch and turn.think != chat.tuning.thinks
        if chat.is_foreign() or switched:  # its ids are another model's, or say otherwise: the message is sent again
            chat.prefill = prefill or chat.prefill
            self._turns.begin_beside(turn, wish=wish)
            return
        seeds = (span.node.start.seed for span in spans if span.node.start is not None)
        seed = next(seeds, None) if same else None
        seed = chat.choose_seed() if seed is None else seed
        self._ask_ids(_Fork(turn, len(turn.ids), (), wish, seed, prefill), prefill)

    def continue_reply(self) -> None:
        """Continue the last reply from its last token, with its own seed, as if it had never stopped; a reply without ids of
        the loaded model, from its text."""
        chat = self._chat
        spans = chat.conversation.find_reply()
        if not chat.check_ready("continue"):
            return
        if not spans:
            if chat.conversation.leaf is not None:
                self.regenerate()
            else:
                chat.add_changes(Notice("no reply to continue yet"))
            return
        last = spans[-1].node
        reason = last.finished.reason if last.finished is not None else None
        done, text = sum(span.count for span in spans), "".join(span.node.text(span.count) for span in spans)
        if reason == "end" and done and not chat.ignores_end:
            chat.add_changes(Notice("the model finished this reply", "regenerate it or send the next message"))
        elif not done and chat.model is not None and not chat.model.abilities.ids:
            self.regenerate()
        elif not chat.check_offered("continue"):
            pass
        elif chat.is_foreign() or (text and not done):
            self.from_text(spans, text)
        elif chat.model is not None and chat.conversation.count_ids(last.number) >= chat.model.context:
            chat.add_changes(Notice("the context is full", f"start a new chat, or {chat.abilities.larger_context}"))
        else:
            # Whoever continues a reply that was long enough wants as much again.
            self._grow_piece(_Fork(last, len(last.ids), (), ALONE), longer=done if reason == "length" else 0)

    def fork_reply(
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
        why = None if node.role == "assistant" else "this is not part of a reply"
        self._begin_fork(_Fork(node, at, ids, wish, seed), text, "fork", why)

    def write(self, node: Node, at: int, ids: Sequence[int]) -> None:
        """Make a branch of just these ids behind the first ones of a reply's node or of a message's; it can be continued. A
        reply that is running ends first."""
        self._begin_fork(_Fork(node, at, ids, _END), "", "make a branch")

    def _begin_fork(self, fork: _Fork, text: str, what: str, why: str | None = None) -> None:
        chat = self._chat
        if not chat.check_offered("continue"):
            return
        if (why := why or self._find_refusal(fork.node, fork.at)) is not None:
            chat.add_changes(Notice(f"cannot {what}: {why}"))
            return
        self._turns.stop()
        self._ask_ids(fork, text)

    def from_text(self, spans: Sequence[Span], text: str, *, ends: bool = False) -> None:
        """Continue a reply whose ids are another model's, or are not known, from a text: its turn begins again beside it,
        and the ids of the text for the model that is loaded are forced.
        """
        chat = self._chat
        turn = chat.conversation.nodes.get(spans[0].node.parent or 0)
        if turn is None:
            chat.add_changes(Notice("cannot continue: there is no message before this reply"))
            return
        # Whoever has edited the reply wants the text back where it cannot be sent.
        unsent = None if not text else text if ends else ""
        self._turns.begin_beside(turn, wish=Wish(then="end" if ends else "go on", words=text, unsent=unsent))
        if text:
            chat.add_changes(
                Notice(
                    "the reply continues from its text, on a new branch",
                    "its token ids for this model were made from the text",
                )
            )

    def _ask_ids(self, fork: _Fork, text: str) -> None:
        """Make a fork, after tokenizing its text if it starts with one."""
        self._fork = fork._replace(ids=None) if text else fork
        if text:
            self._chat.host.send_command(Tokenize(text), partial(self._hear_ids, self._fork))
        self.make_waiting()

    def _hear_ids(self, fork: _Fork, event: Event) -> None:
        if self._fork is not fork:
            return
        if isinstance(event, Tokenized):
            self._fork = fork._replace(ids=event.ids)
            self.make_waiting()
        elif isinstance(event, Failed):
            self._fork = None
            self._chat.report_failure(event)

    def _find_refusal(self, node: Node, at: int) -> str | None:
        chat, tree = self._chat, self._chat.conversation
        if chat.model is None:
            return "no model is loaded"
        if not 0 <= at <= len(node.ids):
            return f"the reply has {len(node.ids)} tokens here"
        if tree.is_hidden(node.number):
            return "this branch is deleted"
        if chat.is_foreign(node.number):
            return "a different model wrote this reply"
        is_last = at == len(node.ids) and not chat.ignores_end
        if is_last and at and node.ids[at - 1] in chat.model.end_ids:
            return "the model ended the reply before this token"
        return None

    def _grow_piece(self, fork: _Fork, *, longer: int | None = None, before: int | None = None) -> None:
        """Start a piece behind a reply's first tokens, as the reply itself would have gone on: same dice, same steps.

        Args:
            longer: tokens that the reply may have beyond the settings; by default as many as it was let before. Those that a
                person wrote count besides.
        """
        chat, tree, node, at, ids = self._chat, self._chat.conversation, fork.node, fork.at, fork.ids or ()
        position = position_of(tree, node, at)
        seed = fork.seed if fork.seed is not None else position.seed
        if longer is None:
            # What was continued beyond the limit may become as long as it was let.
            limit = chat.tuning.max_tokens
            longer = position.done // limit * limit if limit else 0
        if fork.prefill or fork.wish.then == "end":
            longer += len(ids)
        while at == 0 and node.role == "assistant" and node.parent is not None:  # nothing of it is left to grow from
            node, at = tree.nodes[node.parent], node.at
        beginning = ReplyBeginning(
            node, at, seed=chat.choose_seed() if seed is None else seed, done=position.done, longer=longer, ids=ids,
            then=fork.wish.then, prefill=fork.prefill or "", remembered=position.state,
            constraint_begun=position.find_begun(chat.constraint), plan=fork.wish.plan, before=before,
        )  # fmt: skip
        self._replies.start(beginning)

    # --- in other words -----------------------------------------------------------------------------------------------

    def edit_message(self, node: Node, text: str) -> None:
        """Send a text in the place of a person's message, beside it; the branch that grew from that stays.

        A reply that is running ends first. What cannot be edited is told, and the text is given back.
        """
        self._begin_edit(_Edit(self._chat.session, node, text))

    def edit_system(self, text: str) -> None:
        """Begin a branch with another system prompt, on which the first message of the path is sent again. Before the first
        message it is the chat's own.
        """
        chat, tree = self._chat, self._chat.conversation
        first = tree.find_path()[0].node if tree.leaf is not None else None
        if text == tree.system:
            chat.add_changes(Notice("the system prompt already reads like this"))
        elif first is None:
            if chat.accepts_text(text):
                tree.first_system = text
                chat.add_changes(PathChanged())
        elif first.role != "user":
            chat.add_changes(Notice("cannot edit the system prompt: the chat starts with a reply"))
            chat.give_back(chat.session, text)
        else:
            self._begin_edit(_Edit(chat.session, first, text, system=True))

    def _begin_edit(self, edit: _Edit) -> None:
        chat = self._chat
        if chat.model is None or edit.session.conversation.is_hidden(edit.node.number):
            why = "no model is loaded" if chat.model is None else "this branch is deleted"
            chat.add_changes(Notice(f"cannot send the edited {'system prompt' if edit.system else 'message'}: {why}"))
            chat.give_back(edit.session, edit.text)
        elif chat.accepts_text(edit.text):
            self._turns.stop()
            self._edit = edit
            self.make_waiting(edits=True)

    def replace_reply(self, spans: Sequence[Span], text: str) -> None:
        """Put other words in the place of a reply, given as its pieces: a branch beside it, which ends with the text.

        Its tokens stay as they were drawn up to the first other character, at which none is parted; the rest of the text is
        forced. It can be continued.
        """
        chat = self._chat
        if text == "".join(span.node.text(span.count) for span in spans):
            chat.add_changes(Notice("the reply already reads like this"))
        elif not chat.accepts_text(text):
            return
        elif not chat.is_foreign(spans[-1].node.number):
            place, shown = _common_beginning(spans, text)
            self.fork_reply(*place, text=text[shown:], wish=_END)
        elif chat.check_ready("save the edited reply"):
            self.from_text(spans, text, ends=True)
        else:
            chat.give_back(chat.session, text)


def _common_beginning(spans: Sequence[Span], text: str) -> tuple[tuple[Node, int], int]:
    """Find the last whole character up to which a reply reads like a text: its node and place there, and the text's length."""
    shown, kept = 0, 0
    place = spans[0].node, 0
    for node, count in ((span.node, span.count) for span in spans):
        tokens = node.tokens
        for at, piece in enumerate(tokens.texts[:count]):
            if not text.startswith(piece, shown):
                return place, kept
            shown += len(piece)
            decoder = codecs.getincrementaldecoder("utf-8")("replace")
            decoder.decode(bytes(tokens.data[max(tokens.ends[at] - _LONGEST, 0) : tokens.ends[at]]))
            if piece and not decoder.getstate()[0]:  # else the next token ends the character
                place, kept = (node, at + 1), shown
    return place, kept


_LONGEST = 4
"""Bytes of the longest character."""
