"""What each stage of the chain leaves of a row of logits, in numpy, with llama.cpp's own arithmetic.

Logits, thresholds and running sums are float32, so that what stands on a border falls to the same side. Between equal logits
the lower id comes first; llama.cpp's sort leaves that open, and thresholds hold either way. The stages that llama.cpp lacks
(`p_less`, `top_h`, `min_k`) compute in float64. `observe.c` does the same for the stages that are ours, faster.
"""

from __future__ import annotations

import ctypes
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from termchat.decoding.biases import BANNED
from termchat.decoding.samplers import SamplerSettings
from termchat.decoding.stage_state import MU, SUM, WEIGHT
from termchat.decoding.stages import STAGES

Logits = NDArray[np.float32]


class Surviving(NamedTuple):
    """The tokens that are left, in llama.cpp's order: ids and logits, shape (n,) each."""

    ids: NDArray[np.int32]
    logits: Logits

    def place(self, token: int) -> int | None:
        """Where the token is, or None."""
        found = np.flatnonzero(self.ids == token)
        return int(found[0]) if len(found) else None

    def places(self, tokens: Iterable[int]) -> dict[int, int]:
        """Where those of these tokens are that are left."""
        return {token: place for token in tokens if (place := self.place(token)) is not None}


class Situation(NamedTuple):
    """What else a stage looks at. `bias` is what is added to the logits of tokens.

    `past` are the ids before the step; `chance` is the step's number in (0, 1) that xtc is thrown with; `state` is what
    mirostat and adaptive_p remember (`decoding.stage_state`); `dry` is the penalty of each token that would go on a repetition,
    as llama.cpp finds it; `n_vocab` is the number of all tokens.
    """

    past: Sequence[int]
    chance: float = 1.0
    state: Mapping[str, float] = {}
    dry: Mapping[int, float] = {}
    n_vocab: int = 0
    bias: Mapping[int, float] = {}


def window(past: Sequence[int], settings: SamplerSettings) -> Sequence[int]:
    """The tokens that the penalties look at; none where they are off."""
    return past[len(past) - min(STAGES["penalties"].window(settings), len(past)) :]


# --- llama.cpp's stages ----------------------------------------------------------------------------------------------


def _logit_bias(row: Surviving, _: SamplerSettings, at: Situation) -> Surviving:
    """llama.cpp masks what is banned."""
    found = row.places(at.bias)
    if not found:
        return row
    logits = row.logits.copy()
    for token, place in found.items():
        logits[place] += np.float32(at.bias[token])
    banned = [place for token, place in found.items() if at.bias[token] == BANNED]
    return Surviving(np.delete(row.ids, banned), np.delete(logits, banned))


def _penalties(row: Surviving, settings: SamplerSettings, at: Situation) -> Surviving:
    """A seen token's logit is divided by the repeat penalty, a negative one multiplied; then the others are subtracted."""
    counts = Counter(window(at.past, settings))
    found = row.places(counts)
    if not found:
        return row
    seen = np.fromiter(found.values(), np.int64)
    often = np.fromiter((counts[token] for token in found), np.float32)
    repeat = np.float32(settings.repeat_penalty)
    logits = row.logits.copy()
    values = logits[seen]
    values = np.where(values <= 0, values * repeat, values / repeat)
    logits[seen] = values - (often * np.float32(settings.frequency_penalty) + np.float32(settings.presence_penalty))
    return Surviving(row.ids, logits)


def _dry(row: Surviving, _: SamplerSettings, at: Situation) -> Surviving:
    found = row.places(at.dry)
    if not found:
        return row
    logits = row.logits.copy()
    for token, place in found.items():
        logits[place] -= np.float32(at.dry[token])
    return Surviving(row.ids, logits)


def _top_n_sigma(row: Surviving, settings: SamplerSettings, _: Situation) -> Surviving:
    """Tang et al., "Top-nσ: Not All Logits Are You Need" (arXiv 2411.07641). llama.cpp masks what it cuts."""
    if settings.top_n_sigma <= 0 or len(row.ids) <= 1:
        return row
    finite = row.logits[np.isfinite(row.logits)].astype(np.float64)
    kept = row.logits >= finite.max() - settings.top_n_sigma * finite.std()
    return Surviving(row.ids[kept], row.logits[kept])


