"""The model of a chat: loaded, changed in mid-chat, let go, and loaded anew after the engine died.

Memory is free for sure only when a process ends, so every load begins a new one. Where a conversation goes on with another
model, nothing of it changes: the next turn is rendered from its texts (see `turns`), and each reply names who wrote it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import msgspec

from termchat.chat.changes import DrafterChanged, Notice, StatusChanged, TuningChanged
from termchat.chat.host import Choice as Choice
from termchat.chat.state import State
from termchat.config import per_model
from termchat.config.origins import MODEL, followed
from termchat.decoding.biases import parse
from termchat.decoding.drafting import BatchTimes, explain_cost, gain_at_best
from termchat.decoding.records import Failed
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
)

_COST = "cost"
"""The kind of failure of a model that cannot pay: whoever asks for it by name may have it."""
_HINT = "--draft-always on drafts anyway"
_SAVED = "saved for {}: --draft auto loads it from now on, until you unload it in the model list"


class Loading:
    """Loads one model at a time. `wanted`: the one that is loaded or loading; `attempts`: number of loads and unloads,
    whatever their outcome; `then_continue`: continue the last reply once the model is loaded; `forget` drops the questions
    to a model that is unloaded.
    """

    def __init__(self, chat: State, forget: Callable[[], None]) -> None:
        self._chat, self._host, self._forget = chat, chat.host, forget
        self.then_continue = False
        self.speculation = Drafters(chat, self)

    @property
    def earlier(self) -> Choice | None:
        """What `switch_back` loads: the model before this one, or the last that was there if this one did not come."""
        host = self._host
        return host.loaded_before if host.wanted is host.last_loaded else host.last_loaded

    def load(self, spec: ModelSpec, drafter: ModelSpec | Failed | None = None, *, heeds: bool = True) -> None:
        """Load the first model, whose recommendation the knobs follow already, or in place of the one that is there; for
        `drafter` and `heeds` see `Choice`."""
        origin, tuning = self._chat.origin, self._chat.tuning
        followed = {name: getattr(tuning, name) for name, place in origin.items() if place == MODEL}
        self._begin_load(Choice(spec, followed, drafter=drafter, heeds=heeds), follow=False)

    def switch_model(self, choice: Choice) -> bool:
        """Go on with another model: the conversation stays, the next turn is rendered by the new one.

        Knobs that nobody turned follow the new model's recommendation. The old process ends first, so all its memory is
        free. Returns False while a reply runs, with a notice. A load that fails leaves the phase "failed", and `switch_back`
        has the model before again.
        """
        if not self._free_to("change the model"):
            return False
        self.then_continue = False
        self._begin_load(choice, follow=True)
        return True

    def switch_back(self) -> bool:
        """Go back to the previous model; return False without one, or while a reply runs."""
        if self.earlier is None:
            self._chat.add_changes(Notice("no previous model"))
            return False
        return self.switch_model(self.earlier)

    def unload_model(self) -> bool:
        """End the engine, and all its memory is free; the next message loads the model again. False while a reply runs."""
        if not self._free_to("unload the model"):
            return False
        self._let_go()
        self._chat.host.model = None
        self._chat.enter_phase("no model")
        return True

    def reload_model(self) -> bool:
        """Unload the model and load it again; False while a reply runs, or if none was chosen yet."""
        host = self._host
        if host.wanted is None or not self._free_to("reload the model"):
            return False
        self._begin_load(host.wanted, follow=host.wanted is not host.last_loaded)
        return True

    def restart_engine(self) -> None:
        """Load the model again after its engine died, and continues a reply that was cut off."""
        chat, host, tree = self._chat, self._host, self._chat.conversation
        if host.wanted is None or chat.phase not in ("failed", "no model"):
            return
        spans = tree.find_reply()
        self.then_continue = spans[-1].node.failed is not None if spans else tree.leaf is not None
        self._begin_load(host.wanted, follow=host.wanted is not host.last_loaded)

    # --- how it is done ----------------------------------------------------------------------------------------------

    def _free_to(self, what: str) -> bool:
        if self._host.busy:
            self._chat.add_changes(Notice(f"cannot {what}: a reply is running", "stop it first"))
        return not self._host.busy

    def _begin_load(self, choice: Choice, *, follow: bool) -> None:
        """Load a model in a new process; `follow` has the knobs follow its recommendation once it is there."""
        host = self._host
        self._let_go()
        host.wanted, host.spec, host.model, host.progress = choice, choice.spec, None, 0.0
        self._chat.failure = None
        self._chat.enter_phase("loading")
        try:
            host.send_command(Load(choice.spec), partial(self._hear_load, host.attempts, choice, follow))
        except EngineError as error:  # the process cannot be started; every other command meets one that runs
            self._fail_load(Failed(error.kind, error.message, error.hint))

    def set_drafter(self, drafter: ModelSpec | None) -> None:
        """Have this model draft whenever the one that is loaded is loaded again."""
        host = self._host
        assert host.wanted is not None
        was_loaded, host.wanted = host.wanted is host.last_loaded, host.wanted._replace(drafter=drafter)
        host.last_loaded = host.wanted if was_loaded else host.last_loaded

    def _let_go(self) -> None:
        """End the process that holds a model and drop the commands that wait for it."""
        host = self._host
        host.attempts += 1
        self.speculation.forget_drafter()
        if host.spec is None or not host.engine.alive:
            return
        self._forget()
        host.engine.close()
        host.fail_waiting(Failed("engine", "the model was unloaded"))

    def _hear_load(self, attempt: int, choice: Choice, follow: bool, event: Event) -> None:
        chat, host = self._chat, self._host
        if attempt != host.attempts:
            return
        if isinstance(event, Progress):
            host.progress = event.fraction
            chat.add_changes(StatusChanged())
        elif isinstance(event, Loaded):
            place = choice.spec.engine
            info = msgspec.structs.replace(event.info, engine=place.name or place.url)
            host.model, host.progress, chat.live.threads, host.measuring = info, 1.0, 0, False
            if choice is not host.last_loaded:
                host.loaded_before, host.last_loaded = host.last_loaded, choice
            if info.recommended and choice.heeds:
                choice = host.last_loaded = host.wanted = choice._replace(recommended=info.recommended)
            if follow or choice.recommended is info.recommended:
                tuning, origin, problems = followed(chat.tuning, chat.origin, choice.recommended)
                if tuning != chat.tuning:
                    chat.session.update_settings(tuning=tuning)
                    chat.add_changes(TuningChanged())
                chat.origin.update(origin)
                chat.add_changes(*(Notice(problem, severity="warning") for problem in problems))
            self._forget_ids(info)
            if lacking := chat.list_lacking(chat.tuning):
                chat.add_changes(Notice(f"{host.engine_name} has no {', '.join(lacking)}: without effect there"))
            chat.add_changes(*(Notice(*why) for why in chat.refused_knobs(chat.tuning).values()))
            if chat.constraint is not None and (why := chat.refused_constraint(chat.constraint)) is not None:
                chat.add_changes(Notice(*why))
            new = [remark for remark in info.remarks if remark not in host.remarks]
            host.remarks.update(new)
            chat.add_changes(*(Notice(remark.message, remark.hint) for remark in new))
            chat.check_template()
            chat.check_thinking()
            if not chat.session.id:  # a chat keeps the model that wrote its last reply until another one writes
                chat.session.update_settings(model=host.model_ref)
            if chat.drafts is not None and isinstance(choice.drafter, ModelSpec):
                measure_batches(chat, needed=True)  # the draft model is judged by that
            self.speculation.follow_setting()
            if host.drafter_progress is None:
                chat.enter_phase("idle")
        elif isinstance(event, Failed):
            self._fail_load(event)

    def _fail_load(self, failure: Failed) -> None:
        self._chat.enter_phase("failed")
        self._chat.report_failure(failure)

    def _forget_ids(self, info: ModelInfo) -> None:
        """Drop logit biases by id where these are other tokens in this model than in the one before."""
        chat, before, now = self._chat, self._host.vocabulary, (info.vocabulary, info.end_ids)
        self._host.vocabulary = now
        written = chat.tuning.logit_bias
        kept = [bias for bias in written if isinstance(parse(bias).what, str)]
        if before in (None, now) or len(kept) == len(written):
            return
        chat.session.update_settings(tuning=chat.tuning.turn_knobs({LOGIT_BIAS: kept}))
        gone = ", ".join(bias for bias in written if bias not in kept)
        chat.add_changes(
            TuningChanged(), Notice(f"logit_bias: {gone} removed: in this model these ids are other tokens")
        )


class Drafters:
    """The model that drafts for the one of the chat: loaded beside it once the knob `draft` asks for it, and changed live.

    Until it is there, or where it cannot be had, a reply is made without it.
    """

    def __init__(self, chat: State, loading: Loading) -> None:
        self._chat, self._loading = chat, loading

    def forget_drafter(self) -> None:
        """Forget the drafter: the engine is gone."""
        chat = self._chat
        chat.host.drafters_pending = 0
        chat.host.drafter = chat.host.drafter_failure = chat.host.drafter_progress = None

    def follow_setting(self) -> None:
        """Load what the knob `draft` needs, unless it is there; a notice says where that cannot be."""
        chat, host, wanted = self._chat, self._chat.host, self._chat.tuning.drafts
        if wanted is None or host.model is None:
            return
        if chat.cannot_draft:
            chat.add_changes(Notice(f"nothing is drafted: {chat.cannot_draft}", severity="warning"))
            return
        failed = host.drafter_failure
        if failed is not None and failed.kind == _COST and wanted.by == "model":
            failed = None
        if wanted.by == "ngram" or host.drafter is not None or failed is not None or host.drafters_pending:
            return
        drafter = host.wanted.drafter if host.wanted is not None else None
        if isinstance(drafter, Failed):
            self._fail_load(drafter)
        elif drafter is not None and (why := self._why_too_large(drafter)):
            self._fail_load(Failed(_COST, why, _HINT))
        elif drafter is not None:
            self._ask_load(drafter)

    def _why_too_large(self, spec: ModelSpec) -> str:
        """Explain why a model cannot pay by the sizes of both and by what batches cost, if none was asked for; "" if it may, or
        if that is not known."""
        model, wanted = self._chat.host.model, self._chat.tuning.drafts
        if model is None or wanted is None or wanted.by != "auto" or wanted.always or spec.engine.url:
            return ""
        times = BatchTimes(model.measured.batch_times if model.measured is not None else {})
        with suppress(OSError):
            each = Path(spec.path).stat().st_size / max(model.size, 1)
            if times.measured and gain_at_best(times.read_cost, each) < 1:
                return explain_cost(spec.name, each, times.read_cost)
        return ""

    def draft_with(self, choice: Choice | None) -> None:
        """Have this model draft from now on, also in mid-reply, and keep that for the model that is loaded. With None none
        drafts, and its memory is free. Nothing drafts while the knob `draft` is off."""
        chat = self._chat
        spec, draft_model = (choice.spec, choice.wanted or choice.spec.path) if choice is not None else (None, "")
        if chat.host.model is None:
            chat.add_changes(Notice("cannot load a draft model: no model is loaded"))
        elif spec is not None and chat.cannot_draft:
            chat.add_changes(Notice(f"cannot load a draft model: {chat.cannot_draft}", severity="warning"))
        else:
            self._ask_load(spec, draft_model)

    def _ask_load(self, spec: ModelSpec | None, draft_model: str | None = None) -> None:
        """Ask the engine for a drafter. `draft_model` None: as configured, so that nothing is remembered."""
        host = self._chat.host
        host.drafters_pending += 1
        host.drafter_failure, host.drafter_progress = None, 0.0
        self._chat.add_changes(StatusChanged())
        host.send_command(LoadDraft(spec), partial(self._hear_load, host.attempts, spec, draft_model))

    def _hear_load(self, attempt: int, spec: ModelSpec | None, draft_model: str | None, event: Event) -> None:
        chat, host = self._chat, self._chat.host
        if attempt != host.attempts:
            return
        if isinstance(event, Progress):
            host.drafter_progress = event.fraction
            chat.add_changes(StatusChanged())
            return
        host.drafters_pending -= 1
        host.drafter_progress = host.drafter_progress if host.drafters_pending else None
        if isinstance(event, DraftLoaded):
            host.drafter, wanted = event.info, chat.tuning.drafts
            if draft_model is not None:
                self._keep_drafter(spec, draft_model)
            elif wanted is not None and wanted.by == "auto" and not wanted.always and event.info and event.info.why_not:
                self._ask_load(None)
                self._fail_load(Failed(_COST, event.info.why_not, _HINT))
        elif isinstance(event, Failed):
            self._fail_load(event)
        if chat.phase == "loading" and not host.drafters_pending:
            chat.enter_phase("idle")
        chat.add_changes(StatusChanged())

    def _keep_drafter(self, spec: ModelSpec | None, draft_model: str) -> None:
        """Have this model draft whenever the one that is loaded is loaded again."""
        chat, model = self._chat, self._chat.host.model
        assert model is not None
        self._loading.set_drafter(spec)
        chat.add_changes(DrafterChanged(model.sha256, draft_model))
        drafter, by = chat.host.drafter, chat.tuning.draft
        hints, problems = [], []
        if drafter is not None and by not in ("model", "auto"):
            hints.append(f"the knob draft is {by}: turn it to model or auto")
        try:
            if model.sha256:
                per_model.keep_drafter(draft_model, model.sha256, model.name)
                hints += [_SAVED.format(model.name)] if drafter is not None else []
        except OSError as error:
            why = error.strerror or str(error)
            problems.append(Notice(f"the draft model of {model.name} could not be saved: {why}", severity="warning"))
        message = f"{drafter.name} drafts for {model.name}" if drafter is not None else "the draft model is unloaded"
        chat.add_changes(Notice(message, ". ".join(hints)), *problems)

    def _fail_load(self, failure: Failed) -> None:
        """Ignore the death of the engine; its running command reports that."""
        chat = self._chat
        if failure.kind == "engine":
            return
        chat.host.drafter_failure = failure
        chat.add_changes(StatusChanged(), Notice(failure.message, failure.hint, "warning"))


def measure_batches(chat: State, *, needed: bool = False) -> None:
    """Have the engine measure what batches of its model cost and change, unless that is known, and keep it; `needed` for what
    follows, else when nothing else is to be done, and again for times that a busy machine did not tell."""
    model = chat.host.model
    if model is None or not model.kv_type or not model.can_rewind or (chat.host.measuring and not needed):
        return
    if model.measured is None or not (needed or model.measured.batch_times):
        chat.host.measuring = True
        chat.host.send_command(MeasureBatches(needed=needed), partial(_hear_measured, chat, model))


def _hear_measured(chat: State, model: ModelInfo, event: Event) -> None:
    """Keep a measurement; measure again later if the engine was `busy`."""
    now = chat.host.model
    if now is None or (now.path, now.sha256) != (model.path, model.sha256):
        return
    if isinstance(event, BatchesMeasured):
        measured = event.measured
        chat.host.model = msgspec.structs.replace(
            now, measured=now.measured.join_with(measured) if now.measured else measured
        )
        try:
            if model.sha256 and not model.engine:
                per_model.keep_rows(measured, model.sha256, model.name)
        except OSError as error:
            why = error.strerror or str(error)
            chat.add_changes(Notice(f"what was measured of {model.name} could not be saved: {why}", severity="warning"))
    elif isinstance(event, Failed) and event.kind == "busy":
        chat.host.measuring = False
