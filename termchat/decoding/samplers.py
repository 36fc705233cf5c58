"""Every knob of the decoding loop, declared once.

Each field of `Tuning` declares its `Setting`; command line flags, the chain panel, the config file and all checks are made from
`KNOBS`. Names and defaults are llama.cpp's.
"""

from collections.abc import Mapping
from typing import Annotated

import msgspec

from termchat.decoding.conditions import Condition, Length, Stop, ThinkingBudget
from termchat.decoding.drafting import MOST_DRAFTED, By, DraftSettings
from termchat.decoding.escapes import escape as escape
from termchat.decoding.escapes import unescape as unescape
from termchat.decoding.escapes import well_formed as well_formed
from termchat.decoding.setting import Setting, SettingError, declared
from termchat.decoding.setting import Value as Value

ORDER = (
    "penalties", "dry", "top_n_sigma", "top_k", "typical_p", "top_p", "min_p", "xtc", "p_less", "top_h", "min_k",
    "temperature",
)  # fmt: skip
"""The stages that can be ordered, in llama.cpp's order; those that it lacks stand before the temperature. Mirostat and
adaptive_p have their place at the end of the chain."""

_ALIASES = {name: name for name in ORDER} | {
    "typ_p": "typical_p", "typical": "typical_p", "nucleus": "top_p", "temp": "temperature",
}  # fmt: skip
"""What llama.cpp calls a stage to what it is called here."""