def _top_k(row: Surviving, settings: SamplerSettings, _: Situation) -> Surviving:
    return _sorted(row, settings.top_k) if settings.top_k > 0 else row


def _typical_p(row: Surviving, settings: SamplerSettings, _: Situation) -> Surviving:
    """Meister et al., "Locally Typical Sampling" (arXiv 2202.00666)."""
    if settings.typical_p >= 1:
        return row
    row = _sorted(row, len(row.ids))
    p = softmax(row.logits)
    surprise = -logf(p)
    entropy = np.cumsum(p * surprise, dtype=np.float32)[-1]
    order = np.argsort(np.abs(surprise - entropy), kind="stable")
    count = int(np.searchsorted(np.cumsum(p[order], dtype=np.float32), np.float32(settings.typical_p), "right")) + 1
    return Surviving(row.ids[order[:count]], row.logits[order[:count]])


def _top_p(row: Surviving, settings: SamplerSettings, _: Situation) -> Surviving:
    """The token that reaches p is the last to stay."""
    p = np.float32(settings.top_p)
    if p >= 1:
        return row
    row, reached = nucleus(row)
    count = int(np.searchsorted(reached, p)) + 1
    return Surviving(row.ids[:count], row.logits[:count])


def _min_p(row: Surviving, settings: SamplerSettings, _: Situation) -> Surviving:
    if settings.min_p <= 0:
        return row
    kept = row.logits >= floor(row, np.float32(settings.min_p))
    return Surviving(row.ids[kept], row.logits[kept])


def _xtc(row: Surviving, settings: SamplerSettings, at: Situation) -> Surviving:
    """Exclude Top Choices: of the tokens above the threshold only the least likely stays, now and then."""
    if settings.xtc_threshold > 0.5 or len(row.ids) < 2 or at.chance > np.float32(settings.xtc_probability):
        return row
    row = _sorted(row, len(row.ids))
    above = int(np.count_nonzero(softmax(row.logits) >= np.float32(settings.xtc_threshold)))
    return Surviving(row.ids[max(above - 1, 0) :], row.logits[max(above - 1, 0) :])


def temperature(row: Surviving, settings: SamplerSettings, _: Situation) -> Surviving:
    """0 is greedy: the highest stays, as it was. With a range the entropy moves it."""
    value = np.float32(settings.temperature)
    reach = np.float32(settings.dynatemp_range)
    if reach > 0:
        if len(row.ids) <= 1:
            return row
        row = _sorted(row, len(row.ids))
        low, high = max(np.float32(0), value - reach), value + reach
        p = softmax(row.logits)
        with np.errstate(divide="ignore"):
            entropy = np.cumsum(np.where(p > 0, -p * logf(p), np.float32(0)), dtype=np.float32)[-1]
        most = -logf(np.float32(1) / np.float32(len(row.ids)))
        share = np.float32(math.pow(float(entropy / most), settings.dynatemp_exponent))
        value = np.float32(low + (high - low) * share)
    if value > 0:
        return Surviving(row.ids, row.logits / value)
    highest = int(row.logits.argmax())
    return Surviving(row.ids[highest : highest + 1], row.logits[highest : highest + 1])


def _mirostat(row: Surviving, settings: SamplerSettings, at: Situation) -> Surviving:
    """Basu et al., "Mirostat" (arXiv 2007.14966), both versions as llama.cpp has them, without its draw."""
    row = _sorted(row, len(row.ids))
    p, mu = softmax(row.logits), np.float32(at.state[MU])
    if settings.mirostat == 1:
        count = _zipf(p, mu, at.n_vocab)
    else:
        surprising = -log2f(p) > mu
        count = int(surprising.argmax()) if surprising.any() else len(p)
    return Surviving(row.ids[: max(count, 1)], row.logits[: max(count, 1)])


