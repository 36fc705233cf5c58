"""Keeps a chat in the store as it happens."""

from __future__ import annotations

from termchat.conversation.session import ModelRef
from termchat.conversation.store import Store
from termchat.conversation.tree import Conversation, Node
from termchat.decoding.records import ModelIdentity, Record
from termchat.decoding.samplers import Tuning
from termchat.engine.port import ModelInfo

TITLE_LENGTH = 60


class StoreRecorder:
    """A `Recorder` that writes to the store. A chat is begun with its first turn, so empty ones leave no trace."""

    def __init__(self, store: Store, tuning: Tuning, session: str | None = None) -> None:
        self.store = store
        self.session = session
        self._tuning = tuning
        self._model = ModelRef()

    def opened(self, conversation: Conversation) -> None:
        """Another conversation, not in the store yet."""
        self.session = None

    def loaded(self, conversation: Conversation, model: ModelInfo) -> None:
        """The model that will answer."""
        identity = ModelIdentity(model.name, model.path, model.sha256, model.architecture, model.quantization)
        self._model = ModelRef(model.name, model.path, identity)
        if self.session is not None:
            self.store.update(self.session, model=self._model)

    def tuned(self, conversation: Conversation, tuning: Tuning) -> None:
        """A knob was turned."""
        self._tuning = tuning
        if self.session is not None:
            self.store.update(self.session, tuning=tuning)

    def turn(self, conversation: Conversation, node: Node) -> None:
        """A node was added; the first message names the chat."""
        if not conversation.title:
            conversation.title = title_of(node.written)
        if self.session is None:
            self.session = self.store.begin(conversation, tuning=self._tuning, model=self._model)
        self.store.add_node(self.session, node)

    def record(self, conversation: Conversation, node: Node, record: Record) -> None:
        """The next record of a reply."""
        if self.session is not None:
            self.store.add_record(self.session, node.number, record)


def title_of(text: str) -> str:
    """The first words of a message, on one line."""
    words = " ".join(text.split())
    return words if len(words) <= TITLE_LENGTH else words[: TITLE_LENGTH - 1].rsplit(" ", 1)[0] + "…"
