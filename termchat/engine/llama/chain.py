"""The sampler chain, applied stage by stage, and what every stage did.

The stages are llama.cpp's own up to the temperature, called one after the other on one candidates array; the draw is ours
(`decoding.dice`). `Observer` turns a row of logits into a `Token` record's numbers.

The chain need not see the whole vocabulary: the raw top (top_k + penalised tokens) and the penalised tokens themselves hold
every token that can be among the top_k after the penalties, since only penalised tokens move. Where top_k is off the full
array is used.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from termchat.decoding import dice
from termchat.decoding.records import Candidate, Stage
from termchat.decoding.samplers import SamplerSettings
from termchat.engine.llama.native import LIB

_CANDIDATE = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])
_PRESELECT_LIMIT = 4  # preselect while it takes less than 1/4 of the vocabulary
_GROUP = 64

_BUILDERS: tuple[tuple[str, Callable[[SamplerSettings, int], Any]], ...] = (
    (
        "penalties",
        lambda s, n_vocab: LIB.llama_sampler_init_penalties(
            n_vocab, s.repeat_last_n, s.repeat_penalty, s.frequency_penalty, s.presence_penalty
        ),
    ),
    ("top_k", lambda s, _: LIB.llama_sampler_init_top_k(s.top_k)),
    ("top_p", lambda s, _: LIB.llama_sampler_init_top_p(s.top_p, 1)),
    ("min_p", lambda s, _: LIB.llama_sampler_init_min_p(s.min_p, 1)),
    ("temperature", lambda s, _: LIB.llama_sampler_init_temp(s.temperature)),
)
"""The stages in order: name, and how llama.cpp makes one."""


class Survivors(NamedTuple):
    """What the chain left: ids and final logits, shape (n,) each; `stages` counts; `removed` says which stage cut an id.

    `removed` holds only ids that were asked about.
    """

    ids: NDArray[np.int32]
    logits: NDArray[np.float32]
    stages: list[Stage]
    removed: dict[int, str]


def top(logits: NDArray[np.float32], count: int) -> NDArray[np.int32]:
    """At least `count` ids that hold the `count` highest logits (all ids that tie with the last, too), in no order.

    The count-th largest maximum over disjoint groups is a lower bound for the count-th largest value; one pass finds it
    and a second collects what reaches it.
    """
    rows = len(logits) // _GROUP
    if rows <= count:
        if count >= len(logits):
            return np.arange(len(logits), dtype=np.int32)
        bound = np.partition(logits, len(logits) - count)[len(logits) - count]
    else:
        highest = logits[: rows * _GROUP].reshape(_GROUP, rows).max(axis=0)
        bound = np.partition(highest, rows - count)[rows - count]
    return np.flatnonzero(logits >= bound).astype(np.int32)


class Chain:
    """llama.cpp's samplers for one set of settings, with the memory of the last tokens."""

    def __init__(self, settings: SamplerSettings, n_vocab: int, past: Sequence[int]) -> None:
        self.settings = settings
        self.n_vocab = n_vocab
        self._stages = [(name, build(settings, n_vocab)) for name, build in _BUILDERS]
        self._penalties = self._stages[0][1]
        self._array = LIB.llama_token_data_array()
        self._data = np.empty(0, _CANDIDATE)
        penalised = settings.repeat_penalty != 1 or settings.frequency_penalty != 0 or settings.presence_penalty != 0
        self.last_n = settings.repeat_last_n if penalised else 0
        self._recent: list[int] = []
        for token in past[len(past) - min(self.last_n, len(past)) :]:
            self.accept(token)

    def close(self) -> None:
        """Frees the samplers."""
        for _, sampler in self._stages:
            LIB.llama_sampler_free(sampler)
        self._stages = []

    def accept(self, token: int) -> None:
        """The token joins what the penalties look at."""
        if self.last_n:
            LIB.llama_sampler_accept(self._penalties, token)
            self._recent.append(token)
            del self._recent[: -self.last_n]

    def _selected(self, logits: NDArray[np.float32]) -> NDArray[np.int32] | None:
        """The ids the chain has to see; None for all."""
        penalised = list(set(self._recent))
        count = self.settings.top_k + len(penalised)
        if not self.settings.top_k or count * _PRESELECT_LIMIT > self.n_vocab:
            return None
        ids = top(logits, count)
        return np.union1d(ids, np.array(penalised, np.int32)) if penalised else ids

    def apply(self, logits: NDArray[np.float32], watched: Sequence[int]) -> Survivors:
        """Runs the stages over the logits, shape (n_vocab,); the logits are left as they are."""
        ids = self._selected(logits)
        data = self._filled(logits, ids)
        array = self._array
        array.data = ctypes.cast(data.ctypes.data, LIB.llama_token_data_p)
        array.size, array.selected, array.sorted = len(data), -1, False
        reference = ctypes.byref(array)
        stages: list[Stage] = []
        removed: dict[int, str] = {}
        alive, seen = len(data), ids is None
        for name, sampler in self._stages:
            LIB.llama_sampler_apply(sampler, reference)
            now = array.size
            if name == "temperature" and self.settings.temperature <= 0:
                now = int(np.isfinite(data["logit"][:now]).sum())
            # What was not preselected is hidden, not cut, until top_k takes it away.
            seen = seen or name == "top_k"
            if now < alive or (name == "top_k" and ids is not None):
                kept = self._kept(data, array.size, watched, masked=now != array.size)
                removed.update((i, name) for i in watched if i not in kept and i not in removed)
                alive = now
            stages.append(Stage(name, alive if seen else self.n_vocab))
        rest = data[: array.size]
        if alive != array.size:
            rest = rest[np.isfinite(rest["logit"])]
        stages.append(Stage("dice", 1))
        return Survivors(rest["id"], rest["logit"], stages, removed)

    def _filled(self, logits: NDArray[np.float32], ids: NDArray[np.int32] | None) -> NDArray[Any]:
        count = self.n_vocab if ids is None else len(ids)
        if len(self._data) < count:
            self._data = np.empty(count, _CANDIDATE)
        data = self._data[:count]
        data["id"] = np.arange(count, dtype=np.int32) if ids is None else ids
        data["logit"] = logits if ids is None else logits[ids]
        return data

    def _kept(self, data: NDArray[Any], size: int, watched: Sequence[int], *, masked: bool) -> set[int]:
        rest = data[:size]
        if masked:
            rest = rest[np.isfinite(rest["logit"])]
        if size > 4 * _GROUP:
            mask = np.zeros(self.n_vocab, np.bool_)
            mask[rest["id"]] = True
            return {i for i in watched if mask[i]}
        return set(rest["id"].tolist())


