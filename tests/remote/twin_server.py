"""A server that speaks as llama-server does and computes with this very llama.cpp, so that its numbers are the local engine's.

It can also do what no server should: `faults` are done, one a request, instead of what is asked. It may keep no connection, and
`muted` paths are answered when their event is set.
"""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
from collections import deque
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from time import sleep
from typing import Any, Literal

import numpy as np

from termchat.decoding.records import Shape
from termchat.engine.llama.model_session import ModelSession

Fault = Callable[["Handler"], bool]
"""Does something to a request; True where it is done with it."""

_ONE_AT_A_TIME = threading.Lock()
"""All twins compute with one context."""


class TwinServer(ThreadingHTTPServer):
    """Listens on a free port of the loopback, in threads, until it is closed. `asked` are the bodies of all requests."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(
        self, session: ModelSession, *, key: str = "", context: int = 2048, certificate: str = "", port: int = 0
    ) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.session, self.key, self.context = session, key, context
        self.name = "smol"
        self.n_params = 134515008
        self.faults: deque[Fault] = deque()
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.headers_seen: list[dict[str, str]] = []
        self.at_chunk: dict[int, Fault] = {}
        """What is done before a token of a stream is sent, by its number in the stream."""
        self.slots = 1
        """What it says of them; it has one, so of several each reads anew what it needs."""
        self.forgets = False
        self.keeps: Literal["connections", "none and says so", "none"] = "connections"
        self.muted: dict[str, threading.Event] = {}
        self.several: dict[str, str] = {}
        """Its models and what each is doing, where it chooses among them by name."""
        self.has_room = True
        """Whether it can load one of several."""
        self.connections: set[socket.socket] = set()
        if certificate:
            context_ = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context_.load_cert_chain(certificate)
            self.socket = context_.wrap_socket(self.socket, server_side=True)
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    @property
    def url(self) -> str:
        scheme = "https" if isinstance(self.socket, ssl.SSLSocket) else "http"
        return f"{scheme}://127.0.0.1:{self.server_address[1]}"

    def completions(self) -> list[dict[str, Any]]:
        return [body for path, body in self.asked if path == "/completion"]

    def hang_up(self) -> None:
        """Closes every connection that is kept, as a server does after a while."""
        for connection in list(self.connections):
            with contextlib.suppress(OSError):  # it is closed already
                connection.shutdown(socket.SHUT_RDWR)
        self.connections.clear()

    def close(self) -> None:
        self.shutdown()
        self.server_close()
        self.hang_up()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is none of its business."""


