"""The sampler chain, applied stage by stage, and what every stage did.

The stages are those of `decoding.stages`: llama.cpp's own samplers and ours, called one after the other on one candidates
array; the draw is ours (`decoding.draw`). `Observer` turns a row of logits into a `Token` record's numbers.

The chain need not see the whole vocabulary: the raw top (top_k + biased and penalised tokens) and those tokens themselves
hold every token that can be among the top_k after biases and penalties, since only they move. So do, where min_p or
top_n_sigma is the first to cut, the logits above its floor, which native code finds; without it, and where another stage
comes first, the full array is used.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from termchat.decoding import dice
from termchat.decoding.arithmetic import APPLY, Situation, Surviving, softmax
from termchat.decoding.constraint import GRAMMAR
from termchat.decoding.draw import COUNT, DEVIATION, FLOOR, HEAT, NO_CUT, SHARE, UNBOUNDED, Cut, draw, is_near_tie
from termchat.decoding.records import Candidate, Stage
from termchat.decoding.samplers import SamplerSettings
from termchat.decoding.stage_state import BEFORE, MU, SUM, WEIGHT, after, state_of
from termchat.decoding.stages import BIASES, DICE, N_VOCAB, VOCAB, SamplerStage, chain_of, first_full, has_floor
from termchat.engine.llama import observe
from termchat.engine.llama.dry import Breakers, DryStage
from termchat.engine.llama.native import LIB
from termchat.engine.llama.observe import Drawn, Labels, Mask, NativeChain
from termchat.engine.llama.softmax import Exponentials
from termchat.engine.port import EngineError

np.seterr(invalid="ignore")  # masked tokens make 0 * -inf, which is looked for; a context manager costs 10 us a step

_CANDIDATE = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])
_PRESELECT_LIMIT = 4  # preselect while it takes less than 1/4 of the vocabulary
_GROUP = 64


Base = tuple[NDArray[np.int32], NDArray[np.float32]]
"""The ids and logits that the first cut is given, shape (n,) each."""


class Survivors(NamedTuple):
    """What the chain left: ids and final logits, shape (n,) each; `stages` counts; `removed` says which stage cut an id.

    `removed` holds only ids that were asked about; `before` is what the last stage found each one's probability to be. `lead`
    is how far the highest was ahead of the second at temperature 0.
    """

    ids: NDArray[np.int32]
    logits: NDArray[np.float32]
    stages: list[Stage]
    removed: dict[int, str]
    before: NDArray[np.float32]
    base: Base
    lead: float | None = None


class _Weights:
    """What the tokens weigh that the next stage is given, and how much of that it leaves.

    `mass` is that of the `total` tokens that the chain is given where the `highest` logit weighs 1; what of it is not in
    `data` is hidden.
    """

    def __init__(self, total: int, n_vocab: int, data: NDArray[Any], highest: float, mass: float) -> None:
        self._of = np.zeros(n_vocab)
        raw = np.exp(data["logit"].astype(np.float64) - highest)
        self._hidden = max(mass - float(raw.sum()), 0.0) if len(data) < total else 0.0
        self._highest, self._mass = highest, 0.0
        self._weigh(data)

    def kept(self, data: NDArray[Any], seen: bool, *, cut: bool, moved: bool) -> float:
        """The share of the mass that is left in `data`; until the chain has `seen` all, the hidden tokens are left, too."""
        share = 1.0
        if cut:
            left = float(self._of[data["id"][np.isfinite(data["logit"])]].sum()) + (0.0 if seen else self._hidden)
            share = min(left / self._mass, 1.0)
            self._mass = left
        if seen:
            self._hidden = 0.0
        if moved:
            self._weigh(data)
        return share

    def _weigh(self, data: NDArray[Any]) -> None:
        highest = float(data["logit"].max())
        self._hidden *= math.exp(min(self._highest - highest, 700.0)) if self._hidden else 0.0
        self._highest = highest
        weights = np.exp(data["logit"].astype(np.float64) - highest)
        self._of[:] = 0
        self._of[data["id"]] = weights
        self._mass = float(weights.sum()) + self._hidden


def top(logits: NDArray[np.float32], count: int, below: float = 0.0) -> NDArray[np.int32]:
    """Ids in ascending order that hold the `count` highest logits, and all that tie with or come near the last, or are no more
    than that `below` it.

    The count-th largest maximum over disjoint groups is a lower bound for the count-th largest value; one pass finds it,
    and what reaches it is then looked for where a maximum does.
    """
    rows = len(logits) // _GROUP
    if count >= len(logits):
        return np.arange(len(logits), dtype=np.int32)
    if rows <= count:
        bound = np.partition(logits, len(logits) - count)[len(logits) - count] - np.float32(below)
    else:
        grid = logits[: rows * _GROUP].reshape(_GROUP, rows)
        highest = grid.max(axis=0)
        ordered = highest.copy()  # methods, here and below: a step finds numpy's wrappers gone from the caches
        ordered.partition(rows - count)
        bound = ordered[rows - count] - np.float32(below)
        columns = (highest >= bound).nonzero()[0]  # nothing in the other ones reaches it
        row, column = (grid.take(columns, axis=1) >= bound).nonzero()
        found: NDArray[np.int32] = (row * rows + columns[column]).astype(np.int32)
        if rows * _GROUP == len(logits):
            return found
        rest = rows * _GROUP + np.flatnonzero(logits[rows * _GROUP :] >= bound).astype(np.int32)
        return np.concatenate((found, rest))
    return np.flatnonzero(logits >= bound).astype(np.int32)


class _Xtc(ctypes.Structure):
    """`xtc` of observe.c; those below are what their stages are called with, too."""

    _fields_ = (("probability", ctypes.c_float), ("threshold", ctypes.c_float), ("chance", ctypes.c_float))


class _Mirostat(ctypes.Structure):
    _fields_ = (("mu", ctypes.c_float), ("n_vocab", ctypes.c_int32))


class _Adaptive(ctypes.Structure):
    _fields_ = (("target", ctypes.c_float), ("sum", ctypes.c_float), ("weight", ctypes.c_float))


class _Share(ctypes.Structure):
    """`top_h` and `min_k`: a number."""

    _fields_ = (("value", ctypes.c_double),)


class _Sampler:
    """A `llama_sampler`, with what has to live as long as it. Without native code ours has none, and is computed by `APPLY`."""

    def __init__(
        self, stage: SamplerStage, settings: SamplerSettings, n_vocab: int, vocab: Any, bias: Mapping[int, float]
    ) -> None:
        self.stage = stage
        self.masks = stage.masks(settings)
        self.with_: Any = None
        self.pointer: Any = None
        if VOCAB in stage.arguments and isinstance(vocab, Breakers):
            self._dry = DryStage(settings, vocab.of(settings.dry_sequence_breakers))
            self.pointer = self._dry.pointer
        elif stage.sampler:
            self.pointer = _native_sampler(stage, settings, {N_VOCAB: n_vocab, VOCAB: vocab, BIASES: bias})
        else:
            self._own(settings, n_vocab)

    def close(self) -> None:
        if self.pointer is not None:
            LIB.llama_sampler_free(self.pointer)
            self.pointer = None

    def _own(self, settings: SamplerSettings, n_vocab: int) -> None:
        library, name = observe.load(), self.stage.name
        if name == "xtc":
            self.with_ = _Xtc(settings.xtc_probability, settings.xtc_threshold, 1.0)
        elif name == "mirostat":
            self.with_ = _Mirostat(0.0, n_vocab)
        elif name == "adaptive_p":
            self.with_ = _Adaptive(settings.adaptive_target, 0.0, 0.0)
        elif name in ("top_h", "min_k"):
            self.with_ = _Share(getattr(settings, name))
        if library is None:
            return
        mode = getattr(settings, self.stage.modes) if self.stage.modes else ""
        function = getattr(library, f"termchat_stage_{name}{mode}")
        self._interface = LIB.llama_sampler_i()
        self._interface.apply = ctypes.cast(function, dict(LIB.llama_sampler_i._fields_)["apply"])
        with_ = ctypes.c_void_p(None if self.with_ is None else ctypes.addressof(self.with_))
        self.pointer = LIB.llama_sampler_init(ctypes.byref(self._interface), with_)


def _native_sampler(stage: SamplerStage, settings: SamplerSettings, known: Mapping[str, Any]) -> Any:
    """One of llama.cpp's; `known` are the arguments that are no knobs."""
    named = {**{name: getattr(settings, name) for name in stage.knobs}, **known}
    if VOCAB in stage.arguments and known[VOCAB] is None:
        raise EngineError(
            "settings",
            f"{stage.name} needs the texts of the model's tokens, which this server does not tell",
            f"turn {stage.name} off",
        )
    arguments: list[Any] = []
    for argument in stage.arguments:
        value = named[argument] if isinstance(argument, str) else argument
        if isinstance(value, tuple):  # texts
            texts = [text.encode() for text in value]
            arguments += [(ctypes.c_char_p * len(texts))(*texts), len(texts)]
        elif isinstance(value, Mapping):  # of ids to biases
            arguments += [len(value), (LIB.llama_logit_bias * len(value))(*value.items())]
        else:
            arguments.append(value)
    return getattr(LIB, f"llama_sampler_init_{stage.sampler}")(*arguments)


