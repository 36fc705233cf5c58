"""The engine and the model that is loaded in it: what several chats may stand on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple
from weakref import WeakSet

from termchat.conversation.session import ModelRef, Session, known_as
from termchat.decoding.records import Failed, ModelIdentity
from termchat.decoding.samplers import Value
from termchat.engine.port import (
    Command,
    DraftInfo,
    Engine,
    Event,
    ModelInfo,
    ModelSpec,
    Remark,
    Tokenize,
    Tokenized,
    is_last,
)

HostPhase = Literal["no model", "loading", "idle", "failed"]


class Choice(NamedTuple):
    """A model to chat with: its spec, its recommended knobs by name, and the faults of the lists it was looked up in.
    `drafter`: the model that drafts for it, or why that cannot be used; `wanted`: the words that asked for it; `heeds`:
    knobs follow the recommendation of a remote engine.
    """

    spec: ModelSpec
    recommended: Mapping[str, Value]
    mistakes: tuple[str, ...] = ()
    drafter: ModelSpec | Failed | None = None
    wanted: str = ""
    heeds: bool = True


def known_of(spec: ModelSpec) -> str:
    """Name a model that is to be loaded; see `known_as`."""
    return known_as(spec.sha256, spec.name, spec.engine.name or spec.engine.url)


class Host:
    """One engine, its pending commands, its model and the drafter of that; `Loading` and `Drafters` write the fields.

    An answer goes to who asked, so it belongs to what was asked, whatever is shown by then. `sessions` are those that a chat
    has shown and that are still in memory: with a reply that is just ending, or with what can be undone.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._hearers: dict[int, Callable[[Event], None]] = {}
        self.spec: ModelSpec | None = None
        self.model: ModelInfo | None = None
        self.phase: HostPhase = "no model"
        """The phase of the model; a chat's replies have phases of their own while it is "idle"."""
        self.sessions: WeakSet[Session] = WeakSet()
        self.busy: set[object] = set()
        """The chats with a reply that is being made."""
        self.attempts = 0
        """Times that a model was loaded or unloaded, whatever came of it."""
        self.wanted: Choice | None = None
        """The model that is loaded or to be loaded."""
        self.last_loaded: Choice | None = None
        self.loaded_before: Choice | None = None
        self.remarks: set[Remark] = set()
        """The remarks on models that were shown."""
        self.vocabulary: tuple[int, list[int]] | None = None
        """The size of the last model's vocabulary, and its end ids."""
        self.progress = 0.0
        """Of loading, from 0 to 1."""
        self.measuring = False
        """Whether the batches of the model that is loaded are measured, were, or cannot be; see `loading.measure`."""
        self.drafter: DraftInfo | None = None
        """The model that drafts for the one that is loaded."""
        self.drafter_failure: Failed | None = None
        """Why the drafter that was chosen last does not draft."""
        self.drafter_progress: float | None = None
        """Of loading the drafter, from 0 to 1; None while none is being loaded."""
        self.drafters_pending = 0

    @property
    def loaded(self) -> str:
        """The key of the model that is loaded, or to be loaded (see `known_as`); "" without one."""
        if self.model is not None:
            return known_as(self.model.sha256, self.model.name, self.model.engine)
        return known_of(self.spec) if self.spec is not None else ""

    @property
    def model_ref(self) -> ModelRef | None:
        """The loaded model as a session names it."""
        if (model := self.model) is None:
            return None
        identity = ModelIdentity(model.name, model.path, model.sha256, model.architecture, model.quantization)
        return ModelRef(model.name, model.path, identity, model.engine)

    @property
    def engine_name(self) -> str:
        """What to call the engine in a sentence."""
        return self.spec.engine.shown if self.spec is not None and self.spec.engine.url else "this engine"

    # --- commands and answers -----------------------------------------------------------------------------------------

    @property
    def waits(self) -> bool:
        """Whether anybody waits for an answer."""
        return bool(self._hearers)

    def send_command(self, command: Command, hear: Callable[[Event], None]) -> None:
        """Send a command; `hear` gets all that answers it, in order, the last of it one that `is_last`.

        Raises:
            EngineError: the engine's process cannot be started.
        """
        self._hearers[self.engine.send(command)] = hear

    def ask_ids(self, text: str, hear: Callable[[list[int]], None]) -> None:
        """Tokenize a text; `hear` gets its ids, and nothing where that fails."""
        self.send_command(Tokenize(text), lambda event: hear(event.ids) if isinstance(event, Tokenized) else None)

    def deliver_event(self, number: int, event: Event) -> bool:
        """Pass an event to the listener of its command; return False without one."""
        hear = self._hearers.pop(number, None) if is_last(event) else self._hearers.get(number)
        if hear is not None:
            hear(event)
        return hear is not None

    def fail_waiting(self, failure: Failed) -> None:
        """Answer everybody who waits with a failure: the engine is dead."""
        hearers, self._hearers = self._hearers, {}
        for hear in hearers.values():
            hear(failure)
