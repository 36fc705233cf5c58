"""What several replies from one prompt have in common: why they were made, and how many there are."""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

GroupKind = Literal["walks", "grid", "compare", "best", "vote", "beams"]
"""Why a prompt is walked several times: to see that it differs, over values of knobs, two settings against each other, for the
best one, for a majority, or as a search."""
GROUP_KINDS: tuple[GroupKind, ...] = get_args(GroupKind)

MOST_WALKS = 32
"""Replies that are decoded in one batch at most."""

MOST_BEAMS = 16


class GridKnob(msgspec.Struct, frozen=True, array_like=True):
    """A knob, and the values that it has in a grid, in order; as in `SamplerSettings`."""

    name: str
    values: tuple[float, ...]


class BeamSettings(msgspec.Struct, frozen=True, array_like=True):
    """A beam search keeps `width` beams a step, and gives the `n_best`.

    A beam's score is the sum of its logprobs / its tokens to the power of `length_penalty` (as in transformers). With
    `early_stopping` it ends as soon as `width` beams are finished; else when no running beam can beat the worst of these at its
    present length. The logprobs are the model's own, or with `after_chain` those of what the chain leaves.
    """

    width: int
    length_penalty: float = 1.0
    n_best: int = 1
    early_stopping: bool = False
    after_chain: bool = False


class Group(msgspec.Struct, frozen=True, array_like=True):
    """Replies to one prompt, `size` of them, made together. Each is numbered from 0.

    `number` is the group's own: a random one of at most 53 bits, which whoever asks for it makes. A grid has one or two
    `knobs`, and `runs` walks for each cell: cells are numbered in the order given, the last knob's values varying fastest, the
    runs innermost. `same_dice`: all have the same seed; else walk i of a cell has the first one's seed + i. `answer` is the
    regular expression, or the JSON path (it begins with `$.`), that takes the answer out of each for a vote. The best of
    several has the highest sum of logprobs / its tokens to the power of `length_penalty`: with 1, the highest mean logprob.
    """

    number: int
    kind: GroupKind
    size: int
    knobs: tuple[GridKnob, ...] = ()
    runs: int = 1
    same_dice: bool = False
    answer: str = ""
    beams: BeamSettings | None = None
    length_penalty: float = 1.0
