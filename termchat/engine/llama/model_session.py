"""One loaded model with its context: all that a command can need."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from termchat.decoding.records import Token
from termchat.engine import gpu_wheel
from termchat.engine.llama import native, offload, rpc, source
from termchat.engine.llama.batch_costs import measure_batches
from termchat.engine.llama.cache import Aborted, Cache, OutOfTime
from termchat.engine.llama.draft_model import DraftModel
from termchat.engine.llama.model import Model
from termchat.engine.llama.model_loading import open_model
from termchat.engine.llama.model_queries import ModelQueries
from termchat.engine.llama.scheduler import Poll, Scheduler
from termchat.engine.llama.speculation import Learned
from termchat.engine.llama.thread_tuner import ThreadTuner
from termchat.engine.port import (
    DraftInfo,
    EngineError,
    Event,
    Generate,
    Kept,
    MeasureBatches,
    Measurement,
    ModelInfo,
    ModelSpec,
    Remark,
)


class ModelSession(ModelQueries):
    """Owns model, context and template.

    Raises:
        EngineError: the model or its context cannot be made.
    """

    model: Model
    cache: Cache

    def __init__(self, spec: ModelSpec, progress: Callable[[float], None]) -> None:
        native.start()
        self.remarks = rpc.register_servers(spec.rpc)
        self.model, self.cache, remark = open_model(spec, progress)
        self.remarks += [remark] if remark is not None else []
        cache = self.cache
        self.tuner = tuner = ThreadTuner(*cache.adaptable)
        if max(cache.adaptable) > 1 and self.model.can_rewind:
            # Find out how many threads are best now, with rows for nobody.
            cache.limit_threads(tuner.limit)
            cache.peek_logits([0])  # the first decode takes longer: it reads the weights
            for _ in range(8):
                begun = perf_counter()
                with suppress(OutOfTime):
                    cache.peek_logits([0], tuner.limit_seconds())
                cache.limit_threads(tuner.observe_step(cache.threads, (perf_counter() - begun) * 1e6))
                if not tuner.tries:
                    break
        super().__init__(self.model, self.cache)
        self._learned = Learned(self.cache.measured)
        self._group: source.CacheSource | None = None

    def _all_remarks(self) -> list[Remark]:
        spec, remarks = self.model.spec, list(self.remarks)
        gpu = gpu_wheel.find_gpu() if not self.model.offloads and spec.gpu_layers != 0 else None
        if gpu is not None:
            remarks.append(gpu_wheel.other_wheel(gpu))
        if spec.mlock and not self.model.locked:
            remarks.append(
                Remark("the model could not be locked in memory", "raise the limit: ulimit -l, or turn mlock off")
            )
        return remarks

    def close(self) -> None:
        self.drop_draft()
        self.cache.close()
        self.model.close()

    def build_info(self) -> ModelInfo:
        model, cache = self.model, self.cache
        return ModelInfo(
            name=model.spec.name,
            path=model.spec.path,
            sha256=model.spec.sha256,
            architecture=model.read_metadata("general.architecture") or "",
            quantization=model.spec.quantization,
            description=model.description,
            size=int(native.LIB.llama_model_size(model.pointer)),
            parameters=int(native.LIB.llama_model_n_params(model.pointer)),
            vocabulary=model.n_vocab,
            context=cache.capacity,
            context_trained=model.context_trained,
            threads=cache.loaded[0],
            threads_batch=cache.loaded[1],
            prefill_batch=cache.batch_size,
            kv_type=cache.kv_type,
            layers=model.layers,
            gpu_layers=model.gpu_layers,
            device=offload.name_devices(offload.list_offloading(model.spec.main_gpu)) if model.gpu_layers else "cpu",
            has_template=model.template is not None,
            can_rewind=model.can_rewind,
            end_ids=model.end_ids,
            suppressed=model.suppressed,
            remarks=self._all_remarks(),
            thinking=model.thinking,
            thinking_switch=model.thinking is not None and self.has_switch,
            measured=cache.measured,
        )

    def load_draft(self, spec: ModelSpec, progress: Callable[[float], None]) -> DraftInfo:
        """Load a model that drafts from the next draft on, in place of the one that did.

        Raises:
            EngineError: it cannot draft for this one; all is as it was.
        """
        drafter = DraftModel(spec, self.cache, progress)
        self.drop_draft()
        self._learned.model = drafter
        return drafter.build_info(self._learned.read_times(self.cache.loaded[0]))

    def drop_draft(self) -> None:
        """Free the model that drafts."""
        if self._learned.model is not None:
            self._learned.model.close()
            self._learned.model = None

    def abort_decode(self) -> None:
        """Stop all decodes; may be called from any thread."""
        model = self._learned.model
        if model is not None:
            model.cache.abort.set()
        self.cache.abort.set()

    def measure_batches(self, command: MeasureBatches) -> Measurement:
        """Measure as `measure_batches` does; replies use it from now on.

        Raises:
            EngineError: it cannot be measured, or was aborted.
        """
        before, measured = self.cache.measured, measure_batches(self.cache, command)
        self.cache.measured = before.join_with(measured) if before is not None else measured
        self._learned.learn_measured(measured)
        return measured

    def generate(
        self, command: Generate, poll: Poll, wait: Callable[[], None], arrived: float
    ) -> Iterator[list[Event]]:
        """Yield the events of one reply or many; see `Scheduler.records`."""
        cache, scorer = self.cache, self._scorer
        cache.abort.clear()
        if self._learned.model is not None:
            self._learned.model.cache.abort.clear()
        alone = command.group is None
        cells = source.CacheSource(cache, self.tuner, command, self._learned, scorer.read_row)
        scheduler = Scheduler(cells, command, arrived)
        if alone:
            reply = command.replies[0]
            scorer.follow_reply(reply.ids, reply.done, keep=command.keep_logits)
        else:
            self._group = cells
        for events in scheduler.records(poll, wait):
            if alone:
                for event in events:
                    if isinstance(event, Token):
                        scorer.keep_row(event.id)
            yield events  # and questions may be asked about them

    def keep_reply(self, number: int) -> Kept:
        """Make a reply of the last group the main sequence; see `Keep`.

        Raises:
            EngineError: its cells are there no longer.
        """
        group = self._group
        sequence = group.find_sequence(number) if group is not None else None
        if group is None or sequence is None:
            raise EngineError(
                "walks", f"the cells of walk {number} are gone", "go on from its tokens: they are decoded again"
            )
        begun = perf_counter()
        self.cache.keep_sequence(sequence, alone=group.rows_alone)
        return Kept(len(self.cache.ids), (perf_counter() - begun) * 1e3)

    def _compute_logits(
        self, ids: list[int], alone: bool, wanted: Callable[[], bool]
    ) -> tuple[NDArray[np.float32], bool]:
        cache = self.cache
        if cache.current and cache.ids == ids:
            return cache.read_logits().copy(), False
        missing = len(ids) - cache.find_nearest(ids)[1]
        stays = cache.sequences and missing <= cache.free  # walks, one of which may be kept yet
        if alone and missing > cache.batch_size and not stays:
            cache.abort.clear()
            for _ in source.read_prompt(cache, self.tuner, ids, cache.prepare_prompt(ids)):
                if wanted():
                    raise Aborted
            return cache.read_logits().copy(), True
        return cache.peek_logits(ids), True
