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
    """By the sum of the logprobs / tokens to the power of `length_penalty`: with 1 that is the mean logprob, with 0 the sum.

    Walks that did not end by themselves have no score and come last, unless none did: then they are all compared as they are.
    """
    all_ = list(walks)
    some_finished = any(one.is_finished for one in all_)
    scores = {
        one.walk: score_beam(one.sum_logprob, one.tokens, length_penalty)
        for one in all_
        if one.sum_logprob is not None and one.tokens and (one.is_finished or not some_finished)
    }
    all_.sort(key=lambda one: (_sort_key(scores.get(one.walk)), _sort_key(one.mean_logprob), one.walk))
    return Ranking([Ranked(one.walk, scores.get(one.walk), one.mean_logprob, one.tokens) for one in all_])


def rank_votes(
    walks: Iterable[Walked], answer: str, refused: Callable[[AnswerError], object] = lambda _: None
) -> Ranking:
    """By how many walks have the same answer (see `answer_reader`), which is the score; among these by mean logprob.

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
    votes = Counter(found for found in answers.values() if found is not None)
    means: defaultdict[str | None, float] = defaultdict(lambda: math.inf)
    for one in all_:
        means[answers[one.walk]] = min(means[answers[one.walk]], _sort_key(one.mean_logprob))

    def place(one: Walked) -> tuple[float, float, str, float, int]:
        found = answers[one.walk]
        return -votes.get(found or "", 0), means[found], found or "", _sort_key(one.mean_logprob), one.walk

    all_.sort(key=place)
    ranked = []
    for one in all_:
        given = answers[one.walk]
        count = votes[given] if given is not None else None
        ranked.append(
            Ranked(one.walk, None if count is None else float(count), one.mean_logprob, one.tokens, given, count)
        )
    return Ranking(ranked)


def count_votes(ranking: Ranking, texts: dict[int, str]) -> list[Tally]:
    """Count equal ranked results, best first: the answers of a vote, else the replies by `texts`. Results without a score
    are left out.
    """
    found: defaultdict[str, list[int]] = defaultdict(list)
    for one in ranking.walks:
        if one.score is not None:
            found[texts[one.walk] if one.answer is None else one.answer].append(one.walk)
    return [Tally(text, tuple(walks)) for text, walks in found.items()]


def left_out(ranking: Ranking) -> list[int]:
    """Return the walks that were not ranked, by number: they did not end by themselves, or have no answer."""
    return sorted(one.walk for one in ranking.walks if one.score is None)


def compute_agreement(ranked: Sequence[Tally]) -> float | None:
    """Return the share of counted replies with the first answer; None without an answer."""
    counted = sum(one.votes for one in ranked)
    return ranked[0].votes / counted if counted else None


def _sort_key(score: float | None) -> float:
    """Sort key: descending, unknown last."""
    return math.inf if score is None or math.isnan(score) else -score
