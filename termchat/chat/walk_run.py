"""A group of replies while it runs: what the engine is asked for, how each walk is steered, and where its records go."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from termchat.chat.beginning import ReplyBeginning
from termchat.chat.changes import LiveChanged, Notice, Phase, ReplyGrew, StatusChanged, WalksChanged, WalksGrew
from termchat.chat.live import Live
from termchat.chat.loading import measure
from termchat.chat.state import State
from termchat.chat.walk_group import WalkGroup
from termchat.conversation.tree import Node, Place
from termchat.decoding.group import MOST_WALKS
from termchat.decoding.records import Beams, Failed, Finished, Prefill, Ranking, Record, SettingsRecord, Start, Token
from termchat.engine.port import (
    Adjust,
    Cancel,
    EndThinking,
    Event,
    FirstToken,
    Force,
    Generate,
    Join,
    Noted,
    Pause,
    Paused,
    Prefilling,
    Remark,
    ReplyRequest,
    Resume,
    Scripted,
    SteerReply,
    Step,
    Unit,
    WalksFinished,
)


class WalkRun:
    """The running group. Whatever steers takes the number of a walk; None stands for all of them.

    `over` hears that all have ended, with the failure that ended them, if it was one. `moved`: a person has chosen which walk
    is looked at. With `ends_joining`, a walk that joins ends at once.
    """

    def __init__(
        self,
        state: State,
        group: WalkGroup,
        beginning: ReplyBeginning,
        over: Callable[[WalkRun, Failed | None], None],
    ) -> None:
        self._state, self.group, self._beginning, self._over = state, group, beginning, over
        self._tuning = state.tuning
        self._turned = {walk: dict(changes) for walk, changes in enumerate(group.plan.changes)}
        """The knobs of each walk that are others than the chat's."""
        self._seeds = {walk: group.plan.seed(beginning.seed, walk) for walk in range(group.plan.size)}
        self._joining: dict[int, Place] = {}
        """The walks that were asked for beside those that run, and from where they grow."""
        self._stepping: set[int] = set()
        self._told: set[Remark] = set()
        self.moved = False
        self.ends_joining = False

    @property
    def shown_walk(self) -> int:
        return self.group.cursor

    @property
    def shown_node(self) -> Node:
        return self.group.nodes[self.group.cursor]

    def grow(self) -> None:
        """Makes the nodes of all walks; what a beam search finds is known in the end."""
        for walk in range(1 if self.group.plan.beams is not None else self.group.plan.size):
            self._grow(walk, self.group.origin)

    def ask(self, asked: Generate) -> None:
        """Begins: all are as this single reply, but for what is their own."""
        [self._asked] = asked.replies
        replies = asked.replies
        if self.group.plan.beams is None:
            replies = [self._request(walk) for walk in self.group.nodes]
        measure(self._state, needed=True)
        command = msgspec.structs.replace(asked, replies=replies, group=self.group.group, exact=self.group.plan.exact)
        self._state.line.ask(command, self._hear)

    # --- how it is steered --------------------------------------------------------------------------------------------

    def adjust(self, values: Mapping[str, object], walk: int | None = None) -> None:
        """Turns knobs of the walks, from their next token on; the chat's stay.

        Raises:
            KnobError: a knob refuses its value; nothing has changed.
        """
        checked = self._state.tuning.turned(values)
        if self._is_steerable():
            for one in self._chosen(walk):
                self._turned[one] |= {name: getattr(checked, name) for name in values}
                self._tell(self._adjusted(one), one)

    def adjust_to_chat(self) -> None:
        """The chat's knobs, breakpoints or constraint were turned: so they are for all walks. What differs from walk to walk
        stays, but for knobs that were just turned."""
        if self._is_steerable():
            turned = self._state.tuning.differing(self._tuning)
            self._tuning = self._state.tuning
            for walk, values in self._turned.items():
                self._turned[walk] = {name: value for name, value in values.items() if name not in turned}
            for walk in self.group.running:
                self._tell(self._adjusted(walk), walk)

    def pause(self, walk: int | None = None) -> None:
        self._tell(Pause(), walk)

    def resume(self, walk: int | None = None) -> None:
        self._tell(Resume(), walk)
        for one in self._chosen(walk):
            self.group.paused.pop(one, None)
        self._changed()

    def step(self, unit: Unit = "token", walk: int | None = None) -> None:
        """Continues paused walks for one token each, or each to the end of its line or sentence."""
        self._tell(Step(unit), walk)
        if unit == "token":
            self._steps(walk)

    def force(self, walk: int | None, ids: Sequence[int]) -> None:
        """Makes these the next tokens of a walk; a paused one pauses again after them."""
        if ids and self._is_steerable():
            self._steps(walk)
            self._tell(Force(list(ids)), walk)

    def end_thinking(self) -> None:
        if self._is_steerable():
            self._steps(None)
            self._tell(EndThinking(), None)

    def stop(self, walk: int | None = None) -> None:
        self._tell(Cancel(), walk)

    def join(self, walk: int, at: int, ids: Sequence[int], *, paused: bool = False) -> None:
        """One more walk: the first `at` tokens of this one's node, then `ids`, with its dice and its knobs. `paused`: it waits
        after these."""
        group, node = self.group, self.group.nodes[walk]
        number = max(self._turned) + 1
        if not self._is_steerable():
            return
        if number >= MOST_WALKS:
            self._state.changed(Notice(f"no more than {MOST_WALKS} walks"))
        elif not 0 <= at <= len(node.ids):
            self._state.changed(Notice(f"cannot fork: the reply has {len(node.ids)} tokens here"))
        else:
            self._turned[number], self._seeds[number] = dict(self._turned[walk]), self._seeds[walk]
            self._joining[number] = Place(node.number, at)
            begun = sum(span.count for span in group.spans(walk)[:-1]) + at
            said = [i for span in group.spans(walk)[:-1] for i in span.node.ids[: span.count]]
            script = tuple(Scripted(self._beginning.done + begun + place, i) for place, i in enumerate(ids))
            request = msgspec.structs.replace(
                self._request(number),
                ids=[*self._asked.ids, *said, *node.ids[:at]],
                done=self._asked.done + begun,
                script=script,
                paused=paused,
            )
            self._state.line.tell(Join(request))

    def _is_steerable(self) -> bool:
        if self.group.plan.beams is None:
            return True
        self._state.changed(Notice("a running beam search cannot be changed", "changed knobs apply to the next reply"))
        return False

    def _chosen(self, walk: int | None) -> Iterable[int]:
        return self.group.running if walk is None else {walk} & self.group.nodes.keys()

    def _steps(self, walk: int | None) -> None:
        """What these wait with stays visible until there is a newer step."""
        self._stepping |= self.group.paused.keys() & self._chosen(walk)

    def _tell(self, command: SteerReply, walk: int | None) -> None:
        self._state.line.tell(msgspec.structs.replace(command, reply=walk))

    def _adjusted(self, walk: int) -> Adjust:
        """The knobs of a walk and what ends it: the chat's, and what is its own."""
        state, plan = self._state, self.group.plan
        planned = plan.changes[walk] if walk < plan.size else {}
        own = self._turned[walk]
        tuning = state.tuning.turned(own)
        conditions = (*state.conditions(self._beginning.longer, tuning), *self._beginning.limits)
        places = {name: plan.kind if planned.get(name) == value else "panel" for name, value in own.items()}
        return Adjust(tuning.samplers(), conditions, dict(state.origin) | places, state.constraint)

    def _request(self, walk: int) -> ReplyRequest:
        """Build the request of a reply of the group: that of all, with its own settings and seed."""
        adjusted = self._adjusted(walk)
        return msgspec.structs.replace(
            self._asked,
            number=walk,
            samplers=adjusted.samplers,
            conditions=adjusted.conditions,
            seed=self._seeds[walk],
            origin=adjusted.origin,
            constraint=adjusted.constraint,
        )

    # --- what the engine says -----------------------------------------------------------------------------------------

    def _hear(self, event: Event) -> None:
        group = self.group
        if isinstance(event, (Start, SettingsRecord, Prefill, Token, Finished, Failed)) and event.walk is not None:
            self._record(event.walk, event)
        elif isinstance(event, Failed):
            for walk in group.running:
                self._record(walk, msgspec.structs.replace(event, walk=walk))
            self._end(event)
        elif isinstance(event, (Beams, Ranking)):
            self.keep(0, event)
            self._grew(0)
        elif isinstance(event, Paused):
            walk = event.walk or 0
            group.paused[walk] = event
            group.lives[walk].wait(event.token)
            self._stepping.discard(walk)
            self._changed()
        elif isinstance(event, Prefilling):
            for live in group.lives.values():
                live.prefill_done, live.prefill_total = event.done, event.total
            self._state.changed(StatusChanged())
        elif isinstance(event, FirstToken) and event.walk in group.lives:
            group.lives[event.walk].ttft_ms = event.ttft_ms
        elif isinstance(event, Noted):
            if event.remark not in self._told:  # each walk may say it
                self._told.add(event.remark)
                self._state.changed(Notice(event.remark.message, event.remark.hint, "warning"))
        elif isinstance(event, WalksFinished):
            group.ended = event
            self._end(None)

    def keep(self, walk: int, record: Record) -> None:
        """Puts a record where it belongs."""
        chat, node = self.group.conversation, self.group.nodes[walk]
        chat.add(node, record)
        self._state.recorder.record(chat, node, record)

    def _record(self, walk: int, record: Record) -> None:
        group = self.group
        if walk not in group.nodes and isinstance(record, Start):
            self._grow(walk, self._joining.pop(walk, group.origin))
            if self.ends_joining:
                self.stop(walk)
            self._changed()
        if walk not in group.nodes:
            if isinstance(record, Failed):  # there was no room for one that was to join
                self._state.changed(Notice(record.message, record.hint))
            return
        self.keep(walk, record)
        group.lives[walk].take(record)
        ended = isinstance(record, (Finished, Failed))
        if ended or (isinstance(record, Token) and walk not in self._stepping):
            group.paused.pop(walk, None)
        if ended:
            self._changed()
        self._grew(walk)

    def _grow(self, walk: int, place: Place) -> None:
        """A node for a walk; the leaf stays."""
        state, group, chat = self._state, self.group, self.group.conversation
        leaf = chat.leaf
        node = group.nodes[walk] = chat.grow("assistant", parent=place.node, at=place.at)
        live = group.lives[walk] = Live()
        live.token = state.live.token  # until there is another, as for a single reply
        chat.leaf = leaf
        state.recorder.turn(chat, node)
        state.recorder.selected(chat)

    def _grew(self, walk: int) -> None:
        state, number = self._state, self.group.nodes[walk].number
        if state.conversation is self.group.conversation:
            state.changed(WalksGrew())
            if state.conversation.leaf == number:
                state.changed(ReplyGrew(number), LiveChanged())
        self._enter()

    def _changed(self) -> None:
        self._state.changed(WalksChanged(), LiveChanged())
        self._enter()

    def _enter(self) -> None:
        """The chat does what its walks do: it waits if all wait that run."""
        state, group = self._state, self.group
        running = group.running
        waits = bool(running) and all(walk in group.paused for walk in running)
        begun = group.beams or any(len(node.tokens) for node in group.nodes.values())
        phase: Phase = "paused" if waits else "decoding" if begun else "prefill"
        state.paused = group.paused.get(group.cursor)
        if phase != state.phase:
            state.enter(phase)

    def _end(self, failure: Failed | None) -> None:
        self.group.paused.clear()
        self._state.paused = None
        self._over(self, failure)
