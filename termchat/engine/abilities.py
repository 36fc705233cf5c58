"""What an engine can do, as a value: who shows or offers something asks it first, and is told why not, and who could."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Literal, NamedTuple, get_args

import msgspec

from termchat.decoding import biases
from termchat.decoding.conditions import Condition, Measure, Threshold, format_condition
from termchat.decoding.constraint import Constraint, Kind
from termchat.decoding.samplers import KNOBS, SamplerSettings
from termchat.decoding.stages import LOGIT_BIAS
from termchat.engine.address import EngineAddress, ServerKind

Feature = Literal[
    "render", "tokenize", "continue", "raw", "adjust", "pause", "step", "force", "seeds", "bias", "constrain", "inspect",
    "explain", "score", "walks", "beams", "drafts", "stages", "exact",
]  # fmt: skip
"""What one engine can do and another cannot. Every engine loads, generates and cancels."""

Ability = Literal["ids", "tokenizer", "client_draw", "rewind", "grammar", "walks", "batches", "exact"]
"""The abilities that are there or not, and that features need."""

_FEATURES: dict[Feature, tuple[str, tuple[Ability, ...]]] = {
    "render": ("apply the model's chat template", ("tokenizer",)),
    "tokenize": ("show the tokens of a text", ("tokenizer",)),
    "continue": ("continue from a token", ("ids",)),
    "raw": ("complete a text without a chat template", ("ids",)),
    "adjust": ("change knobs while a reply runs", ("ids",)),  # an engine that begins anew goes on from the ids
    "pause": ("pause a reply", ("ids",)),  # so it does behind a pause, a step, or a token that is forced
    "step": ("draw one token at a time", ("ids",)),
    "force": ("force a token", ("ids",)),
    "seeds": ("redraw with the same dice", ("ids", "client_draw")),
    "bias": ("ban or boost tokens", ("ids", "tokenizer")),
    "constrain": ("constrain replies", ("grammar",)),
    "inspect": ("inspect a past position", ("ids", "rewind")),
    "explain": ("explain why a token was not drawn", ("ids", "rewind")),  # an engine that draws there tells less
    "score": ("redraw a whole reply with different knobs", ("ids", "client_draw", "rewind")),
    "walks": ("make several replies at once", ("ids", "walks")),
    "beams": ("search with beams", ("ids", "client_draw", "batches")),
    "drafts": ("draft tokens", ("ids", "client_draw", "batches")),
    "stages": ("show what each stage of the chain left", ("ids", "client_draw")),
    "exact": ("make a reply again bit for bit", ("exact",)),
}
"""Each feature as a verb, and the abilities that it needs, the one that tells most of an engine first."""

FEATURES: dict[Feature, str] = {feature: verb for feature, (verb, _) in _FEATURES.items()}
"""Each feature as a verb: "this engine cannot …"."""

ALL_FEATURES = frozenset(FEATURES)

_LACKS: dict[Ability, str] = {
    "ids": "it is text only",
    "tokenizer": "it does not tell the tokens of a text",
    "client_draw": "it draws there",
    "rewind": "it cannot be asked about past positions",
    "grammar": "it takes no constraints",
    "walks": "it is asked for one reply at a time",
    "batches": "it decides by itself what it computes together",
    "exact": "its numbers may differ a little from time to time",
}
"""What it means to lack an ability, as the reason why something cannot be done."""


class EngineAbilities(msgspec.Struct, frozen=True):
    """By default those of a model in llama.cpp's own process.

    - `ids`: prompts and replies are token ids; without them text is all there is.
    - `tokenizer`: texts can be taken apart, and the chat template is known.
    - `candidates`: how many tokens of a step are told as a rule, 0 for all.
    - `client_draw`: tokens are drawn here, one step at a time: so seeds are ours, and what the chain does is seen.
    - `rewind`: past positions can be asked about.
    - `exact`: the same seed gives the same bits.
    - `grammar`: replies can match a constraint.
    - `walks`: several replies to one prompt run together.
    - `batches`: what is decoded in a batch is chosen here, for beams and drafts.
    - `constraints`: the kinds that it can follow. Where it draws they are part of its chain, and none comes after that.
    - `untold`: measures of a step that it does not tell, so that no rule can look at them.
    - `lacks`: names of knobs that it does not know.
    - `ranges`: of a knob that it takes in a narrower range, the lowest and the highest value; of `logit_bias` those of a token.
    - `order`: the stages of its sampler chain, where that has an order of its own.
    - `larger_context`: what gives it a larger context, as the end of a hint.
    """

    ids: bool = True
    tokenizer: bool = True
    candidates: int = 0
    client_draw: bool = True
    rewind: bool = True
    exact: bool = True
    grammar: bool = True
    walks: bool = True
    batches: bool = True
    constraints: tuple[Kind, ...] = get_args(Kind)
    untold: tuple[Measure, ...] = ()
    lacks: tuple[str, ...] = ()
    ranges: dict[str, tuple[float, float]] = {}
    order: tuple[str, ...] = ()
    larger_context: str = "load the model with a larger --context"

    def list_features(self) -> frozenset[Feature]:
        """Return all that can be done with it."""
        return frozenset(feature for feature in _FEATURES if self.find_lacking(feature) is None)

    def find_lacking(self, feature: Feature) -> Ability | None:
        """Return the first ability that a feature needs and the engine lacks; None where nothing is missing."""
        return next((ability for ability in _FEATURES[feature][1] if not getattr(self, ability)), None)

    @property
    def manner(self) -> str:
        """In two or three words how replies are made: "draws there"."""
        if not self.ids:
            return "text only"
        if not self.client_draw:
            return "draws there"
        return "here everything works" if self.list_features() == ALL_FEATURES else "draws here"


LOCAL = EngineAbilities()
LLAMA_SERVER = EngineAbilities(
    candidates=200, exact=False, batches=False,
    larger_context="start the server with a larger --ctx-size, or with fewer slots (--parallel)",
)  # fmt: skip
"""llama.cpp's HTTP server, whose tokens are drawn here."""
_OF_THE_CHAIN: tuple[Measure, ...] = ("survivors", "probability")
LLAMA_SERVER_STREAMED = EngineAbilities(
    candidates=20, client_draw=False, exact=False, walks=False,
    batches=False, constraints=("json_schema", "gbnf", "choice"), untold=_OF_THE_CHAIN,
    lacks=("p_less", "top_h", "min_k"), larger_context=LLAMA_SERVER.larger_context,
)  # fmt: skip
"""The same, whose tokens are its own: it draws and streams them."""
VLLM = EngineAbilities(
    candidates=20, client_draw=False, exact=False, walks=False, batches=False,
    untold=_OF_THE_CHAIN,
    ranges={
        "temperature": (0.0, 2.0), "frequency_penalty": (-2.0, 2.0), "presence_penalty": (-2.0, 2.0),
        LOGIT_BIAS: (-100.0, 100.0),
    },
    larger_context="start the server with a larger --max-model-len",
)  # fmt: skip
"""A vLLM, which draws and streams, too; it tells how many candidates it can."""
_OF_CHAT_API = ("temperature", "top_p", "frequency_penalty", "presence_penalty", "stop", "max_tokens", "seed")
TEXT_ONLY = EngineAbilities(
    ids=False, tokenizer=False, candidates=20, client_draw=False, rewind=False, exact=False,
    grammar=False, walks=False, batches=False,
    lacks=tuple(name for name in KNOBS if name not in _OF_CHAT_API),
    larger_context="choose a server with a larger context",
)  # fmt: skip
"""Any server of OpenAI's chat API: messages go in, text comes out, and a change of settings needs another reply."""

