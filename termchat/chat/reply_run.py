"""A group of one or more replies while it runs: its request, its records, and how each reply is steered."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from termchat.chat.changes import LiveChanged, Notice, Phase, ReplyGrew, StatusChanged, WalksChanged, WalksGrew
from termchat.chat.live import Live
from termchat.chat.loading import measure_batches
from termchat.chat.prompting import build_messages
from termchat.chat.reply_group import ReplyBeginning, ReplyGroup
from termchat.chat.state import State
from termchat.conversation.batch_shapes import shapes_of
from termchat.conversation.tree import Place
from termchat.decoding.conditions import Length
from termchat.decoding.drafting import DraftSettings
from termchat.decoding.group import MOST_WALKS
from termchat.decoding.records import Beams, Failed, Finished, Prefill, Ranking, SettingsRecord, Start, Token
from termchat.decoding.samplers import Tuning
from termchat.engine.port import (
    Adjust,
    Cancel,
    Event,
    FirstToken,
    Generate,
    Join,
    Noted,
    Paused,
    Prefilling,
    Remark,
    ReplyRequest,
    Scripted,
    SteerReply,
    WalksFinished,
)


class Run:
    """The running group: its request, and the settings of each reply. `Replies` steers it; `over` is called when all have
    ended, with the failure that ended them, if any.

    `moved`: a person has selected a reply. With `ends_joining`, a reply that joins ends at once. `queue_waits` keeps the queue
    waiting afterwards; `kept_running` says that the reply that was kept had not ended then. `stepping` are paused replies that
    pause again after their next token.
    """

    def __init__(
        self, chat: State, group: ReplyGroup, beginning: ReplyBeginning, over: Callable[[Run, Failed | None], None]
    ) -> None:
        self._chat, self.group, self._beginning, self._over = chat, group, beginning, over
        self.session, self._tuning, self._drafts = chat.session, chat.tuning, chat.drafts
        self._settings = {number: dict(changes) for number, changes in enumerate(group.plan.changes)}
        """The settings of each reply that differ from the chat's."""
        self._seeds = {number: group.plan.choose_seed(beginning.seed, number) for number in range(group.group.size)}
        self._joining: dict[int, Place] = {}
        """From where each reply grows that was asked to join."""
        self.stepping: set[int] = set()
        self._remarks: set[Remark] = set()
        self._begun = False
        self.moved = self.ends_joining = self.queue_waits = False
        self.kept_running = group.alone
        for number in range(group.group.size if group.group.beams is None else 1):  # a search finds its replies later
            self._grow_node(number, group.origin)
        tree, node = group.conversation, group.nodes[0]
        shapes = shapes_of(tree, node.number, chat.model.kv_type if chat.model is not None else "")
        has_ids = chat.abilities.ids
        self._shared = ReplyRequest(
            ids=tree.ids_before(node.number) if has_ids else [],
            samplers=self._tuning.samplers(),
            conditions=(),
            seed=beginning.seed,
            done=beginning.done,
            script=tuple(Scripted(beginning.done + place, i) for place, i in enumerate(beginning.ids)),
            paused=beginning.then != "go on",
            state=dict(beginning.remembered),
            constraint_begun=beginning.constraint_begun,
            shapes=shapes or [],
            rebuild_exactly=bool(shapes and beginning.done),
            prefill=beginning.prefill,
            messages=[] if has_ids else build_messages(tree, beginning.parent.number),
        )
        command = Generate(
            [self._build_request(number) for number in group.nodes],
            None if group.alone else group.group,
            raw=tree.raw,
            candidates=chat.candidates,
            keep_logits=chat.keep_logits,
            draft=self._drafts,
            exact=group.plan.exact,
        )
        if command.draft is not None or not group.alone:
            measure_batches(chat, needed=True)
        chat.host.send_command(command, self._hear_event)

    def adjust_settings(self, values: Mapping[str, object], number: int | None = None) -> None:
        """Change settings of replies from their next token on; the chat's stay.

        Raises:
            SettingError: a setting refuses its value; nothing has changed.
        """
        checked = self._chat.tuning.turn_knobs(values)
        if self.is_steerable():
            for one in self.group.running if number is None else {number} & set(self.group.running):
                self._settings[one] |= {name: getattr(checked, name) for name in values}
                self.send_steer(self._build_adjust(one), one)

    def follow_chat(self) -> None:
        """Apply the chat's settings, breakpoints and constraint; what differs between replies stays, except for settings that
        were just changed."""
        chat, before = self._chat, self._drafts
        if (refused := chat.find_refusal("adjust")) is not None:
            chat.add_changes(Notice(refused.message, "the next reply uses them"))
            return
        if not self.is_steerable():
            return
        changed, self._tuning, self._drafts = chat.tuning.find_differing(self._tuning), chat.tuning, chat.drafts
        for number, values in self._settings.items():
            self._settings[number] = {name: value for name, value in values.items() if name not in changed}
        for number in self.group.running:
            adjustment = self._build_adjust(number)
            if self.group.alone and self._drafts != before:
                drafts = self._drafts or DraftSettings("off")
                adjustment = msgspec.structs.replace(adjustment, draft=drafts)
            self.send_steer(adjustment, number)

    def join_reply(self, base: int, at: int, ids: Sequence[int], *, paused: bool = False) -> None:
        """Add a reply: the first `at` tokens of the node of reply `base`, then `ids`, with its dice and its settings.

        Args:
            paused: it waits behind these.
        """
        group, node = self.group, self.group.nodes[base]
        number = max(self._settings) + 1
        if not self.is_steerable():
            return
        if number >= MOST_WALKS:
            self._chat.add_changes(Notice(f"no more than {MOST_WALKS} walks"))
        elif not 0 <= at <= len(node.ids):
            self._chat.add_changes(Notice(f"cannot fork: the reply has {len(node.ids)} tokens here"))
        else:
            self._settings[number], self._seeds[number] = dict(self._settings[base]), self._seeds[base]
            self._joining[number] = Place(node.number, at)
            before = [i for span in group.list_spans(base)[:-1] for i in span.node.ids[: span.count]]
            done = self._shared.done + len(before) + at
            request = msgspec.structs.replace(
                self._build_request(number),
                ids=[*self._shared.ids, *before, *node.ids[:at]],
                done=done,
                script=tuple(Scripted(done + place, i) for place, i in enumerate(ids)),
                paused=paused,
            )
            self._chat.engine.send(Join(request))

    def is_steerable(self) -> bool:
        """Tell whether the replies can be changed while they run; a notice says that they cannot."""
        if self.group.group.beams is None:
            return True
        self._chat.add_changes(
            Notice("a running beam search cannot be changed", "changed knobs apply to the next reply")
        )
        return False

    def send_steer(self, command: SteerReply, number: int | None) -> None:
        """Send a command to a reply, or to all."""
        self._chat.engine.send(msgspec.structs.replace(command, reply=None if self.group.alone else number))

    def tuning_of(self, number: int) -> Tuning:
        """Return the settings of a reply: the chat's, and its own."""
        return self._chat.tuning.turn_knobs(self._settings[number])

    def origin_of(self, number: int) -> dict[str, str]:
        """Return where each setting of a reply comes from."""
        plan = self.group.plan
        planned = plan.changes[number] if number < plan.group.size else {}
        own = self._settings[number].items()
        places = {name: plan.group.kind if planned.get(name) == value else "panel" for name, value in own}
        return self._chat.origin | places

    def _build_adjust(self, number: int) -> Adjust:
        tuning, beginning = self.tuning_of(number), self._beginning
        conditions = self._chat.build_conditions(tuning, beginning.longer)
        if beginning.limit:
            conditions = (*conditions, Length(beginning.limit))
        return Adjust(tuning.samplers(), conditions, self.origin_of(number), self._chat.constraint)

    def _build_request(self, number: int) -> ReplyRequest:
        """Build the request of a reply: what all share, with its own settings and seed."""
        adjustment = self._build_adjust(number)
        return msgspec.structs.replace(
            self._shared,
            number=number,
            samplers=adjustment.samplers,
            conditions=adjustment.conditions,
            seed=self._seeds[number],
            origin=adjustment.origin,
            constraint=adjustment.constraint,
        )

    # --- what the engine says -----------------------------------------------------------------------------------------

    def _hear_event(self, event: Event) -> None:
        group = self.group
        if isinstance(event, (Token, Start, SettingsRecord, Prefill, Finished, Failed)) and (
            group.alone or event.walk is not None
        ):
            self._take_record(event.walk or 0, event)
            if group.alone and isinstance(event, (Finished, Failed)):
                self._over(self, event if isinstance(event, Failed) else None)
        elif isinstance(event, Failed):
            for number in group.running:
                self._take_record(number, msgspec.structs.replace(event, walk=number))
            self._over(self, event)
        elif isinstance(event, (Beams, Ranking)):
            self._begun = True
            self.session.add(group.nodes[0], event)
            self._report_growth(0)
        elif isinstance(event, Paused):
            self.stepping.discard(event.walk or 0)
            if self._beginning.then == "end":
                self.send_steer(Cancel(), None)
                return
            self._begun = True
            group.paused[event.walk or 0] = event
            group.lives[event.walk or 0].pending = event.token
            self.report_change()
        elif isinstance(event, Prefilling):
            for live in group.lives.values():
                live.prefill_done, live.prefill_total = event.done, event.total
            self._chat.add_changes(StatusChanged())
        elif isinstance(event, FirstToken):
            if (event.walk or 0) in group.lives:
                group.lives[event.walk or 0].ttft_ms = event.ttft_ms
        elif isinstance(event, Noted):
            if event.remark not in self._remarks:  # each reply may send it
                self._remarks.add(event.remark)
                self._chat.add_changes(Notice(event.remark.message, event.remark.hint, "warning"))
        elif isinstance(event, WalksFinished):
            group.ended = event
            self._over(self, None)

    def _take_record(self, number: int, record: Start | SettingsRecord | Prefill | Token | Finished | Failed) -> None:
        """Add a record of a reply; a reply that joins grows with its `Start`."""
        group = self.group
        if number not in group.nodes and isinstance(record, Start):
            self._grow_node(number, self._joining.pop(number, group.origin))
            if self.ends_joining:
                self.send_steer(Cancel(), number)
            self.report_change()
        if number not in group.nodes:
            if isinstance(record, Failed):  # there was no room for one that was to join
                self._chat.add_changes(Notice(record.message, record.hint))
            return
        self.session.add(group.nodes[number], record)
        group.lives[number].take_record(record)
        ended = isinstance(record, (Finished, Failed))
        self._begun = self._begun or isinstance(record, Token)
        if ended or (isinstance(record, Token) and number not in self.stepping):
            group.paused.pop(number, None)
        if ended:
            self.report_change()
        self._report_growth(number)
        if group.alone and isinstance(record, Token):
            self._chat.paused = None  # until the next step waits

    def _grow_node(self, number: int, place: Place) -> None:
        """Grow the node of a reply; the leaf stays, except for the first reply."""
        chat, group, tree = self._chat, self.group, self.group.conversation
        leaf = tree.leaf
        node = group.nodes[number] = tree.grow_node("assistant", parent=place.node, at=place.at)
        live = group.lives[number] = Live()
        live.token, live.threads = chat.live.token, chat.live.threads  # until there are newer ones
        self.session.add_node(node, chat.host.model_ref)
        if number:
            tree.leaf = leaf
            self.session.save_leaf()

    def _report_growth(self, number: int) -> None:
        chat, group = self._chat, self.group
        node = group.nodes[number].number
        if chat.conversation is group.conversation:
            if not group.alone:
                chat.add_changes(WalksGrew())
            if chat.conversation.leaf == node:
                chat.live = group.lives[number]
                chat.add_changes(ReplyGrew(node), LiveChanged())
        self._enter_phase()

    def report_change(self) -> None:
        """Report that replies were paused, resumed or ended."""
        if not self.group.alone:
            self._chat.add_changes(WalksChanged())
        self._chat.add_changes(LiveChanged())
        self._enter_phase()

    def _enter_phase(self) -> None:
        """Enter the phase of the run: paused if all replies that run are."""
        chat, group = self._chat, self.group
        running = group.running
        waits = bool(running) and all(number in group.paused for number in running)
        phase: Phase = "paused" if waits else "decoding" if self._begun else "prefill"
        chat.paused = group.paused.get(group.cursor)
        if phase != chat.phase:
            chat.enter_phase(phase)
