"""The looks: how replies are shown. In a token look the ground behind every token is the heat of its step by a measure, or says
what became of a draft there. A legend says what the colours of a look mean."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from math import isnan
from typing import Literal, TypeVar, get_args
from weakref import WeakKeyDictionary

from termchat.conversation.heat import MEASURES, Heats
from termchat.conversation.tree import Node, Span, TokenColumns
from termchat.tui.draw.ink import HEATS, Ink, Line, Run
from termchat.tui.draw.marks import MUTED, TEXT

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


_known: WeakKeyDictionary[TokenColumns, dict[str, Heats]] = WeakKeyDictionary()
_drafts: WeakKeyDictionary[TokenColumns, bytearray] = WeakKeyDictionary()


def heats(tokens: TokenColumns, look: TokenLook) -> Sequence[int]:
    """Return the heat of each token of a reply so far, 0 to CALM."""
    if look != "drafts":
        known = _known.setdefault(tokens, {})
        if look not in known:
            known[look] = Heats(look, CALM)
        return known[look].compute_heats(tokens)
    read = _drafts.setdefault(tokens, bytearray())
    for at in range(len(read), len(tokens)):
        draft = tokens.find_draft(at)
        read.append(PLAIN if draft is None else ACCEPTED if draft.accepted else REJECTED)
    return read


def token_inks(tokens: TokenColumns, look: TokenLook, begin: int, end: int) -> list[Ink]:
    """Return the ink of each token from one to another: by its heat, and by whether it was forced or a near tie."""
    inks = _DRAFTED if look == "drafts" else _MEASURED
    marks = zip(tokens.by_hand[begin:end], tokens.near_ties[begin:end], heats(tokens, look)[begin:end], strict=True)
    return [inks[FORCED if forced else NEAR_TIE if near > 0 else DRAWN][heat] for forced, near, heat in marks]


def has_drafts(replies: Iterable[Node]) -> bool:
    """Return True if anything was drafted for one of them."""
    return any(node.tokens.drafts is not None for node in replies)


def lacks_after(replies: Iterable[Node]) -> bool:
    """Return True if the engine reported no probabilities after the chain."""
    columns = [node.tokens.probabilities for node in replies if len(node.tokens)]
    return bool(columns) and all(map(isnan, chain.from_iterable(columns)))


def next_look(looks: Sequence[_L], look: Look, replies: Iterable[Node]) -> _L:
    """Return the look after another; the first after one that is none of them. Looks without anything to show of the `replies`
    are passed over: that of drafts, and that after the chain."""
    replies = list(replies)
    offered = [
        one
        for one in looks
        if (one != "drafts" or has_drafts(replies)) and (one != "after" or not lacks_after(replies))
    ]
    after = looks.index(look) + 1 if look in looks else 0
    return next((one for one in looks[after:] if one in offered), offered[0])


_FORCED = Ink("muted", underline=True, italic=True)
"""As the transcript marks tokens that a person forced."""
_SWATCHES = 8
_DRAFT_WORDS = (("accepted", ACCEPTED), ("rejected", REJECTED), ("plain", PLAIN))


def legend_line(look: TokenLook, reply: Sequence[Span] | None = None) -> Line:
    """Render the look's name, its colours from hot to calm between the words for both ends, and how forced tokens and near ties
    are marked. The look of drafts has a word for each colour, and one where nothing was drafted for the
    `reply`, if that is given."""
    if look == "drafts":
        return _drafts_legend(reply)
    measure = MEASURES[look]
    near_tie = any(1 in span.node.tokens.near_ties[: span.count] for span in reply or ())
    wide = " " if near_tie else "  "  # else the line is too long for the panel
    swatches = [(wide, Ink(heat=step * HEATS // _SWATCHES)) for step in range(_SWATCHES)]
    ends = (f"{measure.hot} ", MUTED), *swatches, (f" {measure.calm}", MUTED)
    tied: list[Run] = [("  ", MUTED), ("near tie", Ink("muted", double=True))] if near_tie else []
    return Line(((f"{measure.title} ", TEXT), *ends, ("  ", MUTED), ("forced", _FORCED), *tied))


def _drafts_legend(reply: Sequence[Span] | None) -> Line:
    name: Run = ("drafts  ", TEXT)
    if reply is not None and not has_drafts(span.node for span in reply):
        settings = reply[-1].node.settings[-1:] if reply else []
        off = not settings or settings[0].draft is None
        why = "speculation was off" if off else settings[0].drafting
        return Line((name, (f"none in this reply{f': {why}' if why else ''}", MUTED)))
    inks = _DRAFTED[DRAWN]
    words = [[(f" {word} ", inks[heat]), (" ", MUTED)] for word, heat in _DRAFT_WORDS]
    return Line((name, *chain.from_iterable(words), (" forced", _FORCED)))