def _cut_of(stage: SamplerStage, settings: SamplerSettings, place: int) -> Cut:
    """How a stage cuts, for near ties. Its `place` is counted from the first full stage: those before it move single logits, by
    what does not depend on logits."""
    if not stage.active(settings) or (stage.sparse and place < 0):
        return Cut(NO_CUT)
    if stage.name == "top_k":
        return Cut(COUNT, settings.top_k)
    if stage.name == "top_p":
        return Cut(SHARE, settings.top_p)
    if stage.name == "min_p":
        return Cut(FLOOR, -math.log(settings.min_p))
    if stage.name == "top_n_sigma" and place == 0 and has_floor(settings):
        return Cut(DEVIATION, settings.top_n_sigma)
    if stage.name == "temperature" and settings.dynatemp_range <= 0:
        return Cut(HEAT, settings.temperature)
    return Cut(UNBOUNDED)


class Chain:
    """The samplers for one set of settings, with the memory of the last tokens.

    `state` is what mirostat and adaptive_p remember; what it lacks begins anew. `vocab` is llama.cpp's vocabulary, or the
    `Breakers` of one elsewhere; without either DRY cannot be on. `bias` is added to the logits of tokens, by id: what the logit
    biases of the settings come to with the model, and those that it has itself (`Model.bias`).

    A difference of two logits that changes by x, as each of them may, changes by `stretch` times x at most after the penalties.
    """

    def __init__(
        self,
        settings: SamplerSettings,
        n_vocab: int,
        past: Sequence[int],
        *,
        state: Mapping[str, float] = {},
        vocab: Any = None,
        bias: Mapping[int, float] = {},
    ) -> None:
        self.settings = settings
        self.n_vocab = n_vocab
        self.state = state_of(settings, state)
        self._biased = list(bias)
        stages = chain_of(settings, biased=bool(bias))
        self._stages = [_Sampler(stage, settings, n_vocab, vocab, bias) for stage in stages]
        # Up to this stage, tokens that were not preselected are only left out of the array, not removed from the chain.
        first = first_full(settings)
        hiding = stages.index(first) if first is not None else len(stages)
        self._limit = getattr(settings, first.limit) if first is not None and first.limit else 0
        self._floor = has_floor(settings)
        penalised = any(stage.name == "penalties" and stage.active(settings) for stage in stages)
        most = max(settings.repeat_penalty, 1 / settings.repeat_penalty)
        self.stretch = 2 * most - 1 if penalised else 1.0
        self.native = NativeChain(
            names=tuple(stage.name for stage in stages),
            samplers=(ctypes.c_void_p * len(stages))(
                *(ctypes.cast(sampler.pointer, ctypes.c_void_p).value for sampler in self._stages)
            ),
            masking=sum(sampler.masks << number for number, sampler in enumerate(self._stages)),
            hiding=hiding,
            cut=observe.CUTS.index(first.name) if first is not None and self._floor else 0,
            share=getattr(settings, first.name) if first is not None and self._floor else 0.0,
            drawn_with=self._drawn_with,
            cuts=tuple(_cut_of(stage, settings, place - hiding) for place, stage in enumerate(stages)),
            biases={token: value for token, value in bias.items() if math.isfinite(value)},
        )
        self._drawing = {sampler.stage.name: sampler.with_ for sampler in self._stages if sampler.with_ is not None}
        self._array = LIB.llama_token_data_array()
        self._reference = ctypes.byref(self._array)
        self._data = np.empty(0, _CANDIDATE)
        self._ids, self._logits = self._data["id"], self._data["logit"]
        self._pointer: Any = None
        self._remembering = [sampler.pointer for sampler in self._stages if sampler.stage.window(settings)]
        self._last_n = max((stage.window(settings) for stage in stages), default=0)
        self.recent: list[int] = []  # what the stages that remember look at
        self._accept_last(past)

    def restart(self, past: Sequence[int], state: Mapping[str, float]) -> None:
        """Remembers what a new chain would after these tokens, with such a `state`."""
        self.state = state_of(self.settings, state)
        for sampler in self._remembering:
            LIB.llama_sampler_reset(sampler)
        self.recent.clear()
        self._accept_last(past)

    def _accept_last(self, past: Sequence[int]) -> None:
        for token in past[len(past) - min(self._last_n, len(past)) :]:
            self.accept(token)

    def close(self) -> None:
        for sampler in self._stages:
            sampler.close()
        self._stages = []

    @property
    def remembers(self) -> bool:
        """Whether what it leaves depends on the tokens before."""
        return bool(self._last_n)

    def accept(self, token: int) -> None:
        """Tells the stages that remember of a token that was taken."""
        if self._last_n:
            for sampler in self._remembering:
                LIB.llama_sampler_accept(sampler, token)
            self.recent.append(token)
            del self.recent[: -self._last_n]

    def take(self, drawn: Drawn, *, forced: bool) -> None:
        """The token joins the reply."""
        self.accept(drawn.id)
        self.remember(not forced, drawn.probability, drawn.state.get(BEFORE, 0.0))

    def remember(self, taken: bool, probability: float, before: float) -> None:
        """Tells mirostat and adaptive_p what became of the draw: a token that the dice did not take changes nothing. The
        probabilities are those after the chain, and `before` its last stage."""
        if self.state and taken:
            self.state = after(self.settings, self.native.drawn_with(before), probability)

    def begin(self, seed: int, step: int) -> None:
        """Hands the stages that draw or keep a state what they need of this step."""
        for name, with_ in self._drawing.items():
            if name == "xtc":
                with_.chance = dice.chance(seed, step)
            elif name == "mirostat":
                with_.mu = self.state[MU]
            elif name == "adaptive_p":
                with_.sum, with_.weight = self.state[SUM], self.state[WEIGHT]

    def _drawn_with(self, before: float) -> dict[str, float]:
        return {**self.state, BEFORE: before} if SUM in self.state else dict(self.state)

    def dry(self) -> dict[int, float]:
        """What DRY takes from the logit of each token that would go on a repetition."""
        found: dict[int, float] = {}
        sampler = next((sampler for sampler in self._stages if sampler.stage.name == "dry"), None)
        if sampler is not None and self.recent:
            recent = np.unique(np.array(self.recent, np.int32))
            data, array = self._filled(np.zeros(self.n_vocab, np.float32), recent), self._array
            array.data, array.size, array.selected, array.sorted = self._pointer, len(data), -1, False
            LIB.llama_sampler_apply(sampler.pointer, self._reference)
            found = {int(i): -float(logit) for i, logit in zip(data["id"], data["logit"], strict=True) if logit < 0}
        return found

    def needs(self) -> int | None:
        """How many of the highest raw logits hold all that can be among the top_k; None if only all of them do."""
        count: int = self._limit + len(self._biased) + len(set(self.recent))
        return count if self._limit and count * _PRESELECT_LIMIT <= self.n_vocab else None

    def looks_at(self) -> int | None:
        """How many of the highest raw logits native code begins with: those, or some of which one cannot move, under which it
        finds the floor of the first cut; None where it cannot tell what the chain may leave."""
        return 1 + len(set(self.moving)) if self._floor else self.needs()

    @property
    def moving(self) -> list[int]:
        """The ids whose logits sparse stages may change, some of them several times."""
        return self._biased + self.recent

    def apply(
        self,
        logits: NDArray[np.float32],
        near: NDArray[np.int32] | None,
        watched: Sequence[int],
        seed: int = 0,
        step: int = 0,
        mass: float | None = None,
        allowed: NDArray[np.int32] | None = None,
    ) -> Survivors:
        """Runs the stages over logits of shape (n_vocab,), which stay as they are.

        `near` are ids that hold at least the `needs()` highest logits; None is the whole vocabulary. What mass each stage
        leaves is only noted given that of all e^(logit - highest). The `allowed` ids are all that the chain is given, where a
        constraint stands before it; the logits of others are then -inf.
        """
        if near is not None and (moving := self.moving):
            near = np.union1d(near, np.array(moving, np.int32))
        total = self.n_vocab if allowed is None else len(allowed)
        if allowed is not None:
            near = allowed if near is None else np.intersect1d(near, allowed, assume_unique=True)
        self.begin(seed, step)
        data, array = self._filled(logits, near), self._array
        array.data, array.size, array.selected, array.sorted = self._pointer, len(data), -1, False
        stages: list[Stage] = []
        removed: dict[int, str] = {}
        alive = size = len(data)
        seen, masked, hidden = size == total, False, total - size
        weights = None if mass is None else _Weights(total, self.n_vocab, data, float(logits.max()), mass)
        at = Situation((), dice.chance(seed, step), self.state, n_vocab=self.n_vocab)
        base: Base | None = None
        lead: float | None = None
        for sampler, (rule, knob) in zip(self._stages, self.native.cuts, strict=True):
            stage = sampler.stage
            if weights is not None and len(stages) == self.native.hiding:
                base = data["id"][:size].copy(), data["logit"][:size].copy()
            if rule == HEAT and knob <= 0 and alive > 1:
                best = np.partition(data["logit"][:size], size - 2)[-2:]
                lead = float(best[1]) - float(best[0])
            if sampler.pointer is not None:
                LIB.llama_sampler_apply(sampler.pointer, self._reference)
                if stage.name == "xtc":  # it leaves the end of the array
                    data = data[size - array.size :]
            else:
                if stage.name == "adaptive_p":
                    data["p"][:size] = softmax(data["logit"][:size])
                left = APPLY[stage.name](Surviving(data["id"][:size], data["logit"][:size]), self.settings, at)
                ids, logits_left = left.ids.copy(), left.logits.copy()
                array.size, array.sorted = len(ids), False
                data["id"][: len(ids)], data["logit"][: len(ids)] = ids, logits_left
            now = size = array.size
            masked = masked or sampler.masks
            if masked:
                now = int(np.isfinite(data["logit"][:size]).sum())
            cut = now < alive or bool(stage.limit and not seen)
            if cut:
                seen = seen or not stage.sparse
                self._note_cut(data[:size], now, watched, stage.name, removed, seen)
                alive = now
            share = None if weights is None else weights.kept(data[:size], seen, cut=cut, moved=stage.moves)
            stages.append(Stage(stage.name, alive if seen else alive + hidden, share))
        rest = data[:size]
        if alive != size:
            rest = rest[np.isfinite(rest["logit"])]
        return Survivors(
            rest["id"], rest["logit"], stages, removed, rest["p"], base or (rest["id"], rest["logit"]), lead
        )

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
        self, rest: NDArray[Any], alive: int, watched: Sequence[int], name: str, removed: dict[int, str], seen: bool
    ) -> None:
        """Notes which of the watched ids a stage removed, when it left `alive` of `rest`. Unless all were `seen`, what is not
        in `rest` is only hidden."""
        if not seen:
            gone = set(rest["id"][np.isneginf(rest["logit"])].tolist())
            removed.update((i, name) for i in watched if i in gone and i not in removed)
            return
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


