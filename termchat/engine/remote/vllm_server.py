"""The contract of vLLM's HTTP server (`vllm serve`), as far as it is used here: typed requests and answers.

Tried with vLLM 0.32.0. Tokens go to `/v1/completions` and come from it as ids, candidates as "token_id:N". Texts are taken
apart outside `/v1`, by `/tokenize`, which takes the name of a control token in a text for the token itself. How large the
vocabulary is, and how many candidates are told, it says only where one asks for too much.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

import msgspec

from termchat.engine.llama.cells import ContextFull
from termchat.engine.port import EngineError
from termchat.engine.remote.http_client import HttpClient, ServerError, StaleConnection
from termchat.engine.remote.served import another_model, read_models
from termchat.engine.remote.server_answers import BadAnswer, Count, Phrase, decode
from termchat.text import one_line

T = TypeVar("T")

_SMALL = 8 << 20
_TEXT, _PER_CHARACTER = 1 << 16, 128
"""Bytes that tell of the tokens of a text, at most: for each text, and for each of its characters."""
_PER_TOKEN = 200
"""Bytes that tell of one token, at most, on average."""
_LARGEST = 2_000_000
"""Tokens of a vocabulary that is believed; the largest have 262,144."""
_TOO_MANY = 1_000_000_000
"""More candidates than anybody tells."""
_NO_TOKEN = 2**31 - 2
"""An id that no vocabulary has."""
_SIZE = re.compile(r"Vocabulary size: (\d{1,9})\b")
_MOST = re.compile(r"max allowed: (\d{1,9})\b")
_FULL = "maximum context length"
_SHOWN = 80


class VllmModel(msgspec.Struct, frozen=True):
    """A model as its server tells of it: its name, where its files are there, and its context in tokens."""

    id: str
    root: str = ""
    max_model_len: int = 0


class _Version(msgspec.Struct, frozen=True):
    version: Phrase = ""


class TakenApart(msgspec.Struct, frozen=True):
    """A text taken apart; `token_strs` are the tokens as the vocabulary has them, such as "Ġthe"."""

    tokens: list[int]
    token_strs: list[str] | None = None


class _Text(msgspec.Struct, frozen=True):
    prompt: str


class Logprobs(msgspec.Struct, frozen=True):
    """Of each token its own, and those of the candidates by "token_id:N": the drawn one first, the others best first."""

    token_logprobs: list[float | None] = []
    top_logprobs: list[dict[str, float] | None] = []


class VllmChoice(msgspec.Struct, frozen=True):
    """A reply, or what is new of it. `stop_reason` is the stop sequence, or an id; None for the model's own end token."""

    token_ids: list[int] | None = None
    text: str = ""
    logprobs: Logprobs | None = None
    finish_reason: str | None = None
    stop_reason: int | str | None = None


class _Cached(msgspec.Struct, frozen=True):
    cached_tokens: Count | None = None


class Usage(msgspec.Struct, frozen=True):
    prompt_tokens_details: _Cached | None = None


class _Complaint(msgspec.Struct, frozen=True):
    message: str = ""
    type: str = ""


class VllmAnswer(msgspec.Struct, frozen=True):
    """An answer, or one event of a streamed one. `error` is told in mid-stream, where it is too late for a status."""

    choices: list[VllmChoice] = []
    model: str = ""
    usage: Usage | None = None
    error: _Complaint | str | None = None


