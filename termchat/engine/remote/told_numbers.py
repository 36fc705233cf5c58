"""What a server tells of a step, as the numbers of a record. What it does not tell is absent; what can only be bounded by the
tokens that it lists is the most that it can be, and the state says what mass is missing."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from termchat.decoding.records import ABSENT, TAIL, UNKNOWN, Candidate
from termchat.engine.llama.observe import Drawn
from termchat.engine.llama.vocabulary import Vocabulary
from termchat.engine.remote.streams import Told


def as_drawn(told: Told, model: Vocabulary, most: int) -> Drawn:
    """The step at which this token was drawn, with `most` candidates."""
    if told.ids is None or told.logprobs is None or not len(told.ids):
        alone = [] if math.isnan(told.logprob) else [_candidate(told.id, told.logprob, model)]
        return Drawn(told.id, ABSENT, told.logprob, UNKNOWN, told.probability, ABSENT, ABSENT, [], alone, {})
    ids, logprobs = told.ids.tolist(), told.logprobs.tolist()
    rank = ids.index(told.id) if told.id in ids else UNKNOWN
    logprob = logprobs[rank] if rank != UNKNOWN and math.isnan(told.logprob) else told.logprob
    candidates = [_candidate(i, value, model) for i, value in zip(ids[:most], logprobs[:most], strict=True)]
    if told.id != UNKNOWN and told.id not in ids[:most]:
        candidates.append(_candidate(told.id, logprob, model))
    entropy, p_end, tail = _bounds(told.ids, told.logprobs, model)
    return Drawn(
        told.id, ABSENT, logprob, rank, told.probability, entropy, p_end, [], candidates, {TAIL: tail} if tail else {}
    )


def _candidate(token: int, logprob: float, model: Vocabulary) -> Candidate:
    return Candidate(token, model.name(token), ABSENT, logprob, ABSENT, ABSENT, None)


def _bounds(ids: NDArray[np.int32], logprobs: NDArray[np.float64], model: Vocabulary) -> tuple[float, float, float]:
    """Entropy in bits and mass of the end tokens, each the most that it can be, and the mass that is not listed."""
    hidden = model.n_vocab - len(ids)
    shares = np.exp(logprobs)
    tail = max(1.0 - float(shares.sum()), 0.0) if hidden > 0 else 0.0
    surprise = -float(np.sum(shares * np.maximum(logprobs, -1e4)))  # what is impossible adds nothing
    if tail:
        surprise -= tail * math.log(tail / hidden)
    is_end = np.isin(ids, model.end_ids)
    unseen = len(model.end_ids) - int(is_end.sum())
    p_end = float(shares[is_end].sum()) + min(unseen * float(shares[-1]), tail)
    return surprise / math.log(2), p_end, tail
