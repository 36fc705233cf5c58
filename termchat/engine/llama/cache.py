"""The KV cache, seen as a list of ids: what can be reused, what must be decoded.

The bits of the logits depend on the shapes of the batches, so the caller is told the size of every batch that is decoded.
Prompts are decoded in micro-batches of at most `EXACT_BATCH` tokens, with the last token always alone: then decoding one token
and reading a prompt give the same numbers on the CPU, and a rewound reply continues just as it did.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from termchat.engine.llama.model import Model
from termchat.engine.llama.native import LIB, AbortFlag, last_errors
from termchat.engine.port import MOST_CONTEXT, EngineError, ModelSpec, threads_of_batches

EXACT_BATCH = 63
FAST_BATCH = 512
MAIN, SPARE = 0, 1
_SPARE_CELLS = 64

_KV_TYPES = {"f32": 0, "f16": 1, "q4_0": 2, "q4_1": 3, "q5_0": 6, "q5_1": 7, "q8_0": 8, "bf16": 30}
_FLASH = {"auto": -1, "off": 0, "on": 1}


class Aborted(Exception):
    """A decode was stopped by the abort flag; the cache holds only whole batches."""


class ContextFull(Exception):
    """No cell is left for the next token."""


class Cache:
    """Owns a `llama_context`. `ids` are those whose cells the main sequence holds.

    `current` says whether the logits at hand are those after `ids`; they stay so while the spare sequence is used.

    Raises:
        EngineError: the context cannot be made (memory, or an unknown KV type).
    """

    def __init__(self, model: Model, spec: ModelSpec, threads: int, threads_batch: int) -> None:
        if spec.kv_type not in _KV_TYPES:
            raise EngineError("settings", f"unknown kv_type {spec.kv_type!r}", f"one of {', '.join(_KV_TYPES)}")
        self.model = model
        self.capacity = spec.context or min(model.context_trained or MOST_CONTEXT, MOST_CONTEXT)
        self.batch_size = spec.prefill_batch or (FAST_BATCH if spec.fast_prefill else EXACT_BATCH)
        self.exact = self.batch_size <= EXACT_BATCH
        self.threads, self.threads_batch = self._threads, self._threads_batch = threads, threads_batch
        params = LIB.llama_context_default_params()
        params.n_ctx = self.capacity + _SPARE_CELLS
        params.n_batch = params.n_ubatch = max(self.batch_size, 64)
        params.n_seq_max = 2
        params.kv_unified = True  # else the spare sequence cannot share the main one's cells
        params.n_threads, params.n_threads_batch = threads, threads_batch
        params.flash_attn_type = _FLASH[spec.flash_attention]
        params.type_k = params.type_v = _KV_TYPES[spec.kv_type]
        params.no_perf = True
        last_errors()
        self.pointer: Any = LIB.llama_init_from_model(model.pointer, params)
        if not self.pointer:
            why = last_errors() or "not enough memory?"
            raise EngineError(
                "memory", f"could not create a context of {self.capacity} tokens: {why}", "try a smaller --context"
            )
        self.memory: Any = LIB.llama_get_memory(self.pointer)
        self.ids: list[int] = []
        self._batches: list[tuple[int, int]] = []
        self.abort = AbortFlag()
        size = max(self.batch_size, 64)
        self._batch: Any = LIB.llama_batch_init(size, 0, 1)
        self._one: Any = LIB.llama_batch_init(1, 0, 1)
        self._tokens = np.ctypeslib.as_array(self._batch.token, (size,))
        self._positions = np.ctypeslib.as_array(self._batch.pos, (size,))
        self._wanted = np.ctypeslib.as_array(self._batch.logits, (size,))
        for batch, count in ((self._batch, size), (self._one, 1)):
            for i in range(count):
                batch.n_seq_id[i] = 1
                batch.seq_id[i][0] = MAIN
        self._one.n_tokens = 1
        self._one.logits[0] = 1
        self.current = False
        self._fetched = False
        self._address = 0
        self._logits: NDArray[np.float32] = np.empty(0, np.float32)
        self._kept: NDArray[np.float32] | None = None

    def close(self) -> None:
        if self.pointer:
            LIB.llama_batch_free(self._batch)
            LIB.llama_batch_free(self._one)
            LIB.llama_free(self.pointer)
            self.pointer = None

    def set_threads(self, threads: int) -> None:
        """Takes effect with the next decode; prompts are read with no more threads than that on a busy machine."""
        self.threads_batch = threads_of_batches(threads, self._threads, self._threads_batch)
        self.threads = threads
        LIB.llama_set_n_threads(self.pointer, threads, self.threads_batch)

    def common(self, ids: list[int]) -> int:
        """How many cells `ids` can reuse: the longest common prefix, at most all but the last id."""
        limit = min(len(self.ids), len(ids) - 1)
        if self.ids[:limit] == ids[:limit]:
            return limit
        return next(i for i in range(limit) if self.ids[i] != ids[i])

    def rewind(self, count: int) -> int:
        """Keeps the first `count` cells. Returns how many are left: none when the model cannot rewind."""
        if count < len(self.ids) or count == 0:
            self.current = False
            if not LIB.llama_memory_seq_rm(self.memory, MAIN, count, -1):
                LIB.llama_memory_seq_rm(self.memory, MAIN, -1, -1)
                count = 0
            del self.ids[count:], self._batches[count:]
        return len(self.ids)

    def made_as(self, shapes: list[int], count: int) -> int:
        """How many of the first `count` cells were decoded in batches of these sizes, starting at the first cell.

        Where a batch was cut, its first cells still belong to it; what follows them then counts as a batch of its own.
        """
        at = 0
        for size in shapes:
            same = 0
            for start, made in self._batches[at : min(at + size, count)]:
                if start != at or made < size:
                    break
                same += 1
            if same < size:
                return at + same
            at += size
        return min(at, count)

    def prepare(self, ids: list[int], shapes: list[int] | None = None) -> list[int]:
        """Rewinds to what `ids` can reuse and returns the batch sizes in which the rest is to be decoded.

        `shapes` are batch sizes from the first id on, to rebuild cells just as they were made; they are ignored where one is
        larger than this context's micro-batch.
        """
        kept = self.common(ids)
        if shapes and max(shapes) <= self.batch_size:
            plan = self._recorded(ids, self.made_as(shapes, kept), shapes)
        else:
            plan = self._planned(ids, kept)
        kept = len(ids) - sum(plan)
        # A model that cannot rewind begins anew.
        return plan if self.rewind(kept) == kept else self._planned(ids, 0)

    def prefill(self, ids: list[int], plan: list[int]) -> Iterator[int]:
        """Decodes what `prepare` planned, yielding the size of each batch; the logits are then the last id's.

        Raises:
            Aborted: the abort flag was set.
            ContextFull: there are more ids than cells.
            EngineError: llama.cpp failed.
        """
        for size in plan:
            at = len(self.ids)
            # Only here: whoever takes the next batch may use the context in between.
            self.abort.watch(self.pointer, True)
            try:
                if size == 1:
                    self.decode(ids[at])
                else:
                    self._decode_rows(ids[at : at + size], at)
            finally:
                self.abort.watch(self.pointer, False)
            yield size

    def _planned(self, ids: list[int], kept: int) -> list[int]:
        body = len(ids) - 1 - kept
        sizes = [self.batch_size] * (body // self.batch_size)
        if body % self.batch_size:
            sizes.append(body % self.batch_size)
        return [*sizes, 1]

    def _recorded(self, ids: list[int], kept: int, shapes: list[int]) -> list[int]:
        """The recorded batches that are not whole in the cache, then the rest as usual."""
        start, at = 0, 0
        sizes: list[int] = []
        for size in shapes:
            if at + size >= len(ids):
                break
            if at + size <= kept and not sizes:
                start = at + size
            else:
                sizes.append(size)
            at += size
        return [*sizes, *self._planned(ids, max(at, start))]

    def decode(self, token: int) -> None:
        """Adds a token to the main sequence; its logits are then at hand.

        Raises:
            ContextFull, Aborted, EngineError: see `prefill`.
        """
        at = len(self.ids)
        if at >= self.capacity:
            raise ContextFull
        one = self._one
        one.token[0] = token
        one.pos[0] = at
        self._run(one, at)
        self.ids.append(token)
        self._batches.append((at, 1))
        self.current = True

    def _decode_rows(self, ids: list[int], at: int) -> None:
        if at + len(ids) > self.capacity:
            raise ContextFull
        self._fill(ids, at, MAIN)
        self._run(self._batch, at)
        self.ids.extend(ids)
        self._batches += [(at, len(ids))] * len(ids)
        self.current = True

    def _fill(self, ids: list[int], at: int, sequence: int) -> None:
        count = len(ids)
        self._tokens[:count] = ids
        self._positions[:count] = np.arange(at, at + count)
        self._wanted[:count] = 0
        self._wanted[count - 1] = 1
        self._batch.n_tokens = count
        for i in range(count):
            self._batch.seq_id[i][0] = sequence

    def _run(self, batch: Any, at: int, sequence: int = MAIN) -> None:
        if sequence == MAIN:
            self._kept = None
        elif self.current and self._kept is None:
            self._kept = self._row().copy()
        self._fetched = False
        code = LIB.llama_decode(self.pointer, batch)
        if code == 0:
            return
        removed = LIB.llama_memory_seq_rm(self.memory, sequence, at, -1)
        if sequence == MAIN:
            self.current = False
            if not removed:
                LIB.llama_memory_seq_rm(self.memory, MAIN, -1, -1)  # a state that cannot be cut is of no use any more
                self.ids.clear()
            self._batches.clear()
        if code == 2:
            raise Aborted
        if code == 1:
            raise ContextFull
        raise EngineError("decode", f"llama.cpp could not decode (code {code}): {last_errors()}", "")

    def logits(self) -> NDArray[np.float32]:
        """The logits after `ids`, shape (n_vocab,): a view, which the next decode of the main sequence writes over."""
        return self._row() if self._kept is None else self._kept

    def _row(self) -> NDArray[np.float32]:
        """A view of the last decode's logits, whichever sequence it was for."""
        if self._fetched:
            return self._logits
        pointer = LIB.llama_get_logits_ith(self.pointer, -1)
        address = ctypes.cast(pointer, ctypes.c_void_p).value or 0
        if address != self._address:
            self._address = address
            self._logits = np.ctypeslib.as_array(pointer, (self.model.n_vocab,))
        self._fetched = True
        return self._logits

    def decode_aside(self, batch: Any, at: int) -> None:
        """Decodes a `llama_batch` of the spare sequence that begins at position `at`; the main one's logits stay at hand.

        Raises:
            ContextFull, Aborted, EngineError: see `prefill`.
        """
        self._run(batch, at, SPARE)

    def peek(self, ids: list[int]) -> NDArray[np.float32]:
        """A copy of the logits after `ids`, shape (n_vocab,), computed on the spare sequence; the main one is untouched.

        Raises:
            ContextFull: the spare sequence does not fit.
            EngineError: llama.cpp failed.
        """
        kept = self.common(ids)
        if not self.model.can_rewind:
            raise EngineError("capability", "past positions cannot be inspected with this model", "")
        LIB.llama_memory_seq_cp(self.memory, MAIN, SPARE, 0, kept)
        try:
            at = kept
            for size in self._planned(ids, kept):
                self._fill(ids[at : at + size], at, SPARE)
                self._run(self._batch, at, SPARE)
                at += size
            return self._row().copy()
        finally:
            LIB.llama_memory_seq_rm(self.memory, SPARE, -1, -1)
