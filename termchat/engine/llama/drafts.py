"""Who drafts tokens for a reply, and what becomes of the drafts.

A reply draws every token from the logits of its own past. A draft is only decoded ahead, in one batch with the newest token,
and cut off where the dice take something else; as long as they take it, nothing has to be decoded. So whatever a drafter says
costs time at most.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from itertools import takewhile
from operator import itemgetter
from time import perf_counter
from typing import TypeVar

from termchat.decoding.conditions import Length
from termchat.decoding.drafting import (
    MOST_DRAFTED,
    BatchTimes,
    DraftSettings,
    Judge,
    Ngrams,
    gain,
)
from termchat.decoding.records import Draft, DraftToken
from termchat.engine.llama.cache import Aborted, Cache
from termchat.engine.llama.draft_model import ByModel, DraftModel
from termchat.engine.llama.drafter import Drafter, Drawing, Verified
from termchat.engine.llama.model import Model
from termchat.engine.llama.requests import Generate
from termchat.engine.port import EngineError, Measurement

T = TypeVar("T")

Read = Callable[[list[int], Sequence[int]], int]
"""Decodes the last id, with these ahead; returns microseconds."""


class Learned:
    """What replies tell of drafts, and the `model` that drafts, if one is loaded; lives as long as the model that it drafts for
    is loaded."""

    def __init__(self, measured: Measurement | None = None) -> None:
        """`measured` says what batches cost with its number of threads; with others that is guessed."""
        self.judge = Judge()
        self.model: DraftModel | None = None
        self._times: dict[int, BatchTimes] = {}
        if measured is not None:
            self.know(measured)

    def know(self, measured: Measurement) -> None:
        """Begin anew with what was measured of batches, if times were."""
        if measured.batch_times:
            self._times[measured.threads] = BatchTimes(measured.batch_times)

    def times(self, threads: int) -> BatchTimes:
        """What batches cost with so many threads."""
        return self._times.setdefault(threads, BatchTimes())


class ByNgrams:
    """Drafts what followed the same ids before, as many as pay."""

    by = "ngram"
    always = False

    def __init__(self, learned: Learned, ids: list[int]) -> None:
        self._judge = learned.judge
        self._ngrams = Ngrams(ids)

    @property
    def why(self) -> str:
        return "" if self.always else self._judge.why

    def learn(self, ids: list[int], last: Verified, most: int, times: BatchTimes) -> None:
        ngrams, judge = self._ngrams, self._judge

        def even() -> float | None:
            return times.breaks_even(most)

        if last.drafted:
            cost = times.of(last.rows)
            ngrams.paid(1 + last.accepted, cost)
            judge.round(last.drafted, last.accepted, cost, even)
        for token in ids[len(ngrams.lookup.ids) :]:
            if not last.drafted:
                ngrams.paid(1, 1.0)
                judge.plain(even)
            if (right := ngrams.push(token)) is not None:
                judge.guess(right=right)

    def expects(self, most: int, times: BatchTimes) -> float:
        ngrams = self._ngrams
        if not self.always and (self._judge.rests or not ngrams.count(most, times.of)):
            return 0.0
        return max(gain(ngrams.rates(most), times.of), default=0.0)

    def propose(self, ids: list[int], most: int, times: BatchTimes) -> list[int]:
        return self._ngrams.lookup.draft(most) if self.always else self._ngrams.draft(most, times.of)


class NoDrafts:
    """Nothing is drafted. `settings` are those of records, and `why` says why they have no effect at present."""

    settings: DraftSettings | None = None
    why = ""
    drafted = rounds = 0

    @property
    def nothing(self) -> str:
        """Why a reply that is over had nothing drafted; "" if it had, or if drafts are off."""
        if self.settings is None or self.rounds:
            return ""
        return self.why or ("no text repeats" if self.settings.always else "no guess was likely enough to pay")

    def follow(self, reply: Drawing) -> None:
        """Drafts for this reply."""

    def set(self, settings: DraftSettings) -> None:
        """Drafts so from the next token on."""

    def of(self, token: int) -> Draft | None:
        """What was drafted for the present step, in which this token is drawn."""
        return None


class Drafts(NoDrafts):
    """The drafts of one reply: so many `rounds` of decoding some, which had so many tokens `drafted`. `begun`: they are on, or
    were. Those of an `exact` reply are as long as rows of a batch are known to have the bits of each alone.

    Raises:
        EngineError: the model cannot do without what was drafted in vain.
    """

    def __init__(self, cache: Cache, request: Generate, read: Read, learned: Learned) -> None:
        self._cache, self._model, self._read, self._learned = cache, cache.model, read, learned
        self._reply: Drawing | None = None
        self._seed, self._begin = request.seed, len(request.ids) - request.done
        self._ngrams: ByNgrams | None = None
        self._by_model: ByModel | None = None
        self._failed: dict[str, str] = {}
        self.begun = False
        self._round: list[int] = []
        self._by = ""
        self._at = self._us = self._spent = 0
        self._last: Verified | None = None
        self.exact = False
        limit = min((c.tokens for c in request.conditions if isinstance(c, Length)), default=cache.capacity)
        self._end = min(self._begin + limit, cache.capacity)
        if request.draft is not None:
            self.set(request.draft)
            if self.settings is not None and not cache.model.can_rewind and request.draft.by != "auto":
                raise EngineError("capability", self.why, "turn drafts off")

    @property
    def _most(self) -> int:
        return min(self.settings.most, MOST_DRAFTED) if self.settings is not None else 0

    @property
    def keep_exact(self) -> bool:
        """Whether all rows of the reply have the bits that each has alone."""
        return self.settings is None or self._most < self._cache.rows_drafted_alike

    def follow(self, reply: Drawing) -> None:
        self._reply = reply

    def set(self, settings: DraftSettings) -> None:
        self.settings, self.why = None, ""
        if settings.on:
            self.settings, self.begun = settings, True
            self.why = self._why_not()

    def of(self, token: int) -> Draft | None:
        return draft_of(self._model, self._by, self._round, self._at, token, self._us)

    def decode(self, ids: list[int]) -> int:
        """Decodes the last id, unless that was drafted; returns microseconds."""
        if self._cache.advance(ids[-1]):
            self._at += 1
            return 0
        times = self._learned.times(self._cache.threads)
        last = self._last
        if last is not None:
            last = last._replace(accepted=self._at)
        drafted = self._proposed(ids, last, times)
        self._round, self._at = drafted, 0
        us = self._read(ids, drafted)
        rows = 1 + len(drafted)
        self._learned.times(self._cache.threads).add(rows, us)
        self._last = Verified(rows, us, len(drafted))
        if drafted:
            self.drafted += len(drafted)
            self.rounds += 1
        return us

    def end(self) -> None:
        """The reply is over: what it did not take is cut off."""
        if self._round:
            self._cache.cut()
        if self._by_model is not None:
            self._by_model.close()

    # --- who drafts --------------------------------------------------------------------------------------------------

    def _drafters(self, ids: list[int]) -> list[Drafter]:
        """Those that the settings name, that there are, and that have not failed."""
        by = self.settings.by if self.settings is not None else "off"
        found: list[Drafter] = []
        if by in ("ngram", "auto") and "ngram" not in self._failed:
            self._ngrams = self._ngrams or ByNgrams(self._learned, ids)
            found.append(self._ngrams)
        model = self._learned.model
        if self._by_model is not None and self._by_model.model is not model:
            self._by_model.close()
            self._by_model = None
            self._failed.pop("model", None)
        if by in ("model", "auto") and "model" not in self._failed and model is not None and self._reply is not None:
            if self._by_model is None:
                self._by_model = ByModel(model, self._reply, self._seed, self._begin, self._cache, ids)
            self._by_model.limited = by == "auto"
            found.append(self._by_model)
        for drafter in found:
            drafter.always = self.settings is not None and self.settings.always
        return found

    def _why_not(self) -> str:
        """Why nothing is drafted at present; "" where something is."""
        settings, model = self.settings, self._learned.model
        if settings is None:
            return ""
        if not self._model.can_rewind:
            return "this model cannot take back what was drafted"
        whys: dict[str, str] = {}
        if settings.by != "model":
            whys["ngram"] = self._failed.get("ngram") or ("" if settings.always else self._learned.judge.why)
        if model is not None and settings.by != "ngram":
            judged = self._by_model.why if self._by_model is not None else model.judge.why
            whys[model.name] = self._failed.get("model") or ("" if settings.always else judged)
        if not whys:
            return "no draft model is loaded"
        if not all(whys.values()):
            return ""
        return next(iter(whys.values())) if len(whys) == 1 else "; ".join(f"{by}: {why}" for by, why in whys.items())

    # --- what is drafted ---------------------------------------------------------------------------------------------

    def _proposed(self, ids: list[int], last: Verified | None, times: BatchTimes) -> list[int]:
        """What to decode ahead of the last id: what the one says who expects most of it, and of that what there is."""
        settings = self.settings
        if settings is None or not self._model.can_rewind:
            return []
        alike = self._cache.rows_drafted_alike - 1 if self.exact else self._most
        if not alike:
            self.why = _INEXACT
            return []
        forced = self._reply is not None and self._reply.forced is not None
        most = 0 if forced else max(min(self._most, alike, self._end - 1 - len(ids)), 0)
        begun = perf_counter()
        made: list[int] = []
        drafters = self._drafters(ids)
        expected = [
            self._ask(drafter, lambda drafter: self._expects(drafter, ids, last, most, times), 0.0)
            for drafter in drafters
        ]
        for worth, drafter in sorted(zip(expected, drafters, strict=True), key=itemgetter(0), reverse=True):
            if worth > 0 and not made:
                made = self._ask(
                    drafter, lambda drafter: usable(self._model, drafter.propose(ids, most, times))[:most], []
                )
                self._by = drafter.by
        self.why = self._why_not()
        self._spent += int((perf_counter() - begun) * 1e6)
        if made:
            self._us, self._spent = self._spent, 0
        return made

    def _expects(self, drafter: Drafter, ids: list[int], last: Verified | None, most: int, times: BatchTimes) -> float:
        """What the drafter expects of a draft, once it knows what became of the last one."""
        if last is not None:
            own = last if drafter.by == self._by else last._replace(drafted=0, accepted=0)
            drafter.learn(ids, own, self._most, times)
        return drafter.expects(most, times) if most else 0.0

    def _ask(self, drafter: Drafter, ask: Callable[[Drafter], T], instead: T) -> T:
        """What a drafter answers; where it fails it is asked no more."""
        try:
            return ask(drafter)
        except Aborted:  # so is the reply
            return instead
        except Exception as error:  # noqa: BLE001 - no drafter may end a reply
            traceback.print_exc()
            why = error.message if isinstance(error, EngineError) else type(error).__name__
            self._failed["model" if drafter is self._by_model else "ngram"] = f"drafting failed: {why}"
            return instead


def draft_of(model: Model, by: str, drafted: Sequence[int], at: int, token: int, us: int) -> Draft | None:
    """What was drafted, in `us` microseconds, for step `at` of a round, in which this token is drawn; None behind its end."""
    if at >= len(drafted):
        return None
    tokens = drafted[at : at + 1] if at else drafted
    return Draft(by, drafted[at] == token, [DraftToken(i, model.name(i)) for i in tokens], 0 if at else us)


def usable(model: Model, proposed: Sequence[int]) -> list[int]:
    """Ids of the vocabulary, up to one that ends the reply."""
    made = list(takewhile(lambda token: isinstance(token, int) and 0 <= token < model.n_vocab, proposed))
    end = next((at for at, token in enumerate(made, 1) if token in model.end_ids), len(made))
    return made[:end]


_INEXACT = "a reply that is exact cannot draft here: begin one with drafts"
