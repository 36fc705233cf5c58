"""The stages of the sampler chain in numpy, with llama.cpp's own arithmetic.

Logits, thresholds and running sums are float32, so that a token on a border falls to the same side. Between equal logits
the lower id comes first; llama.cpp's sort leaves that open, and thresholds hold either way. The stages that llama.cpp lacks
(`p_less`, `top_h`, `min_k`) compute in float64. `observe.c` does the same faster, with llama.cpp's samplers where it has them.
"""

from __future__ import annotations

import ctypes
import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from heapq import heapify, heappop, heapreplace
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from termchat.decoding.samplers import SamplerSettings
from termchat.decoding.stage_state import MU, SUM, WEIGHT
from termchat.decoding.stages import STAGES

Logits = NDArray[np.float32]


class Surviving(NamedTuple):
    """A row of tokens in llama.cpp's order: ids and logits, shape (n,) each. Masked tokens stay with a logit of -inf."""

    ids: NDArray[np.int32]
    logits: Logits

    def find_place(self, token: int) -> int | None:
        """Return the index of a token."""
        return self.find_places([token]).get(token)

    def find_places(self, tokens: Collection[int]) -> dict[int, int]:
        """Return the indices of these tokens; ids missing from the row are skipped."""
        if not tokens:
            return {}
        places = np.isin(self.ids, np.fromiter(tokens, np.int32)).nonzero()[0]
        return dict(zip(self.ids[places].tolist(), places.tolist(), strict=True))

    def drop_masked(self) -> Surviving:
        """Return the tokens that can still be drawn."""
        return self.keep_only(np.isfinite(self.logits))

    def keep_only(self, places: NDArray[Any] | slice | list[int]) -> Surviving:
        """Return the tokens at these indices, or where a mask of shape (n,) is true."""
        return Surviving(self.ids[places], self.logits[places])


class Situation(NamedTuple):
    """The inputs of a stage besides logits and settings.

    `past` are the ids before the step; `chance` is the number in (0, 1) that xtc is thrown with at the step; `state` is the
    memory of mirostat and adaptive_p (`decoding.stage_state`); `dry` is DRY's penalty of each token that would continue a
    repetition; `n_vocab` is the size of the vocabulary; `bias` is added to the logits of tokens.
    """

    past: Sequence[int]
    chance: float = 1.0
    state: Mapping[str, float] = {}
    dry: Mapping[int, float] = {}
    n_vocab: int = 0
    bias: Mapping[int, float] = {}


def count_window(past: Sequence[int], settings: SamplerSettings) -> Sequence[int]:
    """Return the tokens that the penalties count; none while they are off."""
    return past[len(past) - min(STAGES["penalties"].find_window(settings), len(past)) :]


# --- llama.cpp's stages ----------------------------------------------------------------------------------------------


def _penalties(row: Surviving, settings: SamplerSettings, at: Situation) -> Surviving:
    """Divide a seen token's logit by the repeat penalty, or multiply a negative one; then subtract the others."""
    counts = Counter(count_window(at.past, settings))
    places = row.find_places(counts)
    if not places:
        return row
    seen = np.fromiter(places.values(), np.int64)
    often = np.fromiter((counts[token] for token in places), np.float32)
    repeat = np.float32(settings.repeat_penalty)
    logits = row.logits.copy()
    values = logits[seen]
    values = np.where(values <= 0, values * repeat, values / repeat)
    logits[seen] = values - (often * np.float32(settings.frequency_penalty) + np.float32(settings.presence_penalty))
    return Surviving(row.ids, logits)


def _add(row: Surviving, amounts: Mapping[int, float], sign: int) -> Surviving:
    """Add amounts to the logits of tokens, or subtract them; a banned token is masked."""
    places = row.find_places(amounts)
    if not places:
        return row
    logits = row.logits.copy()
    for token, place in places.items():
        logits[place] += np.float32(sign * amounts[token])
    return Surviving(row.ids, logits)


def _top_n_sigma(row: Surviving, settings: SamplerSettings, _: Situation) -> Surviving:
    """Mask as Tang et al., "Top-nσ: Not All Logits Are You Need" (arXiv 2411.07641), cut; llama.cpp sorts, too."""
    if settings.top_n_sigma <= 0 or len(row.ids) <= 1:
        return row
    finite = row.logits[np.isfinite(row.logits)]
    highest, factor = finite.max(), np.float32(settings.top_n_sigma)
    wide = finite.astype(np.float64).std()
    floor = np.float32(highest - factor * np.float32(wide))
    error = factor * wide * math.sqrt(len(finite)) * 2.0**-18  # far above that of float32 sums
    if ((finite >= floor - error) & (finite <= floor + error)).any():
        floor = highest - factor * _sum_deviation(finite)
    return _sort_descending(Surviving(row.ids, np.where(row.logits >= floor, row.logits, np.float32(-np.inf))))