class VllmServer:
    """A vLLM, and the one model of it that is asked for as `wanted` ("": its own choice). `model` is that one, once it is
    `found`: from then on every new connection, and every answer, must be about the same.

    Everything raises EngineError, and Aborted where the client was stopped.
    """

    kind = "vLLM"

    def __init__(self, client: HttpClient, wanted: str = "") -> None:
        self.client, self._wanted = client, wanted
        self._model: VllmModel | None = None

    @property
    def model(self) -> VllmModel:
        assert self._model is not None
        return self._model

    def on(self, client: HttpClient) -> VllmServer:
        """The same model over another connection."""
        other = type(self)(client, self._wanted)
        other._model = self._model
        return other

    def find(self) -> VllmModel:
        """The model that is wanted."""
        self._model = self._found()
        return self._model

    def version(self) -> str:
        """Its own; "" where it says none."""
        try:
            return self._told(self._ask("GET", "/version", None, _SMALL), _Version).version
        except ServerError as error:
            if error.status == 404:
                return ""
            raise

    def vocabulary_size(self) -> int:
        said = self._refusal_of({"logit_bias": {str(_NO_TOKEN): 0.0}}, _SIZE)
        if not 0 < said <= _LARGEST:
            raise self.otherwise("it does not say, or not credibly, how large the vocabulary of its model is")
        return said

    def most_candidates(self) -> int:
        """How many candidates a step it tells at most."""
        return self._refusal_of({"logprobs": _TOO_MANY}, _MOST)

    def tokenize(self, text: str, *, begin: bool = False, strings: bool = False) -> TakenApart:
        """A text taken apart, control tokens and all. With `begin`, what begins a text is added."""
        well = text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
        asked = {"prompt": well, "add_special_tokens": begin, "return_token_strs": strings, "model": self.model.id}
        return self._told(self._post("/tokenize", asked, _TEXT + _PER_CHARACTER * len(well)), TakenApart)

    def chat(self, messages: list[dict[str, str]], **arguments: object) -> list[int]:
        """The prompt that its template makes of messages, up to where the assistant begins to speak.

        Raises:
            ServerError: it refuses the messages, or has no template.
        """
        asked: dict[str, Any] = {"messages": messages, "add_generation_prompt": True, "model": self.model.id}
        if arguments:
            asked["chat_template_kwargs"] = arguments
        size = sum(len(text) for message in messages for text in message.values())
        return self._told(self._post("/tokenize", asked, _SMALL + _PER_CHARACTER * size), TakenApart).tokens

    def text_of(self, ids: list[int]) -> str:
        """The text of tokens, with the names of control tokens; parts of characters become U+FFFD."""
        asked = {"tokens": ids, "model": self.model.id}
        return self._told(self._post("/detokenize", asked, _SMALL + 64 * len(ids)), _Text).prompt

    def complete(self, ids: list[int], count: int, **more: object) -> VllmAnswer:
        """At most `count` tokens after ids, all at once.

        Raises:
            ContextFull: there is no room for them.
        """
        asked = self.request(ids, count, **more)
        listed = more.get("logprobs")
        limit = _SMALL + _PER_TOKEN * (len(ids) + count * (listed if isinstance(listed, int) else 1))
        return self.checked(self._told(self._completed(asked, limit), VllmAnswer))

    def request(self, ids: list[int], count: int, **more: object) -> dict[str, Any]:
        """What every request about ids has."""
        return {
            "model": self.model.id, "prompt": ids, "max_tokens": count, "return_token_ids": True,
            "return_tokens_as_token_ids": True, **more,
        }  # fmt: skip

    def event(self, line: bytes) -> VllmAnswer:
        """One event of a streamed answer, without "data: ".

        Raises:
            EngineError: it is an error, of another model, or none that a vLLM sends.
        """
        return self.checked(self._told(line, VllmAnswer))

    def checked(self, answer: VllmAnswer) -> VllmAnswer:
        if answer.error is not None:
            self.client.close()
            said = self.client.hidden(answer.error if isinstance(answer.error, str) else answer.error.message)
            raise EngineError(
                "server", f"{self.client.shown} ended the reply: {one_line(said, 300)}", "see the server's log"
            )
        if answer.model and answer.model != self.model.id:
            self.client.close()
            raise another_model(self.client.shown, one_line(answer.model, _SHOWN))
        return answer

    def otherwise(
        self, how: str, hint: str = "is it a vLLM of 2026 or newer, and the path of the URL right?"
    ) -> EngineError:
        return EngineError("server", f"{self.client.shown} does not answer as a {self.kind} does: {how}", hint)

    def _refusal_of(self, too_much: dict[str, Any], pattern: re.Pattern[str]) -> int:
        """The number in what it says to a request that it refuses; 0 if there is none."""
        try:
            self._completed(self.request([0], 1, **too_much), _SMALL)
        except ServerError as error:
            if error.status != 400:
                raise
            found = pattern.search(error.message)
            return int(found[1]) if found else 0
        return 0

    def _completed(self, asked: dict[str, Any], limit: int) -> bytes:
        try:
            return self._post("/v1/completions", asked, limit)
        except ServerError as error:
            if is_full(error):
                raise ContextFull from None
            raise

    def _post(self, path: str, asked: dict[str, Any], limit: int) -> bytes:
        stoppable = path == "/v1/completions"
        return self._ask("POST", path, msgspec.json.encode(asked), limit, stoppable=stoppable)

    def _ask(self, method: str, path: str, body: bytes | None, limit: int, *, stoppable: bool = False) -> bytes:
        """Asks, once more where the kept connection was closed meanwhile."""
        client = self.client
        for _ in range(2):
            try:
                if not client.connected and self._model is not None:
                    self._meet_again(stoppable=stoppable)
                return client.ask(method, path, body, limit, stoppable=stoppable)
            except StaleConnection:
                continue
        raise self.client.closing_error()

    def is_the_same(self) -> None:
        """Asks what model it has now; for requests on connections of their own.

        Raises:
            EngineError: it is another one.
        """
        for _ in range(2):
            with suppress(StaleConnection):
                return self._meet_again(stoppable=True)
        raise self.client.closing_error()

    def _meet_again(self, *, stoppable: bool) -> None:
        """The connection is a new one: is it still the same model?

        Raises:
            EngineError: it is another one.
        """
        if (found := self._found(stoppable=stoppable)) != self._model:
            self.client.close()
            raise another_model(self.client.shown, one_line(found.id, _SHOWN))

    def _found(self, *, stoppable: bool = False) -> VllmModel:
        client = self.client
        data = self._read(read_models, client.ask("GET", "/v1/models", None, _SMALL, stoppable=stoppable))
        entry = next((one for one in data if self._wanted == one.id), None)
        if entry is None and not self._wanted and data:
            entry = data[0]
        if entry is None:
            there = one_line(", ".join(one.id for one in data), _SHOWN) or "none"
            raise EngineError(
                "model", f"{self.client.shown} has no model {self._wanted!r}", f"it has: {there}" if data else ""
            )
        of = next((one for one in data if one.id == entry.parent), entry)  # an adapter has the context of its base
        context = entry.max_model_len or of.max_model_len
        if not context:
            raise self.otherwise("it does not say how large its context is")
        return VllmModel(entry.id, entry.root or "", context)

    def _told(self, data: bytes, as_: type[T]) -> T:
        return self._read(partial(decode, as_=as_), data)

    def _read(self, read: Callable[[bytes], T], data: bytes) -> T:
        try:
            return read(data)
        except BadAnswer as error:
            self.client.close()
            raise self.otherwise(str(error)) from None


def is_full(error: ServerError) -> bool:
    """Whether it refuses ids for which its context has no room."""
    return error.status == 400 and _FULL in error.message
