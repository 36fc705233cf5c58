"""The looks: how replies are shown. In a token look the ground behind every token is the heat of its step by a measure, or says
what became of a draft there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from math import isnan
from typing import Literal, TypeVar, get_args
from weakref import WeakKeyDictionary

from termchat.conversation.heat import Heats
from termchat.conversation.tree import Node, TokenColumns
from termchat.tui.draw.ink import HEATS, Ink

TokenLook = Literal["probability", "after", "entropy", "rank", "time", "drafts"]
Look = Literal["reading", "probability", "after", "entropy", "rank", "time", "drafts"]

TOKEN_LOOKS: tuple[TokenLook, ...] = get_args(TokenLook)
LOOKS: tuple[Look, ...] = get_args(Look)

CALM = HEATS - 1

REJECTED, ACCEPTED, PLAIN = 0, HEATS // 2, CALM
"""The heats of the look of drafts: a draft stood there and another token was taken; it was taken; there was none."""

_L = TypeVar("_L", Look, TokenLook)

Inks = Sequence[Sequence[Ink]]
"""Those of tokens that were drawn, of those that a person forced, and of near ties, by heat."""

DRAWN, FORCED, NEAR_TIE = range(3)
_MARKS = (Ink(), Ink(underline=True, italic=True), Ink(double=True))
_MEASURED: Inks = [[mark._replace(heat=heat) for heat in range(HEATS)] for mark in _MARKS]
_DRAFTED: Inks = [
    [inks[REJECTED], *[mark._replace(color="success", ground="surface")] * (HEATS - 2), inks[PLAIN]]
    for mark, inks in zip(_MARKS, _MEASURED, strict=True)
]


class _DraftHeats:
    """What became of the draft at each token of one reply, as one byte each."""

    def __init__(self) -> None:
        self._read = bytearray()

    def compute_heats(self, tokens: TokenColumns) -> bytearray:
        """Those of all tokens so far; always the same reply's."""
        for at in range(len(self._read), len(tokens)):
            draft = tokens.find_draft(at)
            self._read.append(PLAIN if draft is None else ACCEPTED if draft.accepted else REJECTED)
        return self._read


_known: WeakKeyDictionary[TokenColumns, dict[TokenLook, Heats | _DraftHeats]] = WeakKeyDictionary()


def heats(tokens: TokenColumns, look: TokenLook) -> Sequence[int]:
    """The heat of each token so far, 0 to CALM."""
    known = _known.setdefault(tokens, {})
    if look not in known:
        known[look] = _DraftHeats() if look == "drafts" else Heats(look, CALM)
    return known[look].compute_heats(tokens)


def heat_inks(look: Look) -> Inks:
    return _DRAFTED if look == "drafts" else _MEASURED


def kinds(tokens: TokenColumns, begin: int, end: int) -> list[int]:
    """Which of the `Inks` each token has, from one to another."""
    pairs = zip(tokens.by_hand[begin:end], tokens.near_ties[begin:end], strict=True)
    return [FORCED if forced else NEAR_TIE if near_tie > 0 else DRAWN for forced, near_tie in pairs]


def has_drafts(replies: Iterable[Node]) -> bool:
    """Whether anything was drafted for one of them."""
    return any(node.tokens.drafts is not None for node in replies)


def lacks_after(replies: Iterable[Node]) -> bool:
    """Whether of no token of them is told what it was drawn with after the chain."""
    told = [node.tokens.probabilities for node in replies if len(node.tokens)]
    return bool(told) and all(map(isnan, chain.from_iterable(told)))


def next_look(looks: Sequence[_L], look: Look, replies: Iterable[Node]) -> _L:
    """The look that comes after another; the first after one that is none of them. That of drafts is passed over where nothing
    was drafted for the `replies`, that of the chain where nothing is told of it."""
    replies = list(replies)
    offered = [
        one
        for one in looks
        if (one != "drafts" or has_drafts(replies)) and (one != "after" or not lacks_after(replies))
    ]
    after = looks.index(look) + 1 if look in looks else 0
    return next((one for one in looks[after:] if one in offered), offered[0])
