"""Keeps a chat in the store as it happens."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from time import time
from typing import Any
from weakref import WeakKeyDictionary

import msgspec

from termchat.conversation.session import Breakpoint, ModelRef, SessionInfo, View
from termchat.conversation.store.store import Store, StoreError
from termchat.conversation.transcripts.transcript import TranscriptError, held
from termchat.conversation.tree import Conversation, Node
from termchat.decoding.records import ModelIdentity, Record, Token
from termchat.decoding.samplers import Tuning
from termchat.engine.port import ModelInfo


class Recorder:
    """Hears of a conversation what has to be kept; whatever came before is on record already. This one keeps nothing."""

    keeps = False
    """Whether what is written and not sent is there again the next time."""
    info = SessionInfo()
    """What is known of the chat on the screen; its id is "" until it is saved."""

    def opened(self, conversation: Conversation) -> None:
        """Another conversation is to be saved from now on."""

    def reopened(self, conversation: Conversation, info: SessionInfo) -> Conversation:
        """A saved chat is to be saved from now on; returns it as it is in memory, if it is still there."""
        return conversation

    def teaches(self, conversation: Conversation, lesson: str) -> None:
        """The conversation is of a lesson: it is not listed among the chats, nor is what is written in it and not sent kept
        before its first message."""

    def looks_on(self, conversation: Conversation, info: SessionInfo) -> None:
        """A saved chat that another process writes is shown; nothing of it is saved until `goes_on`."""

    def goes_on(self, conversation: Conversation, *, copy: bool) -> None:
        """What follows is to be saved: in a copy of the chat as it is in memory, or in the chat itself."""

    def session(self, conversation: Conversation) -> str:
        """The id of the saved chat, "" if it is not saved (yet)."""
        return ""

    def titled(self, conversation: Conversation) -> None:
        """The title has changed."""

    def loaded(self, conversation: Conversation, model: ModelInfo) -> None:
        """This model will answer."""

    def tuned(self, conversation: Conversation, tuning: Tuning) -> None:
        """A knob was turned."""

    def turn(self, conversation: Conversation, node: Node) -> None:
        """A node was added; a reply's records follow."""

    def record(self, conversation: Conversation, node: Node, record: Record) -> None:
        """The next record of a reply."""

    def selected(self, conversation: Conversation) -> None:
        """Another leaf is shown."""

    def unsent(self, conversation: Conversation) -> None:
        """What was written in it and not sent is different."""

    def abandoned(self) -> str:
        """What another process left in a chat without a message; reads the disk."""
        return ""

    def branch(self, conversation: Conversation, node: Node) -> None:
        """A node was renamed, deleted or restored."""

    def watched(self, conversation: Conversation, breakpoints: tuple[Breakpoint, ...]) -> None:
        """The breakpoints have changed."""

    def viewed(self, conversation: Conversation, view: View) -> None:
        """The look has changed."""

    def token(self, conversation: Conversation, node: Node, index: int) -> Token | None:
        """The record of token `index` of a reply's node, candidates and all; None if it was not kept."""
        return None

    def notices(self) -> list[tuple[str, str]]:
        """What to tell a person about saving, once: message and hint."""
        return []

    def problem(self) -> str | None:
        """Why the chat is not being saved at the moment, or None."""
        return None

    def listen(self, listener: Callable[[], None] | None) -> None:
        """Has `listener` called, on any thread, when there are new notices; None ends that."""


TITLE_LENGTH = 60
_LOOKED_AT = 1_000
"""Characters in which a title is looked for: a message may have megabytes."""


