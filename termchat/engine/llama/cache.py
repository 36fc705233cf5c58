"""The KV cache, seen as a list of ids: what can be reused, what must be decoded.

The bits of the logits depend on how each cell was made, so the caller is told the shape of every decode. Prompts are decoded in
micro-batches of at most `EXACT_BATCH` tokens, with the last token always alone: then decoding one token and reading a prompt
give the same numbers on the CPU, and a rewound reply continues just as it did. With keys and values of one type, f16 or f32, a
single row depends on the number of threads, too, from cell `SPLIT` on: llama.cpp then splits the attention among them. With
`STEADY`, two types of the same size, it does not, and is as fast. The order of the cells counts as well; it is that of the ids,
since what the spare sequence uses is always at the end and freed before the main one goes on.

Other sequences begin as copies of the main one, or of one another: a copy shares its cells, and what is decoded then is its
own. Rows of several of them are one batch. Up to `rows_alike` of them, as was measured, each has the bits that it has alone
with one thread. For that the cells of each sequence have to be in the order of its ids, and are,
until a sequence is dropped: what is decoded afterwards fills the holes.

Behind the main sequence's ids there may be cells of tokens that were drafted, and decoded in one batch with the last id. Nobody
else sees them: `advance` makes the next of them an id, and whatever else is decoded cuts them off first.
"""

from __future__ import annotations

import ctypes
from collections.abc import Generator, Iterator, Mapping, Sequence
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from termchat.decoding.drafting import MOST_DRAFTED
from termchat.decoding.records import IN_ROUND, Shape
from termchat.engine.llama.cells import Aborted as Aborted
from termchat.engine.llama.cells import ContextFull as ContextFull
from termchat.engine.llama.model import Model
from termchat.engine.llama.native import LIB, AbortFlag, last_errors
from termchat.engine.port import MOST_CONTEXT, EngineError, ModelSpec, threads_of_batches

EXACT_BATCH = 63
FAST_BATCH = 512
SPLIT = 256
MAIN, SPARE = 0, 1
_SPARE_CELLS = 64
_SEQUENCES = 64
"""Main, spare and all others: at most `n_batch`, else llama.cpp aborts. Each costs the memory of a row of logits."""
_UNUSED = _SEQUENCES - 1
"""Holds the cells of sequences that ended, while others go on."""

STEADY = "bf16/f16"
"""The types of keys and values on the CPU, unless another one is asked for: a row has the same bits with any number of threads.
llama.cpp splits the attention of a row among the threads where both types are f16, or f32 (`ggml_flash_attn_ext`)."""
_KV_TYPES = {"f32": 0, "f16": 1, "q4_0": 2, "q4_1": 3, "q5_0": 6, "q5_1": 7, "q8_0": 8, "bf16": 30}
_SPLIT_TYPES = ("f32", "f16")
_FLASH = {"auto": -1, "off": 0, "on": 1}


class OutOfTime(Exception):
    """A decode took longer than it was allowed to; the cache is as it was before."""


def kv_type_of(model: Model) -> str:
    """Return the types of keys and values, "K/V" where they differ, that are asked for, or are best here: `STEADY` on the CPU.

    Where a GPU computes, or prompts are to be read fast, it is f16, for which llama.cpp has the fastest attention.
    """
    spec = model.spec
    if spec.kv_type != "auto":
        return spec.kv_type
    elsewhere = bool(model.gpu_layers or spec.rpc or spec.fast_prefill) or spec.flash_attention == "off"
    return "f16" if elsewhere else STEADY


class _Cell:
    """A cell beyond those of the main sequence, and the one before it. So many sequences and cells have it as their last, or
    as the one before them."""

    __slots__ = ("before", "heirs")

    def __init__(self, before: _Cell | None) -> None:
        self.before, self.heirs = before, 1


