"""What is known of a step once its token is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from termchat.decoding.records import Candidate, Stage


class Drawn(NamedTuple):
    """One step: the chosen id and every number of its record."""

    id: int
    logit: float
    logprob: float
    rank: int
    probability: float
    entropy: float
    p_end: float
    stages: list[Stage]
    candidates: Sequence[Candidate]