class Handler(BaseHTTPRequestHandler):
    server: TwinServer
    protocol_version = "HTTP/1.1"
    wbufsize = -1

    def log_message(self, *_: Any) -> None:
        pass

    def setup(self) -> None:
        super().setup()
        self.server.connections.add(self.connection)

    def do_GET(self) -> None:
        self._do({})

    def do_POST(self) -> None:
        self._do(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def _do(self, body: dict[str, Any]) -> None:
        server = self.server
        server.asked.append((self.path, body))
        server.headers_seen.append(dict(self.headers))
        self.body = body
        if self.path in server.muted:
            server.muted[self.path].wait(60)
        if server.faults and self.path == "/completion" and server.faults[0](self):
            return
        if server.key and self.path != "/health" and self.headers.get("Authorization") != f"Bearer {server.key}":
            self.refuse(401, "Invalid API Key", "authentication_error")
            return
        path, _, query = self.path.partition("?")
        named = body.get("model") or query.removeprefix("model=")
        chooses = (
            server.several and path not in ("/health", "/v1/models", "/models/load") and (path != "/props" or named)
        )
        if chooses and server.several.get(named) != "loaded":
            self.refuse(400, f"model '{named}' is not loaded", "invalid_request_error")
            return
        if self.path == "/completion" and body.get("stream"):
            self._stream(body)
            return
        with _ONE_AT_A_TIME:
            answers = {
                "/models/load": self._load,
                "/health": self._health, "/props": self._props, "/v1/models": self._models, "/tokenize": self._tokenize,
                "/detokenize": self._detokenize, "/completion": self._completion,
            }  # fmt: skip
            answer = answers.get(path)
            told = answer(body) if answer is not None else None
        if answer is None:
            self.refuse(404, "File Not Found", "not_found_error")
        elif told is not None:
            self.tell(told)

    def tell(self, value: Any, status: int = 200) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        if self.server.keeps == "none and says so":
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(data)
        self.wfile.flush()
        self.close_connection |= self.server.keeps != "connections"

    def refuse(self, status: int, message: str, kind: str = "server_error", **more: Any) -> None:
        self.tell({"error": {"code": status, "message": message, "type": kind, **more}}, status)

    def _health(self, _body: dict[str, Any]) -> Any:
        return {"status": "ok"}

    def _load(self, body: dict[str, Any]) -> Any:
        self.server.several[body["model"]] = "loading"
        return {"success": True}

    def _props(self, _body: dict[str, Any]) -> Any:
        if self.server.several and "?" not in self.path:
            return {"role": "router", "default_generation_settings": {"params": None, "n_ctx": 0}, "build_info": "twin"}
        model = self.server.session.model
        return {
            "total_slots": self.server.slots,
            "default_generation_settings": {"n_ctx": self.server.context},
            "chat_template": model.template,
            "bos_token": model.name(model.bos),
            "eos_token": model.name(model.eos),
            "build_info": "twin",
        }

    def _models(self, _body: dict[str, Any]) -> Any:
        meta = {
            "n_vocab": self.server.session.model.n_vocab,
            "n_params": self.server.n_params,
            "size": 1,
            "ftype": "Q4_1",
        }
        several, listed = self.server.several, []
        for name, state in several.items():
            status = {"value": "unloaded" if state == "failed" else state} | (
                {"failed": True} if state == "failed" else {}
            )
            loaded = {"meta": meta} if state == "loaded" else {}
            listed.append({"id": name, "aliases": [], "owned_by": "llamacpp", "status": status} | loaded)
            if state == "loading":  # which it is for one look
                several[name] = "loaded" if self.server.has_room else "failed"
        one = {"id": self.server.name, "aliases": [], "owned_by": "llamacpp", "meta": meta}
        return {"data": listed or [one]}

    def _tokenize(self, body: dict[str, Any]) -> Any:
        special = body.get("parse_special", True)
        model = self.server.session.model
        return {"tokens": model.tokenize(body["content"], special=special, begin=body.get("add_special", False))}

    def _detokenize(self, body: dict[str, Any]) -> Any:
        return {"content": "".join(map(self.server.session.model.name, body["tokens"]))}

    def _completion(self, body: dict[str, Any]) -> Any:
        prompt = body["prompt"]
        several = prompt if isinstance(prompt[0], list) else [prompt]
        answers = []
        for ids in several:
            if (answer := self._completed(body, ids)) is None:
                return None
            answers.append(answer)
        return answers if len(answers) > 1 else answers[0]

    def _completed(self, body: dict[str, Any], ids: list[int]) -> Any:
        server = self.server
        cache, model = server.session.cache, server.session.model
        if len(ids) >= server.context:
            self.refuse(400, "too long", "exceed_context_size_error", n_prompt_tokens=len(ids), n_ctx=server.context)
            return None
        if not all(0 <= i < model.n_vocab for i in ids):
            self.refuse(400, "Prompt contains invalid tokens", "invalid_request_error")
            return None
        if server.forgets:
            cache.rewind_to(0)
        kept = cache.rewind_to(cache.count_common(ids))
        at = kept
        while at < len(ids):
            cache.read(ids, Shape(min(len(ids) - at, cache.batch_size)))
            at = len(cache.ids)
        told: dict[str, Any] = {
            "model": body["model"] if server.several else server.name,
            "timings": {"cache_n": kept, "prompt_n": len(ids) - kept},
            "generation_settings/logit_bias": [{"bias": None, "token": i} for i in model.end_ids],
        }  # fmt: skip
        if count := body.get("n_probs", 0):
            told["completion_probabilities"] = [self._probabilities(cache.read_logits().astype(np.float64), count)]
        if body.get("return_tokens"):
            (step,) = told["completion_probabilities"]
            told |= {"tokens": [step["id"]], "stop": True, "stop_type": "limit", "tokens_predicted": 1}
        return {name: value for name, value in told.items() if name in body.get("response_fields", told)}

    def _stream(self, body: dict[str, Any]) -> None:
        """The likeliest token, again and again, after a chunk of progress that names a token as if it were one."""
        server, ids = self.server, list(body["prompt"])
        if len(ids) >= server.context:
            self.refuse(400, "too long", "exceed_context_size_error", n_prompt_tokens=len(ids), n_ctx=server.context)
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        why, count = "limit", 0
        with contextlib.suppress(OSError):
            while count < body["n_predict"] and why == "limit":
                with _ONE_AT_A_TIME:
                    drawn, kept = self._next(ids, body["n_probs"])
                if not count:
                    told = {"total": len(ids), "cache": kept, "processed": len(ids), "time_ms": 1}
                    self.event({"content": "", "tokens": [0], "tokens_predicted": 0, "prompt_progress": told})
                if count in server.at_chunk and server.at_chunk[count](self):
                    return
                count += 1
                ids.append(drawn["id"])
                text = server.session.model.piece(drawn["id"]).decode("utf-8", "replace")
                chunk = {"content": text, "tokens": ids[-1:], "stop": False, "tokens_predicted": count}
                self.event(chunk | {"completion_probabilities": [drawn]})
                why = "eos" if drawn["id"] in server.session.model.end_ids else why
            self.event({"stop": True, "stop_type": why, "tokens_predicted": count, "model": server.name})
            self.wfile.write(b"0\r\n\r\n")
            self.wfile.flush()
        self.close_connection = True

    def _next(self, ids: list[int], count: int) -> tuple[dict[str, Any], int]:
        """The step after ids, and how many of those were there."""
        cache = self.server.session.cache
        at = kept = cache.rewind_to(cache.count_common(ids))
        while at < len(ids):
            cache.read(ids, Shape(min(len(ids) - at, cache.batch_size)))
            at = len(cache.ids)
        step = self._probabilities(cache.read_logits().astype(np.float64), count)
        return step | {"logprob": step["top_logprobs"][0]["logprob"]}, kept

    def event(self, value: Any) -> None:
        self.chunk(b"data: " + json.dumps(value).encode() + b"\n\n")

    def chunk(self, data: bytes) -> None:
        """A part of a stream."""
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def _probabilities(self, logits: Any, count: int) -> Any:
        model, body = self.server.session.model, self.body
        after = bool(body.get("post_sampling_probs"))
        if after:
            for i, bias in body["logit_bias"]:
                logits[i] += bias
            for i in set(body["prompt"][-body["repeat_last_n"] :]):
                logits[i] = logits[i] / body["repeat_penalty"] if logits[i] > 0 else logits[i] * body["repeat_penalty"]
        logits -= logits.max()
        logprobs = logits - np.log(np.exp(logits).sum())
        best = np.argsort(-logprobs, kind="stable")[:count].tolist()
        name, values = ("prob", np.exp(logprobs)) if after else ("logprob", logprobs)
        listed = [
            {"id": i, "token": "", "bytes": list(model.piece(i)), name: float(np.float32(values[i]))} for i in best
        ]
        if after:
            listed = [one for one in listed if one[name] > 0]
        return {"id": best[0], "top_probs" if after else "top_logprobs": listed}


# --- what can go wrong -----------------------------------------------------------------------------------------------


def after(count: int, fault: Fault) -> list[Fault]:
    """The fault, after so many requests that are answered as they should."""

    def nothing(handler: Handler) -> bool:
        handler.server.faults.popleft()
        return False

    return [nothing] * count + [fault]


def answers(status: int, message: str = "no", **headers: str) -> Fault:
    """An error from now on."""

    def fault(handler: Handler) -> bool:
        data = json.dumps({"error": {"message": message, "type": "some_error"}}).encode()
        handler.send_response(status)
        for name, value in {"Content-Length": str(len(data)), **headers}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(data)
        return True

    return fault


def hangs_up(handler: Handler) -> bool:
    """The connection is closed without a word."""
    handler.connection.shutdown(socket.SHUT_RDWR)
    handler.close_connection = True
    return True


def half(handler: Handler) -> bool:
    """An answer that ends in the middle."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"completion_prob')
    handler.wfile.flush()
    return hangs_up(handler)


def half_a_line(handler: Handler) -> bool:
    """The same without a length."""
    handler.send_response(200)
    handler.send_header("Connection", "close")
    handler.end_headers()
    handler.wfile.write(b'{"completion_prob')
    handler.wfile.flush()
    return hangs_up(handler)


def endless(handler: Handler) -> bool:
    """An answer of two gigabytes, told beforehand, and sent as far as anybody reads it."""
    return _without_end(handler, {"Content-Length": str(2 << 30)})


def endless_untold(handler: Handler) -> bool:
    """The same without a length."""
    return _without_end(handler, {"Connection": "close"})


def many_lines(handler: Handler) -> bool:
    """The same in short lines."""
    return _without_end(handler, {"Connection": "close"}, b"x\n")


def many_events(handler: Handler) -> bool:
    """The same in events that say nothing."""
    return _without_end(handler, {"Connection": "close"}, b"data: {}\n\n")


def _without_end(handler: Handler, headers: dict[str, str], part: bytes = b" ") -> bool:
    handler.send_response(200)
    for name, value in headers.items():
        handler.send_header(name, value)
    handler.end_headers()
    try:
        for _ in range(2 << 10):
            handler.wfile.write(part * ((1 << 20) // len(part)))
    except OSError:
        pass
    handler.close_connection = True
    return True


def drips(handler: Handler) -> bool:
    """A byte ten times a second, of an answer that is told to be long."""
    handler.send_response(200)
    handler.send_header("Content-Length", "100000")
    handler.end_headers()
    return _drop_by_drop(handler, b" ")


def drips_chunks(handler: Handler) -> bool:
    """The same in pieces, of which any number may come."""
    handler.send_response(200)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    return _drop_by_drop(handler, b"1\r\n \r\n")


def drips_the_head(handler: Handler) -> bool:
    """An answer that does not come as far as its body."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX: ")
    return _drop_by_drop(handler, b"x")


