"""Where two replies with the same dice part, and why. The records of that step have the same noise, and the same logits unless
they were computed in different ways."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

from termchat.decoding.records import Candidate, Token
from termchat.decoding.stages import DICE, TEMPERATURE, loss_of
from termchat.text import percent, show_piece

Cause = Literal["cut", "uncut", "overtaken", "forced", "other dice", "unknown"]
"""The first one's token is cut in the second; or the second one's is cut in the first; or neither is, and the order changed. A
person chose one of the two; their dice differ; or the candidates on record do not tell."""

_CUTS_NOTHING = "penalties"
"""A stage that is always there."""


class Divergence(NamedTuple):
    """Two replies part at `step`, where the first takes `one` and the second takes `other`, tokens as they are shown.

    `of_one` and `of_other` are the probabilities of these two, after the chain, in the first reply and in the second; None
    where it was cut, or is not on record. `stage` is the one that cut it, "" where that is not known. `tie`: one of the draws
    was a near tie, and the logits differ.
    """

    step: int
    cause: Cause
    one: str
    other: str
    of_one: tuple[float | None, float | None] = (None, None)
    of_other: tuple[float | None, float | None] = (None, None)
    stage: str = ""
    tie: bool = False

    def __str__(self) -> str:
        """On one line, as replies A and B; the step counts from 1."""
        cut = loss_of(self.stage) if self.stage == TEMPERATURE else f"cut by {self.stage}" if self.stage else "cut"
        instead = f"{self.other} instead of {self.one}"
        reasons = {
            "cut": _show_change(self.one, self.of_one, cut),
            "uncut": _show_change(self.other, self.of_other, cut),
            "overtaken": f"{_show_change(self.one, self.of_one)}, overtaken by {_show_change(self.other, self.of_other)}",
            "forced": f"{instead}, forced",
            "other dice": f"{instead}, with other dice",
            "unknown": instead,
        }
        tie = " · near tie: the setting may not be the cause" if self.tie else ""
        return f"they part at token {self.step + 1} (A → B): {reasons[self.cause]}{tie}"


def find_parting(first: Token, second: Token) -> Divergence:
    """Explain why the second of two replies takes another token than the first, at the first step where they differ."""
    here, there = ({candidate.id: candidate for candidate in token.candidates} for token in (first, second))
    common, forced = here.keys() & there.keys(), first.forced or second.forced
    moved = any(here[id].logit != there[id].logit for id in common)
    stage = None
    if forced:
        cause: Cause = "forced"
    elif any(math.isnan(listed.noise) for listed in (*here.values(), *there.values())):
        cause = "unknown"  # a server drew, and does not tell how
    elif any(here[id].noise != there[id].noise for id in common):
        cause = "other dice"
    elif (stage := _find_cut(first.id, second, there)) is not None:
        cause = "cut"
    elif (stage := _find_cut(second.id, first, here)) is not None:
        cause = "uncut"
    else:
        cause = "overtaken" if common and first.id in there else "unknown"
    pieces = _show_token(first, here, there), _show_token(second, there, here)
    of_one = _drop_nan(first.probability), _probability_of(first.id, there)
    of_other = _probability_of(second.id, here), _drop_nan(second.probability)
    tie = bool(first.near_tie or second.near_tie) and moved and not forced
    return Divergence(first.step, cause, *pieces, of_one, of_other, stage or "", tie)


def _show_token(token: Token, own: dict[int, Candidate], others: dict[int, Candidate]) -> str:
    listed = own.get(token.id) or others.get(token.id)
    return show_piece(listed.text if listed is not None else token.bytes.decode("utf-8", "replace"))


def _probability_of(id: int, listed: dict[int, Candidate]) -> float | None:
    """Return the probability of a token after the chain, if it is on record and was not cut."""
    return _drop_nan(listed[id].probability) if id in listed and listed[id].removed_by is None else None


def _drop_nan(probability: float) -> float | None:
    return None if math.isnan(probability) else probability


def _find_cut(id: int, token: Token, listed: dict[int, Candidate]) -> str | None:
    """Find the stage that cut an id at a step: "" if it is unknown which did, None if none did, as far as is known.

    One that is not listed is less likely than all that are. It is cut where all that are left are listed; and by the first
    stage for which that is so, if none before it cut anything.
    """
    if id in listed:
        return listed[id].removed_by
    whole = next((stage.survivors for stage in token.stages if stage.name == _CUTS_NOTHING), 0)
    gone: set[str | None] = set()
    before = whole
    for stage in token.stages:
        gone.add(stage.name)
        if stage.name != DICE and stage.survivors <= sum(one.removed_by not in gone for one in listed.values()):
            return stage.name if before == whole else ""
        before = stage.survivors
    return None


def _show_change(piece: str, shares: tuple[float | None, float | None], cut: str = "") -> str:
    """Format the change of a token's probability, as "the 61% → 22%"; unknown ones are left out."""
    known = [share for share in shares if share is not None]
    digits = 1 if len(known) == 2 and percent(known[0], 0) == percent(known[1], 0) else 0
    ends = [cut if share is None else percent(share, digits) for share in shares]
    return " ".join([piece, " → ".join(filter(None, ends))]).rstrip()
