"""The line that says what the colours of a token look mean."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from termchat.conversation.heat import MEASURES
from termchat.conversation.tree import Span
from termchat.tui.draw.ink import HEATS, Ink, Line, Run
from termchat.tui.draw.marks import MUTED, TEXT
from termchat.tui.transcript.looks import ACCEPTED, PLAIN, REJECTED, TokenLook, has_drafts, heat_inks

_FORCED = Ink("muted", underline=True, italic=True)
"""As the transcript marks tokens that a person forced."""
_SWATCHES = 8
_DRAFTED = (("accepted", ACCEPTED), ("rejected", REJECTED), ("plain", PLAIN))


def legend_line(look: TokenLook, reply: Sequence[Span] | None = None) -> Line:
    """The look's name, its colours from hot to calm between the words for both ends, and how forced tokens and near ties are
    marked. The look of drafts has a word for each colour, and one where nothing was drafted for the
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
    inks = heat_inks("drafts")[False]
    words = [[(f" {word} ", inks[heat]), (" ", MUTED)] for word, heat in _DRAFTED]
    return Line((name, *chain.from_iterable(words), (" forced", _FORCED)))
