"""Every knob of the decoding loop, declared once.

Each field of `Tuning` declares its `Knob`; command line flags, the chain panel, the config file and all checks are made from
`KNOBS`. Names and defaults are llama.cpp's.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Literal, TypeVar, get_args

import msgspec

from termchat.decoding import biases
from termchat.decoding.conditions import Condition, Length, Stop, ThinkingBudget
from termchat.decoding.drafting import MOST_DRAFTED, By, DraftSettings
from termchat.decoding.escapes import escape as escape
from termchat.decoding.escapes import unescape as unescape
from termchat.decoding.escapes import well_formed as well_formed

Value = float | int | str | None | tuple[str, ...]
"""What a knob can hold: a number, one of some words, a list of texts, or None (a fresh seed)."""


class KnobError(ValueError):
    """A value a knob refuses. The message names the knob, the range and the value."""


class Knob(msgspec.Struct, frozen=True, kw_only=True):
    """One knob: its name, its range and its steps.

    `low` and `high` are hard limits; with a `gap`, nothing between `low` and it is taken. `bar` is the value that fills the
    panel's bar; `step` and `coarse` are the moves of one key press. `off` is the value at which the knob changes nothing; with
    `always` that value is shown like any other. `flag` is the name of its flag where llama.cpp has another than ours;
    `none` is the word that stands for no texts at all; `words` are names of single values. A choice takes one of its `choices`,
    which are words, and moves from one to the next. While the knob that it `needs` is off, it does nothing.
    """

    kind: Literal["float", "int", "switch", "choice", "texts", "biases", "order", "seed"]
    help: str
    key: str
    label: str
    stage: str | None = None
    name: str = ""
    flag: str = ""
    none: str = ""
    default: Value = None
    low: float = 0
    high: float = 0
    gap: float = 0
    step: float = 0
    coarse: float = 0
    bar: float = 0
    off: Value = None
    logarithmic: bool = False
    always: bool = False
    words: Mapping[str, int] = {}
    choices: tuple[str, ...] = ()
    needs: str = ""

    def check(self, value: object) -> Value:
        """Return a value in the knob's own type.

        Raises:
            KnobError: it is of another kind or outside the range.
        """
        if self.kind in ("texts", "biases"):
            return self._texts(value)
        if self.kind == "order":
            return self._order(value)
        word = value.strip().lower() if isinstance(value, str) else value
        if self.kind == "choice":
            if word not in self.choices:
                raise KnobError(f"{self.name} must be {self._wanted()}, not {value!r}")
            return str(word)
        if self.kind == "seed" and value is None:
            return None
        if isinstance(word, str) and word in self.words:
            return self.words[word]
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise KnobError(f"{self.name} must be {self._wanted()}, not {value!r}")
        if not self.low <= value <= self.high:  # which NaN is not either; no float() before: whole numbers have no end
            raise KnobError(f"{self.name} must be {self._wanted()}, not {_format_number(value)}")
        if self.gap and self.low < value < self.gap:
            raise KnobError(f"{self.name} must be {self.low:g} or at least {self.gap:g}, not {value}")
        if self.kind == "float":
            return float(value)
        if value != int(value):
            raise KnobError(f"{self.name} must be {self._wanted()}, not {value}")
        return int(value)

    def parse(self, text: str) -> Value:
        """Parse a typed value; `off`, `on` for a switch and, for the seed, `fresh` are understood.

        Raises:
            KnobError: see `check`.
        """
        if self.kind == "texts":
            return self.check([unescape(text)] if text else [])
        if self.kind == "biases":
            return self.check([text] if text and text != "off" else [])
        if self.kind in ("order", "choice"):
            return self.check(text)
        word = text.strip().lower()
        if self.kind == "switch" and word == "on":
            return 1
        if self.kind == "seed" and word in ("", "fresh", "off", "random"):
            return None
        if word in self.words:
            return self.words[word]
        if word == "off" and self.off is not None:
            return self.off
        try:
            number = float(word) if self.kind == "float" else int(word)
        except ValueError:
            raise KnobError(f"{self.name} must be {self._wanted()}, not {text!r}") from None
        return self.check(number)

    def moved(self, value: Value, steps: int, *, coarse: bool = False) -> Value:
        """Move a value by some key presses, within its range; numbers and choices only."""
        if self.kind == "choice":
            return self.choices[min(max(self.choices.index(str(value)) + steps, 0), len(self.choices) - 1)]
        if not isinstance(value, (int, float)):
            return value
        size = self.coarse if coarse else self._step(value)
        moved: float = min(max(value + steps * size, self.low), self.high)
        if self.gap and self.low < moved < self.gap:
            moved = self.low if steps < 0 else self.gap
        return round(moved, 4) if self.kind == "float" else round(moved)

    def fraction(self, value: Value) -> float:
        """Return how full the panel's bar is, 0 to 1."""
        if self.kind == "choice":
            return self.choices.index(str(value)) / (len(self.choices) - 1)
        if not isinstance(value, (int, float)) or self.bar <= self._bar_low:
            return 0.0
        above, reach = max(value - self._bar_low, 0), self.bar - self._bar_low
        return min(math.log1p(above) / math.log1p(reach) if self.logarithmic else above / reach, 1.0)

    def at(self, fraction: float) -> Value:
        """Return the value whose bar is full to a fraction, 0 to 1: the nearest that steps lead to."""
        share, reach = min(max(fraction, 0.0), 1.0), self.bar - self._bar_low
        if self.kind == "choice":
            return self.choices[round(share * (len(self.choices) - 1))]
        value = self._bar_low + (math.expm1(share * math.log1p(reach)) if self.logarithmic else share * reach)
        size = self._step(value)
        value = max(round(value / size) * size, self.low)
        if self.gap and self.low < value < self.gap:
            value = self.gap
        return round(value, 4) if self.kind == "float" else round(value)

    @property
    def range(self) -> str:
        """Its range in short: "0 to 1; off is 1", "fresh, or 0 to 9007199254740991"."""
        if self.kind == "texts":
            return "strings"
        if self.kind == "order":
            return "names of stages"
        if self.kind == "biases":
            return "ID=X or TEXT=X; X is a number or ban"
        if self.kind == "choice":
            return " ".join(self.choices)
        if self.words:
            return f"{', '.join(self.words)}, or 1 to {self.high:.16g}"
        numbers = f"{self.gap or self.low:.16g} to {self.high:.16g}"
        if self.kind == "seed" or self.gap:
            return f"{'fresh' if self.kind == 'seed' else f'{self.low:g}'}, or {numbers}"
        return f"{numbers}; off is {self.off:g}" if isinstance(self.off, (int, float)) else numbers

    @property
    def _bar_low(self) -> float:
        """The value of an empty bar, at least 0."""
        return max(self.low, 0)

    def _step(self, value: float) -> float:
        """Return the move of one key press from a value."""
        if not self.logarithmic:
            return self.step
        return max(self.step, self.step * 10.0 ** math.floor(math.log10(max(abs(value), 1))) / 10)

    def show(self, value: Value) -> str:
        """Format a value for the panel and the transcript."""
        if self.kind == "texts":
            return " ".join(f'"{escape(text)}"' for text in value) if value else "off"  # type: ignore[union-attr]
        if self.kind == "biases":
            return " ".join(value) if value else "off"  # type: ignore[arg-type]
        if self.kind == "order":
            return ";".join(value)  # type: ignore[arg-type]
        if value is None:
            return "fresh"
        if word := next((word for word, named in self.words.items() if named == value), ""):
            return word
        if self.is_off(value):
            return "off"
        return "on" if self.kind == "switch" else str(value)

    def is_off(self, value: Value) -> bool:
        """Return whether it is shown as off at this value."""
        return value == self.off and not self.always

    def _texts(self, value: object) -> tuple[str, ...]:
        texts = [value] if isinstance(value, str) else value
        if not isinstance(texts, Iterable):
            raise KnobError(f"{self.name} must be a list of strings, not {value!r}")
        texts = tuple(texts)
        if self.none and texts == (self.none,):
            return ()
        checked = []
        for text in texts:
            if not isinstance(text, str) or not text:
                raise KnobError(f"{self.name} must not contain empty strings (found {text!r})")
            checked.append(well_formed(text))
        if self.kind == "texts":
            return tuple(dict.fromkeys(checked))
        try:
            return biases.check_biases(dict.fromkeys(checked))
        except biases.BiasError as error:
            raise KnobError(f"{self.name} {error}") from None

    def _order(self, value: object) -> tuple[str, ...]:
        names = re.split(r"[;,\s]+", value.strip(" ;,")) if isinstance(value, str) else value
        if not isinstance(names, Iterable):
            raise KnobError(f"{self.name} must be a list of stages, not {value!r}")
        stages = []
        for name in names:
            known = _ALIASES.get(str(name).lower().replace("-", "_"))
            if known is None:
                raise KnobError(f"{self.name}: unknown stage {name!r}; known stages: {', '.join(ORDER)}")
            stages.append(known)
        return tuple(dict.fromkeys(stages))

    def _wanted(self) -> str:
        if self.kind == "switch":
            return "on or off"
        if self.kind == "choice":
            return f"one of {', '.join(self.choices)}"
        number = "a number" if self.kind == "float" else "a whole number"
        if self.words:
            number = f"{', '.join(self.words)} or {number}"
        return f"{number} from {self.low:.16g} to {self.high:.16g}"


