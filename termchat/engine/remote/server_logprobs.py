"""What a server tells of a step, as the numbers of a record. What it does not tell is absent; what can only be bounded by the
tokens that it lists is the most that it can be, and the state says what mass is missing."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from termchat.decoding.conditions import Measure
from termchat.decoding.records import ABSENT, TAIL, UNKNOWN, Candidate, DrawnThere, Explanation, Token, TokenBias
from termchat.engine.llama.vocabulary import Vocabulary
from termchat.engine.remote.proof import Shortlist, bounds
from termchat.engine.remote.streams import StreamingServer, Told


def as_drawn(told: Told, model: Vocabulary, most: int, step: int) -> tuple[Token, Mapping[Measure, float]]:
    """Return the record of the step at which this token was drawn, with `most` candidates, as `Observer.draw` does; and the
    least that measures can be which it can only bound."""
    if told.ids is None or told.logprobs is None or not len(told.ids):
        alone = [] if math.isnan(told.logprob) else [_candidate(told.id, told.logprob, model)]
        return _record(told, step, told.logprob, UNKNOWN, ABSENT, ABSENT, alone, {}), {}
    ids, logprobs = told.ids.tolist(), told.logprobs.tolist()
    rank = ids.index(told.id) if told.id in ids else UNKNOWN
    logprob = logprobs[rank] if rank != UNKNOWN and math.isnan(told.logprob) else told.logprob
    candidates = [_candidate(i, value, model) for i, value in zip(ids[:most], logprobs[:most], strict=True)]
    if told.id != UNKNOWN and told.id not in ids[:most]:
        candidates.append(_candidate(told.id, logprob, model))
    found = bounds(Shortlist(told.ids, told.logprobs, model.n_vocab), model.end_ids)
    state = {TAIL: found.tail} if found.tail else {}
    record = _record(told, step, logprob, rank, found.entropy[1], found.p_end[1], candidates, state)
    return record, found.least


def _record(
    told: Told, step: int, logprob: float, rank: int, entropy: float, p_end: float, candidates: list[Candidate],
    state: dict[str, float],
) -> Token:  # fmt: skip
    return Token(
        step, UNKNOWN, told.id, b"", "", ABSENT, logprob, rank, told.probability, entropy, p_end, UNKNOWN, False, [],
        candidates, state, 0, 0, phase=None,
    )  # fmt: skip


def _candidate(token: int, logprob: float, model: Vocabulary) -> Candidate:
    return Candidate(token, model.name(token), ABSENT, logprob, ABSENT, ABSENT, None)


class StepListing(NamedTuple):
    """What a server tells of the step after a prompt: `best` are the candidates that it lists, with their log-probabilities,
    best first; `also` are log-probabilities of tokens that are not among them."""

    best: dict[int, float]
    also: dict[int, float]

    def logprob(self, token: int) -> float:
        return self.best.get(token, self.also.get(token, ABSENT))

    def rank(self, token: int) -> int:
        if token not in self.best:
            return UNKNOWN
        return sum(1 for value in self.best.values() if value > self.best[token])


def listing_of(server: StreamingServer, ids: list[int], wanted: Collection[int], few: int) -> StepListing:
    """What the server tells after `ids`, these tokens among it. `few` candidates are enough if they are all there; else it is
    asked for as many as it lists, and then for the tokens alone.

    Raises:
        Aborted, ContextFull, EngineError: see `StreamingServer.listed`.
    """
    best: dict[int, float] = {}
    for count in (few, server.model.n_vocab):
        best = _by_id(*server.listed(ids, count, []))
        if not set(wanted) - set(best):
            return StepListing(best, {})
    others = [token for token in dict.fromkeys(wanted) if token not in best]
    told = _by_id(*server.listed(ids, 0, others))
    return StepListing(best, {token: told[token] for token in others if token in told})


def _by_id(ids: NDArray[np.int32], logprobs: NDArray[np.float64]) -> dict[int, float]:
    return dict(zip(ids.tolist(), logprobs.tolist(), strict=True))


def explanation_of(token: int, drawn: int, told: StepListing, model: Vocabulary, bias: TokenBias | None) -> Explanation:
    """What can be said of a token where the server drew another one, or this; nothing of what its chain did."""
    best = next(iter(told.best), UNKNOWN)
    there = DrawnThere(
        len(told.best), told.logprob(drawn), told.rank(drawn), best, _name(best, model), told.logprob(best)
    )
    return Explanation(
        id=token, text=model.name(token), logit=ABSENT, logprob=told.logprob(token), rank=told.rank(token),
        probability=ABSENT, noise=ABSENT, stages=[], removed_by=None, penalised=None, remedies=[], winner=drawn,
        winner_text=_name(drawn, model), bias=bias, there=there,
    )  # fmt: skip


def _name(token: int, model: Vocabulary) -> str:
    return model.name(token) if token != UNKNOWN else ""
