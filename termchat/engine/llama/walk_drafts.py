"""Drafts for several replies that are decoded together: each guesses from its own ids, and all rows are one batch.

A row more costs less in a batch that is small: with two to four walks it may pay, with eight hardly ever. What was guessed in
vain keeps its cells until all walks are over, as those of a walk that ended do, so that the bits of the others stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter

from termchat.decoding.drafting import BatchTimes, DraftSettings, Verified
from termchat.decoding.records import Draft
from termchat.engine.llama.draft_model import Drawing
from termchat.engine.llama.drafts import ByNgrams, Learned, NoDrafts, draft_of, usable
from termchat.engine.llama.model import Model

MOST_ROWS = 16
"""Rows of a batch with drafts: what more of them cost is not known."""
_BY_MODEL = "a draft model drafts for one reply at a time"


class WalkDrafts(NoDrafts):
    """The drafts of one walk."""

    def __init__(self, model: Model, learned: Learned, settings: DraftSettings | None) -> None:
        self._model, self._learned = model, learned
        self._reply: Drawing | None = None
        self._ngrams: ByNgrams | None = None
        self._round: list[int] = []
        self._at = self._us = 0
        self._last: Verified | None = None
        if settings is not None:
            self.set(settings)

    def follow(self, reply: Drawing) -> None:
        self._reply = reply

    def set(self, settings: DraftSettings) -> None:
        self.settings = settings if settings.on else None
        self.why = _BY_MODEL if settings.by == "model" else ""

    def of(self, token: int) -> Draft | None:
        return draft_of(self._model, "ngram", self._round, self._at, token, self._us)

    def propose(self, ids: list[int], most: int, times: BatchTimes) -> list[int]:
        """What to decode ahead of the last id, at most so many; the last round is over. `times` are those of a batch in which
        each walk has so many rows."""
        last, self._last = self._last, None
        accepted, self._round, self._at = self._at, [], 0
        settings = self.settings
        if settings is None or settings.by == "model":
            return []
        begun = perf_counter()
        self._ngrams = self._ngrams or ByNgrams(self._learned, ids)
        self._ngrams.always = settings.always
        if last is not None:
            self._ngrams.learn(ids, last._replace(accepted=accepted), settings.most, times)
        forced = self._reply is not None and self._reply.forced is not None
        most = 0 if forced else min(most, settings.most)
        if most > 0 and self._ngrams.expects(most, times) > 0:
            self._round = usable(self._model, self._ngrams.propose(ids, most, times))[:most]
        self.why = self._ngrams.why
        self._us = int((perf_counter() - begun) * 1e6)
        return self._round

    def decoded(self, us: int) -> None:
        """The batch with what was proposed is there."""
        self._last = Verified(1 + len(self._round), us, len(self._round))
        if self._round:
            self.drafted += len(self._round)
            self.rounds += 1

    def advance(self, token: int) -> int | None:
        """The row after this token, counted from that of the last decode; None where it is not in the batch."""
        if self._at >= len(self._round) or self._round[self._at] != token:
            return None
        self._at += 1
        return self._at

    def cut(self) -> None:
        """The rows ahead are lost."""
        if self._last is not None and self._round:
            self._last = self._last._replace(accepted=self._at)
        del self._round[self._at :]


def room_ahead(free: int, capacity: int, left: Sequence[int]) -> int:
    """How many cells drafts may take, of those that are `free`, where each walk has at most so many tokens `left`."""
    return free - min(sum(left), capacity // 2)
