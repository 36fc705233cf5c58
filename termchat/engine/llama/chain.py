"""The sampler chain, applied stage by stage, and what every stage did.

The stages are those of `decoding.stages`: llama.cpp's own samplers, called one after the other on one candidates array; the
draw is ours (`decoding.draw`). `Observer` turns a row of logits into a `Token` record's numbers.

The chain need not see the whole vocabulary: the raw top (top_k + penalised tokens) and the penalised tokens themselves hold
every token that can be among the top_k after the penalties, since only penalised tokens move. Where top_k is off the full
array is used, as it is where a stage before top_k needs all logits.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from termchat.decoding.draw import draw
from termchat.decoding.records import Candidate, Stage
from termchat.decoding.samplers import SamplerSettings
from termchat.decoding.stages import DICE, N_VOCAB, SamplerStage, chain_of
from termchat.engine.llama import observe
from termchat.engine.llama.native import LIB
from termchat.engine.llama.observe import Drawn, Labels, NativeChain
from termchat.engine.llama.softmax import Exponentials

np.seterr(invalid="ignore")  # masked tokens make 0 * -inf, which is looked for; a context manager costs 10 us a step

_CANDIDATE = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])
_PRESELECT_LIMIT = 4  # preselect while it takes less than 1/4 of the vocabulary
_GROUP = 64


class Survivors(NamedTuple):
    """What the chain left: ids and final logits, shape (n,) each; `stages` counts; `removed` says which stage cut an id.

    `removed` holds only ids that were asked about.
    """

    ids: NDArray[np.int32]
    logits: NDArray[np.float32]
    stages: list[Stage]
    removed: dict[int, str]


def top(logits: NDArray[np.float32], count: int) -> NDArray[np.int32]:
    """Ids in ascending order that hold the `count` highest logits, and all that tie with or come near the last.

    The count-th largest maximum over disjoint groups is a lower bound for the count-th largest value; one pass finds it,
    and what reaches it is then looked for where a maximum does.
    """
    rows = len(logits) // _GROUP
    if count >= len(logits):
        return np.arange(len(logits), dtype=np.int32)
    if rows <= count:
        bound = np.partition(logits, len(logits) - count)[len(logits) - count]
    else:
        grid = logits[: rows * _GROUP].reshape(_GROUP, rows)
        highest = grid.max(axis=0)
        ordered = highest.copy()  # methods, here and below: a step finds numpy's wrappers gone from the caches
        ordered.partition(rows - count)
        bound = ordered[rows - count]
        columns = (highest >= bound).nonzero()[0]  # nothing in the other ones reaches it
        row, column = (grid.take(columns, axis=1) >= bound).nonzero()
        found: NDArray[np.int32] = (row * rows + columns[column]).astype(np.int32)
        if rows * _GROUP == len(logits):
            return found
        rest = rows * _GROUP + np.flatnonzero(logits[rows * _GROUP :] >= bound).astype(np.int32)
        return np.concatenate((found, rest))
    return np.flatnonzero(logits >= bound).astype(np.int32)


def _sampler(stage: SamplerStage, settings: SamplerSettings, n_vocab: int) -> Any:
    """A new `llama_sampler`; the caller frees it."""
    named = {N_VOCAB: n_vocab} | {name: getattr(settings, name) for name in stage.knobs}
    arguments = (named[argument] if isinstance(argument, str) else argument for argument in stage.arguments)
    return getattr(LIB, f"llama_sampler_init_{stage.sampler}")(*arguments)


class Chain:
    """llama.cpp's samplers for one set of settings, with the memory of the last tokens."""

    def __init__(self, settings: SamplerSettings, n_vocab: int, past: Sequence[int]) -> None:
        self.settings = settings
        self.n_vocab = n_vocab
        stages = chain_of(settings)
        self._stages = [(stage, _sampler(stage, settings, n_vocab), stage.masks(settings)) for stage in stages]
        # Up to this stage, tokens that were not preselected are only left out of the array, not removed from the chain.
        hiding = next(i for i, stage in enumerate(stages) if stage.limit)
        self._limit = getattr(settings, stages[hiding].limit)
        if any(stage.whole and stage.active(settings) for stage in stages[:hiding]):
            self._limit = 0
        self.native = NativeChain(
            names=tuple(stage.name for stage in stages),
            samplers=(ctypes.c_void_p * len(stages))(
                *(ctypes.cast(sampler, ctypes.c_void_p).value for _, sampler, _ in self._stages)
            ),
            masking=sum(masks << number for number, (_, _, masks) in enumerate(self._stages)),
            hiding=hiding,
        )
        self._array = LIB.llama_token_data_array()
        self._reference = ctypes.byref(self._array)
        self._data = np.empty(0, _CANDIDATE)
        self._ids, self._logits = self._data["id"], self._data["logit"]
        self._pointer: Any = None
        self._remembering = [sampler for stage, sampler, _ in self._stages if stage.window(settings)]
        self._last_n = max(stage.window(settings) for stage in stages)
        self.recent: list[int] = []  # what the penalties look at
        for token in past[len(past) - min(self._last_n, len(past)) :]:
            self.accept(token)

    def close(self) -> None:
        for _, sampler, _ in self._stages:
            LIB.llama_sampler_free(sampler)
        self._stages = []

    def accept(self, token: int) -> None:
        """Tells the stages that remember of a token that was taken."""
        if self._last_n:
            for sampler in self._remembering:
                LIB.llama_sampler_accept(sampler, token)
            self.recent.append(token)
            del self.recent[: -self._last_n]

    def needs(self) -> int | None:
        """How many of the highest raw logits hold all that can be among the top_k; None if only all of them do."""
        count: int = self._limit + len(set(self.recent))
        return count if self._limit and count * _PRESELECT_LIMIT <= self.n_vocab else None

    def apply(self, logits: NDArray[np.float32], near: NDArray[np.int32] | None, watched: Sequence[int]) -> Survivors:
        """Runs the stages over logits of shape (n_vocab,), which stay as they are.

        `near` are ids that hold at least the `needs()` highest logits; None is the whole vocabulary.
        """
        if near is not None and self.recent:
            near = np.union1d(near, np.array(self.recent, np.int32))
        data, array = self._filled(logits, near), self._array
        array.data, array.size, array.selected, array.sorted = self._pointer, len(data), -1, False
        stages: list[Stage] = []
        removed: dict[int, str] = {}
        alive = size = len(data)
        seen = near is None
        for stage, sampler, masks in self._stages:
            LIB.llama_sampler_apply(sampler, self._reference)
            now = size = array.size
            if masks:
                now = int(np.isfinite(data["logit"][:size]).sum())
            if now < alive or (stage.limit and not seen):
                self._note_cut(data[:size], now, watched, stage.name, removed)
                alive, seen = now, True
            stages.append(Stage(stage.name, alive if seen else self.n_vocab))
        rest = data[:size]
        if alive != size:
            rest = rest[np.isfinite(rest["logit"])]
        stages.append(Stage(DICE, 1))
        return Survivors(rest["id"], rest["logit"], stages, removed)

    def _filled(self, logits: NDArray[np.float32], near: NDArray[np.int32] | None) -> NDArray[Any]:
        count = self.n_vocab if near is None else len(near)
        if len(self._data) < count:
            self._data = np.empty(count, _CANDIDATE)
            self._ids, self._logits = self._data["id"], self._data["logit"]
            self._pointer = ctypes.cast(self._data.ctypes.data, LIB.llama_token_data_p)
        self._ids[:count] = np.arange(count, dtype=np.int32) if near is None else near
        self._logits[:count] = logits if near is None else logits[near]
        return self._data[:count]

    def _note_cut(
        self, rest: NDArray[Any], alive: int, watched: Sequence[int], name: str, removed: dict[int, str]
    ) -> None:
        """Notes which of the watched ids a stage removed, when it left `alive` of `rest`."""
        if alive < len(rest):
            rest = rest[np.isfinite(rest["logit"])]
        kept: set[int] | NDArray[np.bool_]
        if len(rest) > 4 * _GROUP:
            mask = np.zeros(self.n_vocab, np.bool_)
            mask[rest["id"]] = True
            kept = {i for i in watched if mask[i]}
        else:
            kept = set(rest["id"].tolist())
        for i in watched:
            if i not in kept and i not in removed:
                removed[i] = name


