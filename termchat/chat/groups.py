"""Several replies from one place at once: how they begin, which one is selected, and from which the chat continues.

While a group is shown the conversation's leaf is the reply that is selected. Nothing that is done here deletes a reply: all
are branches of the conversation, whichever it continues from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from termchat.chat.changes import Notice, StatusChanged, WalksChanged
from termchat.chat.forks import Forks
from termchat.chat.replies import Replies
from termchat.chat.reply_group import ReplyGroup
from termchat.chat.reply_run import Run
from termchat.chat.state import State
from termchat.chat.turns import Turns
from termchat.conversation.tree import Conversation, Node, Place
from termchat.conversation.unsent import Wish
from termchat.conversation.walk_groups import groups_of, ids_of_beam, origin_of
from termchat.decoding.group import MOST_WALKS
from termchat.decoding.records import SettingsRecord
from termchat.decoding.samplers import SamplerSettings, Value
from termchat.decoding.walk_plan import PlanError, WalkPlan
from termchat.engine.port import Cancel, Feature


class Walks:
    """One group at a time is shown; `send` sends a message (see `Chat.send`)."""

    def __init__(
        self, chat: State, turns: Turns, replies: Replies, forks: Forks, send: Callable[[str, Wish], None]
    ) -> None:
        self._chat, self._turns, self._replies, self._forks, self._send = chat, turns, replies, forks, send

    @property
    def shown(self) -> ReplyGroup | None:
        """The group on the screen: None once another branch or chat is shown."""
        return self._chat.shown_group

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
        if group is None or group.conversation is not self._chat.conversation or self.shown is group:
            return None
        alone = group.group.beams is None and set(group.running) <= {group.kept}
        return None if alone else group

    # --- how a group begins, and is shown again -----------------------------------------------------------------------

    def start(self, plan: WalkPlan, *, text: str = "", node: Node | None = None, at: int = 0) -> None:
        """Make the replies of a plan: to a new message `text`, which waits its turn; or from the first `at` tokens of a
        reply's `node`; or with neither, other replies to the last message. A refusal becomes a notice, and the text is given
        back.
        """
        chat, wish = self._chat, Wish(plan)
        feature: Feature = "beams" if plan.group.beams is not None else "walks"
        refusal = Notice(*why) if (why := chat.find_refusal(feature)) is not None else None
        try:
            plan.choose_seed(chat.tuning.seed or 0, plan.group.size - 1)
        except PlanError as error:
            refusal = refusal or Notice(error.message, error.hint)
        if refusal is not None:
            chat.add_changes(refusal)
            if text:
                chat.give_back(chat.session, text)
                chat.add_changes(StatusChanged())
        elif text:
            self._send(text, wish)
        elif node is not None:
            # Other settings are compared with the reply's own dice; replies that only differ need others.
            self._forks.fork_reply(node, at, wish=wish, seed=None if plan.group.same_dice else chat.choose_seed())
        else:
            self._forks.regenerate(wish=wish)

    def open(self, number: int) -> None:
        """Show a group of the conversation: the reply that the chat ends in is selected, else the first. A reply that is
        running elsewhere ends."""
        chat, run = self._chat, self._run
        if run is not None and run.group.group.number == number:
            self._chat.show_group(run.group, run.group.cursor)
            return
        group = next((group for group in list_groups(chat.conversation) if group.group.number == number), None)
        if group is None:
            chat.add_changes(Notice("these walks were deleted"))
            return
        self._turns.stop()
        group.before = chat.conversation.leaf
        self._chat.show_group(group, group.cursor)

    def select_node(self, leaf: int) -> bool:
        """Select the running reply whose node is `leaf`; return False if it is none."""
        run, shown = self._replies.run, self.shown
        number = run.group.walk_of(leaf) if run is not None else None
        if run is None or number is None or run.group.conversation is not self._chat.conversation:
            return False
        run.moved, group = True, run.group
        self._chat.show_group(group, number)
        if group.kept is not None:
            group.kept, self._chat.group = number, shown
        return True

    def sync_with_tree(self) -> None:
        """Drop deleted replies; close the group if its branch is shown no longer."""
        group, run = self._chat.group, self._run
        if group is None:
            return
        runs = run is not None and run.group is group
        deleted = [number for number, node in group.nodes.items() if node.deleted and not runs]
        for number in deleted:
            del group.nodes[number]
        selected = group.walk_of(self._chat.conversation.leaf)
        if self.shown is None or selected is None:
            self._chat.group = None
        elif selected != group.cursor:
            self._chat.show_group(group, selected)
        if deleted or self._chat.group is None:
            self._chat.add_changes(WalksChanged())

    def select_reply(self, number: int) -> None:
        """Select a reply: it is the conversation's leaf from now on."""
        group, run = self.shown, self._run
        if group is not None and number in group.nodes and number != group.cursor:
            if run is not None:
                run.moved = True
            self._chat.show_group(group, number)

    def fork_reply(
        self, number: int, at: int, ids: Sequence[int] = (), *, text: str = "", paused: bool = False
    ) -> None:
        """Add a reply beside the others, with the same dice, that begins with the first `at` tokens of this one's node and then
        `ids`, or the tokens of `text`; `paused`: it waits there. Once the group is over it is a fork as any other."""
        group, run = self.shown, self._run
        if group is None or number not in group.nodes:
            return
        if run is None or run.group is not group:
            wish = Wish(then="wait" if paused else "go on")
            self._forks.fork_reply(group.nodes[number], at, ids=ids, text=text, wish=wish)
        elif text:
            join = partial(run.join_reply, number, at, paused=paused)
            self._chat.host.ask_ids(text, lambda ids: join(ids) if self._run is run else None)
        else:
            run.join_reply(number, at, ids, paused=paused)

    # --- what the chat goes on from -----------------------------------------------------------------------------------

    def keep_reply(self, number: int, *, stop_others: bool = True, queue_waits: bool = False) -> None:
        """Continue the chat from a reply of the group that is shown, as soon as all are over; the group is shown no longer."""
        group, run = self.shown, self._run
        if group is None or number not in group.nodes:
            return
        self._chat.show_group(group, number)
        group.kept, self._chat.group = number, None
        if run is None or run.group is not group:
            self._replies.held = queue_waits
            self._replies.keep_cells(group.nodes[number])
            return
        run.queue_waits, run.kept_running = queue_waits, not group.nodes[number].done
        if stop_others:
            run.ends_joining = True
            for other in group.running:
                if other != number:
                    run.send_steer(Cancel(), other)

    def keep_all(self) -> None:
        """Continue the chat from the selected reply; all that run go on."""
        if self.shown is not None:
            self.keep_reply(self.shown.cursor, stop_others=False)

    def leave_group(self) -> None:
        """End all replies. The chat continues from the selected one; of a group that grew from a token of a reply, from that
        reply."""
        group, run = self.shown, self._run
        if group is None:
            return
        if run is not None and run.group is group:
            self._replies.stop()
        tree, before = group.conversation, group.before
        from_reply = tree.nodes[group.origin.node].role == "assistant"
        if from_reply and before is not None and before in tree.nodes and not tree.is_hidden(before):
            self._chat.group = None
            self._chat.show_leaf(before)
            self._chat.add_changes(WalksChanged())
        else:
            self.keep_reply(group.cursor, stop_others=False, queue_waits=True)

    def branch_of_beam(self, step: int, place: int, *, dropped: bool = False) -> None:
        """Make a branch of a beam, which ends with the beam's last token and can be continued. A search that runs ends first.

        `step` is the number of the step, `place` the beam's there (`Beam.walk`), among those that were `dropped` or not.
        """
        group = self.shown
        steps = group.beams if group is not None else []
        at = next((at for at, beams in enumerate(steps) if beams.step == step), None)
        known = [] if at is None else steps[at].dropped if dropped else steps[at].beams
        beam = next((beam for beam in known if beam.walk == place), None)
        if group is None or at is None or beam is None:
            self._chat.add_changes(Notice("no such beam"))
        else:
            origin, ids = group.origin, ids_of_beam(steps, beam, at)
            self._forks.write(group.conversation.nodes[origin.node], origin.at, ids)


