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
from collections.abc import Callable
from functools import partial
from time import sleep
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec
import numpy as np
from numpy.typing import NDArray

from termchat.engine.llama.cells import Aborted, ContextFull
from termchat.engine.port import EngineError
from termchat.engine.remote.event_stream import EventStream
from termchat.engine.remote.http_client import HttpClient, ServerError, StaleConnection
from termchat.engine.remote.served import ServedEntry, another_model, read_models
from termchat.engine.remote.server_answers import BadAnswer, Byte, Count, Phrase, decode, read_candidates
from termchat.text import one_line

T = TypeVar("T")

_SMALL = 8 << 20
_TEXT, _PER_CHARACTER = 1 << 16, 64
"""Bytes that tell of the tokens of a text, at most: for each text, and for each of its characters."""
_PER_CANDIDATE = 400
"""Bytes that tell of one candidate, at most, on average; mostly they are ninety."""
_LARGEST = 2_000_000
"""Tokens of a vocabulary that is believed; the largest have 262,144."""
_FIELDS = ("completion_probabilities", "timings", "model")
_SHOWN = 80
_ON_ITS_WAY = ("loading", "downloading", "downloaded")
_LOOK = 0.5
"""Seconds between looks at a model that is being loaded."""


class Timings(msgspec.Struct, frozen=True):
    """How many tokens of the prompt the server still had, and how many it read."""

    cache_n: Count = 0
    prompt_n: Count = 0


class Candidates(msgspec.Struct, frozen=True):
    """The most likely tokens after some ids, best first: shape (n,) each. `logprobs` are the model's own."""

    ids: NDArray[np.int32]
    logprobs: NDArray[np.float64]
    timings: Timings


class ServedModel(msgspec.Struct, frozen=True):
    """A model as its server tells of it; sizes in tokens, parameters and bytes as counts."""

    id: str
    n_vocab: int
    n_ctx_train: int = 0
    n_params: int = 0
    size: int = 0
    ftype: str = ""


class _Generation(msgspec.Struct, frozen=True):
    n_ctx: Count


class Props(msgspec.Struct, frozen=True):
    """What a server says of itself; special tokens as texts, "" where there is none."""

    default_generation_settings: _Generation
    chat_template: str = ""
    bos_token: str = ""
    eos_token: str = ""
    build_info: Phrase = ""
    total_slots: Count = 0


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