class Drawn(NamedTuple):
    """One step: the chosen id and every number of its record."""

    id: int
    logit: float
    logprob: float
    rank: int
    probability: float
    entropy: float
    p_end: float
    stages: list[Stage]
    candidates: list[Candidate]


class Observer:
    """Says what a row of logits means: the model's own softmax, the chain's effect, the draw.

    Sums are over float32 exponentials, with the totals and logarithms in float64: within 1e-5 of a float64 softmax.
    """

    def __init__(self, n_vocab: int, end_ids: Sequence[int], name: Callable[[int], str], candidates: int) -> None:
        self._count = min(candidates, n_vocab)
        self._end_ids = np.array(end_ids, np.int64)
        self._name = name
        self._shifted = np.empty(n_vocab, np.float32)
        self._weights = np.empty(n_vocab, np.float32)
        self._place = np.zeros(n_vocab, np.int32)

    def draw(self, logits: NDArray[np.float32], chain: Chain, seed: int, step: int) -> Drawn:
        """Draws step `step` of the reply with seed `seed` from logits of shape (n_vocab,)."""
        leaders = top(logits, self._count)
        values = logits[leaders]
        leaders = leaders[np.argsort(-values, kind="stable")[: self._count]]
        watched: list[int] = leaders.tolist()
        ids, final, stages, removed = chain.apply(logits, watched)

        scores = final.astype(np.float64)
        scores -= scores.max()
        weights = np.exp(scores)
        total = weights.sum()
        noise = dice.gumbel(seed, step, np.concatenate((ids, leaders)))
        best = int(np.argmax(scores + noise[: len(ids)]))
        chosen = int(ids[best])
        if chosen not in removed and chosen not in watched:
            watched.append(chosen)

        highest = float(values.max())
        shifted = np.subtract(logits, np.float32(highest), out=self._shifted)
        raw = np.exp(shifted, out=self._weights)
        mass = float(raw.sum(dtype=np.float64))
        log_mass = math.log(mass)
        # -sum p log2 p, with p = w / mass and log p = shifted - log mass. numpy sums in pairs; a BLAS dot would lose 1e-5.
        with np.errstate(invalid="ignore"):
            weighted = np.multiply(raw, shifted, out=self._shifted)
        entropy = (log_mass - float(weighted.sum()) / mass) / math.log(2)

        if not math.isfinite(entropy):  # a model that masks tokens with -inf: 0 log 0 is 0
            entropy = (log_mass - float(weighted[raw > 0].sum()) / mass) / math.log(2)

        noises = noise[len(ids) :].tolist()
        if len(watched) > len(noises):
            noises.append(float(noise[best]))
        self._place[ids] = np.arange(len(ids))
        candidates = [
            Candidate(
                id=i,
                text=self._name(i),
                logit=logit,
                logprob=logit - highest - log_mass,
                probability=0.0 if i in removed else float(weights[self._place[i]] / total),
                noise=g,
                removed_by=removed.get(i),
            )
            for i, logit, g in zip(watched, logits[watched].tolist(), noises, strict=True)
        ]
        chosen_logit = float(logits[chosen])
        return Drawn(
            id=chosen,
            logit=chosen_logit,
            logprob=chosen_logit - highest - log_mass,
            rank=int(np.count_nonzero(logits > logits[chosen])),
            probability=float(weights[best] / total),
            entropy=max(entropy, 0.0),
            p_end=float(raw[self._end_ids].sum(dtype=np.float64)) / mass,
            stages=stages,
            candidates=candidates,
        )