def _sum_deviation(logits: Logits) -> np.float32:
    """Return the standard deviation of float32 sums: the more logits, the slower and the less exact."""
    count = np.float32(len(logits))
    squares = (logits - np.cumsum(logits)[-1] / count).astype(np.float64) ** 2
    total = 0.0
    for square in squares.tolist():
        wide = total + square
        high = wide * (2.0**29 + 1)
        total = high - (high - wide)  # rounded to float32
    return np.float32(np.sqrt(np.float32(total) / count))


def _top_k(row: Surviving, settings: SamplerSettings, _: Situation) -> Surviving:
    """Keep the highest; among equal logits, those that C++'s partial sort (libstdc++) keeps."""
    if settings.top_k <= 0:
        return row
    highest = _sort_highest(row, settings.top_k + 1)
    if settings.top_k <= _HEAPED and (highest.logits[1:] == highest.logits[:-1]).any():
        return row.keep_only(_partial_sort(row.logits.tolist(), min(settings.top_k, len(row.ids))))
    return highest.keep_only(np.s_[: settings.top_k])


_HEAPED = 128
"""Up to so many tokens llama.cpp sorts by a heap."""


class _Entry(float):
    """A logit and its place in the row; comparisons leave the place out."""

    __slots__ = ("place",)
    place: int


def _make_entry(value: float, place: int) -> _Entry:
    entry = _Entry(value)
    entry.place = place
    return entry


def _partial_sort(values: list[float], count: int) -> list[int]:
    """Return the places of the `count` highest values, highest first. `heapq` moves entries as libstdc++ does."""
    heap = [_make_entry(values[place], place) for place in range(count)]
    heapify(heap)
    for place in range(count, len(values)):
        if values[place] > heap[0]:
            heapreplace(heap, _make_entry(values[place], place))
    return [heappop(heap).place for _ in range(count)][::-1]


def _typical_p(row: Surviving, settings: SamplerSettings, _: Situation) -> Surviving:
    """Meister et al., "Locally Typical Sampling" (arXiv 2202.00666)."""
    row = _sort_descending(row)
    p = softmax(row.logits)
    surprise = -logf(p)
    entropy = np.cumsum(p * surprise, dtype=np.float32)[-1]
    order = _order_of_unordered(len(p)) if np.isnan(entropy) else _argsort(np.abs(surprise - entropy))
    count = int(np.searchsorted(np.cumsum(p[order], dtype=np.float32), np.float32(settings.typical_p), "right")) + 1
    return row.keep_only(order[:count])


def _order_of_unordered(count: int) -> NDArray[np.int64]:
    """Return the order in which C++'s sort (libstdc++) leaves NaNs.

    A masked token, or one whose probability is 0 in float32, makes the entropy of typical_p NaN, and so all distances.
    """
    order = np.arange(count)
    begin, end = 0, count
    parts = [(begin, end)]
    while parts:
        begin, end = parts.pop()
        while end - begin > 16:  # fewer are sorted by insertion, which moves nothing
            middle = begin + (end - begin) // 2
            order[[begin, middle]] = order[[middle, begin]]
            order[begin + 1 : end] = order[begin + 1 : end][::-1]
            cut = begin + 1 + (end - begin - 1) // 2
            parts.append((cut, end))
            end = cut
    return order


def _top_p(row: Surviving, settings: SamplerSettings, _: Situation) -> Surviving:
    """Keep the likeliest tokens up to the one that reaches p."""
    p = np.float32(settings.top_p)
    if p >= 1:
        return row
    row, reached = sum_nucleus(row)
    return row.keep_only(np.s_[: int(np.searchsorted(reached, p)) + 1])


def _min_p(row: Surviving, settings: SamplerSettings, _: Situation) -> Surviving:
    if settings.min_p <= 0:
        return row
    return row.keep_only(row.logits >= find_floor(row, np.float32(settings.min_p)))


def _xtc(row: Surviving, settings: SamplerSettings, at: Situation) -> Surviving:
    """Exclude Top Choices: now and then keep only the least likely of the tokens above the threshold."""
    if settings.xtc_threshold > 0.5 or len(row.ids) < 2 or at.chance > np.float32(settings.xtc_probability):
        return row
    row = _sort_highest(row)
    above = int(np.count_nonzero(softmax(row.logits) >= np.float32(settings.xtc_threshold)))
    return row.keep_only(np.s_[max(above - 1, 0) :])


