"""Why a token was drawn or not, as values; `decoding.whynot` makes them."""

from __future__ import annotations

import msgspec


class StageEffect(msgspec.Struct, frozen=True, array_like=True):
    """What a stage of the chain did to one token: its logit and probability after the stage (None once cut), how many tokens
    were left, and whether it was this stage that cut it. The dice cut all but the one they take.
    """

    name: str
    logit: float | None
    probability: float | None
    survivors: int
    cut: bool


class Penalised(msgspec.Struct, frozen=True, array_like=True):
    """What the penalties took from the token's logit (below 0: what they added), and the positions in the context of the
    earlier ones that caused it.
    """

    loss: float
    positions: list[int]


class Remedy(msgspec.Struct, frozen=True, array_like=True):
    """A knob and the value from which the token is kept or wins, all else as it is but for the remedies before this one.

    `sign` is which side of the value will do: ">=" or "<=". With "=" a penalty is taken off, all else as it is without any
    other remedy. `wins`: with it the dice take the token; else it survives the stage. `value` None: no value of the knob can
    do it. A temperature wins only as far as `until`, in the direction of `sign`; None is to the knob's end.
    """

    knob: str
    sign: str
    value: float | None
    wins: bool
    until: float | None = None


class Explanation(msgspec.Struct, frozen=True, array_like=True):
    """Everything about one token at one step; the names are those of a `Token` record. `winner` is what the dice took.

    `removed_by` is the stage that cut it, None if it came as far as the dice. `remedies` are in the order of the chain, none
    for the winner.
    """

    id: int
    text: str
    logit: float
    logprob: float
    rank: int
    probability: float
    noise: float
    stages: list[StageEffect]
    removed_by: str | None
    penalised: Penalised | None
    remedies: list[Remedy]
    winner: int
    winner_text: str
