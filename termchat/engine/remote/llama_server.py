"""The contract of llama.cpp's HTTP server (`llama-server`), as far as it is used here: typed requests and answers.

Tried with llama.cpp b11549 and 0.5.0-dev (0c1e57098). Every request about tokens goes to `/completion`, which takes and gives
ids. No slot is named: a server that gives a chat another one moves what it had read there, while two chats that each insist on
a slot would make it read everything again and again.

The server draws one token a request, which nobody uses. It is made to draw a character of ASCII, whatever the model says, since
it tells no probabilities where it draws a part of a character.

Started without a model it has several, which it loads as they are asked for by name: then every request names one.
"""

from __future__ import annotations

import math
from time import sleep
from typing import Any
from urllib.parse import quote

import msgspec
import numpy as np
from numpy.typing import NDArray

from termchat.engine.port import EngineError
from termchat.engine.remote.http_client import HttpClient, ServerError
from termchat.engine.remote.model_server import LARGEST_VOCABULARY, SMALL, ModelServer
from termchat.engine.remote.proof import Shortlist
from termchat.engine.remote.served import ServedEntry
from termchat.engine.remote.server_answers import Byte, Count, Phrase, read_candidates

_TEXT, _PER_CHARACTER = 1 << 16, 64
"""Bytes that tell of the tokens of a text, at most: for each text, and for each of its characters."""
_PER_CANDIDATE = 400
"""Bytes that tell of one candidate, at most, on average; mostly they are ninety."""
_FIELDS = ("completion_probabilities", "timings", "model")
_ON_ITS_WAY = ("loading", "downloading", "downloaded")
_LOOK = 0.5
"""Seconds between looks at a model that is being loaded."""


class Timings(msgspec.Struct, frozen=True):
    """How many tokens of the prompt the server still had, and how many it read."""

    cache_n: Count = 0
    prompt_n: Count = 0


class ServedModel(msgspec.Struct, frozen=True):
    """A model as its server tells of it; sizes in tokens, parameters and bytes as counts."""

    id: str
    n_vocab: int
    n_ctx_train: int = 0
    n_params: int = 0
    size: int = 0
    ftype: str = ""


class _Generation(msgspec.Struct, frozen=True):
    n_ctx: Count = 0


class Props(msgspec.Struct, frozen=True):
    """What a server says of itself; special tokens as texts, "" where there is none."""

    default_generation_settings: _Generation = _Generation()
    chat_template: str = ""
    bos_token: str = ""
    eos_token: str = ""
    build_info: Phrase = ""
    total_slots: Count = 0
    role: str = ""


class Listed(msgspec.Struct, frozen=True, gc=False):
    id: int
    logprob: float | None = None
    prob: float | None = None


class _Step(msgspec.Struct, frozen=True):
    top_logprobs: list[Listed] = []
    top_probs: list[Listed] = []


class _Completion(msgspec.Struct, frozen=True):
    completion_probabilities: list[_Step] = []
    timings: Timings = Timings()
    model: str = ""


class _Piece(msgspec.Struct, frozen=True, gc=False):
    id: int
    bytes: list[Byte] = []


class _Pieces(msgspec.Struct, frozen=True):
    top_logprobs: list[_Piece]


class _Vocabulary(msgspec.Struct, frozen=True):
    completion_probabilities: list[_Pieces]


class _Biased(msgspec.Struct, frozen=True):
    token: int
    bias: float | None = None


class _EndIds(msgspec.Struct, frozen=True):
    biases: list[_Biased] = msgspec.field(name="generation_settings/logit_bias")


class _Tokens(msgspec.Struct, frozen=True):
    tokens: list[int]


class _Content(msgspec.Struct, frozen=True):
    content: str