def temperature(row: Surviving, settings: SamplerSettings, _: Situation) -> Surviving:
    """Divide by the temperature, which with a range the entropy moves; at 0 mask all but the highest."""
    value = np.float32(settings.temperature)
    reach = np.float32(settings.dynatemp_range)
    if reach > 0:
        if len(row.ids) <= 1:
            return row
        row = _sort_descending(row)
        low, high = max(np.float32(0), value - reach), value + reach
        p = softmax(row.logits)
        with np.errstate(divide="ignore"):
            entropy = np.cumsum(np.where(p > 0, -p * logf(p), np.float32(0)), dtype=np.float32)[-1]
        most = -logf(np.float32(1) / np.float32(len(row.ids)))
        share = np.float32(math.pow(float(entropy / most), settings.dynatemp_exponent))
        value = np.float32(low + (high - low) * share)
    if value > 0:
        return Surviving(row.ids, row.logits / value)
    logits = np.full_like(row.logits, -np.inf)
    logits[row.logits.argmax()] = row.logits.max()
    return Surviving(row.ids, logits)


def _mirostat(row: Surviving, settings: SamplerSettings, at: Situation) -> Surviving:
    """Basu et al., "Mirostat" (arXiv 2007.14966), both versions as llama.cpp has them, without its draw."""
    row = _sort_highest(row)
    p, mu = softmax(row.logits), np.float32(at.state[MU])
    if settings.mirostat == 1:
        count = _estimate_zipf(p, mu, at.n_vocab)
    else:
        least = np.float32(2.0 ** -(float(mu) + 0.1))  # below it no rounding decides
        surprising = -log2f(p[: np.count_nonzero(p >= least) + 1]) > mu
        count = int(surprising.argmax()) if surprising.any() else len(p)
    return row.keep_only(np.s_[: max(count, 1)])


def _estimate_zipf(p: Logits, mu: np.float32, n_vocab: int) -> int:
    """Return how many tokens keep the surprise below mu if the likeliest follow Zipf's law, whose exponent is estimated."""
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
    """Raise tokens near the target, which moves against the average probability of the tokens drawn before."""
    if settings.adaptive_target < 0:
        return row
    target = np.float32(min(settings.adaptive_target, 1.0))
    total, weight = np.float32(at.state[SUM]), np.float32(at.state[WEIGHT])
    aim = target if weight == 0 else min(max(np.float32(2) * target - total / weight, np.float32(0)), np.float32(1))
    distance = np.abs((softmax(row.logits) - aim) * np.float32(1.0 / 0.3))
    logits = np.float32(5) - np.float32(10) * distance * distance / (np.float32(1) + distance)
    return Surviving(row.ids, np.where(np.isfinite(row.logits), logits, row.logits))


# --- stages that llama.cpp lacks -------------------------------------------------------------------------------------


def _p_less(row: Surviving, _: SamplerSettings, __: Situation) -> Surviving:
    """Keep p ≥ Σ p²: at least as likely as two draws are to agree (Tan et al., "p-less Sampling", arXiv 2509.23234)."""
    row = _sort_highest(row)
    p = compute_probabilities(row)
    return row.keep_only(np.s_[: max(np.count_nonzero(p >= (p * p).sum()), 1)])


def _top_h(row: Surviving, settings: SamplerSettings, _: Situation) -> Surviving:
    """Take the likeliest tokens one by one until their entropy, renormalised, exceeds a share of the whole's.

    Potraghloo et al., "Top-H Decoding" (arXiv 2509.02510): q is the longest such prefix with H(q) ≤ α H(p).
    """
    if settings.top_h >= 1 or len(row.ids) < 2:
        return row
    row = _sort_highest(row)
    p = compute_probabilities(row)
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = np.where(p > 0, -p * np.log(p), 0.0)
    mass = np.cumsum(p)
    entropies = np.cumsum(parts) / mass + np.log(mass)
    above = entropies > settings.top_h * parts.sum()
    above[0] = False  # one token has no entropy, but for rounding
    return row.keep_only(np.s_[: int(above.argmax()) if above.any() else len(p)])


def _min_k(row: Surviving, settings: SamplerSettings, _: Situation) -> Surviving:
    """Cut where the drop between neighbours, divided by its place, is steepest, or after τ / range tokens if those are more.
    Ding et al., "Min-k Sampling" (arXiv 2604.11012): w_i = (l_i - l_{i+1}) / (l_1 - l_n) / i.
    """
    row = _sort_highest(row.drop_masked())
    if len(row.ids) < 2:
        return row
    logits = row.logits.astype(np.float64)
    reach = logits[0] - logits[-1]
    if reach <= 0:
        return row
    cliff = int(((logits[:-1] - logits[1:]) / np.arange(1, len(logits))).argmax()) + 1
    return row.keep_only(np.s_[: max(cliff, int(min(settings.min_k / reach, len(logits))))])