def _format_number(number: float) -> str:
    """Format a number for a message: Python refuses to write thousands of digits."""
    return str(number) if abs(number) < 1e21 or isinstance(number, float) else "a number that long"


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


_declarations: list[Knob] = []
"""Of all fields below, in their order."""
_Default = TypeVar("_Default")


def _declare(default: _Default, knob: Knob) -> _Default:
    """Declare the knob of a field; return the field's default."""
    _declarations.append(msgspec.structs.replace(knob, default=default))
    return default


class SamplerSettings(msgspec.Struct, frozen=True):
    """What the sampler chain reads, once per step. Immutable; a change is a new value and a record of its own."""

    logit_bias: tuple[str, ...] = _declare((), Knob(
        kind="biases", key="b", label="bias", stage="logit_bias", none="none", off=(),
        help="ID=X or TEXT=X adds X to the logit of a token, or of each token of a text; =ban bans it. Quotes keep "
        'spaces, and digits a text: " Paris"=ban',
    ))  # fmt: skip
    repeat_penalty: float = _declare(1.0, Knob(
        kind="float", key="r", label="repeat", stage="penalties", low=0.01, high=10, step=0.01, coarse=0.1, bar=2,
        off=1.0, help="makes recent tokens less likely: divides the logits of tokens in the last repeat_last_n",
    ))  # fmt: skip
    repeat_last_n: int = _declare(64, Knob(
        kind="int", key="n", label="last_n", stage="penalties", high=1_000_000, step=1, coarse=64, bar=4096,
        off=0, logarithmic=True, help="how many recent tokens the penalties look back over, in prompt and reply",
    ))  # fmt: skip
    frequency_penalty: float = _declare(0.0, Knob(
        kind="float", key="f", label="freq", stage="penalties", low=-10, high=10, step=0.05, coarse=0.5, bar=2,
        off=0.0, help="subtracted from a token's logit each time it has occurred",
    ))  # fmt: skip
    presence_penalty: float = _declare(0.0, Knob(
        kind="float", key="e", label="presence", stage="penalties", low=-10, high=10, step=0.05, coarse=0.5, bar=2,
        off=0.0, help="subtracted once from the logit of any token already seen",
    ))  # fmt: skip
    dry_multiplier: float = _declare(0.0, Knob(
        kind="float", key="D", label="dry", stage="dry", high=100, step=0.05, coarse=0.25, bar=2, off=0.0,
        help="DRY: penalises a token that would continue a repetition; the strength of the penalty",
    ))  # fmt: skip
    dry_base: float = _declare(1.75, Knob(
        kind="float", key="B", label="dry_base", stage="dry", low=1, high=10, step=0.05, coarse=0.25, bar=4,
        help="DRY: the penalty grows by this factor with each further token of the repetition",
    ))  # fmt: skip
    dry_allowed_length: int = _declare(2, Knob(
        kind="int", key="L", label="dry_len", stage="dry", high=1000, step=1, coarse=4, bar=32,
        help="DRY: the longest repetition, in tokens, that is not penalised",
    ))  # fmt: skip
    dry_penalty_last_n: int = _declare(64, Knob(
        kind="int", key="N", label="dry_last", stage="dry", high=1_000_000, step=1, coarse=64, bar=4096, off=0,
        logarithmic=True, help="DRY: how many recent tokens are searched for repetitions",
    ))  # fmt: skip
    dry_sequence_breakers: tuple[str, ...] = _declare(("\n", ":", '"', "*"), Knob(
        kind="texts", key="W", label="breakers", stage="dry", flag="dry_sequence_breaker", none="none", off=(),
        help="DRY: a text at which a repetition ends, such as the end of a line; none alone for no such text",
    ))  # fmt: skip
    top_n_sigma: float = _declare(-1.0, Knob(
        kind="float", key="g", label="n_sigma", stage="top_n_sigma", low=-1, high=100, step=0.1, coarse=0.5, bar=4,
        off=-1.0, help="keeps tokens whose logit is at most n standard deviations below the highest",
    ))  # fmt: skip
    top_k: int = _declare(40, Knob(
        kind="int", key="k", label="top_k", stage="top_k", high=1_000_000, step=1, coarse=10, bar=1000, off=0,
        logarithmic=True, help="keeps the k tokens with the highest logits",
    ))  # fmt: skip
    typical_p: float = _declare(1.0, Knob(
        kind="float", key="y", label="typical", stage="typical_p", high=1, step=0.01, coarse=0.05, bar=1, off=1.0,
        help="keeps the tokens whose surprise is nearest to the entropy, until their probabilities add up to p",
    ))  # fmt: skip
    top_p: float = _declare(0.95, Knob(
        kind="float", key="p", label="top_p", stage="top_p", high=1, step=0.01, coarse=0.05, bar=1, off=1.0,
        help="keeps the nucleus: the likeliest tokens whose probabilities add up to p",
    ))  # fmt: skip
    min_p: float = _declare(0.05, Knob(
        kind="float", key="m", label="min_p", stage="min_p", high=1, step=0.01, coarse=0.05, bar=1, off=0.0,
        help="keeps tokens with at least p times the probability of the likeliest",
    ))  # fmt: skip
    xtc_probability: float = _declare(0.0, Knob(
        kind="float", key="c", label="xtc", stage="xtc", high=1, step=0.05, coarse=0.25, bar=1, off=0.0,
        help="XTC: how often the likeliest tokens are excluded, so that a less likely one is drawn",
    ))  # fmt: skip
    xtc_threshold: float = _declare(0.1, Knob(
        kind="float", key="C", label="xtc_from", stage="xtc", high=1, step=0.01, coarse=0.05, bar=0.5,
        help="XTC: of the tokens with at least this probability all but the least likely are excluded; above 0.5 off",
    ))  # fmt: skip
    p_less: int = _declare(0, Knob(
        kind="switch", key="l", label="p_less", stage="p_less", high=1, step=1, coarse=1, bar=1, off=0,
        help="keeps tokens at least as likely as two draws are to agree (the sum of all squared probabilities)",
    ))  # fmt: skip
    top_h: float = _declare(0.0, Knob(
        kind="float", key="h", label="top_h", stage="top_h", high=1, step=0.05, coarse=0.1, bar=1, off=0.0,
        help="keeps the likeliest tokens while their entropy is at most this share of the whole distribution's",
    ))  # fmt: skip
    min_k: float = _declare(0.0, Knob(
        kind="float", key="M", label="min_k", stage="min_k", high=100, step=0.5, coarse=1, bar=10, off=0.0,
        help="cuts at the steepest drop of the sorted logits; the higher, the more tokens stay where all are close",
    ))  # fmt: skip
    temperature: float = _declare(0.8, Knob(
        kind="float", key="t", label="temp", stage="temperature", high=5, gap=0.01, step=0.05, coarse=0.25,
        bar=2, off=1.0, always=True, help="divides the logits: below 1 is sharper, above 1 flatter, 0 is greedy",
    ))  # fmt: skip
    dynatemp_range: float = _declare(0.0, Knob(
        kind="float", key="R", label="dynatemp", stage="temperature", high=5, step=0.05, coarse=0.25, bar=2, off=0.0,
        help="dynamic temperature: how far the entropy may move the temperature, up or down",
    ))  # fmt: skip
    dynatemp_exponent: float = _declare(1.0, Knob(
        kind="float", key="E", label="dyn_exp", stage="temperature", low=0.01, high=10, step=0.1, coarse=0.5, bar=4,
        off=1.0, help="dynamic temperature: the exponent of the entropy's share of its maximum",
    ))  # fmt: skip
    mirostat: int = _declare(0, Knob(
        kind="int", key="o", label="mirostat", stage="mirostat", high=2, step=1, coarse=1, bar=2, off=0,
        help="Mirostat 1 or 2: holds the surprise of the tokens drawn near tau; replaces all stages but temperature",
    ))  # fmt: skip
    mirostat_tau: float = _declare(5.0, Knob(
        kind="float", key="T", label="tau", stage="mirostat", high=100, step=0.1, coarse=1, bar=10,
        help="Mirostat: the surprise it aims at, in bits",
    ))  # fmt: skip
    mirostat_eta: float = _declare(0.1, Knob(
        kind="float", key="H", label="eta", stage="mirostat", high=1, step=0.01, coarse=0.1, bar=1,
        help="Mirostat: how fast it follows",
    ))  # fmt: skip
    adaptive_target: float = _declare(-1.0, Knob(
        kind="float", key="A", label="adaptive", stage="adaptive_p", low=-1, high=1, step=0.05, coarse=0.1, bar=1,
        off=-1.0, help="adaptive-p: prefers tokens near this probability, so that the average stays there",
    ))  # fmt: skip
    adaptive_decay: float = _declare(0.9, Knob(
        kind="float", key="Y", label="decay", stage="adaptive_p", high=0.99, step=0.01, coarse=0.1, bar=0.99,
        help="adaptive-p: how long earlier tokens count; 0.9 is about the last ten",
    ))  # fmt: skip
    order: tuple[str, ...] = _declare(ORDER, Knob(
        kind="order", key="O", label="order", flag="samplers",
        help="the stages that act, in order, separated by semicolons; a stage that is left out does nothing",
    ))  # fmt: skip


