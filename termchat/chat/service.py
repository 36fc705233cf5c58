"""The chat: one conversation on one engine, and everything a person can do to it.

No method waits. What was asked is done when `pump` has brought the engine's answers; `pump` returns what changed since.
What a chat consists of is in `state`; how things are done is in the rooms beside it, which know the state and not the chat.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from termchat.chat import reopening
from termchat.chat.branches import Branches
from termchat.chat.changes import (
    BreakpointsChanged,
    Change,
    Notice,
    StatusChanged,
    TuningChanged,
    Way,
)
from termchat.chat.forks import Again, Editing
from termchat.chat.loading import Choice, Loading
from termchat.chat.questions import Preview, Questions
from termchat.chat.recording import Recorder
from termchat.chat.reopening import Past, Reopening
from termchat.chat.replies import Replies
from termchat.chat.state import State
from termchat.chat.turns import Turns
from termchat.conversation.session import Breakpoint, View
from termchat.conversation.tree import Conversation, Node, Span
from termchat.decoding.records import Failed, Token
from termchat.decoding.samplers import Tuning
from termchat.engine.port import Engine, Event, ModelSpec, Unit


class Chat(State):
    """One conversation on one engine: its state, and what a person does."""

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
        )
        self._replies = Replies(self)
        self._turns = Turns(self, self._replies)
        self._again = Again(self, self._turns, self._replies)
        self._editing = Editing(self, self._turns, self._again, self.stop)
        self._branches = Branches(self, self._leave)
        self._preview = Preview(self)
        self.questions = Questions(self)
        self._loading = Loading(self, self._forget)
        self._reopening = Reopening(self, self._loading, self._turns, self._leave)

    # --- model -------------------------------------------------------------------------------------------------------

    def load(self, spec: ModelSpec) -> None:
        """Loads the first model, or in place of the one that is there; the knobs stay as they are."""
        self._loading.load(spec)

    def switch(self, choice: Choice) -> bool:
        """Goes on with another model: the conversation stays, the next turn is rendered by the new one.

        Knobs that nobody turned follow the new model's recommendation. The old process ends first, so all its memory is
        free. While a reply runs nothing is done but to tell so; whether it began. A load that fails leaves the phase
        "failed", and `switch_back` has the model before again.
        """
        return self._loading.switch(choice)

    @property
    def earlier(self) -> ModelSpec | None:
        """The model that `switch_back` would load, None where there is none."""
        return self._loading.earlier

    def switch_back(self) -> bool:
        """Goes on with the model before this one, or the one that was there if this one could not be loaded."""
        return self._loading.switch_back()

    def unload(self) -> bool:
        """Ends the engine, so that all its memory is free; the next message loads the model again."""
        return self._loading.unload()

    def reload(self) -> bool:
        """Lets the model go and loads it again."""
        return self._loading.reload()

    def restart(self) -> None:
        """Starts the engine anew after it died, loads the model, and goes on with a reply that was cut off."""
        self._loading.restart()

    def close(self) -> None:
        """Ends the engine; a reply that is running is cancelled first, so that its end is on record."""
        if self.busy and self.engine.alive:
            self.stop()
            for _ in range(20):
                self.pump(0.05)
                if not self._replies.running or not self.engine.alive:
                    break
        self.engine.close()

    # --- turns and replies -------------------------------------------------------------------------------------------

    @property
    def queue(self) -> deque[str]:
        """Texts sent while a reply was running or the model was loading; they go out in order, one after each reply."""
        return self._turns.queue

    def send(self, text: str) -> None:
        """The person's next message; it waits in the queue while something else is going on."""
        self.queue.append(text)
        self._replies.held = False
        self.changed(StatusChanged())
        if self.phase == "no model":
            self._loading.reload()
        self._go_on()

    def take_back(self, number: int) -> str:
        """Takes a text out of the queue, counted from 0, the next to go out, and returns it."""
        return self._turns.take_back(number)

    def put_off(self, number: int, to: int) -> None:
        """Puts a text of the queue in another place."""
        self._turns.move(number, to)

    def stop(self) -> None:
        """Ends the running reply; what it has stays. The queue is kept, but waits for the next message."""
        if self.phase == "rendering":
            self._turns.cancel()
        elif self.busy:
            self._replies.stop()

    def make_room(self, way: Way) -> None:
        """Answers what is to be done about `full`: nothing, leave the oldest turns out, or have them summarised first."""
        self._turns.room.make(way)

    def begin_with(self, text: str) -> None:
        """What the next reply begins with, be it to a new message or made again; "" leaves it to the dice.

        Its tokens are forced, and on record as such. A text that never came to begin a reply waits for the next.
        """
        self.prefill = text
        self.changed(StatusChanged())

    def regenerate(self, *, same: bool = False) -> None:
        """Another reply to the last message, beside the one that is there: with the seed that is set, else a new one.

        `same` throws the dice of the reply that is there: only other knobs make it another one.
        """
        self._again.regenerate(same=same)

    def edit(self, node: Node, text: str) -> None:
        """Sends a text in the place of a person's message, beside it; the branch that grew from that stays.

        A reply that is running ends first. What cannot be edited is told, and the text is in `returned`.
        """
        self._editing.edit(node, text)

    def replace(self, spans: Sequence[Span], text: str) -> None:
        """Puts other words in the place of a reply, given as its pieces: a branch beside it, which ends with the text.

        What is the same from its begin stays as it was drawn; the tokens after that are forced. It can be continued.
        """
        self._editing.replace(spans, text)

    def continue_reply(self) -> None:
        """Goes on with the last reply from its last token, with its own seed, as if it had never stopped."""
        self._again.go_on()

    def fork(self, node: Node, at: int, *, ids: Sequence[int] = (), text: str = "", paused: bool = False) -> None:
        """Another way on from the first `at` tokens of a reply's node, on the path or off it, with the same dice.

        `ids`, or the tokens of `text`, come first whatever the dice say; with neither, the reply is drawn again from there.
        `paused` waits after them. A reply that is running ends first. What cannot be forked is told.
        """
        self._again.fork(node, at, ids, text, then="wait" if paused else "go on")

    # --- a running reply ---------------------------------------------------------------------------------------------

    def pause(self) -> None:
        """Has the running reply wait before its next token."""
        self._replies.pause()

    def resume(self) -> None:
        """Lets a paused reply go on."""
        self._replies.resume()

    def step(self, unit: Unit = "token") -> None:
        """Lets a paused reply go on for one token, or to the end of the line or sentence."""
        self._replies.step(unit)

    def force(self, ids: Sequence[int]) -> None:
        """Has the running reply take these tokens next; a paused one pauses again after them."""
        self._replies.force(ids)

    def force_text(self, text: str) -> None:
        """The same with the tokens of a text."""
        self._replies.force_text(text)

    def set_breakpoints(self, breakpoints: Iterable[Breakpoint]) -> None:
        """Other breakpoints, for the running reply and all that follow."""
        self.breakpoints = tuple(breakpoints)
        self.changed(BreakpointsChanged())
        self.recorder.watched(self.conversation, self.breakpoints)
        if self._replies.running:
            self._replies.adjust()

    # --- branches ----------------------------------------------------------------------------------------------------

    def select(self, leaf: int) -> None:
        """Shows the path to a node. A reply that is running on another one ends, and the queue waits."""
        self._branches.select(leaf)

    def rename(self, number: int, name: str) -> None:
        """Gives the branch that begins with a node a name; "" takes it away."""
        self._branches.rename(number, name)

    def delete(self, number: int) -> None:
        """Hides a node and what grew from it; if that is shown, a living branch beside or before it is shown instead."""
        self._branches.delete(number)

    def undelete(self) -> int | None:
        """Brings back what was deleted last; returns its number, or None where nothing was deleted."""
        return self._branches.undelete()

    def record(self, node: Node, index: int) -> Token | None:
        """The record of a token of a reply as it was drawn, candidates and all; None if it was not kept."""
        return self.recorder.token(self.conversation, node, index)

    def look(self, view: View) -> None:
        """Keeps how the chat is looked at, for when it is opened again."""
        if view != self.view:
            self.view = view
            self.recorder.viewed(self.conversation, view)

    # --- conversations and knobs -------------------------------------------------------------------------------------

    def new(self, system: str | None = None, *, raw: bool | None = None) -> None:
        """An empty conversation; the model and the knobs stay."""
        old = self.conversation
        self.open(Conversation(old.system if system is None else system, raw=old.raw if raw is None else raw))

    def open(self, conversation: Conversation, newest: Token | None = None) -> None:
        """Shows another conversation; `newest` is its last token's record, for the panels.

        A reply that is running ends, and its end is kept with the conversation it belongs to; a message sent meanwhile
        waits for that. What waited in the queue is in `returned`.
        """
        self._reopening.new(conversation, newest)
        self.questions.forget()

    def reopen(self, past: Past) -> None:
        """Likewise, a chat from the store, as it was left; its model is loaded if it is another one."""
        self._reopening.past(past)
        self.questions.forget()

    def retitle(self, title: str) -> None:
        """Gives the chat another title."""
        self.conversation.title = title
        self.recorder.titled(self.conversation)
        self.changed(StatusChanged())

    def adjust(self, name: str, value: object) -> None:
        """Turns a knob: the next token obeys, or while nothing runs the shown distribution is reshaped.

        Raises:
            KnobError: the knob refuses the value; nothing has changed.
        """
        turned = self.tuning.turned({name: value})
        if turned != self.tuning:
            self._turn(turned, {name: "panel"})

    def preset(self, values: Mapping[str, object], origin: str) -> None:
        """Turns several knobs at once, as a preset of this origin has them. What the one before it had set is no longer set.

        Raises:
            KnobError: a knob refuses its value; nothing has changed.
        """
        turned, places = reopening.replaced(self.tuning, self.origin, values, origin)
        self._turn(turned, places)

    def _turn(self, turned: Tuning, origin: Mapping[str, str]) -> None:
        self.tuning = turned
        self.origin |= origin
        self.changed(TuningChanged())
        self.recorder.tuned(self.conversation, turned)
        if self._replies.running:
            self._replies.adjust()
        else:
            self._preview.ask()
        self.questions.tuned()

    # --- what the engine says ----------------------------------------------------------------------------------------

    def pump(self, timeout: float | None = 0.0) -> list[Change]:
        """Takes in all that the engine has said, waiting up to `timeout` seconds for the first word of it."""
        if self.engine.alive:
            for number, event in self.engine.receive(timeout):
                self._hear(number, event)
                self._go_on()
        self.changed(*(Notice(*told, "warning") for told in self.recorder.notices()))
        return self.take_changes()

    def _hear(self, number: int, event: Event) -> None:
        if isinstance(event, Failed) and event.kind == "engine":
            self.line.broken(event)
            self._again.drop()
            self._editing.drop()
            self.model = None
            self.enter("failed")
            self.fail(event)
        elif not self.line.deliver(number, event) and isinstance(event, Failed):
            self.fail(event)

    def _forget(self) -> None:
        """Drops what waits for an answer of a model that goes."""
        self._again.drop()
        self._editing.drop()
        self.questions.forget()

    def _leave(self) -> None:
        """Ends what is being made, for something else is to be shown."""
        self._again.drop()
        self._editing.drop()
        if self.busy:
            self.stop()

    def _go_on(self) -> None:
        """Begins what waits, once nothing else is going on."""
        if self.phase != "idle" or self._reopening.go_on() or self._turns.room.go_on():
            return
        if self._loading.then_continue:
            self._loading.then_continue = False
            self.continue_reply()
        elif self._again.waits:
            self._again.make()
        elif self._editing.waits:
            self._editing.make()
        elif self.queue and not self._replies.held:
            self._turns.next()
