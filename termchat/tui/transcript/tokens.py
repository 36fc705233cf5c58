"""The tokens of the path: which can be reached, in which order, where their text is in a turn, and which are worth a jump."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple
from weakref import WeakKeyDictionary

from termchat.conversation.setting_changes import describe_changes
from termchat.conversation.tree import TokenColumns
from termchat.tui.transcript.turn_source import Part

IMPROBABLE = 0.1
"""A token that the model itself gave less is a surprise."""

UNCERTAIN = 0.9
"""The share of a reply's tokens whose entropy is lower than that of an uncertain one."""


_RECKONED = 256
"""Tokens after which a growing reply's entropies are sorted again."""

_thresholds: WeakKeyDictionary[TokenColumns, tuple[int, float]] = WeakKeyDictionary()


class TokenRef(NamedTuple):
    """A token of the chat: the number of its node, and its place among the node's own tokens."""

    node: int
    index: int  # type: ignore[assignment]  # hides a method of tuples


Test = Callable[[Sequence[Part], range], int | None]
"""The first index of a range, which may run backwards, whose token of the last part qualifies; None without any. The other
parts are those before it in the same reply."""


class Track:
    """All tokens of the path, numbered from 0. Only the last part of the last reply may still grow."""

    def __init__(self, turns: Sequence[Sequence[Part]]) -> None:
        replies = [(turn, parts) for turn, parts in enumerate(turns) if parts[0].node.role == "assistant"]
        self._parts = [part for _, parts in replies for part in parts]
        self._turns = [turn for turn, parts in replies for _ in parts]
        self._starts = list(accumulate((part.reached for part in self._parts[:-1]), initial=0))
        """The number of each part's first token."""
        self._places = {part.node.number: place for place, part in enumerate(self._parts)}

    def __len__(self) -> int:
        return self._starts[-1] + self._parts[-1].reached if self._parts else 0

    def number_of(self, ref: TokenRef) -> int:
        return self._starts[self._places[ref.node]] + ref.index

    def at(self, number: int) -> TokenRef | None:
        """Return the token with a number; None outside."""
        if not 0 <= number < len(self):
            return None
        place = bisect_right(self._starts, number) - 1
        return TokenRef(self._parts[place].node.number, number - self._starts[place])

    def last(self) -> TokenRef | None:
        return self.at(len(self) - 1)

    def step(self, ref: TokenRef, by: int) -> TokenRef | None:
        """Return the token so many further on or back, also in another reply."""
        return self.at(self.number_of(ref) + by)

    def step_turn(self, ref: TokenRef, by: int) -> TokenRef | None:
        """Return the first token of the next reply (1) or of its own (-1); from there, of the reply before."""
        turn = self.turn_of(ref)
        begin = self._begin_of(turn)
        if by > 0:
            return self.at(self._begin_of(turn + 1))
        if begin == self.number_of(ref) and (before := self.at(begin - 1)) is not None:
            begin = self._begin_of(self.turn_of(before))
        return self.at(begin)

    def _begin_of(self, turn: int) -> int:
        """Return the number of the first token in a turn or behind it."""
        return [*self._starts, len(self)][bisect_left(self._turns, turn)]

    def turn_of(self, ref: TokenRef) -> int:
        return self._turns[self._places[ref.node]]

    def list_parts(self, turn: int) -> list[Part]:
        """List the parts of a reply."""
        return self._parts[bisect_left(self._turns, turn) : bisect_right(self._turns, turn)]

    def span(self, ref: TokenRef) -> tuple[int, int]:
        """Return the characters of a token in the text of its turn."""
        part = self._parts[self._places[ref.node]]
        texts = part.node.tokens.texts
        return part.begin + texts.start(ref.index), part.begin + texts.start(ref.index + 1)

    def find_token(self, turn: int, offset: int) -> TokenRef | None:
        """Return the token that a character of a turn belongs to, if the path reaches it."""
        part = next((part for part in reversed(self.list_parts(turn)) if part.begin <= offset), None)
        if part is None or offset - part.begin >= part.node.tokens.texts.start(part.shown):
            return None
        index = part.node.tokens.texts.find_text(offset - part.begin)
        return TokenRef(part.node.number, index) if index < part.reached else None

    def nearest(self, ref: TokenRef) -> TokenRef | None:
        """Return the token; where the path does not reach it, the last one of its node, or else of the chat."""
        if ref.node in self._places and (count := self._parts[self._places[ref.node]].reached):
            return ref._replace(index=min(max(ref.index, 0), count - 1))
        return self.last()

    def jump(self, ref: TokenRef, test: Test, *, back: bool) -> TokenRef | None:
        """Return the nearest token after another, or before it, that qualifies."""
        here = self._places[ref.node]
        for place in range(here, -1, -1) if back else range(here, len(self._parts)):
            part = self._parts[place]
            first = bisect_left(self._turns, self._turns[place])
            begin, end = 0, part.reached
            if place == here:
                begin, end = (0, ref.index) if back else (ref.index + 1, end)
            index = test(self._parts[first : place + 1], range(begin, end)[:: -1 if back else 1])
            if index is not None:
                return TokenRef(part.node.number, index)
        return None


