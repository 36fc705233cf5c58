"""From chat to chat while the app runs: what was shown is let go in good order, and what is shown goes on as it was left."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec

from termchat.chat.branches import newest_token
from termchat.chat.changes import (
    BreakpointsChanged,
    LiveChanged,
    Notice,
    PathChanged,
    StatusChanged,
    TuningChanged,
)
from termchat.chat.live import Live
from termchat.chat.loading import Choice, Loading
from termchat.chat.looking_on import LookingOn
from termchat.chat.position import constraint_of
from termchat.chat.state import State, known_of
from termchat.chat.turns import Turns
from termchat.config.origins import DEFAULT, MODEL, PERSONA, PRESET, followed
from termchat.conversation.session import Breakpoint, Followed, Session, SessionInfo, View
from termchat.conversation.tree import Conversation
from termchat.decoding.constraint import Constraint
from termchat.decoding.records import Token
from termchat.decoding.samplers import KNOBS, Tuning, Value


class Past(NamedTuple):
    """A chat from the store, ready to go on; `newest` is the record of its last token, `origin` where its knobs came from.

    `choice` is the model that it was with, `missing` why that cannot be had; with neither, it is the one that is loaded.
    `followed` where another process writes it.
    """

    conversation: Conversation
    info: SessionInfo
    origin: dict[str, str]
    newest: Token | None = None
    choice: Choice | None = None
    missing: str = ""
    followed: Followed | None = None


class SetAside(NamedTuple):
    """A chat that is to come back as it was: where it stood and what it was looked at with."""

    conversation: Conversation
    info: SessionInfo
    tuning: Tuning
    origin: dict[str, str]
    breakpoints: tuple[Breakpoint, ...]
    constraint: Constraint | None
    view: View
    newest: Token | None
    configured: Configured
    choice: Choice | None
    """The model, and how it ran."""


class Configured(NamedTuple):
    """What a new chat begins with. A knob that nobody has set is as the model recommends, else at its default."""

    tuning: Tuning
    origin: Mapping[str, str]
    system: str
    raw: bool


class Reopening:
    """Shows another conversation. A reply that is running ends, and its end is kept with the conversation it belongs to; so are
    the draft and the queue.

    `leave` ends what is being made.
    """

    def __init__(
        self,
        state: State,
        loading: Loading,
        turns: Turns,
        looking_on: LookingOn,
        leave: Callable[[], None],
        configured: Configured,
    ) -> None:
        self._state, self._loading, self._turns, self._leave = state, loading, turns, leave
        self._looking_on = looking_on
        self.configured = configured
        self._wish: Choice | None = None

    def new(self, conversation: Conversation, newest: Token | None) -> None:
        """Shows a conversation that the store does not know."""
        self._let_go()
        if not conversation.nodes:
            conversation.unsent = self._state.blank
        self._state.recorder.opened(conversation)
        self._show(conversation, newest, View())

    def knobs(self) -> tuple[Tuning, dict[str, str]]:
        """The knobs of a new chat with the model that is there, and where each came from."""
        tuning, origin, recommended = self.configured.tuning, dict(self.configured.origin), self._loading.recommended
        if recommended or MODEL in origin.values():
            tuning, origin, _ = followed(tuning, origin, recommended)
        return tuning, origin

    def reset(self) -> None:
        """Sets the knobs of a new chat, no breakpoints and no constraint."""
        state = self._state
        state.constraint = None
        state.tuning, state.origin = self.knobs()
        state.breakpoints = ()
        state.recorder.tuned(state.conversation, state.tuning)
        state.recorder.watched(state.conversation, ())
        state.changed(TuningChanged(), BreakpointsChanged())
        self._loading.speculation.follow()

    def past(self, past: Past) -> None:
        """One from the store, with its knobs, its breakpoints and how it was looked at; its model is loaded as soon as nothing
        runs, if it is another one. Nothing is asked of the model before the chat goes on."""
        state, info = self._state, past.info
        conversation = past.conversation
        if past.followed is None:
            conversation = state.recorder.reopened(conversation, info)
        if conversation is state.conversation:
            return
        self._let_go()
        state.tuning, state.origin, state.breakpoints = info.tuning, dict(past.origin), info.breakpoints
        state.constraint = constraint_of(conversation)
        self._show(conversation, past.newest, info.view)
        state.changed(TuningChanged(), BreakpointsChanged())
        if past.followed is not None:
            self._looking_on.begin(past.followed, info)
        if past.missing:
            goes_on = f"it continues with {state.spec.name}" if state.spec else "choose another model"
            state.changed(Notice(f"this chat used {past.missing}", goes_on, "warning"))
        elif past.choice is not None and known_of(past.choice.spec) != state.loaded:
            self._wish = past.choice
            if not state.busy:
                self.go_on()
        if self._wish is None:
            self._loading.speculation.follow()

    def set_aside(self) -> SetAside:
        """The chat that is shown, to come `back` to."""
        state, info = self._state, self._state.recorder.info
        shown = state.live.shown if state.live.preview is None else None
        return SetAside(
            state.conversation, info, state.tuning, dict(state.origin), state.breakpoints, state.constraint, state.view, shown,
            self.configured, self._loading.wanted,
        )  # fmt: skip

    def teach(
        self, conversation: Conversation, lesson: str, begins: Configured, info: SessionInfo | None = None
    ) -> None:
        """Shows a conversation of a lesson, with the knobs that the lesson begins with; so does a new chat from now on. With
        `info` it is a saved one, with what it was left with."""
        state = self._state
        self._let_go()
        if info is not None:
            conversation = state.recorder.reopened(conversation, info)
        else:
            state.recorder.opened(conversation)
        state.recorder.teaches(conversation, lesson)
        self.configured = begins
        state.tuning, state.origin = begins.tuning, dict(begins.origin)
        state.breakpoints, state.constraint = (), constraint_of(conversation) if info is not None else None
        if info is not None:
            state.tuning, state.breakpoints = info.tuning, info.breakpoints
        newest = newest_token(state.recorder, conversation)
        self._show(conversation, newest, info.view if info is not None else View())
        self._tell_knobs()

    def back(self, kept: SetAside) -> None:
        """Shows a chat again that was set aside, with all that it had."""
        state = self._state
        self._let_go()
        self.configured = kept.configured
        conversation, session = kept.conversation, state.recorder.session(kept.conversation)
        if session:
            conversation = state.recorder.reopened(conversation, msgspec.structs.replace(kept.info, id=session))
        else:
            state.recorder.opened(conversation)
        state.tuning, state.origin, state.breakpoints = kept.tuning, dict(kept.origin), kept.breakpoints
        state.constraint = kept.constraint
        self._show(conversation, kept.newest, kept.view)
        self._tell_knobs()

    def run_as(self, choice: Choice | None) -> None:
        """Has the model that is there run again as in `choice`, if it is the same one, as soon as nothing runs."""
        spec = self._state.spec
        if choice is None or spec is None or self._wish is not None:
            return
        if spec != choice.spec and known_of(spec) == known_of(choice.spec):
            self._wish = choice
            if not self._state.busy:
                self.go_on()

    def _tell_knobs(self) -> None:
        state = self._state
        state.recorder.tuned(state.conversation, state.tuning)
        state.recorder.watched(state.conversation, state.breakpoints)
        state.changed(TuningChanged(), BreakpointsChanged())
        self._loading.speculation.follow()

    def go_on(self) -> bool:
        """Begins to load the model that the chat was with, now that nothing runs; False where nothing is to be loaded."""
        wish, self._wish = self._wish, None
        return wish is not None and self._loading.switch(wish)

    def _let_go(self) -> None:
        self._leave()
        self._looking_on.end()
        self._wish = None
        self._loading.then_continue = False

    def _show(self, conversation: Conversation, newest: Token | None, view: View) -> None:
        state = self._state
        state.session, state.view = Session(conversation, state.recorder), view
        state.live = Live.of(conversation, newest)
        self._turns.hold()
        state.check_template()
        state.changed(PathChanged(), LiveChanged(), StatusChanged())


def replaced(
    origin: Mapping[str, str], values: Mapping[str, Value], places: Mapping[str, str]
) -> tuple[dict[str, Value], dict[str, str]]:
    """These values of knobs and their `places`, with those added that reset what another persona or a preset had set;
    `origin` is where each knob came from by now."""
    left = [name for name in KNOBS if origin[name].startswith((PERSONA, PRESET)) and name not in values]
    return {name: KNOBS[name].default for name in left} | dict(values), dict.fromkeys(left, DEFAULT) | dict(places)
