"""Whether a model's numbers depend on how many tokens are decoded at once, and how much."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from termchat.engine.llama.cache import Cache
from termchat.engine.llama.scoring import batches
from termchat.engine.llama.softmax import Row
from termchat.engine.port import EngineError


def difference(cache: Cache, ids: list[int], at: int) -> float:
    """The largest total variation distance between the distributions after `ids[at]` and after each id that follows, when
    these are decoded one by one and when they are one batch; 0 < at < len(ids). The context then holds `ids`.

    Raises:
        Aborted, ContextFull, EngineError: the ids do not fit, the model cannot be asked, or llama.cpp failed.
    """
    if not 0 < at < len(ids):
        raise EngineError("prompt", "there is nothing to compare", "")
    alone: list[Row] = []
    for _ in cache.prefill(ids[: at + 1], cache.prepare(ids[: at + 1])):
        pass
    alone.append(cache.logits().copy())
    for token in ids[at + 1 :]:
        cache.decode(token)
        alone.append(cache.logits().copy())
    # The last id is there twice, since the logits after the last one are not asked for.
    together = (row for batch in batches(cache, [*ids, ids[-1]], at) for row in batch)
    return max(_distance(one, other) for one, other in zip(alone, together, strict=True))


def _distance(one: Row, other: Row) -> float:
    if np.array_equal(one, other):
        return 0.0
    return float(np.abs(_softmax(one) - _softmax(other)).sum() / 2)


def _softmax(row: Row) -> NDArray[np.float64]:
    weights = np.exp(row.astype(np.float64) - row.max())
    found: NDArray[np.float64] = weights / weights.sum()
    return found
