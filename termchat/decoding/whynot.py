"""Why not this token: what each stage of the chain did to it, and what it would have taken.

The chain is run again in numpy (`arithmetic`). Probabilities and the dice are float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from termchat.decoding import dice
from termchat.decoding.arithmetic import (
    APPLY,
    Logits,
    Situation,
    Surviving,
    compute_probabilities,
    count_window,
    find_floor,
    logf,
    softmax,
    sum_nucleus,
    temperature,
)
from termchat.decoding.biases import BANNED
from termchat.decoding.constraint import GRAMMAR
from termchat.decoding.draw import draw
from termchat.decoding.records import Explanation, Misfit, Penalised, Remedy, StageEffect, TokenBias
from termchat.decoding.samplers import KNOBS, SamplerSettings
from termchat.decoding.stage_state import state_of
from termchat.decoding.stages import DICE, LOGIT_BIAS, STAGES, chain_of

_NUDGES = (0.0, 1e-7, 1e-6, 1e-5, 1e-4)
"""How far into its interval a temperature is moved, as a share of it, until float32 agrees that it will do."""


def explain_token(
    logits: Logits,
    token: int,
    past: Sequence[int],
    settings: SamplerSettings,
    seed: int,
    step: int,
    name: Callable[[int], str],
    *,
    state: Mapping[str, float] = {},
    dry: Mapping[int, float] = {},
    biases: Sequence[TokenBias] = (),
    allowed: NDArray[np.bool_] | None = None,
    after_chain: bool = False,
    misfit: Misfit | None = None,
) -> Explanation:
    """Explain `token` where the model gave `logits`, shape (n_vocab,), after the ids `past`.

    `seed` and `step` are those of the dice; `name` makes a label of an id. `state` is the step's (`stage_state`), `dry` what
    DRY takes from tokens under these settings (`Situation`), `biases` what the logit biases come to. A constraint has `allowed`
    tokens, shape (n_vocab,), before the chain or `after_chain`, and says why it does not allow this one: `misfit`.
    """
    if allowed is not None and not np.isfinite(logits[allowed]).any():
        allowed = None  # it was dropped there
    bias = {one.id: BANNED if one.bias is None else one.bias for one in biases}
    at = Situation(past, dice.draw_chance(seed, step), state, dry, len(logits), bias)
    whole = Surviving(np.arange(len(logits), dtype=np.int32), logits)
    asked = _Step(whole, at, seed, step, {one.id: one for one in biases}, allowed, after_chain)
    rows = asked.run_chain(settings)
    winner = asked.find_winner(rows)
    stages = _list_effects(rows, token, winner)
    penalised = _find_penalties(rows, token, count_window(past, settings), len(past))
    own = logits.astype(np.float64)
    highest = float(own.max())
    mass = math.log(float(np.exp(own - highest).sum()))
    final = stages[-2].probability if len(stages) > 1 else float(np.exp(own[token] - highest - mass))
    return Explanation(
        id=token,
        text=name(token),
        logit=float(logits[token]),
        logprob=float(own[token]) - highest - mass,
        rank=int(np.count_nonzero(logits > logits[token])),
        probability=0.0 if final is None else final,
        noise=float(dice.draw_gumbel(seed, step, np.array([token], np.int32))[0]),
        stages=stages,
        removed_by=next((stage.name for stage in stages[:-1] if stage.cut), None),
        penalised=penalised,
        remedies=[] if token == winner else _list_remedies(asked, token, settings, penalised),
        winner=winner,
        winner_text=name(winner),
        misfit=misfit,
        bias=asked.biases.get(token),
    )


# --- the chain -------------------------------------------------------------------------------------------------------

_MODEL = ""
"""Stands for the model before all stages."""

Rows = dict[str, Surviving]
"""The row after each stage, in the order of the chain, `_MODEL` first."""


class _Step(NamedTuple):
    """One step, which can be drawn under any settings; `whole` is the model's row."""

    whole: Surviving
    at: Situation
    seed: int
    step: int
    biases: dict[int, TokenBias]
    allowed: NDArray[np.bool_] | None
    after_chain: bool

    def without_bias(self, token: int) -> _Step:
        """Return the step without a logit bias for the token but the model's own."""
        biases = {i: one for i, one in self.biases.items() if i != token or one.model}
        return self._replace(biases=biases, at=self.at._replace(bias={i: self.at.bias[i] for i in biases}))

    def run_chain(self, settings: SamplerSettings) -> Rows:
        """Return the rows under these settings."""
        rows = {_MODEL: self.whole}
        if self.allowed is None:
            return rows | self._run_stages(settings, self.whole)
        if self.after_chain:
            after = rows | self._run_stages(settings, self.whole)
            left = _last_row(after).drop_masked()
            left = left.keep_only(self.allowed[left.ids])
            if len(left.ids):
                return after | {GRAMMAR: left}
        fitting = self.whole.keep_only(self.allowed & np.isfinite(self.whole.logits))
        return rows | {GRAMMAR: fitting} | self._run_stages(settings, fitting)

    def _run_stages(self, settings: SamplerSettings, row: Surviving) -> Rows:
        rows = {}
        masked = ~np.isfinite(self.whole.logits)  # by the model: no stage removes those
        at = self.at._replace(state=state_of(settings, self.at.state))
        for stage in chain_of(settings, biased=bool(at.bias)):
            row = APPLY[stage.name](row, settings, at)
            rows[stage.name] = row.keep_only(np.isfinite(row.logits) | masked[row.ids])
        return rows

    def find_winner(self, rows: Rows) -> int:
        """Return the token that the dice take of the last row."""
        row = _last_row(rows)
        return draw(row.ids, row.logits, self.seed, self.step).id


