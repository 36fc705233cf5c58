"""The contract of OpenAI's chat API, as far as it is used here: typed requests and answers.

Many servers speak it, each in its own way: so fields that are not known are passed over, those that are missing or make no
sense are absent, and a parameter that a server refuses by name is left out, which is told. An answer is a stream of events
(`data: …`), the last of which is `[DONE]`; between the last of the text and that, some servers count the tokens.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from termchat.decoding.samplers import SamplerSettings
from termchat.engine.port import EngineError, Message, Remark
from termchat.engine.remote.http_client import EventStream, HttpClient, ServerError
from termchat.engine.remote.served import UNLISTED, ServedEntry, another_model, read_models
from termchat.engine.remote.server_answers import (
    BadAnswer,
    read_amount,
    read_count,
    read_drawn_logprob,
    read_json,
    read_logprob,
    read_part,
    read_phrase,
    read_text,
)
from termchat.text import one_line

_SMALL = 8 << 20
_SHOWN = 80
_NAMED = 3
"""Models of a server that are named as examples."""
MOST_STOPS = 4
"""Stop sequences that the API takes."""
_MOST_CANDIDATES = 20
_THOUGHTS = ("reasoning_content", "reasoning")
"""What servers call thoughts that they keep apart."""
_LONGEST_TOKEN = 1000
"""Characters, or bytes, of a token that is believed to be one."""
_PIECE = 1 << 15
"""Characters of a longer text that are told at once: between two of them a reply can be stopped."""
_OPTIONAL = (
    "stream_options", "top_logprobs", "logprobs", "seed", "frequency_penalty", "presence_penalty", "top_p",
    "temperature", "stop",
)  # fmt: skip
"""Parameters that are left out where a server refuses them."""
_TOGETHER = {"top_logprobs": "logprobs", "logprobs": "top_logprobs"}
_REFUSALS = (400, 422)
_KEPT = "what it said is kept: regenerate the reply, or ask it to go on"
_LONG_MESSAGE = re.compile(r"context.{0,20}(length|window|size)|too many tokens|context_length", re.IGNORECASE)


class ChatRequest(NamedTuple):
    """What a reply is asked for with. `limit` is the most tokens, 0 for no limit; so many `candidates` of a step are to be told
    as far as the API can."""

    messages: list[Message]
    samplers: SamplerSettings
    stops: tuple[str, ...]
    limit: int
    seed: int
    candidates: int


class ListedText(msgspec.Struct, frozen=True, gc=False):
    """A token by its text, which may be only a part of a character, and its bytes; `logprob` is ABSENT where it is not told.
    Of a token of the reply `top_logprobs` are those that the model thought likely in its place, best first."""

    token: str
    data: bytes
    logprob: float
    top_logprobs: list[ListedText] = []


class ChatPiece(NamedTuple):
    """Text that came at once; `told` are its tokens, where the server tells them. `thought`: it belongs to the thoughts, which
    the server keeps apart."""

    text: str
    thought: bool = False
    told: tuple[ListedText, ...] = ()


class ChatEnd(NamedTuple):
    """Why the reply ended, in the API's own words (`finish_reason`), and at which stop sequence, where the server says that."""

    reason: str
    stopped_by: str = ""


class ChatUsage(NamedTuple):
    """How many tokens prompt and reply had, and how many of the prompt's the server still had; None where it does not say. So
    for the milliseconds of the prompt, and the rate of the reply's tokens."""

    prompt: int | None
    reply: int | None
    reused: int | None = None
    prompt_ms: float | None = None
    per_second: float | None = None


Heard = ChatPiece | ChatEnd | ChatUsage | Remark


