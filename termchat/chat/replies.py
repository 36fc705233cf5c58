"""The running reply: how it begins, what it says, and how it is steered."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from termchat.chat.changes import LiveChanged, PathChanged, ReplyGrew, StatusChanged
from termchat.chat.state import State
from termchat.conversation.tree import Conversation, Node
from termchat.decoding.records import Failed, Finished, Prefill, Record, Settings, Start, Token
from termchat.engine.port import Adjust, Cancel, Event, FirstToken, Generate, Prefilling


class _Running(NamedTuple):
    """A reply, and the conversation that it belongs to, whatever is shown by then."""

    conversation: Conversation
    node: Node


class Replies:
    """One reply at a time. `held` says that a person ended the last one, and wants to look before anything follows."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._running: _Running | None = None
        self._longer = 0
        self.held = False

    @property
    def running(self) -> bool:
        """Whether the engine has not yet said the reply's last word."""
        return self._running is not None

    def start(self, parent: Node, at: int, *, seed: int, done: int, longer: int = 0) -> None:
        """A new reply, or a piece of one, that grows from the first `at` ids of `parent`.

        `done` of the ids before it are the reply's own; it may have `longer` more tokens than the knob says.
        """
        state, chat = self._state, self._state.conversation
        reply = chat.grow("assistant", parent=parent.number, at=at)
        self._longer, self.held = longer, False
        state.live.begin()
        state.recorder.turn(chat, reply)
        state.enter("prefill")
        state.changed(PathChanged(), LiveChanged())
        self._running = _Running(chat, reply)
        state.line.ask(
            Generate(
                ids=chat.ids(),
                samplers=state.tuning.samplers(),
                conditions=state.conditions(longer),
                seed=seed,
                origin=dict(state.origin),
                done=done,
                raw=chat.raw,
                candidates=state.candidates,
            ),
            partial(self._hear, self._running),
        )

    def stop(self) -> None:
        """Ends it; what it has stays."""
        self._state.line.tell(Cancel())

    def adjust(self) -> None:
        """Has the next token obey the knobs as they are now."""
        state = self._state
        state.line.tell(Adjust(state.tuning.samplers(), state.conditions(self._longer), dict(state.origin)))

    # --- what the engine says ----------------------------------------------------------------------------------------

    def _hear(self, running: _Running, event: Event) -> None:
        state = self._state
        if isinstance(event, (Start, Settings, Prefill, Token, Finished, Failed)):
            self._record(running, event)
        elif not self._is_shown(running):
            return
        elif isinstance(event, Prefilling):
            state.live.prefill_done, state.live.prefill_total = event.done, event.total
            state.changed(StatusChanged())
        elif isinstance(event, FirstToken):
            state.live.ttft_ms = event.ttft_ms

    def _record(self, running: _Running, event: Record) -> None:
        state, shown = self._state, self._is_shown(running)
        running.node.add(event)
        state.recorder.record(running.conversation, running.node, event)
        if shown:
            state.changed(ReplyGrew(running.node.number))
            self._show(event)
        if isinstance(event, Token) and state.phase != "decoding":
            state.enter("decoding")
        elif isinstance(event, (Finished, Failed)):
            self._running = None
            # Whoever pressed stop wants to look first; whoever opened another chat goes on there.
            self.held = shown and isinstance(event, Finished) and event.reason == "user"
            state.enter("idle")
            state.changed(LiveChanged())
        if isinstance(event, Failed):
            state.fail(event)

    def _show(self, event: Record) -> None:
        """Brings the newest of the reply on the screen to the panels."""
        live = self._state.live
        if isinstance(event, Token):
            live.add(event)
        elif isinstance(event, Prefill):
            live.prefill = event
        elif isinstance(event, Settings):
            live.threads = event.threads
        elif isinstance(event, Finished):
            live.finished = event
        self._state.changed(LiveChanged())

    def _is_shown(self, running: _Running) -> bool:
        return running.conversation is self._state.conversation
