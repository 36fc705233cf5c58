"""Several replies from one place at once: how they begin, which one is selected, and from which the chat continues.

While a group is shown the conversation's leaf is the reply that is selected. Nothing that is done here deletes a reply: all
are branches of the conversation, whichever it continues from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from termchat.chat.changes import Notice, StatusChanged
from termchat.chat.forks import Forks
from termchat.chat.replies import Replies
from termchat.chat.reply_run import ReplyGroup, Run
from termchat.chat.state import State
from termchat.conversation.tree import Conversation, Node, Place
from termchat.conversation.unsent import Wish
from termchat.conversation.walk_groups import groups_of, origin_of
from termchat.decoding.group import MOST_WALKS
from termchat.decoding.records import SettingsRecord
from termchat.decoding.samplers import SamplerSettings, Value
from termchat.decoding.walk_plan import PlanError, WalkPlan
from termchat.engine.port import Event, Feature, Tokenize, Tokenized


class Walks:
    """One group at a time is shown; `send` sends a message (see `Chat.send`)."""

    def __init__(self, state: State, replies: Replies, forks: Forks, send: Callable[[str, Wish], None]) -> None:
        self._state, self._replies, self._forks, self._send = state, replies, forks, send

    @property
    def shown(self) -> ReplyGroup | None:
        """The group on the screen: None once another branch or chat is shown."""
        return self._replies.shown

    @property
    def running(self) -> bool:
        """Whether the engine has not finished a group of several yet, whatever is shown by now."""
        return self._run is not None

    @property
    def _run(self) -> Run | None:
        run = self._replies.run
        return run if run is not None and not run.group.alone else None

    @property
    def hidden(self) -> ReplyGroup | None:
        """The group that runs while only the reply that was kept of it is shown; None where that is all that runs."""
        group = self._run.group if self._run is not None else None
        if group is None or group.conversation is not self._state.conversation or self.shown is group:
            return None
        alone = group.group.beams is None and set(group.running) <= {group.kept}
        return None if alone else group

    # --- how a group begins, and is shown again -----------------------------------------------------------------------

    def start(
        self, plan: WalkPlan, *, text: str = "", node: Node | None = None, at: int = 0, paused: bool = False
    ) -> None:
        """Make the replies of a plan: to a new message `text`, which waits its turn; or from the first `at` tokens of a reply's
        `node`; or with neither, other replies to the last message. What cannot be made is told, and the text given back.
        """
        state = self._state
        wish = Wish(plan, "wait" if paused else "go on")
        if (why := self._refusal(plan)) is not None:
            state.changed(why)
            if text:
                state.give_back(state.session, text)
                state.changed(StatusChanged())
        elif text:
            self._send(text, wish)
        elif node is not None:
            # Other settings are compared with the reply's own dice; replies that only differ need others.
            self._forks.fork(node, at, wish=wish, seed=None if plan.group.same_dice else state.seed())
        else:
            self._forks.regenerate(wish=wish)

    def _refusal(self, plan: WalkPlan) -> Notice | None:
        feature: Feature = "beams" if plan.group.beams is not None else "walks"
        if (refused := self._state.refused(feature)) is not None:
            return Notice(*refused)
        try:
            plan.seed(self._state.tuning.seed or 0, plan.group.size - 1)
        except PlanError as error:
            return Notice(error.message, error.hint)
        return None

    def open(self, number: int) -> None:
        """Show a group of the conversation: the reply that the chat ends in is selected, else the first. A reply that is
        running elsewhere ends."""
        state, run = self._state, self._run
        if run is not None and run.group.group.number == number:
            self._replies.show(run.group, run.group.cursor)
            return
        group = next((group for group in groups(state.conversation) if group.group.number == number), None)
        if group is None:
            state.changed(Notice("these walks were deleted"))
            return
        self._forks.end_running()
        group.before = state.conversation.leaf
        self._replies.show(group, group.cursor)

    def select(self, number: int) -> None:
        """Select a reply: it is the conversation's leaf from now on."""
        group, run = self.shown, self._run
        if group is not None and number in group.nodes and number != group.cursor:
            if run is not None:
                run.moved = True
            self._replies.show(group, number)

    def fork(self, number: int, at: int, ids: Sequence[int] = (), *, text: str = "", paused: bool = False) -> None:
        """Add a reply beside the others, with the same dice, that begins with the first `at` tokens of this one's node and then
        `ids`, or the tokens of `text`; `paused`: it waits there. Once the group is over it is a fork as any other."""
        group, run = self.shown, self._run
        if group is None or number not in group.nodes:
            return
        if run is None or run.group is not group:
            wish = Wish(then="wait" if paused else "go on")
            self._forks.fork(group.nodes[number], at, ids=ids, text=text, wish=wish)
        elif text:
            self._state.line.ask(Tokenize(text), partial(self._hear_ids, run, number, at, paused))
        else:
            run.join(number, at, ids, paused=paused)

    def _hear_ids(self, run: Run, number: int, at: int, paused: bool, event: Event) -> None:
        if isinstance(event, Tokenized) and self._run is run:
            run.join(number, at, event.ids, paused=paused)

    # --- what the chat goes on from -----------------------------------------------------------------------------------

    def keep(self, number: int) -> None:
        """Continue the chat from this reply: the group is shown no longer, the other replies end, this one runs on."""
        self._replies.keep(number, stop_others=True)

    def keep_all(self) -> None:
        """Continue the chat from the selected reply; all that run go on."""
        if self.shown is not None:
            self._replies.keep(self.shown.cursor)

    def leave(self) -> None:
        """End all replies. The chat continues from the selected one; of a group that grew from a token of a reply, from that
        reply."""
        group, run = self.shown, self._run
        if group is None:
            return
        if run is not None and run.group is group:
            run.stop()
        chat, before = group.conversation, group.before
        if group.from_reply and before is not None and before in chat.nodes and not chat.is_hidden(before):
            self._replies.close()
            self._replies.move(before, None)
        else:
            self._replies.keep(group.cursor, queue_waits=True)

    def branch_of_beam(self, step: int, place: int, *, dropped: bool = False) -> None:
        """Make a branch of a beam, which ends with the beam's last token and can be continued. A search that runs ends first.

        `step` is the number of the step, `place` the beam's there (`Beam.walk`), among those that were `dropped` or not.
        """
        group = self.shown
        ids = group.ids_of_beam(step, place, dropped=dropped) if group is not None else []
        if group is None or not ids:
            self._state.changed(Notice("no such beam"))
        else:
            self._forks.write(group.conversation.nodes[group.origin.node], group.origin.at, ids)