def _last_row(rows: Rows) -> Surviving:
    return next(reversed(rows.values()))


def _row_before(stage: str, rows: Rows) -> Surviving:
    """Return the row that a stage is given."""
    names = list(rows)
    return rows[names[names.index(stage) - 1]]


# --- what was done to the token --------------------------------------------------------------------------------------


def _list_effects(rows: Rows, token: int, winner: int) -> list[StageEffect]:
    """Return the effect of each stage, then of the dice."""
    effects = []
    alive = True
    for name, row in [*rows.items()][1:]:
        place = row.find_place(token)
        logit = probability = None
        if place is not None:
            logit, probability = float(row.logits[place]), float(compute_probabilities(row)[place])
        effects.append(StageEffect(name, logit, probability, len(row.ids), alive and place is None))
        alive = place is not None
    won = token == winner
    effects.append(StageEffect(DICE, effects[-1].logit if won else None, 1.0 if won else None, 1, alive and not won))
    return effects


def _find_penalties(rows: Rows, token: int, seen: Sequence[int], count: int) -> Penalised | None:
    """Return what the penalties, which have `seen` the last of `count` ids, took; None where they are not in the chain, or get
    the token no more."""
    positions = [count - len(seen) + i for i, other in enumerate(seen) if other == token]
    place = rows["penalties"].find_place(token) if "penalties" in rows else None
    if not positions or place is None:
        return None
    loss = float(_find_logit(_row_before("penalties", rows), token)) - float(rows["penalties"].logits[place])
    return Penalised(loss, positions)


# --- what it would have taken ----------------------------------------------------------------------------------------


