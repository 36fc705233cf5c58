"""Where the cursor jumps to: for each kind of jump, the first of some tokens that qualifies."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable
from weakref import WeakKeyDictionary

from termchat.conversation.setting_changes import describe_changes
from termchat.conversation.tree import Node, TokenColumns
from termchat.decoding.records import SettingsRecord
from termchat.tui.transcript.cursor.token_order import Stretch, TokenRef, Track

Test = Callable[[Stretch, range], int | None]
"""The first index of a range, which may run backwards, whose token qualifies; None without any."""

IMPROBABLE = 0.1
"""A token that the model itself gave less is a surprise."""

UNCERTAIN = 0.9
"""The share of a reply's tokens whose entropy is lower than that of an uncertain one."""

_RECKONED = 256
"""Tokens after which a growing reply's entropies are sorted anew."""

_thresholds: WeakKeyDictionary[TokenColumns, tuple[int, float]] = WeakKeyDictionary()


def is_surprise(stretch: Stretch, indexes: range) -> int | None:
    """A token that was not the model's first choice, or that the model gave a probability under 0.1. None that a person
    chose."""
    tokens, least = stretch.node.tokens, math.log(IMPROBABLE)
    by_hand = tokens.by_hand
    surprises = (index for index in indexes if tokens.ranks[index] > 0 or tokens.logprobs[index] < least)
    return next((index for index in surprises if not by_hand[index]), None)


def is_uncertain(stretch: Stretch, indexes: range) -> int | None:
    """A peak of entropy: higher than the token before, no lower than the one after, and at least the 90th percentile of
    the node's tokens, but above 0."""
    if not indexes:
        return None  # there may be no token of which to take a percentile
    bits, count = stretch.node.tokens.entropies, stretch.reached
    least = _percentile(stretch.node.tokens)
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


def is_changed(stretch: Stretch, indexes: range) -> int | None:
    """A token drawn with other knobs than the token before it in the same reply."""
    for index in sorted({at for at in stretch.node.settings_at if at in indexes}, reverse=indexes.step < 0):
        after = _settings(stretch.node, index)
        before = _settings(stretch.node, index - 1) if index else _last_settings(stretch.before)
        if after is not None and before is not None and describe_changes(before, after):
            return index
    return None


def is_fork(forks: Iterable[tuple[int, int]]) -> Test:
    """A token in whose place another branch goes on differently; `forks` are numbers of nodes and indexes."""
    places: dict[int, set[int]] = {}
    for node, index in forks:
        places.setdefault(node, set()).add(index)

    def test(stretch: Stretch, indexes: range) -> int | None:
        found = (index for index in places.get(stretch.node.number, ()) if index in indexes)
        return (max if indexes.step < 0 else min)(found, default=None)

    return test


def jump(track: Track, ref: TokenRef, test: Test, *, back: bool) -> TokenRef | None:
    """The nearest token after another, or before it, that qualifies."""
    for stretch, indexes in track.ranges(ref, back=back):
        index = test(stretch, indexes)
        if index is not None:
            return TokenRef(stretch.node.number, index)
    return None


def _percentile(tokens: TokenColumns) -> float:
    count = len(tokens) - len(tokens) % _RECKONED if len(tokens) > _RECKONED else len(tokens)
    known = _thresholds.get(tokens)
    if known is None or known[0] != count:
        bits = sorted(value for value in tokens.entropies[:count] if not math.isnan(value))
        least = bits[int(UNCERTAIN * (len(bits) - 1))] if bits else math.inf
        known = _thresholds[tokens] = count, least
    return known[1]


def _settings(node: Node, index: int) -> SettingsRecord | None:
    place = bisect_right(node.settings_at, index) - 1
    return node.settings[place] if place >= 0 else None


def _last_settings(stretch: Stretch | None) -> SettingsRecord | None:
    while stretch is not None and not stretch.reached:
        stretch = stretch.before
    return _settings(stretch.node, stretch.reached - 1) if stretch is not None else None
