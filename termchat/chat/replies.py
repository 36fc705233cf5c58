"""The running reply: how it begins, what it says, and how it is steered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Literal, NamedTuple

from termchat.chat.changes import LiveChanged, Notice, PathChanged, ReplyGrew, StatusChanged
from termchat.chat.looking_on import LookingOn
from termchat.chat.state import State
from termchat.conversation.batch_shapes import shapes_of
from termchat.conversation.tree import Conversation, Node
from termchat.decoding.conditions import Length
from termchat.decoding.records import Failed, Finished, Prefill, Record, SettingsRecord, Start, Token
from termchat.engine.port import (
    FEATURES,
    Adjust,
    Cancel,
    EndThinking,
    Event,
    FirstToken,
    Force,
    Generate,
    Pause,
    Paused,
    Prefilling,
    Resume,
    Scripted,
    Step,
    Tokenize,
    Tokenized,
    Unit,
)

Then = Literal["go on", "wait", "end"]
"""What follows forced tokens at the begin of a reply: the dice's own, a pause, or its end."""


class _Running(NamedTuple):
    """A reply and its conversation, whatever is shown by then."""

    conversation: Conversation
    node: Node
    ends: bool = False
    """Whether it ends when it first waits."""


class Replies:
    """One reply at a time. `held` says that a person ended the last one, and wants to look before anything follows; `cut` is
    the last one if the context ended before it did."""

    def __init__(self, state: State, looking_on: LookingOn) -> None:
        self._state, self._looking_on = state, looking_on
        self.cut: Node | None = None
        self._running: _Running | None = None
        self._longer = 0
        self._stepping = False
        self._pausing = False
        self.held = False

    @property
    def running(self) -> bool:
        """Whether the engine has not finished the reply yet."""
        return self._running is not None

    def start(
        self,
        parent: Node,
        at: int,
        *,
        seed: int,
        done: int,
        longer: int = 0,
        limit: int = 0,
        ids: Sequence[int] = (),
        then: Then = "go on",
        prefill: str = "",
        remembered: Mapping[str, float] = {},
        constraint_begun: int = 0,
    ) -> None:
        """A new reply, or a piece of one, that grows from the first `at` ids of `parent`.

        `done` of the ids before it are the reply's own; their cells are made again in the batches in which they were made
        first, where those are known. It may have `longer` more tokens than the knob says, but no more than `limit` (0: as
        many as there is room for). The first of them are `ids`, whatever the dice say; `then` is what follows these. `prefill`
        is their text, where a person said that the reply begins with it. `remembered` is the state of the chain's stages where
        it goes on, `constraint_begun` the step of the reply with which the chat's constraint began.
        """
        state, chat = self._state, self._state.conversation
        self._looking_on.own()
        reply = chat.grow("assistant", parent=parent.number, at=at)
        shapes = shapes_of(chat, reply.number)
        self._longer, self.held = longer, False
        state.live.begin()
        state.recorder.turn(chat, reply)
        state.enter("prefill")
        state.changed(PathChanged(), LiveChanged())
        self._running = _Running(chat, reply, ends=then == "end")
        state.line.ask(
            Generate(
                ids=chat.ids(),
                samplers=state.tuning.samplers(),
                conditions=(*state.conditions(longer), *((Length(limit),) if limit else ())),
                seed=seed,
                origin=dict(state.origin),
                done=done,
                raw=chat.raw,
                candidates=state.candidates,
                shapes=shapes or [],
                rebuild_exactly=bool(shapes and done),
                script=tuple(Scripted(done + number, i) for number, i in enumerate(ids)),
                paused=then != "go on" or self._pausing,
                keep_logits=state.keep_logits,
                state=dict(remembered),
                prefill=prefill,
                constraint=state.constraint,
                constraint_begun=constraint_begun,
            ),
            partial(self._hear, self._running),
        )
        self._stepping = self._pausing = False

    def stop(self) -> None:
        self._state.line.tell(Cancel())

    def adjust(self) -> None:
        """Applies the current knobs and breakpoints from the next token on."""
        state = self._state
        if "adjust" not in state.engine.offers:
            state.changed(Notice(f"this engine cannot {FEATURES['adjust']}", "the next reply uses them"))
            return
        conditions = state.conditions(self._longer)
        state.line.tell(Adjust(state.tuning.samplers(), conditions, dict(state.origin), state.constraint))

    def pause(self) -> None:
        """Pauses before the next token; a message on its way, before the first."""
        if self._running is not None:
            self._state.line.tell(Pause())
        elif self._state.phase == "rendering":
            self._pausing = True

    def resume(self) -> None:
        if self._state.phase == "paused":
            self._state.line.tell(Resume())
            self._leave_pause()

    def step(self, unit: Unit) -> None:
        """Continues a paused reply for one token, or to the end of the line or sentence."""
        if self._state.phase != "paused":
            return
        self._state.line.tell(Step(unit))
        if unit == "token":
            self._stepping = True
        else:
            self._leave_pause()

    def force(self, ids: Sequence[int]) -> None:
        """Makes these the next tokens; a paused reply pauses again after them."""
        if self._running is None:
            self._state.changed(Notice("cannot force a token: no reply is running"))
        elif ids:
            self._stepping = self._state.phase == "paused"
            self._state.line.tell(Force(list(ids)))

    @property
    def may_think(self) -> bool:
        """Whether the running reply is in its thoughts, or may still begin them."""
        model, running = self._state.model, self._running
        if running is None or model is None or model.thinking is None:
            return False
        tokens = running.node.tokens
        return len(tokens) <= max(tokens.thought, tokens.unsure)

    def end_thinking(self) -> None:
        """Has the model answer now: the end of its thoughts is forced."""
        state = self._state
        if not self.may_think:
            state.changed(Notice("the model is not thinking"))
        elif "force" not in state.engine.offers:
            state.changed(Notice(f"this engine cannot {FEATURES['force']}"))
        else:
            self._stepping = state.phase == "paused"
            state.line.tell(EndThinking())

    def force_text(self, text: str) -> None:
        if self._running is None:
            self.force(())
        elif text:
            self._state.line.ask(Tokenize(text), partial(self._hear_ids, self._running))

    # --- what the engine says ----------------------------------------------------------------------------------------

    def _hear_ids(self, running: _Running, event: Event) -> None:
        if isinstance(event, Tokenized) and self._running is running:
            self.force(event.ids)

    def _hear(self, running: _Running, event: Event) -> None:
        state = self._state
        if isinstance(event, (Start, SettingsRecord, Prefill, Token, Finished, Failed)):
            self._record(running, event)
        elif isinstance(event, Paused):
            self._wait(running, event)
        elif not self._is_shown(running):
            return
        elif isinstance(event, Prefilling):
            state.live.prefill_done, state.live.prefill_total = event.done, event.total
            state.changed(StatusChanged())
        elif isinstance(event, FirstToken):
            state.live.ttft_ms = event.ttft_ms

    def _wait(self, running: _Running, event: Paused) -> None:
        state = self._state
        self._stepping = False
        if running.ends:
            self.stop()
            return
        state.paused = event
        state.enter("paused")
        if self._is_shown(running):
            state.live.wait(event.token)
            state.changed(LiveChanged())

    def _leave_pause(self) -> None:
        """The pending step stays visible until there is a newer one."""
        self._stepping = False
        self._state.paused = None
        self._state.enter("decoding")

    def _record(self, running: _Running, event: Record) -> None:
        state, shown = self._state, self._is_shown(running)
        running.conversation.add(running.node, event)
        state.recorder.record(running.conversation, running.node, event)
        if shown:
            state.live.take(event)
            state.changed(ReplyGrew(running.node.number), LiveChanged())
        if isinstance(event, Token):
            state.paused = None
            if state.phase != "decoding" and not self._stepping:
                state.enter("decoding")
        elif isinstance(event, (Finished, Failed)):
            self._running = state.paused = None
            if running.conversation is state.conversation:  # whoever pressed stop wants to look first
                self.held = isinstance(event, Finished) and event.reason == "user"
            self.cut = running.node if isinstance(event, Finished) and event.reason == "context" else None
            state.enter("idle")
            state.changed(LiveChanged())
        if isinstance(event, Failed):
            state.fail(event)

    def _is_shown(self, running: _Running) -> bool:
        chat = self._state.conversation
        return running.conversation is chat and chat.leaf == running.node.number