class NothingFits(ArithmeticError):
    """No token that a constraint allows has a finite logit."""


def apply_masked(
    logits: NDArray[np.float32],
    chain: Chain,
    mask: Mask,
    watched: Sequence[int],
    seed: int,
    step: int,
    log_mass: float,
) -> Survivors:
    """What the chain and the mask leave; `log_mass` is the logarithm of the sum of all e^logit.

    Where the mask follows the chain, and nothing is in both, it stands in front of it.

    Raises:
        NothingFits: see `Observer.draw`.
    """
    needs = chain.needs()
    is_allowed = mask.allowed(len(logits))
    allowed = is_allowed.nonzero()[0].astype(np.int32)
    best = float(logits[allowed].max(initial=-np.inf))
    if not math.isfinite(best):
        raise NothingFits
    mass = float(np.exp(logits[allowed].astype(np.float64) - best).sum())
    kept = min(math.exp(math.log(mass) + best - log_mass), 1.0)
    if mask.after_chain:
        near = None if needs is None else top(logits, needs)
        left = chain.apply(logits, near, watched, seed, step, math.exp(log_mass - float(logits.max())))
        stays = is_allowed[left.ids] & np.isfinite(left.logits)
        if stays.any():
            weights = np.exp(left.logits.astype(np.float64) - float(left.logits.max()))
            share = float(weights[stays].sum() / weights.sum())
            left.stages.append(Stage(GRAMMAR, int(stays.sum()), share, 1 - kept, len(allowed) == 1))
            removed = {i: GRAMMAR for i in watched if not is_allowed[i]} | left.removed
            return left._replace(
                ids=left.ids[stays], logits=left.logits[stays], removed=removed, before=left.before[stays]
            )
    masked = np.where(is_allowed, logits, np.float32(-np.inf))
    near = None if needs is None or needs >= len(allowed) else top(masked, needs)
    left = chain.apply(masked, near, watched, seed, step, mass, allowed)
    if not len(left.ids):
        raise NothingFits
    left.stages.insert(0, Stage(GRAMMAR, len(allowed), kept, 1 - kept, len(allowed) == 1))
    removed = left.removed | {i: GRAMMAR for i in watched if not is_allowed[i]}
    return left._replace(removed=removed)


