"""The drafts of a reply as columns: one entry a round of drafting, not one a token.

A draft is told at each step that it had a token for (see `records.Draft`): as a whole where it begins, then token by token as
long as they are accepted. So the round says it all: where it begins, the drafted tokens, and at how many steps it was told.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

import msgspec

from termchat.decoding.records import Draft, DraftToken

_ARRAYS = ("begins", "told", "accepted", "us", "drafters", "ends", "ids")


class DraftColumns:
    """Round i begins at token `begins[i]` and was recorded in `told[i]` steps, the first `accepted[i]` of which took the
    drafted token; the drafter is `names[drafters[i]]`, its time `us[i]` microseconds. Its drafted tokens are `ids` from the
    end of the round before to `ends[i]`, with their `texts`.

    What `append_draft` was given comes back as it was, whether or not it is what an engine would say; but an id has one text.
    """

    def __init__(self) -> None:
        self.begins = array("I")
        self.told = array("I")
        self.accepted = array("I")
        self.us = array("I")
        self.drafters = array("I")
        self.ends = array("I")
        self.ids = array("i")
        self.names: list[str] = []
        self.texts: dict[int, str] = {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DraftColumns) and self.packed() == other.packed()

    __hash__ = None  # type: ignore[assignment]  # it grows

    def append_draft(self, index: int, draft: Draft) -> None:
        """Add the draft of a token behind all others."""
        if self._goes_on(index, draft):
            self.told[-1] += 1
            self.accepted[-1] += draft.accepted
            return
        if draft.by not in self.names:
            self.names.append(draft.by)
        self.begins.append(index)
        self.told.append(1)
        self.accepted.append(draft.accepted)
        self.us.append(min(max(draft.us, 0), 2**32 - 1))
        self.drafters.append(self.names.index(draft.by))
        for token in draft.tokens:
            self.ids.append(token.id)
            self.texts.setdefault(token.id, token.text)
        self.ends.append(len(self.ids))

    def find_draft(self, index: int) -> Draft | None:
        """Return the draft of a token."""
        place = bisect_right(self.begins, index) - 1
        step = index - self.begins[place] if place >= 0 else 0
        if place < 0 or step >= self.told[place]:
            return None
        first, end = self._find_bounds(place)
        ids = self.ids[first + step : first + step + 1] if step else self.ids[first:end]
        return Draft(
            self.names[self.drafters[place]],
            step < self.accepted[place],
            [DraftToken(i, self.texts[i]) for i in ids],
            0 if step else self.us[place],
        )

    def row_us(self, us: Sequence[int], begin: int, end: int) -> list[int]:
        """Return the decode times of tokens `begin` to `end` of all `us`. The time of a round, which its first token has,
        counts at each of its tokens, divided by the rows of the round."""
        times = list(us[begin:end])
        for place in range(max(bisect_right(self.begins, begin) - 1, 0), bisect_right(self.begins, end - 1)):
            first, told = self.begins[place], self.told[place]
            ids, ids_end = self._find_bounds(place)
            has_bonus = told == self.accepted[place] == ids_end - ids and not any(us[first + told : first + told + 1])
            for at in range(max(first, begin), min(first + told + has_bonus, end)):
                times[at - begin] = us[first] // (1 + ids_end - ids)
        return times

    def drafting_us(self, begin: int, end: int) -> int:
        """Return the microseconds that drafting for tokens `begin` to `end` took."""
        return sum(self.us[bisect_left(self.begins, begin) : bisect_left(self.begins, end)])

    def _goes_on(self, index: int, draft: Draft) -> bool:
        """Return whether a draft is the next token of the newest round."""
        if not self.begins or draft.us or self.names[self.drafters[-1]] != draft.by:
            return False
        step, (first, end) = self.told[-1], self._find_bounds(len(self.begins) - 1)
        if self.begins[-1] + step != index or self.accepted[-1] < step or first + step >= end:
            return False
        following = self.ids[first + step]
        return draft.tokens == [DraftToken(following, self.texts[following])]

    def _find_bounds(self, place: int) -> tuple[int, int]:
        return self.ends[place - 1] if place else 0, self.ends[place]

    def packed(self) -> bytes:
        """Return all columns."""
        arrays = [getattr(self, name).tobytes() for name in _ARRAYS]
        return msgspec.msgpack.encode((arrays, self.names, self.texts))

    @classmethod
    def unpacked(cls, packed: bytes) -> DraftColumns:
        """Read the result of `packed`; raise ValueError if it is damaged."""
        columns = cls()
        arrays, columns.names, columns.texts = msgspec.msgpack.decode(
            packed, type=tuple[list[bytes], list[str], dict[int, str]]
        )
        for name, content in zip(_ARRAYS, arrays, strict=True):
            getattr(columns, name).frombytes(content)
        rounds = {len(getattr(columns, name)) for name in _ARRAYS if name != "ids"}
        ends, known = columns.ends, len(columns.names)
        if len(rounds) > 1 or (ends[-1] if ends else 0) != len(columns.ids) or list(ends) != sorted(ends):
            raise ValueError("the drafts have different lengths")
        if any(place >= known for place in columns.drafters) or not columns.texts.keys() >= set(columns.ids):
            raise ValueError("a draft has no name")
        return columns
