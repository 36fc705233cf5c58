"""The model of a chat: loaded, changed in mid-chat, let go, and loaded anew after the engine died.

Memory is free for sure only when a process ends, so every load begins a new one. Where a conversation goes on with another
model, nothing of it changes: the next turn is rendered from its texts (see `turns`), and each reply names who wrote it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec

from termchat.chat.changes import DrafterChanged, Notice, StatusChanged, TuningChanged
from termchat.chat.state import State
from termchat.config import per_model
from termchat.config.origins import MODEL, followed
from termchat.decoding.biases import parse
from termchat.decoding.drafting import BatchTimes, explain_cost, gain_at_best
from termchat.decoding.records import Failed
from termchat.decoding.samplers import Value
from termchat.decoding.stages import LOGIT_BIAS
from termchat.engine.port import (
    BatchesMeasured,
    DraftLoaded,
    EngineError,
    Event,
    Load,
    LoadDraft,
    Loaded,
    MeasureBatches,
    ModelInfo,
    ModelSpec,
    Progress,
    Remark,
)

_COST = "cost"
"""The kind of failure of a model that cannot pay: whoever asks for it by name may have it."""
_HINT = "--draft-always on drafts anyway"
_SAVED = "saved for {}: --draft auto loads it from now on, until you unload it in the model list"


class Choice(NamedTuple):
    """A model to chat with: how to load it, the recommended knobs, by name, and what is wrong in the lists it was looked for
    in. The `drafter` is the model that is to draft for it, or why that cannot be used; `wanted` is what it was asked for with.
    `heeds` says whether knobs follow what an engine elsewhere recommends.
    """

    spec: ModelSpec
    recommended: Mapping[str, Value]
    mistakes: tuple[str, ...] = ()
    drafter: ModelSpec | Failed | None = None
    wanted: str = ""
    heeds: bool = True


class Loading:
    """One model at a time. `forget` drops what waits for an answer of the one that goes.

    `then_continue` says that the last reply goes on once the model is there; `speculation` has the model that drafts for it.
    """

    def __init__(self, state: State, forget: Callable[[], None]) -> None:
        self._state, self._forget = state, forget
        self._attempt = 0
        self._wanted: Choice | None = None
        self._loaded: Choice | None = None
        self._earlier: Choice | None = None
        self._told: set[Remark] = set()
        self._vocabulary: tuple[int, list[int]] | None = None
        self.then_continue = False
        self.speculation = Drafters(state, self._draft_with)

    @property
    def earlier(self) -> ModelSpec | None:
        """What `switch_back` loads: the model before this one, or the last that was there if this one did not come."""
        choice = self._before()
        return choice.spec if choice is not None else None

    @property
    def attempts(self) -> int:
        """How many times a model was loaded or unloaded, whatever came of it."""
        return self._attempt

    @property
    def wanted(self) -> Choice | None:
        """The model that is loaded or to be loaded."""
        return self._wanted

    @property
    def recommended(self) -> Mapping[str, Value]:
        """Knobs that are recommended for the model that is loaded or to be loaded, by name."""
        return self._wanted.recommended if self._wanted is not None else {}

    def load(self, spec: ModelSpec, drafter: ModelSpec | Failed | None = None, *, heeds: bool = True) -> None:
        """Loads the first model, whose recommendation the knobs follow already, or in place of the one that is there; for
        `drafter` and `heeds` see `Choice`."""
        origin, tuning = self._state.origin, self._state.tuning
        followed = {name: getattr(tuning, name) for name, place in origin.items() if place == MODEL}
        self._begin(Choice(spec, followed, drafter=drafter, heeds=heeds), follow=False)

    def switch(self, choice: Choice) -> bool:
        """Goes on with another model: the conversation stays, the next turn is rendered by the new one.

        Knobs that nobody turned follow the new model's recommendation. The old process ends first, so all its memory is
        free. Returns False while a reply runs, with a notice. A load that fails leaves the phase "failed", and `switch_back`
        has the model before again.
        """
        if not self._free_to("change the model"):
            return False
        self.then_continue = False
        self._begin(choice, follow=True)
        return True

    def switch_back(self) -> bool:
        """Goes back to the previous model; False if there was none, or while a reply runs."""
        choice = self._before()
        if choice is None:
            self._state.changed(Notice("no previous model"))
            return False
        return self.switch(choice)

    def unload(self) -> bool:
        """Ends the engine, and all its memory is free; the next message loads the model again. False while a reply runs."""
        if not self._free_to("unload the model"):
            return False
        self._let_go()
        self._state.host.model = None
        self._state.enter("no model")
        return True

    def reload(self) -> bool:
        """Unloads the model and loads it again; False while a reply runs, or if none was chosen yet."""
        if self._wanted is None or not self._free_to("reload the model"):
            return False
        self._begin(self._wanted, follow=self._wanted is not self._loaded)
        return True

    def restart(self) -> None:
        """Loads the model again after its engine died, and continues a reply that was cut off."""
        state, chat = self._state, self._state.conversation
        if self._wanted is None or state.phase not in ("failed", "no model"):
            return
        spans = chat.reply()
        self.then_continue = spans[-1].node.failed is not None if spans else chat.leaf is not None
        self._begin(self._wanted, follow=self._wanted is not self._loaded)

    # --- how it is done ----------------------------------------------------------------------------------------------

    def _before(self) -> Choice | None:
        return self._earlier if self._wanted is self._loaded else self._loaded

    def _free_to(self, what: str) -> bool:
        if self._state.busy:
            self._state.changed(Notice(f"cannot {what}: a reply is running", "stop it first"))
        return not self._state.busy

    def _begin(self, choice: Choice, *, follow: bool) -> None:
        """Loads a model in a new process; `follow` has the knobs follow its recommendation once it is there."""
        state = self._state
        self._let_go()
        self._wanted = choice
        state.host.spec, state.host.model, state.failure, state.host.progress = choice.spec, None, None, 0.0
        state.enter("loading")
        try:
            state.line.ask(Load(choice.spec), partial(self._hear, self._attempt, choice, follow))
        except EngineError as error:  # the process cannot be started; every other command meets one that runs
            self._failed(Failed(error.kind, error.message, error.hint))

    def _draft_with(self, drafter: ModelSpec | None) -> None:
        """Has the model that is loaded loaded with this one to draft for it, whenever it is loaded again."""
        assert self._wanted is not None
        chosen, was_loaded = self._wanted._replace(drafter=drafter), self._wanted is self._loaded
        self._wanted, self._loaded = chosen, chosen if was_loaded else self._loaded

    def _let_go(self) -> None:
        """Ends the process that holds a model, if there is one; nobody waits for its answers any more."""
        state = self._state
        self._attempt += 1
        self.speculation.end()
        if state.host.spec is None or not state.engine.alive:
            return
        self._forget()
        state.engine.close()
        state.line.broken(Failed("engine", "the model was unloaded"))

    def _hear(self, attempt: int, choice: Choice, follow: bool, event: Event) -> None:
        state = self._state
        if attempt != self._attempt:
            return
        if isinstance(event, Progress):
            state.host.progress = event.fraction
            state.changed(StatusChanged())
        elif isinstance(event, Loaded):
            place = choice.spec.engine
            info = msgspec.structs.replace(event.info, engine=place.name or place.url)
            state.host.model, state.host.progress, state.live.threads, state.host.measuring = info, 1.0, 0, False
            if choice is not self._loaded:
                self._earlier, self._loaded = self._loaded, choice
            if info.recommended and choice.heeds:
                choice = self._loaded = self._wanted = choice._replace(recommended=info.recommended)
            if follow or choice.recommended is info.recommended:
                self._follow(choice.recommended)
            self._forget_ids(info)
            if lacking := state.lacking(state.tuning):
                state.changed(Notice(f"{state.host.engine_name} has no {', '.join(lacking)}: without effect there"))
            state.changed(*(Notice(*why) for why in state.refused_knobs(state.tuning).values()))
            if state.constraint is not None and (why := state.refused_constraint(state.constraint)) is not None:
                state.changed(Notice(*why))
            self._tell(info.remarks)
            state.check_template()
            state.check_thinking()
            if not state.session.id:  # a chat keeps the model that wrote its last reply until another one writes
                state.session.update(model=state.host.model_ref)
            if state.drafts is not None and isinstance(choice.drafter, ModelSpec):
                measure(state, needed=True)  # the draft model is judged by that
            self.speculation.begin(choice.drafter)
            if state.host.drafter_progress is None:
                state.enter("idle")
        elif isinstance(event, Failed):
            self._failed(event)

    def _failed(self, failure: Failed) -> None:
        self._state.enter("failed")
        self._state.fail(failure)

    def _follow(self, recommended: Mapping[str, Value]) -> None:
        """Sets the knobs that nobody turned to what is recommended for the model."""
        state = self._state
        tuning, origin, problems = followed(state.tuning, state.origin, recommended)
        if tuning != state.tuning:
            state.session.update(tuning=tuning)
            state.changed(TuningChanged())
        state.origin.update(origin)
        state.changed(*(Notice(problem, severity="warning") for problem in problems))

    def _forget_ids(self, info: ModelInfo) -> None:
        """Drops logit biases by id where these are other tokens in this model than in the one before."""
        state, before = self._state, self._vocabulary
        self._vocabulary = info.vocabulary, info.end_ids
        written = state.tuning.logit_bias
        kept = [bias for bias in written if isinstance(parse(bias).what, str)]
        if before in (None, self._vocabulary) or len(kept) == len(written):
            return
        state.session.update(tuning=state.tuning.turned({LOGIT_BIAS: kept}))
        gone = ", ".join(bias for bias in written if bias not in kept)
        state.changed(TuningChanged(), Notice(f"logit_bias: {gone} removed: in this model these ids are other tokens"))

    def _tell(self, remarks: list[Remark]) -> None:
        """Shows each remark once."""
        for remark in remarks:
            if remark not in self._told:
                self._told.add(remark)
                self._state.changed(Notice(remark.message, remark.hint))


class Drafters:
    """The model that drafts for the one of the chat: loaded beside it once the knob `draft` asks for it, and changed live.

    Until it is there, or where it cannot be had, a reply is made without it.

    `chosen` hears of one that a person chose live, None for none.
    """

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
                return explain_cost(spec.name, each, times.of)
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


def measure(state: State, *, needed: bool = False) -> None:
    """Have the engine measure what batches of its model cost and change, unless that is known, and keep it; `needed` for what
    follows, else when nothing else is to be done, and again for times that a busy machine did not tell."""
    model = state.host.model
    if model is None or not model.kv_type or not model.can_rewind or (state.host.measuring and not needed):
        return
    if model.measured is None or not (needed or model.measured.batch_times):
        state.host.measuring = True
        state.line.ask(MeasureBatches(needed=needed), partial(_hear_measured, state, model))


def _hear_measured(state: State, model: ModelInfo, event: Event) -> None:
    """Keep what was measured; other work went first where it is `busy`, so it is measured later."""
    now = state.host.model
    if now is None or (now.path, now.sha256) != (model.path, model.sha256):
        return
    if isinstance(event, BatchesMeasured):
        measured = event.measured
        state.host.model = msgspec.structs.replace(
            now, measured=now.measured.joined(measured) if now.measured else measured
        )
        try:
            if model.sha256 and not model.engine:
                per_model.keep_rows(measured, model.sha256, model.name)
        except OSError as error:
            why = error.strerror or str(error)
            state.changed(Notice(f"what was measured of {model.name} could not be saved: {why}", severity="warning"))
    elif isinstance(event, Failed) and event.kind == "busy":
        state.host.measuring = False