def _list_remedies(asked: _Step, token: int, settings: SamplerSettings, penalised: Penalised | None) -> list[Remedy]:
    """Find what keeps the token, stage by stage; then the temperature at which it wins; then the penalty to do without."""
    remedies: list[Remedy] = []
    turned = settings
    rows = asked.run_chain(turned)
    if LOGIT_BIAS in rows and rows[LOGIT_BIAS].find_place(token) is None and not asked.biases[token].model:
        asked = asked.without_bias(token)
        rows = asked.run_chain(turned)
        remedies.append(Remedy(LOGIT_BIAS, ">=", 0.0, wins=asked.find_winner(rows) == token))
    for stage in [*rows][1:]:
        if rows[stage].find_place(token) is not None:
            continue
        if stage not in _THRESHOLDS:  # no knob keeps it
            return remedies
        knob, sign, threshold = _THRESHOLDS[stage]
        value = threshold(_row_before(stage, rows), token, asked.at)
        if not KNOBS[knob].low <= value <= KNOBS[knob].high:  # only without the stage
            sign, value = "=", float(KNOBS[knob].off)  # type: ignore[arg-type]
        turned = _turn_knob(turned, knob, value)
        rows = asked.run_chain(turned)
        remedies.append(Remedy(knob, sign, value, wins=asked.find_winner(rows) == token))
    if remedies and remedies[-1].wins and remedies[-1].knob == "temperature":
        remedies.pop()  # it wins at the lowest temperature; up to which one is said below
    if not (remedies and remedies[-1].wins) and [*rows][-1] == "temperature" and not turned.dynatemp_range:
        remedies.append(_winning_temperature(asked, _row_before("temperature", rows), token, turned.temperature))
    bias = asked.biases.get(token)
    if (penalised is not None and penalised.loss > 0) or token in asked.at.dry or (bias is not None and bias.bias):
        remedies += _without_penalty(asked, token, settings)
    return remedies


def _turn_knob(settings: SamplerSettings, knob: str, value: object) -> SamplerSettings:
    return msgspec.structs.replace(settings, **{knob: KNOBS[knob].check(value)})


def _top_p_from(row: Surviving, token: int, _: Situation) -> float:
    """Return the first number above the sum of the tokens before it; 1, which is off, if they reach all."""
    ordered, reached = sum_nucleus(row)
    place = int(np.count_nonzero(ordered.logits >= _find_logit(row, token))) - 1
    return float(min(np.nextafter(reached[place - 1], np.float32(2)), np.float32(1)))


def _min_p_to(row: Surviving, token: int, _: Situation) -> float:
    """Return the last number whose floor is not above the token."""
    logit = _find_logit(row, token)
    value = np.float32(np.exp(np.float64(logit) - np.float64(row.logits.max())))
    while value > 0 and logit < find_floor(row, value):
        value = np.nextafter(value, np.float32(0))
    while value < 1 and logit >= find_floor(row, above := np.nextafter(value, np.float32(1))):
        value = above
    return float(value)


def _top_n_sigma_from(row: Surviving, token: int, _: Situation) -> float:
    """Return a number a little above the border, whose mean llama.cpp sums in float32."""
    finite = row.logits[np.isfinite(row.logits)].astype(np.float64)
    return float((finite.max() - float(_find_logit(row, token))) / finite.std() * (1 + _BLUR))


def _typical_p_from(row: Surviving, token: int, _: Situation) -> float:
    p = softmax(row.logits)
    surprise = -logf(p)
    distance = np.abs(surprise - np.cumsum(p * surprise, dtype=np.float32)[-1])
    nearer = float(p[distance < distance[row.ids == token][0]].sum())
    return min(nearer * (1 + _BLUR) + _BLUR, 1.0)


def _top_h_from(row: Surviving, token: int, _: Situation) -> float:
    logits = np.sort(row.logits.astype(np.float64))[::-1]
    p = np.exp(logits - logits[0])
    p /= p.sum()
    kept = p[: int(np.count_nonzero(logits >= float(_find_logit(row, token))))]
    parts, mass = -kept * np.log(kept), kept.sum()
    return min(float((parts.sum() / mass + math.log(mass)) / -(p[p > 0] * np.log(p[p > 0])).sum()) * (1 + _BLUR), 1.0)


def _min_k_from(row: Surviving, token: int, _: Situation) -> float:
    place = int(np.count_nonzero(row.logits >= _find_logit(row, token)))
    finite = row.logits[np.isfinite(row.logits)].astype(np.float64)
    return float(place * (finite.max() - finite.min()) * (1 + _BLUR))


_BLUR = 1e-5
"""By so much of itself a border may be off that is computed in another way than the stage does it."""

