"""Replies to one prompt in order, the best first: by how likely the model finds them, or by how many agree on an answer."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from termchat.decoding.answers import AnswerError, answer_reader
from termchat.decoding.beam_search import score_beam
from termchat.decoding.records import Ranked, Ranking, Reason

BY_THEMSELVES = ("end", "stop", "rule")


class Walked(NamedTuple):
    """A reply as it is ranked: `text` without its thoughts, the sum of the model's own logprobs (None where they are not
    known), and why it ended (None: it did not)."""

    walk: int
    text: str
    tokens: int
    sum_logprob: float | None
    reason: Reason | None

    @property
    def is_finished(self) -> bool:
        """Whether the reply ended without being cut off."""
        return self.reason in BY_THEMSELVES

    @property
    def mean_logprob(self) -> float | None:
        return self.sum_logprob / self.tokens if self.sum_logprob is not None and self.tokens else None


class Tally(NamedTuple):
    """An answer, or a whole reply, and the walks that have it, the best one first."""

    text: str
    walks: tuple[int, ...]

    @property
    def votes(self) -> int:
        return len(self.walks)


def rank_best(walks: Iterable[Walked], length_penalty: float = 1.0) -> Ranking:
    """Rank by the sum of the logprobs / tokens to the power of `length_penalty`: with 1 the mean logprob, with 0 the sum.

    Walks that did not end by themselves have no score and come last, unless none did: then they are all compared as they are.
    """
    all_ = list(walks)
    some_finished = any(one.is_finished for one in all_)
    scores = {
        one.walk: score_beam(one.sum_logprob, one.tokens, length_penalty)
        for one in all_
        if one.sum_logprob is not None and one.tokens and (one.is_finished or not some_finished)
    }
    all_.sort(key=lambda one: (_sort_down(scores.get(one.walk)), _sort_down(one.mean_logprob), one.walk))
    return Ranking([Ranked(one.walk, scores.get(one.walk), one.mean_logprob, one.tokens) for one in all_])


def rank_votes(
    walks: Iterable[Walked], answer: str, refused: Callable[[AnswerError], object] = lambda _: None
) -> Ranking:
    """Rank by how many walks have the same answer (see `answer_reader`), which is the score; among these by mean logprob.

    Of answers with as many votes the one comes first of which a walk has the highest mean logprob. Walks without an answer
    and those that did not end by themselves have no vote, and come last. Where answers cannot be taken out, none has one, and
    `refused` is told why.
    """
    all_ = list(walks)
    try:
        read = answer_reader(answer)
        answers = {one.walk: read(one.text) if one.is_finished else None for one in all_}
    except AnswerError as error:
        answers = dict.fromkeys((one.walk for one in all_), None)
        refused(error)
    votes = Counter(filter(None, answers.values()))
    best = {text: min(_sort_down(one.mean_logprob) for one in all_ if answers[one.walk] == text) for text in votes}

    def sort_key(one: Walked) -> tuple[float, float, str, float, int]:
        text = answers[one.walk] or ""
        return -votes[text], best.get(text, 0.0), text, _sort_down(one.mean_logprob), one.walk

    ranked = []
    for one in sorted(all_, key=sort_key):
        count = votes[answers[one.walk] or ""] or None
        score = None if count is None else float(count)
        ranked.append(Ranked(one.walk, score, one.mean_logprob, one.tokens, answers[one.walk], count))
    return Ranking(ranked)


def count_votes(ranking: Ranking, texts: dict[int, str]) -> list[Tally]:
    """Count equal answers of a vote, else equal replies by their `texts`, best first. Walks without a score are left out."""
    counted: defaultdict[str, list[int]] = defaultdict(list)
    for one in ranking.walks:
        if one.score is not None:
            counted[texts[one.walk] if one.answer is None else one.answer].append(one.walk)
    return [Tally(text, tuple(walks)) for text, walks in counted.items()]


def left_out(ranking: Ranking) -> list[int]:
    """List the walks without a score, by number: they did not end by themselves, or have no answer."""
    return sorted(one.walk for one in ranking.walks if one.score is None)


def compute_agreement(ranked: Sequence[Tally]) -> float | None:
    """Return the share of the counted walks that have the first answer."""
    counted = sum(one.votes for one in ranked)
    return ranked[0].votes / counted if counted else None


def _sort_down(number: float | None) -> float:
    """Return the sort key for descending order, unknown numbers last."""
    return math.inf if number is None or math.isnan(number) else -number
