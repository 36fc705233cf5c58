"""One reply of a chat API: its text as it comes, as records. What a server does not tell is absent from them."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from time import perf_counter
from typing import NamedTuple

import msgspec

import termchat
from termchat.decoding.conditions import ConditionError, Length, Stop, TextGate, format_condition, is_of_text
from termchat.decoding.loops import sign_of
from termchat.decoding.records import (
    ABSENT,
    FORMAT,
    UNKNOWN,
    Candidate,
    Finished,
    ModelIdentity,
    Prefill,
    Reason,
    Record,
    SettingsRecord,
    Start,
    Token,
)
from termchat.decoding.rules import Rules
from termchat.decoding.stages import without
from termchat.decoding.thinking import Phase, PhaseParser, ThinkingTags
from termchat.engine.abilities import TEXT_ONLY
from termchat.engine.llama.cells import Aborted
from termchat.engine.llama.reply import build_finished
from termchat.engine.llama.scheduler import Poll
from termchat.engine.port import Cancel, EngineError, FirstToken, Noted, Remark, ReplyRequest
from termchat.engine.remote.openai_server import (
    ChatEnd,
    ChatPiece,
    ChatRequest,
    ChatUsage,
    Heard,
    ListedText,
    OpenAIServer,
)

Said = Record | FirstToken | Noted
Ending = tuple[Reason, str] | None
_MAYBE_STOPPED = "or at a stop sequence: the server does not say which"
_PARTS = frozenset(bytes([byte]) for byte in range(0x80, 0xC0))
"""The bytes of UTF-8 that begin no character."""
_NO_TEXT = "\ufffd".encode()
_MOST_WAITING = 64
"""Tokens without a text that wait for one."""
_PER_TOKEN = 8
"""Characters that no reply has in each of its tokens on average."""
_MOST = 1 << 18
"""Tokens of a reply where no limit is set."""
_END = "stop"
"""What the API says where the model ended its reply, and where a stop sequence did."""


class _Piece(NamedTuple):
    """What one record is about: some text, of which phase, and what the server tells of it if it is one token."""

    data: bytes
    phase: Phase | None
    told: ListedText | None = None


class TextReply:
    """Asks for a reply and writes its records. `tags` are those of thoughts in its text.

    Raises:
        EngineError: a condition cannot be used.
    """

    def __init__(
        self,
        request: ReplyRequest,
        candidates: int,
        server: OpenAIServer,
        model: ModelIdentity,
        tags: ThinkingTags,
        poll: Poll,
        asked_at: float,
    ) -> None:
        self._request, self._server, self._model, self._tags = request, server, model, tags
        self._poll, self._asked_at = poll, asked_at
        self._conditions = tuple(condition for condition in request.conditions if is_of_text(condition))
        stops = tuple(one.text for one in self._conditions if isinstance(one, Stop))
        limit = min((one.tokens for one in self._conditions if isinstance(one, Length)), default=0)
        samplers = without(request.samplers, TEXT_ONLY.lacks)
        self._asked = ChatRequest(request.messages, samplers, stops, limit, request.seed, candidates)
        self._gate, self._thoughts = TextGate(stops), PhaseParser(tags)
        try:
            self._rules = Rules(self._conditions)
        except ConditionError as error:
            raise EngineError("condition", error.message, "correct the condition") from None
        self._step = 0
        self._length = 0.0
        """Tokens that the reply has at least: those that are told, and characters of which none has so many."""
        self._came_at: list[float] = []
        self._waiting = ChatPiece("")
        self._apart = False
        """Whether the server keeps the thoughts apart."""
        self._end: ChatEnd | None = None
        self._usage: ChatUsage | None = None

    def records(self) -> Iterator[Said]:
        """From `Start` to `Finished`.

        Raises:
            EngineError: the server refuses, or breaks off.
        """
        yield self._start()
        yield SettingsRecord(0, self._asked.samplers, self._conditions, self._request.origin)
        ending: Ending = None
        try:
            self._obey()
            for one in self._server.stream(self._asked):
                self._obey()
                ending = yield from self._take(one)
                if ending is not None:
                    break
            else:
                ending = yield from self._say(self._parted(self._waiting))
        except Aborted:
            ending = ("user", "" if self._came_at else "before the first text")
        finally:
            self._server.client.close()
        usage = self._usage
        if usage is not None and usage.prompt is not None:
            reused = UNKNOWN if usage.reused is None else usage.reused
            yield Prefill(usage.prompt, reused, [], ABSENT if usage.prompt_ms is None else usage.prompt_ms)
        yield self._finished(*(ending or self._ended()))

    def _obey(self) -> None:
        """Reads the commands: a reply can be ended, and nothing else."""
        if any(isinstance(command, Cancel) and command.reply is None for command in iter(self._poll, None)):
            raise Aborted

    def _start(self) -> Start:
        return Start(
            version=FORMAT,
            termchat=termchat.__version__,
            llama_cpp="",
            model=self._model,
            prompt_ids=[],
            raw=False,
            seed=self._request.seed,
            dice=0,
            threads=0,
            threads_batch=0,
            ubatch=0,
            kv_type="",
            exact=False,
            thinking=(self._tags.opening, self._tags.closing),
        )

    def _take(self, heard: Heard) -> Generator[Said, None, Ending]:
        """The records of what was heard; returns why the reply ends with it, or None."""
        if isinstance(heard, Remark):
            yield Noted(heard)
        elif isinstance(heard, ChatEnd):
            self._end = heard
        elif isinstance(heard, ChatUsage):
            self._usage = heard
        else:
            return (yield from self._say(self._pieces(heard)))
        return None

    def _pieces(self, chunk: ChatPiece) -> list[_Piece]:
        """A chunk as what can be told of it: its tokens one by one, as far as they make up its text, else all as one. Parts of
        a character wait for the others."""
        if not chunk.thought:
            waiting, self._waiting = self._waiting, ChatPiece("")
            chunk = ChatPiece(waiting.text + chunk.text, told=(*waiting.told, *chunk.told))
        elif not self._apart:
            self._apart, self._thoughts = True, PhaseParser(None)
        data = b"".join(one.data for one in chunk.told)
        if data and not chunk.text:
            self._waiting = chunk if len(chunk.told) <= _MOST_WAITING else ChatPiece("")
            return []
        if data and data == chunk.text.encode("utf-8", "replace") and not any(map(_is_rest, chunk.told)):
            return [_Piece(one.data, self._phase(one.data, chunk), one) for one in chunk.told]
        return self._parted(chunk)

    def _phase(self, data: bytes, chunk: ChatPiece) -> Phase | None:
        return "thinking" if chunk.thought else self._thoughts.push_piece(data)

    def _parted(self, chunk: ChatPiece) -> list[_Piece]:
        """A text in one piece, or in two where the thoughts end within it."""
        text, thoughts = chunk.text.encode("utf-8", "replace"), self._thoughts
        if chunk.thought:
            return [_Piece(text, "thinking")] if text else []
        begun: Phase | None = "answer"
        for at in range(len(text)):
            phase = thoughts.push_piece(text[at : at + 1])
            if phase == "answer":
                parts = [_Piece(text[:at], "thinking"), _Piece(text[at:], "answer")]
                return parts if begun == "thinking" else [_Piece(text, "answer")]
            begun = phase
        return [_Piece(text, begun)] if text else []

    def _say(self, pieces: list[_Piece]) -> Generator[Said, None, Ending]:
        """The records of pieces that came together; returns why the reply ends with one, or None."""
        now = perf_counter()
        limit = self._asked.limit or _MOST
        for piece in pieces:
            if self._length >= limit:
                return (
                    "length",
                    f"max_tokens {limit}: the server did not stop" if self._asked.limit else f"{limit:,} tokens",
                )
            self._length += 1 if piece.told is not None else len(piece.data.decode("utf-8", "ignore")) / _PER_TOKEN
            came = self._came_at
            seconds = now - came[0] if came else 0.0
            token = self._token(piece, int((now - came[-1]) * 1e6) if came else 0)
            if rule := self._rules.check_before(self._step, token, seconds, piece.data):
                return "rule", format_condition(rule)
            if not came:
                yield FirstToken((now - self._asked_at) * 1e3)
            came.append(now)
            self._step += 1
            yield msgspec.structs.replace(token, text=self._gate.push_bytes(piece.data))
            if self._gate.stopped_by is not None:
                return "stop", self._gate.stopped_by
            if met := self._rules.check_after(piece.data, sign_of(UNKNOWN, piece.data)):
                return "rule", format_condition(met)
        return None

    def _token(self, piece: _Piece, us: int) -> Token:
        told = piece.told
        listed = _candidates(told, self._asked.candidates) if told is not None else []
        return Token(
            step=self._step,
            position=UNKNOWN,
            id=UNKNOWN,
            bytes=piece.data,
            text="",
            logit=ABSENT,
            logprob=told.logprob if told is not None else ABSENT,
            rank=_rank(told),
            probability=ABSENT,
            entropy=ABSENT,
            p_end=ABSENT,
            settings=0,
            forced=False,
            stages=[],
            candidates=listed,
            state={},
            decode_us=us,
            sample_us=0,
            phase=piece.phase,
        )

    def _ended(self) -> tuple[Reason, str]:
        """Why the server ended the reply."""
        end, stops = self._end, self._asked.stops
        assert end is not None
        if end.stopped_by in stops and end.stopped_by:
            return "stop", end.stopped_by
        if end.reason == "length":
            return "length", f"max_tokens {self._asked.limit}" if self._asked.limit else "the server's own limit"
        if end.reason == _END:
            return "end", _MAYBE_STOPPED if stops else ""
        return "end", end.reason

    def _finished(self, reason: Reason, detail: str) -> Finished:
        came, usage = self._came_at, self._usage
        prefill_ms = ABSENT if usage is None or usage.prompt_ms is None else usage.prompt_ms
        finished = build_finished(reason, detail, self._gate, came, self._asked_at, prefill_ms, None)
        count = UNKNOWN if usage is None or usage.reply is None else usage.reply
        rate = usage.per_second if usage is not None else None
        if rate is None and count - len(came) in (0, 1):  # a chunk is a token, and the end may be one more
            rate = finished.tokens_per_second
        return msgspec.structs.replace(finished, tokens=count, tokens_per_second=rate)


def _is_rest(told: ListedText) -> bool:
    """Whether a token stood where a character was half said: some servers tell the whole character, and the numbers of its
    last part."""
    expected = told.top_logprobs[0].data if told.top_logprobs else b""
    return told.data[:1] not in _PARTS and (expected[:1] in _PARTS or expected == _NO_TEXT)


def _rank(told: ListedText | None) -> int:
    """The place of a token among those that the model thought likeliest; `UNKNOWN` where it is none of those that are told."""
    if told is None:
        return UNKNOWN
    return next((rank for rank, one in enumerate(told.top_logprobs) if one.data == told.data), UNKNOWN)


def _candidates(told: ListedText, count: int) -> list[Candidate]:
    """What is told of a step: so many of the likeliest tokens, and the one that was drawn."""
    listed: list[ListedText] = list(told.top_logprobs[:count])
    if listed and all(one.data != told.data for one in listed):
        listed.append(told)
    return [Candidate(UNKNOWN, one.token, ABSENT, one.logprob, ABSENT, ABSENT, None) for one in listed]