def drips_an_error(handler: Handler) -> bool:
    """An error that takes its time to say which."""
    handler.send_response(500)
    handler.send_header("Content-Length", "100000")
    handler.end_headers()
    return _drop_by_drop(handler, b" ")


def drips_a_size(handler: Handler) -> bool:
    """A piece that does not come as far as its size."""
    handler.send_response(200)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    return _drop_by_drop(handler, b"0")


def puts_off(handler: Handler) -> bool:
    """Again and again it only says that it will answer."""
    return _drop_by_drop(handler, b"HTTP/1.1 100 Continue\r\n\r\n")


def puts_off_fast(handler: Handler) -> bool:
    """The same as fast as it is read."""
    return _drop_by_drop(handler, b"HTTP/1.1 100 Continue\r\n\r\n" * 4000, 0.0)


FOR_EVER: dict[str, Fault] = {
    "an endless line": endless_untold, "many lines": many_lines, "many events": many_events, "drips": drips,
    "drips chunks": drips_chunks, "drips its head": drips_the_head, "drips an error": drips_an_error,
    "drips a size": drips_a_size, "puts off": puts_off,
}  # fmt: skip
"""Ways to answer for ever where a stream is asked for."""
WITHOUT_END = r"without end|too slowly|has not answered"
"""What is told of that."""


def _drop_by_drop(handler: Handler, drop: bytes, each: float = 0.1) -> bool:
    with contextlib.suppress(OSError):
        while True:
            handler.wfile.write(drop)
            handler.wfile.flush()
            sleep(each)
    handler.close_connection = True
    return True


def nonsense(handler: Handler) -> bool:
    """JSON of somebody else."""
    handler.tell({"choices": [{"text": "hello"}]})
    return True


class Silence(threading.Event):
    """Releases a server that says nothing; `begins` is called as soon as it has been asked and is silent."""

    def __init__(self, begins: Callable[[], object]) -> None:
        super().__init__()
        self._begins = begins

    def wait(self, timeout: float | None = None) -> bool:
        self._begins()
        return super().wait(timeout)


def silent(release: threading.Event) -> Fault:
    """Nothing, until it is released."""

    def fault(handler: Handler) -> bool:
        release.wait(60)
        return hangs_up(handler)

    return fault
