"""What an engine can do, as a value: who shows or offers something asks it first."""

from __future__ import annotations

from typing import Literal

import msgspec

from termchat.decoding.samplers import KNOBS


class EngineAbilities(msgspec.Struct, frozen=True):
    """By default those of a model in llama.cpp's own process.

    - `ids`: prompts and replies are token ids; without them text is all there is.
    - `tokenizer`: texts can be taken apart, and the chat template is known.
    - `candidates`: how many tokens of a step are told as a rule, 0 for all, `told` before the sampler chain or after it.
    - `client_draw`: tokens are drawn here, one step at a time: so a reply can pause, step, and be forced, and seeds are ours.
    - `adjust`: a change in mid-reply holds from the next token on, or has the engine begin anew from there.
    - `rewind`: past positions can be asked about.
    - `exact`: the same seed gives the same bits.
    - `absolute`: logits are told, and not only log-probabilities.
    - `grammar`: replies can match a constraint.
    - `walks`: several replies are made at once.
    - `lacks`: names of knobs that it does not know.
    """

    ids: bool = True
    tokenizer: bool = True
    candidates: int = 0
    told: Literal["before", "after"] = "before"
    client_draw: bool = True
    adjust: Literal["next", "restart"] = "next"
    rewind: bool = True
    exact: bool = True
    absolute: bool = True
    grammar: bool = True
    walks: bool = True
    lacks: tuple[str, ...] = ()


LOCAL = EngineAbilities()
LLAMA_SERVER = EngineAbilities(candidates=200, exact=False, absolute=False, walks=False)
"""llama.cpp's HTTP server, whose tokens are drawn here."""
_OF_CHAT_API = ("temperature", "top_p", "frequency_penalty", "presence_penalty", "stop", "max_tokens", "seed")
TEXT_ONLY = EngineAbilities(
    ids=False, tokenizer=False, candidates=20, client_draw=False, adjust="restart", rewind=False, exact=False,
    absolute=False, grammar=False, walks=False, lacks=tuple(name for name in KNOBS if name not in _OF_CHAT_API),
)  # fmt: skip
"""Any server of OpenAI's chat API: messages go in, text comes out, and a change of settings needs another reply."""

WHO_CAN = "a model on this machine, or one behind ssh://, can"
"""What to do about an engine that cannot do something."""
