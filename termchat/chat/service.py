"""The chat: one conversation on one engine, and everything a person can do to it.

No method waits. What was asked is done when `pump` has brought the engine's answers; `pump` returns what changed since.
What a chat consists of is in `state`; how things are done is in the rooms beside it, which know the state and not the chat.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from termchat.chat.aside import Aside
from termchat.chat.branches import Branches
from termchat.chat.changes import BreakpointsChanged, Change, Notice, StatusChanged, TuningChanged
from termchat.chat.forks import Editing, Forks
from termchat.chat.groups import Walks
from termchat.chat.loading import Choice, Loading, measure
from termchat.chat.looking_on import LookingOn
from termchat.chat.questions import Preview, Questions
from termchat.chat.recording import Recorder
from termchat.chat.reopening import Configured, Past, Reopening
from termchat.chat.replies import Replies
from termchat.chat.state import State
from termchat.chat.turns import Turns
from termchat.conversation.session import Breakpoint, View
from termchat.conversation.tree import Conversation, Node
from termchat.conversation.unsent import ALONE, Wish
from termchat.decoding import biases
from termchat.decoding.constraint import Constraint
from termchat.decoding.records import Failed, Token
from termchat.decoding.samplers import KNOBS, STEP_BY_STEP, KnobError, Tuning, Value
from termchat.decoding.stages import LOGIT_BIAS
from termchat.engine.port import Engine, Event


class Chat(State):
    """One conversation on one engine: its state, and what a person does. `configured` is what a new chat begins with; None
    stands for what this one begins with. With `measures` batches of a model that is new here are measured while it rests.
    """

    def __init__(
        self,
        engine: Engine,
        tuning: Tuning | None = None,
        *,
        origin: dict[str, str] | None = None,
        conversation: Conversation | None = None,
        recorder: Recorder | None = None,
        newest: Token | None = None,
        candidates: int = 20,
        breakpoints: tuple[Breakpoint, ...] = (),
        view: View | None = None,
        on_full: str = "stop",
        keep_logits: bool = True,
        step_by_step_text: str = STEP_BY_STEP,
        configured: Configured | None = None,
        measures: bool = False,
    ) -> None:
        super().__init__(
            engine,
            tuning or Tuning(),
            origin=origin or {},
            conversation=conversation or Conversation(),
            recorder=recorder or Recorder(),
            newest=newest,
            candidates=candidates,
            breakpoints=breakpoints,
            view=view or View(),
            on_full=on_full,
            keep_logits=keep_logits,
            step_by_step_text=step_by_step_text,
        )
        self._measures = measures
        self.looking_on = LookingOn(self)
        self.replies = Replies(self, self.looking_on)
        self.turns = Turns(self, self.replies, self.looking_on)
        self.turns.hold()
        self.forks = Forks(self, self.turns, self.replies)
        self.walks = Walks(self, self.replies, self.forks, self.send)
        self.editing = Editing(self, self.turns, self.forks, self.stop)
        self.branches = Branches(self, self.looking_on, self._leave, self.replies.select_node)
        self._preview = Preview(self)
        self.questions = Questions(self)
        self.loading = Loading(self, self._forget)
        chat = self.conversation
        configured = configured or Configured(self.tuning, dict(self.origin), chat.system, chat.raw)
        self._reopening = Reopening(self, self.loading, self.turns, self.looking_on, self._leave, configured)
        self.aside = Aside(self, self._reopening, self.questions.forget)

    def send(self, text: str, wish: Wish = ALONE) -> None:
        """Queue a message, to be answered as the `wish` says; it goes out as soon as nothing else is going on."""
        self.turns.add(text, wish)
        self.replies.keep_selected()
        if self.full is not None and self.full.failure is None:
            self.turns.room.make("stop")  # whoever writes on has read the reply as it is
        self.replies.held = self.full is not None
        if self.phase == "no model":
            self.loading.reload()
        self._go_on()

    def stop(self) -> None:
        """Ends the running reply; what it has stays. The queue is kept, but waits for the next message."""
        if self.phase == "rendering":
            self.turns.cancel()
        elif self.busy:
            self.replies.stop()

    def begin_with(self, text: str) -> None:
        """What the next reply begins with, be it to a new message or made again; "" leaves it to the dice.

        Its tokens are forced, and on record as such. A text that never came to begin a reply waits for the next.
        """
        if not self.takes(text) or (text and not self.offered("continue")):
            return
        self.prefill = None
        if text or self.beginning:  # else there is nothing that "" would take back
            self.prefill = text
        self.changed(StatusChanged())

    def set_breakpoints(self, breakpoints: Iterable[Breakpoint]) -> None:
        """Sets the breakpoints of the running reply and all that follow. One that the engine cannot look at is off."""
        self.breakpoints = tuple(map(self._usable, breakpoints))
        self.changed(BreakpointsChanged())
        self.recorder.watched(self.conversation, self.breakpoints)
        if self.replies.running:
            self.replies.follow_chat()

    def _usable(self, point: Breakpoint) -> Breakpoint:
        why = self.refused_rule(point.condition) if point.enabled and point not in self.breakpoints else None
        if why is None:
            return point
        self.changed(Notice(*why))
        return Breakpoint(point.condition, enabled=False)

    def constrain(self, constraint: Constraint | None) -> None:
        """What the running reply has to match from its next token on, and those that follow from their first; None: nothing."""
        if constraint == self.constraint:
            return
        if constraint is not None and (why := self.refused_constraint(constraint)) is not None:
            self.changed(Notice(*why))
            return
        self.constraint = constraint
        self.changed(TuningChanged())
        if self.replies.running:
            self.replies.follow_chat()
        else:
            self._preview.ask()
        self.questions.tuned()

    def record(self, node: Node, index: int) -> Token | None:
        """The record of a token of a reply as it was drawn, candidates and all; None if it was not kept."""
        return self.recorder.token(self.conversation, node, index)

    def wrote(self, conversation: Conversation, draft: str) -> None:
        """Keeps what the composer has with a chat."""
        if draft != conversation.unsent.draft:
            conversation.unsent.draft = draft
            self.recorder.unsent(conversation)

    def look(self, view: View) -> None:
        """Saves how the chat is looked at, for when it is opened again."""
        if view != self.view:
            self.view = view
            self.recorder.viewed(self.conversation, view)

    # --- conversations and knobs -------------------------------------------------------------------------------------

    @property
    def configured(self) -> Configured:
        """What a new chat begins with."""
        return self._reopening.configured

    def lost(self) -> dict[str, Value]:
        """The knobs that a new chat does not keep, by name, with their values in this one."""
        return self.tuning.differing(self._reopening.knobs()[0])

    def new(self, system: str | None = None, *, raw: bool | None = None, keep: bool = False) -> None:
        """Starts an empty conversation with the same model, as configured where nothing else is said. `keep` keeps what this
        one has instead: system prompt, raw mode, knobs and breakpoints.
        """
        before = self.conversation if keep else self.configured
        self.open(Conversation(before.system if system is None else system, raw=before.raw if raw is None else raw))
        if not keep:
            self._reopening.reset()

    def open(self, conversation: Conversation, newest: Token | None = None) -> None:
        """Shows another conversation; `newest` is its last token's record, for the panels.

        A reply that is running ends, and its end is kept with the conversation it belongs to; a message sent meanwhile
        waits for that. The queue stays with its conversation.
        """
        self._reopening.new(conversation, newest)
        self.questions.forget()

    def reopen(self, past: Past) -> None:
        """Shows a saved chat as it was left; loads its model if that is another one."""
        self._reopening.past(past)
        self.questions.forget()

    def retitle(self, title: str) -> None:
        self.looking_on.own()
        self.conversation.title = title
        self.recorder.titled(self.conversation)
        self.changed(StatusChanged())

    def draft_with(self, choice: Choice | None) -> None:
        """Has this model draft from now on, None none, also in mid-reply; that is kept for the model that is loaded. Nothing
        drafts while the knob `draft` is off."""
        spec, wanted = (choice.spec, choice.wanted or choice.spec.path) if choice is not None else (None, "")
        self.loading.speculation.draft_with(spec, wanted)

    def adjust(self, name: str, value: object) -> None:
        """Turns a knob: the next token obeys, or while nothing runs the shown distribution is reshaped.

        Raises:
            KnobError: the knob refuses the value; nothing has changed.
        """
        turned = self.tuning.turned({name: value})
        if name in self.lacking(turned):
            raise KnobError(f"{name}: {self.engine_name} has no such knob")
        if (why := self.refused_knobs(turned).get(name)) is not None:
            raise KnobError(why.message)
        unknown = biases.unknown(turned.logit_bias, self.model.vocabulary) if self.model is not None else None
        if name == LOGIT_BIAS and unknown is not None:
            raise KnobError(f"{name}: token {unknown} is not in this model's vocabulary")
        if turned != self.tuning:
            self._turn(turned, {name: "panel"})

    def adjust_all(self, values: Mapping[str, object], places: Mapping[str, str]) -> None:
        """Turns several knobs at once, as one change; `places` are where their values come from. Those that the engine lacks,
        or does not take at such a value, are left as they are by default.

        Raises:
            KnobError: a knob refuses its value; nothing has changed.
        """
        turned = self.tuning.turned(values)
        lacking = [name for name in self.lacking(turned) if name in values]
        if lacking:
            turned = turned.turned({name: KNOBS[name].default for name in lacking})
            self.changed(Notice(f"{self.engine_name} has no {', '.join(lacking)}: left out"))
        beyond = {name: why for name, why in self.refused_knobs(turned).items() if name in values}
        if beyond:
            turned = turned.turned({name: KNOBS[name].default for name in beyond})
            self.changed(*(Notice(why.message, "left out") for why in beyond.values()))
        self._turn(turned, places)

    def _turn(self, turned: Tuning, origin: Mapping[str, str]) -> None:
        before, self.tuning = self.tuning, turned
        self.origin |= origin
        self.changed(TuningChanged())
        if turned.think != before.think:
            self.check_thinking()
        if turned.draft != before.draft:
            self.loading.speculation.follow()
        self.recorder.tuned(self.conversation, turned)
        if self.replies.running:
            self.replies.follow_chat()
        else:
            self._preview.ask()
        self.questions.tuned()

    def close(self) -> None:
        """Ends the engine; a running reply is cancelled first, so that its end is recorded."""
        if self.busy and self.engine.alive:
            self.stop()
            for _ in range(20):
                self.pump(0.05)
                if not self.replies.running or not self.engine.alive:
                    break
        self.engine.close()

    # --- what the engine says ----------------------------------------------------------------------------------------

    def pump(self, timeout: float | None = 0.0) -> list[Change]:
        """Takes in all that the engine has said, waiting up to `timeout` seconds for the first word of it."""
        if self.engine.alive:
            for number, event in self.engine.receive(timeout):
                self._hear(number, event)
                self._go_on()
        self.turns.room.withdraw()
        self.replies.sync_with_tree()
        self.changed(*(Notice(*told, "warning") for told in self.recorder.notices()))
        return self.take_changes()

    def _hear(self, number: int, event: Event) -> None:
        if isinstance(event, Failed) and event.kind == "engine":
            self.line.broken(event)
            self.forks.drop()
            self.editing.drop()
            self.loading.speculation.end()
            self.model = None
            self.enter("failed")
            self.fail(event)
        elif not self.line.deliver(number, event) and isinstance(event, Failed):
            self.fail(event)

    def _forget(self) -> None:
        """Drops what waits for an answer of a model that is unloaded."""
        self.forks.drop()
        self.editing.drop()
        self.questions.forget()

    def _leave(self) -> None:
        """Stops what is being made: another chat or branch is to be shown."""
        self.forks.drop()
        self.editing.drop()
        if self.busy:
            self.stop()

    def _go_on(self) -> None:
        """Starts what waits, once nothing else is going on."""
        if self.phase != "idle" or self._reopening.go_on() or self.turns.room.go_on():
            return
        if self.loading.then_continue:
            self.loading.then_continue = False
            self.forks.continue_reply()
        elif self.forks.waits:
            self.forks.make()
        elif self.editing.waits:
            self.editing.make()
        elif self.turns.queue and not self.replies.held:
            self.turns.next()
        elif self._measures and not self.line.waits:
            measure(self)
