"""The rules of a beam search: which beams a step keeps, when the search is over, and which of its beams are the best.

They are those of transformers. A step looks at all continuations of the running beams, ordered by their sum of logprobs. Of the
`width` best those that end finish their beam, others that end are dropped; the `width` best that do not end run on. So width 1
is greedy decoding.

A beam's score is its sum of logprobs / its tokens ** length_penalty. All tokens that the search chose count, and no others:
not the prompt, not the beginning of a reply that it goes on from, but the end token and the tokens of a stop sequence, whose
logprobs are in the sum too. All running beams are of one length, so that the penalty decides only among finished ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, NamedTuple, TypeVar

from termchat.decoding.group import MOST_BEAMS, BeamSettings

_STRONGEST = 10.0
"""Length penalties beyond it, either way, leave nothing but the length."""

Scored = tuple[int, float]
"""A token and its logprob."""
_Beam = TypeVar("_Beam")


def find_problem(settings: BeamSettings) -> str:
    """Return the fault of the settings of a search, or ""."""
    if not 1 <= settings.width <= MOST_BEAMS:
        return f"a beam search keeps 2 to {MOST_BEAMS} beams, not {settings.width}"
    if not 1 <= settings.n_best <= settings.width:
        return f"{settings.width} beams give 1 to {settings.width} replies, not {settings.n_best}"
    return penalty_problem(settings.length_penalty)


def penalty_problem(penalty: float) -> str:
    """Return the fault of a length penalty, or ""."""
    if not abs(penalty) <= _STRONGEST:  # nor is it NaN
        return f"the length penalty is from -{_STRONGEST:g} to {_STRONGEST:g}, not {penalty:g}"
    return ""


def score_beam(total: float, tokens: int, length_penalty: float) -> float:
    """Return the score of a beam of so many tokens, at least one; `total` is the sum of their logprobs."""
    return total / math.pow(tokens, length_penalty)


class Continuation(NamedTuple):
    """A running beam, by its place, and a token that extends it; `total` is the sum of the logprobs with that token's."""

    parent: int
    id: int
    logprob: float
    total: float


class BeamStep(NamedTuple):
    """What becomes of the continuations, each best first. `dropped` are the next best ones."""

    running: list[Continuation]
    finished: list[Continuation]
    dropped: list[Continuation]


def count_needed(width: int, ends: int) -> int:
    """Return how many of the best tokens of each beam a step needs, where `ends` tokens finish a beam: it shows twice the
    width, and as many as the width have to run on."""
    return width + max(width, ends)


def choose_step(
    totals: Sequence[float],
    best: Sequence[Sequence[Scored]],
    width: int,
    finishes: Callable[[Continuation], bool],
) -> BeamStep:
    """Make the step from running beams with these `totals`, given the best tokens of each.

    `finishes` is asked about the continuations from the best one on, until `width` are found that go on. Of equal ones the
    one whose parent comes first is better, then the one with the lower id. What is impossible (-inf) is left out.
    """
    ordered = sorted(
        (
            Continuation(parent, token, logprob, total + logprob)
            for parent, (total, tokens) in enumerate(zip(totals, best, strict=True))
            for token, logprob in tokens
            if math.isfinite(logprob)
        ),
        key=lambda one: (-one.total, one.parent, one.id),
    )
    step = BeamStep([], [], [])
    for rank, one in enumerate(ordered):
        if len(step.running) == width:
            if rank >= 2 * width:
                break
            step.dropped.append(one)
        elif not finishes(one):
            step.running.append(one)
        elif rank < width:
            step.finished.append(one)
        elif rank < 2 * width:
            step.dropped.append(one)
    return step


class Found(NamedTuple, Generic[_Beam]):
    """A beam that a search gives."""

    score: float
    beam: _Beam


class Search(Generic[_Beam]):
    """The best finished beams of a search, at most its width, whatever a beam is."""

    def __init__(self, settings: BeamSettings) -> None:
        self._settings = settings
        self._finished: list[Found[_Beam]] = []

    def score_beam(self, total: float, tokens: int) -> float:
        return score_beam(total, tokens, self._settings.length_penalty)

    def finish_beam(self, beam: _Beam, total: float, tokens: int) -> _Beam | None:
        """Add a beam that ended; return the one that is no longer among the best. Of equal ones the first to end is better."""
        self._finished = _rank_found([*self._finished, Found(self.score_beam(total, tokens), beam)])
        return self._finished.pop().beam if len(self._finished) > self._settings.width else None

    def is_over(self, best_total: float | None, tokens: int) -> bool:
        """Tell whether to end, when the best running beam has this total and so many tokens; None: no beam is running.

        With `early_stopping` as soon as `width` beams are finished; else when the best running one, as it is, does not beat the
        worst of these. It could still beat it later, where the penalty favours length: as in transformers that is not waited
        for.
        """
        if best_total is None:
            return True
        if len(self._finished) < self._settings.width:
            return False
        return self._settings.early_stopping or self._finished[-1].score >= self.score_beam(best_total, tokens)

    def n_best(self, running: Iterable[tuple[_Beam, float]] = (), tokens: int = 0) -> list[Found[_Beam]]:
        """Return the best beams, best first, or as many as there are. The `running` ones, with their totals and this length,
        count if the search was broken off at its longest or by a command.
        """
        open_ones = [Found(self.score_beam(total, tokens), beam) for beam, total in running]
        return _rank_found([*self._finished, *open_ones])[: self._settings.n_best]


def _rank_found(found: list[Found[_Beam]]) -> list[Found[_Beam]]:
    return sorted(found, key=lambda one: -one.score)
