"""Why not this token: what each stage of the chain did to it, and what it would have taken.

The chain is run again in numpy, with llama.cpp's own arithmetic: logits, thresholds and running sums are float32, so that
what stands on a border falls to the same side. Probabilities and the dice are float64. Between equal logits the lower id
comes first; llama.cpp's sort leaves that open, and thresholds hold either way.
"""

from __future__ import annotations

import ctypes
import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from termchat.decoding import dice
from termchat.decoding.records import Explanation, Penalised, Remedy, StageEffect
from termchat.decoding.samplers import KNOBS, SamplerSettings
from termchat.decoding.stages import DICE, STAGES, chain_of

Logits = NDArray[np.float32]

_NUDGES = (0.0, 1e-7, 1e-6, 1e-5, 1e-4)
"""How far into its interval a temperature is moved, as a share of it, until float32 agrees that it will do."""


class Surviving(NamedTuple):
    """The tokens that are left, in llama.cpp's order: ids and logits, shape (n,) each."""

    ids: NDArray[np.int32]
    logits: Logits

    def place(self, token: int) -> int | None:
        """Where the token is, or None."""
        found = np.flatnonzero(self.ids == token)
        return int(found[0]) if len(found) else None


def explain(
    logits: Logits,
    token: int,
    past: Sequence[int],
    settings: SamplerSettings,
    seed: int,
    step: int,
    name: Callable[[int], str],
) -> Explanation:
    """Everything about `token` where the model gave `logits`, shape (n_vocab,), after the ids `past`.

    `seed` and `step` are those of the dice; `name` makes a label of an id.
    """
    asked = _Asked(logits, past, seed, step)
    rows = asked.rows(settings)
    winner = asked.winner(_last(rows))
    stages = _stages(rows, token, winner)
    penalised = _penalised(asked.before("penalties", rows), rows["penalties"], token, past, settings)
    own = logits.astype(np.float64)
    highest = float(own.max())
    mass = math.log(float(np.exp(own - highest).sum()))
    final = stages[-2].probability
    return Explanation(
        id=token,
        text=name(token),
        logit=float(logits[token]),
        logprob=float(own[token]) - highest - mass,
        rank=int(np.count_nonzero(logits > logits[token])),
        probability=0.0 if final is None else final,
        noise=float(asked.noise(np.array([token], np.int32))[0]),
        stages=stages,
        removed_by=next((stage.name for stage in stages[:-1] if stage.cut), None),
        penalised=penalised,
        remedies=[] if token == winner else _remedies(asked, token, settings, penalised),
        winner=winner,
        winner_text=name(winner),
    )


# --- the chain -------------------------------------------------------------------------------------------------------


class _Asked:
    """One step, which can be drawn under any settings."""

    def __init__(self, logits: Logits, past: Sequence[int], seed: int, step: int) -> None:
        self._all = Surviving(np.arange(len(logits), dtype=np.int32), logits)
        self._past, self._seed, self._step = past, seed, step

    def rows(self, settings: SamplerSettings) -> dict[str, Surviving]:
        """What is left after each stage, in the order of the chain."""
        row, rows = self._all, {}
        for stage in chain_of(settings):
            row = rows[stage.name] = _APPLY[stage.name](row, settings, self._past)
        return rows

    def before(self, stage: str, rows: dict[str, Surviving]) -> Surviving:
        """What comes into a stage."""
        names = list(rows)
        place = names.index(stage)
        return rows[names[place - 1]] if place else self._all

    def noise(self, ids: NDArray[np.int32]) -> NDArray[np.float64]:
        """The dice's numbers for these tokens, shape (n,)."""
        return dice.gumbel(self._seed, self._step, ids)

    def winner(self, row: Surviving) -> int:
        """What the dice take."""
        scores = row.logits.astype(np.float64)
        scores -= scores.max()
        return int(row.ids[(scores + self.noise(row.ids)).argmax()])


