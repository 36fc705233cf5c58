"""Every stage of the sampler chain, declared once, in llama.cpp's order.

The chain and its native step build and apply the stages of this table (`engine.llama.chain`), why-not computes them again
(`whynot`), the panels show them. A stage's knobs are those of `samplers.KNOBS` that name it; flags and the transcript's schema
have those. To add a stage: an entry here, its knobs there, and its arithmetic in `whynot`.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from termchat.decoding.samplers import KNOBS, SamplerSettings

N_VOCAB = "n_vocab"
"""The argument that stands for the size of the vocabulary."""


class SamplerStage(msgspec.Struct, frozen=True, kw_only=True):
    """One stage of the chain.

    `sampler` is the rest of the name of `llama_sampler_init_…`, which takes `arguments`: knobs by name, `N_VOCAB`, or
    constants. An `optional` stage is left out of the chain, and so of the records, while it is off.

    `limit` names the knob that says how many of the highest logits it leaves. The engine may select those before the chain
    runs, unless an active stage in front of it needs the `whole` vocabulary. `remembers` names the knob that says how many of
    the last tokens it looks at; it is told of each token that is taken. `masks` says whether under these settings it leaves
    tokens in their place with a logit of -inf instead of removing them. `draws`: it ends the chain, with one token.
    """

    name: str
    sampler: str = ""
    arguments: tuple[str | int, ...] = ()
    optional: bool = False
    whole: bool = False
    limit: str = ""
    remembers: str = ""
    masks: Callable[[SamplerSettings], bool] = lambda _: False
    draws: bool = False

    @property
    def knobs(self) -> tuple[str, ...]:
        """In the order of the panel."""
        return tuple(name for name, knob in KNOBS.items() if knob.stage == self.name)

    @property
    def switches(self) -> tuple[str, ...]:
        """The knobs that turn it on, each by itself."""
        return tuple(name for name in self.knobs if name != self.remembers and KNOBS[name].off is not None)

    def active(self, settings: SamplerSettings) -> bool:
        """Whether it can change anything."""
        if self.remembers and getattr(settings, self.remembers) == KNOBS[self.remembers].off:
            return False
        return self.draws or any(getattr(settings, name) != KNOBS[name].off for name in self.switches)

    def window(self, settings: SamplerSettings) -> int:
        """How many of the last tokens it looks at; 0 while it is off."""
        return getattr(settings, self.remembers) if self.remembers and self.active(settings) else 0


_ORDER = (
    SamplerStage(
        name="penalties",
        sampler="penalties",
        arguments=(N_VOCAB, "repeat_last_n", "repeat_penalty", "frequency_penalty", "presence_penalty"),
        remembers="repeat_last_n",
    ),
    SamplerStage(name="top_k", sampler="top_k", arguments=("top_k",), limit="top_k"),
    SamplerStage(name="top_p", sampler="top_p", arguments=("top_p", 1)),
    SamplerStage(name="min_p", sampler="min_p", arguments=("min_p", 1)),
    SamplerStage(name="temperature", sampler="temp", arguments=("temperature",), masks=lambda s: s.temperature <= 0),
    SamplerStage(name="dice", draws=True),
)

STAGES: dict[str, SamplerStage] = {stage.name: stage for stage in _ORDER}
"""Name to stage, in the order in which they are applied."""

DICE = "dice"


def chain_of(settings: SamplerSettings) -> tuple[SamplerStage, ...]:
    """The stages that a step goes through under these settings, up to the draw."""
    return tuple(
        stage for stage in STAGES.values() if not stage.draws and (not stage.optional or stage.active(settings))
    )