def left_by(chain: Chain, logits: NDArray[np.float32], seed: int, step: int, mask: Mask | None) -> Survivors:
    """What the chain, and the mask, leave of logits of shape (n_vocab,), without what is only told.

    Raises:
        NothingFits: see `Observer.draw`.
    """
    if mask is not None:
        return apply_masked(logits, chain, mask, (), seed, step, float(logits.max()))
    needs = chain.needs()
    return chain.apply(logits, None if needs is None else top(logits, needs), (), seed, step)


class Observer:
    """Says what a row of logits means: the model's own softmax, the chain's effect, the draw.

    With the `largest_change` (see `Start.largest_change`) it tells near ties.

    Exponentials and their sums are float32, summed in pairs; logarithms and quotients are float64: all within 1e-5 of a
    float64 softmax.
    """

    def __init__(
        self,
        n_vocab: int,
        end_ids: Sequence[int],
        names: Labels,
        candidates: int,
        *,
        native: bool = True,
        largest_change: float | None = None,
    ) -> None:
        self._largest_change = largest_change
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

    def draw(
        self,
        logits: NDArray[np.float32],
        chain: Chain,
        seed: int,
        step: int,
        forced: int | None = None,
        mask: Mask | None = None,
    ) -> Drawn:
        """Draws step `step` of the reply with seed `seed` from logits of shape (n_vocab,), of what the `mask` allows.

        With a `forced` id, that one is chosen, whatever the dice, the chain and the mask say.

        Raises:
            NothingFits: all that the mask allows is impossible.
        """
        begins = chain.looks_at()
        change = None if self._largest_change is None else self._largest_change * chain.stretch
        if self._native is not None and (begins is not None or (mask is not None and not mask.after_chain)):
            chain.begin(seed, step)
            drawn = self._native.draw(logits, chain.native, begins or 0, chain.moving, seed, step, forced, mask, change)
            if drawn is not None:
                return drawn
        needs = chain.needs()
        near = top(logits, max(self._count, needs or 1))
        values = logits[near]
        order = (-values).argsort(kind="stable")
        leaders = near[order[: self._count]]
        if forced is not None and forced not in leaders:
            leaders = np.append(leaders, np.int32(forced))
        watched: list[int] = leaders.tolist()
        highest = float(values[order[0]])
        log_mass, entropy, p_end = self._own(logits, highest)
        if mask is None:
            preselected = None if needs is None else near
            left = chain.apply(logits, preselected, watched, seed, step, math.exp(log_mass))
        else:
            left = apply_masked(logits, chain, mask, watched, seed, step, highest + log_mass)
        ids, final, stages, removed, before, _, lead = left
        won, probability, noise, margin = draw(ids, final, seed, step, watched)
        margin = None if forced is not None else lead if margin is None else margin
        near_tie: bool | None = None if change is None else False
        if change and forced is None:
            allowed = np.ones(len(logits), np.bool_) if mask is None else mask.allowed(len(logits))
            base = left.base
            if needs is not None:  # what was left out of the array could come in
                row = logits if mask is None or mask.after_chain else np.where(allowed, logits, np.float32(-np.inf))
                more = np.setdiff1d(top(row, needs + 1, change), base[0], assume_unique=True)
                base = np.concatenate((base[0], more)), np.concatenate((base[1], row[more]))
            near_tie = is_near_tie(base, won, margin, chain.native.cuts, change, seed, step, allowed)
        chosen = won if forced is None else forced
        if chosen not in watched:
            watched.append(chosen)
        stages.append(Stage(DICE, 1, probability[won]))
        listed = logits[watched].tolist()
        scale, biases = highest + log_mass, chain.native.biases
        candidates = [
            Candidate(i, self._names[i], logit, logit - scale, probability[i], noise[i], removed.get(i), biases.get(i))
            for i, logit in zip(watched, listed, strict=True)
        ]
        place = watched.index(chosen)
        logit = listed[place]
        # Whatever is above a token that is near is near itself; a penalised token may come from anywhere.
        field = values if logit >= float(values[order[-1]]) else logits
        return Drawn(
            id=chosen,
            logit=logit,
            logprob=logit - scale,
            rank=int(np.count_nonzero(field > np.float32(logit))),
            probability=candidates[place].probability,
            entropy=entropy,
            p_end=p_end,
            stages=stages,
            candidates=candidates,
            state=chain.native.drawn_with(float(before[ids == chosen].sum())),
            margin=margin,
            near_tie=near_tie,
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