def _last(rows: dict[str, Surviving]) -> Surviving:
    return next(reversed(rows.values()))


def _window(past: Sequence[int], settings: SamplerSettings) -> Sequence[int]:
    """The tokens that the penalties look at; none where they are off."""
    return past[len(past) - min(STAGES["penalties"].window(settings), len(past)) :]


def _penalties(row: Surviving, settings: SamplerSettings, past: Sequence[int]) -> Surviving:
    """A seen token's logit is divided by the repeat penalty, a negative one multiplied; then the others are subtracted."""
    counts = Counter(_window(past, settings))
    if not counts:
        return row
    seen = np.fromiter(counts, np.int32)
    often = np.fromiter(counts.values(), np.float32)
    repeat = np.float32(settings.repeat_penalty)
    logits = row.logits.copy()
    values = logits[seen]
    values = np.where(values <= 0, values * repeat, values / repeat)
    logits[seen] = values - (often * np.float32(settings.frequency_penalty) + np.float32(settings.presence_penalty))
    return Surviving(row.ids, logits)


def _top_k(row: Surviving, settings: SamplerSettings, _: Sequence[int]) -> Surviving:
    return _sorted(row, settings.top_k) if settings.top_k > 0 else row


def _top_p(row: Surviving, settings: SamplerSettings, _: Sequence[int]) -> Surviving:
    """The token that reaches p is the last to stay."""
    p = np.float32(settings.top_p)
    if p >= 1:
        return row
    row, reached = _nucleus(row)
    count = int(np.searchsorted(reached, p)) + 1
    return Surviving(row.ids[:count], row.logits[:count])


def _min_p(row: Surviving, settings: SamplerSettings, _: Sequence[int]) -> Surviving:
    if settings.min_p <= 0:
        return row
    kept = row.logits >= _floor(row, np.float32(settings.min_p))
    return Surviving(row.ids[kept], row.logits[kept])


def _temperature(row: Surviving, settings: SamplerSettings, _: Sequence[int] = ()) -> Surviving:
    """0 is greedy: the highest stays, as it was."""
    if settings.temperature > 0:
        return Surviving(row.ids, row.logits / np.float32(settings.temperature))
    highest = int(row.logits.argmax())
    return Surviving(row.ids[highest : highest + 1], row.logits[highest : highest + 1])


_APPLY: dict[str, Callable[[Surviving, SamplerSettings, Sequence[int]], Surviving]] = {
    "penalties": _penalties,
    "top_k": _top_k,
    "top_p": _top_p,
    "min_p": _min_p,
    "temperature": _temperature,
}
"""Stage to its arithmetic: what it leaves of a row, after these ids."""


def _sorted(row: Surviving, count: int) -> Surviving:
    """The `count` highest, highest first."""
    order = np.argsort(-row.logits, kind="stable")[:count]
    return Surviving(row.ids[order], row.logits[order])


def _nucleus(row: Surviving) -> tuple[Surviving, Logits]:
    """The row, highest first, and the running sum of its probabilities, as llama.cpp rounds them: one after the other."""
    weights = expf(row.logits - row.logits.max())
    total = np.cumsum(weights)[-1]
    order = np.argsort(-row.logits, kind="stable")
    return Surviving(row.ids[order], row.logits[order]), np.cumsum(weights[order] / total)


def _floor(row: Surviving, min_p: np.float32) -> np.float32:
    """The lowest logit that is at least `min_p` times as likely as the highest."""
    return np.float32(row.logits.max() + logf(min_p))


# --- what was done to the token --------------------------------------------------------------------------------------


