"""The running reply: how it begins, what it says, and how it is steered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, Protocol

from termchat.chat.beginning import ReplyBeginning
from termchat.chat.changes import LiveChanged, Notice, PathChanged, ReplyGrew, StatusChanged
from termchat.chat.loading import measure
from termchat.chat.looking_on import LookingOn
from termchat.chat.prompting import messages
from termchat.chat.state import State
from termchat.conversation.batch_shapes import shapes_of
from termchat.conversation.tree import Conversation, Node
from termchat.decoding.conditions import describe
from termchat.decoding.drafting import DraftSettings
from termchat.decoding.lacking import acting, is_of_text
from termchat.decoding.records import Failed, Finished, Prefill, Record, SettingsRecord, Start, Token
from termchat.engine.port import (
    Adjust,
    Cancel,
    EndThinking,
    Event,
    FirstToken,
    Force,
    Generate,
    Noted,
    Pause,
    Paused,
    Prefilling,
    ReplyRequest,
    Resume,
    Step,
    Tokenize,
    Tokenized,
    Unit,
)

"""With which a batch has the same bits however many threads compute it; what an engine says names it, too."""


class Several(Protocol):
    """Replies that run together and are steered as one."""

    @property
    def shown_walk(self) -> int:
        """The number of the one that is looked at."""

    @property
    def shown_node(self) -> Node: ...

    def adjust_to_chat(self) -> None: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...
    def step(self, unit: Unit) -> None: ...
    def force(self, walk: int | None, ids: Sequence[int]) -> None: ...
    def end_thinking(self) -> None: ...


class _Running(NamedTuple):
    """A reply and its conversation, whatever is shown by then."""

    conversation: Conversation
    node: Node
    ends: bool = False
    """Whether it ends when it first waits."""


class Replies:
    """One reply at a time. `held` says that a person ended the last one, and wants to look before anything follows; `cut` is
    the last one if the context ended before it did. Where `several` run together, whatever steers the reply steers them.
    `decodes` hears of a reply's node before anything of it is decoded."""

    def __init__(self, state: State, looking_on: LookingOn) -> None:
        self._state, self._looking_on = state, looking_on
        self.cut: Node | None = None
        self.several: Several | None = None
        self.decodes: Callable[[Node], None] = lambda _: None
        self._running: _Running | None = None
        self._longer = 0
        self._drafts: DraftSettings | None = None
        """What the running reply was told last of drafts."""
        self._told_missing = False
        self._left_out: set[str] = set()
        """The knobs and rules of which it was said that they are left out."""
        self._stepping = False
        self._pausing = False
        self.held = False

    @property
    def running(self) -> bool:
        """Whether the engine has not finished the reply yet."""
        return self._running is not None or self.several is not None

    def start(self, beginning: ReplyBeginning) -> None:
        """A new reply, or a piece of one."""
        state, chat = self._state, self._state.conversation
        self._looking_on.own()
        reply = chat.grow("assistant", parent=beginning.parent.number, at=beginning.at)
        self._longer, self.held = beginning.longer, False
        state.live.begin()
        state.recorder.turn(chat, reply)
        state.enter("prefill")
        state.changed(PathChanged(), LiveChanged())
        self._running = _Running(chat, reply, ends=beginning.then == "end")
        asked = question(state, beginning, reply, paused=self._pausing)
        self._drafts = asked.draft
        self._tell_missing()
        self._tell_left_out()
        self.decodes(reply)
        if asked.draft is not None:
            measure(state, needed=True)
        state.line.ask(asked, partial(self._hear, self._running))
        self._stepping = self._pausing = False

    def stop(self) -> None:
        self._state.line.tell(Cancel())

    def adjust(self) -> None:
        """Applies the current knobs and breakpoints from the next token on."""
        state = self._state
        if (refused := state.refused("adjust")) is not None:
            state.changed(Notice(refused.message, "the next reply uses them"))
            return
        if self.several is not None:
            self.several.adjust_to_chat()
            return
        before, self._drafts = self._drafts, state.drafts
        told = None if self._drafts == before else self._drafts or DraftSettings("off")
        conditions = state.conditions(self._longer)
        state.line.tell(Adjust(state.tuning.samplers(), conditions, dict(state.origin), state.constraint, told))

    def pause(self) -> None:
        """Pauses before the next token; a message on its way, before the first."""
        if self.several is not None:
            self.several.pause()
        elif self._running is not None:
            self._state.line.tell(Pause())
        elif self._state.phase == "rendering":
            self._pausing = True

    def resume(self) -> None:
        if self.several is not None:
            self.several.resume()
        elif self._state.phase == "paused":
            self._state.line.tell(Resume())
            self._leave_pause()

    def step(self, unit: Unit) -> None:
        """Continues a paused reply for one token, or to the end of the line or sentence."""
        if self.several is not None:
            self.several.step(unit)
            return
        if self._state.phase != "paused":
            return
        self._state.line.tell(Step(unit))
        if unit == "token":
            self._stepping = True
        else:
            self._leave_pause()

    def force(self, ids: Sequence[int]) -> None:
        """Makes these the next tokens; a paused reply pauses again after them. Of several it is the one that is looked at."""
        if self.several is not None:
            self.several.force(self.several.shown_walk, ids)
        elif self._running is None:
            self._state.changed(Notice("cannot force a token: no reply is running"))
        elif ids:
            self._stepping = self._state.phase == "paused"
            self._state.line.tell(Force(list(ids)))

    @property
    def may_think(self) -> bool:
        """Whether the running reply is in its thoughts, or may still begin them."""
        model = self._state.model
        node = self._running.node if self._running else self.several.shown_node if self.several else None
        if node is None or model is None or model.thinking is None:
            return False
        tokens = node.tokens
        return len(tokens) <= max(tokens.thought, tokens.unsure)

    def end_thinking(self) -> None:
        """Has the model answer now: the end of its thoughts is forced."""
        state = self._state
        if not self.may_think:
            state.changed(Notice("the model is not thinking"))
        elif not state.offered("force"):
            pass
        elif self.several is not None:
            self.several.end_thinking()
        else:
            self._stepping = state.phase == "paused"
            state.line.tell(EndThinking())

    def force_text(self, text: str) -> None:
        if not self.running:
            self.force(())
        elif text:
            self._state.line.ask(Tokenize(text), partial(self._hear_ids, self._running))

    # --- what the engine says ----------------------------------------------------------------------------------------

    def _hear_ids(self, running: _Running | None, event: Event) -> None:
        if isinstance(event, Tokenized) and self._running is running:
            self.force(event.ids)

    def _hear(self, running: _Running, event: Event) -> None:
        state = self._state
        if isinstance(event, (Start, SettingsRecord, Prefill, Token, Finished, Failed)):
            self._record(running, event)
        elif isinstance(event, Paused):
            self._wait(running, event)
        elif isinstance(event, Noted):
            state.changed(Notice(event.remark.message, event.remark.hint, "warning"))
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

    def _tell_missing(self) -> None:
        """Says once that a model is to draft and none was chosen: not when the knob is turned, which passes by."""
        state = self._state
        missing = self._drafts is not None and self._drafts.by == "model" and state.drafter is None
        if missing and state.drafter_failure is None and state.drafter_progress is None and not self._told_missing:
            self._told_missing = True
            hint = "choose one in the model list, or set draft_model"
            state.changed(Notice("nothing is drafted: no draft model is chosen", hint, "warning"))

    def _tell_left_out(self) -> None:
        """Says once of each knob and rule that an engine does without it."""
        state = self._state
        by_text = not state.abilities.ids
        knobs = acting(state.tuning, state.lacks)
        rules = [
            describe(rule)
            for rule in state.rules
            if state.refused_rule(rule) is not None or (by_text and not is_of_text(rule))
        ]
        new = [name for name in (*knobs, *rules) if name not in self._left_out]
        self._left_out.update(new)
        if new:
            chosen = any(name in rules or name in state.lacking(state.tuning) for name in new)
            what = f"left out: {', '.join(new)}"
            self._state.changed(
                Notice(
                    what,
                    f"{state.engine_name} {'is text only and ' * by_text}knows none of that",
                    "warning" if chosen else "information",
                )
            )

    def _is_shown(self, running: _Running) -> bool:
        chat = self._state.conversation
        return running.conversation is chat and chat.leaf == running.node.number


def question(state: State, beginning: ReplyBeginning, reply: Node, *, paused: bool = False) -> Generate:
    """What is asked for a reply that grows in the shown chat."""
    shapes = shapes_of(state.conversation, reply.number, state.model.kv_type if state.model is not None else "")
    has_ids = state.abilities.ids
    request = ReplyRequest(
        ids=state.conversation.ids_before(reply.number) if has_ids else [],
        samplers=state.tuning.samplers(),
        conditions=(*state.conditions(beginning.longer), *beginning.limits),
        seed=beginning.seed,
        origin=dict(state.origin),
        done=beginning.done,
        script=beginning.script,
        paused=beginning.then != "go on" or paused,
        state=dict(beginning.remembered),
        constraint=state.constraint,
        constraint_begun=beginning.constraint_begun,
        shapes=shapes or [],
        rebuild_exactly=bool(shapes and beginning.done),
        prefill=beginning.prefill,
        messages=[] if has_ids else messages(state.conversation, beginning.parent.number),
    )
    return Generate(
        [request],
        raw=state.conversation.raw,
        candidates=state.candidates,
        keep_logits=state.keep_logits,
        draft=state.drafts,
    )