_THRESHOLDS: dict[str, tuple[str, str, Callable[[Surviving, int, Situation], float]]] = {
    "top_n_sigma": ("top_n_sigma", ">=", _top_n_sigma_from),
    "top_k": ("top_k", ">=", lambda row, token, _: float(np.count_nonzero(row.logits >= _find_logit(row, token)))),
    "typical_p": ("typical_p", ">=", _typical_p_from),
    "top_p": ("top_p", ">=", _top_p_from),
    "min_p": ("min_p", "<=", _min_p_to),
    "xtc": ("xtc_probability", "<=", lambda _, __, at: at.chance * (1 - _BLUR)),
    "p_less": ("p_less", "=", lambda *_: 0.0),
    "top_h": ("top_h", ">=", _top_h_from),
    "min_k": ("min_k", ">=", _min_k_from),
    "temperature": ("temperature", ">=", lambda *_: KNOBS["temperature"].gap),
}
"""Stage to its knob, the side that keeps a token, and the value from which it does, given what comes into the stage."""


def _find_logit(row: Surviving, token: int) -> np.float32:
    return row.logits[row.ids == token][0]  # type: ignore[no-any-return]


def _winning_temperature(asked: _Step, row: Surviving, token: int, present: float) -> Remedy:
    """Return the temperature nearest to the present one at which the dice take a token of `row`.

    Token j wins at T if for every other i: l_j / T + g_j >= l_i / T + g_i. That bounds 1 / T from one side by each i.
    """
    knob = KNOBS["temperature"]
    low, high = _find_interval(row, dice.draw_gumbel(asked.seed, asked.step, row.ids), token)
    low, high = max(low, knob.gap), min(high, knob.high)
    upward = present - low < high - present
    near, far, end = (low, high, knob.high) if upward else (high, low, knob.low)

    def wins(value: float) -> bool:
        heated = temperature(row, SamplerSettings(temperature=value), Situation(()))
        return asked.find_winner({"temperature": heated}) == token

    tried = (near + nudge * (far - near) for nudge in _NUDGES) if low <= high else iter(())
    value = next(filter(wins, tried), None)
    if value is None and wins(knob.low):  # greedy takes what the lowest temperature above it may not
        return Remedy("temperature", "<=", knob.low, wins=True)
    if value is None:
        return Remedy("temperature", ">=", None, wins=True)
    return Remedy("temperature", ">=" if upward else "<=", value, wins=True, until=None if wins(end) else far)


def _find_interval(row: Surviving, noise: NDArray[np.float64], token: int) -> tuple[float, float]:
    """Return the temperatures at which the token wins, 0 to infinity, empty if the first is above the second."""
    mine, masked = row.ids == token, np.isneginf(row.logits)
    if (mine & masked).any():
        return math.inf, 0.0
    others = ~mine & ~masked
    ahead = float(_find_logit(row, token)) - row.logits[others].astype(np.float64)
    needed = noise[others] - noise[mine]  # the bound: ahead / T >= needed
    above, below = ahead > 0, ahead < 0
    if (needed[~above & ~below] > 0).any():
        return math.inf, 0.0
    least = float((needed[above] / ahead[above]).max(initial=0.0))
    most = float((needed[below] / ahead[below]).min(initial=math.inf))
    if most <= 0:
        return math.inf, 0.0
    return 1 / most, 1 / least if least > 0 else math.inf


def _without_penalty(asked: _Step, token: int, settings: SamplerSettings) -> list[Remedy]:
    """Return the first penalty without which, all else as it is, the token is kept where it was cut, or wins."""
    kept = _last_row(asked.run_chain(settings)).find_place(token) is not None
    tries: list[tuple[str, float, _Step, SamplerSettings]] = []
    bias = asked.biases.get(token)
    if bias is not None and (bias.bias or 0) < 0:
        tries.append((LOGIT_BIAS, 0.0, asked.without_bias(token), settings))
    for name in (knob for stage in STAGES.values() if stage.remembers for knob in (*stage.switches, stage.remembers)):
        off = float(KNOBS[name].off)  # type: ignore[arg-type]
        if getattr(settings, name) != off:
            tries.append((name, off, asked, _turn_knob(settings, name, off)))
    for name, value, step, turned in tries:
        rows = step.run_chain(turned)
        wins = step.find_winner(rows) == token
        if wins or (not kept and _last_row(rows).find_place(token) is not None):
            return [Remedy(name, "=", value, wins)]
    return []