def _stages(rows: dict[str, Surviving], token: int, winner: int) -> list[StageEffect]:
    """A stage each, then the dice."""
    effects = []
    alive = True
    for name, row in rows.items():
        place = row.place(token)
        logit = probability = None
        if place is not None:
            weights = np.exp(row.logits.astype(np.float64) - float(row.logits.max()))
            logit, probability = float(row.logits[place]), float(weights[place] / weights.sum())
        effects.append(StageEffect(name, logit, probability, len(row.ids), alive and place is None))
        alive = place is not None
    won = token == winner
    effects.append(StageEffect(DICE, effects[-1].logit if won else None, 1.0 if won else None, 1, alive and not won))
    return effects


def _penalised(
    before: Surviving, after: Surviving, token: int, past: Sequence[int], settings: SamplerSettings
) -> Penalised | None:
    window = _window(past, settings)
    start = len(past) - len(window)
    positions = [start + i for i, seen in enumerate(window) if seen == token]
    return Penalised(float(_logit(before, token)) - float(_logit(after, token)), positions) if positions else None


# --- what it would have taken ----------------------------------------------------------------------------------------


def _remedies(asked: _Asked, token: int, settings: SamplerSettings, penalised: Penalised | None) -> list[Remedy]:
    """First what keeps the token, stage by stage; then the temperature at which it wins; then doing without a penalty."""
    found: list[Remedy] = []
    turned = settings
    rows = asked.rows(turned)
    for stage in list(rows):
        if rows[stage].place(token) is not None:
            continue
        if stage not in _THRESHOLDS:  # no knob keeps it
            return found
        knob, sign, threshold = _THRESHOLDS[stage]
        value = threshold(asked.before(stage, rows), token)
        turned = _turned(turned, knob, value)
        rows = asked.rows(turned)
        found.append(Remedy(knob, sign, value, wins=asked.winner(_last(rows)) == token))
    if found and found[-1].wins and found[-1].knob == "temperature":
        found.pop()  # it wins at the lowest temperature; up to which one is said below
    if not (found and found[-1].wins):
        found.append(_winning_temperature(asked, asked.before("temperature", rows), token, turned.temperature))
    if penalised is not None and penalised.loss > 0:
        found += _without_penalty(asked, token, settings)
    return found


def _turned(settings: SamplerSettings, knob: str, value: object) -> SamplerSettings:
    return msgspec.structs.replace(settings, **{knob: KNOBS[knob].check(value)})


def _top_k_from(row: Surviving, token: int) -> float:
    return float(np.count_nonzero(row.logits >= _logit(row, token)))


def _top_p_from(row: Surviving, token: int) -> float:
    """The first number above what the tokens before it reach; 1, which is off, if they reach all."""
    ordered, reached = _nucleus(row)
    place = int(np.count_nonzero(ordered.logits >= _logit(row, token))) - 1
    return float(min(np.nextafter(reached[place - 1], np.float32(2)), np.float32(1)))


def _min_p_to(row: Surviving, token: int) -> float:
    """The last number whose floor is not above it."""
    logit = _logit(row, token)
    value = np.float32(np.exp(np.float64(logit) - np.float64(row.logits.max())))
    while value > 0 and logit < _floor(row, value):
        value = np.nextafter(value, np.float32(0))
    while value < 1 and logit >= _floor(row, above := np.nextafter(value, np.float32(1))):
        value = above
    return float(value)


def _not_greedy(_: Surviving, __: int) -> float:
    return KNOBS["temperature"].gap


_THRESHOLDS: dict[str, tuple[str, str, Callable[[Surviving, int], float]]] = {
    "top_k": ("top_k", ">=", _top_k_from),
    "top_p": ("top_p", ">=", _top_p_from),
    "min_p": ("min_p", "<=", _min_p_to),
    "temperature": ("temperature", ">=", _not_greedy),
}
"""Stage to its knob, the side that keeps a token, and the value from which it does, given what comes into the stage."""


def _logit(row: Surviving, token: int) -> np.float32:
    return row.logits[row.ids == token][0]  # type: ignore[no-any-return]


