"""The looks: how replies are shown. In a token look the ground behind every token is the heat of its step by a measure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args
from weakref import WeakKeyDictionary

from termchat.conversation.heat import Heats, MeasureName
from termchat.conversation.tree import TokenColumns
from termchat.tui.draw.ink import HEATS

TokenLook = MeasureName
Look = Literal["reading", "probability", "after", "entropy", "rank", "time"]

TOKEN_LOOKS: tuple[TokenLook, ...] = get_args(TokenLook)
LOOKS: tuple[Look, ...] = get_args(Look)

CALM = HEATS - 1

_known: WeakKeyDictionary[TokenColumns, dict[TokenLook, Heats]] = WeakKeyDictionary()


def heats(tokens: TokenColumns, look: TokenLook) -> Sequence[int]:
    """The heat of each token so far, 0 to CALM."""
    known = _known.setdefault(tokens, {})
    if look not in known:
        known[look] = Heats(look, CALM)
    return known[look].of(tokens)