class Cache:
    """Owns a `llama_context`. `ids` are those whose cells the main sequence holds, `sequences` those of the others.

    `splits`: with keys and values of this type a single row behind `SPLIT` cells depends on the number of threads.
    `threads` and `threads_batch` decode single rows and batches; `loaded` are both as the model was loaded, `adaptable` the
    same with 1 for what may not be changed: what a person set, and the threads of a row whose bits depend on them.

    `measured` is what was measured of the model as it is loaded; None until it is.

    `current` says whether the logits at hand are those after `ids`; they stay so while the spare sequence is used. The rows of
    a batch stay until there is another of the `decodes`.

    Raises:
        EngineError: the context cannot be made (memory, or an unknown KV type).
    """

    def __init__(self, model: Model, spec: ModelSpec, threads: int, threads_batch: int) -> None:
        self.model, self.kv_type = model, kv_type_of(model)
        if not self.kv_type or not _KV_TYPES.keys() >= set(self.kv_type.split("/", 1)):
            raise EngineError(
                "settings", f"unknown kv_type {spec.kv_type!r}", f"auto, {STEADY}, {', '.join(_KV_TYPES)}"
            )
        self.capacity = spec.context or min(model.context_trained or MOST_CONTEXT, MOST_CONTEXT)
        self.batch_size = spec.prefill_batch or (FAST_BATCH if spec.fast_prefill else EXACT_BATCH)
        self.exact = self.batch_size <= EXACT_BATCH and not spec.rpc
        self.threads, self.threads_batch = self.loaded = threads, threads_batch
        self.splits = self.kv_type in _SPLIT_TYPES
        self.may_choose_threads = not spec.threads or spec.proposed_threads
        free = self.may_choose_threads and not (self.splits and not model.gpu_layers)
        free_batch = spec.proposed_threads if spec.threads_batch else self.may_choose_threads
        self.adaptable = (threads if free else 1, threads_batch if free_batch else 1)
        params = LIB.llama_context_default_params()
        params.n_ctx = self.capacity + _SPARE_CELLS
        params.n_batch = params.n_ubatch = max(self.batch_size, 64)
        params.n_seq_max = _SEQUENCES
        params.kv_unified = True  # else the other sequences cannot share the main one's cells
        params.n_threads, params.n_threads_batch = threads, threads_batch
        params.flash_attn_type = _FLASH[spec.flash_attention]
        params.no_perf = True
        last_errors()
        self.pointer = self._new_context(params)
        if not self.pointer and spec.kv_type == "auto" and self.kv_type == STEADY:
            self.kv_type, self.splits = "f16", True  # an architecture whose keys and values must have one type
            self.pointer = self._new_context(params)
        if not self.pointer:
            why = last_errors() or "not enough memory?"
            raise EngineError(
                "memory", f"could not create a context of {self.capacity} tokens: {why}", "try a smaller --context"
            )
        self.memory: Any = LIB.llama_get_memory(self.pointer)
        self.ids: list[int] = []
        self.sequences: dict[int, list[int]] = {}
        self._ends: dict[int, _Cell | None] = {}
        self._used = 0
        self._made: list[tuple[int, Shape]] = []
        self._ahead: list[int] = []
        self._ahead_rows = 1
        self.measured = next((measured for measured in spec.measured if measured.how == self.how), None)
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
        self.decodes = 0
        self._fetched = False
        self._index = -1
        self._address = self._rows_address = 0
        self._rows: NDArray[np.float32] = np.empty((0, 0), np.float32)
        self._logits: NDArray[np.float32] = np.empty(0, np.float32)
        self._kept: NDArray[np.float32] | None = None

    def _new_context(self, params: Any) -> Any:
        keys, _, values = self.kv_type.partition("/")
        params.type_k, params.type_v = _KV_TYPES[keys], _KV_TYPES[values or keys]
        return LIB.llama_init_from_model(self.model.pointer, params)

    def close(self) -> None:
        if self.pointer:
            LIB.llama_batch_free(self._batch)
            LIB.llama_batch_free(self._one)
            LIB.llama_free(self.pointer)
            self.pointer = None

    @property
    def how(self) -> str:
        """How the model was loaded, as far as bits and times depend on it."""
        spec, (threads, threads_batch) = self.model.spec, self.loaded
        rows = f"{threads}/{threads_batch} threads, batches of {self.batch_size}, {self.kv_type}"
        return ", ".join(
            (rows, f"flash attention {spec.flash_attention}", f"{self.model.gpu_layers} layers offloaded", *spec.rpc)
        )

    @property
    def rows_alike(self) -> int:
        """The most rows of a batch each of which is known to have the bits of a row alone with one thread."""
        return self.measured.rows_alike if self.measured is not None else 1

    @property
    def rows_drafted_alike(self) -> int:
        """The most rows of a round of drafting each of which is known to have the bits of a row alone, with all threads."""
        return 1 if self.splits and self.loaded[0] > 1 else self.rows_alike

    @property
    def _rounds_alike(self) -> bool:
        """Whether rows of any round of drafting have the bits of a row alone with one thread."""
        return self.rows_alike > MOST_DRAFTED

    @property
    def largest_change(self) -> float | None:
        """`Measurement.largest_change`; None until it is measured."""
        return self.measured.largest_change if self.measured is not None else None

    def set_threads(self, threads: int) -> None:
        """Takes effect with the next decode; batches are decoded with no more threads if these are fewer than loaded."""
        self._use(threads, threads_of_batches(threads, *self.loaded))

    def limit_threads(self, most: int) -> None:
        """From the next decode on uses as many as were loaded, but no more than `most` of those that may be changed."""
        (threads, threads_batch), (free, free_batch) = self.loaded, self.adaptable
        self._use(
            min(threads, most) if free > 1 else threads, min(threads_batch, most) if free_batch > 1 else threads_batch
        )

    def _use(self, threads: int, threads_batch: int) -> None:
        if (threads, threads_batch) != (self.threads, self.threads_batch):
            self.threads, self.threads_batch = threads, threads_batch
            LIB.llama_set_n_threads(self.pointer, threads, threads_batch)

    def common(self, ids: list[int]) -> int:
        """How many cells `ids` can reuse: the longest common prefix, at most all but the last id."""
        return _common(self.ids, ids)

    def nearest(self, ids: list[int]) -> tuple[int, int]:
        """The sequence that has the most cells for `ids`, and how many of them, counted as in `common`."""
        best = MAIN, self.common(ids)
        for sequence, own in self.sequences.items():
            if (count := _common(own, ids)) > best[1]:
                best = sequence, count
        return best

    def rewind(self, count: int) -> int:
        """Keeps the first `count` cells, and drops all other sequences. Returns how many are left: none when the model cannot
        rewind."""
        self.drop_all()
        self.cut()
        if count < len(self.ids) or count == 0:
            self.current = False
            if not LIB.llama_memory_seq_rm(self.memory, MAIN, count, -1):
                LIB.llama_memory_seq_rm(self.memory, MAIN, -1, -1)
                count = 0
            del self.ids[count:], self._made[count:]
        return len(self.ids)

    def made_as(self, shapes: list[Shape], count: int, plan: Sequence[Shape] = ()) -> int:
        """How many of the first `count` cells were decoded in these shapes, starting at the first cell; those that are not
        there yet count as decoded by `plan`. Threads that count match any if they are unknown.

        Where a batch was cut, its first cells still belong to it; what follows them then counts as a batch of its own.
        """
        made = [*self._made, *self._cells(len(self.ids), plan)]
        at = 0
        for shape in shapes:
            bits, same = self._bits(at, shape), 0
            unknown = shape.threads == IN_ROUND and not self._rounds_alike
            for start, really in made[at : min(at + shape.rows, count)]:
                fits = not really.rows if unknown else really.rows >= shape.rows
                if start != at or not fits or bits not in (0, self._bits(at, really)):
                    break
                same += 1
            if same < shape.rows:
                return at + same
            at += shape.rows
        return min(at, count)

    def is_made_as(self, shapes: list[Shape], count: int, plan: Sequence[Shape]) -> bool:
        """Whether the first `count` cells are those that `shapes` made, bit for bit, once `plan` is decoded."""
        count = min(count, sum(shape.rows for shape in shapes))
        at = 0
        for shape in shapes:
            if at < count and not self._bits(at, shape):
                return False
            at += shape.rows
        return self.made_as(shapes, count, plan) == count

    def _cells(self, at: int, plan: Sequence[Shape]) -> Iterator[tuple[int, Shape]]:
        for shape in plan:
            really = shape if shape.threads else Shape(shape.rows, self.threads)
            yield from [(at, really)] * shape.rows
            at += shape.rows

    def _threads_count(self, at: int, shape: Shape) -> bool:
        """Whether the bits of a decode that begins at cell `at` depend on the number of threads."""
        return shape.rows == 1 and at >= SPLIT and self.splits

    def _bits(self, at: int, shape: Shape) -> int:
        """The number of threads that gives the same bits; 0 if that is unknown. Batches give those of one thread."""
        if shape.threads == IN_ROUND:
            return int(self._rounds_alike)
        return shape.threads if self._threads_count(at, shape) else 1

    def prepare(self, ids: list[int], shapes: list[Shape] | None = None, most_threads: int = 0) -> list[Shape]:
        """Rewinds to what `ids` can reuse, and returns the shapes in which the rest is to be decoded, with 0 threads where any
        number will do.

        `shapes`, from the first id on, are those in which cells were made, to rebuild them. They are ignored where one has more
        rows than this context's micro-batch, and their threads where these are more than `most_threads`.
        """
        kept = self.common(ids)
        if shapes and max(shape.rows for shape in shapes) <= self.batch_size:
            usable = [self._usable(shape, most_threads) for shape in shapes]
            plan = self._recorded(ids, self.made_as(usable, kept), usable)
        else:
            plan = self._planned(ids, kept)
        kept = len(ids) - sum(shape.rows for shape in plan)
        # A model that cannot rewind begins anew.
        return plan if self.rewind(kept) == kept else self._planned(ids, 0)

    def _usable(self, shape: Shape, most_threads: int) -> Shape:
        """The shape in which to decode cells again; one thread is never too many."""
        if shape.threads == IN_ROUND:
            return Shape(shape.rows, 1) if self._rounds_alike else shape
        return shape if 0 < shape.threads <= most_threads else Shape(shape.rows)

    def prefill(self, ids: list[int], plan: list[Shape]) -> Iterator[Shape]:
        """Decodes what `prepare` planned, yielding the shape of each decode; the logits are then the last id's.

        Raises:
            Aborted, ContextFull, EngineError: see `read`.
        """
        return (self.read(ids, shape) for shape in plan)

    def read(self, ids: list[int], shape: Shape, seconds: float = inf, ahead: Sequence[int] = ()) -> Shape:
        """Decodes the next ids after those that have cells; returns the shape with the threads that it had.

        With a single id go those `ahead`, which count in the shape and are drafted: `advance` makes them ids.

        Raises:
            OutOfTime: it took more than `seconds`.
            Aborted: the abort flag was set.
            ContextFull: there are more ids than cells.
            EngineError: llama.cpp failed.
        """
        at = len(self.ids)
        before = self.threads, self.threads_batch
        if shape.rows == 1 and shape.threads:
            self._use(shape.threads, self.threads_batch)
        made = Shape(shape.rows, self.threads if shape.rows == 1 else self.threads_batch)
        # Only here: whoever takes the next batch may use the context in between.
        self.abort.watch(self.pointer, seconds)
        try:
            if shape.rows == 1:
                self.decode(ids[at])
            elif ahead:
                self._decode_ahead([ids[at], *ahead], at)
            else:
                self._decode_rows(ids[at : at + shape.rows], at)
        finally:
            self.abort.leave(self.pointer)
            self._use(*before)
        return made

    def _planned(self, ids: list[int], kept: int) -> list[Shape]:
        body = len(ids) - 1 - kept
        sizes = [self.batch_size] * (body // self.batch_size)
        if body % self.batch_size:
            sizes.append(body % self.batch_size)
        return [*map(Shape, sizes), Shape(1)]

    def _recorded(self, ids: list[int], kept: int, shapes: list[Shape]) -> list[Shape]:
        """The recorded shapes that are not whole in the cache, then the rest as usual."""
        at = 0
        plan: list[Shape] = []
        for shape in shapes:
            after = at + shape.rows
            if after > len(ids) - (shape.rows > 1):  # the last id is decoded alone
                break
            if plan or after > min(kept, len(ids) - 1):
                plan.append(Shape(shape.rows, max(shape.threads, 0) if self._threads_count(at, shape) else 0))
            at = after
        return plan if at == len(ids) else [*plan, *self._planned(ids, at)]

    def decode(self, token: int) -> None:
        """Adds a token to the main sequence; its logits are then at hand.

        Raises:
            ContextFull, EngineError: see `read`.
        """
        if self._ahead:
            self.cut()
        at = len(self.ids)
        if at >= self.capacity:
            raise ContextFull
        one = self._one
        one.token[0] = token
        one.pos[0] = at
        self._run(one, {MAIN: at})
        self.ids.append(token)
        self._made.append((at, Shape(1, self.threads)))
        self.current = True

    def _decode_rows(self, ids: list[int], at: int) -> None:
        self.cut()
        if at + len(ids) > self.capacity:
            raise ContextFull
        self._fill(ids, at, MAIN)
        self._run(self._batch, {MAIN: at})
        self.ids.extend(ids)
        self._made += [(at, Shape(len(ids), self.threads_batch))] * len(ids)
        self.current = True

    def _decode_ahead(self, ids: list[int], at: int) -> None:
        self.cut()
        if at + len(ids) > self.capacity:
            raise ContextFull
        self._fill(ids, at, MAIN)
        self._wanted[: len(ids)] = 1
        self._run(self._batch, {MAIN: at})
        self._ahead_rows = len(ids)
        self._add_row(ids[0], 0)
        self._ahead = ids[1:]
        self.current = True

    def _add_row(self, token: int, index: int) -> None:
        """The row `index` of the last batch is the next one of the main sequence."""
        # A row of a batch has the bits of one thread; else it was made in no shape that can be rebuilt.
        self._made.append((len(self.ids), Shape(1, 1) if self._ahead_rows <= self.rows_alike else Shape(0)))
        self.ids.append(token)
        self._index, self._fetched = index, False

    def advance(self, token: int) -> bool:
        """Makes the first id that is ahead one of `ids`, if it is this one; the logits are then those after it."""
        if not self._ahead or self._ahead[0] != token:
            return False
        del self._ahead[0]
        self._add_row(token, self._index + 1)
        return True

    def cut(self) -> None:
        """Frees the cells of the ids ahead."""
        if self._ahead:
            self._ahead = []
            LIB.llama_memory_seq_rm(self.memory, MAIN, len(self.ids), -1)

    def _fill(self, ids: list[int], at: int, sequence: int) -> None:
        count = len(ids)
        self._tokens[:count] = ids
        self._positions[:count] = np.arange(at, at + count)
        self._wanted[:count] = 0
        self._wanted[count - 1] = 1
        self._batch.n_tokens = count
        for i in range(count):
            self._batch.seq_id[i][0] = sequence

    def _run(self, batch: Any, begins: Mapping[int, int]) -> None:
        """Decodes a `llama_batch` of sequences that begin at these positions in it."""
        if MAIN in begins:
            self._kept = None
        elif self.current and self._kept is None:
            self._kept = self._row().copy()
            self.cut()  # the rows of those ahead are written over
        self._fetched, self._index = False, -1
        self.decodes += 1
        code = LIB.llama_decode(self.pointer, batch)
        if code == 0:
            return
        for sequence, at in begins.items():
            removed = LIB.llama_memory_seq_rm(self.memory, sequence, at, -1)
            if sequence == MAIN:
                self.current = False
                if not removed:
                    LIB.llama_memory_seq_rm(
                        self.memory, MAIN, -1, -1
                    )  # a state that cannot be cut is of no use any more
                    self.ids.clear()
                del self._made[len(self.ids) :]
        if code == 2:
            raise Aborted if self.abort.is_set else OutOfTime
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
        pointer = LIB.llama_get_logits_ith(self.pointer, self._index)
        address = ctypes.cast(pointer, ctypes.c_void_p).value or 0
        if address != self._address:
            self._address = address
            self._logits = np.ctypeslib.as_array(pointer, (self.model.n_vocab,))
        self._fetched = True
        return self._logits

    # --- several sequences -------------------------------------------------------------------------------------------

    @property
    def free(self) -> int:
        """How many cells are left for rows of other sequences."""
        return self.capacity - len(self.ids) - self._used

    def begin(self, source: int = MAIN, count: int | None = None) -> int:
        """A new sequence, which shares the first `count` cells of another one, or all; returns its number.

        While there are such sequences, nothing may be decoded for the main one: to rewind drops them first.

        Raises:
            EngineError: there are too many sequences, or the model's cells cannot be shared.
        """
        if not self.model.can_rewind:
            raise EngineError(
                "capability",
                "this model cannot make several replies at once",
                "its state cannot be copied: ask for one",
            )
        number = next((i for i in range(SPARE + 1, _UNUSED) if i not in self.sequences), None)
        if number is None:
            raise EngineError("walks", f"there are {_UNUSED - SPARE - 1} sequences already, which is the most", "")
        self.cut()
        own = self.ids if source == MAIN else self.sequences[source]
        count = len(own) if count is None else count
        end = None if source == MAIN else self._ends[source]
        for _ in range(len(own) - count):
            end = end and end.before
        if end is not None:
            end.heirs += 1
        self.sequences[number], self._ends[number] = own[:count], end
        LIB.llama_memory_seq_cp(self.memory, source, number, 0, count)
        return number

    def drop(self, sequence: int, *, free: bool = True) -> None:
        """Ends a sequence and frees the cells that it shares with no other. What is decoded next fills them: the bits of all
        other sequences are then no longer those that they would have alone. If not to be `free`, they stay until all are
        dropped, and so do the bits."""
        own, end = 0, self._ends.pop(sequence)
        while end is not None:
            end.heirs -= 1
            if end.heirs:
                break
            end, own = end.before, own + 1
        ids = self.sequences.pop(sequence)
        if free:
            self._used -= own
        elif own:
            LIB.llama_memory_seq_cp(self.memory, sequence, _UNUSED, len(ids) - own, len(ids))
        LIB.llama_memory_seq_rm(self.memory, sequence, -1, -1)

    def drop_all(self) -> None:
        """Ends all sequences but the main one."""
        for sequence in list(self.sequences):
            self.drop(sequence)
        if self._used:
            LIB.llama_memory_seq_rm(self.memory, _UNUSED, -1, -1)
            self._used = 0

    def decode_rows(
        self, rows: Sequence[tuple[int, int]], threads: int = 1, seconds: float = inf, every: bool = True
    ) -> NDArray[np.float32]:
        """Adds tokens to several sequences, in one batch; `rows` are their numbers and the tokens, those of one in order.

        Returns the logits after each, or after the last only, shape (rows, n_vocab): a view, which the next decode writes over.
        A row alone is computed with one thread, several with `threads`, from now on; the bits are those of one, see above.

        Raises:
            Aborted, OutOfTime, ContextFull, EngineError: see `read`. Nothing was added then.
        """
        if len(rows) > self.free:
            raise ContextFull
        begins = {sequence: len(self.sequences[sequence]) for sequence, _ in rows}
        ends = dict(begins)
        count = self._batch.n_tokens = len(rows)
        self._tokens[:count] = [token for _, token in rows]
        self._wanted[:count] = every
        self._wanted[count - 1] = 1
        for i, (sequence, _) in enumerate(rows):
            self._batch.seq_id[i][0] = sequence
            self._positions[i] = ends[sequence]
            ends[sequence] += 1
        self._use(1, threads)
        self.abort.watch(self.pointer, seconds)
        try:
            self._run(self._batch, begins)
            found = LIB.llama_get_logits(self.pointer)  # waits for a device that computes on its own
        finally:
            self.abort.leave(self.pointer)
        for sequence, token in rows:
            self.sequences[sequence].append(token)
            self._ends[sequence] = _Cell(self._ends[sequence])
        self._used += count
        address = ctypes.cast(found, ctypes.c_void_p).value or 0
        if address != self._rows_address:
            self._rows_address = address
            self._rows = np.ctypeslib.as_array(found, (_SEQUENCES, self.model.n_vocab))
        return self._rows[: count if every else 1]

    def retract(self, sequence: int, count: int) -> None:
        """Takes the last tokens of a sequence, which it shares with no other, back until it has `count`. Their cells stay until
        all sequences are dropped, so that the bits of the others do, too."""
        ids = self.sequences[sequence]
        if len(ids) > count:
            LIB.llama_memory_seq_cp(self.memory, sequence, _UNUSED, count, len(ids))
            LIB.llama_memory_seq_rm(self.memory, sequence, count, -1)
        while len(ids) > count:
            ids.pop()
            end = self._ends[sequence]
            assert end is not None
            assert end.heirs == 1
            self._ends[sequence] = end.before

    def keep(self, sequence: int, *, alone: bool = True) -> None:
        """Makes a sequence the main one and drops all others. Its cells are saved and restored, so that they stand in a row
        from the first one on, as if it had been alone; nothing is decoded. If not as they are `alone`, since cells of others
        were freed meanwhile or too many rows were one batch, its rows count as made in an unknown way.

        Raises:
            EngineError: llama.cpp could not restore it; nothing is left then.
        """
        ids, end, own = self.sequences[sequence], self._ends[sequence], 0
        while end is not None:
            end, own = end.before, own + 1
        shared = len(ids) - own
        row = Shape(1, 1) if alone else Shape(0)
        made = [*self._made[:shared], *((at, row) for at in range(shared, len(ids)))]
        state = np.empty(LIB.llama_state_seq_get_size(self.pointer, sequence), np.uint8)
        data = state.ctypes.data_as(ctypes.POINTER(ctypes.c_uint8))
        saved = LIB.llama_state_seq_get_data(self.pointer, data, len(state), sequence)
        self.rewind(0)
        if not saved or not LIB.llama_state_seq_set_data(self.pointer, data, saved, MAIN):
            LIB.llama_memory_seq_rm(self.memory, MAIN, -1, -1)
            raise EngineError("walks", f"llama.cpp could not move the reply: {last_errors()}", "it is decoded again")
        self.ids, self._made = ids, made

    # --- the spare sequence ------------------------------------------------------------------------------------------

    def probe(self, seconds: float = inf) -> None:
        """Decodes a row for nobody, as long as a token takes.

        Raises:
            OutOfTime, EngineError: see `read`.
        """
        self.abort.watch(self.pointer, seconds)
        try:
            self.peek([0])
        finally:
            self.abort.leave(self.pointer)

    def peek(self, ids: list[int]) -> NDArray[np.float32]:
        """A copy of the logits after `ids`, shape (n_vocab,), computed on the spare sequence; the main one is untouched.

        Raises:
            ContextFull: the spare sequence does not fit.
            EngineError: llama.cpp failed.
        """
        if not self.model.can_rewind:
            raise EngineError("capability", "past positions cannot be inspected with this model", "")
        source, kept = self.nearest(ids)
        LIB.llama_memory_seq_cp(self.memory, source, SPARE, 0, kept)
        try:
            at = kept
            for rows, _ in self._planned(ids, kept):
                self._fill(ids[at : at + rows], at, SPARE)
                self._run(self._batch, {SPARE: at})
                at += rows
            return self._row().copy()
        finally:
            LIB.llama_memory_seq_rm(self.memory, SPARE, -1, -1)

    def room_aside(self) -> int:
        """How many cells `read_aside` may use."""
        return self.free + _SPARE_CELLS

    def read_aside(self, ids: list[int], at: int, threads: int) -> NDArray[np.float32]:
        """Decode `ids` in one batch on the spare sequence, in place of what that has from position `at` on; return the logits
        after each, shape (n, n_vocab): a view, which the next decode writes over. `clear_aside` frees the cells.

        Raises:
            Aborted, ContextFull, EngineError: as `peek`, or the abort flag was set.
        """
        LIB.llama_memory_seq_rm(self.memory, SPARE, at, -1)
        self._fill(ids, at, SPARE)
        self._wanted[: len(ids)] = 1
        before = self.threads, self.threads_batch
        self._use(threads, threads)
        self.abort.watch(self.pointer)
        try:
            self._run(self._batch, {SPARE: at})
            rows = LIB.llama_get_logits(self.pointer)  # waits for a device that computes on its own
        finally:
            self.abort.leave(self.pointer)
            self._use(*before)
        return np.ctypeslib.as_array(rows, (len(ids), self.model.n_vocab))

    def clear_aside(self) -> None:
        """Free the cells of the spare sequence."""
        LIB.llama_memory_seq_rm(self.memory, SPARE, -1, -1)

    def rows_after(self, ids: list[int], row: int) -> Generator[NDArray[np.float32], None, None]:
        """The logits after `ids[row]` and each later id but the last, a batch at a time, on the spare sequence: views of shape
        (n, n_vocab). The main one's logits stay at hand.

        Raises:
            Aborted, ContextFull, EngineError: as `peek`, or the abort flag was set.
        """
        if not self.model.can_rewind:
            raise EngineError("capability", "past positions cannot be inspected with this model", "")
        end, (source, shared) = len(ids) - 1, self.nearest(ids)
        at = min(shared, row)
        batch = _Batch(min(self.batch_size, EXACT_BATCH))
        LIB.llama_memory_seq_cp(self.memory, source, SPARE, 0, at)
        try:
            while at < end:
                until = min(at + batch.size, end if at >= row else row)
                batch.fill(ids[at:until], at, every=at >= row)
                self.abort.watch(self.pointer)
                try:
                    self._run(batch.pointer, {SPARE: at})
                    if at >= row:
                        rows = LIB.llama_get_logits(self.pointer)
                finally:
                    self.abort.leave(self.pointer)
                if at >= row:
                    yield np.ctypeslib.as_array(rows, (until - at, self.model.n_vocab))
                if until <= shared:  # that sequence's own cells take the place of these
                    LIB.llama_memory_seq_rm(self.memory, SPARE, at, -1)
                    LIB.llama_memory_seq_cp(self.memory, source, SPARE, at, until)
                at = until
        finally:
            LIB.llama_memory_seq_rm(self.memory, SPARE, -1, -1)
            batch.close()


class _Batch:
    """A `llama_batch` of up to `size` tokens of the spare sequence."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.pointer: Any = LIB.llama_batch_init(size, 0, 1)
        self._tokens = np.ctypeslib.as_array(self.pointer.token, (size,))
        self._positions = np.ctypeslib.as_array(self.pointer.pos, (size,))
        self._wanted = np.ctypeslib.as_array(self.pointer.logits, (size,))
        for i in range(size):
            self.pointer.n_seq_id[i] = 1
            self.pointer.seq_id[i][0] = SPARE

    def fill(self, ids: list[int], at: int, *, every: bool) -> None:
        """These ids from position `at` on, with the logits of every one or of the last."""
        count = self.pointer.n_tokens = len(ids)
        self._tokens[:count] = ids
        self._positions[:count] = np.arange(at, at + count)
        self._wanted[:count] = every
        self._wanted[count - 1] = 1

    def close(self) -> None:
        LIB.llama_batch_free(self.pointer)


def _common(own: list[int], ids: list[int]) -> int:
    limit = min(len(own), len(ids) - 1)
    if own[:limit] == ids[:limit]:
        return limit
    return next(i for i in range(limit) if own[i] != ids[i])
