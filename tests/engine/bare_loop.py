"""The plainest loop over llama.cpp, to compare ours with."""

from __future__ import annotations

from termchat.engine.llama.model_session import Session
from termchat.engine.llama.native import LIB


def bare_greedy(session: Session, ids: list[int], count: int) -> list[int]:
    """Ids of a plain llama.cpp loop after `ids`, by argmax, one token a decode."""
    cache = session.cache
    cache.rewind(0)
    LIB.llama_memory_clear(cache.memory, True)
    found: list[int] = []
    body = [ids[i : min(i + 63, len(ids) - 1)] for i in range(0, len(ids) - 1, 63)]
    for batch in [*body, ids[-1:]]:
        array = (LIB.llama_token * len(batch))(*batch)
        assert LIB.llama_decode(cache.pointer, LIB.llama_batch_get_one(array, len(batch))) == 0
    while len(found) < count:
        row = LIB.llama_get_logits_ith(cache.pointer, -1)
        found.append(max(range(session.model.n_vocab), key=row.__getitem__))
        array = (LIB.llama_token * 1)(found[-1])
        assert LIB.llama_decode(cache.pointer, LIB.llama_batch_get_one(array, 1)) == 0
    LIB.llama_memory_clear(cache.memory, True)
    return found