THINK_AUTO, THINK_ON = -1, 1_000_000
"""What `think` holds where the template decides, and where there is no limit."""
STEP_BY_STEP = "Let's think step by step."
"""What replies begin with while `step_by_step` is on, unless other words are configured."""


class Tuning(SamplerSettings, frozen=True):
    """Every knob a person turns: the samplers, and what a reply starts and ends with."""

    stop: tuple[str, ...] = _declare((), Knob(
        kind="texts", key="s", label="stop", off=(), help="stop sequences: text that ends the reply and is not shown",
    ))  # fmt: skip
    max_tokens: int = _declare(0, Knob(
        kind="int", key="a", label="max", high=1_000_000, step=16, coarse=256, bar=4096, off=0, logarithmic=True,
        help="maximum reply length in tokens; 0 means no limit",
    ))  # fmt: skip
    think: int = _declare(THINK_AUTO, Knob(
        kind="int", key="K", label="think", low=THINK_AUTO, high=THINK_ON, step=16, coarse=256, bar=4096,
        off=THINK_AUTO, logarithmic=True, words={"auto": THINK_AUTO, "off": 0, "on": THINK_ON},
        help="whether a reasoning model thinks: auto, on, off, or at most so many tokens, after which it has to answer",
    ))  # fmt: skip
    step_by_step: int = _declare(0, Knob(
        kind="switch", key="S", label="steps", high=1, step=1, coarse=1, bar=1, off=0,
        help="each reply starts with the words of step_by_step_text: for models that do not think by themselves",
    ))  # fmt: skip
    draft: By = _declare("off", Knob(
        kind="choice", key="G", label="draft", choices=get_args(By), off="off",
        help="speculation: guess tokens and decode them together, faster where the guesses are right, and the same reply: "
        "ngram guesses from the text so far, model asks a draft model, auto takes what pays",
    ))  # fmt: skip
    draft_max: int = _declare(MOST_DRAFTED, Knob(
        kind="int", key="F", label="draftmax", low=1, high=MOST_DRAFTED, step=1, coarse=4, bar=MOST_DRAFTED, needs="draft",
        help="speculation: the most tokens that are guessed at once",
    ))  # fmt: skip
    draft_always: int = _declare(0, Knob(
        kind="switch", key="I", label="always", high=1, step=1, coarse=1, bar=1, off=0, needs="draft",
        help="speculation: draft even when it does not pay",
    ))  # fmt: skip
    seed: int | None = _declare(None, Knob(
        kind="seed", key="i", label="seed", high=2**53 - 1, step=1, coarse=100,
        help="seed for the dice: the same seed gives the same reply; fresh picks a new seed for each reply",
    ))  # fmt: skip

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

    def turn_knobs(self, changes: Mapping[str, object]) -> Tuning:
        """Return a copy with some knobs turned.

        Raises:
            KnobError: an unknown name, or a value its knob refuses.
        """
        checked = {}
        for name, value in changes.items():
            if name not in KNOBS:
                raise KnobError(f"unknown knob {name!r}; known knobs: {', '.join(KNOBS)}")
            checked[name] = KNOBS[name].check(value)
        return msgspec.structs.replace(self, **checked)

    def find_differing(self, other: Tuning | None = None) -> dict[str, Value]:
        """Return the values that differ from `other`, by knob; None means the defaults."""
        before = other or Tuning()
        return {name: value for name in KNOBS if (value := getattr(self, name)) != getattr(before, name)}


KNOBS: dict[str, Knob] = {
    name: msgspec.structs.replace(knob, name=name)
    for name, knob in zip(Tuning.__struct_fields__, _declarations, strict=True)
}
"""Name to knob, in the order of the panel: the chain's own order, then what ends a reply, then the dice."""
