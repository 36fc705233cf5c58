"""The chat of a lesson: a person's own chat is set aside for it, and comes back as it was; so does how the model ran."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from termchat.chat.reopening import Configured, Reopening, SetAside
from termchat.chat.state import State
from termchat.conversation.session import SessionInfo
from termchat.conversation.tree import Conversation
from termchat.conversation.unsent import Unsent
from termchat.decoding.samplers import KNOBS, Tuning

LESSON = "lesson"
"""Where the knobs of a lesson come from."""


class Aside:
    """`kept` is the person's own chat, None while that is shown. `lesson` is the id of that whose chat is, else ""."""

    def __init__(self, state: State, reopening: Reopening, forget: Callable[[], object]) -> None:
        self._state, self._reopening, self._forget = state, reopening, forget
        self.kept: SetAside | None = None
        self.lesson = ""
        self._ours: list[Conversation] = []

    def begin(
        self, lesson: str, knobs: Mapping[str, object], system: str, *, raw: bool, text: str = "", title: str = ""
    ) -> None:
        """Shows an empty chat for a lesson, with these knobs and all others at their defaults; `text` is in its composer.

        Raises:
            KnobError: a knob refuses its value; nothing has changed.
        """
        begins = Configured(Tuning().turned(knobs), dict.fromkeys(KNOBS, LESSON), system, raw)
        conversation = Conversation(system, raw=raw)
        conversation.title = title
        conversation.unsent.draft = text
        self._teach(lesson, conversation, begins)

    def resume(self, lesson: str, conversation: Conversation, info: SessionInfo, knobs: Mapping[str, object]) -> None:
        """Shows the chat of a lesson that was left, as it was left; `knobs` are those that a new chat in it begins with."""
        begins = Configured(
            Tuning().turned(knobs), dict.fromkeys(KNOBS, LESSON), conversation.first_system, conversation.raw
        )
        self._teach(lesson, conversation, begins, info)

    def follow(self) -> bool:
        """Takes a new chat that was begun in the lesson into it; False where the chat that is shown is another's."""
        state = self._state
        if not self.lesson or state.conversation in self._ours:
            return True
        if state.conversation.nodes or state.recorder.session(state.conversation):
            return False
        state.conversation.unsent = Unsent()
        state.recorder.teaches(state.conversation, self.lesson)
        self._ours.append(state.conversation)
        return True

    def end(self, *, back: bool = True) -> None:
        """Shows the person's own chat again, unless another is to be shown (`back` is False)."""
        kept, self.kept, self.lesson = self.kept, None, ""
        self._ours = []
        if kept is not None and back:
            self._reopening.back(kept)
            self._forget()
        elif kept is not None:
            self._reopening.configured = kept.configured
        if kept is not None:
            self._reopening.run_as(kept.choice)

    def _teach(
        self, lesson: str, conversation: Conversation, begins: Configured, info: SessionInfo | None = None
    ) -> None:
        self.kept = self.kept or self._reopening.set_aside()
        self.lesson = lesson
        self._reopening.teach(conversation, lesson, begins, info)
        self._ours = [self._state.conversation]
        self._forget()
        self._reopening.run_as(self.kept.choice)