def find_surprise(parts: Sequence[Part], indexes: range) -> int | None:
    """Find a token that was not the model's first choice, or had a probability under 0.1; none chosen by hand."""
    tokens, least = parts[-1].node.tokens, math.log(IMPROBABLE)
    by_hand = tokens.by_hand
    surprises = (index for index in indexes if tokens.ranks[index] > 0 or tokens.logprobs[index] < least)
    return next((index for index in surprises if not by_hand[index]), None)


def find_uncertain(parts: Sequence[Part], indexes: range) -> int | None:
    """Find a peak of entropy: higher than the token before, no lower than the one after, and at least the 90th percentile of
    the node's tokens, but above 0."""
    if not indexes:
        return None  # there may be no token of which to take a percentile
    bits, count = parts[-1].node.tokens.entropies, parts[-1].reached
    least = _find_threshold(parts[-1].node.tokens)
    for index in indexes:
        here = bits[index]
        if (
            here >= least
            and here > 0
            and not (index > 0 and here <= bits[index - 1])
            and not (index + 1 < count and here < bits[index + 1])
        ):
            return index
    return None


def find_change(parts: Sequence[Part], indexes: range) -> int | None:
    """Find a token drawn with other settings than the token before it in the same reply."""
    node = parts[-1].node
    earlier = [(part.node, part.reached - 1) for part in reversed(parts[:-1]) if part.reached]
    for index in sorted({at for at in node.settings_at if at in indexes}, reverse=indexes.step < 0):
        before = (node, index - 1) if index else next(iter(earlier), None)
        old = before[0].settings_before(before[1]) if before is not None else None
        new = node.settings_before(index)
        if old is not None and new is not None and describe_changes(old, new):
            return index
    return None


def find_fork(forks: Iterable[tuple[int, int]]) -> Test:
    """Make a test for tokens at which another branch leaves the path; `forks` are numbers of nodes and indexes."""
    places: dict[int, set[int]] = {}
    for node, index in forks:
        places.setdefault(node, set()).add(index)

    def test(parts: Sequence[Part], indexes: range) -> int | None:
        at = (index for index in places.get(parts[-1].node.number, ()) if index in indexes)
        return (max if indexes.step < 0 else min)(at, default=None)

    return test


def _find_threshold(tokens: TokenColumns) -> float:
    count = len(tokens) - len(tokens) % _RECKONED if len(tokens) > _RECKONED else len(tokens)
    known = _thresholds.get(tokens)
    if known is None or known[0] != count:
        bits = sorted(value for value in tokens.entropies[:count] if not math.isnan(value))
        known = _thresholds[tokens] = count, bits[int(UNCERTAIN * (len(bits) - 1))] if bits else math.inf
    return known[1]
