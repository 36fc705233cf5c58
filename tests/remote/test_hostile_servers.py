"""Servers that say whatever they like: a reply comes as far as it makes sense, or an error says what does not."""

from __future__ import annotations

import gzip
import json
import math
import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from time import monotonic, perf_counter
from typing import Any

import pytest

from termchat.decoding.conditions import Condition, Length
from termchat.decoding.records import Finished, Token
from termchat.decoding.samplers import Tuning
from termchat.engine import wire
from termchat.engine.address import EngineAddress
from termchat.engine.port import EngineError, Event, Message, ModelSpec
from termchat.engine.remote import text_reply
from termchat.engine.remote.http_client import HttpClient
from termchat.engine.remote.llama_stream import LlamaStream
from termchat.engine.remote.server_session import ServerSession
from termchat.engine.remote.streamed_session import StreamedSession
from termchat.engine.remote.text_session import TextSession
from tests.asking import ask_for, events_of
from tests.remote.chat_twin import Answer, ChatHandler, Serve, breaks_off, delta, says, sends, usage, words

_LARGE = 10**30
_DEEP = b"[" * 100_000 + b"]" * 100_000
_END = delta(finish="stop")


def _heard(said: Iterator[Event]) -> tuple[list[Event], EngineError | None]:
    """What came, and the error that ended it. All of it can be sent on, and its numbers are probabilities."""
    heard: list[Event] = []
    error = None
    begun = monotonic()
    try:
        for one in said:
            wire.frame(1, one)
            heard.append(one)
            assert monotonic() - begun < 60
    except EngineError as failure:
        error = failure
        wire.ENCODER.encode((failure.message, failure.hint))
    for one in (one for one in heard if isinstance(one, Token)):
        assert math.isnan(one.logprob) or -700 <= one.logprob <= 0
        assert all(math.isnan(other.logprob) or other.logprob <= 0 for other in one.candidates)
        assert len(one.candidates) <= 21
    return heard, error


def _text(heard: list[Event]) -> str:
    return b"".join(one.bytes for one in heard if isinstance(one, Token)).decode()


# --- a chat API ------------------------------------------------------------------------------------------------------


def _chat(url: str, limit: int = 12) -> tuple[list[Event], EngineError | None]:
    """A reply of a server of a chat API."""

    def said() -> Iterator[Event]:
        address = EngineAddress(url=url, kind="openai")
        session = TextSession(HttpClient(address, silence=10), ModelSpec("", "", engine=address), lambda _: None)
        session.build_info()
        conditions: tuple[Condition, ...] = (Length(limit),) if limit else ()
        asked = ask_for([], Tuning().samplers(), conditions, seed=1, messages=[Message("user", "Hi")])
        try:
            yield from events_of(session, asked)
        finally:
            session.close()

    return _heard(said())


def _raw(*pieces: bytes, times: int = 1) -> Answer:
    """Bytes as they are, the last of them so many times."""

    def answer(handler: ChatHandler) -> None:
        for piece in (*pieces[:-1], *(pieces[-1] for _ in range(times))):
            handler.wfile.write(piece)
        handler.close_connection = True

    return answer


def _head(**headers: str) -> bytes:
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 200 OK\r\n{lines}Connection: close\r\n\r\n".encode()


def _event(value: Any) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def _on(event: Any) -> Answer:
    """The same event as often as anybody reads it."""
    return _raw(_head(), _event(event) * 20, times=100_000)


def _number(written: str) -> bytes:
    """An event in which the log-probability of a token is written so."""
    token = b'{"token":"Hi","logprob":%s,"bytes":[72,105]}' % written.encode()
    return b'data: {"choices":[{"delta":{"content":"Hi"},"logprobs":{"content":[%s]}}]}\n\n' % token


def _token(logprob: Any, top: Any = None, token: Any = "Hi", numbers: Any = None) -> dict[str, Any]:
    value = {"token": token, "logprob": logprob, "bytes": numbers, "top_logprobs": top}
    return delta("Hi", logprobs={"content": [value]})


