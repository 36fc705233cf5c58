"""A server of OpenAI's chat API that says what a test has it say, in the shapes of others, and does what no server should."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[["ChatHandler"], None]


class ChatTwin(ThreadingHTTPServer):
    """Listens on a free port of the loopback, in threads, until it is closed. `asked` are the bodies of all chats; each takes
    the next of the `answers`, the last of which stays. `models` is its list of models or what answers for it, False for none;
    `base` is the path before all others."""

    daemon_threads = True

    def __init__(self, *answers: Answer, models: Any = None, key: str = "", base: str = "/v1") -> None:
        super().__init__(("127.0.0.1", 0), ChatHandler)
        self.answers, self.key, self.base = deque(answers), key, base
        self.models = (
            {"object": "list", "data": [{"id": "some-model", "object": "model"}]} if models is None else models
        )
        self.asked: list[dict[str, Any]] = []
        self.left = threading.Event()
        """A client went away in the middle of an answer."""
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}{self.base}"

    def close(self) -> None:
        self.shutdown()
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is none of its business."""


Serve = Callable[..., ChatTwin]
"""Begins a server with its answers; what else is said goes to `ChatTwin`, too."""


class ChatHandler(BaseHTTPRequestHandler):
    server: ChatTwin
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        if not self._allowed():
            return
        models = self.server.models
        if self.path != f"{self.server.base}/models" or not models:
            self.tell({}, 404)
        elif callable(models):
            models(self)
        else:
            self.tell(models)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self._allowed():
            return
        if self.path != f"{self.server.base}/chat/completions":
            self.tell({"error": {"message": "not here"}}, 404)
            return
        self.server.asked.append(body)
        answers = self.server.answers
        answer = answers[0] if len(answers) == 1 else answers.popleft()
        try:
            answer(self)
        except OSError:
            self.server.left.set()
            self.close_connection = True

    def _allowed(self) -> bool:
        key = self.server.key
        if key and self.headers.get("Authorization") != f"Bearer {key}":
            self.tell({"error": {"message": "Incorrect API key provided", "type": "invalid_request_error"}}, 401)
            return False
        return True

    def tell(self, value: Any, status: int = 200, **headers: str) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        for name, content in {"Content-Type": "application/json", "Content-Length": str(len(data)), **headers}.items():
            self.send_header(name.replace("_", "-"), content)
        self.end_headers()
        self.wfile.write(data)

    def begin(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def send(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def hang_up(self) -> None:
        self.connection.shutdown(socket.SHUT_RDWR)
        self.close_connection = True


# --- what a chunk can look like --------------------------------------------------------------------------------------


def delta(text: str | None = None, *, finish: str | None = None, logprobs: Any = None, **more: Any) -> dict[str, Any]:
    """A chunk of OpenAI's; `more` stands in the delta."""
    said = {"content": text, **more} if text is not None or more else {}
    choice = {"index": 0, "delta": said, "logprobs": logprobs, "finish_reason": finish}
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "choices": [choice], "usage": None}


def listed(token: str, logprob: float, **top: float) -> dict[str, Any]:
    """A token of `logprobs.content`; of `top` the names are texts."""
    others = [{"token": text, "logprob": one, "bytes": list(text.encode())} for text, one in top.items()]
    return {"token": token, "logprob": logprob, "bytes": list(token.encode()), "top_logprobs": others}


def usage(prompt: int, reply: int, **more: Any) -> dict[str, Any]:
    return {"choices": [], "usage": {"prompt_tokens": prompt, "completion_tokens": reply, **more}}


def says(*events: dict[str, Any] | bytes, end: bytes = b"\n\n", done: bool = True) -> Answer:
    """A stream of these events, or of bytes as they are."""
    written = [one if isinstance(one, bytes) else b"data: " + json.dumps(one).encode() + end for one in events]
    return sends(*written, *([b"data: [DONE]" + end] if done else []))


def sends(*pieces: bytes) -> Answer:
    """A stream of bytes, in these chunks."""

    def answer(handler: ChatHandler) -> None:
        handler.begin()
        for piece in pieces:
            handler.send(piece)
        handler.wfile.write(b"0\r\n\r\n")

    return answer


def words(text: str, *, finish: str = "stop") -> Answer:
    """A whole reply, a word a chunk, as Ollama sends it: no log-probabilities, no counts."""
    chunks: Iterable[dict[str, Any]] = (delta(word, role="assistant") for word in text.replace(" ", "\0 ").split("\0"))
    return says(*chunks, delta("", finish=finish))


def refuses(status: int, message: str, **more: Any) -> Answer:
    return lambda handler: handler.tell({"error": {"message": message, **more}}, status)


def breaks_off(*pieces: bytes) -> Answer:
    """These chunks, and then the connection is closed."""

    def answer(handler: ChatHandler) -> None:
        handler.begin()
        for piece in pieces:
            handler.send(piece)
        handler.hang_up()

    return answer


def never_ends(event: dict[str, Any], pause: float = 0.01) -> Answer:
    """The same chunk again and again, until the client goes away."""

    def answer(handler: ChatHandler) -> None:
        handler.begin()
        while True:
            handler.send(b"data: " + json.dumps(event).encode() + b"\n\n")
            threading.Event().wait(pause)

    return answer


def silent(release: threading.Event) -> Answer:
    """Nothing, until it is released."""

    def answer(handler: ChatHandler) -> None:
        handler.begin()
        release.wait(60)
        with contextlib.suppress(OSError):
            handler.hang_up()

    return answer
