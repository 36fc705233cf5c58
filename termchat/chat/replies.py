"""The replies that run, how they are steered, and the group that is shown.

turns, forks ─▶ Replies.start ─▶ Run ─▶ Generate
engine ─▶ Run ─▶ the nodes of a `ReplyGroup`, the session ─▶ ReplyGrew, WalksChanged, WalksGrew
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from functools import partial

from termchat.chat.changes import LiveChanged, Notice, PathChanged, WalksChanged
from termchat.chat.live import Live
from termchat.chat.reply_run import ReplyBeginning, ReplyGroup, Run
from termchat.chat.state import State
from termchat.conversation.tree import Node, Place
from termchat.decoding.conditions import describe
from termchat.decoding.lacking import acting, is_of_text
from termchat.decoding.records import Failed
from termchat.engine.port import Event, Keep, Tokenize, Tokenized, Unit

NUMBERS = 2**53
"""The numbers of groups are below it, so that JSON keeps them."""


class Replies:
    """One run at a time, of one reply or several. Steering takes the number of a reply in its group; None is all of them.

    `held` says that a person ended the last reply and wants to look before anything follows; `cut` is the last reply if the
    context ended before it did.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self.run: Run | None = None
        self.held = False
        self.cut: Node | None = None
        self._group: ReplyGroup | None = None
        """The group on the screen: the one that runs, the last one, or one that was opened."""
        self._cells: ReplyGroup | None = None
        """The group whose cells the engine still has."""
        self._pausing = False
        self._told_missing = False
        self._left_out: set[str] = set()
        """The settings and rules that were reported as left out."""

    @property
    def running(self) -> bool:
        """Whether the engine has not finished a run yet, whatever is shown by now."""
        return self.run is not None

    def start(self, beginning: ReplyBeginning) -> None:
        """Ask for a new reply or a piece of one, or for the several of the beginning's plan."""
        state, chat, plan = self._state, self._state.conversation, beginning.plan
        if plan.group.beams is not None and beginning.ids:
            beginning = beginning._replace(ids=(), prefill="", longer=beginning.longer - len(beginning.ids))
            state.changed(Notice("a beam search ignores the text that the reply should start with"))
        origin = Place(beginning.parent.number, beginning.at)
        group = ReplyGroup(chat, plan.numbered(secrets.randbelow(NUMBERS)), origin, beginning.before)
        run = self.run = Run(state, group, beginning, self._finish)
        paused, self._pausing, self.held = self._pausing, False, False
        state.enter("prefill")
        self._report_missing_drafter()
        self._report_left_out()
        run.grow()
        self._keep_cells(group.nodes[0])
        if group.alone:
            group.kept = 0
        else:
            self._group = group
            state.changed(WalksChanged())
        state.live, state.paused = group.lives[0], None
        state.changed(PathChanged(), LiveChanged())
        run.begin(paused=paused)

    # --- how they are steered -----------------------------------------------------------------------------------------

    def follow_chat(self) -> None:
        """Apply the chat's settings, breakpoints and constraint from the next token on."""
        if (refused := self._state.refused("adjust")) is not None:
            self._state.changed(Notice(refused.message, "the next reply uses them"))
        elif self.run is not None:
            self.run.follow_chat()

    def adjust(self, values: Mapping[str, object], number: int | None = None) -> None:
        """Change settings of the replies; the chat's stay.

        Raises:
            KnobError: a setting refuses its value; nothing has changed.
        """
        if self.run is not None:
            self.run.adjust(values, number)

    def pause(self, number: int | None = None) -> None:
        """Pause before the next token; a message whose prompt is being made, before the first."""
        if self.run is not None:
            self.run.pause(number)
        elif self._state.phase == "rendering":
            self._pausing = True

    def resume(self, number: int | None = None) -> None:
        """Resume paused replies."""
        if self.run is not None:
            self.run.resume(number)

    def step(self, unit: Unit = "token", number: int | None = None) -> None:
        """Resume paused replies for one token each, or each to the end of its line or sentence."""
        if self.run is not None:
            self.run.step(unit, number)

    def force(self, ids: Sequence[int], number: int | None = None) -> None:
        """Force the next tokens of a reply, by default the selected one; a paused one pauses again after them."""
        if self.run is None:
            self._state.changed(Notice("cannot force a token: no reply is running"))
        else:
            self.run.force(ids, self.run.group.cursor if number is None else number)

    def force_text(self, text: str) -> None:
        """Force the tokens of a text."""
        if self.run is None:
            self.force(())
        elif text:
            self._state.line.ask(Tokenize(text), partial(self._hear_ids, self.run))

    def _hear_ids(self, run: Run, event: Event) -> None:
        if isinstance(event, Tokenized) and self.run is run:
            self.force(event.ids)

    @property
    def may_think(self) -> bool:
        """Whether the running reply is in its thoughts, or may still begin them."""
        model = self._state.model
        if self.run is None or model is None or model.thinking is None:
            return False
        tokens = self.run.group.nodes[self.run.group.cursor].tokens
        return len(tokens) <= max(tokens.thought, tokens.unsure)

    def end_thinking(self) -> None:
        """Force the end of the thoughts, so that the model answers now."""
        if self.run is None or not self.may_think:
            self._state.changed(Notice("the model is not thinking"))
        elif self._state.offered("force"):
            self.run.end_thinking()

    def stop(self, number: int | None = None) -> None:
        """End replies; what they have stays."""
        if self.run is not None:
            self.run.stop(number)

    # --- what is shown, and what is kept ------------------------------------------------------------------------------

    @property
    def shown(self) -> ReplyGroup | None:
        """The group of several replies on the screen: None once another branch or chat is shown."""
        group, chat = self._group, self._state.conversation
        there = group is not None and group.conversation is chat and group.walk_of(chat.leaf) is not None
        return group if there else None

    def show(self, group: ReplyGroup, number: int) -> None:
        """Show a group, and select one of its replies: it is the leaf of the conversation."""
        self._group, group.cursor = group, number
        self.move(group.nodes[number].number, group.lives.get(number))
        self._state.paused = group.paused.get(number)

    def move(self, leaf: int, live: Live | None) -> None:
        """Select another leaf; without `live`, the numbers of its newest token are read."""
        self._state.conversation.leaf = leaf
        self._state.show_leaf(live)
        self._state.changed(WalksChanged())

    def select_node(self, leaf: int) -> bool:
        """Select the running reply whose node is `leaf`; return False if it is none."""
        run = self.run
        if run is None or run.group.conversation is not self._state.conversation:
            return False
        group, number = run.group, run.group.walk_of(leaf)
        if number is None:
            return False
        run.moved, shown = True, self.shown
        self.show(group, number)
        if group.kept is not None:
            group.kept, self._group = number, shown
        return True

    def keep(self, number: int, *, stop_others: bool = False, queue_waits: bool = False) -> None:
        """Continue the chat from a reply of the group that is shown, as soon as all are over; the group is shown no longer."""
        group, run = self.shown, self.run
        if group is None or number not in group.nodes:
            return
        self.show(group, number)
        group.kept, self._group = number, None
        if run is None or run.group is not group:
            self.held = queue_waits
            self._keep_cells(group.nodes[number])
            return
        run.queue_waits, run.kept_running = queue_waits, not group.nodes[number].done
        if stop_others:
            run.ends_joining = True
            for other in group.running:
                if other != number:
                    run.stop(other)

    def close(self) -> None:
        """Show the group no longer."""
        self._group = None

    def keep_selected(self) -> None:
        """Continue from the selected reply when a new message is sent to a finished group."""
        if self.shown is not None and self.run is None:
            self.keep(self.shown.cursor)

    def sync_with_tree(self) -> None:
        """Drop deleted replies; close the group if its branch is shown no longer."""
        group = self._group
        if group is None:
            return
        runs = self.run is not None and self.run.group is group
        deleted = [number for number, node in group.nodes.items() if node.deleted and not runs]
        for number in deleted:
            del group.nodes[number]
        selected = group.walk_of(self._state.conversation.leaf)
        if self.shown is None or selected is None:
            self._group = None
        elif selected != group.cursor:
            self.show(group, selected)
        if deleted or self._group is None:
            self._state.changed(WalksChanged())

    def _finish(self, run: Run, failure: Failed | None) -> None:
        """All replies of a run have ended: rank them, and continue from the one that was kept."""
        state, group = self._state, run.group
        self.run = None
        kept = group.nodes[group.kept] if group.kept is not None else None
        ended = kept.finished if kept is not None else None
        if group.alone:
            self.cut = kept if ended is not None and ended.reason == "context" else None
        else:
            self._cells = group if failure is None else None
            if failure is None:
                self._rank(run)
            state.changed(WalksChanged())
        if group.conversation is state.conversation:  # a person who stopped a reply wants to look first
            stopped = run.kept_running and ended is not None and ended.reason == "user"
            self.held = kept is None or run.queue_waits or stopped
        if kept is not None:
            self._keep_cells(kept)
        state.enter("idle")
        state.changed(LiveChanged())
        if failure is not None:
            state.fail(failure)

    def _rank(self, run: Run) -> None:
        """Record the ranking of a group, and select its best reply where that was asked for."""
        state, group = self._state, run.group
        ranking = group.ranking(lambda error: state.changed(Notice(error.message, error.hint, "warning")))
        run.keep(0, ranking)
        best = ranking.walks[0]
        if group.group.kind in ("best", "vote") and best.score is not None and not run.moved and group is self.shown:
            self.show(group, best.walk)

    def _keep_cells(self, leaf: Node) -> None:
        """Before anything else is decoded: have the engine go on from the cells of the reply that the leaf grows from."""
        group, self._cells = self._cells, None
        chat = self._state.conversation
        if group is None or self._state.model is None or group.conversation is not chat:
            return
        path = (span.node.number for span in reversed(chat.path(leaf.number)))
        number = next((number for node in path if (number := group.walk_of(node)) is not None), None)
        if number is not None:
            self._state.line.ask(Keep(number), lambda _: None)  # where it cannot, the ids are decoded again

    # --- what an engine does without ----------------------------------------------------------------------------------

    def _report_missing_drafter(self) -> None:
        """Say once that a model is to draft and none was chosen: not when the setting is changed, which passes by."""
        state = self._state
        host, drafts = state.host, state.drafts
        missing = drafts is not None and drafts.by == "model" and host.drafter is None
        if missing and host.drafter_failure is None and host.drafter_progress is None and not self._told_missing:
            self._told_missing = True
            hint = "choose one in the model list, or set draft_model"
            state.changed(Notice("nothing is drafted: no draft model is chosen", hint, "warning"))

    def _report_left_out(self) -> None:
        """Say once of each setting and rule that an engine does without it."""
        state = self._state
        by_text = not state.abilities.ids
        settings = acting(state.tuning, state.lacks)
        rules = [
            describe(rule)
            for rule in state.rules
            if state.refused_rule(rule) is not None or (by_text and not is_of_text(rule))
        ]
        new = [name for name in (*settings, *rules) if name not in self._left_out]
        self._left_out.update(new)
        if new:
            chosen = any(name in rules or name in state.lacking(state.tuning) for name in new)
            hint = f"{state.host.engine_name} {'is text only and ' * by_text}knows none of that"
            state.changed(Notice(f"left out: {', '.join(new)}", hint, "warning" if chosen else "information"))
