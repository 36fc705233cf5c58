"""The numbers of a token, computed from its logits in float64 by the plainest means."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from termchat.decoding import dice
from termchat.decoding.records import Token
from termchat.decoding.samplers import SamplerSettings
from termchat.engine.llama.softmax import Row


class Numbers(NamedTuple):
    """What the record of a token should have. `probability` is after the chain; `margin` is None where it left one token."""

    id: int
    logprob: float
    rank: int
    entropy: float
    p_end: float
    probability: float
    margin: float | None


def numbers_of(logits: Row, token: Token, settings: SamplerSettings, seed: int, end_ids: list[int]) -> Numbers:
    """Compute the numbers of a step, for a chain of temperature, top_k, top_p and min_p."""
    row = logits.astype(np.float64)
    p = np.exp(row - row.max())
    p /= p.sum()
    ids = np.argsort(-row, kind="stable")[: settings.top_k]
    kept = p[ids] / p[ids].sum()
    ids = ids[(np.cumsum(kept) - kept < settings.top_p) & (kept >= settings.min_p * kept[0])]
    final = (p[ids] / p[ids[0]]) ** (1 / settings.temperature)
    final /= final.sum()
    scores = np.log(final) + dice.draw_gumbel(seed, token.step, ids.astype(np.int32))
    best = np.sort(scores)[::-1]
    return Numbers(
        id=int(ids[scores.argmax()]),
        logprob=float(np.log(p[token.id])),
        rank=int((row > row[token.id]).sum()),
        entropy=float(-(p * np.log2(p, where=p > 0, out=np.zeros_like(p))).sum()),
        p_end=float(p[end_ids].sum()),
        probability=float(final[ids == token.id].sum()),
        margin=float(best[0] - best[1]) if len(best) > 1 else None,
    )