class SamplerSettings(msgspec.Struct, frozen=True):
    """What the sampler chain reads, once per step. Immutable; a change is a new value and a record of its own."""

    logit_bias: Annotated[tuple[str, ...], Setting(
        kind="biases", key="b", label="bias", stage="logit_bias", none="none", off=(),
        help="ID=X or TEXT=X adds X to the logit of a token, or of each token of a text; =ban bans it. Quotes keep "
        'spaces, and digits a text: " Paris"=ban',
    )] = ()  # fmt: skip
    repeat_penalty: Annotated[float, Setting(
        key="r", label="repeat", stage="penalties", low=0.01, high=10, step=0.01, coarse=0.1, bar=2,
        off=1.0, help="makes recent tokens less likely: divides the logits of tokens in the last repeat_last_n",
    )] = 1.0  # fmt: skip
    repeat_last_n: Annotated[int, Setting(
        key="n", label="last_n", stage="penalties", high=1_000_000, step=1, coarse=64, bar=4096,
        off=0, logarithmic=True, help="how many recent tokens the penalties look back over, in prompt and reply",
    )] = 64  # fmt: skip
    frequency_penalty: Annotated[float, Setting(
        key="f", label="freq", stage="penalties", low=-10, high=10, step=0.05, coarse=0.5, bar=2,
        off=0.0, help="subtracted from a token's logit each time it has occurred",
    )] = 0.0  # fmt: skip
    presence_penalty: Annotated[float, Setting(
        key="e", label="presence", stage="penalties", low=-10, high=10, step=0.05, coarse=0.5, bar=2,
        off=0.0, help="subtracted once from the logit of any token already seen",
    )] = 0.0  # fmt: skip
    dry_multiplier: Annotated[float, Setting(
        key="D", label="dry", stage="dry", high=100, step=0.05, coarse=0.25, bar=2, off=0.0,
        help="DRY: penalises a token that would continue a repetition; the strength of the penalty",
    )] = 0.0  # fmt: skip
    dry_base: Annotated[float, Setting(
        key="B", label="dry_base", stage="dry", low=1, high=10, step=0.05, coarse=0.25, bar=4,
        help="DRY: the penalty grows by this factor with each further token of the repetition",
    )] = 1.75  # fmt: skip
    dry_allowed_length: Annotated[int, Setting(
        key="L", label="dry_len", stage="dry", high=1000, step=1, coarse=4, bar=32,
        help="DRY: the longest repetition, in tokens, that is not penalised",
    )] = 2  # fmt: skip
    dry_penalty_last_n: Annotated[int, Setting(
        key="N", label="dry_last", stage="dry", high=1_000_000, step=1, coarse=64, bar=4096, off=0,
        logarithmic=True, help="DRY: how many recent tokens are searched for repetitions",
    )] = 64  # fmt: skip
    dry_sequence_breakers: Annotated[tuple[str, ...], Setting(
        key="W", label="breakers", stage="dry", flag="dry_sequence_breaker", none="none", off=(),
        help="DRY: a text at which a repetition ends, such as the end of a line; none alone for no such text",
    )] = ("\n", ":", '"', "*")  # fmt: skip
    top_n_sigma: Annotated[float, Setting(
        key="g", label="n_sigma", stage="top_n_sigma", low=-1, high=100, step=0.1, coarse=0.5, bar=4,
        off=-1.0, help="keeps tokens whose logit is at most n standard deviations below the highest",
    )] = -1.0  # fmt: skip
    top_k: Annotated[int, Setting(
        key="k", label="top_k", stage="top_k", high=1_000_000, step=1, coarse=10, bar=1000, off=0,
        logarithmic=True, help="keeps the k tokens with the highest logits",
    )] = 40  # fmt: skip
    typical_p: Annotated[float, Setting(
        key="y", label="typical", stage="typical_p", high=1, step=0.01, coarse=0.05, bar=1, off=1.0,
        help="keeps the tokens whose surprise is nearest to the entropy, until their probabilities add up to p",
    )] = 1.0  # fmt: skip
    top_p: Annotated[float, Setting(
        key="p", label="top_p", stage="top_p", high=1, step=0.01, coarse=0.05, bar=1, off=1.0,
        help="keeps the nucleus: the likeliest tokens whose probabilities add up to p",
    )] = 0.95  # fmt: skip
    min_p: Annotated[float, Setting(
        key="m", label="min_p", stage="min_p", high=1, step=0.01, coarse=0.05, bar=1, off=0.0,
        help="keeps tokens with at least p times the probability of the likeliest",
    )] = 0.05  # fmt: skip
    xtc_probability: Annotated[float, Setting(
        key="c", label="xtc", stage="xtc", high=1, step=0.05, coarse=0.25, bar=1, off=0.0,
        help="XTC: how often the likeliest tokens are excluded, so that a less likely one is drawn",
    )] = 0.0  # fmt: skip
    xtc_threshold: Annotated[float, Setting(
        key="C", label="xtc_from", stage="xtc", high=1, step=0.01, coarse=0.05, bar=0.5,
        help="XTC: of the tokens with at least this probability all but the least likely are excluded; above 0.5 off",
    )] = 0.1  # fmt: skip
    p_less: Annotated[int, Setting(
        kind="switch", key="l", label="p_less", stage="p_less", high=1, step=1, coarse=1, bar=1, off=0,
        help="keeps tokens at least as likely as two draws are to agree (the sum of all squared probabilities)",
    )] = 0  # fmt: skip
    top_h: Annotated[float, Setting(
        key="h", label="top_h", stage="top_h", high=1, step=0.05, coarse=0.1, bar=1, off=0.0,
        help="keeps the likeliest tokens while their entropy is at most this share of the whole distribution's",
    )] = 0.0  # fmt: skip
    min_k: Annotated[float, Setting(
        key="M", label="min_k", stage="min_k", high=100, step=0.5, coarse=1, bar=10, off=0.0,
        help="cuts at the steepest drop of the sorted logits; the higher, the more tokens stay where all are close",
    )] = 0.0  # fmt: skip
    temperature: Annotated[float, Setting(
        key="t", label="temp", also=("temp",), stage="temperature", high=5, gap=0.01, step=0.05, coarse=0.25,
        bar=2, off=1.0, always=True, help="divides the logits: below 1 is sharper, above 1 flatter, 0 is greedy",
    )] = 0.8  # fmt: skip
    dynatemp_range: Annotated[float, Setting(
        key="R", label="dynatemp", stage="temperature", high=5, step=0.05, coarse=0.25, bar=2, off=0.0,
        help="dynamic temperature: how far the entropy may move the temperature, up or down",
    )] = 0.0  # fmt: skip
    dynatemp_exponent: Annotated[float, Setting(
        key="E", label="dyn_exp", stage="temperature", low=0.01, high=10, step=0.1, coarse=0.5, bar=4,
        off=1.0, help="dynamic temperature: the exponent of the entropy's share of its maximum",
    )] = 1.0  # fmt: skip
    mirostat: Annotated[int, Setting(
        key="o", label="mirostat", stage="mirostat", high=2, step=1, coarse=1, bar=2, off=0,
        help="Mirostat 1 or 2: holds the surprise of the tokens drawn near tau; replaces all stages but temperature",
    )] = 0  # fmt: skip
    mirostat_tau: Annotated[float, Setting(
        key="T", label="tau", stage="mirostat", high=100, step=0.1, coarse=1, bar=10,
        help="Mirostat: the surprise it aims at, in bits",
    )] = 5.0  # fmt: skip
    mirostat_eta: Annotated[float, Setting(
        key="H", label="eta", stage="mirostat", high=1, step=0.01, coarse=0.1, bar=1,
        help="Mirostat: how fast it follows",
    )] = 0.1  # fmt: skip
    adaptive_target: Annotated[float, Setting(
        key="A", label="adaptive", stage="adaptive_p", low=-1, high=1, step=0.05, coarse=0.1, bar=1,
        off=-1.0, help="adaptive-p: prefers tokens near this probability, so that the average stays there",
    )] = -1.0  # fmt: skip
    adaptive_decay: Annotated[float, Setting(
        key="Y", label="decay", stage="adaptive_p", high=0.99, step=0.01, coarse=0.1, bar=0.99,
        help="adaptive-p: how long earlier tokens count; 0.9 is about the last ten",
    )] = 0.9  # fmt: skip
    order: Annotated[tuple[str, ...], Setting(
        kind="order", key="O", label="order", flag="samplers", aliases=_ALIASES,
        help="the stages that act, in order, separated by semicolons; a stage that is left out does nothing",
    )] = ORDER  # fmt: skip