def _winning_temperature(asked: _Asked, row: Surviving, token: int, present: float) -> Remedy:
    """The temperature nearest to the present one at which the dice take a token of `row`.

    Token j wins at T if for every other i: l_j / T + g_j >= l_i / T + g_i. That bounds 1 / T from one side by each i.
    """
    knob = KNOBS["temperature"]
    low, high = _interval(row, asked.noise(row.ids), token)
    low, high = max(low, knob.gap), min(high, knob.high)
    upward = present - low < high - present
    near, far, end = (low, high, knob.high) if upward else (high, low, knob.low)

    def wins(value: float) -> bool:
        return asked.winner(_temperature(row, SamplerSettings(temperature=value))) == token

    tried = (near + nudge * (far - near) for nudge in _NUDGES) if low <= high else iter(())
    value = next(filter(wins, tried), None)
    if value is None and wins(knob.low):  # greedy takes what the lowest temperature above it may not
        return Remedy("temperature", "<=", knob.low, wins=True)
    if value is None:
        return Remedy("temperature", ">=", None, wins=True)
    return Remedy("temperature", ">=" if upward else "<=", value, wins=True, until=None if wins(end) else far)


def _interval(row: Surviving, noise: NDArray[np.float64], token: int) -> tuple[float, float]:
    """The temperatures at which the token wins, 0 to infinity, empty if the first is above the second."""
    mine, masked = row.ids == token, np.isneginf(row.logits)
    if (mine & masked).any():
        return math.inf, 0.0
    others = ~mine & ~masked
    ahead = float(_logit(row, token)) - row.logits[others].astype(np.float64)
    needed = noise[others] - noise[mine]  # the bound: ahead / T >= needed
    above, below = ahead > 0, ahead < 0
    if (needed[~above & ~below] > 0).any():
        return math.inf, 0.0
    least = float((needed[above] / ahead[above]).max(initial=0.0))
    most = float((needed[below] / ahead[below]).min(initial=math.inf))
    if most <= 0:
        return math.inf, 0.0
    return 1 / most, 1 / least if least > 0 else math.inf


def _without_penalty(asked: _Asked, token: int, settings: SamplerSettings) -> list[Remedy]:
    """The first penalty without which, all else as it is, the token is kept where it was cut, or wins; if there is one."""
    kept = _last(asked.rows(settings)).place(token) is not None
    penalties = STAGES["penalties"]
    for name in (*penalties.switches, penalties.remembers):
        off = KNOBS[name].off
        assert isinstance(off, (int, float))
        if getattr(settings, name) == off:
            continue
        row = _last(asked.rows(_turned(settings, name, off)))
        wins = asked.winner(row) == token
        if wins or (not kept and row.place(token) is not None):
            return [Remedy(name, "=", float(off), wins)]
    return []


# --- float32 as the C library rounds it ------------------------------------------------------------------------------

_NEARLY_HALF = 0.48
"""From so far off, in units of the last place, the C library may round to the other side."""


def _own(name: str) -> Callable[[float], float] | None:
    try:
        function = getattr(ctypes.CDLL(None), name)
    except (OSError, AttributeError, TypeError):  # Windows has no such handle
        return None
    function.argtypes, function.restype = [ctypes.c_float], ctypes.c_float
    return function  # type: ignore[no-any-return]


_LOGF, _EXPF = _own("logf"), _own("expf")


def logf(value: np.float32) -> np.float32:
    """The natural logarithm of a number above 0."""
    return np.float32(np.log(np.float64(value)) if _LOGF is None else _LOGF(float(value)))


def expf(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """e to the power of each, shape (n,). Only those that float64 leaves in doubt are asked of the C library, one by one."""
    wide = np.exp(values.astype(np.float64))
    found = wide.astype(np.float32)
    if _EXPF is not None:
        doubtful = np.flatnonzero(np.abs(wide - found) > _NEARLY_HALF * np.spacing(found))
        found[doubtful] = [_EXPF(value) for value in values[doubtful].tolist()]
    return found
