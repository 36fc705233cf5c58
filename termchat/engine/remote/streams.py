"""Tokens that a server draws by itself and sends as they come: what such a server is asked, and what it tells.

`streamed_reply` makes the records of a reply out of one or more streams: a change of settings closes the stream, and the next
one goes on from the ids that are there. `llama_stream`, `vllm_stream` … are the servers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from termchat.decoding.conditions import Condition
from termchat.decoding.constraint import Constraint
from termchat.decoding.records import ABSENT
from termchat.decoding.samplers import SamplerSettings
from termchat.engine.abilities import EngineAbilities
from termchat.engine.llama.template import RenderedPrompt
from termchat.engine.llama.vocabulary import Vocabulary
from termchat.engine.port import Message, Remark


class Told(NamedTuple):
    """One token that the server drew. `logprob` and the listed candidates (`ids`, `logprobs`: shape (n,), best first) are the
    model's own, before any sampler; `probability` is after the server's chain. ABSENT, and None, where it does not say."""

    id: int
    logprob: float = ABSENT
    probability: float = ABSENT
    ids: NDArray[np.int32] | None = None
    logprobs: NDArray[np.float64] | None = None


class Reading(NamedTuple):
    """So many of the `total` prompt tokens are read, `reused` of which the server still had (None: it does not say)."""

    done: int
    total: int
    reused: int | None = None


class StreamEnd(NamedTuple):
    """The server ended the reply: with an end token, which it told (`end`), with `detail` for a stop sequence or a token that
    stops, at the length that it was asked for, or because its context is full. `read` is what it says of the prompt."""

    reason: Literal["end", "length", "stop", "context"]
    detail: str = ""
    read: Reading | None = None


class Segment(NamedTuple):
    """One segment of a reply: it goes on from `ids`, `done` of which are the reply's own, for at most `limit` tokens. `seed` is
    for the server's own random numbers, which begin anew with each segment."""

    ids: list[int]
    done: int
    samplers: SamplerSettings
    conditions: tuple[Condition, ...]
    seed: int
    limit: int
    candidates: int
    constraint: Constraint | None = None


TokenStream = Generator[Told | Reading | StreamEnd, None, None]
"""What comes of one segment. Iterating raises Aborted where the client was stopped, ContextFull, and EngineError; a line that
ends without `StreamEnd` was cut, which is an EngineError. To close it ends it: the server stops computing soon after."""


class StreamingServer(ABC):
    """A server that draws. `order` are the names of the stages that its chain has, in its own order; () stands for ours.
    `model` is what it told of its tokens, `capacity` how many of them have room in a context, `size` and `parameters` are 0
    where it does not say. `remarks` are what a person should know of the server; more may come while it answers."""

    abilities: EngineAbilities
    order: tuple[str, ...] = ()
    model: Vocabulary
    capacity: int
    size = parameters = 0
    remarks: list[Remark]

    def prompt(self, messages: list[Message], think: bool | None) -> RenderedPrompt | None:
        """Return the whole prompt by the server's own template; None where the template is known here (`model.template`), or
        there is none.

        Raises:
            EngineError: it refuses the messages.
        """
        return None

    @abstractmethod
    def stream(self, asked: Segment) -> TokenStream:
        """Begin a segment."""

    @abstractmethod
    def listed(self, ids: list[int], count: int, also: list[int]) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """Return the model's own most likely tokens after ids, and their log-probabilities: `count` of them, or as many as it
        tells, best first; `also` are tokens that are told whatever their rank, as far as it can, behind those.

        Raises:
            Aborted, ContextFull, EngineError: as for streams.
        """