THINK_AUTO, THINK_ON = -1, 1_000_000
"""What `think` holds where the template decides, and where there is no limit."""
STEP_BY_STEP = "Let's think step by step."
"""What replies begin with while `step_by_step` is on, unless other words are configured."""


class Tuning(SamplerSettings, frozen=True):
    """Every knob a person turns: the samplers, and what a reply starts and ends with."""

    stop: Annotated[tuple[str, ...], Setting(
        key="s", label="stop", off=(), help="stop sequences: text that ends the reply and is not shown",
    )] = ()  # fmt: skip
    max_tokens: Annotated[int, Setting(
        key="a", label="max", also=("n_predict",), high=1_000_000, step=16, coarse=256, bar=4096, off=0,
        logarithmic=True, help="maximum reply length in tokens; 0 means no limit",
    )] = 0  # fmt: skip
    think: Annotated[int, Setting(
        key="K", label="think", low=THINK_AUTO, high=THINK_ON, step=16, coarse=256, bar=4096,
        off=THINK_AUTO, logarithmic=True, words={"auto": THINK_AUTO, "off": 0, "on": THINK_ON},
        help="whether a reasoning model thinks: auto, on, off, or at most so many tokens, after which it has to answer",
    )] = THINK_AUTO  # fmt: skip
    step_by_step: Annotated[int, Setting(
        kind="switch", key="S", label="steps", high=1, step=1, coarse=1, bar=1, off=0,
        help="each reply starts with the words of step_by_step_text: for models that do not think by themselves",
    )] = 0  # fmt: skip
    draft: Annotated[By, Setting(
        key="G", label="draft", metavar="WORD|MODEL", off="off",
        help="speculation: guess tokens and decode them together, faster where the guesses are right, and the same reply: "
        "ngram guesses from the text so far, model asks a draft model, auto takes what pays",
        about={
            "off": "no speculation", "ngram": "guess from the text so far", "model": "ask the draft model",
            "auto": "whichever of them pays",
        },
    )] = "off"  # fmt: skip
    draft_max: Annotated[int, Setting(
        key="F", label="draftmax", low=1, high=MOST_DRAFTED, step=1, coarse=4, bar=MOST_DRAFTED, needs="draft",
        help="speculation: the most tokens that are guessed at once",
    )] = MOST_DRAFTED  # fmt: skip
    draft_always: Annotated[int, Setting(
        kind="switch", key="I", label="always", high=1, step=1, coarse=1, bar=1, off=0, needs="draft",
        help="speculation: draft even when it does not pay",
    )] = 0  # fmt: skip
    seed: Annotated[int | None, Setting(
        kind="seed", key="i", label="seed", high=2**53 - 1, step=1, coarse=100,
        help="seed for the dice: the same seed gives the same reply; fresh picks a new seed for each reply",
    )] = None  # fmt: skip

    def samplers(self) -> SamplerSettings:
        """Return the part that the sampler chain reads."""
        return SamplerSettings(**{name: getattr(self, name) for name in SamplerSettings.__struct_fields__})

    def conditions(self) -> tuple[Condition, ...]:
        """Return the part that ends a reply."""
        length = (Length(tokens=self.max_tokens),) if self.max_tokens else ()
        budget = (ThinkingBudget(self.think),) if 0 < self.think < THINK_ON else ()
        return (*(Stop(text=text) for text in self.stop), *length, *budget)

    @property
    def drafts(self) -> DraftSettings | None:
        """The settings of speculation; None while it is off."""
        return DraftSettings(self.draft, self.draft_max, bool(self.draft_always)) if self.draft != "off" else None

    @property
    def thinks(self) -> bool | None:
        """Whether the model is to think; None leaves it to the template."""
        return None if self.think == THINK_AUTO else self.think > 0

    def turn_knobs(self, changes: Mapping[str, object]) -> "Tuning":
        """Return a copy with some knobs turned.

        Raises:
            SettingError: an unknown name, or a value its knob refuses.
        """
        checked = {}
        for name, value in changes.items():
            if name not in KNOBS:
                raise SettingError(f"unknown knob {name!r}; known knobs: {', '.join(KNOBS)}")
            checked[name] = KNOBS[name].check(value)
        return msgspec.structs.replace(self, **checked)

    def find_differing(self, other: "Tuning | None" = None) -> dict[str, Value]:
        """Return the values that differ from `other`, by knob; None means the defaults."""
        before = other or Tuning()
        return {name: value for name in KNOBS if (value := getattr(self, name)) != getattr(before, name)}


KNOBS: dict[str, Setting] = declared(Tuning, "sampling")
"""Name to knob, in the order of the panel: the chain's own order, then what ends a reply, then the dice."""
