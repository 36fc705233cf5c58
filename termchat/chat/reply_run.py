"""A group of one or more replies while it runs: its request, its records, and how each reply is steered."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from termchat.chat.changes import LiveChanged, Notice, Phase, ReplyGrew, StatusChanged, WalksChanged, WalksGrew
from termchat.chat.live import Live
from termchat.chat.loading import measure
from termchat.chat.prompting import messages
from termchat.conversation.batch_shapes import shapes_of
from termchat.conversation.node import Node
from termchat.conversation.tree import Conversation, Place, Span
from termchat.conversation.unsent import Then
from termchat.conversation.walk_groups import ranking_of
from termchat.decoding.answers import AnswerError
from termchat.decoding.conditions import Length
from termchat.decoding.drafting import DraftSettings
from termchat.decoding.group import MOST_WALKS
from termchat.decoding.records import Beams, Failed, Finished, Prefill, Ranking, SettingsRecord, Start, Token
from termchat.decoding.samplers import Tuning
from termchat.decoding.walk_plan import ONE, WalkPlan
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

if TYPE_CHECKING:
    from termchat.chat.service import Chat


class ReplyBeginning(NamedTuple):
    """Where the replies of a `plan` begin: at the first `at` ids of `parent`, for a new reply or a piece of one.

    `done` of the ids before them are the reply's own; their cells are decoded again in the batches in which they were decoded
    first, where those are known. A reply may have `longer` more tokens than its settings say, but no more than `limit` (0: as
    many as there is room for). It begins with `ids`, whatever the dice say; `then` is what follows. `prefill` is their text,
    where a person set what the reply begins with. `remembered` is the state of the chain's stages, `constraint_begun` the step
    at which the chat's constraint began. `before` is the leaf that was shown until then.
    """

    parent: Node
    at: int
    seed: int
    done: int
    longer: int = 0
    limit: int = 0
    ids: Sequence[int] = ()
    then: Then = "go on"
    prefill: str = ""
    remembered: Mapping[str, float] = {}
    constraint_begun: int = 0
    plan: WalkPlan = ONE
    before: int | None = None


class ReplyGroup:
    """Replies that were made together, each a node; `Replies`, `Walks` and `Run` write the fields.

    A group that is `alone` is one reply, whose records have no number. `origin` is the place from which they grow, `before` the
    leaf that was shown until then. `cursor` is the reply that is selected, `kept` the one from which the chat continues.
    `lives` have the newest step of each, `paused` the next one of those that are paused. `ended` is None while they run, where
    an engine died, and in a chat that was opened again.
    """

    def __init__(self, conversation: Conversation, plan: WalkPlan, origin: Place, before: int | None = None) -> None:
        self.conversation, self.plan, self.origin, self.before = conversation, plan, origin, before
        self.group = plan.group
        self.alone = plan.group.kind == "walks" and plan.group.size == 1
        self.nodes: dict[int, Node] = {}
        self.lives: dict[int, Live] = {}
        self.paused: dict[int, Paused] = {}
        self.cursor = 0
        self.kept: int | None = None
        self.ended: WalksFinished | None = None

    @property
    def running(self) -> list[int]:
        """The walks that have not ended."""
        return [walk for walk, node in self.nodes.items() if not node.done]

    @property
    def beams(self) -> Sequence[Beams]:
        """The steps of a beam search."""
        return self.nodes[0].beams if 0 in self.nodes else []

    @property
    def labels(self) -> dict[int, str]:
        """What is its own of each walk, "" where only the seed is; of one that joined, where it grew from another."""
        labels = {walk: self.plan.label(walk) for walk in range(self.group.size) if walk in self.nodes}
        for walk, node in self.nodes.items():
            base = self.walk_of(node.parent)
            labels.setdefault(walk, f"from {base + 1}, token {node.at + 1}" if base is not None else "")
        return labels

    def walk_of(self, leaf: int | None) -> int | None:
        """The walk whose node this is."""
        return next((walk for walk, node in self.nodes.items() if node.number == leaf), None)

    def spans(self, walk: int) -> list[Span]:
        """What a walk has said since the origin: of one that joined, first what it has of the other walk."""
        return self.conversation.path(self.nodes[walk].number, since=self.origin.node)

    def step_of(self, node: int, at: int) -> int:
        """How many tokens since the origin stand before a token of one of the walks."""
        walk = self.walk_of(node)
        return sum(span.count for span in self.spans(walk)[:-1]) + at if walk is not None else at

    def place_of(self, walk: int, step: int) -> Place | None:
        """The opposite: where in a walk that token is, or its last one where it has not come as far; None before its first."""
        found = None
        for span in self.spans(walk):
            if span.count:
                found = Place(span.node.number, min(step, span.count - 1))
            if step < span.count:
                break
            step -= span.count
        return found

    def ids(self, walk: int) -> list[int]:
        return [i for span in self.spans(walk) for i in span.node.ids[: span.count]]

    def ranking(self, refused: Callable[[AnswerError], object] = lambda _: None) -> Ranking:
        """The walks, best first: as it is on record, else as they are now. `refused` is told why no answers of a vote can be
        taken out."""
        recorded = self.nodes[0].ranking if 0 in self.nodes else None
        return recorded or ranking_of({walk: self.spans(walk) for walk in self.nodes}, self.group, refused)


class Run:
    """The running group: its request, and the settings of each reply. `Replies` steers it.

    `moved`: a person has selected a reply. With `ends_joining`, a reply that joins ends at once. `queue_waits` keeps the queue
    waiting afterwards; `kept_running` says that the reply that was kept had not ended then. `stepping` are paused replies that
    pause again after their next token.
    """

    def __init__(self, chat: Chat, group: ReplyGroup, beginning: ReplyBeginning) -> None:
        self._chat, self.group, self._beginning = chat, group, beginning
        self.session, self._tuning, self._drafts = chat.session, chat.tuning, chat.drafts
        self._settings = {number: dict(changes) for number, changes in enumerate(group.plan.changes)}
        """The settings of each reply that differ from the chat's."""
        self._seeds = {number: group.plan.seed(beginning.seed, number) for number in range(group.group.size)}
        self._joining: dict[int, Place] = {}
        """From where each reply grows that was asked to join."""
        self.stepping: set[int] = set()
        self._remarks: set[Remark] = set()
        self._begun = False
        self.moved = self.ends_joining = self.queue_waits = False
        self.kept_running = group.alone
        for number in range(
            1 if group.group.beams is not None else group.group.size
        ):  # a search finds its replies later
            self._grow(number, group.origin)

    def begin(self, *, paused: bool = False) -> None:
        """Send the request."""
        chat, group, beginning = self._chat, self.group, self._beginning
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
            paused=beginning.then != "go on" or paused,
            state=dict(beginning.remembered),
            constraint_begun=beginning.constraint_begun,
            shapes=shapes or [],
            rebuild_exactly=bool(shapes and beginning.done),
            prefill=beginning.prefill,
            messages=[] if has_ids else messages(tree, beginning.parent.number),
        )
        command = Generate(
            [self._request(number) for number in group.nodes],
            None if group.alone else group.group,
            raw=tree.raw,
            candidates=chat.candidates,
            keep_logits=chat.keep_logits,
            draft=self._drafts,
            exact=group.plan.exact,
        )
        if command.draft is not None or not group.alone:
            measure(chat, needed=True)
        chat.host.ask(command, self._hear)

    def adjust(self, values: Mapping[str, object], number: int | None = None) -> None:
        """Change settings of replies from their next token on; the chat's stay.

        Raises:
            KnobError: a setting refuses its value; nothing has changed.
        """
        checked = self._chat.tuning.turned(values)
        if self.is_steerable():
            for one in self.group.running if number is None else {number} & self.group.nodes.keys():
                self._settings[one] |= {name: getattr(checked, name) for name in values}
                self.tell(self._adjustment(one), one)

    def follow_chat(self) -> None:
        """Apply the chat's settings, breakpoints and constraint; what differs between replies stays, except for settings that
        were just changed."""
        chat, before = self._chat, self._drafts
        if (refused := chat.refused("adjust")) is not None:
            chat.changed(Notice(refused.message, "the next reply uses them"))
            return
        if not self.is_steerable():
            return
        changed, self._tuning, self._drafts = chat.tuning.differing(self._tuning), chat.tuning, chat.drafts
        for number, values in self._settings.items():
            self._settings[number] = {name: value for name, value in values.items() if name not in changed}
        for number in self.group.running:
            adjustment = self._adjustment(number)
            if self.group.alone and self._drafts != before:
                drafts = self._drafts or DraftSettings("off")
                adjustment = msgspec.structs.replace(adjustment, draft=drafts)
            self.tell(adjustment, number)

    def join(self, base: int, at: int, ids: Sequence[int], *, paused: bool = False) -> None:
        """Add a reply: the first `at` tokens of the node of reply `base`, then `ids`, with its dice and its settings.

        Args:
            paused: it waits behind these.
        """
        group, node = self.group, self.group.nodes[base]
        number = max(self._settings) + 1
        if not self.is_steerable():
            return
        if number >= MOST_WALKS:
            self._chat.changed(Notice(f"no more than {MOST_WALKS} walks"))
        elif not 0 <= at <= len(node.ids):
            self._chat.changed(Notice(f"cannot fork: the reply has {len(node.ids)} tokens here"))
        else:
            self._settings[number], self._seeds[number] = dict(self._settings[base]), self._seeds[base]
            self._joining[number] = Place(node.number, at)
            before = [i for span in group.spans(base)[:-1] for i in span.node.ids[: span.count]]
            done = self._shared.done + len(before) + at
            request = msgspec.structs.replace(
                self._request(number),
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
        self._chat.changed(Notice("a running beam search cannot be changed", "changed knobs apply to the next reply"))
        return False

    def tell(self, command: SteerReply, number: int | None) -> None:
        """Send a command to a reply, or to all."""
        self._chat.engine.send(msgspec.structs.replace(command, reply=None if self.group.alone else number))

    def tuning_of(self, number: int) -> Tuning:
        """Return the settings of a reply: the chat's, and its own."""
        return self._chat.tuning.turned(self._settings[number])

    def origin_of(self, number: int) -> dict[str, str]:
        """Return where each setting of a reply comes from."""
        plan = self.group.plan
        planned = plan.changes[number] if number < plan.group.size else {}
        own = self._settings[number].items()
        places = {name: plan.group.kind if planned.get(name) == value else "panel" for name, value in own}
        return self._chat.origin | places

    def _adjustment(self, number: int) -> Adjust:
        tuning, beginning = self.tuning_of(number), self._beginning
        conditions = self._chat.conditions(tuning, beginning.longer)
        if beginning.limit:
            conditions = (*conditions, Length(beginning.limit))
        return Adjust(tuning.samplers(), conditions, self.origin_of(number), self._chat.constraint)

    def _request(self, number: int) -> ReplyRequest:
        """Build the request of a reply: what all share, with its own settings and seed."""
        adjustment = self._adjustment(number)
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

    def _hear(self, event: Event) -> None:
        group = self.group
        if isinstance(event, (Token, Start, SettingsRecord, Prefill, Finished, Failed)) and (
            group.alone or event.walk is not None
        ):
            self._take(event.walk or 0, event)
            if group.alone and isinstance(event, (Finished, Failed)):
                self._chat.replies.finish(self, event if isinstance(event, Failed) else None)
        elif isinstance(event, Failed):
            for number in group.running:
                self._take(number, msgspec.structs.replace(event, walk=number))
            self._chat.replies.finish(self, event)
        elif isinstance(event, (Beams, Ranking)):
            self._begun = True
            self.session.add(group.nodes[0], event)
            self._report_growth(0)
        elif isinstance(event, Paused):
            self.stepping.discard(event.walk or 0)
            if self._beginning.then == "end":
                self.tell(Cancel(), None)
                return
            self._begun = True
            group.paused[event.walk or 0] = event
            group.lives[event.walk or 0].pending = event.token
            self.report_change()
        elif isinstance(event, Prefilling):
            for live in group.lives.values():
                live.prefill_done, live.prefill_total = event.done, event.total
            self._chat.changed(StatusChanged())
        elif isinstance(event, FirstToken):
            if (event.walk or 0) in group.lives:
                group.lives[event.walk or 0].ttft_ms = event.ttft_ms
        elif isinstance(event, Noted):
            if event.remark not in self._remarks:  # each reply may send it
                self._remarks.add(event.remark)
                self._chat.changed(Notice(event.remark.message, event.remark.hint, "warning"))
        elif isinstance(event, WalksFinished):
            group.ended = event
            self._chat.replies.finish(self, None)

    def _take(self, number: int, record: Start | SettingsRecord | Prefill | Token | Finished | Failed) -> None:
        """Add a record of a reply; a reply that joins grows with its `Start`."""
        group = self.group
        if number not in group.nodes and isinstance(record, Start):
            self._grow(number, self._joining.pop(number, group.origin))
            if self.ends_joining:
                self.tell(Cancel(), number)
            self.report_change()
        if number not in group.nodes:
            if isinstance(record, Failed):  # there was no room for one that was to join
                self._chat.changed(Notice(record.message, record.hint))
            return
        self.session.add(group.nodes[number], record)
        group.lives[number].take(record)
        ended = isinstance(record, (Finished, Failed))
        self._begun = self._begun or isinstance(record, Token)
        if ended or (isinstance(record, Token) and number not in self.stepping):
            group.paused.pop(number, None)
        if ended:
            self.report_change()
        self._report_growth(number)

    def _grow(self, number: int, place: Place) -> None:
        """Grow the node of a reply; the leaf stays, except for the first reply."""
        chat, group, tree = self._chat, self.group, self.group.conversation
        leaf = tree.leaf
        node = group.nodes[number] = tree.grow("assistant", parent=place.node, at=place.at)
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
                chat.changed(WalksGrew())
            if chat.conversation.leaf == node:
                chat.live = group.lives[number]
                chat.changed(ReplyGrew(node), LiveChanged())
        self._enter_phase()

    def report_change(self) -> None:
        """Report that replies were paused, resumed or ended."""
        if not self.group.alone:
            self._chat.changed(WalksChanged())
        self._chat.changed(LiveChanged())
        self._enter_phase()

    def _enter_phase(self) -> None:
        """Enter the phase of the run: paused if all replies that run are."""
        chat, group = self._chat, self.group
        running = group.running
        waits = bool(running) and all(number in group.paused for number in running)
        phase: Phase = "paused" if waits else "decoding" if self._begun else "prefill"
        chat.paused = group.paused.get(group.cursor)
        if phase != chat.phase:
            chat.enter(phase)