def _zipf(p: Logits, mu: np.float32, n_vocab: int) -> int:
    """How many tokens hold the surprise below mu if the likeliest follow Zipf's law, whose exponent is estimated."""
    most = min(_ZIPF - 1, len(p) - 1)
    ranks = np.arange(most, dtype=np.float32)
    t = logf((ranks + 2) / (ranks + 1))
    with np.errstate(all="ignore"):
        b = logf(p[:most] / p[1 : most + 1])
        exponent = (
            float(np.cumsum(t * b, dtype=np.float32)[-1] / np.cumsum(t * t, dtype=np.float32)[-1]) if most else math.nan
        )
        excess = exponent - 1
        try:
            kept = ((excess * 2.0 ** float(mu)) / (1 - n_vocab**-excess)) ** (1 / exponent)
        except (ZeroDivisionError, OverflowError):
            return len(p)
    if isinstance(kept, complex) or not kept > 0:
        return 1
    return min(int(min(kept, 2.0**31)), len(p))


_ZIPF = 100
"""The tokens from which the exponent is estimated (llama.cpp's `m`)."""


def _adaptive_p(row: Surviving, settings: SamplerSettings, at: Situation) -> Surviving:
    """Tokens near the target get the highest logits; the target moves against the average of what was drawn."""
    if settings.adaptive_target < 0:
        return row
    target = np.float32(min(settings.adaptive_target, 1.0))
    total, weight = np.float32(at.state[SUM]), np.float32(at.state[WEIGHT])
    aim = target if weight == 0 else min(max(np.float32(2) * target - total / weight, np.float32(0)), np.float32(1))
    distance = np.abs((softmax(row.logits) - aim) * np.float32(1.0 / 0.3))
    logits = np.float32(5) - np.float32(10) * distance * distance / (np.float32(1) + distance)
    return Surviving(row.ids, np.where(np.isfinite(row.logits), logits, row.logits))


# --- stages that llama.cpp lacks -------------------------------------------------------------------------------------


def _p_less(row: Surviving, settings: SamplerSettings, _: Situation) -> Surviving:
    """p ≥ Σ p²: at least as likely as two draws are to agree (Tan et al., "p-less Sampling", arXiv 2509.23234)."""
    if not settings.p_less:
        return row
    p = _probabilities(row)
    kept = p >= (p * p).sum()
    return Surviving(row.ids[kept], row.logits[kept]) if kept.any() else _sorted(row, 1)


def _top_h(row: Surviving, settings: SamplerSettings, _: Situation) -> Surviving:
    """The likeliest tokens, taken one by one until their entropy, renormalised, exceeds a share of the whole's.

    Potraghloo et al., "Top-H Decoding" (arXiv 2509.02510): q is the longest such prefix with H(q) ≤ α H(p).
    """
    if not 0 < settings.top_h < 1 or len(row.ids) < 2:
        return row
    row = _sorted(row, len(row.ids))
    p = _probabilities(row)
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = np.where(p > 0, -p * np.log(p), 0.0)
    mass = np.cumsum(p)
    entropies = np.cumsum(parts) / mass + np.log(mass)
    above = entropies > settings.top_h * parts.sum()
    above[0] = False  # one token has no entropy, but for rounding
    count = int(above.argmax()) if above.any() else len(p)
    return Surviving(row.ids[:count], row.logits[:count])


def _min_k(row: Surviving, settings: SamplerSettings, _: Situation) -> Surviving:
    """The cut is where the drop between neighbours, divided by its place, is steepest, or after τ / range tokens if those
    are more. Ding et al., "Min-k Sampling" (arXiv 2604.11012): w_i = (l_i - l_{i+1}) / (l_1 - l_n) / i.
    """
    finite = np.isfinite(row.logits)
    if settings.min_k <= 0 or np.count_nonzero(finite) < 2:
        return row
    row = _sorted(Surviving(row.ids[finite], row.logits[finite]), len(row.ids))
    logits = row.logits.astype(np.float64)
    reach = logits[0] - logits[-1]
    if reach <= 0:
        return row
    cliff = int(((logits[:-1] - logits[1:]) / np.arange(1, len(logits))).argmax()) + 1
    count = max(cliff, int(min(settings.min_k / reach, len(logits))))
    return Surviving(row.ids[:count], row.logits[:count])


