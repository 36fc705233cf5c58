"""The model that drafts tokens for the one of the chat: loaded beside it once the knob `draft` asks for it, and changed live.

Until it is there, or where it cannot be had, a reply is made without it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from termchat.chat.changes import DrafterChanged, Notice, StatusChanged
from termchat.chat.state import State
from termchat.config import per_model
from termchat.decoding.drafting import BatchTimes, gain_at_best, tell_cost
from termchat.decoding.records import Failed
from termchat.engine.port import DraftLoaded, Event, LoadDraft, ModelSpec, Progress

_COST = "cost"
"""The kind of failure of a model that cannot pay: whoever asks for it by name may have it."""
_HINT = "--draft-always on drafts anyway"
_SAVED = "saved for {}: --draft auto loads it from now on, until you unload it in the model list"


class Speculation:
    """One model at a time that drafts. `chosen` hears of one that a person chose live, None for none."""

    def __init__(self, state: State, chosen: Callable[[ModelSpec | None], None]) -> None:
        self._state, self._chosen = state, chosen
        self._configured: ModelSpec | Failed | None = None
        self._engine = self._pending = 0

    def begin(self, configured: ModelSpec | Failed | None) -> None:
        """A model is loaded, for which this one is to draft."""
        self._configured = configured
        self.follow()

    def end(self) -> None:
        """The engine is gone, and the model that drafted with it."""
        self._engine += 1
        self._pending = 0
        state = self._state
        state.host.drafter = state.host.drafter_failure = state.host.drafter_progress = None

    def follow(self) -> None:
        """Loads what the knob `draft` needs, unless it is there; says where that cannot be."""
        state, wanted = self._state, self._state.tuning.drafts
        if wanted is None or state.host.model is None:
            return
        if state.cannot_draft:
            state.changed(Notice(f"nothing is drafted: {state.cannot_draft}", severity="warning"))
            return
        failed = state.host.drafter_failure
        if failed is not None and failed.kind == _COST and wanted.by == "model":
            failed = None
        if wanted.by == "ngram" or state.host.drafter is not None or failed is not None or self._pending:
            return
        if isinstance(self._configured, Failed):
            self._fail(self._configured)
        elif self._configured is not None and (why := self._why_too_large(self._configured)):
            self._fail(Failed(_COST, why, _HINT))
        elif self._configured is not None:
            self._ask(self._configured)

    def _why_too_large(self, spec: ModelSpec) -> str:
        """Why a model cannot pay by the sizes of both and by what batches cost, if none was asked for; "" if it may, or if that
        is not known."""
        model, wanted = self._state.host.model, self._state.tuning.drafts
        if model is None or wanted is None or wanted.by != "auto" or wanted.always or spec.engine.url:
            return ""
        times = BatchTimes(model.measured.batch_times if model.measured is not None else {})
        with suppress(OSError):
            each = Path(spec.path).stat().st_size / max(model.size, 1)
            if times.measured and gain_at_best(times.of, each) < 1:
                return tell_cost(spec.name, each, times.of)
        return ""

    def draft_with(self, spec: ModelSpec | None, draft_model: str) -> None:
        """Has this model draft from now on, also in mid-reply, and keeps that for the model that is loaded; `draft_model` is
        what it is asked for with. None has none draft, and frees its memory."""
        state = self._state
        if state.host.model is None:
            state.changed(Notice("cannot load a draft model: no model is loaded"))
        elif spec is not None and state.cannot_draft:
            state.changed(Notice(f"cannot load a draft model: {state.cannot_draft}", severity="warning"))
        else:
            self._ask(spec, draft_model)

    def _ask(self, spec: ModelSpec | None, draft_model: str | None = None) -> None:
        """`draft_model` None: as configured, so that there is nothing to keep."""
        state = self._state
        self._pending += 1
        state.host.drafter_failure, state.host.drafter_progress = None, 0.0
        state.changed(StatusChanged())
        state.line.ask(LoadDraft(spec), partial(self._hear, self._engine, spec, draft_model))

    def _hear(self, engine: int, spec: ModelSpec | None, draft_model: str | None, event: Event) -> None:
        state = self._state
        if engine != self._engine:
            return
        if isinstance(event, Progress):
            state.host.drafter_progress = event.fraction
            state.changed(StatusChanged())
            return
        self._pending -= 1
        state.host.drafter_progress = state.host.drafter_progress if self._pending else None
        if isinstance(event, DraftLoaded):
            state.host.drafter, wanted = event.info, state.tuning.drafts
            if draft_model is not None:
                self._keep(spec, draft_model)
            elif wanted is not None and wanted.by == "auto" and not wanted.always and event.info and event.info.why_not:
                self._ask(None)
                self._fail(Failed(_COST, event.info.why_not, _HINT))
        elif isinstance(event, Failed):
            self._fail(event)
        if state.phase == "loading" and not self._pending:
            state.enter("idle")
        state.changed(StatusChanged())

    def _keep(self, spec: ModelSpec | None, draft_model: str) -> None:
        """Has this model draft whenever the one that is loaded is loaded again."""
        state, model = self._state, self._state.host.model
        assert model is not None
        self._configured = spec
        self._chosen(spec)
        state.changed(DrafterChanged(model.sha256, draft_model))
        told = (
            f"{state.host.drafter.name} drafts for {model.name}"
            if state.host.drafter is not None
            else "the draft model is unloaded"
        )
        by = state.tuning.draft
        unused = state.host.drafter is not None and by not in ("model", "auto")
        hints = [f"the knob draft is {by}: turn it to model or auto"] if unused else []
        problem = None
        try:
            if model.sha256:
                per_model.keep_drafter(draft_model, model.sha256, model.name)
                hints += [_SAVED.format(model.name)] if state.host.drafter is not None else []
        except OSError as error:
            why = error.strerror or str(error)
            problem = Notice(f"the draft model of {model.name} could not be saved: {why}", severity="warning")
        state.changed(Notice(told, ". ".join(hints)), *([problem] if problem is not None else []))

    def _fail(self, failure: Failed) -> None:
        """A dead engine is told by whoever waits for more of it."""
        state = self._state
        if failure.kind == "engine":
            return
        state.host.drafter_failure = failure
        state.changed(StatusChanged(), Notice(failure.message, failure.hint, "warning"))
