"""What drafts did for a reply, read from its tokens: the rounds of drafting one by one, and the figures of all of them.

A *round* is one pass of the target model over several rows: the newest token, and the tokens that were drafted to follow it.
The logits after all of these are then there at once. The reply draws from them, one after the other, as long as it takes what
was drafted. The first token that differs, or the one after the last drafted one, still comes from the same pass, and ends the
round.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Protocol

import msgspec

from termchat.decoding.records import Draft, DraftToken


class DraftedStep(Protocol):
    """The fields of a token, recorded or in memory, that the figures read: see `records.Token`."""

    @property
    def id(self) -> int: ...
    @property
    def bytes(self) -> bytes: ...
    @property
    def text(self) -> str: ...
    @property
    def decode_us(self) -> int: ...
    @property
    def sample_us(self) -> int: ...
    @property
    def draft(self) -> Draft | None: ...


class DraftedSteps(Protocol):
    """A list of them, or the columns of a reply."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> DraftedStep: ...


class Round(msgspec.Struct, frozen=True):
    """One round, in the order in which it goes.

    1. Draft: `by` ("ngram" or the draft model's name) drafted the tokens `drafted` in `us` microseconds.
    2. Verify: the target model decoded the token before index `begin` of the reply, and behind it all drafted ones, as `rows`
       rows of one batch in `decode_us` microseconds.
    3. Accept: the first `accepted` drafted tokens are what the reply took. The first has index `begin`.
    4. Correct: `corrected` was taken instead of the first rejected one; or, where none was rejected, `bonus` was taken from
       the row after the last one. Both None: the round is still running, or was broken off, with the reply or by a question
       that needed the rows' memory. What was not decided then was not accepted.
    """

    begin: int
    by: str
    drafted: tuple[DraftToken, ...]
    us: int
    decode_us: int
    accepted: int = 0
    corrected: DraftToken | None = None
    bonus: DraftToken | None = None

    @property
    def rows(self) -> int:
        """Rows of the batch: the newest token and the drafted ones."""
        return 1 + len(self.drafted)

    @property
    def is_over(self) -> bool:
        """Whether the token that ends it was drawn."""
        return self.corrected is not None or self.bonus is not None

    @property
    def tokens(self) -> int:
        """Tokens of the reply that came out of it: those accepted, and the one that ended it."""
        return self.accepted + self.is_over

    @property
    def end(self) -> int:
        """Index of the first token behind it."""
        return self.begin + self.tokens


def round_at(tokens: DraftedSteps, index: int, pending: DraftedStep | None = None) -> Round | None:
    """Return the round of the token with this index; None if its step was decoded alone. `pending` is the token behind the last
    one, which is not taken yet. The time depends on the length of the round, not of the reply."""
    begin, count = index, len(tokens)

    def step(at: int) -> DraftedStep:
        return pending if at == count and pending is not None else tokens[at]

    while begin and not step(begin).decode_us and (draft := step(begin - 1).draft) is not None and draft.accepted:
        begin -= 1
    current: Round | None = None
    for at in range(begin, count + (pending is not None)):
        before, current = current, _continue_round(current, at, step(at))
        if at > index and (current is None or current.begin == at):
            return before
    return current


def _continue_round(current: Round | None, index: int, token: DraftedStep) -> Round | None:
    """Return the round in which a token was decoded, if `current` is that of the token before it."""
    draft = token.draft
    if current is not None and not current.is_over and not token.decode_us:
        if current.accepted == len(current.drafted):
            if draft is None:
                return msgspec.structs.replace(current, bonus=_name_token(token))
        elif draft is not None and (draft.by, draft.tokens) == (current.by, [current.drafted[current.accepted]]):
            return _add_token(current, token, draft)
    if draft is None:
        return None
    return _add_token(Round(index, draft.by, tuple(draft.tokens), draft.us, token.decode_us), token, draft)


def _add_token(current: Round, token: DraftedStep, draft: Draft) -> Round:
    if draft.accepted:
        return msgspec.structs.replace(current, accepted=current.accepted + 1)
    return msgspec.structs.replace(current, corrected=_name_token(token))


def _name_token(token: DraftedStep) -> DraftToken:
    return DraftToken(token.id, token.text or token.bytes.decode("utf-8", "replace"))