class LlamaServer(ModelServer[ServedModel]):
    """A llama-server; see `ModelServer`."""

    kind, since = "llama-server", "llama-server of 2025 or newer"
    completions = "/completion"

    def __init__(self, client: HttpClient, wanted: str = "") -> None:
        super().__init__(client, wanted)
        self._plain: list[int] = []
        self._asked_to_load = False

    @property
    def n_vocab(self) -> int:
        return self.model.n_vocab

    def is_ready(self) -> bool:
        """Whether it has loaded its model; of several, the one that is wanted, which it is asked to load.

        Raises:
            EngineError: it cannot be reached, or refuses.
        """
        try:
            self.client.get("/health", SMALL)
        except ServerError as error:
            if error.status == 503:
                return False
            raise
        return self._is_loaded(self.find_entry()[0])

    def props(self) -> Props:
        query = f"?model={quote(self._name['model'], safe='')}" if self._name else ""
        props = self.decode(self.client.get(f"/props{query}", SMALL), Props)
        if not props.default_generation_settings.n_ctx:
            raise self.otherwise("it reports no context size")
        return props

    def vocabulary(self) -> list[bytes]:
        """The bytes of every token by its id; of control tokens there are none."""
        count = self.model.n_vocab
        asked = {**self._request([0], 1), "n_probs": count, "response_fields": ["completion_probabilities"]}
        data = self.request_completion(asked, SMALL + count * _PER_CANDIDATE)
        steps = self.decode(data, _Vocabulary).completion_probabilities
        pieces = [b""] * count
        listed = steps[0].top_logprobs if steps else []
        for piece in listed:
            if 0 <= piece.id < count:
                pieces[piece.id] = bytes(piece.bytes)
        if {piece.id for piece in listed} != set(range(count)):
            raise self.otherwise("it does not tell its vocabulary")
        # What it is to draw: letters that are tokens alone, which are complete characters.
        self._plain = [i for i, piece in enumerate(pieces) if len(piece) == 1 and piece.isalpha()]
        if not self._plain:
            raise self.otherwise("its vocabulary has no letters")
        return pieces

    def end_ids(self) -> list[int]:
        """The tokens that end a reply, in order."""
        asked = {**self._request([0], 1), "ignore_eos": True, "response_fields": ["generation_settings/logit_bias"]}
        asked.pop("logit_bias", None)
        biases = self.decode(self.request_completion(asked, SMALL), _EndIds).biases
        return sorted({one.token for one in biases if one.bias is None and 0 <= one.token < self.model.n_vocab})

    def tokenize(self, text: str, *, special: bool, begin: bool) -> list[int]:
        well = text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
        asked = {"content": well, "add_special": begin, "parse_special": special}
        ids = self.decode(self.post("/tokenize", asked, _TEXT + _PER_CHARACTER * len(well)), _Tokens).tokens
        return self.check_ids(ids)

    def text_of(self, ids: list[int]) -> str:
        """The text of tokens, with the names of control tokens."""
        return self.decode(self.post("/detokenize", {"tokens": ids}, SMALL), _Content).content

    def read(self, ids: list[int]) -> Timings:
        """Has it read ids, whose logits nobody needs.

        Raises:
            ContextFull: there is no room for them.
        """
        return self.read_in_slots(ids, 1)[0]

    def read_in_slots(self, ids: list[int], slots: int) -> list[Timings]:
        """The same in so many slots at once.

        Raises:
            ContextFull: there is no room for them.
        """
        asked = {**self._request(ids, 0), "response_fields": ["timings", "model"]}
        if slots > 1:
            asked["prompt"] = [ids] * slots
        return [answer.timings for answer in self._answers(asked, SMALL, slots)]

    def candidates(self, ids: list[int], count: int) -> Shortlist:
        """Return the `count` most likely tokens after ids.

        Raises:
            ContextFull: there is no room for the ids.
        """
        return self.candidates_of([ids], count)[0][0]

    def candidates_of(self, several: list[list[int]], count: int) -> list[tuple[Shortlist, Timings]]:
        """Return the `count` most likely tokens after each of several texts, which the server reads at once, as far as it has
        slots.

        Raises:
            ContextFull: there is no room for the ids of one.
        """
        asked = {**self._request(several[0], 1), "n_probs": count}
        if len(several) > 1:
            asked["prompt"] = several
        answers = self._answers(asked, (SMALL + count * _PER_CANDIDATE) * len(several), len(several))
        count = min(count, self.n_vocab)
        shortlists = []
        for answer in answers:
            listed = answer.completion_probabilities[0].top_logprobs if answer.completion_probabilities else []
            if len(listed) < max(count, 1):
                hint = 'set draws = "server" for this engine'
                raise self.otherwise(f"it returns {len(listed)} of {count} candidates", hint)
            step = self.read_step(listed)
            if step is None or not np.isfinite(step[1][0]):
                raise self.otherwise("the log-probabilities of its candidates cannot be right")
            shortlists.append((Shortlist(*step, self.n_vocab), answer.timings))
        return shortlists

    def read_step(self, listed: list[Listed]) -> tuple[NDArray[np.int32], NDArray[np.float64]] | None:
        """Read the candidates of a step; see `read_candidates`.

        Raises:
            EngineError: the vocabulary lacks one.
        """
        return read_candidates(self.check_ids([one.id for one in listed]), (one.logprob for one in listed))

    def penalised(
        self, ids: list[int], count: int, last_n: int, penalty: float, biases: dict[int, float]
    ) -> dict[int, float]:
        """The `count` most likely tokens once these biases were added to logits and the server's own stage has penalised the
        `last_n` ids, with the logarithms of their probabilities. One token must be all but certain, and whole characters."""
        asked = self._request(ids, 1) | {
            "n_probs": count, "post_sampling_probs": True, "samplers": ["penalties"], "temperature": 1.0, "seed": 0,
            "repeat_penalty": penalty, "repeat_last_n": last_n, "frequency_penalty": 0.0, "presence_penalty": 0.0,
            "logit_bias": list(biases.items()),
        }  # fmt: skip
        (answer,) = self._answers(asked, SMALL + count * _PER_CANDIDATE, 1)
        listed = answer.completion_probabilities[0].top_probs if answer.completion_probabilities else []
        return {one.id: math.log(one.prob) for one in listed if one.prob is not None and 0 < one.prob < 1.01}

    def _request(self, ids: list[int], count: int) -> dict[str, Any]:
        """What every request about ids has: it draws `count` tokens, and those certainly."""
        asked: dict[str, Any] = {
            "prompt": ids, "n_predict": count, "cache_prompt": True, "id_slot": -1, "samplers": ["temperature"],
            "temperature": 0.0, "response_fields": _FIELDS, "model": self.model.id,
        }  # fmt: skip
        return asked | ({"logit_bias": [[self._plain[0], 1e9]]} if self._plain else {})

    def _answers(self, asked: dict[str, Any], limit: int, prompts: int) -> list[_Completion]:
        """One for each of so many prompts: several are answered with a list."""
        told = self.decode(self.request_completion(asked, limit), _Completion | list[_Completion])  # type: ignore[arg-type]
        answers = told if isinstance(told, list) else [told]
        if len(answers) != prompts:
            raise self.otherwise(f"it gives {len(answers)} answers to {prompts} prompts")
        for one in answers:
            self.check_answered_by(one.model)
        return answers

    def _is_loaded(self, entry: ServedEntry) -> bool:
        """Whether it can be asked; one that is not loaded is to be.

        Raises:
            EngineError: the server could not load it, or does not.
        """
        if entry.status is None or entry.ready:
            self._asked_to_load = False
            return True
        if entry.state == "failed" and self._asked_to_load:
            self._asked_to_load = False
            raise EngineError("model", f"{self.client.shown} could not load {entry.id}", "see the server's log")
        if not self._asked_to_load and entry.state not in _ON_ITS_WAY:
            body = msgspec.json.encode({"model": entry.id})
            self.client.ask("POST", "/models/load", body, SMALL)
        self._asked_to_load = True
        return False

    def look_up(self, *, stoppable: bool = False) -> ServedModel:
        while self._name and not self._is_loaded(self.find_entry(stoppable=stoppable)[0]):
            sleep(_LOOK)  # somebody had another one loaded in its place
        entry, _ = self.find_entry(stoppable=stoppable)
        self._name = {"model": entry.id} if entry.status is not None else {}
        meta = entry.meta
        if meta is None or not 0 < meta.n_vocab <= LARGEST_VOCABULARY:
            raise self.otherwise("it does not say, or not credibly, how large the vocabulary of its model is")
        return ServedModel(entry.id, meta.n_vocab, meta.n_ctx_train, meta.n_params, meta.size, meta.ftype)

    def is_full(self, error: ServerError) -> bool:
        return error.type == "exceed_context_size_error"