_OF_SERVERS: dict[ServerKind, tuple[EngineAbilities, EngineAbilities]] = {
    "llama-server": (LLAMA_SERVER, LLAMA_SERVER_STREAMED),
    "vllm": (VLLM, VLLM),
    "sglang": (TEXT_ONLY, TEXT_ONLY),
    "openai": (TEXT_ONLY, TEXT_ONLY),
}
"""Where a server's tokens are drawn here, and where it draws them."""

_KNOWN: tuple[tuple[str, EngineAbilities], ...] = (
    ("a model on this machine", LOCAL),
    ("one over ssh://", LOCAL),
    ("a llama-server", LLAMA_SERVER_STREAMED),
    ("a llama-server drawn here", LLAMA_SERVER),
    ("a vLLM", VLLM),
)
"""Engines as a person chooses them, and what they can do."""


class Refused(NamedTuple):
    """Why a thing cannot be done, and what to do about it."""

    message: str
    hint: str


def find_refusal(
    feature: Feature, offers: Collection[Feature], abilities: EngineAbilities | None = None, name: str = "this engine"
) -> Refused | None:
    """Return why an engine that `offers` these features does not offer this one; None where it does. `abilities` are those of
    its model, as far as they are known, and `name` is its name."""
    if feature in offers:
        return None
    lack = abilities.find_lacking(feature) if abilities is not None else None
    because = f": {_LACKS[lack]}" if lack is not None else ""
    return Refused(f"{name} cannot {FEATURES[feature]}{because}", who_can(feature))


