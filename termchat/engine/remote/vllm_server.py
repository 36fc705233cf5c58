"""The contract of vLLM's HTTP server (`vllm serve`), as far as it is used here: typed requests and answers.

Tried with vLLM 0.32.0. Tokens go to `/v1/completions` and come from it as ids, candidates as "token_id:N". Texts are taken
apart outside `/v1`, by `/tokenize`, which takes the name of a control token in a text for the token itself. How large the
vocabulary is, and how many candidates are told, it says only where one asks for too much.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from termchat.engine.port import EngineError
from termchat.engine.remote.http_client import ServerError
from termchat.engine.remote.model_server import LARGEST_VOCABULARY, SMALL, ModelServer
from termchat.engine.remote.served import ServedVersion
from termchat.engine.remote.server_answers import Count
from termchat.text import one_line

_TEXT, _PER_CHARACTER = 1 << 16, 128
"""Bytes that tell of the tokens of a text, at most: for each text, and for each of its characters."""
_PER_TOKEN = 200
"""Bytes that tell of one token, at most, on average."""
_TOO_MANY = 1_000_000_000
"""More candidates than anybody tells."""
_NO_TOKEN = 2**31 - 2
"""An id that no vocabulary has."""
_SIZE = re.compile(r"Vocabulary size: (\d{1,9})\b")
_MOST = re.compile(r"max allowed: (\d{1,9})\b")
_FULL = "maximum context length"


class VllmModel(msgspec.Struct, frozen=True):
    """A model as its server tells of it: its name, where its files are there, and its context in tokens."""

    id: str
    root: str = ""
    max_model_len: int = 0


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


class VllmServer(ModelServer[VllmModel]):
    """A vLLM; see `ModelServer`."""

    kind, since = "vLLM", "vLLM of 2026 or newer"
    completions = "/v1/completions"
    n_vocab = 0

    def version(self) -> str:
        """Its own; "" where it says none."""
        try:
            return self.decode(self.client.get("/version", SMALL), ServedVersion).version
        except ServerError as error:
            if error.status == 404:
                return ""
            raise

    def vocabulary_size(self) -> int:
        self.n_vocab = self._refusal_of({"logit_bias": {str(_NO_TOKEN): 0.0}}, _SIZE)
        if not 0 < self.n_vocab <= LARGEST_VOCABULARY:
            raise self.otherwise("it does not say, or not credibly, how large the vocabulary of its model is")
        return self.n_vocab

    def most_candidates(self) -> int:
        """How many candidates a step it tells at most."""
        return self._refusal_of({"logprobs": _TOO_MANY}, _MOST)

    def tokenize(self, text: str, *, begin: bool = False, strings: bool = False) -> TakenApart:
        """A text taken apart, control tokens and all. With `begin`, what begins a text is added."""
        well = text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
        asked = {"prompt": well, "add_special_tokens": begin, "return_token_strs": strings, "model": self.model.id}
        return self.decode(self.post("/tokenize", asked, _TEXT + _PER_CHARACTER * len(well)), TakenApart)

    def chat(self, messages: list[dict[str, str]], **arguments: object) -> list[int]:
        """The prompt that its template makes of messages, up to where the assistant begins to speak.

        Raises:
            ServerError: it refuses the messages, or has no template.
        """
        asked: dict[str, Any] = {"messages": messages, "add_generation_prompt": True, "model": self.model.id}
        if arguments:
            asked["chat_template_kwargs"] = arguments
        size = sum(len(text) for message in messages for text in message.values())
        return self.decode(self.post("/tokenize", asked, SMALL + _PER_CHARACTER * size), TakenApart).tokens

    def text_of(self, ids: list[int]) -> str:
        """The text of tokens, with the names of control tokens; parts of characters become U+FFFD."""
        asked = {"tokens": ids, "model": self.model.id}
        return self.decode(self.post("/detokenize", asked, SMALL + 64 * len(ids)), _Text).prompt

    def complete(self, ids: list[int], count: int, **more: object) -> VllmAnswer:
        """At most `count` tokens after ids, all at once.

        Raises:
            ContextFull: there is no room for them.
        """
        asked = self.request(ids, count, **more)
        listed = more.get("logprobs")
        limit = SMALL + _PER_TOKEN * (len(ids) + count * (listed if isinstance(listed, int) else 1))
        return self.checked(self.decode(self.request_completion(asked, limit), VllmAnswer))

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
        return self.checked(self.decode(line, VllmAnswer))

    def checked(self, answer: VllmAnswer) -> VllmAnswer:
        if answer.error is not None:
            self.client.close()
            said = self.client.hidden(answer.error if isinstance(answer.error, str) else answer.error.message)
            raise EngineError(
                "server", f"{self.client.shown} ended the reply: {one_line(said, 300)}", "see the server's log"
            )
        self.check_answered_by(answer.model)
        return answer

    def _refusal_of(self, too_much: dict[str, Any], pattern: re.Pattern[str]) -> int:
        """The number in what it says to a request that it refuses; 0 if there is none."""
        try:
            self.request_completion(self.request([0], 1, **too_much), SMALL)
        except ServerError as error:
            if error.status != 400:
                raise
            found = pattern.search(error.message)
            return int(found[1]) if found else 0
        return 0

    def look_up(self, *, stoppable: bool = False) -> VllmModel:
        entry, listed = self.find_entry(stoppable=stoppable)
        of = next((one for one in listed if one.id == entry.parent), entry)  # an adapter has the context of its base
        context = entry.max_model_len or of.max_model_len
        if not context:
            raise self.otherwise("it does not say how large its context is")
        return VllmModel(entry.id, entry.root or "", context)

    def is_full(self, error: ServerError) -> bool:
        return error.status == 400 and _FULL in error.message
