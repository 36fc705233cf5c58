"""How many of the most likely tokens prove what is drawn, where those are all that is known.

A server lists so many tokens and their log-probabilities; of the hidden rest only the sum is known, and that none is likelier
than the last that is listed. The chain leaves of listed tokens what it would leave if it saw all, as soon as it is certain that
no hidden one is left. Stages that only move some tokens count as moving them down, unless a knob can lift one.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from termchat.decoding.conditions import Measure
from termchat.decoding.samplers import SamplerSettings
from termchat.decoding.stages import DICE, chain_of, first_full, needs_all

USUAL = 200
"""Candidates that cost a server next to nothing."""
_MORE = 5
"""How many times as many are asked for next."""
_MARGIN = 1e-3
"""Of a logarithm: what a server's normaliser may be off."""


class Shortlist(NamedTuple):
    """The tokens that are known, best first, with the model's own log-probabilities: shape (n,) each, of `n_vocab` tokens."""

    ids: NDArray[np.int32]
    logprobs: NDArray[np.float64]
    n_vocab: int

    @property
    def whole(self) -> bool:
        return len(self.ids) >= self.n_vocab

    @property
    def tail(self) -> float:
        """The mass of all others."""
        return 0.0 if self.whole else max(1.0 - float(np.exp(self.logprobs).sum()), 0.0)


_first = lru_cache(64)(first_full)
"""It is asked for at every token."""


class Bounds(NamedTuple):
    """What a step's measures are at least and at most: its entropy in bits and the mass of its end tokens. `tail` is the mass
    that is not listed."""

    entropy: tuple[float, float]
    p_end: tuple[float, float]
    tail: float

    @property
    def measures(self) -> dict[Measure, tuple[float, float]]:
        return {"entropy": self.entropy, "p_end": self.p_end}

    @property
    def least(self) -> dict[Measure, float]:
        return {measure: least for measure, (least, _) in self.measures.items()}


def bounds(known: Shortlist, end_ids: Collection[int]) -> Bounds:
    """What the known tokens prove; none of the others is likelier than the last of them."""
    ids, logprobs, tail = known.ids, known.logprobs, known.tail
    shares = np.exp(logprobs)
    surprise = -float(np.sum(shares * np.maximum(logprobs, -1e4)))  # what is impossible adds nothing
    least = most = surprise
    if tail:
        # As uneven as it can be, each hidden token has as much as the last that is listed; as even as it can be, all the same.
        most -= tail * math.log(tail / (known.n_vocab - len(ids)))
        least = min(least - tail * float(logprobs[-1]), most)  # which may be no probability at all
    is_end = np.isin(ids, list(end_ids))
    ends = float(shares[is_end].sum())
    unseen = len(end_ids) - int(is_end.sum())
    return Bounds((least / math.log(2), most / math.log(2)), (ends, ends + min(unseen * float(shares[-1]), tail)), tail)


def is_lifting(samplers: SamplerSettings) -> bool:
    """Whether its penalties can make a token likelier."""
    return samplers.repeat_penalty < 1 or samplers.frequency_penalty < 0 or samplers.presence_penalty < 0


def is_absolute(samplers: SamplerSettings) -> bool:
    """Whether a stage depends on the sign of logits, which probabilities do not tell."""
    stages = chain_of(samplers)
    return samplers.repeat_penalty != 1 and any(s.name == "penalties" and s.is_active(samplers) for s in stages)


def needed(samplers: SamplerSettings, n_vocab: int, moving: int) -> int:
    """How many candidates a chain needs, whatever they are, when so many tokens may be moved; `USUAL` where that depends on
    them."""
    first = _first(samplers)
    if first is None or first.name not in ("top_k", "top_p", "min_p", "temperature"):
        return n_vocab
    if first.name == "top_k":
        return min(max(samplers.top_k + moving, USUAL), n_vocab)
    if first.name == "temperature" and not is_greedy(samplers):
        return n_vocab
    if first.name == "top_p" and samplers.top_p > 1 - _MARGIN:
        return n_vocab  # no sum is known so well
    return min(max(1 + moving, USUAL), n_vocab)


def is_greedy(samplers: SamplerSettings) -> bool:
    return samplers.temperature <= 0 and samplers.dynatemp_range <= 0


def is_by_rank(samplers: SamplerSettings) -> bool:
    """Whether how many candidates are needed does not depend on which they are."""
    first = _first(samplers)
    return first is not None and first.name in ("top_k", "temperature") and not is_lifting(samplers)


def more_than(
    known: Shortlist,
    samplers: SamplerSettings,
    moving: set[int],
    lifted: bool,
    allowed: NDArray[np.bool_] | None = None,
    forced: int | None = None,
) -> int:
    """How many candidates to ask for, 0 where those that are known will do.

    The ids `moving` may be changed by penalties and biases, of which one can make them likelier if `lifted`. A constraint has
    `allowed` tokens, shape (n_vocab,). A `forced` token has to be known.
    """
    n_vocab, count = known.n_vocab, len(known.ids)
    if known.whole:
        return 0
    listed = set(known.ids.tolist())
    if (forced is not None and forced not in listed) or (lifted and not moving <= listed):
        return n_vocab
    need = needed(samplers, n_vocab, len(moving))
    if need > count:
        return need
    if allowed is not None:
        # As many that fit as the chain would take, or all that fit.
        fitting = int(allowed[known.ids].sum())
        first = _first(samplers)
        top = samplers.top_k + len(moving) if first is not None and first.name == "top_k" else n_vocab
        return 0 if fitting >= min(top, int(allowed.sum())) else n_vocab
    if _is_proved(known, samplers, moving):
        return 0
    return count * _MORE if count * _MORE < n_vocab // 4 else n_vocab


def next_guess(
    known: Shortlist,
    samplers: SamplerSettings,
    moving: set[int],
    lifted: bool,
    allowed: NDArray[np.bool_] | None = None,
) -> int:
    """How many candidates to ask for with the next token: as many as would have been enough for this one, for which those that
    are known are. Each question that was too modest costs the server another pass."""
    least, count = needed(samplers, known.n_vocab, len(moving)), len(known.ids)
    while count > least:
        fewer = max(count // _MORE, least)
        shorter = Shortlist(known.ids[:fewer], known.logprobs[:fewer], known.n_vocab)
        if more_than(shorter, samplers, moving, lifted, allowed):
            break
        count = fewer
    return max(count, least)


def why_all(samplers: SamplerSettings, lifted: bool, constrained: bool) -> str:
    """What it is that needs all tokens listed."""
    if lifted:
        return "a penalty or bias that makes tokens likelier"
    if constrained:
        return "a constraint"
    stage = needs_all(samplers)
    uncut = stage == DICE or (stage == "temperature" and samplers.dynatemp_range <= 0)
    return "a draw without a cut" if uncut else stage


def _is_proved(known: Shortlist, samplers: SamplerSettings, moving: set[int]) -> bool:
    """Whether no hidden token is left by the first stage that cuts, given that enough are listed for `needed`."""
    first = _first(samplers)
    assert first is not None
    if first.name in ("top_k", "temperature"):
        return True
    still = ~np.isin(known.ids, list(moving)) if moving else np.ones(len(known.ids), np.bool_)
    if not still.any():
        return False
    logprobs = known.logprobs[still]
    if first.name == "min_p":
        # The highest logit after penalties is at least that of the best token that none moves.
        return bool(known.logprobs[-1] + _MARGIN < logprobs[0] + math.log(samplers.min_p))
    # Penalised tokens only lose mass to the others.
    return bool(np.exp(logprobs).sum() - _MARGIN >= samplers.top_p)