APPLY: dict[str, Callable[[Surviving, SamplerSettings, Situation], Surviving]] = {
    "logit_bias": _logit_bias,
    "penalties": _penalties,
    "dry": _dry,
    "top_n_sigma": _top_n_sigma,
    "top_k": _top_k,
    "typical_p": _typical_p,
    "top_p": _top_p,
    "min_p": _min_p,
    "xtc": _xtc,
    "p_less": _p_less,
    "top_h": _top_h,
    "min_k": _min_k,
    "temperature": temperature,
    "mirostat": _mirostat,
    "adaptive_p": _adaptive_p,
}
"""Stage to what it leaves of a row."""

assert [*APPLY] == [stage.name for stage in STAGES.values() if not stage.draws]


# --- rows ------------------------------------------------------------------------------------------------------------


def _sorted(row: Surviving, count: int) -> Surviving:
    """The `count` highest, highest first."""
    order = np.lexsort((row.ids, -row.logits))[:count]
    return Surviving(row.ids[order], row.logits[order])


def softmax(logits: Logits) -> Logits:
    """Probabilities as llama.cpp rounds them, summed one after the other."""
    weights = expf(logits - logits.max())
    found: Logits = weights / np.cumsum(weights)[-1]
    return found


def nucleus(row: Surviving) -> tuple[Surviving, Logits]:
    """The row, highest first, and the running sum of its probabilities."""
    p = softmax(row.logits)
    order = np.argsort(-row.logits, kind="stable")
    return Surviving(row.ids[order], row.logits[order]), np.cumsum(p[order])


def floor(row: Surviving, min_p: np.float32) -> np.float32:
    """The lowest logit that is at least `min_p` times as likely as the highest."""
    return np.float32(row.logits.max() + logf(min_p))


def _probabilities(row: Surviving) -> NDArray[np.float64]:
    weights = np.exp(row.logits.astype(np.float64) - float(row.logits.max()))
    found: NDArray[np.float64] = weights / weights.sum()
    return found


# --- float32 as the C library rounds it ------------------------------------------------------------------------------

_NEARLY_HALF = 0.48
"""From so far off, in units of the last place, the C library may round to the other side."""

Values = TypeVar("Values", NDArray[np.float32], np.float32)


def _c_function(name: str) -> Callable[[float], float] | None:
    try:
        function = getattr(ctypes.CDLL(None), name)
    except (OSError, AttributeError, TypeError):  # Windows has no such handle
        return None
    function.argtypes, function.restype = [ctypes.c_float], ctypes.c_float
    return function  # type: ignore[no-any-return]


def _rounded(function: Callable[[float], float] | None, values: Values, wide: NDArray[np.float64]) -> Values:
    """Float64 results in float32. Only those that are left in doubt are asked of the C library, one by one."""
    found = np.atleast_1d(wide).astype(np.float32)
    if function is not None:
        with np.errstate(invalid="ignore"):
            doubtful = np.flatnonzero(np.abs(wide - found) > _NEARLY_HALF * np.spacing(np.abs(found)))
        found[doubtful] = [function(value) for value in np.atleast_1d(values)[doubtful].tolist()]
    return found if isinstance(values, np.ndarray) else np.float32(found[0])


_EXPF, _LOGF, _LOG2F = map(_c_function, ("expf", "logf", "log2f"))


def expf(values: Values) -> Values:
    return _rounded(_EXPF, values, np.exp(np.asarray(values, np.float64)))


def logf(values: Values) -> Values:
    with np.errstate(divide="ignore"):
        return _rounded(_LOGF, values, np.log(np.asarray(values, np.float64)))


def log2f(values: Values) -> Values:
    with np.errstate(divide="ignore"):
        return _rounded(_LOG2F, values, np.log2(np.asarray(values, np.float64)))
