"""The sampler chain, and one observed step.

`Chain` holds settings and memory; `Observer` turns a row of logits into a `Token` record. Native code (`observe`) does it where
it was compiled and can; else the stages are those of `decoding.arithmetic`.

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
from termchat.decoding.records import UNKNOWN, Candidate, PackedCandidates, Stage, Token
from termchat.decoding.samplers import SamplerSettings
from termchat.decoding.stage_state import BEFORE, SUM, state_of, update_state
from termchat.decoding.stages import DICE, SamplerStage, chain_of, first_full, has_floor
from termchat.engine.llama import observe
from termchat.engine.llama.dry import Breakers, Tails, compute_penalties
from termchat.engine.llama.native import LIB
from termchat.engine.llama.native_samplers import NativeSamplers
from termchat.engine.llama.observe import Labels, Mask
from termchat.engine.llama.softmax import Exponentials, Row
from termchat.engine.port import EngineError

np.seterr(invalid="ignore")  # masked tokens make 0 * -inf, which is looked for; a context manager costs 10 us a step

_PRESELECT_LIMIT = 4  # preselect while it takes less than 1/4 of the vocabulary
_GROUP = 64
_MOST_STAGES = 16  # more than there are
_ROOM = 4096  # bytes for the candidates of a step, to begin with
_CUTS = ("top_k", "min_p", "top_n_sigma")
"""The stages whose survivors native code finds in a row without the chain having seen all of it."""


class Survivors(NamedTuple):
    """The result of a chain: ids and final logits, shape (n,) each, and the counts of its `stages`.

    `removed` names the stage that cut a watched id. `before` are the probabilities that adaptive_p was given, shape (n,), zeros
    without it. `base` is the row that the first cut was given, `lead` the distance of the two highest logits at temperature 0.
    """

    ids: NDArray[np.int32]
    logits: NDArray[np.float32]
    stages: list[Stage]
    removed: dict[int, str]
    before: NDArray[np.float32]
    base: Surviving
    lead: float | None = None


def find_top(logits: NDArray[np.float32], count: int, below: float = 0.0) -> NDArray[np.int32]:
    """Return ids in ascending order that hold the `count` highest logits, and all that tie with or come near the last, or are
    no more than that `below` it.

    The count-th largest maximum over disjoint groups is a lower bound for the count-th largest value; one pass finds it,
    and what reaches it is then looked for where a maximum does.
    """
    rows = len(logits) // _GROUP
    if count >= len(logits):
        return np.arange(len(logits), dtype=np.int32)
    if rows <= count:
        bound = np.partition(logits, len(logits) - count)[len(logits) - count] - np.float32(below)
        return np.flatnonzero(logits >= bound).astype(np.int32)
    grid = logits[: rows * _GROUP].reshape(_GROUP, rows)
    highest = grid.max(axis=0)
    ordered = highest.copy()  # methods, here and below: a step finds numpy's wrappers gone from the caches
    ordered.partition(rows - count)
    bound = ordered[rows - count] - np.float32(below)
    columns = (highest >= bound).nonzero()[0]  # nothing in the other ones reaches it
    row, column = (grid.take(columns, axis=1) >= bound).nonzero()
    near = (row * rows + columns[column]).astype(np.int32)
    rest = rows * _GROUP + np.flatnonzero(logits[rows * _GROUP :] >= bound).astype(np.int32)
    return np.concatenate((near, rest))


def _cut_of(stage: SamplerStage, settings: SamplerSettings, place: int) -> Cut:
    """Return how a stage cuts, for near ties. Its `place` is counted from the first full stage: those before it move single
    logits, by amounts that do not depend on logits."""
    if not stage.is_active(settings) or (stage.sparse and place < 0):
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
    """The stages of one set of settings, with their memory of the last tokens.

    `state` is the memory of mirostat and adaptive_p; missing parts begin anew. `breakers` find the texts at which DRY stops;
    without them DRY cannot be on. `bias` is added to the logits of tokens, by id: the logit biases of the settings and the
    model's own (`Model.bias`).

    A difference of two logits that changes by x, as each of them may, changes by `stretch` times x at most after the penalties.

    Raises:
        EngineError: DRY is on, without `breakers`.
    """

    def __init__(
        self,
        settings: SamplerSettings,
        n_vocab: int,
        past: Sequence[int],
        *,
        state: Mapping[str, float] = {},
        breakers: Breakers | None = None,
        bias: Mapping[int, float] = {},
    ) -> None:
        self.settings, self.n_vocab, self.bias = settings, n_vocab, bias
        self.biases = {token: value for token, value in bias.items() if math.isfinite(value)}
        self.stages = stages = chain_of(settings, biased=bool(bias))
        # Up to this stage, tokens that were not preselected are only left out of the row, not removed from the chain.
        first = first_full(settings)
        self.hiding = stages.index(first) if first is not None else len(stages)
        self._limit = getattr(settings, first.limit) if first is not None and first.limit else 0
        self.has_floor = has_floor(settings)
        self.cuts = tuple(_cut_of(stage, settings, place - self.hiding) for place, stage in enumerate(stages))
        names = {stage.name for stage in stages if stage.is_active(settings)}
        most = max(settings.repeat_penalty, 1 / settings.repeat_penalty)
        self.stretch = 2 * most - 1 if "penalties" in names else 1.0
        self._breakers: Tails | None = None
        if "dry" in names:
            if breakers is None:
                why = "dry needs the texts of the model's tokens, which this server does not tell"
                raise EngineError("settings", why, "turn dry off")
            self._breakers = breakers.of(settings.dry_sequence_breakers)
        library = observe.load()
        self.samplers = NativeSamplers(library, self.stages, settings, n_vocab, self.bias) if library else None
        self._last_n = max((stage.find_window(settings) for stage in stages), default=0)
        self._recent: list[int] = []  # the tokens that penalties and DRY count
        self.restart_memory(past, state)

    def restart_memory(self, past: Sequence[int], state: Mapping[str, float]) -> None:
        """Take the memory of a new chain after these tokens, with such a `state`."""
        self.state = state_of(self.settings, state)
        if self.samplers is not None:
            self.samplers.reset()
        self._recent.clear()
        for token in past[len(past) - min(self._last_n, len(past)) :]:
            self.accept_token(token)

    def close(self) -> None:
        if self.samplers is not None:
            self.samplers.close()

    @property
    def remembers(self) -> bool:
        """Whether the result depends on the tokens before."""
        return bool(self._last_n)

    def accept_token(self, token: int) -> None:
        """Count a taken token for penalties and DRY."""
        if self._last_n:
            if self.samplers is not None:
                self.samplers.accept_token(token)
            self._recent.append(token)
            del self._recent[: -self._last_n]

    def take_token(self, drawn: Token, *, forced: bool) -> None:
        """Add the token to the reply."""
        self.accept_token(drawn.id)
        self.remember_draw(not forced, drawn.probability, drawn.state.get(BEFORE, 0.0))

    def remember_draw(self, taken: bool, probability: float, before: float) -> None:
        """Update mirostat and adaptive_p after a draw: a token that the dice did not take changes nothing. The probabilities
        are those after the chain, and `before` its last stage."""
        if self.state and taken:
            self.state = update_state(self.settings, self.state_with(before), probability)

    def state_with(self, before: float) -> dict[str, float]:
        """Return the state of a record whose token had the probability `before` the last stage."""
        return {**self.state, BEFORE: before} if SUM in self.state else dict(self.state)

    def compute_dry_penalties(self) -> dict[int, float]:
        """Return the amount that DRY subtracts from the logit of each token that would continue a repetition."""
        breakers = self._breakers
        return {} if breakers is None else compute_penalties(self.settings, breakers, self._recent)

    def count_needed(self) -> int | None:
        """Return how many of the highest raw logits hold all that can be among the top_k; None if only all of them do."""
        count: int = self._limit + len(self.bias) + len(set(self._recent))
        return count if self._limit and count * _PRESELECT_LIMIT <= self.n_vocab else None

    def looks_at(self) -> int | None:
        """Return how many of the highest raw logits native code begins with: those, or some of which one cannot move, under
        which it finds the floor of the first cut; None if it cannot tell what the chain may leave."""
        return 1 + len(set(self.moving)) if self.has_floor else self.count_needed()

    @property
    def moving(self) -> list[int]:
        """The ids whose logits sparse stages may change, some of them several times."""
        return [*self.bias, *self._recent]

    def apply_stages(
        self,
        logits: NDArray[np.float32],
        near: NDArray[np.int32] | None,
        watched: Sequence[int],
        seed: int = 0,
        step: int = 0,
        mass: float | None = None,
        allowed: NDArray[np.int32] | None = None,
    ) -> Survivors:
        """Run the stages over logits of shape (n_vocab,), which stay as they are.

        `near` are ids that hold at least the `needs()` highest logits; None is the whole vocabulary. The share of the mass that
        a stage leaves is only computed given the `mass` of all e^(logit - highest). The `allowed` ids are all that the chain is
        given, where a constraint stands before it; the logits of others are then -inf.
        """
        if near is not None and (moving := self.moving):
            near = np.union1d(near, np.array(moving, np.int32))
        total = self.n_vocab if allowed is None else len(allowed)
        if allowed is not None:
            near = allowed if near is None else np.intersect1d(near, allowed, assume_unique=True)
        row = (
            Surviving(np.arange(self.n_vocab, dtype=np.int32), logits)
            if near is None
            else Surviving(near, logits[near])
        )
        penalties = self.compute_dry_penalties()
        at = Situation(self._recent, dice.draw_chance(seed, step), self.state, penalties, self.n_vocab, self.bias)
        stages: list[Stage] = []
        removed: dict[int, str] = {}
        alive, hidden, masked = len(row.ids), total - len(row.ids), False
        highest = 0.0 if mass is None else float(logits.max())
        unseen = max(mass - _sum_mass(row, highest), 0.0) if mass is not None and hidden else 0.0  # of what is left out
        weight: float | None = None  # of all; None where logits changed since it was weighed
        base: Surviving | None = None
        lead: float | None = None
        before = np.zeros(0, np.float32)
        for number, stage in enumerate(self.stages):
            given = row
            if number == self.hiding:
                base = row
            if stage.name == "adaptive_p":
                before = softmax(row.logits)
            if self.cuts[number].rule == HEAT and self.cuts[number].knob <= 0 and alive > 1:
                second, first = np.partition(row.logits, len(row.logits) - 2)[-2:].tolist()
                lead = first - second
            row = APPLY[stage.name](row, self.settings, at)
            masked = masked or stage.masks(self.settings)
            now = int(np.isfinite(row.logits).sum()) if masked else len(row.ids)
            cuts_hidden = bool(hidden) and not stage.sparse and (now < alive or bool(stage.limit))
            share = 1.0
            if now < alive or cuts_hidden:
                hidden = 0 if cuts_hidden else hidden
                left = row.drop_masked() if masked else row
                gone = set(watched) - set(np.intersect1d(left.ids, np.array(watched, np.int32)).tolist())
                out = gone if not hidden else gone.intersection(given.ids.tolist())
                removed = dict.fromkeys(out, stage.name) | removed
                alive = now
                if mass is not None:
                    if weight is None:
                        new = float(given.logits.max())
                        unseen *= math.exp(min(highest - new, 700.0)) if unseen else 0.0
                        highest, weight = new, _sum_mass(given, new) + unseen
                    unseen = unseen if hidden else 0.0
                    kept = given.keep_only(np.isin(given.ids, left.ids)) if stage.moves else left
                    whole, weight = weight, _sum_mass(kept, highest) + unseen
                    share = min(weight / whole, 1.0)
            if stage.moves:
                weight = None
            stages.append(Stage(stage.name, alive + hidden, None if mass is None else share))
        if len(before) != len(row.ids):
            before = np.zeros(len(row.ids), np.float32)
        if alive != len(row.ids):
            finite = np.isfinite(row.logits)
            row, before = row.keep_only(finite), before[finite]
        return Survivors(*row, stages, removed, before, row if base is None else base, lead)

    def run(
        self,
        logits: NDArray[np.float32],
        seed: int,
        step: int,
        mask: Mask | None = None,
        watched: Sequence[int] = (),
        near: NDArray[np.int32] | None = None,
        log_mass: float | None = None,
    ) -> Survivors:
        """Run the stages over logits of shape (n_vocab,), under a mask, over no more of them than it takes.

        `near` are ids that hold at least the `needs()` highest logits, if they are known. `log_mass` is the logarithm of the
        sum of all e^(logit - highest); without it no share of the mass is told. Where the mask follows the chain, and nothing
        is in both, it stands in front of it.

        Raises:
            NothingFits: no token that the mask allows has a finite logit.
        """
        needs = self.count_needed()
        near = None if needs is None else find_top(logits, needs) if near is None else near
        if mask is None:
            return self.apply_stages(
                logits, near, watched, seed, step, None if log_mass is None else math.exp(log_mass)
            )
        is_allowed = mask.unpack_allowed(len(logits))
        allowed = is_allowed.nonzero()[0].astype(np.int32)
        best, highest = float(logits[allowed].max(initial=-np.inf)), float(logits.max())
        if not math.isfinite(best):
            raise NothingFits
        scale = highest + (log_mass or 0.0)
        mass = float(np.exp(logits[allowed].astype(np.float64) - best).sum())
        kept = min(math.exp(math.log(mass) + best - scale), 1.0)
        off = dict.fromkeys((i for i in watched if not is_allowed[i]), GRAMMAR)
        if mask.after_chain:
            left = self.apply_stages(logits, near, watched, seed, step, math.exp(scale - highest))
            stays = is_allowed[left.ids] & np.isfinite(left.logits)
            if stays.any():
                weights = np.exp(left.logits.astype(np.float64) - float(left.logits.max()))
                share = float(weights[stays].sum() / weights.sum())
                left.stages.append(Stage(GRAMMAR, int(stays.sum()), share, 1 - kept, len(allowed) == 1))
                return left._replace(
                    ids=left.ids[stays],
                    logits=left.logits[stays],
                    removed=off | left.removed,
                    before=left.before[stays],
                )
        masked = np.where(is_allowed, logits, np.float32(-np.inf))
        near = None if needs is None or needs >= len(allowed) else find_top(masked, needs)
        left = self.apply_stages(masked, near, watched, seed, step, mass, allowed)
        if not len(left.ids):
            raise NothingFits
        left.stages.insert(0, Stage(GRAMMAR, len(allowed), kept, 1 - kept, len(allowed) == 1))
        return left._replace(removed=left.removed | off)


def _sum_mass(row: Surviving, highest: float) -> float:
    """Return the mass of a row in which the `highest` logit weighs 1."""
    return float(np.exp(row.logits.astype(np.float64) - highest).sum())


class NothingFits(ArithmeticError):
    """No token that a constraint allows has a finite logit."""


class Observer:
    """Says what a row of logits means: the model's own softmax, the chain's effect, the draw.

    `names` are the labels of all tokens. The `candidates` highest logits are watched. With the `largest_change` (see
    `Start.largest_change`) it tells near ties. With `native` it calls native code, where that was compiled.

    In numpy exponentials and their sums are float32, summed in pairs; logarithms and quotients are float64: all within 1e-5 of
    a float64 softmax.
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
        self._library = observe.load() if native else None
        self._chain: Chain | None = None
        self._mask: Mask | None = None
        self._masked: Row | None = None
        self._stage_names: list[str] = []
        self._packed_names: list[Any] = []
        if self._library is not None:
            self._packing = observe.NativePacking(names=ctypes.addressof(names.pointers))
            self._make_room(_ROOM)
            ids, numbers = ctypes.c_int32 * (self._count + 2), ctypes.c_double * (self._count + 2)
            self._step = observe.NativeStep(
                ends=(ctypes.c_int32 * len(end_ids))(*end_ids),
                apply=ctypes.cast(LIB.llama_sampler_apply, ctypes.c_void_p).value,
                n_vocab=n_vocab,
                n_ends=len(end_ids),
                candidates=self._count,
                ids=ids(),
                logits_of=numbers(),
                logprobs=numbers(),
                probabilities=numbers(),
                noise=numbers(),
                biases=numbers(),
                removed_by=ids(),
                survivors=(ctypes.c_int32 * _MOST_STAGES)(),
                masses=(ctypes.c_double * _MOST_STAGES)(),
            )

    def draw(
        self,
        logits: NDArray[np.float32],
        chain: Chain,
        seed: int,
        step: int,
        forced: int | None = None,
        mask: Mask | None = None,
    ) -> Token:
        """Draw step `step` of the reply with seed `seed` from logits of shape (n_vocab,), among the tokens that the `mask`
        allows; return its record without position, text and times.

        With a `forced` id, that one is chosen, whatever the dice, the chain and the mask say.

        Raises:
            NothingFits: all that the mask allows is impossible.
        """
        change = None if self._largest_change is None else self._largest_change * chain.stretch
        if self._library is not None and chain.samplers is not None:
            drawn = self.draw_natively(logits, chain, seed, step, forced, mask, change)
            if drawn is not None:
                return drawn
        return self._draw_in_numpy(logits, chain, seed, step, forced, mask, change)

    # --- native code -------------------------------------------------------------------------------------------------

    def draw_natively(
        self,
        logits: Row,
        chain: Chain,
        seed: int,
        number: int,
        forced: int | None = None,
        mask: Mask | None = None,
        change: float | None = None,
    ) -> Token | None:
        """Draw as `draw` does; None for an unusual step: too few finite logits, many ties, or many tokens left; or if the
        chain does not tell what it `looks_at` and no `mask` allows only few tokens.

        `change`: see `is_near_tie`; None leaves near ties open.
        """
        needs = chain.looks_at()
        if needs is None and (mask is None or mask.after_chain):
            return None
        step, moving = self._step, chain.moving
        assert self._library is not None
        assert chain.samplers is not None
        step.change = change or 0.0
        if chain is not self._chain:
            self._use_chain(chain, chain.samplers)
        if chain.samplers.changes:
            chain.samplers.prepare_step(dice.draw_chance(seed, number), chain.state, chain.compute_dry_penalties())
        if mask is not self._mask:
            self._use_mask(mask)
        if moving:
            ids = np.array(moving, np.int32)
            step.moving = ids.ctypes.data
        address = logits.__array_interface__["data"][0]
        observe.ASKED.pack_into(
            step, 0, address, seed, number, needs or 0, -1 if forced is None else forced, len(moving)
        )
        if not self._library.termchat_observe(ctypes.byref(step)):
            return None
        stages = list(map(Stage, self._stage_names, step.survivors, step.masses))
        if mask is not None:
            grammar = Stage(GRAMMAR, step.n_kept, step.kept, 1 - step.kept_of_all, step.n_allowed == 1)
            stages.insert(len(stages) if mask.after_chain else 0, grammar)
        stages.append(Stage(DICE, 1, step.won))
        chosen = step.chosen
        return Token(
            number, UNKNOWN, step.ids[chosen], b"", "", step.logits_of[chosen], step.logprobs[chosen], step.rank,
            step.probabilities[chosen], step.entropy, step.p_end, UNKNOWN, forced is not None, stages,
            PackedCandidates(self._pack_candidates()), chain.state_with(step.before), 0, 0, phase=None,
            margin=None if math.isnan(step.margin) else step.margin,
            near_tie=None if change is None else bool(step.near_tie),
        )  # fmt: skip

    def _pack_candidates(self) -> bytes:
        """Return the watched tokens in msgpack."""
        assert self._library is not None
        step, packing = ctypes.byref(self._step), ctypes.byref(self._packing)
        while (length := self._library.termchat_pack(step, packing)) <= 0:
            if length:
                self._names.point_label(self._step.ids[-1 - length])
            else:
                self._make_room(2 * len(self._out))
        return ctypes.string_at(self._out, length)

    def _make_room(self, size: int) -> None:
        self._out = ctypes.create_string_buffer(size)
        self._packing.out, self._packing.room = ctypes.addressof(self._out), size

    def _use_mask(self, mask: Mask | None) -> None:
        """Mask by another constraint from now on."""
        if mask is not None and self._masked is None:
            self._masked = np.empty(self._step.n_vocab, np.float32)
            self._step.masked = self._masked.ctypes.data
        self._step.allowed = None if mask is None else mask.bits.ctypes.data
        self._step.after = mask is not None and mask.after_chain
        self._mask = mask

    def _use_chain(self, chain: Chain, samplers: NativeSamplers) -> None:
        """Draw through another chain from now on."""
        step, cuts, names = self._step, chain.cuts, [stage.name for stage in chain.stages]
        step.samplers, step.n_stages = ctypes.addressof(samplers.pointers), len(names)
        step.masking = sum(stage.masks(chain.settings) << number for number, stage in enumerate(chain.stages))
        step.hiding, step.cut, step.share = chain.hiding, 0, 0.0
        if chain.has_floor:
            first = names[chain.hiding]
            step.cut, step.share = _CUTS.index(first), getattr(chain.settings, first)
        step.rules = (ctypes.c_int32 * len(cuts))(*(cut.rule for cut in cuts))
        step.knobs = (ctypes.c_double * len(cuts))(*(cut.knob for cut in cuts))
        step.n_biased = count = len(chain.biases)
        step.biased = (ctypes.c_int32 * count)(*chain.biases)
        step.bias = (ctypes.c_double * count)(*chain.biases.values())
        self._stage_names = names
        packed = [observe.packed_text(name) for name in (*names, GRAMMAR)]
        addresses = (ctypes.c_void_p * len(packed))(*map(ctypes.addressof, packed))
        self._packed_names = [*packed, addresses]
        self._packing.stages = ctypes.addressof(addresses)
        self._chain = chain

    # --- numpy -------------------------------------------------------------------------------------------------------

    def _draw_in_numpy(
        self,
        logits: NDArray[np.float32],
        chain: Chain,
        seed: int,
        step: int,
        forced: int | None,
        mask: Mask | None,
        change: float | None,
    ) -> Token:
        needs = chain.count_needed()
        near = find_top(logits, max(self._count, needs or 1))
        values = logits[near]
        order = (-values).argsort(kind="stable")
        leaders = near[order[: self._count]]
        if forced is not None and forced not in leaders:
            leaders = np.append(leaders, np.int32(forced))
        watched: list[int] = leaders.tolist()
        highest = float(values[order[0]])
        log_mass, entropy, p_end = self._measure_row(logits, highest)
        left = chain.run(logits, seed, step, mask, watched, near, log_mass)
        won, probability, noise, margin = draw(left.ids, left.logits, seed, step, watched)
        margin = None if forced is not None else left.lead if margin is None else margin
        near_tie: bool | None = None if change is None else False
        if change and forced is None:
            allowed = np.ones(len(logits), np.bool_) if mask is None else mask.unpack_allowed(len(logits))
            base = left.base
            if needs is not None:  # what was left out of the array could come in
                row = logits if mask is None or mask.after_chain else np.where(allowed, logits, np.float32(-np.inf))
                more = np.setdiff1d(find_top(row, needs + 1, change), base.ids, assume_unique=True)
                base = Surviving(np.concatenate((base.ids, more)), np.concatenate((base.logits, row[more])))
            near_tie = is_near_tie(base, won, margin, chain.cuts, change, seed, step, allowed)
        chosen = won if forced is None else forced
        if chosen not in watched:
            watched.append(chosen)
        left.stages.append(Stage(DICE, 1, probability[won]))
        listed = logits[watched].tolist()
        scale, biases = highest + log_mass, chain.biases
        candidates = [
            Candidate(
                i, self._names[i], logit, logit - scale, probability[i], noise[i], left.removed.get(i), biases.get(i)
            )
            for i, logit in zip(watched, listed, strict=True)
        ]
        logit = listed[watched.index(chosen)]
        # Whatever is above a token that is near is near itself; a penalised token may come from anywhere.
        field = values if logit >= float(values[order[-1]]) else logits
        rank = int(np.count_nonzero(field > np.float32(logit)))
        state = chain.state_with(float(left.before[left.ids == chosen].sum()))
        return Token(
            step, UNKNOWN, chosen, b"", "", logit, logit - scale, rank, probability[chosen], entropy, p_end, UNKNOWN,
            forced is not None, left.stages, candidates, state, 0, 0, phase=None, margin=margin, near_tie=near_tie,
        )  # fmt: skip

    def _measure_row(self, logits: NDArray[np.float32], highest: float) -> tuple[float, float, float]:
        """Return the model's own softmax: log of the sum of exp(logit - highest), entropy in bits, mass on end tokens."""
        mass = self._exponentials.compute_sum(logits, highest)
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