class LlamaServer:
    """A llama-server, and the one model of it that is asked for as `wanted` ("": its own choice). `model` is that one, once it
    is `found`: from then on every new connection, and every answer, must be about the same.

    Everything raises EngineError, and Aborted where the client was stopped.
    """

    def __init__(self, client: HttpClient, wanted: str = "") -> None:
        self.client, self._wanted = client, wanted
        self._model: ServedModel | None = None
        self._plain: list[int] = []
        self._name: dict[str, str] = {}
        """What every request has that names the model, where the server has several."""
        self._asked_to_load = False

    @property
    def model(self) -> ServedModel:
        assert self._model is not None
        return self._model

    def is_ready(self) -> bool:
        """Whether it has loaded its model; of several, the one that is wanted, which it is asked to load.

        Raises:
            EngineError: it cannot be reached, or refuses.
        """
        try:
            self._ask("GET", "/health", None, _SMALL)
        except ServerError as error:
            if error.status == 503:
                return False
            raise
        return self._is_loaded(self._entry())

    def find(self) -> ServedModel:
        """The model that is wanted."""
        self._model = self._found()
        return self._model

    def props(self) -> Props:
        query = f"?model={quote(self._name['model'], safe='')}" if self._name else ""
        props = self.told(self._ask("GET", f"/props{query}", None, _SMALL), Props)
        if not props.default_generation_settings.n_ctx:
            raise self.otherwise("it reports no context size")
        return props

    def vocabulary(self) -> list[bytes]:
        """The bytes of every token by its id; of control tokens there are none."""
        count = self.model.n_vocab
        asked = {**self._request([0], 1), "n_probs": count, "response_fields": ["completion_probabilities"]}
        data = self._completion(asked, _SMALL + count * _PER_CANDIDATE)
        steps = self.told(data, _Vocabulary).completion_probabilities
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
        biases = self.told(self._completion(asked, _SMALL), _EndIds).biases
        return sorted({one.token for one in biases if one.bias is None and 0 <= one.token < self.model.n_vocab})

    def tokenize(self, text: str, *, special: bool, begin: bool) -> list[int]:
        well = text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
        asked = {"content": well, "add_special": begin, "parse_special": special}
        ids = self.told(self._post("/tokenize", asked, _TEXT + _PER_CHARACTER * len(well)), _Tokens).tokens
        return self.check_ids(ids)

    def text_of(self, ids: list[int]) -> str:
        """The text of tokens, with the names of control tokens."""
        return self.told(self._post("/detokenize", {"tokens": ids}, _SMALL), _Content).content

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
        return [answer.timings for answer in self._answers(asked, _SMALL, slots)]

    def candidates(self, ids: list[int], count: int) -> Candidates:
        """The `count` most likely tokens after ids, and their log-probabilities.

        Raises:
            ContextFull: there is no room for the ids.
        """
        return self.candidates_of([ids], count)[0]

    def candidates_of(self, several: list[list[int]], count: int) -> list[Candidates]:
        """The `count` most likely tokens after each of several texts, which the server reads at once, as far as it has slots.

        Raises:
            ContextFull: there is no room for the ids of one.
        """
        asked = {**self._request(several[0], 1), "n_probs": count}
        if len(several) > 1:
            asked["prompt"] = several
        answers = self._answers(asked, (_SMALL + count * _PER_CANDIDATE) * len(several), len(several))
        return [self._candidates(answer, min(count, self.model.n_vocab)) for answer in answers]

    def _candidates(self, answer: _Completion, count: int) -> Candidates:
        listed = answer.completion_probabilities[0].top_logprobs if answer.completion_probabilities else []
        if len(listed) < max(count, 1):
            hint = 'set draws = "server" for this engine'
            raise self.otherwise(f"it returns {len(listed)} of {count} candidates", hint)
        found = self.read_step(listed)
        if found is None or not np.isfinite(found[1][0]):
            raise self.otherwise("the log-probabilities of its candidates cannot be right")
        return Candidates(*found, answer.timings)

    def read_step(self, listed: list[Listed]) -> tuple[NDArray[np.int32], NDArray[np.float64]] | None:
        """Read the candidates of a step; see `read_candidates`.

        Raises:
            EngineError: the vocabulary lacks one.
        """
        return read_candidates(self.check_ids([one.id for one in listed]), (one.logprob for one in listed))

    def check_ids(self, ids: list[int]) -> list[int]:
        """Return the ids.

        Raises:
            EngineError: the vocabulary lacks one.
        """
        unknown = next((i for i in (min(ids, default=0), max(ids, default=0)) if not 0 <= i < self.model.n_vocab), None)
        if unknown is not None:
            hint = "load its model again"
            raise self.otherwise(f"token {unknown} is not in its vocabulary", hint)
        return ids

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
        answer = self._answer(asked, _SMALL + count * _PER_CANDIDATE)
        listed = answer.completion_probabilities[0].top_probs if answer.completion_probabilities else []
        return {one.id: math.log(one.prob) for one in listed if one.prob is not None and 0 < one.prob < 1.01}

    def events(self, asked: dict[str, Any]) -> EventStream:
        """The events that answer a request for a completion; while the server begins with it, it is asked for its model.

        Raises:
            EngineError: it has another model, too.
        """
        stream = self.client.stream("/completion", msgspec.json.encode(asked | self._name))
        try:
            self._again(partial(self._meet_again, stoppable=True))
        except (Aborted, EngineError):
            stream.close()
            raise
        return stream

    def completed(self, asked: dict[str, Any]) -> bytes:
        """What answers a request for a completion.

        Raises:
            ContextFull: there is no room for the ids.
        """
        return self._completion(asked, _SMALL)

    def is_meant(self, model: str) -> bool:
        """Whether an answer of this model ("": it does not say) is what was asked for."""
        return model in ("", self.model.id)

    def _request(self, ids: list[int], count: int) -> dict[str, Any]:
        """What every request about ids has: it draws `count` tokens, and those certainly."""
        asked: dict[str, Any] = {
            "prompt": ids, "n_predict": count, "cache_prompt": True, "id_slot": -1, "samplers": ["temperature"],
            "temperature": 0.0, "response_fields": _FIELDS, "model": self.model.id,
        }  # fmt: skip
        return asked | ({"logit_bias": [[self._plain[0], 1e9]]} if self._plain else {})

    def _answer(self, asked: dict[str, Any], limit: int) -> _Completion:
        return self._answers(asked, limit, 1)[0]

    def _answers(self, asked: dict[str, Any], limit: int, prompts: int) -> list[_Completion]:
        """One for each of so many prompts: several are answered with a list."""
        told = self.told(self._completion(asked, limit), _Completion | list[_Completion])  # type: ignore[arg-type]
        answers = told if isinstance(told, list) else [told]
        if len(answers) != prompts:
            raise self.otherwise(f"it gives {len(answers)} answers to {prompts} prompts")
        another = next((one.model for one in answers if not self.is_meant(one.model)), None)
        if another is not None:
            self.client.close()
            raise self.another(another)
        return answers

    def _completion(self, asked: dict[str, Any], limit: int) -> bytes:
        try:
            return self._post("/completion", asked, limit)
        except ServerError as error:
            if error.type == "exceed_context_size_error":
                raise ContextFull from None
            raise

    def _post(self, path: str, asked: dict[str, Any], limit: int) -> bytes:
        return self._ask("POST", path, msgspec.json.encode(asked | self._name), limit, stoppable=path == "/completion")

    def _ask(self, method: str, path: str, body: bytes | None, limit: int, *, stoppable: bool = False) -> bytes:
        met = False

        def ask() -> bytes:
            nonlocal met
            if not self.client.connected and self._model is not None and not met:
                self._meet_again(stoppable=stoppable)
                met = True
            return self.client.ask(method, path, body, limit, stoppable=stoppable)

        return self._again(ask)

    def _again(self, ask: Callable[[], T]) -> T:
        """Asks, again where the kept connection was closed meanwhile, also right after the model was met again on a new one."""
        for _ in range(3):
            try:
                return ask()
            except StaleConnection:
                continue
        raise self.client.closing_error()

    def _meet_again(self, *, stoppable: bool) -> None:
        """The connection is a new one: is it still the same model?

        Raises:
            EngineError: it is another one.
        """
        while self._name and not self._is_loaded(self._entry(stoppable=stoppable)):
            sleep(_LOOK)  # somebody had another one loaded in its place
        if (found := self._found(stoppable=stoppable)) != self._model:
            self.client.close()
            raise self.another(found.id)

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
            self.client.ask("POST", "/models/load", body, _SMALL)
        self._asked_to_load = True
        return False

    def _entry(self, *, stoppable: bool = False) -> ServedEntry:
        """What the server lists of the model that is wanted.

        Raises:
            EngineError: it has none of that name, or several and none was named.
        """
        data = self._read(read_models, self.client.ask("GET", "/v1/models", None, _SMALL, stoppable=stoppable))
        entry = next((one for one in data if self._wanted in (one.id, *one.aliases)), None)
        if entry is None and not self._wanted:
            entry = next((one for one in data if one.ready), None)
        if entry is None:
            there = one_line(", ".join(one.id for one in data), _SHOWN) or "none"
            what = f"no model {self._wanted!r}" if self._wanted else "no model loaded"
            hint = f"it has: {there}" if self._wanted else f"name one of them with --model: {there}"
            raise EngineError("model", f"{self.client.shown} has {what}", hint if data else "")
        return entry

    def _found(self, *, stoppable: bool = False) -> ServedModel:
        entry = self._entry(stoppable=stoppable)
        self._name = {"model": entry.id} if entry.status is not None else {}
        meta = entry.meta
        if meta is None or not 0 < meta.n_vocab <= _LARGEST:
            raise self.otherwise("it does not say, or not credibly, how large the vocabulary of its model is")
        return ServedModel(entry.id, meta.n_vocab, meta.n_ctx_train, meta.n_params, meta.size, meta.ftype)

    def another(self, now: str) -> EngineError:
        """It has another model than was found."""
        return another_model(self.client.shown, one_line(now, _SHOWN))

    def told(self, data: bytes, as_: type[T]) -> T:
        """What it says, as far as it is what a llama-server says."""
        return self._read(partial(decode, as_=as_), data)

    def _read(self, read: Callable[[bytes], T], data: bytes) -> T:
        try:
            return read(data)
        except BadAnswer as error:
            self.client.close()
            raise self.otherwise(str(error)) from None

    def otherwise(
        self, how: str, hint: str = "is it a llama-server of 2025 or newer, and the path of the URL right?"
    ) -> EngineError:
        """It does not say what a llama-server says."""
        return EngineError("server", f"{self.client.shown} does not answer as a llama-server does: {how}", hint)
