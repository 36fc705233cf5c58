"""What the rounds do: drawn from the seed, the same every time."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

ROUNDS = 5
"""Of one life; a home fills with chats meanwhile, and each round looks at all of them."""

ENDS = ("app", "worker", "both")
"""Whom SIGKILL meets."""

SIGNALS = ("SIGTERM", "SIGHUP", "hang up")
"""What the app can answer: two signals, and a terminal that goes away."""


class Kind(NamedTuple):
    """A kind of round: how often it comes, up to how many seconds after its moment the end comes, and what ends."""

    weight: int
    longest: float
    ends: tuple[str, ...] = ENDS


KINDS = {
    "starting": Kind(8, 1.2),
    "streaming": Kind(22, 1.0),
    "saving": Kind(16, 0.03),
    "forking": Kind(14, 0.15),
    "exporting": Kind(10, 0.06),
    "pulling": Kind(10, 0.12, ("app",)),
    "starting on a screen": Kind(1, 2.0, (*ENDS, *SIGNALS)),
    "streaming on a screen": Kind(4, 1.5, (*ENDS, *SIGNALS)),
    "saving on a screen": Kind(3, 0.1, (*ENDS, *SIGNALS)),
}


class Round(NamedTuple):
    """One kill. `delay` in seconds after the moment that `kind` names; `seed` for whatever else is drawn."""

    number: int
    kind: str
    end: str
    delay: float
    seed: int

    @property
    def moment(self) -> str:
        """What goes on when the end comes."""
        return self.kind.removesuffix(" on a screen")

    def __str__(self) -> str:
        return f"round {self.number}: {self.end} ended {self.delay * 1e3:.0f} ms into {self.kind}"


def life(seed: int, number: int) -> list[Round]:
    """The rounds of a life."""
    random = Random(f"{seed} {number}")
    weights = [kind.weight for kind in KINDS.values()]
    rounds = []
    for i in range(ROUNDS):
        (name,) = random.choices(list(KINDS), weights)
        kind = KINDS[name]
        rounds.append(
            Round(
                number=number * ROUNDS + i,
                kind=name,
                end=random.choice(kind.ends),
                delay=random.uniform(0.0, kind.longest),
                seed=random.getrandbits(32),
            )
        )
    return rounds