def _part(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


_ENDS = _event(_END)
CHAT: dict[str, tuple[Answer, str]] = {
    "no limit is kept": (_on(delta("ab ")), "^(ab )+$"),
    "no limit is kept, with numbers": (_on(_token(-0.1)), "^(Hi){12}$"),
    "large texts without end": (_on(delta("x" * (1 << 18))), "^x+$"),
    "tokens without texts": (_on(delta("", logprobs={"content": [{"token": "a", "logprob": -0.1}]})), "!without end"),
    "large tokens without texts": (
        _on(delta("", logprobs={"content": [{"token": "a" * 9000, "logprob": -0.1}]})), "!without end",
    ),
    "a text of two million characters": (says(delta("word " * 400_000), _END), "^(word )+"),
    "counts beyond 64 bits": (says(delta("Hi"), _END, usage(_LARGE, 2**64)), "^Hi$"),
    "negative counts": (says(delta("Hi"), _END, usage(-1, -(2**70))), "^Hi$"),
    "a count of 6,000 digits": (
        says(delta("Hi"), b'data: {"choices":[],"usage":{"prompt_tokens":' + b"1" * 6000 + b"}}\n\n", _END), "^Hi$",
    ),
    "timings that are none": (says(delta("Hi"), _END | {"timings": {"prompt_ms": -1, "predicted_per_second": "x"}}), "^Hi$"),
    "above 0": (says(_token(5.0), _END), "^Hi$"),
    "much above 0": (says(_token(1e308), _END), "^Hi$"),
    "far below 0": (says(_token(-1e308), _END), "^Hi$"),
    "not in the list": (says(_token(-9999.0), _END), "^Hi$"),
    "no number": (says(_token("-1"), _END), "^Hi$"),
    "candidates above 0": (says(_token(-1.0, [{"token": "a", "logprob": 900.0}, 7, {"token": []}]), _END), "^Hi$"),
    "50,000 candidates": (says(_token(-1.0, [{"token": "x", "logprob": -1}] * 50_000), _END), "^Hi$"),
    "bytes that are none": (says(_token(-1.0, numbers=[300, -1, _LARGE]), _END), "^Hi$"),
    "a million bytes": (says(_token(-1.0, numbers=[97] * 1_000_000), _END), "^Hi$"),
    "a number of bytes": (says(_token(-1.0, numbers=10**12), _END), "^Hi$"),
    "a token of a million characters": (says(_token(-1.0, token="x" * 1_000_000), _END), "^Hi$"),
    **{f"written {written}": (says(_number(written), _END), "^Hi$") for written in ("NaN", "1e999", "-Infinity")},
    "control characters": (says(delta("\x1b]0;owned\x07\x1b[2J\u202eabc\x00"), _END), "^\x1b.*abc\x00$"),
    "an error with control characters": (says({"error": {"message": "\x1b[2Jbad " * 100}}), "!gave up in mid-reply: ␛"),
    "an error with half a character": (says(b'data: {"error":{"message":"\\ud800bad"}}\n\n'), "!gave up in mid-reply: .bad"),
    "an error of another type": (says({"error": [1, {"a": _LARGE}]}), "!gave up in mid-reply"),
    "an end of three million characters": (says(delta("Hi"), delta(finish="z" * 3_000_000)), "^Hi$"),
    "an end that is no text": (says(delta("Hi"), {"choices": [{"delta": {}, "finish_reason": 5}]}), "!broke off"),
    "a line without end": (_raw(_head(), b"data: ", b"x" * (1 << 20), times=100), "!without end"),
    "bytes that are no UTF-8": (
        says(b'data: {"choices":[{"delta":{"content":"a\xff\xfe\xc3b"}}]}\n\n', _END), "^a\ufffd+b$",
    ),
    "half a character": (says(b'data: {"choices":[{"delta":{"content":"a\\ud800b"}}]}\n\n', _END), "^a\ufffdb$"),
    "half a character in the end": (says(b'data: {"choices":[{"delta":{"content":"a\\ud83d"}}]}\n\n', _END), "^a\ufffd$"),
    "two halves": (
        says(
            b'data: {"choices":[{"delta":{"content":"a\\ud83d"}}]}\n\n',
            b'data: {"choices":[{"delta":{"content":"\\ude00b"}}]}\n\n', _END,
        ),
        "^a😀b$",
    ),
    "a token that is half a character": (
        says(_number("-1").replace(b'"Hi"', b'"\\ud83d"').replace(b"[72,105]", b"null"), _END), "^\ufffd$",
    ),
    "nested deeply": (says(b'data: {"choices":' + _DEEP + b"}\n\n"), "!does not answer as a chat API does"),
    "nested deeply where nobody looks": (says(b'data: {"x":' + _DEEP + b',"choices":[]}\n\n'), "!does not answer as"),
    "no JSON after the first": (says(delta("Hi"), b'data: {"choices":[{"del\n\n'), "!an event that is not JSON"),
    "a list": (says(b"data: [1]\n\n"), "!not a JSON object"),
    "texts": (says(b'data: {"choices":"x","usage":"y","timings":[]}\n\n', delta("Hi"), _END), "^Hi$"),
    "choices that are none": (says({"choices": [5, None, "x"]}, delta("Hi"), _END), "^Hi$"),
    "100,000 choices": (says({"choices": [{"delta": {"content": "x"}}] * 100_000}, _END), "^x$"),
    "a choice of another reply": (says({"choices": [{"index": 1, "delta": {"content": "x"}}]}, delta("Hi"), _END), "^Hi$"),
    "a tool": (says({"choices": [{"delta": {"tool_calls": [{"function": {"name": "x"}}], "content": None}}]}, _END), "^$"),
    "a content of parts": (
        says(
            delta([{"type": "thinking", "thinking": [_part("h")]}, {"thinking": [_part("m")]}]),  # type: ignore[arg-type]
            delta([_part("Hel"), _part("lo"), 5, {}]),  # type: ignore[arg-type]
            _END,
        ),
        "^hmHello$",
    ),
    "parts of parts": (says(delta([{"text": [_part("x")]}, {"thinking": {"a": []}}]), delta("Hi"), _END), "^Hi$"),  # type: ignore[arg-type]
    "nothing but an end": (says(_END), "^$"),
    "nothing": (_raw(_head()), "!it sends no events"),
    "HTML": (_raw(_head(Content_Type="text/html"), b"<html>\x1b]0;o\x07</html>"), "!it sends no events"),
    "a mark at its begin": (sends(b"\xef\xbb\xbf" + _event(delta("Hi")) + _ENDS), "^Hi$"),
    "lines that end in CR": (sends((_event(delta("Hi")) + _event(delta(" you")) + _ENDS).replace(b"\n", b"\r")), "^Hi you$"),
    "packed": (
        _raw(_head(Content_Encoding="gzip"), gzip.compress((_event(delta("Hi")) * 9 + _ENDS), mtime=0)), "^(Hi){9}$",
    ),
    "packed 50,000 times": (
        _raw(_head(Content_Encoding="gzip"), gzip.compress(b"0" * (64 << 20), mtime=0)), "!without end",
    ),
    "packed badly": (_raw(_head(Content_Encoding="gzip"), b"x" * 1000), "!broke off the connection"),
    "packed otherwise": (_raw(_head(Content_Encoding="br"), b"x" * 1000), "!answers with br compression"),
    "a large chunk": (_raw(_head(Transfer_Encoding="chunked"), b"F" * 17 + b"\r\n" + b"x" * 9999), "!."),
    "a negative chunk": (_raw(_head(Transfer_Encoding="chunked"), b"-5\r\nabc\r\n"), "!."),
    "a chunk of no number": (_raw(_head(Transfer_Encoding="chunked"), b"zz\r\nabc\r\n"), "!."),
    "a negative length": (_raw(_head(Content_Length="-5"), b"abc"), "!."),
    "a large length": (_raw(_head(Content_Length="9" * 20), b"data: x\n"), "!does not answer as a chat API does"),
    "5,000 headers": (_raw(b"HTTP/1.1 200 OK\r\n", b"X: y\r\n", times=5000), "!broke off the connection"),
    "a header without end": (_raw(b"HTTP/1.1 200 OK\r\nX: ", b"y" * (1 << 16), times=200), "!broke off the connection"),
    "it goes on and on": (_raw(b"HTTP/1.1 100 Continue\r\n\r\n" * 1000, times=10_000), "!without end|broke off"),
    "no HTTP": (_raw(b"\x1b]0;owned\x07 garbage\r\n\r\n"), "!broke off the connection: ␛"),
    "a status that is none": (_raw(b"HTTP/1.1 999 \x1b]0;o\x07\r\nContent-Length: 0\r\n\r\n"), "!answers 999"),
    "a refusal of all that is asked": (
        lambda handler: handler.tell({"error": " ".join(map(repr, handler.server.asked[-1]))}, 400), "!answers 400",
    ),
    "an error of accents": (lambda handler: handler.tell({"error": "e\u0301" * 100_000}, 500), "!answers 500"),
    "a refusal with numbers": (_raw(b'HTTP/1.1 500 no\r\n\r\n{"error":{"message":' + b"9" * 9000 + b"}}"), "!answers 500"),
    "comments without end": (_raw(_head(), b": ping\n" * 10_000, times=10_000), "!without end"),
    "empty lines without end": (_raw(_head(), b"\n" * 100_000, times=10_000), "!without end"),
    "blanks": (says(delta(" " * 300_000), _END), "^ +$"),
    "thoughts in small pieces": (says(*(delta(reasoning_content="hm ") for _ in range(200)), delta("ok"), _END), "^(hm )+"),
    "thoughts again and again": (says(*(delta("<think>x</think>") for _ in range(200)), _END), "^<think>x"),
}  # fmt: skip
"""What a server answers, and the reply's text; after "!" what the error says."""


def _as_expected(heard: list[Event], error: EngineError | None, expected: str) -> None:
    if expected.startswith("!"):
        assert error is not None
        assert error.kind in ("server", "model")
        assert re.search(expected[1:], error.message), error.message
        assert len(error.message) < 1000
    else:
        assert error is None, error.message
        assert isinstance(heard[-1], Finished)
        assert re.search(expected, _text(heard), re.DOTALL), _text(heard)[:100]
        assert len(heard[-1].detail) < 200


@pytest.mark.parametrize(("answer", "expected"), CHAT.values(), ids=CHAT)
def test_a_chat_api(serve: Serve, answer: Answer, expected: str) -> None:
    twin = serve(answer)
    _as_expected(*_chat(twin.url), expected)
    twin.answers.clear()
    twin.answers.append(words("Hello"))
    assert _text(_chat(twin.url)[0]) == "Hello"


MODELS: dict[str, tuple[Any, str]] = {
    "control characters": ({"data": [{"id": "\x1b]0;own\x07m\u202e"}]}, "^Hello$"),
    "contexts beyond 64 bits": ({"data": [{"id": "m", "context_length": _LARGE, "n_ctx": 2**64}]}, "^Hello$"),
    "fields of other types": (
        {"data": [{"id": "m", "aliases": None, "meta": 5, "status": "active", "root": 7, "owned_by": None}]}, "^Hello$",
    ),
    "one of several that is none": ({"data": [5, {"id": 7}, {"id": "x" * 1_000_000}, {"id": "m"}]}, "^Hello$"),
    "50,000": ({"data": [{"id": f"model-{i}"} for i in range(50_000)]}, "!has 5000 models: choose one"),
    "a name that is half a character": (_raw(_head(), b'{"data":[{"id":"\\ud800"}]}'), "^Hello$"),
    "a name that is no UTF-8": (_raw(_head(), b'{"data":[{"id":"\xff"}]}'), "^Hello$"),
    "nested deeply": (_raw(_head(), b'{"data":' + _DEEP + b"}"), "!does not say which models it has"),
    "no list": ({"data": {"id": "m"}}, "!does not say which models it has"),
    "packed 50,000 times": (
        _raw(_head(Content_Encoding="gzip"), gzip.compress(b"0" * (64 << 20), mtime=0)), "!answers with more than",
    ),
    "packed": (_raw(_head(Content_Encoding="gzip"), gzip.compress(b'{"data":[{"id":"m"}]}', mtime=0)), "^Hello$"),
    "without end": (_raw(_head(), b'{"data":[{"id":"', b"x" * (1 << 20), times=100), "!answers with more than"),
}  # fmt: skip


@pytest.mark.parametrize(("models", "expected"), MODELS.values(), ids=MODELS)
def test_a_list_of_models(serve: Serve, models: Any, expected: str) -> None:
    _as_expected(*_chat(serve(words("Hello"), models=models).url), expected)


def test_a_reply_without_a_limit_has_an_end_too(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_reply, "_MOST", 1000)
    heard, error = _chat(serve(_on(delta("abc "))).url, limit=0)
    _as_expected(heard, error, "^(abc )+$")
    assert isinstance(heard[-1], Finished)
    assert (heard[-1].reason, heard[-1].detail) == ("length", "1,000 tokens")


def test_a_limit_that_the_server_ignores_is_told(serve: Serve) -> None:
    heard, _ = _chat(serve(_on(delta("ab "))).url)
    assert isinstance(heard[-1], Finished)
    assert (heard[-1].reason, heard[-1].detail) == ("length", "max_tokens 12: the server did not stop")
    assert len(_text(heard)) < 120


def test_a_stream_that_is_cut_anywhere_is_no_riddle(serve: Serve) -> None:
    whole = b"".join(map(_event, (delta("Hel"), delta("lo"), _END)))
    for at in range(1, len(whole), 7):
        heard, error = _chat(serve(breaks_off(whole[:at])).url)
        assert "Hello".startswith(_text(heard))
        assert error is None or error.kind == "server"


# --- a llama-server --------------------------------------------------------------------------------------------------

_PIECES = [b"", b"", *(bytes([byte]) for byte in range(256))]
"""Two control tokens, and a token for each byte."""
_A = 2 + ord("a")


class _LlamaServer(ThreadingHTTPServer):
    """One that draws "a" again and again. `tricks` are what it says instead: by path, or "step", "event"."""

    daemon_threads = True

    def __init__(self, pieces: list[bytes], **tricks: Any) -> None:
        super().__init__(("127.0.0.1", 0), _LlamaHandler)
        self.pieces, self.tricks = pieces, tricks
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is none of its business."""


class _LlamaHandler(BaseHTTPRequestHandler):
    server: _LlamaServer
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        pass

    def tell(self, name: str, value: Any) -> None:
        """An answer, or what the trick of this name makes of it."""
        if (trick := self.server.tricks.get(name)) is not None:
            value = trick(value)
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self) -> None:
        size = len(self.server.pieces)
        meta = {
            "n_vocab": size,
            "n_ctx": 4096,
            "n_ctx_train": 4096,
            "n_params": 1000,
            "size": 1000,
            "ftype": "Q4_K - Medium",
        }
        answers = {
            "/health": {"status": "ok"},
            "/v1/models": {"data": [{"id": "m", "owned_by": "llamacpp", "meta": meta}]},
            "/props": {
                "default_generation_settings": {"n_ctx": 4096}, "chat_template": "{{ messages[0].content }}",
                "bos_token": "<s>", "eos_token": "</s>", "build_info": "b1", "total_slots": 1,
            },
        }  # fmt: skip
        self.tell(self.path, answers[self.path])

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        pieces = self.server.pieces
        if self.path == "/tokenize":
            self.tell(self.path, {"tokens": [byte + 2 for byte in asked["content"].encode()]})
        elif self.path == "/detokenize":
            names = [*(f"<{i}>".encode() for i in range(2)), *pieces[2:]]
            self.tell(self.path, {"content": b"".join(names[i] for i in asked["tokens"]).decode("utf-8", "replace")})
        elif asked.get("response_fields") == ["completion_probabilities"]:
            listed = [{"id": i, "bytes": list(piece)} for i, piece in enumerate(pieces)]
            self.tell("vocabulary", {"completion_probabilities": [{"top_logprobs": listed}]})
        elif asked.get("response_fields") == ["generation_settings/logit_bias"]:
            self.tell("ends", {"generation_settings/logit_bias": [{"token": 1, "bias": None}]})
        elif asked.get("stream"):
            self.stream()
        else:
            others = (i for i in range(len(pieces)) if i != _A)
            best = [_listed(_A, -0.01), *(_listed(i, -9.0 - i / 1000) for i in others)][: asked.get("n_probs", 1)]
            step = {
                "completion_probabilities": [{"id": _A, "top_logprobs": best, "top_probs": [{"id": _A, "prob": 0.9}]}],
                "timings": {"cache_n": 0, "prompt_n": 5}, "model": "m", "content": "a", "tokens": [_A], "stop": True,
                "stop_type": "limit", "tokens_predicted": 1,
            }  # fmt: skip
            self.tell("step", step)

    def stream(self) -> None:
        self.send_response(200)
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        trick = self.server.tricks.get("event", lambda value: value)
        for count in range(1, 1000):
            step = {"id": _A, "logprob": -0.1, "top_logprobs": [_listed(_A, -0.1), _listed(_A + 1, -5.0)]}
            told = trick(
                {"content": "a", "tokens": [_A], "tokens_predicted": count, "completion_probabilities": [step]}
            )
            self.wfile.write(told if isinstance(told, bytes) else _event(told))


def _listed(token: int, logprob: float | None) -> dict[str, Any]:
    return {
        "id": token,
        "token": "x",
        "bytes": list(_PIECES[token]) if token < len(_PIECES) else [],
        "logprob": logprob,
    }


def _set(path: str, value: Any) -> Callable[[Any], Any]:
    """A trick that sets something to another value: "data 0 meta n_ctx"."""

    def trick(answer: Any) -> Any:
        *way, last = (int(name) if name.isdecimal() else name for name in path.split())
        at = answer
        for name in way:
            at = at[name]
        at[last] = value
        return answer

    return trick


def _best(change: Callable[[list[dict[str, Any]]], Any]) -> Callable[[Any], Any]:
    """A trick that changes what is listed of a step."""

    def trick(answer: Any) -> Any:
        step = answer["completion_probabilities"][0]
        return _set("completion_probabilities 0 top_logprobs", change(step["top_logprobs"]))(answer)

    return trick


def _llama(draws: str, pieces: list[bytes], tricks: dict[str, Any]) -> tuple[list[Event], EngineError | None]:
    """A reply of 12 tokens of a llama-server."""
    server = _LlamaServer(pieces, **tricks)

    def said() -> Iterator[Event]:
        address = EngineAddress(url=f"http://127.0.0.1:{server.server_port}", draws=draws)  # type: ignore[arg-type]
        spec, client = ModelSpec("", "", engine=address), HttpClient(address, silence=10)
        session: ServerSession | StreamedSession = (
            ServerSession(client, spec, lambda _: None)
            if draws == "here"
            else StreamedSession(LlamaStream(client, spec), client, lambda _: None)
        )
        tuning = Tuning(max_tokens=12, temperature=0.0)
        ids = session.model.tokenize("Hi", special=False)
        try:
            wire.ENCODER.encode(session.build_info())
            yield from events_of(
                session, ask_for(ids, tuning.samplers(), tuning.conditions(), 1), lambda: None, perf_counter()
            )  # type: ignore[misc]
        finally:
            session.close()
            client.close()

    try:
        return _heard(said())
    finally:
        server.shutdown()
        server.server_close()


_AS = "^a{12}$"
_META = "data 0 meta "
LLAMA: dict[str, tuple[dict[str, Any], str]] = {
    "all in order": ({}, _AS),
    "sizes beyond 64 bits": (
        {"/v1/models": _set("data 0 meta", {"n_vocab": 258, "n_ctx": _LARGE, "n_params": _LARGE, "size": _LARGE})}, _AS,
    ),
    "negative sizes": ({"/v1/models": _set(_META + "n_params", -1)}, _AS),
    "a large vocabulary": ({"/v1/models": _set(_META + "n_vocab", _LARGE)}, "!how large the vocabulary of its model is"),
    "a long kind of file": ({"/v1/models": _set(_META + "ftype", "\x1b[2J\u202e" * 10_000)}, _AS),
    "an owner that is no UTF-8": ({"/v1/models": lambda told: json.dumps(told).encode().replace(b"llamacpp", b"\xff")}, _AS),
    "models nested deeply": ({"/v1/models": lambda _: b'{"x":' + _DEEP + b',"data":[]}'}, "!maximum recursion"),
    "a context beyond 64 bits": (
        {"/props": _set("default_generation_settings n_ctx", _LARGE)}, "!reports no context size",
    ),
    "slots beyond 64 bits": ({"/props": _set("total_slots", _LARGE)}, _AS),
    "a long version": ({"/props": _set("build_info", "\x1b[2J\u202e" * 100_000)}, _AS),
    "a version that is no UTF-8": ({"/props": lambda told: json.dumps(told).encode().replace(b"b1", b"\xff")}, _AS),
    "a token of the vocabulary beyond 64 bits": (
        {"vocabulary": _set("completion_probabilities 0 top_logprobs 5 id", _LARGE)}, "!does not tell its vocabulary",
    ),
    "a byte that is none": (
        {"vocabulary": _set("completion_probabilities 0 top_logprobs 5 bytes", [256])}, r"!Expected `int` <= 255.*bytes\[0\]",
    ),
    "a text of a token beyond 64 bits": ({"/tokenize": _set("tokens", [_LARGE])}, "!token 1000.* is not in its vocabulary"),
    "a text of a negative token": ({"/tokenize": _set("tokens", [-1])}, "!token -1 is not in its vocabulary"),
    "a text of three million tokens": ({"/tokenize": _set("tokens", [5] * 3_000_000)}, "!answers with more than"),
}  # fmt: skip
"""What it says instead, and the reply; see `CHAT`. So wherever tokens are drawn."""
HERE: dict[str, tuple[dict[str, Any], str]] = {
    "above 0": ({"step": _best(lambda best: [_listed(_A, 5.0), *best[1:]])}, "!candidates cannot be right"),
    "much above 0": ({"step": _best(lambda best: [_listed(_A, 1e308), *best[1:]])}, "!candidates cannot be right"),
    "rounding above 0": ({"step": _best(lambda best: [_listed(_A, 1e-4), *best[1:]])}, _AS),
    "null for all": ({"step": _best(lambda best: [one | {"logprob": None} for one in best])}, "!candidates cannot be right"),
    "null for some": ({"step": _best(lambda best: [*best[:5], *(one | {"logprob": None} for one in best[5:])])}, _AS),
    "far below 0": ({"step": _best(lambda best: [one | {"logprob": -1e308} for one in best])}, "!candidates cannot be right"),
    "certain all": ({"step": _best(lambda best: [one | {"logprob": 0.0} for one in best])}, "!candidates cannot be right"),
    "one token again and again": ({"step": _best(lambda best: best[:1] * len(best))}, "!candidates cannot be right"),
    "the last first": ({"step": _best(lambda best: best[::-1])}, _AS),
    "a token that it lacks": ({"step": _best(lambda best: [_listed(999, -0.1), *best[1:]])}, "!token 999 is not in its"),
    "a token beyond 64 bits": ({"step": _best(lambda best: [_listed(_LARGE, -0.1), *best[1:]])}, "!is not in its vocabulary"),
    "one candidate for whatever is asked": ({"step": _best(lambda best: best[:1])}, "!returns 1 of 200 candidates"),
    "none": ({"step": _best(lambda _: [])}, "!returns 0 of 200 candidates"),
    "counts beyond 64 bits": ({"step": _set("timings", {"cache_n": _LARGE, "prompt_n": _LARGE})}, _AS),
    "negative counts": ({"step": _set("timings", {"cache_n": -5, "prompt_n": -7})}, _AS),
    "counts that are none": ({"step": _set("timings", {"cache_n": "x", "prompt_n": []})}, _AS),
    "a step that is no UTF-8": ({"step": lambda told: json.dumps(told | {"x": "y"}).encode().replace(b'"y"', b'"\xff"')}, _AS),
    "another model": ({"step": _set("model", "\x1b[2J\u202eother" * 50)}, "!now has another model: ␛"),
}  # fmt: skip
THERE: dict[str, tuple[dict[str, Any], str]] = {
    "above 0": ({"event": _set("completion_probabilities 0 logprob", 5.0)}, _AS),
    "much above 0": ({"event": _set("completion_probabilities 0 logprob", 1e308)}, _AS),
    "NaN": ({"event": lambda told: _event(told).replace(b'"logprob": -0.1', b'"logprob": NaN')}, _AS),
    "candidates above 0": ({"event": _best(lambda best: [best[0], _listed(_A + 1, 900.0)])}, _AS),
    "progress beyond 64 bits": (
        {"event": lambda told: _event({"prompt_progress": {"total": _LARGE, "cache": _LARGE, "processed": 7}}) + _event(told)},
        _AS,
    ),
    "negative progress": (
        {"event": lambda told: _event({"prompt_progress": {"total": -1, "cache": -9, "processed": "x"}}) + _event(told)}, _AS,
    ),
    "progress without end": (
        {"event": lambda _: _event({"prompt_progress": {"total": 10, "cache": 0, "processed": 5}}) * 1000}, "!without end",
    ),
    "a number of tokens beyond 64 bits": ({"event": _set("tokens_predicted", _LARGE)}, r"!Expected `int`.*tokens_predicted"),
    "a negative number of tokens": ({"event": _set("tokens_predicted", -5)}, r"!Expected `int`.*tokens_predicted"),
    "a token that it lacks": ({"event": _set("completion_probabilities 0 id", 999)}, "!token 999 is not in its"),
    "a token beyond 64 bits": ({"event": _set("tokens", [_LARGE])}, "!is not in its vocabulary"),
    "an error": ({"event": lambda _: {"error": {"message": "\x1b[2J" * 500, "type": "x"}}}, "!ends the reply: ␛"),
    "an event that is no UTF-8": ({"event": lambda told: _event(told).replace(b'"a"', b'"\xff"')}, _AS),
}  # fmt: skip


@pytest.mark.parametrize(
    ("draws", "tricks", "expected"),
    [
        pytest.param(draws, tricks, expected, id=f"{draws}: {name}")
        for draws, table in (("here", LLAMA | HERE), ("server", LLAMA | THERE))
        for name, (tricks, expected) in table.items()
    ],
)
def test_a_llama_server(draws: str, tricks: dict[str, Any], expected: str) -> None:
    _as_expected(*_llama(draws, _PIECES, tricks), expected)


def test_tokens_that_were_not_told_are_not_guessed_for_ever() -> None:
    """Sixty tokens lack, of which there are more ways to be drawn than anybody can count."""
    parts = [b"\xa9\xc3" * count for count in range(1, 40)]

    def silent(told: Any) -> Any:
        text = b"\xc3" + b"\xa9\xc3" * 60 + b"\xa9"
        return told | {
            "content": text.decode(),
            "tokens": [2 + 0xA9],
            "tokens_predicted": 32,
            "completion_probabilities": [],
        }

    begun = monotonic()
    heard, error = _llama("server", [*_PIECES, *parts], {"event": silent})
    assert monotonic() - begun < 60
    _as_expected(heard, error, _AS)  # they are drawn again, one a request