APPLY: dict[str, Callable[[Surviving, SamplerSettings, Situation], Surviving]] = {
    "logit_bias": lambda row, _, at: _add(row, at.bias, 1),
    "penalties": _penalties,
    "dry": lambda row, _, at: _add(row, at.dry, -1),
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
"""Name of a stage to its function. Those of an `optional` stage are called only while it is on."""

assert [*APPLY] == [stage.name for stage in STAGES.values() if not stage.draws]


# --- rows ------------------------------------------------------------------------------------------------------------


def _sort_highest(row: Surviving, count: int | None = None) -> Surviving:
    """Return the `count` highest tokens, or all, highest first."""
    if (row.ids[1:] < row.ids[:-1]).any():
        row = row.keep_only(row.ids.argsort())
    return row.keep_only(_argsort(-row.logits)[:count])


_MANY = 1024
"""Tokens from which sorting the halves of their bits is faster."""


def _argsort(values: Logits) -> NDArray[np.int64]:
    """Return the indices of the values in ascending order; equal ones stay in theirs."""
    if len(values) < _MANY:
        return np.argsort(values, kind="stable")
    bits = (values + np.float32(0)).view(np.int32)  # -0 is 0
    bits ^= (bits >> 31) & np.int32(0x7FFFFFFF)  # they ascend as the values do
    order = np.argsort(bits.astype(np.uint16), kind="stable")  # 16 bits are sorted by counting
    return order[np.argsort((bits >> 16).astype(np.int16)[order], kind="stable")]


def softmax(logits: Logits) -> Logits:
    """Return probabilities as llama.cpp rounds them, summed one after the other."""
    weights = expf(logits - logits.max())
    shares: Logits = weights / np.cumsum(weights)[-1]
    return shares


def sum_nucleus(row: Surviving) -> tuple[Surviving, Logits]:
    """Return the row, highest first, and the running sum of its probabilities."""
    order = _argsort(-row.logits)
    return row.keep_only(order), np.cumsum(softmax(row.logits)[order])


def _sort_descending(row: Surviving) -> Surviving:
    """Return the row, highest first, as llama.cpp's stages sort: equal logits stay in their order."""
    return row.keep_only(_argsort(-row.logits))


def find_floor(row: Surviving, min_p: np.float32) -> np.float32:
    """Return the lowest logit that is at least `min_p` times as likely as the highest."""
    return np.float32(row.logits.max() + logf(min_p))


def compute_probabilities(row: Surviving) -> NDArray[np.float64]:
    """Return the probabilities in float64."""
    weights = np.exp(row.logits.astype(np.float64) - float(row.logits.max()))
    shares: NDArray[np.float64] = weights / weights.sum()
    return shares


# --- float32 as the C library rounds it ------------------------------------------------------------------------------

_CERTAIN, _CERTAIN_EXP = 0.48, 0.49
"""From so far off, in units of the last place, the C library may round to the other side: its exponential is the better one."""

Values = TypeVar("Values", NDArray[np.float32], np.float32)


def _c_function(name: str) -> Callable[[float], float] | None:
    try:
        function = getattr(ctypes.CDLL(None), name)
    except (OSError, AttributeError, TypeError):  # Windows has no such handle
        return None
    function.argtypes, function.restype = [ctypes.c_float], ctypes.c_float
    return function  # type: ignore[no-any-return]


_C_FUNCTIONS = {name: _c_function(name) for name in ("expf", "logf", "log2f")}
c_rows: dict[str, Callable[[int, int, int], None]] = {}
"""The same over a row of floats at one address, to another, of so many: the engine has them."""


def _round_certain(name: str, wide: Callable[[Any], Any], values: Values, certain: float) -> Values:
    """Round float64 results to float32. Ask the C library, one by one, for those where the rounding is in doubt."""
    if name in c_rows and isinstance(values, np.ndarray):
        given, results = np.ascontiguousarray(values, np.float32), np.empty(len(values), np.float32)
        c_rows[name](given.ctypes.data, results.ctypes.data, len(given))
        return results
    with np.errstate(divide="ignore", invalid="ignore"):
        exact = wide(np.asarray(values, np.float64))
        rounded = np.atleast_1d(exact).astype(np.float32)
        doubtful = np.flatnonzero(np.abs(exact - rounded) > certain * np.spacing(np.abs(rounded)))
    if (function := _C_FUNCTIONS[name]) is not None:
        rounded[doubtful] = [function(value) for value in np.atleast_1d(values)[doubtful].tolist()]
    return rounded if isinstance(values, np.ndarray) else np.float32(rounded[0])


def expf(values: Values) -> Values:
    return _round_certain("expf", np.exp, values, _CERTAIN_EXP)


def logf(values: Values) -> Values:
    return _round_certain("logf", np.log, values, _CERTAIN)


def log2f(values: Values) -> Values:
    return _round_certain("log2f", np.log2, values, _CERTAIN)
