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
else sees them: `advance_ahead` makes the next of them an id, and whatever else is decoded cuts them off first.
"""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import closing
from itertools import count
from math import inf
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from termchat.decoding.drafting import MOST_DRAFTED
from termchat.decoding.records import IN_ROUND, Shape
from termchat.engine.llama.cells import Aborted as Aborted
from termchat.engine.llama.cells import ContextFull as ContextFull
from termchat.engine.llama.model import Model
from termchat.engine.llama.native import LIB, AbortFlag, last_errors
from termchat.engine.llama.thread_tuner import default_threads
from termchat.engine.port import MOST_CONTEXT, EngineError, threads_of_batches

EXACT_BATCH = 63
FAST_BATCH = 512
SPLIT = 256
MAIN, SPARE = 0, 1
SPARE_CELLS = 64
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

    def __init__(self, model: Model) -> None:
        self.model, spec = model, model.spec
        self.kv_type = spec.kv_type
        if (
            self.kv_type == "auto"
        ):  # for f16 llama.cpp has the fastest attention where a GPU computes or prompts are read fast
            fast = model.gpu_layers or spec.rpc or spec.fast_prefill or spec.flash_attention == "off"
            self.kv_type = "f16" if fast else STEADY
        if not self.kv_type or not _KV_TYPES.keys() >= set(self.kv_type.split("/", 1)):
            raise EngineError(
                "settings", f"unknown kv_type {spec.kv_type!r}", f"auto, {STEADY}, {', '.join(_KV_TYPES)}"
            )
        threads = spec.threads or default_threads()
        self.threads, self.threads_batch = self.loaded = threads, spec.threads_batch or threads
        self.capacity = spec.context or min(model.context_trained or MOST_CONTEXT, MOST_CONTEXT)
        self.batch_size = spec.prefill_batch or (FAST_BATCH if spec.fast_prefill else EXACT_BATCH)
        self.exact = self.batch_size <= EXACT_BATCH and not spec.rpc
        params = LIB.llama_context_default_params()
        params.n_ctx = self.capacity + SPARE_CELLS
        params.n_batch = params.n_ubatch = size = max(self.batch_size, 64)
        params.n_seq_max = _SEQUENCES
        params.kv_unified = True  # else the other sequences cannot share the main one's cells
        params.n_threads, params.n_threads_batch = self.loaded
        params.flash_attn_type = _FLASH[spec.flash_attention]
        params.no_perf = True
        last_errors()
        self.pointer = self._create_context(params)
        if not self.pointer and spec.kv_type == "auto" and self.kv_type == STEADY:
            self.kv_type = "f16"  # an architecture whose keys and values must have one type
            self.pointer = self._create_context(params)
        if not self.pointer:
            why = last_errors() or "not enough memory?"
            raise EngineError(
                "memory", f"could not create a context of {self.capacity} tokens: {why}", "try a smaller --context"
            )
        self.splits = self.kv_type in _SPLIT_TYPES
        self.may_choose_threads = not spec.threads or spec.proposed_threads
        free = self.may_choose_threads and not (self.splits and not model.gpu_layers)
        free_batch = spec.proposed_threads if spec.threads_batch else self.may_choose_threads
        self.adaptable = (self.loaded[0] if free else 1, self.loaded[1] if free_batch else 1)
        self.memory: Any = LIB.llama_get_memory(self.pointer)
        self.ids: list[int] = []
        self._made: list[tuple[int, Shape]] = []
        self._ahead: list[int] = []
        self._ahead_rows = 1
        self.sequences: dict[int, list[int]] = {}
        self._cells: dict[int, list[int]] = {}
        """The cells of each sequence that the main one lacks, by number; so many sequences have each of them (`_heirs`)."""
        self._heirs: Counter[int] = Counter()
        self._newest_cell = self._used = 0
        self.measured = next((measured for measured in spec.measured if measured.how == self.how), None)
        self.abort = AbortFlag()
        # The batch points into these arrays.
        self._tokens, self._positions, self._owners, self._counts = (np.ones(size, np.int32) for _ in range(4))
        self._pointers = self._owners.ctypes.data + 4 * np.arange(size, dtype=np.uintp)
        self._wanted = np.zeros(size, np.int8)
        ints = ctypes.POINTER(ctypes.c_int32)
        self._batch = LIB.llama_batch(
            0,
            self._tokens.ctypes.data_as(ints),
            None,
            self._positions.ctypes.data_as(ints),
            self._counts.ctypes.data_as(ints),
            self._pointers.ctypes.data_as(ctypes.POINTER(ints)),
            self._wanted.ctypes.data_as(ctypes.POINTER(ctypes.c_int8)),
        )
        self.current = False
        self.decodes = 0
        self._rows: NDArray[np.float32] = np.empty((0, 0), np.float32)
        self._index = -1
        self._kept: NDArray[np.float32] | None = None

    def _create_context(self, params: Any) -> Any:
        keys, _, values = self.kv_type.partition("/")
        params.type_k, params.type_v = _KV_TYPES[keys], _KV_TYPES[values or keys]
        return LIB.llama_init_from_model(self.model.pointer, params)

    def close(self) -> None:
        if self.pointer:
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
        """Compute with so many threads from the next decode on, and batches with no more if these are fewer than loaded."""
        self._use_threads(threads, threads_of_batches(threads, *self.loaded))

    def limit_threads(self, most: int) -> None:
        """Use from the next decode on at most `most` threads, where the number may be changed."""
        (threads, threads_batch), (free, free_batch) = self.loaded, self.adaptable
        self._use_threads(
            min(threads, most) if free > 1 else threads, min(threads_batch, most) if free_batch > 1 else threads_batch
        )

    def _use_threads(self, threads: int, threads_batch: int) -> None:
        if (threads, threads_batch) != (self.threads, self.threads_batch):
            self.threads, self.threads_batch = threads, threads_batch
            LIB.llama_set_n_threads(self.pointer, threads, threads_batch)

    def count_common(self, ids: list[int]) -> int:
        """Return how many cells `ids` can reuse: the longest common prefix, at most all but the last id."""
        return count_common(self.ids, ids)

    def find_nearest(self, ids: list[int]) -> tuple[int, int]:
        """Return the sequence that has the most cells for `ids`, and how many of them, counted as in `count_common`."""
        counts = {MAIN: self.count_common(ids)} | {
            number: count_common(own, ids) for number, own in self.sequences.items()
        }
        return max(counts.items(), key=itemgetter(1))

    def rewind_to(self, count: int) -> int:
        """Keep the first `count` cells, and drop all other sequences. Return how many are left: none when the model cannot
        rewind."""
        for sequence in list(self.sequences):
            self.drop_sequence(sequence)
        self._heirs.clear()
        if self._used:
            LIB.llama_memory_seq_rm(self.memory, _UNUSED, -1, -1)
            self._used = 0
        self.cut_ahead()
        if count < len(self.ids) or count == 0:
            self.current = False
            if not LIB.llama_memory_seq_rm(self.memory, MAIN, count, -1):
                LIB.llama_memory_seq_rm(self.memory, MAIN, -1, -1)
                count = 0
            del self.ids[count:], self._made[count:]
        return len(self.ids)

    def made_as(self, shapes: list[Shape], count: int, plan: Sequence[Shape] = (), *, surely: bool = False) -> int:
        """Return how many of the first `count` cells were decoded in these shapes, starting at the first cell; missing ones
        count as decoded by `plan`. Threads that count match any if they are unknown, unless the bits are to be `surely` alike.

        Where a batch was cut, its first cells still belong to it; what follows them then counts as a batch of its own.
        """
        made = list(self._made)
        for shape in plan:
            really = shape if shape.threads else Shape(shape.rows, self.threads)
            made += [(len(made), really)] * shape.rows
        at = 0
        for shape in shapes:
            bits, same = self._threads_of_bits(at, shape), 0
            unknown = shape.threads == IN_ROUND and not self._rounds_alike
            if surely and at < count and not bits:
                return at
            for start, really in made[at : min(at + shape.rows, count)]:
                fits = not really.rows if unknown else really.rows >= shape.rows
                if start != at or not fits or bits not in (0, self._threads_of_bits(at, really)):
                    break
                same += 1
            if same < shape.rows:
                return at + same
            at += shape.rows
        return min(at, count)

    def _threads_count(self, at: int, shape: Shape) -> bool:
        """Return whether the bits of a decode that begins at cell `at` depend on the number of threads."""
        return shape.rows == 1 and at >= SPLIT and self.splits

    def _threads_of_bits(self, at: int, shape: Shape) -> int:
        """Return the number of threads that gives the same bits; 0 if that is unknown. Batches give those of one thread."""
        if shape.threads == IN_ROUND:
            return int(self._rounds_alike)
        return shape.threads if self._threads_count(at, shape) else 1

    def prepare_prompt(self, ids: list[int], shapes: list[Shape] | None = None, most_threads: int = 0) -> list[Shape]:
        """Rewind to what `ids` can reuse, and return the shapes in which the rest is to be decoded, with 0 threads where any
        number will do.

        `shapes`, from the first id on, are those in which cells were made, to rebuild them. They are ignored where one has more
        rows than this context's micro-batch, and their threads where these are more than `most_threads`.
        """
        kept = self.count_common(ids)
        if shapes and max(shape.rows for shape in shapes) <= self.batch_size:
            usable = [self._adapt_shape(shape, most_threads) for shape in shapes]
            plan = self._plan_recorded(ids, self.made_as(usable, kept), usable)
        else:
            plan = self._plan_usual(ids, kept)
        kept = len(ids) - sum(shape.rows for shape in plan)
        # A model that cannot rewind begins anew.
        return plan if self.rewind_to(kept) == kept else self._plan_usual(ids, 0)

    def _adapt_shape(self, shape: Shape, most_threads: int) -> Shape:
        """Return the shape in which to decode cells again; one thread is never too many."""
        if shape.threads == IN_ROUND:
            return Shape(shape.rows, 1) if self._rounds_alike else shape
        return shape if 0 < shape.threads <= most_threads else Shape(shape.rows)

    def read(self, ids: list[int], shape: Shape, seconds: float = inf, ahead: Sequence[int] = ()) -> Shape:
        """Decode the next ids without cells; return the shape with the threads used.

        With a single id go those `ahead`, which count in the shape and are drafted: `advance_ahead` makes them ids.

        Raises:
            OutOfTime: it took more than `seconds`.
            Aborted: the abort flag was set.
            ContextFull: there are more ids than cells.
            EngineError: llama.cpp failed.
        """
        at, rows = len(self.ids), shape.rows
        if at + rows > self.capacity:
            raise ContextFull
        before = self.threads, self.threads_batch
        if rows == 1 and shape.threads:
            self._use_threads(shape.threads, self.threads_batch)
        shape = Shape(rows, self.threads if rows == 1 else self.threads_batch)
        try:
            tokens = [*ids[at : at + rows - len(ahead)], *ahead]
            self._decode([MAIN] * rows, tokens, range(at, at + rows), seconds, every=bool(ahead))
        finally:
            self._use_threads(*before)
        self.current = True
        if ahead:
            self._ahead_rows, self._ahead = rows, tokens
            self.advance_ahead(tokens[0])
        else:
            self.ids += tokens
            self._made += [(at, shape)] * rows
        return shape

    def _plan_usual(self, ids: list[int], kept: int) -> list[Shape]:
        body = len(ids) - 1 - kept
        sizes = [self.batch_size] * (body // self.batch_size)
        if body % self.batch_size:
            sizes.append(body % self.batch_size)
        return [*map(Shape, sizes), Shape(1)]

    def _plan_recorded(self, ids: list[int], kept: int, shapes: list[Shape]) -> list[Shape]:
        """Return the recorded shapes that are not whole in the cache, then the rest as usual."""
        at = 0
        plan: list[Shape] = []
        for shape in shapes:
            after = at + shape.rows
            if after > len(ids) - (shape.rows > 1):  # the last id is decoded alone
                break
            if plan or after > min(kept, len(ids) - 1):
                plan.append(Shape(shape.rows, max(shape.threads, 0) if self._threads_count(at, shape) else 0))
            at = after
        return plan if at == len(ids) else [*plan, *self._plan_usual(ids, at)]

    def advance_ahead(self, token: int) -> bool:
        """Make the first id that is ahead one of `ids`, if it is this one; the logits are then those after it."""
        if not self._ahead or self._ahead[0] != token:
            return False
        self._index = self._ahead_rows - len(self._ahead)
        del self._ahead[0]
        # A row of a batch has the bits of one thread; else it was made in no shape that can be rebuilt.
        self._made.append((len(self.ids), Shape(1, 1) if self._ahead_rows <= self.rows_alike else Shape(0)))
        self.ids.append(token)
        return True

    def cut_ahead(self) -> None:
        """Free the cells of the ids ahead."""
        if self._ahead:
            self._ahead = []
            LIB.llama_memory_seq_rm(self.memory, MAIN, len(self.ids), -1)

    def _decode(
        self,
        owners: Sequence[int],
        tokens: Sequence[int],
        positions: Sequence[int],
        seconds: float | None,
        *,
        every: bool,
    ) -> NDArray[np.float32]:
        """Decode one batch of tokens of these sequences; return the logits after `every` one or after the last, shape
        (n, n_vocab): a view, which the next decode writes over. `seconds` None: the abort flag is not looked at.

        Raises:
            OutOfTime, Aborted, ContextFull, EngineError: see `read`. Nothing was added then.
        """
        if owners[0] == MAIN:
            self._kept = None
        elif self.current and self._kept is None:
            self._kept = self._rows[self._index].copy()
        self.cut_ahead()  # the rows of those ahead are written over
        count = self._batch.n_tokens = len(tokens)
        self._owners[:count], self._tokens[:count], self._positions[:count] = owners, tokens, positions
        self._wanted[:count] = every
        self._wanted[count - 1] = 1
        self._index = -1
        self.decodes += 1
        if seconds is not None:  # only here: whoever takes the next batch may use the context in between
            self.abort.watch_context(self.pointer, seconds)
        try:
            if (code := LIB.llama_decode(self.pointer, self._batch)) == 0:
                rows = LIB.llama_get_logits(self.pointer)  # waits for a device that computes on its own
                self._rows = np.ctypeslib.as_array(rows, (count if every else 1, self.model.n_vocab))
                return self._rows
        finally:
            if seconds is not None:
                self.abort.leave_context(self.pointer)
        for sequence, at in dict(zip(reversed(owners), reversed(positions), strict=True)).items():
            removed = LIB.llama_memory_seq_rm(self.memory, sequence, at, -1)
            if sequence == MAIN:
                self.current = False
                if not removed:  # a state that cannot be cut is of no use any more
                    LIB.llama_memory_seq_rm(self.memory, MAIN, -1, -1)
                    self.ids.clear()
                del self._made[len(self.ids) :]
        if code == 2:
            raise Aborted if self.abort.is_set else OutOfTime
        if code == 1:
            raise ContextFull
        raise EngineError("decode", f"llama.cpp could not decode (code {code}): {last_errors()}", "")

    def read_logits(self) -> NDArray[np.float32]:
        """Return the logits after `ids`, shape (n_vocab,): a view, which the next decode of the main sequence writes over."""
        return self._rows[self._index] if self._kept is None else self._kept

    # --- several sequences -------------------------------------------------------------------------------------------

    @property
    def free(self) -> int:
        """The number of cells left for rows of other sequences."""
        return self.capacity - len(self.ids) - self._used

    def begin_sequence(self, source: int = MAIN, count: int | None = None) -> int:
        """Begin a new sequence, which shares the first `count` cells of another one, or all; return its number.

        While there are such sequences, nothing may be decoded for the main one: to rewind drops them first.

        Raises:
            EngineError: there are too many sequences.
        """
        number = next((i for i in range(SPARE + 1, _UNUSED) if i not in self.sequences), None)
        if number is None:
            raise EngineError("walks", f"there are {_UNUSED - SPARE - 1} sequences already, which is the most", "")
        self.cut_ahead()
        ids, cells = (self.ids, []) if source == MAIN else (self.sequences[source], self._cells[source])
        count = len(ids) if count is None else count
        self.sequences[number] = ids[:count]
        self._cells[number] = shared = cells[: max(len(cells) + count - len(ids), 0)]
        self._heirs.update(shared)
        LIB.llama_memory_seq_cp(self.memory, source, number, 0, count)
        return number

    def drop_sequence(self, sequence: int, *, free: bool = True) -> None:
        """End a sequence and free the cells that only it has. Later decodes fill these, which changes the bits of all other
        sequences from then on. With `free` False they stay until all sequences are dropped, and so do the bits.
        """
        ids, cells = self.sequences.pop(sequence), self._cells.pop(sequence)
        self._heirs.subtract(cells)
        own = sum(not self._heirs[cell] for cell in cells)
        if free:
            self._used -= own
        elif own:
            LIB.llama_memory_seq_cp(self.memory, sequence, _UNUSED, len(ids) - own, len(ids))
        LIB.llama_memory_seq_rm(self.memory, sequence, -1, -1)

    def decode_rows(
        self, rows: Sequence[tuple[int, int]], threads: int = 1, seconds: float = inf, every: bool = True
    ) -> NDArray[np.float32]:
        """Add tokens to several sequences, in one batch; `rows` are their numbers and the tokens, those of one in order.

        Returns the logits after each, or after the last only, shape (rows, n_vocab): a view, which the next decode writes over.
        A row alone is computed with one thread, several with `threads`, from now on; the bits are those of one, see above.

        Raises:
            Aborted, OutOfTime, ContextFull, EngineError: see `read`. Nothing was added then.
        """
        if len(rows) > self.free:
            raise ContextFull
        owners, tokens = zip(*rows, strict=True)
        positions = {sequence: count(len(self.sequences[sequence])) for sequence in owners}
        self._use_threads(1, threads)
        logits = self._decode(owners, tokens, [next(positions[sequence]) for sequence in owners], seconds, every=every)
        for number, (sequence, token) in enumerate(rows, self._newest_cell + 1):
            self.sequences[sequence].append(token)
            self._cells[sequence].append(number)
            self._heirs[number] = 1
        self._newest_cell, self._used = number, self._used + len(rows)
        return logits

    def retract_tokens(self, sequence: int, count: int) -> None:
        """Take the last tokens of a sequence, which it shares with no other, back until it has `count`. Their cells stay until
        all sequences are dropped, so that the bits of the others do, too."""
        ids = self.sequences[sequence]
        if surplus := max(len(ids) - count, 0):
            LIB.llama_memory_seq_cp(self.memory, sequence, _UNUSED, count, len(ids))
            LIB.llama_memory_seq_rm(self.memory, sequence, count, -1)
            del ids[count:], self._cells[sequence][-surplus:]

    def keep_sequence(self, sequence: int, *, alone: bool = True) -> None:
        """Make a sequence the main one and drop all others. Its cells are saved and restored, so that they are contiguous
        from the first one on, as if it had been alone; nothing is decoded. With `alone` False, after cells of others were
        freed or a batch had too many rows, the shapes of its rows count as unknown.

        Raises:
            EngineError: llama.cpp could not restore it; nothing is left then.
        """
        ids = self.sequences[sequence]
        shared = len(ids) - len(self._cells[sequence])
        row = Shape(1, 1) if alone else Shape(0)
        made = [*self._made[:shared], *((at, row) for at in range(shared, len(ids)))]
        state = np.empty(LIB.llama_state_seq_get_size(self.pointer, sequence), np.uint8)
        data = state.ctypes.data_as(ctypes.POINTER(ctypes.c_uint8))
        saved = LIB.llama_state_seq_get_data(self.pointer, data, len(state), sequence)
        self.rewind_to(0)
        if not saved or not LIB.llama_state_seq_set_data(self.pointer, data, saved, MAIN):
            LIB.llama_memory_seq_rm(self.memory, MAIN, -1, -1)
            raise EngineError("walks", f"llama.cpp could not move the reply: {last_errors()}", "it is decoded again")
        self.ids, self._made = ids, made

    # --- the spare sequence ------------------------------------------------------------------------------------------

    def peek_logits(self, ids: list[int], seconds: float | None = None) -> NDArray[np.float32]:
        """Return a copy of the logits after `ids`, shape (n_vocab,), computed on the spare sequence; the main one is untouched.

        Raises:
            ContextFull: the spare sequence does not fit.
            OutOfTime, Aborted: with `seconds`, see `read`.
            EngineError: llama.cpp failed.
        """
        with closing(self.rows_after([*ids, 0], len(ids) - 1, seconds)) as batches:
            row: NDArray[np.float32] = next(batches)[0].copy()
        return row

    def rows_after(
        self, ids: list[int], row: int, seconds: float | None = inf
    ) -> Generator[NDArray[np.float32], None, None]:
        """Yield the logits after `ids[row]` and each later id but the last, a batch at a time, on the spare sequence: views of
        shape (n, n_vocab). The main one's logits stay at hand.

        Raises:
            Aborted, ContextFull, EngineError: as `peek_logits`, or the abort flag was set.
        """
        if not self.model.can_rewind:
            raise EngineError("capability", "past positions cannot be inspected with this model", "")
        end, (source, shared) = len(ids) - 1, self.find_nearest(ids)
        at = min(shared, row)
        LIB.llama_memory_seq_cp(self.memory, source, SPARE, 0, at)
        try:
            while at < end:
                wanted = at >= row
                until = min(at + min(self.batch_size, EXACT_BATCH), end) if wanted else min(at + self.batch_size, row)
                rows = self._decode([SPARE] * (until - at), ids[at:until], range(at, until), seconds, every=wanted)
                if wanted:
                    yield rows
                if until <= shared:  # that sequence's own cells take the place of these
                    LIB.llama_memory_seq_rm(self.memory, SPARE, at, -1)
                    LIB.llama_memory_seq_cp(self.memory, source, SPARE, at, until)
                at = until
        finally:
            self.clear_aside()

    def read_aside(self, ids: list[int], at: int, threads: int) -> NDArray[np.float32]:
        """Decode `ids` in one batch on the spare sequence, in place of what that has from position `at` on; return the logits
        after each, shape (n, n_vocab): a view, which the next decode writes over. `clear_aside` frees the cells.

        Raises:
            Aborted, ContextFull, EngineError: as `peek_logits`, or the abort flag was set.
        """
        LIB.llama_memory_seq_rm(self.memory, SPARE, at, -1)
        before = self.threads, self.threads_batch
        self._use_threads(threads, threads)
        try:
            return self._decode([SPARE] * len(ids), ids, range(at, at + len(ids)), inf, every=True)
        finally:
            self._use_threads(*before)

    def clear_aside(self) -> None:
        """Free the cells of the spare sequence."""
        LIB.llama_memory_seq_rm(self.memory, SPARE, -1, -1)


def count_common(own: Sequence[int], ids: Sequence[int]) -> int:
    """Return how many of the first ids are the same, at most all but the last of `ids`."""
    limit = min(len(own), len(ids) - 1)
    if own[:limit] == ids[:limit]:
        return limit
    return next((i for i in range(limit) if own[i] != ids[i]), limit)