def refused_knobs(settings: SamplerSettings, abilities: EngineAbilities, name: str) -> dict[str, Refused]:
    """Return why the engine of that name refuses values of knobs, by knob; knobs that it lacks are left out."""
    found: dict[str, Refused] = {}
    for knob in abilities.ranges:
        set_to = getattr(settings, knob)
        for value in [biases.parse(one).value for one in set_to] if knob == LOGIT_BIAS else [set_to]:
            if (why := refused_value(knob, value, abilities, name)) is not None:
                found.setdefault(knob, why)
    return found


def refused_value(knob: str, value: float, abilities: EngineAbilities, name: str) -> Refused | None:
    """Return why a knob cannot have a value, or a token a bias; None where it can."""
    if knob not in abilities.ranges or value == biases.BANNED:
        return None
    low, high = abilities.ranges[knob]
    if low <= value <= high:
        return None
    return Refused(f"{name} cannot use {knob} {value:g}: it takes {low:g} to {high:g}", f"set {knob} within that")


def refused_constraint(constraint: Constraint, abilities: EngineAbilities, name: str) -> Refused | None:
    """Return why replies cannot match a constraint, where they can match others; None where they can."""
    if constraint.kind not in abilities.constraints:
        why = f"follow a {constraint.kind} constraint: it takes {_join_names(abilities.constraints)}"
    elif constraint.after_chain and not abilities.client_draw:
        why = "follow a constraint after its sampler chain"
    else:
        return None
    return Refused(f"{name} cannot {why}", f"{who_draws_here()} can")


def refused_rule(condition: Condition, abilities: EngineAbilities, name: str) -> Refused | None:
    """Return why a condition cannot be looked at; None where it can."""
    if not isinstance(condition, Threshold) or condition.measure not in abilities.untold:
        return None
    return Refused(
        f"{format_condition(condition)}: {name} does not tell what its sampler chain leaves", f"{who_draws_here()} does"
    )


def who_can(feature: Feature) -> str:
    """Return which engines can do a thing, as a hint."""
    able = [name for name, abilities in _KNOWN if feature in abilities.list_features()]
    if "a llama-server" in able:  # however it is drawn
        able.remove("a llama-server drawn here")
    return f"{_join_names(able)} can"


def most_of(address: EngineAddress) -> EngineAbilities:
    """Return the most that an engine at this address can do."""
    if not address.is_server:
        return LOCAL
    found = of_server(address.kind or "llama-server", address) or LLAMA_SERVER
    return found if address.kind else msgspec.structs.replace(found, constraints=LOCAL.constraints)


def of_server(kind: ServerKind, address: EngineAddress) -> EngineAbilities | None:
    """Return the abilities of a server of this kind, drawn as its address says; None where only the server knows."""
    both = _OF_SERVERS.get(kind)
    return both[address.draws == "server"] if both is not None else None


def who_draws_here() -> str:
    """Return the engines whose sampler chain is seen, since tokens are drawn here."""
    return _join_names([name for name, abilities in _KNOWN if abilities.client_draw])


def _join_names(names: Iterable[str]) -> str:
    *others, last = names
    return f"{', '.join(others)}{',' * (len(others) > 1)} or {last}" if others else last