class OpenAIServer:
    """A server of the chat API, and the one model of it that is asked for as `wanted` ("": its only one). Servers of one model
    answer with it whatever they are asked for: so they are asked before each reply whether they still have it.

    Everything raises EngineError, and Aborted where the client was stopped.
    """

    def __init__(self, client: HttpClient, wanted: str = "") -> None:
        self.client, self._wanted = client, wanted
        self.model = ServedEntry(wanted)
        self._only = ""
        """The one model that it listed; "" where there were more, or none."""
        self._left_out: set[str] = set()
        self._limit = "max_tokens"

    def find(self) -> ServedEntry:
        """The model that is wanted. A server that lists no models is believed to have it."""
        found = self._listed()
        there = {one.id: one for one in found}
        self._only = found[0].id if len(found) == 1 else ""
        if self._wanted:
            self.model = there.get(self._wanted, ServedEntry(self._wanted))
        elif len(found) == 1:
            self.model = found[0]
        else:
            raise self._unchosen([one.id for one in found])
        return self.model

    def stream(self, asked: ChatRequest) -> Iterator[Heard]:
        """The reply as it comes. What is left out for this server is told first."""
        now = [one.id for one in self._listed()] if self._only else []
        if now and self._only not in now:
            raise another_model(self.client.shown, _some(now))
        stream, remarks = self._begun(asked)
        yield from remarks
        ended = answered = False
        half = ""
        for data in events(stream.lines()):
            if data == b"[DONE]":
                break
            try:
                event = read_json(data)
            except BadAnswer as error:
                if answered:
                    what = f"{self.client.shown} sent an event that is not JSON: {error}"
                    raise EngineError("server", what, _KEPT) from None
                raise self._otherwise(str(error)) from None
            answered = True
            for heard in self._heard(event):
                ended = ended or isinstance(heard, ChatEnd)
                if not isinstance(heard, ChatPiece):
                    yield heard
                    continue
                whole, half = _split_half(half + heard.text)
                if whole:
                    stream.moved()
                if len(whole) <= _PIECE:
                    yield heard._replace(text=whole)
                    continue
                yield from (ChatPiece(whole[at : at + _PIECE], heard.thought) for at in range(0, len(whole), _PIECE))
        if half:
            yield ChatPiece("\ufffd")
        if not answered:
            raise self._otherwise("it sends no events")
        if not ended:
            raise EngineError("server", f"{self.client.shown} broke off in mid-reply", _KEPT)

    def _begun(self, asked: ChatRequest) -> tuple[EventStream, list[Remark]]:
        """The answer, once the server takes the request, and what had to be left out for that."""
        remarks: list[Remark] = []
        while True:
            body = self._body(asked)
            try:
                stream = self.client.stream("/v1/chat/completions", msgspec.json.encode(body))
                stream.begin()
                return stream, remarks
            except ServerError as error:
                remark = self._learn(error, body)
                if remark is None:
                    raise self._explained(error) from None
                remarks += [remark] if remark.message else []

    def _body(self, asked: ChatRequest) -> dict[str, Any]:
        samplers = asked.samplers
        body: dict[str, Any] = {
            "model": self.model.id,
            "messages": [{"role": one.role, "content": one.content} for one in asked.messages],
            "stream": True, "stream_options": {"include_usage": True}, "seed": asked.seed,
            "temperature": samplers.temperature,
        }  # fmt: skip
        if samplers.top_p < 1:
            body["top_p"] = samplers.top_p
        for name in ("frequency_penalty", "presence_penalty"):
            if value := getattr(samplers, name):
                body[name] = value
        if asked.stops:
            body["stop"] = list(asked.stops[:MOST_STOPS])
        if asked.limit:
            body[self._limit] = asked.limit
        if asked.candidates:
            body |= {"logprobs": True, "top_logprobs": min(asked.candidates, _MOST_CANDIDATES)}
        return {name: value for name, value in body.items() if name not in self._left_out}

    def _learn(self, error: ServerError, body: dict[str, Any]) -> Remark | None:
        """Has the next request leave out, or call otherwise, what the server refuses by name; what to tell about that (a
        message "" for nothing). None: it is something else."""
        if error.status not in _REFUSALS:
            return None
        if "max_tokens" in body and _names("max_completion_tokens", error.said):
            self._limit = "max_completion_tokens"
            return Remark("")
        name = next((name for name in _OPTIONAL if name in body and _names(name, error.said)), None)
        if name is None:
            return None
        self._left_out |= {name, _TOGETHER.get(name, name)}
        if name == "stream_options":
            return Remark("")
        return Remark(f"{self.client.shown} refuses {name}: it is left out", error.message)

    def _explained(self, error: ServerError) -> EngineError:
        if error.status == 404:
            hint = f"is there a model {self.model.id!r}? A URL ends where /chat/completions would follow, often in /v1"
            return EngineError("server", error.message, hint)
        if error.status in (400, 413) and _LONG_MESSAGE.search(error.message):
            return EngineError("context", error.message, "shorten the message, or start a new chat")
        return error

    def _heard(self, event: Any) -> Iterator[Heard]:
        if not isinstance(event, dict):
            raise self._otherwise("an event is not a JSON object")
        error, listed = event.get("error"), event.get("choices")
        if error or event.get("object") == "error":
            raise self._failed(error or event.get("message"))
        choices = listed if isinstance(listed, list) else []
        for choice in islice((one for one in choices if read_part(one, "index") in (None, 0)), 1):
            yield from _said(choice)
            reason = read_phrase(read_part(choice, "finish_reason"))
            if reason == "error":
                raise self._failed("")
            if reason:
                stops = (read_text(read_part(choice, name)) for name in ("stop_reason", "matched_stop"))
                yield ChatEnd(reason, next(filter(None, stops), ""))
        if event.get("usage") or event.get("timings"):
            yield _usage(event.get("usage"), event.get("timings"))

    def _otherwise(self, how: str) -> EngineError:
        return EngineError(
            "server",
            f"{self.client.shown} does not answer as a chat API does: {how}",
            "is the path of the URL right? Many end in /v1",
        )

    def _failed(self, error: Any) -> EngineError:
        message = error.get("message", "") if isinstance(error, dict) else error
        told = one_line(self.client.hidden(read_text(str(message))), 4 * _SHOWN)
        return EngineError(
            "server",
            f"{self.client.shown} gave up in mid-reply" + (f": {told}" if told else ""),
            _KEPT,
        )

    def _listed(self) -> list[ServedEntry]:
        """Its models; none where it does not list them, and one was named."""
        try:
            return read_models(self.client.get("/v1/models", _SMALL, stoppable=True))
        except BadAnswer:
            return []
        except ServerError as error:
            if not self._wanted or error.status not in UNLISTED:
                raise
            return []

    def _unchosen(self, ids: list[str]) -> EngineError:
        shown = self.client.shown
        if not ids:
            return EngineError("model", f"{shown} does not say which models it has", "name one with model = …")
        return EngineError("model", f"{shown} has {len(ids)} models: choose one", f"set model = …; it has {_some(ids)}")