class DraftFigures:
    """The figures of drafting in one reply, during the reply. Call `add` with each token, in constant time, and `end` at the
    end of the reply. An unknown figure is None.

    All times are those of the records: the decode that a step was drawn from (`decode_us`, all rows of a round count at its
    first token), sampling (`sample_us`), and making the draft (`draft.us`). Pauses do not count. The first token of a run of
    the loop is drawn from the prompt's last decode, so that its time is no step's and does not count either.
    """

    LATELY = 64
    """Drafted tokens over which `acceptance_lately` goes."""
    LEAST = 8
    """Plain steps from which their mean is a speed."""

    def __init__(self) -> None:
        self.tokens = 0
        """Tokens of the reply."""
        self.drafted = 0
        """Drafted tokens whose fate is known: accepted; or rejected, or behind a rejected one, or cut off with their round.
        Once the reply is over these are all there were."""
        self.accepted = 0
        """Drafted tokens that the reply took."""
        self.rounds = 0
        """Passes of the target model over more than one row."""
        self.plain = 0
        """Tokens whose step was decoded alone, the first of a run included."""
        self.round: Round | None = None
        """That of the newest token, None where its step was decoded alone."""
        self._lately: deque[bool] = deque(maxlen=self.LATELY)
        self._undecided = 0
        self._drafting_us = self._us = self._timed = 0
        self._plain_us = self._plain_timed = 0
        self._is_first = True

    @classmethod
    def count_tokens(cls, tokens: Iterable[DraftedStep]) -> DraftFigures:
        """Return the figures of one run of the loop."""
        figures = cls()
        for token in tokens:
            figures.add(token)
        figures.end_run()
        return figures

    def add(self, token: DraftedStep) -> None:
        """Count the next token of the reply."""
        current = _continue_round(self.round, self.tokens, token)
        is_new = current is None or current.begin == self.tokens
        if is_new:
            self._reject_rest()
        us = token.decode_us + token.sample_us
        if current is None:
            self.plain += 1
            if not self._is_first:
                self._plain_us, self._plain_timed = self._plain_us + us, self._plain_timed + 1
        else:
            if is_new:
                self.rounds += 1
                self._undecided = len(current.drafted)
                self._drafting_us += current.us
                us += current.us
            if token.draft is not None and token.draft.accepted:
                self._lately.append(True)
                self.drafted, self.accepted, self._undecided = self.drafted + 1, self.accepted + 1, self._undecided - 1
        if not self._is_first:
            self._us, self._timed = self._us + us, self._timed + 1
        self.tokens, self.round, self._is_first = self.tokens + 1, current, False
        if current is not None and current.is_over:
            self._reject_rest()

    def end_run(self) -> None:
        """End the run of the loop; another one may go on with the same reply. Tokens that were drafted and not yet decided were
        not accepted."""
        self._reject_rest()
        self.round, self._is_first = None, True

    def _reject_rest(self) -> None:
        """Count the rest of the present round as not accepted."""
        rest = max(self._undecided, 0)  # a draft of others may say that more was accepted than drafted
        self._lately.extend([False] * rest)
        self.drafted, self._undecided = self.drafted + rest, 0

    @property
    def acceptance(self) -> float | None:
        """`accepted` / `drafted`, 0 to 1, over the reply; None before the first."""
        return self.accepted / self.drafted if self.drafted else None

    @property
    def acceptance_lately(self) -> float | None:
        """The same over the newest 64 drafted tokens."""
        return sum(self._lately) / len(self._lately) if self._lately else None

    @property
    def passes(self) -> int:
        """Passes of the target model: rounds and plain decodes."""
        return self.rounds + self.plain

    @property
    def tokens_per_pass(self) -> float | None:
        """Tokens of the reply / passes of the target model; 1.0 where nothing was drafted."""
        return self.tokens / self.passes if self.passes else None

    @property
    def drafting_ms(self) -> float:
        """Milliseconds spent making the drafts of all rounds. The time of finding no draft is not recorded."""
        return self._drafting_us / 1e3

    @property
    def speed(self) -> float | None:
        """Tokens per second over the reply: steps but for the first of a run / the sum of their times."""
        return self._timed / self._us * 1e6 if self._us else None

    @property
    def plain_speed(self) -> float | None:
        """Tokens per second of the steps decoded alone, except for the first of a run, over the sum of their times, as
        `speed`, so that a busy machine slows both. None below 8 of them.
        """
        return self._plain_timed / self._plain_us * 1e6 if self._plain_timed >= self.LEAST and self._plain_us else None

    @property
    def gain(self) -> float | None:
        """`speed` / `plain_speed`: the speedup over plain decoding; None without a round."""
        speed, plain = self.speed, self.plain_speed
        return speed / plain if self.rounds and speed is not None and plain is not None else None
