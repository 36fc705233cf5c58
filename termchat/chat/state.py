"""What the rooms of a chat share: the conversation, the knobs, the phase, the line to the engine, and what changed."""

from __future__ import annotations

import secrets

from termchat.chat.changes import Change, Full, Notice, Phase, StatusChanged
from termchat.chat.live import Live
from termchat.chat.position import is_foreign
from termchat.chat.recording import Recorder
from termchat.chat.requests import Requests
from termchat.conversation.session import Breakpoint, View
from termchat.conversation.tree import Conversation
from termchat.decoding.conditions import Condition, Length
from termchat.decoding.records import Failed, Token
from termchat.decoding.samplers import KNOBS, Tuning
from termchat.engine.port import Engine, ModelInfo, ModelSpec, Paused

BUSY: tuple[Phase, ...] = ("rendering", "prefill", "decoding", "paused")


class State:
    """One conversation on one engine, as it is now.

    `tuning` is what the next token is drawn with, `origin` where each knob's value came from. `failure` is what last went
    wrong, `returned` what was written and not sent. `paused` is what the running reply waits with, None while it
    does not wait. `view` is how the screen looks at the chat, kept for it. `full` is the full context that a person is asked
    about, `on_full` what is done about one without asking, or "ask". `prefill` is what the next reply begins with, whatever the
    dice say; "" leaves it to them. `keep_logits`: a reply may be asked what other settings would have made of it.
    """

    def __init__(
        self,
        engine: Engine,
        tuning: Tuning,
        *,
        origin: dict[str, str],
        conversation: Conversation,
        recorder: Recorder,
        newest: Token | None,
        candidates: int,
        breakpoints: tuple[Breakpoint, ...],
        view: View,
        on_full: str,
        keep_logits: bool,
    ) -> None:
        self.engine = engine
        self.line = Requests(engine)
        self.tuning = tuning
        self.origin = dict.fromkeys(KNOBS, "default") | origin
        self.conversation = conversation
        self.recorder = recorder
        self.live = Live.of(conversation, newest)
        self.candidates = candidates
        self.breakpoints = breakpoints
        self.view = view
        self.phase: Phase = "no model"
        self.progress = 0.0
        self.spec: ModelSpec | None = None
        self.model: ModelInfo | None = None
        self.tolerance: float | None = None
        self.paused: Paused | None = None
        self.failure: Failed | None = None
        self.returned = ""
        self.full: Full | None = None
        self.on_full = on_full
        self.keep_logits = keep_logits
        self.prefill = ""
        self._changes: list[Change] = []

    @property
    def busy(self) -> bool:
        """Whether a reply is being made, be it paused."""
        return self.phase in BUSY

    @property
    def unsaved(self) -> str | None:
        """Why what was said cannot be saved at the moment; None where it can, or where nothing was said."""
        return self.recorder.problem() if self.conversation.leaf is not None else None

    @property
    def loaded(self) -> str:
        """The SHA-256 by which the model that is loaded, or to be loaded, is known; "" where there is none."""
        return self.model.sha256 if self.model is not None else self.spec.sha256 if self.spec is not None else ""

    def changed(self, *changes: Change) -> None:
        """What to report; equal ones count once."""
        self._changes += [change for change in changes if isinstance(change, Notice) or change not in self._changes]

    def take_changes(self) -> list[Change]:
        """All there is to report, each once."""
        changes, self._changes = self._changes, []
        return changes

    def enter(self, phase: Phase) -> None:
        """Another phase begins."""
        self.phase = phase
        self.changed(StatusChanged())

    def fail(self, failure: Failed) -> None:
        """Something went wrong; told once, whoever hears of it."""
        if failure is self.failure:
            return
        self.failure = failure
        hint = failure.hint
        if failure.kind == "engine" and not hint:
            hint = "restart the engine to go on from the last token"
        self.changed(Notice(failure.message, hint, "error"))

    def give_back(self, *texts: str) -> None:
        """Texts that were not sent go back to whoever typed them."""
        self.returned = "\n".join(filter(None, (self.returned, *texts)))

    def ready(self, what: str) -> bool:
        """Whether a reply could be made now; tells why not."""
        if self.phase == "idle":
            return True
        why = "a reply is running" if self.busy else "no model is loaded"
        self.changed(Notice(f"cannot {what}: {why}"))
        return False

    def seed(self) -> int:
        """The next reply's: the knob's, or a fresh one."""
        return secrets.randbelow(2**31) if self.tuning.seed is None else self.tuning.seed

    def conditions(self, longer: int = 0) -> tuple[Condition, ...]:
        """What ends or pauses a reply that may have `longer` more tokens than the knob says."""
        ends = (
            Length(tokens=condition.tokens + longer) if isinstance(condition, Length) else condition
            for condition in self.tuning.conditions()
        )
        return (*ends, *(point.condition for point in self.breakpoints if point.enabled))

    def is_foreign(self, leaf: int | None = None) -> bool:
        """Whether another model than the one that is loaded made ids of the path to `leaf` (None: of the one shown)."""
        return self.model is not None and is_foreign(self.conversation.path(leaf), self.model)
