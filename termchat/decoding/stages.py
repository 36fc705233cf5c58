"""Every stage of the sampler chain, declared once, in llama.cpp's order.

The native step builds and applies the stages of this table (`engine.llama.native_samplers`); `arithmetic` computes them
where that cannot, and for why-not; the panels show them. A stage's knobs are those of `samplers.KNOBS` that name it; flags and
the transcript's schema have those. To add a stage: an entry here, its name in `samplers.ORDER`, its knobs there, and its
arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import msgspec

from termchat.decoding.samplers import KNOBS, SamplerSettings, Value

N_VOCAB = "n_vocab"
"""The argument that stands for the size of the vocabulary."""
BIASES = "biases"
"""The one that stands for what is added to the logits of tokens, by id."""


class SamplerStage(msgspec.Struct, frozen=True, kw_only=True):
    """One stage of the chain.

    `sampler` is the rest of the name of `llama_sampler_init_…`, which takes `arguments`: knobs by name, `N_VOCAB` and its
    like, or constants. A stage without one is ours: `observe.c` has `termchat_stage_…` for it. An `optional` stage is left
    out of the chain, and so of the records, while it is off. Of a stage with `modes` the value of that knob, from 1 on, is a
    part of the function's name.

    `limit` names the knob that says how many of the highest logits it leaves. The engine may select those before the chain
    runs if all active stages in front of it are `sparse`: they change the logits only of tokens that they `remember`, or of
    those that are biased. `floor`: it leaves all that is above a floor, which a pass over the row finds.
    `remembers` names the knob that says how many of the last tokens it looks at; it is told of each token that is taken.
    `masks` says whether under these settings it leaves tokens in their place with a logit of -inf instead of removing them.
    `counts_masked` says whether those change what it does, as if they were left.
    `replaces`: while it is on all stages but the named ones are off. `first`: it comes before all stages that have an order;
    `last`: it follows them.
    `moves`: it changes logits. `draws`: it ends the chain, with one token. `switched_by` names the knobs that
    turn it on where its others do not.
    """

    name: str
    sampler: str = ""
    arguments: tuple[str | int, ...] = ()
    optional: bool = True
    sparse: bool = False
    moves: bool = False
    limit: str = ""
    floor: bool = False
    remembers: str = ""
    modes: str = ""
    masks: Callable[[SamplerSettings], bool] = lambda _: False
    counts_masked: Callable[[SamplerSettings], bool] = lambda _: False
    replaces: tuple[str, ...] = ()
    first: bool = False
    last: bool = False
    draws: bool = False
    switched_by: tuple[str, ...] = ()

    @property
    def knobs(self) -> tuple[str, ...]:
        """In the order of the panel."""
        return tuple(name for name, knob in KNOBS.items() if knob.stage == self.name)

    @property
    def switches(self) -> tuple[str, ...]:
        """Knobs each of which turns it on."""
        return self.switched_by or tuple(
            name for name in self.knobs if name != self.remembers and KNOBS[name].off is not None
        )

    def is_active(self, settings: SamplerSettings) -> bool:
        """Return whether it can change anything."""
        if self.remembers and getattr(settings, self.remembers) == KNOBS[self.remembers].off:
            return False
        return self.draws or any(getattr(settings, name) != KNOBS[name].off for name in self.switches)

    def find_window(self, settings: SamplerSettings) -> int:
        """Return how many of the last tokens it looks at; 0 while it is off."""
        return getattr(settings, self.remembers) if self.remembers and self.is_active(settings) else 0


_STAGES = (
    SamplerStage(
        name="logit_bias",
        sampler="logit_bias",
        arguments=(N_VOCAB, BIASES),
        sparse=True,
        moves=True,
        masks=lambda _: True,
        first=True,
    ),
    SamplerStage(
        name="penalties",
        sampler="penalties",
        arguments=(N_VOCAB, "repeat_last_n", "repeat_penalty", "frequency_penalty", "presence_penalty"),
        optional=False,
        sparse=True,
        moves=True,
        remembers="repeat_last_n",
    ),
    SamplerStage(
        name="dry",
        sparse=True,
        moves=True,
        remembers="dry_penalty_last_n",
        switched_by=("dry_multiplier",),
    ),
    SamplerStage(
        name="top_n_sigma",
        sampler="top_n_sigma",
        arguments=("top_n_sigma",),
        floor=True,
        masks=lambda s: s.top_n_sigma > 0,
    ),
    SamplerStage(name="top_k", sampler="top_k", arguments=("top_k",), optional=False, limit="top_k"),
    SamplerStage(
        name="typical_p", sampler="typical", arguments=("typical_p", 1), counts_masked=lambda s: s.typical_p < 1
    ),
    SamplerStage(name="top_p", sampler="top_p", arguments=("top_p", 1), optional=False),
    SamplerStage(name="min_p", sampler="min_p", arguments=("min_p", 1), optional=False, floor=True),
    SamplerStage(name="xtc"),
    SamplerStage(name="p_less"),
    SamplerStage(name="top_h"),
    SamplerStage(name="min_k"),
    SamplerStage(
        name="temperature",
        sampler="temp_ext",
        arguments=("temperature", "dynatemp_range", "dynatemp_exponent"),
        optional=False,
        moves=True,
        masks=lambda s: s.temperature <= s.dynatemp_range,
        counts_masked=lambda s: s.dynatemp_range > 0,
        switched_by=("temperature", "dynatemp_range"),
    ),
    SamplerStage(
        name="mirostat",
        modes="mirostat",
        replaces=("logit_bias", "temperature"),
        last=True,
    ),
    SamplerStage(name="adaptive_p", moves=True, last=True),
    SamplerStage(name="dice", draws=True),
)  # fmt: skip

STAGES: dict[str, SamplerStage] = {stage.name: stage for stage in _STAGES}
"""Name to stage, in the order of the panel."""

DICE = "dice"
TEMPERATURE = "temperature"


def loss_of(stage: str) -> str:
    """Say in words why a stage removed a candidate. Temperature cuts none: at 0 it takes the highest logit."""
    return "not highest" if stage == TEMPERATURE else f"cut {stage}"


LOGIT_BIAS = "logit_bias"


def chain_of(settings: SamplerSettings, *, biased: bool = False) -> tuple[SamplerStage, ...]:
    """Return the stages of a step under these settings, up to the draw. `biased`: the model has biases of its own."""
    first, last = ([stage.name for stage in STAGES.values() if getattr(stage, end)] for end in ("first", "last"))
    chain = [
        STAGES[name]
        for name in (*first, *settings.order, *last)
        if not STAGES[name].optional or STAGES[name].is_active(settings) or (biased and name == LOGIT_BIAS)
    ]
    sole = next((stage for stage in chain if stage.replaces), None)
    return tuple(chain if sole is None else [stage for stage in chain if stage is sole or stage.name in sole.replaces])


def first_full(settings: SamplerSettings) -> SamplerStage | None:
    """Return the first stage that looks at more than the tokens that a `sparse` one remembers."""
    return next((stage for stage in chain_of(settings) if stage.is_active(settings) and not stage.sparse), None)


def has_floor(settings: SamplerSettings) -> bool:
    """Return whether the first cut is a floor under the highest logit, which a pass over the row finds."""
    first = first_full(settings)
    if first is None or not first.floor or not getattr(settings, first.name) > 0:
        return False
    return not (first.masks(settings) and any(stage.counts_masked(settings) for stage in chain_of(settings)))


def needs_all(settings: SamplerSettings) -> str:
    """Return the stage for which the chain must see the whole vocabulary, which takes milliseconds a token; "" without one."""
    first = first_full(settings)
    if first is None:
        return DICE
    if sole := next((stage.name for stage in chain_of(settings) if stage.replaces), ""):
        return sole
    return "" if first.limit or has_floor(settings) else first.name


def replaced_by(stage: SamplerStage, settings: SamplerSettings) -> str:
    """Return the stage that is on in place of this one, which would act without it; "" without one."""
    sole = next((other for other in chain_of(settings) if other.replaces), None)
    if sole is None or stage is sole or stage.draws or stage.name in sole.replaces:
        return ""
    return sole.name if stage.is_active(settings) and (stage.last or stage.name in settings.order) else ""


_SERVANTS = frozenset(
    ("repeat_last_n", "dry_penalty_last_n", "dry_sequence_breakers", "dynatemp_exponent", "draft_max", "seed")
)
"""Knobs with a value at which they are off, or none, that do nothing by themselves."""


def acting(settings: SamplerSettings, lacks: Collection[str]) -> list[str]:
    """List the knobs among those that an engine lacks which would change replies at their values, in the order of the panel."""
    return [
        name
        for name, knob in KNOBS.items()
        if name in lacks
        and hasattr(settings, name)
        and getattr(settings, name) != _idle(name)
        and name not in _SERVANTS
        and (knob.off is not None or name == "order")
    ]


def without(settings: SamplerSettings, lacks: Collection[str]) -> SamplerSettings:
    """Turn off the knobs that an engine lacks."""
    return msgspec.structs.replace(settings, **{name: _idle(name) for name in acting(settings, lacks)})


def _idle(name: str) -> Value:
    """Return the value at which a knob does nothing."""
    knob = KNOBS[name]
    return knob.default if knob.off is None else knob.off