def list_groups(conversation: Conversation) -> list[ReplyGroup]:
    """List the groups of a conversation with at least one living reply, oldest first."""
    reopened = []
    for nodes in groups_of(conversation).values():
        parent, at = origin_of(nodes)
        group = next(iter(nodes.values())).group
        if parent is None or group is None:  # nothing stands before them, as in a file from elsewhere
            continue
        changes = _list_changes({walk: node.settings for walk, node in nodes.items()}, min(group.size, MOST_WALKS))
        plan = WalkPlan(msgspec.structs.replace(group, size=len(changes)), changes)
        reply_group = ReplyGroup(conversation, plan, Place(parent, at))
        reply_group.nodes = nodes
        reply_group.cursor = reply_group.walk_of(conversation.leaf) or next(iter(nodes))
        reopened.append(reply_group)
    return reopened


def _list_changes(settings: dict[int, list[SettingsRecord]], size: int) -> tuple[dict[str, Value], ...]:
    """Find the settings of each walk that differ between walks at their begin."""
    first = {walk: records[0].samplers for walk, records in settings.items() if records}
    differing = [
        name
        for name in SamplerSettings.__struct_fields__
        if len({getattr(samplers, name) for walk, samplers in first.items() if walk < size}) > 1
    ]
    return tuple(
        {name: getattr(first[walk], name) for name in differing} if walk in first else {} for walk in range(size)
    )
