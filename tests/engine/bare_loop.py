"""The plainest loop over llama.cpp, to compare ours with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing

import numpy as np

from termchat.engine.llama.model_session import ModelSession
from termchat.engine.llama.native import LIB
from termchat.engine.llama.softmax import Row

_TYPES = {"f16": 1, "bf16": 30}
_ROWS = 64
_SEQUENCES = 18


class BareContext:
    """A context of llama.cpp's over the model of a session, with as many cells, and with keys and values of its types."""

    def __init__(self, session: ModelSession) -> None:
        cache = session.cache
        params = LIB.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch = cache.capacity, _ROWS, _ROWS
        params.n_seq_max, params.kv_unified, params.no_perf = _SEQUENCES, True, True
        params.n_threads = params.n_threads_batch = 1
        keys, _, values = cache.kv_type.partition("/")
        params.type_k, params.type_v = _TYPES[keys], _TYPES[values or keys]
        self._vocabulary = session.model.n_vocab
        self._context = LIB.llama_init_from_model(session.model.pointer, params)
        self._memory = LIB.llama_get_memory(self._context)
        self._batch = LIB.llama_batch_init(_ROWS, 0, 1)

    def close(self) -> None:
        LIB.llama_batch_free(self._batch)
        LIB.llama_free(self._context)

    def decode(self, rows: Sequence[tuple[int, int, int]]) -> list[Row]:
        """Decode a batch of sequence, position and token; return the logits after each."""
        batch = self._batch
        batch.n_tokens = len(rows)
        for at, (sequence, position, token) in enumerate(rows):
            batch.token[at], batch.pos[at], batch.logits[at] = token, position, 1
            batch.n_seq_id[at], batch.seq_id[at][0] = 1, sequence
        assert LIB.llama_decode(self._context, batch) == 0
        shape = len(rows), self._vocabulary
        return list(np.ctypeslib.as_array(LIB.llama_get_logits(self._context), shape).copy())

    def forget(self) -> None:
        """Clear all cells."""
        LIB.llama_memory_clear(self._memory, True)

    def decode_with(self, threads: int, position: int, token: int) -> Row:
        """Return the logits after a token of the first sequence, decoded by so many threads, and forget it."""
        LIB.llama_set_n_threads(self._context, threads, threads)
        (row,) = self.decode([(0, position, token)])
        LIB.llama_set_n_threads(self._context, 1, 1)
        LIB.llama_memory_seq_rm(self._memory, 0, position, -1)
        return row

    def read(self, ids: Sequence[int], shapes: Sequence[int]) -> Iterator[Row]:
        """Decode ids from the first cell on in batches of so many; yield the logits after each batch."""
        self.forget()
        at = 0
        for rows in shapes:
            yield self.decode([(0, at + i, token) for i, token in enumerate(ids[at : at + rows])])[-1]
            at += rows

    def count_equal_rows(self, ids: Sequence[int], most: int) -> int:
        """Return up to how many rows of a batch, each of a sequence of its own behind `ids`, have the bits of each alone."""
        *_, _ = self.read(ids, [_ROWS] * (len(ids) // _ROWS) + [len(ids) % _ROWS])
        tokens = np.random.default_rng(5).integers(300, self._vocabulary, most).tolist()
        rows = [(sequence, len(ids), token) for sequence, token in enumerate(tokens, 1)]
        alone = [self._decode_once([row])[0] for row in rows]
        for count in range(2, most + 1):
            for begin in range(0, most - count + 1, count):
                together = self._decode_once(rows[begin : begin + count])
                if not np.array_equal(together, alone[begin : begin + count]):
                    return count - 1
        return most

    def _decode_once(self, rows: Sequence[tuple[int, int, int]]) -> list[Row]:
        """Decode rows of sequences that share the cells of the first one, and forget them."""
        for sequence, position, _ in rows:
            LIB.llama_memory_seq_cp(self._memory, 0, sequence, 0, position)
        logits = self.decode(rows)
        for sequence, _, _ in rows:
            LIB.llama_memory_seq_rm(self._memory, sequence, -1, -1)
        return logits


def bare_greedy(session: ModelSession, ids: list[int], count: int) -> list[int]:
    """Ids of a plain llama.cpp loop after `ids`, by argmax, one token a decode."""
    body = len(ids) - 1
    shapes = [63] * (body // 63) + [body % 63] * (body % 63 > 0)
    with closing(BareContext(session)) as bare:
        *_, row = bare.read(ids, [*shapes, 1])
        found = [int(row.argmax())]
        while len(found) < count:
            (row,) = bare.decode([(0, len(ids) + len(found) - 1, found[-1])])
            found.append(int(row.argmax()))
    return found