class Observer:
    """Says what a row of logits means: the model's own softmax, the chain's effect, the draw.

    Exponentials and their sums are float32, summed in pairs; logarithms and quotients are float64: all within 1e-5 of a
    float64 softmax.
    """

    def __init__(
        self, n_vocab: int, end_ids: Sequence[int], names: Labels, candidates: int, *, native: bool = True
    ) -> None:
        self._count = min(candidates, n_vocab)
        self._end_ids = list(end_ids)
        self._names = names
        self._shifted = np.empty(n_vocab, np.float32)
        self._exponentials = Exponentials(n_vocab)
        library = observe.load() if native else None
        self._native = (
            observe.NativeStep(library, n_vocab, end_ids, names, self._count, LIB.llama_sampler_apply)
            if library
            else None
        )

    def draw(self, logits: NDArray[np.float32], chain: Chain, seed: int, step: int, forced: int | None = None) -> Drawn:
        """Draws step `step` of the reply with seed `seed` from logits of shape (n_vocab,).

        With a `forced` id, that one is chosen, whatever the dice and the chain say.
        """
        needs = chain.needs()
        if self._native is not None and needs is not None:
            drawn = self._native.draw(logits, chain.native, needs, chain.recent, seed, step, forced)
            if drawn is not None:
                return drawn
        near = top(logits, max(self._count, needs or 1))
        values = logits[near]
        order = (-values).argsort(kind="stable")
        leaders = near[order[: self._count]]
        if forced is not None and forced not in leaders:
            leaders = np.append(leaders, np.int32(forced))
        watched: list[int] = leaders.tolist()
        ids, final, stages, removed = chain.apply(logits, None if needs is None else near, watched)
        won, probability, noise = draw(ids, final, seed, step, watched)
        chosen = won if forced is None else forced
        if chosen not in watched:
            watched.append(chosen)

        highest = float(values[order[0]])
        log_mass, entropy, p_end = self._own(logits, highest)
        listed = logits[watched].tolist()
        base = highest + log_mass
        candidates = [
            Candidate(i, self._names[i], logit, logit - base, probability[i], noise[i], removed.get(i))
            for i, logit in zip(watched, listed, strict=True)
        ]
        place = watched.index(chosen)
        logit = listed[place]
        # Whatever is above a token that is near is near itself; a penalised token may come from anywhere.
        field = values if logit >= float(values[order[-1]]) else logits
        return Drawn(
            id=chosen,
            logit=logit,
            logprob=logit - base,
            rank=int(np.count_nonzero(field > np.float32(logit))),
            probability=candidates[place].probability,
            entropy=entropy,
            p_end=p_end,
            stages=stages,
            candidates=candidates,
        )

    def _own(self, logits: NDArray[np.float32], highest: float) -> tuple[float, float, float]:
        """The model's own softmax: log of the sum of exp(logit - highest), entropy in bits, mass on end tokens."""
        mass = self._exponentials.of(logits, highest)
        raw = self._exponentials.weights
        shifted = np.subtract(logits, np.float32(highest), out=self._shifted)
        log_mass = math.log(mass)
        p_end = sum(map(raw.item, self._end_ids)) / mass
        # -sum p log2 p, with p = raw / mass and log p = shifted - log mass. A BLAS dot would lose 1e-5; numpy's sum does not.
        weighted = np.multiply(raw, shifted, out=shifted)
        total = float(weighted.sum())
        if not math.isfinite(total):  # a model that masks tokens with -inf: 0 log 0 is 0
            total = float(weighted[raw > 0].sum())
        return log_mass, max((log_mass - total / mass) / math.log(2), 0.0), p_end