def _some(ids: list[str]) -> str:
    return ", ".join(one_line(one, _SHOWN) for one in ids[:_NAMED]) + (", …" if len(ids) > _NAMED else "")


def events(lines: Iterable[bytes]) -> Iterator[bytes]:
    """What the events of a stream say, one after the other. A whole answer of JSON, as from a server that does not stream, is
    one event; an event that was cut off is none."""
    whole: list[bytes] = []
    for line in lines:
        bare = line.strip()
        if bare.startswith(b"data:"):
            said = bare[len(b"data:") :].lstrip()
            if line.endswith(b"\n") or said.endswith((b"}", b"]")):
                yield said
        elif whole or bare.startswith(b"{"):
            whole.append(bare)
    if whole:
        yield b" ".join(whole)


def _split_half(text: str) -> tuple[str, str]:
    """Cut off the half of a character at the end: its other half may come with the next event."""
    half = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
    return read_text(text.removesuffix(half)), half


def _said(choice: Any) -> Iterator[ChatPiece]:
    delta = read_part(choice, "delta") or read_part(choice, "message")
    content = read_part(delta, "content")
    answer, apart = _join_texts(content), content if isinstance(content, list) else []
    thought = "".join(_join_texts(read_part(part, "thinking")) for part in apart)
    thought = thought or next(filter(None, (_join_texts(read_part(delta, name)) for name in _THOUGHTS)), "")
    told = _told(read_part(choice, "logprobs"))
    if thought:
        yield ChatPiece(thought, thought=True, told=told if not answer else ())
    if answer or (told and not thought):
        yield ChatPiece(answer, told=told if not thought else ())


def _join_texts(content: Any) -> str:
    """Join the texts of a content, which is one or a list of parts."""
    texts = (read_part(part, "text") for part in content) if isinstance(content, list) else (content,)
    return "".join(text for text in texts if isinstance(text, str))


def _told(logprobs: Any) -> tuple[ListedText, ...]:
    """The tokens of an event; none where one cannot be read."""
    listed = read_part(logprobs, "content")
    told: list[ListedText] = []
    for value in listed if isinstance(listed, list) else ():
        if (one := _read_token(value)) is None:
            return ()
        drawn = read_drawn_logprob(one.logprob)
        top = read_part(value, "top_logprobs")
        candidates = map(_read_token, top[:_MOST_CANDIDATES] if isinstance(top, list) else [])
        told.append(ListedText(one.token, one.data, drawn, [*filter(None, candidates)]))
    return tuple(told)


def _read_token(value: Any) -> ListedText | None:
    """Read a token, None where it is none."""
    token = read_part(value, "token")
    if not isinstance(token, str) or len(token) > _LONGEST_TOKEN:
        return None
    token, numbers, data = read_text(token), read_part(value, "bytes"), b""
    with suppress(ValueError, TypeError):
        data = bytes(numbers) if isinstance(numbers, list) and len(numbers) <= _LONGEST_TOKEN else b""
    return ListedText(token, data or token.encode(), read_logprob(read_part(value, "logprob")))


def _usage(usage: Any, timings: Any) -> ChatUsage:
    return ChatUsage(
        read_count(read_part(usage, "prompt_tokens")),
        read_count(read_part(usage, "completion_tokens")),
        read_count(read_part(read_part(usage, "prompt_tokens_details"), "cached_tokens")),
        read_amount(read_part(timings, "prompt_ms")),
        read_amount(read_part(timings, "predicted_per_second")),
    )


def _names(name: str, said: str) -> bool:
    """Whether an error is about a parameter: it stands in quotes, or behind a colon."""
    return re.search(rf"['\"`]{name}['\"`]|[:.] ?{name}\b", said) is not None
