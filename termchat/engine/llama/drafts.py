"""Who drafts tokens for a reply, and what becomes of the drafts.

A reply draws every token from the logits of its own past. A draft is only decoded ahead, in one batch with the newest token,
and cut off where the dice take something else; as long as they take it, nothing has to be decoded. So whatever a drafter says
costs time at most.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from itertools import islice, takewhile
from time import perf_counter
from typing import Protocol

from termchat.decoding.conditions import Length
from termchat.decoding.drafting import (
    MOST_DRAFTED,
    BatchTimes,
    Counts,
    DraftSettings,
    Judge,
    Lookup,
    breaks_even,
    how_many,
)
from termchat.decoding.records import Draft, DraftToken
from termchat.engine.llama.cache import SPLIT, Cache
from termchat.engine.port import EngineError, Generate

Read = Callable[[list[int], Sequence[int]], int]
"""Decodes the last id, with these ahead; returns microseconds."""


class Learned:
    """What replies tell of drafts; lives as long as the model is loaded."""

    def __init__(self) -> None:
        self.counts, self.judge = Counts(), Judge()
        self._times: dict[int, BatchTimes] = {}

    def times(self, threads: int) -> BatchTimes:
        """What batches cost with so many threads."""
        return self._times.setdefault(threads, BatchTimes(threads))


class Drafter(Protocol):
    """Guesses tokens. `by` is its name in records. It is given all ids so far, the same list each time."""

    by: str

    def saw(self, ids: list[int]) -> None:
        """The dice took the newest ones."""

    def propose(self, ids: list[int], most: int, times: BatchTimes) -> list[int]:
        """What follows, as far as it pays: none to `most` ids."""


class ByNgrams:
    """Drafts what followed the same ids before, as many as pay."""

    by = "ngram"

    def __init__(self, learned: Learned, ids: list[int]) -> None:
        self._learned = learned
        self._lookup = Lookup(ids)

    def saw(self, ids: list[int]) -> None:
        lookup, learned = self._lookup, self._learned
        for token in islice(ids, len(lookup.ids), None):
            if match := lookup.match:
                right = lookup.following == token
                learned.counts.add(match, right=right)
                learned.judge.guess(right=right)
            lookup.push(token)

    def propose(self, ids: list[int], most: int, times: BatchTimes) -> list[int]:
        self.saw(ids)
        match = self._lookup.match
        if not match:
            return []
        rate = self._learned.counts.rate
        return self._lookup.draft(how_many((rate(match + ahead) for ahead in range(most)), times.of))


class NoDrafts:
    """Nothing is drafted. `settings` are those of records, and `why` says why they have no effect at present."""

    settings: DraftSettings | None = None
    why = ""
    drafted = rounds = 0

    def set(self, settings: DraftSettings) -> None:
        """Drafts so from the next token on."""

    def of(self, token: int) -> Draft | None:
        """What was drafted for the present step, in which this token is drawn."""
        return None


class Drafts(NoDrafts):
    """The drafts of one reply: so many `rounds` of decoding some, which had so many tokens `drafted`. `begun`: they are on, or
    were. Those of an `exact` reply end where rows of a batch have other bits than each alone.

    Raises:
        EngineError: the model cannot do without what was drafted in vain.
    """

    def __init__(self, cache: Cache, request: Generate, read: Read, learned: Learned) -> None:
        self._cache, self._model, self._read, self._learned = cache, cache.model, read, learned
        self._drafter: Drafter | None = None
        self._refused = self.begun = False
        self._round: list[int] = []
        self._at = self._us = 0
        self.exact = False
        limit = min((c.tokens for c in request.conditions if isinstance(c, Length)), default=cache.capacity)
        self._end = min(len(request.ids) - request.done + limit, cache.capacity)
        if request.draft is not None:
            self.set(request.draft)
        if self._refused and request.draft is not None and request.draft.by != "auto":
            raise EngineError("capability", self.why, "turn drafts off")

    @property
    def keep_exact(self) -> bool:
        """Whether all rows of the reply have the bits that each has alone."""
        return self.settings is None or self._end <= self._cache.alike_until

    def set(self, settings: DraftSettings) -> None:
        self.settings, self.why = None, ""
        if settings.on:
            self.settings, self.begun = settings, True
            self.why = self._refusal(settings)
            self._refused = bool(self.why)
            self.why = self.why or self._learned.judge.why

    def _refusal(self, settings: DraftSettings) -> str:
        if not self._model.can_rewind:
            return "this model cannot take back what was drafted"
        return "no draft model is loaded" if settings.by == "model" else ""

    def of(self, token: int) -> Draft | None:
        drafter, drafted, at = self._drafter, self._round, self._at
        if drafter is None or at >= len(drafted):
            return None
        begins = at == 0
        tokens = drafted if begins else drafted[at : at + 1]
        name = self._model.name
        return Draft(
            drafter.by, drafted[at] == token, [DraftToken(i, name(i)) for i in tokens], self._us if begins else 0
        )

    def decode(self, ids: list[int]) -> int:
        """Decodes the last id, unless that was drafted; returns microseconds."""
        if self._cache.advance(ids[-1]):
            self._at += 1
            return 0
        times = self._learned.times(self._cache.threads)
        self._judge(times)
        self._round, self._at = self._proposed(ids, times), 0
        us = self._read(ids, self._round)
        rows = 1 + len(self._round)
        self._learned.times(self._cache.threads).add(rows, us)
        if self._round:
            self.drafted += len(self._round)
            self.rounds += 1
        return us

    def end(self) -> None:
        """The reply is over: what it did not take is cut off."""
        if self._round:
            self._cache.cut()

    def _judge(self, times: BatchTimes) -> None:
        """The last round is over."""
        settings, judge = self.settings, self._learned.judge
        if settings is None or self._drafter is None or self._refused:
            return
        drafted = len(self._round)

        def even() -> float:
            return breaks_even(times.of, min(settings.most, MOST_DRAFTED))

        if drafted:
            judge.round(drafted, self._at, times.of(1 + drafted), even)
        else:
            judge.plain(even)
        self.why = judge.why

    def _proposed(self, ids: list[int], times: BatchTimes) -> list[int]:
        """What to decode ahead of the last id: nothing where the drafter fails, and only what there is."""
        settings = self.settings
        if settings is None or self._refused:
            return []
        cells = self._cache.alike_until if self.exact else self._cache.capacity
        most = min(settings.most, MOST_DRAFTED, self._end - 1 - len(ids), cells - len(ids))
        if len(ids) >= cells < self._end:
            self.why = _INEXACT if cells else _UNLIKE
            return []
        begun = perf_counter()
        try:
            if self._drafter is None:
                self._drafter = ByNgrams(self._learned, ids)
            self._drafter.saw(ids)
            if most <= 0 or self._learned.judge.rests:
                return []
            proposed = self._drafter.propose(ids, most, times)
            made = self._usable(proposed)[:most]
        except Exception as error:  # noqa: BLE001 - no drafter may end a reply
            traceback.print_exc()
            self.settings, self.why = None, f"drafting failed: {type(error).__name__}"
            return []
        self._us = int((perf_counter() - begun) * 1e6)
        return made

    def _usable(self, proposed: list[int]) -> list[int]:
        """Ids of the vocabulary, up to one that ends the reply."""
        model = self._model
        made = list(takewhile(lambda token: isinstance(token, int) and 0 <= token < model.n_vocab, proposed))
        end = next((at for at, token in enumerate(made, 1) if token in model.end_ids), len(made))
        return made[:end]


_INEXACT = f"a reply that is exact cannot draft behind {SPLIT} cells: threads = 1 and kv_type bf16 or q8_0 can"
_UNLIKE = "a reply that is exact cannot draft with these weights: begin one with drafts"
