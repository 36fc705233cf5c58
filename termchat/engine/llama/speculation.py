"""Speculation: who drafts tokens for a reply, and what becomes of the drafts.

A reply draws every token from the logits of its own past. A draft is only decoded ahead, in one batch with the newest token,
and cut off where the dice take something else; as long as they take it, nothing has to be decoded. So whatever a drafter says
costs time at most.

Of several replies each guesses from its own ids, and all rows are one batch. A row more costs less in a batch that is small:
with two to four replies it may pay, with eight hardly ever. A draft model drafts for one reply at a time.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import takewhile
from operator import itemgetter
from time import perf_counter

from termchat.decoding.drafting import (
    MOST_DRAFTED,
    BatchTimes,
    DraftSettings,
    Judge,
    Ngrams,
    Verified,
)
from termchat.decoding.records import Draft, DraftToken
from termchat.engine.llama.cells import Aborted
from termchat.engine.llama.draft_model import DraftedReply, DraftModel
from termchat.engine.llama.model import Model
from termchat.engine.port import EngineError, Measurement, ReplyRequest

MOST_ROWS = 16
"""Rows of a batch with drafts of several replies: what more of them cost is not known."""


Drafter = Ngrams | DraftModel


class Learned:
    """What replies tell of drafts, and the `model` that drafts, if one is loaded; lives as long as the model that it drafts for
    is loaded."""

    def __init__(self, measured: Measurement | None = None) -> None:
        """`measured` says what batches cost with its number of threads; with others that is guessed."""
        self.judge = Judge()
        self.model: DraftModel | None = None
        self._times: dict[int, BatchTimes] = {}
        if measured is not None:
            self.learn_measured(measured)

    def learn_measured(self, measured: Measurement) -> None:
        """Restart from measured batch costs, if there are some."""
        if measured.batch_times:
            self._times[measured.threads] = BatchTimes(measured.batch_times)

    def read_times(self, threads: int) -> BatchTimes:
        """Return the costs of batches with so many threads."""
        return self._times.setdefault(threads, BatchTimes())


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

    def follow_reply(self, reply: DraftedReply) -> None:
        """Draft for this reply."""

    def set_settings(self, settings: DraftSettings) -> None:
        """Use these settings from the next token on."""

    def find_draft(self, token: int) -> Draft | None:
        """Return the draft of the present step, in which this token is drawn."""
        return None


class Speculation(NoDrafts):
    """The drafts of one reply: so many `rounds` of decoding some, which had so many tokens `drafted`. `begun`: they are on, or
    were.

    A model drafts only for a reply `alone`.

    Raises:
        EngineError: the model cannot do without what was drafted in vain.
    """

    def __init__(
        self, model: Model, learned: Learned, request: ReplyRequest, draft: DraftSettings | None, alone: bool
    ) -> None:
        self._model, self._learned, self._alone = model, learned, alone
        self._reply: DraftedReply | None = None
        self._seed, self._begin = request.seed, len(request.ids) - request.done
        self._ngrams: Ngrams | None = None
        self._by_model: DraftModel | None = None
        self._failed: dict[str, str] = {}
        self.begun = False
        self._round: list[int] = []
        self._by = ""
        self._at = self._us = self._spent = 0
        self._last: Verified | None = None
        self.limit = MOST_DRAFTED
        """The most tokens ahead whose rows have the bits that the reply promised."""
        if draft is not None:
            self.set_settings(draft)
            if self.settings is not None and not model.can_rewind and draft.by != "auto":
                raise EngineError("capability", self.why, "turn drafts off")

    @property
    def most(self) -> int:
        """The most tokens of a draft, by the settings."""
        return min(self.settings.most, MOST_DRAFTED) if self.settings is not None else 0

    def follow_reply(self, reply: DraftedReply) -> None:
        self._reply = reply

    def set_settings(self, settings: DraftSettings) -> None:
        self.settings, self.why = None, ""
        if settings.on:
            self.settings, self.begun = settings, True
            self.why = self._explain_rest()

    def find_draft(self, token: int) -> Draft | None:
        """Return the draft of the present step, in which this token is drawn; None behind its end."""
        drafted, at = self._round, self._at
        if at >= len(drafted):
            return None
        tokens = drafted[at : at + 1] if at else drafted
        names = [DraftToken(i, self._model.name(i)) for i in tokens]
        return Draft(self._by, drafted[at] == token, names, 0 if at else self._us)

    def propose_tokens(self, ids: list[int], most: int, times: BatchTimes) -> list[int]:
        """Return at most so many tokens to decode ahead of the last id; the round before is over.

        `times` are those of a batch in which each reply has so many rows. What is drafted is what the drafter says who expects
        most of it.
        """
        last, self._last = self._last, None
        accepted, self._round, self._at = self._at, [], 0
        settings = self.settings
        if settings is None or not self._model.can_rewind:
            return self._round
        if not self.limit:
            self.why = "a reply that is exact cannot draft here: begin one with drafts"
            return self._round
        forced = self._reply is not None and self._reply.forced is not None
        most = 0 if forced else max(min(most, self.most, self.limit), 0)
        begun = perf_counter()
        expected: list[tuple[float, Drafter]] = []
        for drafter in self._choose_drafters(ids):
            with self._no_more_on_failure(drafter):
                if last is not None:
                    mine = drafter.by == self._by
                    drafter.learn_round(
                        ids, last._replace(drafted=mine * last.drafted, accepted=mine * accepted), self.most, times
                    )
                if most:
                    expected.append((drafter.expect_speedup(most, times), drafter))
        for worth, drafter in sorted(expected, key=itemgetter(0), reverse=True):
            if worth > 0 and not self._round:
                with self._no_more_on_failure(drafter):
                    self._round = self._cut_draft(drafter.propose_ids(ids, most, times)[:most])
                    self._by = drafter.by
        self.why = self._explain_rest()
        self._spent += int((perf_counter() - begun) * 1e6)
        if self._round:
            self._us, self._spent = self._spent, 0
        return self._round

    def count_decoded(self, us: int) -> None:
        """Take in that the batch with the proposed tokens took `us` microseconds."""
        count = len(self._round)
        self._last = Verified(1 + count, us, count)
        if count:
            self.drafted += count
            self.rounds += 1

    def advance_row(self, token: int) -> int | None:
        """Return the row after this token, counted from that of the last decode; None if it is not in the batch."""
        if self._at >= len(self._round) or self._round[self._at] != token:
            return None
        self._at += 1
        return self._at

    def cut_ahead(self) -> None:
        """Forget the tokens ahead: their rows are lost."""
        del self._round[self._at :]

    def end_reply(self) -> None:
        """Free what drafted: the reply is over."""
        if self._by_model is not None:
            self._by_model.end_reply()

    # --- who drafts --------------------------------------------------------------------------------------------------

    def _choose_drafters(self, ids: list[int]) -> list[Drafter]:
        """Return the drafters that the settings name, that are loaded, and that have not failed."""
        by = self.settings.by if self.settings is not None else "off"
        drafters: list[Drafter] = []
        if by in ("ngram", "auto") and "ngram" not in self._failed:
            self._ngrams = self._ngrams or Ngrams(ids, self._learned.judge)
            drafters.append(self._ngrams)
        model = self._learned.model if self._alone else None
        if self._by_model is not None and self._by_model is not model:
            self._by_model.end_reply()
            self._by_model = None
            self._failed.pop("model", None)
        wanted = by in ("model", "auto") and "model" not in self._failed
        if wanted and model is not None and self._reply is not None:
            if self._by_model is None:
                self._by_model = model
                model.begin_reply(self._reply, self._seed, self._begin, ids)
            self._by_model.limited = by == "auto"
            drafters.append(self._by_model)
        for drafter in drafters:
            drafter.always = self.settings is not None and self.settings.always
        return drafters

    def _explain_rest(self) -> str:
        """Return why nothing is drafted at present; "" where something is."""
        settings, model = self.settings, self._learned.model if self._alone else None
        if settings is None:
            return ""
        if not self._model.can_rewind:
            return "this model cannot take back what was drafted"
        whys: dict[str, str] = {}
        if settings.by != "model":
            whys["ngram"] = self._failed.get("ngram") or ("" if settings.always else self._learned.judge.why)
        if model is not None and settings.by != "ngram":
            judged = self._by_model.why if self._by_model is not None else model.judge.why
            whys[model.by] = self._failed.get("model") or ("" if settings.always else judged)
        if not whys:
            return "no draft model is loaded" if self._alone else "a draft model drafts for one reply at a time"
        if not all(whys.values()):
            return ""
        return next(iter(whys.values())) if len(whys) == 1 else "; ".join(f"{by}: {why}" for by, why in whys.items())

    def _cut_draft(self, proposed: Sequence[int]) -> list[int]:
        """Return the ids of the vocabulary, up to one that ends the reply."""
        ids = list(takewhile(lambda token: isinstance(token, int) and 0 <= token < self._model.n_vocab, proposed))
        return ids[: next((at for at, token in enumerate(ids, 1) if token in self._model.end_ids), None)]

    @contextmanager
    def _no_more_on_failure(self, drafter: Drafter) -> Iterator[None]:
        """Let a drafter that fails draft no more."""
        try:
            yield
        except Aborted:
            pass  # so is the reply
        except Exception as error:  # noqa: BLE001 - no drafter may end a reply
            traceback.print_exc()
            why = error.message if isinstance(error, EngineError) else type(error).__name__
            self._failed["model" if drafter is self._by_model else "ngram"] = f"drafting failed: {why}"