class StoreRecorder(Recorder):
    """A `Recorder` that writes to the store. A chat is begun with its first turn, so empty ones leave no trace.

    `info` is what is known of the chat on the screen; its id is "" until it is begun. `conversation` is the one that the
    store knows by that id. Of a chat that is only looked on records are read, and nothing is written.
    """

    keeps = True

    def __init__(self, store: Store, info: SessionInfo, conversation: Conversation | None = None) -> None:
        self.store = store
        self.info = info
        self._ids: WeakKeyDictionary[Conversation, str] = WeakKeyDictionary()
        self._lessons: WeakKeyDictionary[Conversation, str] = WeakKeyDictionary()
        self._problem: str | None = None
        self._model: ModelRef | None = None
        self._looked: Conversation | None = None
        if conversation is not None and info.id:
            self._ids[conversation] = info.id

    def opened(self, conversation: Conversation) -> None:
        self._look_away()
        model = self._model or self.info.model
        self.info = msgspec.structs.replace(self.info, id="", created=0.0, updated=0.0, model=model, view=View())

    def reopened(self, conversation: Conversation, info: SessionInfo) -> Conversation:
        """The chat in memory goes first: it has a reply that is just ending, and what can be undone."""
        self._look_away()
        known = next((chat for chat in self._ids if self.session(chat) == info.id), conversation)
        known.title = conversation.title
        self._ids[known] = info.id
        self.info = info
        if info.view.lesson:
            self._lessons[known] = info.view.lesson
        return known

    def teaches(self, conversation: Conversation, lesson: str) -> None:
        self._lessons[conversation] = lesson
        self.info = msgspec.structs.replace(self.info, view=self._in_lesson(conversation, self.info.view))

    def _in_lesson(self, conversation: Conversation, view: View) -> View:
        return msgspec.structs.replace(view, lesson=self._lessons.get(conversation, ""))

    def looks_on(self, conversation: Conversation, info: SessionInfo) -> None:
        self._look_away()
        self._ids[conversation], self.info, self._looked = info.id, info, conversation

    def goes_on(self, conversation: Conversation, *, copy: bool) -> None:
        self._looked = None
        session = self._ids.get(conversation)
        if session is not None and copy:
            session = self._ids[conversation] = self.store.duplicate(session, conversation)
            self.info = msgspec.structs.replace(self.info, id=session)
        if session is not None:  # what was turned and looked at meanwhile
            info = self.info
            self.store.update(
                session,
                model=info.model,
                tuning=info.tuning,
                breakpoints=info.breakpoints,
                view=info.view,
                leaf=conversation.leaf,
            )
            self.unsent(conversation)

    def _look_away(self) -> None:
        """What is only looked on may be another one by the time when it is opened again."""
        if self._looked is not None:
            del self._ids[self._looked]
        self._looked = None

    def _saved(self, conversation: Conversation) -> str | None:
        """The id of a chat that may be written to."""
        return self._ids.get(conversation) if conversation is not self._looked else None

    def session(self, conversation: Conversation) -> str:
        return self.store.current(self._ids.get(conversation, ""))

    def titled(self, conversation: Conversation) -> None:
        if (session := self._saved(conversation)) is not None:
            self.store.rename(session, conversation.title)

    def loaded(self, conversation: Conversation, model: ModelInfo) -> None:
        identity = ModelIdentity(model.name, model.path, model.sha256, model.architecture, model.quantization)
        self._model = ModelRef(model.name, model.path, identity, model.engine)
        if not self.info.id:  # a chat keeps the model that wrote its last reply until another one writes
            self.info = msgspec.structs.replace(self.info, model=self._model)

    def tuned(self, conversation: Conversation, tuning: Tuning) -> None:
        self._update(tuning=tuning)

    def turn(self, conversation: Conversation, node: Node) -> None:
        """The first message names the chat."""
        if not conversation.title:
            conversation.title = title_of(node.written)
        if conversation not in self._ids:
            session = self.store.begin(conversation, tuning=self.info.tuning, model=self.info.model)
            self.store.update(session, breakpoints=self.info.breakpoints, view=self.info.view)
            self._ids[conversation] = session
            if conversation not in self._lessons:
                self.store.keep_unsent("", "", ())
            self.info = msgspec.structs.replace(self.info, id=session, created=time())
        if node.role == "assistant" and self._model is not None and self._ids[conversation] == self.info.id:
            self._update(model=self._model)
        self.store.add_node(self._ids[conversation], node)

    def record(self, conversation: Conversation, node: Node, record: Record) -> None:
        """The reply may belong to a chat that is no longer shown."""
        if (session := self._saved(conversation)) is not None:
            self.store.add_record(session, node.number, record)

    def selected(self, conversation: Conversation) -> None:
        if (session := self._saved(conversation)) is not None:
            self.store.update(session, leaf=conversation.leaf)

    def unsent(self, conversation: Conversation) -> None:
        unsent = conversation.unsent
        if conversation in self._lessons and conversation not in self._ids:
            return  # the one chat without a message is the reader's own
        if conversation is not self._looked:
            self.store.keep_unsent(self._ids.get(conversation, ""), unsent.written, unsent.waiting)

    def abandoned(self) -> str:
        with contextlib.suppress(StoreError):
            return self.store.abandoned()
        return ""

    def branch(self, conversation: Conversation, node: Node) -> None:
        if (session := self._saved(conversation)) is not None:
            self.store.update_node(session, node.number, name=node.name, deleted=node.deleted)

    def watched(self, conversation: Conversation, breakpoints: tuple[Breakpoint, ...]) -> None:
        self._update(breakpoints=breakpoints)

    def viewed(self, conversation: Conversation, view: View) -> None:
        self._update(view=self._in_lesson(conversation, view))

    def token(self, conversation: Conversation, node: Node, index: int) -> Token | None:
        """None also while it cannot be read."""
        session = self._ids.get(conversation)
        if session is None or node.role != "assistant":
            return None
        with contextlib.suppress(StoreError):
            return self.store.token(session, node.number, index)
        return None

    def notices(self) -> list[tuple[str, str]]:
        """That saving fails, and that it works again, is said once each."""
        told = [(notice.message, notice.hint) for notice in self.store.notices()]
        problem = self.store.problem()
        if problem != self._problem:
            if problem is None:
                told.append(("the chat is saved again", ""))
            elif self._problem is None:
                told.append((f"not saved: {problem}", "the chat continues in memory and is saved as soon as possible"))
            self._problem = problem
        return told

    def problem(self) -> str | None:
        return self.store.problem()

    def listen(self, listener: Callable[[], None] | None) -> None:
        self.store.listen(listener)

    def saving(self, path: Path, conversation: Conversation) -> Callable[[], Path]:
        """What writes a transcript of the chat as it is now, in any thread, in the format of the path's ending; returns where.

        It raises:
            TranscriptError: there is nothing to write yet, or it cannot be written there.
            StoreError: the chat's records cannot be read.
        """
        info, still = msgspec.structs.replace(self.info, updated=time()), conversation.still()

        def save() -> Path:
            from termchat.conversation.transcripts import export  # not needed before the first frame

            if not info.id:
                raise TranscriptError("nothing to save yet", "Write a message first.")
            return export.write(
                path, still, info, lambda number: held(still.nodes[number], self.store.records(info.id, number))
            )

        return save

    def _update(self, **changes: Any) -> None:
        """Changes of fields of `info`; kept once the chat is begun, unless they are none: looking at a chat is not using it."""
        if all(getattr(self.info, name) == value for name, value in changes.items()):
            return
        self.info = msgspec.structs.replace(self.info, **changes)
        if self.info.id and self._looked is None:
            self.store.update(self.info.id, **changes)


def title_of(text: str) -> str:
    words = " ".join(text.lstrip()[:_LOOKED_AT].split())
    return words if len(words) <= TITLE_LENGTH else words[: TITLE_LENGTH - 1].rsplit(" ", 1)[0] + "…"
