"""The looks: how replies are shown. In a token look the ground behind every token is the heat of its step by a measure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, get_args
from weakref import WeakKeyDictionary

from termchat.conversation.heat import MEASURES, MeasureName
from termchat.conversation.tree import TokenColumns
from termchat.tui.draw.ink import HEATS

TokenLook = MeasureName
Look = Literal["reading", "probability", "entropy", "rank", "time"]

TOKEN_LOOKS: tuple[TokenLook, ...] = get_args(TokenLook)
LOOKS: tuple[Look, ...] = get_args(Look)

CALM = HEATS - 1

_Reading = tuple[bytearray, Callable[..., int]]
_readings: WeakKeyDictionary[TokenColumns, dict[TokenLook, _Reading]] = WeakKeyDictionary()


def heats(tokens: TokenColumns, look: TokenLook) -> Sequence[int]:
    """The heat of each token so far, one byte each, 0 to CALM. Every token is measured once; its byte does not change later."""
    measure = MEASURES[look]
    known = _readings.setdefault(tokens, {})
    if look not in known:
        known[look] = bytearray(), measure.scale(CALM)
    read, scale = known[look]
    if len(read) < len(tokens):
        read.extend(map(scale, measure.column(tokens)[len(read) :]))
    return read
