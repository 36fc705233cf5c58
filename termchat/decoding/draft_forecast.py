"""What n-gram speculation would have gained on a reply that is there.

The policy needs nothing but ids: so it is replayed over the known ones, batch by batch, and each batch is charged what so many
rows cost. It is an exact replay of what the engine does with the same counts, times and limits: it drafts, accepts and rests
alike. Sampling and drafting cost nothing in it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import takewhile

import msgspec

from termchat.decoding.drafting import MOST_DRAFTED, Judge, Ngrams, Times, breaks_even


class Forecast(msgspec.Struct, frozen=True):
    """`gain`: how many times as fast the reply would have been decoded; `accepted` and `drafted` tokens, in so many `rounds`;
    `tokens_per_pass`: tokens of the reply for each pass of the model. `break_even` is the least acceptance from which drafts
    pay with these times, 1.0 where none does."""

    gain: float
    accepted: int
    drafted: int
    tokens_per_pass: float
    break_even: float
    rounds: int

    @property
    def acceptance(self) -> float | None:
        """Accepted of drafted tokens; None where nothing was drafted."""
        return self.accepted / self.drafted if self.drafted else None


def forecast(
    prompt_ids: Sequence[int],
    reply_ids: Sequence[int],
    times: Times,
    *,
    most: int = MOST_DRAFTED,
    room: int | None = None,
    end_ids: Collection[int] = (),
    judge: Judge | None = None,
) -> Forecast:
    """A replay of drafts of up to `most` tokens over the ids of a reply; `times` is T(n).

    `room` is how many tokens the reply could have had (None: no limit), `end_ids` are those that end a reply.
    `judge` is what earlier replies taught, and learns from this one.
    """
    judge = judge or Judge()
    known = [*prompt_ids, *reply_ids]
    at, end = len(prompt_ids), len(known)
    limit = at + room if room is not None else end + MOST_DRAFTED
    ngrams, even = Ngrams(known[: at + 1]), breaks_even(times, most)
    cost, passes, drafted, accepted, rounds = 0.0, 0, 0, 0, 0
    # The first token is drawn from the prompt's last row. Each pass decodes the newest token, and what is drafted behind it.
    while at + 1 < end:
        for token in known[len(ngrams.lookup.ids) : at + 1]:
            if (right := ngrams.push(token)) is not None:
                judge.guess(right=right)
        at += 1
        draft: list[int] = []
        if not judge.rests:
            draft = ngrams.draft(min(most, MOST_DRAFTED, limit - 1 - at), times)
            ends = (place for place, token in enumerate(draft, 1) if token in end_ids)
            draft = draft[: next(ends, None)]
        taken = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(draft, known[at:], strict=False)))
        cost, passes = cost + times(1 + len(draft)), passes + 1
        drafted, accepted, rounds = drafted + len(draft), accepted + taken, rounds + bool(draft)
        ngrams.paid(1 + taken, times(1 + len(draft)))
        if draft:
            judge.round(len(draft), taken, times(1 + len(draft)), lambda: even)
        else:
            judge.plain(lambda: even)
        at += taken
    tokens = len(reply_ids)
    gain = (tokens - 1) / cost if cost else 1.0
    return Forecast(gain, accepted, drafted, tokens / (passes + 1) if tokens else 1.0, even, rounds)
