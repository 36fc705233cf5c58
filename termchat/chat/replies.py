"""The replies that run, how they are steered, and their end.

turns, forks ─▶ Replies.start ─▶ Run ─▶ Generate
engine ─▶ Run ─▶ the nodes of a `ReplyGroup`, the session ─▶ ReplyGrew, WalksChanged, WalksGrew
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from termchat.chat.changes import LiveChanged, Notice, PathChanged, WalksChanged
from termchat.chat.reply_group import ReplyBeginning, ReplyGroup
from termchat.chat.reply_run import Run
from termchat.chat.state import State
from termchat.conversation.tree import Node, Place
from termchat.decoding.conditions import format_condition, is_of_text
from termchat.decoding.records import Failed
from termchat.decoding.stages import acting
from termchat.engine.port import Cancel, EndThinking, Force, Keep, Pause, Resume, Step, Unit

NUMBERS = 2**53
"""The numbers of groups are below it, so that JSON keeps them."""


class Replies:
    """One run at a time, of one reply or several. Steering takes the number of a reply in its group; None is all of them.

    `held` says that a person ended the last reply and wants to look before anything follows; `cut` is the last reply if the
    context ended before it did.
    """

    def __init__(self, chat: State) -> None:
        self._chat = chat
        self.run: Run | None = None
        """None once the engine has finished it, whatever is shown by then."""
        self.held = False
        self.cut: Node | None = None
        self._cells: ReplyGroup | None = None
        """The group whose cells the engine still has."""
        self._pausing = False
        self._left_out: set[str] = set()
        """The settings, rules and models that were reported as left out."""

    def start(self, beginning: ReplyBeginning) -> None:
        """Ask for a new reply or a piece of one, or for the several of the beginning's plan."""
        chat, plan = self._chat, beginning.plan
        if plan.group.beams is not None and beginning.ids:
            beginning = beginning._replace(ids=(), prefill="", longer=beginning.longer - len(beginning.ids))
            chat.add_changes(Notice("a beam search ignores the text that the reply should start with"))
        origin = Place(beginning.parent.number, beginning.at)
        group = ReplyGroup(chat.conversation, plan.set_number(secrets.randbelow(NUMBERS)), origin, beginning.before)
        chat.enter_phase("prefill")
        if group.alone:
            self._report_missing_drafter()
        self._report_left_out()
        self.keep_cells(beginning.parent)
        if self._pausing and beginning.then == "go on":
            beginning = beginning._replace(then="wait")
        self._pausing = self.held = False
        self.run = Run(chat, group, beginning, self._finish_run)
        if not group.alone:
            chat.group = group
            chat.add_changes(WalksChanged())
        chat.live, chat.paused = group.lives[0], None
        chat.add_changes(PathChanged(), LiveChanged())

    # --- how they are steered -----------------------------------------------------------------------------------------

    def pause(self, number: int | None = None) -> None:
        """Pause before the next token; before the first, if the prompt is still being made."""
        if self.run is not None:
            self.run.send_steer(Pause(), number)
        elif self._chat.phase == "rendering":
            self._pausing = True

    def resume(self, number: int | None = None) -> None:
        """Resume paused replies; the pending step stays visible until a newer token arrives."""
        self._end_pause(Resume(), number)

    def step(self, unit: Unit = "token", number: int | None = None) -> None:
        """Resume paused replies for one token each, or each to the end of its line or sentence."""
        self._end_pause(Step(unit), number)

    def _end_pause(self, command: Resume | Step, number: int | None) -> None:
        run, paused = self.run, self._list_paused(number)
        if run is None or not paused:
            return
        run.send_steer(command, number)
        if isinstance(command, Step) and command.unit == "token":
            run.stepping |= paused
        else:
            run.stepping -= paused
            for one in paused:
                del run.group.paused[one]
            run.report_change()

    def _list_paused(self, number: int | None) -> set[int]:
        paused = self.run.group.paused.keys() if self.run is not None else set[int]()
        return set(paused) if number is None else {number} & paused

    def force_tokens(self, ids: Sequence[int]) -> None:
        """Force the next tokens of the selected reply; a paused one pauses again after them."""
        run = self.run
        if run is None:
            self._chat.add_changes(Notice("cannot force a token: no reply is running"))
        elif ids and run.is_steerable():
            run.stepping |= self._list_paused(run.group.cursor)
            run.send_steer(Force(list(ids)), run.group.cursor)

    def force_text(self, text: str) -> None:
        """Force the tokens of a text."""
        run = self.run
        if run is None:
            self.force_tokens(())
        elif text:
            self._chat.host.ask_ids(text, lambda ids: self.force_tokens(ids) if self.run is run else None)

    @property
    def may_think(self) -> bool:
        """Whether the running reply is in its thoughts, or may still begin them."""
        model = self._chat.model
        if self.run is None or model is None or model.thinking is None:
            return False
        tokens = self.run.group.nodes[self.run.group.cursor].tokens
        return len(tokens) <= max(tokens.thought, tokens.unsure)

    def end_thinking(self) -> None:
        """Force the end of the thoughts of all replies, so that the model answers now."""
        if self.run is None or not self.may_think:
            self._chat.add_changes(Notice("the model is not thinking"))
        elif self._chat.check_offered("force") and self.run.is_steerable():
            self.run.stepping |= self._list_paused(None)
            self.run.send_steer(EndThinking(), None)

    def stop(self, number: int | None = None) -> None:
        """End replies; their tokens stay."""
        if self.run is not None:
            self.run.send_steer(Cancel(), number)

    # --- the end ------------------------------------------------------------------------------------------------------

    def _finish_run(self, run: Run, failure: Failed | None) -> None:
        """All replies of a run have ended: rank them, and continue from the one that was kept.

        Args:
            failure: it ended them.
        """
        chat, group = self._chat, run.group
        self.run = chat.paused = None
        group.paused.clear()
        kept = group.nodes[group.kept] if group.kept is not None else None
        ended = kept.finished if kept is not None else None
        if group.alone:
            self.cut = kept if ended is not None and ended.reason == "context" else None
        else:
            self._cells = group if failure is None else None
            if failure is None:
                self._rank_replies(run)
            chat.add_changes(WalksChanged())
        if group.conversation is chat.conversation:  # a person who stopped a reply wants to look first
            stopped = run.kept_running and ended is not None and ended.reason == "user"
            self.held = kept is None or run.queue_waits or stopped
        if kept is not None:
            self.keep_cells(kept)
        chat.enter_phase("idle")
        chat.add_changes(LiveChanged())
        if failure is not None:
            chat.report_failure(failure)

    def _rank_replies(self, run: Run) -> None:
        """Record the ranking of a group, and select its best reply where that was asked for."""
        chat, group = self._chat, run.group
        ranking = group.rank_replies(lambda error: chat.add_changes(Notice(error.message, error.hint, "warning")))
        run.session.add(group.nodes[0], ranking)
        best = ranking.walks[0]
        if (
            group.group.kind in ("best", "vote")
            and best.score is not None
            and not run.moved
            and group is chat.shown_group
        ):
            chat.show_group(group, best.walk)

    def keep_cells(self, leaf: Node) -> None:
        """Before anything else is decoded: have the engine go on from the cells of the reply that the leaf grows from."""
        group, self._cells = self._cells, None
        tree = self._chat.conversation
        if group is None or self._chat.model is None or group.conversation is not tree:
            return
        path = (span.node.number for span in reversed(tree.find_path(leaf.number)))
        number = next((number for node in path if (number := group.walk_of(node)) is not None), None)
        if number is not None:
            self._chat.host.send_command(Keep(number), lambda _: None)  # where it cannot, the ids are decoded again

    def forget_cells(self) -> None:
        """Note that another chat has used the engine: the cells of the last group are gone."""
        self._cells = None

    # --- what an engine does without ----------------------------------------------------------------------------------

    def _report_missing_drafter(self) -> None:
        """Say once that a model is to draft and none was chosen: not when the setting is changed, which passes by."""
        chat = self._chat
        host, drafts = chat.host, chat.drafts
        missing = (
            drafts is not None and drafts.by == "model" and host.drafter is None and "drafter" not in self._left_out
        )
        if missing and host.drafter_failure is None and host.drafter_progress is None:
            self._left_out.add("drafter")
            hint = "choose one in the model list, or set draft_model"
            chat.add_changes(Notice("nothing is drafted: no draft model is chosen", hint, "warning"))

    def _report_left_out(self) -> None:
        """Say once of each setting and rule that an engine does without it."""
        chat = self._chat
        by_text = not chat.abilities.ids
        settings = acting(chat.tuning, chat.abilities.lacks)
        rules = [
            format_condition(rule)
            for rule in chat.rules
            if chat.refused_rule(rule) is not None or (by_text and not is_of_text(rule))
        ]
        new = [name for name in (*settings, *rules) if name not in self._left_out]
        self._left_out.update(new)
        if new:
            chosen = any(name in rules or name in chat.list_lacking(chat.tuning) for name in new)
            hint = f"{chat.host.engine_name} {'is text only and ' * by_text}knows none of that"
            chat.add_changes(Notice(f"left out: {', '.join(new)}", hint, "warning" if chosen else "information"))