def groups(conversation: Conversation) -> list[ReplyGroup]:
    """All groups of a conversation that have a walk which is not deleted, in the order in which they were made."""
    made = (_reopened(conversation, nodes) for nodes in groups_of(conversation).values())
    return [group for group in made if group is not None]


def _reopened(conversation: Conversation, nodes: dict[int, Node]) -> ReplyGroup | None:
    """The group of these walks; None where nothing stands before them, as in a file from elsewhere."""
    parent, at = origin_of(nodes)
    group = next(iter(nodes.values())).group
    if parent is None or group is None:
        return None
    changes = _changes({walk: node.settings for walk, node in nodes.items()}, min(group.size, MOST_WALKS))
    made = ReplyGroup(
        conversation, WalkPlan(msgspec.structs.replace(group, size=len(changes)), changes), Place(parent, at)
    )
    made.nodes = nodes
    made.cursor = made.walk_of(conversation.leaf) or next(iter(nodes))
    return made


def _changes(settings: dict[int, list[SettingsRecord]], size: int) -> tuple[dict[str, Value], ...]:
    """The knobs of each walk that not all began with."""
    first = {walk: records[0].samplers for walk, records in settings.items() if records}
    differing = [
        name
        for name in SamplerSettings.__struct_fields__
        if len({getattr(samplers, name) for walk, samplers in first.items() if walk < size}) > 1
    ]
    return tuple(
        {name: getattr(first[walk], name) for name in differing} if walk in first else {} for walk in range(size)
    )
