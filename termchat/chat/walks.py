"""Several replies from one place at once: how they begin, which is looked at, and which of them the chat goes on from.

    start ─▶ turns, forks (the prompt, as for one reply) ─▶ _begin ─▶ WalkRun ─▶ GenerateWalks, SearchBeams
    engine ─▶ WalkRun ─▶ the nodes of a `WalkGroup`, the recorder ─▶ WalksChanged, WalksGrew

While a group is shown the conversation's leaf is the walk that is looked at. Nothing that is done here deletes a walk: all
are branches of the conversation, whichever it goes on from.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Protocol

from termchat.chat.beginning import Make, ReplyBeginning, Then
from termchat.chat.changes import LiveChanged, Notice, StatusChanged, WalksChanged
from termchat.chat.forks import Forks
from termchat.chat.live import Live
from termchat.chat.replies import Replies, question
from termchat.chat.state import State
from termchat.chat.walk_group import WalkGroup, groups
from termchat.chat.walk_run import WalkRun
from termchat.conversation.tree import Node, Place
from termchat.decoding.records import Failed
from termchat.decoding.walk_plan import PlanError, WalkPlan
from termchat.engine.port import Event, Feature, Keep, Tokenize, Tokenized, Unit

NUMBERS = 2**53
"""The numbers of groups are below it, so that JSON keeps them."""


class Send(Protocol):
    """Sends a message; see `Turns.add`."""

    def __call__(self, text: str, *, then: Then, make: Make) -> None: ...


class Walks:
    """One group at a time. `shown` is the one on the screen: running, the last one, or one that was opened."""

    def __init__(self, state: State, send: Send, replies: Replies, forks: Forks) -> None:
        self._state, self._send, self._replies, self._forks = state, send, replies, forks
        self._shown: WalkGroup | None = None
        self._run: WalkRun | None = None
        self._queue_waits = False
        self._was_running = False
        """Whether the walk that was kept ran then."""
        self._cells: WalkGroup | None = None
        """The group whose cells the engine still has."""
        replies.decodes = self._keep_cells

    @property
    def shown(self) -> WalkGroup | None:
        """The group on the screen: none once another branch or chat is shown."""
        group, chat = self._shown, self._state.conversation
        there = group is not None and group.conversation is chat and group.walk_of(chat.leaf) is not None
        return group if there else None

    @property
    def running(self) -> bool:
        """Whether the engine has not finished a group yet, whatever is shown by now."""
        return self._run is not None

    @property
    def hidden(self) -> WalkGroup | None:
        """The group that runs while only the reply that was kept of it is shown; None where that is all that runs."""
        group = self._run.group if self._run is not None else None
        if group is None or group.conversation is not self._state.conversation or self.shown is group:
            return None
        alone = group.plan.beams is None and set(group.running) <= {group.kept}
        return None if alone else group

    # --- how a group begins, and is shown again -----------------------------------------------------------------------

    def start(
        self, plan: WalkPlan, *, text: str = "", node: Node | None = None, at: int = 0, paused: bool = False
    ) -> None:
        """Walks the reply to a new message `text`, which waits its turn as any does; or from the first `at` tokens of a
        reply's `node`; or with neither, other replies to the last message. What cannot be walked is told, and the text given
        back.
        """
        state = self._state
        then: Then = "wait" if paused else "go on"
        make = partial(self._begin, plan, state.conversation.leaf)
        why = self._refusal(plan)
        if why is not None:
            state.changed(why)
            self._give_back(text)
        elif text:
            self._send(text, then=then, make=make)
        elif node is not None:
            # Other settings are compared with the reply's own dice; replies that only differ need others.
            self._forks.fork(node, at, then=then, seed=None if plan.same_dice else state.seed(), make=make)
        else:
            self._forks.regenerate(then=then, make=make)

    def open(self, number: int) -> None:
        """Shows a group of the conversation that is there already; the walk that the chat ends in is looked at, else the first.
        A reply that is running elsewhere ends."""
        state, run = self._state, self._run
        if run is not None and run.group.group.number == number:
            self._show(run.group, run.group.cursor)
            return
        group = next((group for group in groups(state.conversation) if group.group.number == number), None)
        if group is None:
            state.changed(Notice("these walks were deleted"))
            return
        self._forks.end_running()
        group.before = state.conversation.leaf
        self._show(group, group.cursor)

    def select(self, walk: int) -> None:
        """Looks at a walk: it is the conversation's leaf from now on."""
        group, run = self.shown, self._run
        if group is not None and walk in group.nodes and walk != group.cursor:
            if run is not None:
                run.moved = True
            self._show(group, walk)

    def look_at(self, leaf: int) -> bool:
        """Looks at a walk of the group that runs, given its node; whether it is one."""
        run = self._run
        if run is None or run.group.conversation is not self._state.conversation:
            return False
        group, walk = run.group, run.group.walk_of(leaf)
        if walk is None:
            return False
        run.moved = True
        shown = self.shown
        self._show(group, walk)
        if group.kept is not None:
            group.kept, self._shown = walk, shown
        return True

    # --- steering; None stands for all walks, and nothing is done where none runs -------------------------------------

    def adjust(self, values: Mapping[str, object], walk: int | None = None) -> None:
        """Turns knobs of the walks; the chat's stay.

        Raises:
            KnobError: a knob refuses its value; nothing has changed.
        """
        if self._run is not None:
            self._run.adjust(values, walk)

    def pause(self, walk: int | None = None) -> None:
        if self._run is not None:
            self._run.pause(walk)

    def resume(self, walk: int | None = None) -> None:
        if self._run is not None:
            self._run.resume(walk)

    def step(self, unit: Unit = "token", walk: int | None = None) -> None:
        """Continues paused walks for one token each, or each to the end of its line or sentence."""
        if self._run is not None:
            self._run.step(unit, walk)

    def force(self, walk: int | None, ids: Sequence[int]) -> None:
        """Makes these the next tokens of a walk; a paused one pauses again after them."""
        if self._run is not None:
            self._run.force(walk, ids)

    def stop(self, walk: int) -> None:
        """Ends a walk; the others go on."""
        if self._run is not None:
            self._run.stop(walk)

    def end(self) -> None:
        """Ends all walks; they stay on the screen."""
        if self._run is not None:
            self._run.stop()

    def fork(self, walk: int, at: int, ids: Sequence[int] = (), *, text: str = "", paused: bool = False) -> None:
        """Another walk beside the others, with the same dice, that begins with the first `at` tokens of this one's node and
        then `ids`, or the tokens of `text`; `paused`: it waits there. Once the group is over it is a fork as any other."""
        group, run = self.shown, self._run
        if group is None or walk not in group.nodes:
            return
        if run is None or run.group is not group:
            self._forks.fork(group.nodes[walk], at, ids=ids, text=text, then="wait" if paused else "go on")
        elif text:
            self._state.line.ask(Tokenize(text), partial(self._hear_ids, run, walk, at, paused))
        else:
            run.join(walk, at, ids, paused=paused)

    def _hear_ids(self, run: WalkRun, walk: int, at: int, paused: bool, event: Event) -> None:
        if isinstance(event, Tokenized) and self._run is run:
            run.join(walk, at, event.ids, paused=paused)

    # --- what the chat goes on from -----------------------------------------------------------------------------------

    def keep(self, walk: int) -> None:
        """The chat goes on from this walk: the group is no longer shown, the other walks end, this one runs on."""
        self._let_go(walk, stop_others=True)

    def keep_all(self) -> None:
        """The chat goes on from the walk that is looked at; all that run go on."""
        if self.shown is not None:
            self._let_go(self.shown.cursor)

    def leave(self) -> None:
        """Ends all walks. The chat goes on from the one that is looked at; of a group that grew from a token of a reply, from
        that reply."""
        group = self.shown
        if group is None:
            return
        if self._runs(group):
            self.end()
        chat, before = group.conversation, group.before
        if group.from_reply and before is not None and before in chat.nodes and not chat.is_hidden(before):
            self._shown = None
            self._move(before, None)
        else:
            self._let_go(group.cursor, queue_waits=True)

    def settle(self) -> None:
        """Whoever writes on while a group that is over is shown goes on from the walk that is looked at."""
        if self.shown is not None and self._run is None:
            self.keep(self.shown.cursor)

    def branch_of_beam(self, step: int, place: int, *, dropped: bool = False) -> None:
        """Makes a branch of a beam, which ends with the beam's last token and can be continued. A search that runs ends first.

        `step` is the number of the step, `place` the beam's there (`Beam.walk`), among those that were `dropped` or not.
        """
        group = self.shown
        ids = group.ids_of_beam(step, place, dropped=dropped) if group is not None else []
        if group is None or not ids:
            self._state.changed(Notice("no such beam"))
        else:
            self._forks.write(group.conversation.nodes[group.origin.node], group.origin.at, ids)

    def withdraw(self) -> None:
        """Shows what is there by now: no group once another branch or chat is shown, and no walk that was deleted."""
        group = self._shown
        if group is None:
            return
        deleted = [walk for walk, node in group.nodes.items() if node.deleted and not self._runs(group)]
        for one in deleted:
            del group.nodes[one]
        walk = group.walk_of(self._state.conversation.leaf)
        if self.shown is None or walk is None:
            self._shown = None
        elif walk != group.cursor:
            self._show(group, walk)
        if deleted or self._shown is None:
            self._state.changed(WalksChanged())

    # --- how it is begun ----------------------------------------------------------------------------------------------

    def _refusal(self, plan: WalkPlan) -> Notice | None:
        feature: Feature = "beams" if plan.beams is not None else "walks"
        if (refused := self._state.refused(feature)) is not None:
            return Notice(*refused)
        try:
            plan.seed(self._state.tuning.seed or 0, plan.size - 1)
        except PlanError as error:
            return Notice(error.message, error.hint)
        return None

    def _give_back(self, text: str) -> None:
        if text:
            self._state.give_back(self._state.session, text)
            self._state.changed(StatusChanged())

    def _begin(self, plan: WalkPlan, before: int | None, beginning: ReplyBeginning) -> None:
        """The prompt is there: asks for all replies to it."""
        state, chat = self._state, self._state.conversation
        if plan.beams is not None and beginning.ids:
            beginning = beginning._replace(ids=(), prefill="", longer=beginning.longer - len(beginning.ids))
            state.changed(Notice("a beam search ignores the text that the reply should start with"))
        origin = Place(beginning.parent.number, beginning.at)
        group = WalkGroup(chat, plan.group(secrets.randbelow(NUMBERS)), plan, origin, before)
        run = self._run = self._replies.several = WalkRun(state, group, beginning, self._over)
        self._replies.held = self._queue_waits = self._was_running = False
        run.grow()
        self._keep_cells(group.nodes[0])
        state.enter("prefill")
        self._show(group, 0)
        run.ask(question(state, beginning, group.nodes[0]))

    def _over(self, run: WalkRun, failure: Failed | None) -> None:
        """All walks have ended."""
        state, group = self._state, run.group
        self._run = self._replies.several = None
        self._cells = group if failure is None else None
        if failure is None:
            ranking = group.ranking(lambda error: state.changed(Notice(error.message, error.hint, "warning")))
            run.keep(0, ranking)
            best = ranking.walks[0]
            if group.plan.kind in ("best", "vote") and best.score is not None and not run.moved and group is self.shown:
                self._show(group, best.walk)
        kept = group.nodes[group.kept] if group.kept is not None else None
        if group.conversation is state.conversation:
            ended = kept.finished if kept is not None else None
            stopped = self._was_running and ended is not None and ended.reason == "user"
            self._replies.held = kept is None or self._queue_waits or stopped
        if kept is not None:
            self._keep_cells(kept)
        state.enter("idle")
        state.changed(WalksChanged(), LiveChanged())
        if failure is not None:
            state.fail(failure)

    # --- what is shown, and what is kept ------------------------------------------------------------------------------

    def _runs(self, group: WalkGroup) -> bool:
        return self._run is not None and self._run.group is group

    def _show(self, group: WalkGroup, walk: int) -> None:
        self._shown, group.cursor = group, walk
        self._move(group.nodes[walk].number, group.lives.get(walk))
        self._state.paused = group.paused.get(walk)

    def _move(self, leaf: int, live: Live | None) -> None:
        """Another leaf; without `live`, the numbers of its newest token are read."""
        state, chat = self._state, self._state.conversation
        chat.leaf = leaf
        state.show_leaf(live)
        state.changed(WalksChanged())

    def _let_go(self, walk: int, *, stop_others: bool = False, queue_waits: bool = False) -> None:
        """Goes on from a walk, as soon as all are over."""
        group, run = self.shown, self._run
        if group is None or walk not in group.nodes:
            return
        self._show(group, walk)
        group.kept, self._shown = walk, None
        if run is None or run.group is not group:
            self._replies.held = queue_waits
            self._keep_cells(group.nodes[walk])
            return
        self._queue_waits, self._was_running = queue_waits, not group.nodes[walk].done
        if stop_others:
            run.ends_joining = True
            for other in group.running:
                if other != walk:
                    run.stop(other)

    def _keep_cells(self, leaf: Node) -> None:
        """Before something else is decoded: has the engine go on from the cells of the walk that the leaf grows from."""
        group = self._cells
        self._cells = None
        if group is None or self._state.model is None or group.conversation is not self._state.conversation:
            return
        path = (span.node.number for span in reversed(self._state.conversation.path(leaf.number)))
        walk = next((walk for number in path if (walk := group.walk_of(number)) is not None), None)
        if walk is not None:
            self._state.line.ask(Keep(walk), lambda _: None)  # where it cannot, the ids are decoded again
