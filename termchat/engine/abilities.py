"""What an engine can do, as a value: who shows or offers something asks it first."""

from __future__ import annotations

from typing import Literal

import msgspec


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


LOCAL = EngineAbilities()
LLAMA_SERVER = EngineAbilities(candidates=200, exact=False, absolute=False, walks=False)
"""llama.cpp's HTTP server, whose tokens are drawn here."""
LLAMA_SERVER_STREAMED = EngineAbilities(
    candidates=20, client_draw=False, adjust="restart", exact=False, absolute=False, walks=False
)
"""The same, whose tokens are its own: it draws and streams them."""

WHO_CAN = "a model on this machine, or one behind ssh://, can"
"""What to do about an engine that cannot do something."""
