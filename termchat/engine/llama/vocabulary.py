"""A model as everything sees it that computes nothing: its tokens and texts, and what it says about itself.

`model` is the one of llama.cpp in this process; an engine elsewhere has another.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType

from termchat.decoding import biases
from termchat.decoding.records import TokenBias
from termchat.decoding.samplers import SamplerSettings
from termchat.decoding.thinking import ThinkingTags
from termchat.engine.llama.chain import Chain
from termchat.engine.llama.dry import Breakers
from termchat.engine.llama.grammars import Grammars
from termchat.engine.llama.observe import Labels
from termchat.engine.port import EngineError, ModelSpec


class Vocabulary(ABC):
    """Ids are ints from 0 to `n_vocab` - 1, pieces are bytes. `bos` and `eos` are -1 if the vocabulary lacks them.

    `breakers` find the texts at which DRY stops. `suppressed` are the tokens that are never to be drawn. `build` is the version
    of llama.cpp that computes, `names` the labels of all tokens.
    """

    spec: ModelSpec
    n_vocab: int
    end_ids: list[int]
    bos: int
    eos: int
    adds_bos: bool
    names: Labels
    suppressed: list[int]
    breakers: Breakers | None = None
    thinking: ThinkingTags | None
    context_trained: int
    can_rewind: bool
    gpu_layers: int
    build: str
    bias: Callable[[tuple[str, ...]], Mapping[int, float]]
    """What is added to the logits of tokens by these logit biases; raises EngineError where an id is not in the vocabulary."""

    def __init__(self) -> None:
        self.bias = lru_cache(8)(self._sum_biases)

    def make_chain(
        self, samplers: SamplerSettings, past: Sequence[int], state: Mapping[str, float] = MappingProxyType({})
    ) -> Chain:
        """Make a chain of these settings that has seen the ids `past`."""
        bias = self.bias(samplers.logit_bias)
        return Chain(samplers, self.n_vocab, past, state=state, breakers=self.breakers, bias=bias)

    @abstractmethod
    def close(self) -> None:
        """Free it, after all that computes with it."""

    @property
    @abstractmethod
    def grammars(self) -> Grammars:
        """Constraints for it."""

    @property
    @abstractmethod
    def template(self) -> str | None:
        """The source of its chat template."""

    @property
    def has_template(self) -> bool:
        """Whether the model has a chat template, perhaps one that only its server knows."""
        return self.template is not None

    has_switch = False
    """Whether such a server's template can turn the model's thoughts on and off."""

    @property
    @abstractmethod
    def description(self) -> str:
        """A line about the model, such as "llama 135M Q4_1"."""

    @abstractmethod
    def read_metadata(self, key: str) -> str | None:
        """Return the value of a key of its file, if it is known."""

    @abstractmethod
    def read_attributes(self, token: int) -> int:
        """Return llama.cpp's attribute bits of a token."""

    @abstractmethod
    def is_control(self, token: int) -> bool:
        """Return whether it is a control token, or the unknown token: it has a name and no text."""

    @abstractmethod
    def piece(self, token: int) -> bytes:
        """Return the bytes that a token adds to a text; b"" for control tokens."""

    @abstractmethod
    def tokenize(self, text: str, *, special: bool, begin: bool = False) -> list[int]:
        """Return the ids of a text. `special` recognises control tokens in it; `begin` adds the token that begins a text."""

    def spell_token(self, token: int) -> bytes:
        """Return the bytes of a token; of a control token its name."""
        return self.piece(token) or self.names[token].encode("utf-8", "surrogatepass")

    def spell_all(self) -> list[bytes]:
        """Return the bytes of all tokens, of control tokens their names."""
        return [self.spell_token(token) for token in range(self.n_vocab)]

    def name(self, token: int) -> str:
        """Return the label of a token: its text, with U+FFFD for bytes that are no text alone; of a control token its name."""
        return self.names[token]

    def _sum_biases(self, written: tuple[str, ...]) -> Mapping[int, float]:
        """Sum the biases of tokens: bans of the model's suppressed tokens, and the `written` ones (`decoding.biases`).

        Raises:
            EngineError: an id is not in the vocabulary.
        """
        if (unknown := biases.find_unknown(written, self.n_vocab)) is not None:
            raise EngineError(
                "logit_bias",
                f"logit_bias: token {unknown} is not in this model's vocabulary (0 to {self.n_vocab - 1})",
                "remove that bias, or write the token as a text",
            )
        values = [(self.suppressed, biases.BANNED)]
        for what, value in map(biases.parse, written):
            values.append(([what] if isinstance(what, int) else self.tokenize(what, special=False), value))
        return biases.sum_biases(values)

    def token_biases(self, written: tuple[str, ...]) -> tuple[TokenBias, ...]:
        """Return the sums of `bias` token by token, for records."""
        known = set(self.suppressed)
        return tuple(
            TokenBias(token, self.name(token), None if value == biases.BANNED else value, token in known)
            for token, value in self.bias(written).items()
        )
