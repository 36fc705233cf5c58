"""Records what a real vLLM answers, for `replayed_vllm`: a proxy between termchat and the server keeps every piece that comes.

    python -m tests.remote.record_vllm URL NAME... [--key KEY] [--kill PID]

writes `vllm_answers/NAME.json` for each NAME of `SCENES`. `vllm_answers/README.md` says how the server was started.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import date
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice
from time import perf_counter
from typing import Any
from urllib.parse import urlsplit

from termchat.decoding.constraint import Constraint, make_choice
from termchat.decoding.samplers import SamplerSettings
from termchat.engine.address import EngineAddress
from termchat.engine.port import Message, ModelSpec
from termchat.engine.remote.http_client import HttpClient, ServerError
from termchat.engine.remote.streamed_session import StreamedSession
from termchat.engine.remote.streams import Segment, Told
from termchat.engine.remote.vllm_stream import VllmStream
from tests.remote.replayed_vllm import ANSWERS, turned

_BIG = 20_000
"""Bytes of a text that is taken apart, or of its tokens, that are not recorded."""


class Recorder(ThreadingHTTPServer):
    """Passes requests on to a server, with `more` in the body of completions and the `key` where there is none, and keeps what
    came back."""

    daemon_threads = True

    def __init__(self, url: str, key: str = "") -> None:
        super().__init__(("127.0.0.1", 0), _Passer)
        self.key = key
        parts = urlsplit(url)
        self.there = (parts.hostname or "", parts.port or 80)
        self.exchanges: list[dict[str, Any]] = []
        self.more: dict[str, Any] = {}
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is no error."""


class _Passer(BaseHTTPRequestHandler):
    server: Recorder
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._pass(b"")

    def do_POST(self) -> None:
        self._pass(self.rfile.read(int(self.headers["Content-Length"])))

    def _pass(self, body: bytes) -> None:
        server = self.server
        asked = json.loads(body or b"{}")
        more = server.more if asked.get("stream") else {}
        body = json.dumps(asked | more).encode() if more else body
        head = [f"{self.command} {self.path} HTTP/1.1", f"Host: {server.there[0]}:{server.there[1]}"]
        head += [f"{name}: {value}" for name, value in self.headers.items() if name not in ("Host", "Content-Length")]
        if server.key and "Authorization" not in self.headers:
            head.append(f"Authorization: Bearer {server.key}")
        head += [f"Content-Length: {len(body)}", "", ""]
        pieces: list[tuple[int, str]] = []
        exchange = {"path": self.path, "asked": asked, "added": more, "pieces": pieces, "ended": False}
        if len(body) <= _BIG or self.path == "/v1/completions":
            server.exchanges.append(exchange)
        with socket.create_connection(server.there) as upstream:
            upstream.sendall("\r\n".join(head).encode() + body)
            begun, whole = perf_counter(), b""
            while not _is_complete(whole):
                piece = _received(upstream)
                if not piece:
                    exchange["ended"] = True
                    break
                whole += piece
                pieces.append((round((perf_counter() - begun) * 1e3), piece.decode("latin-1")))
                try:
                    self.connection.sendall(piece)
                except OSError:
                    break
        if exchange["ended"]:
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True


def _received(upstream: socket.socket) -> bytes:
    try:
        return upstream.recv(1 << 16)
    except ConnectionResetError:
        return b""


def _is_complete(whole: bytes) -> bool:
    head, found, body = whole.partition(b"\r\n\r\n")
    if not found:
        return False
    headers = {line.partition(b":")[0].lower(): line.partition(b":")[2].strip() for line in head.split(b"\r\n")[1:]}
    length = headers.get(b"content-length")
    return len(body) >= int(length) if length is not None else body.endswith(b"0\r\n\r\n")


class Scene:
    """What happens in a recording: termchat behind the recorder, and what is asked besides."""

    def __init__(self, recorder: Recorder, key: str, pid: int) -> None:
        self.recorder, self.pid = recorder, pid
        self.address = EngineAddress(url=recorder.url, kind="vllm")
        self.client = HttpClient(self.address, key)
        self.stream = VllmStream(self.client, ModelSpec("", "", engine=self.address))

    def prompt(self, text: str) -> list[int]:
        return self.stream.prompt([Message("user", text)], None).ids

    def draw(
        self, ids: list[int], done: int = 0, *, limit: int = 12, seed: int = 7, most: int = 1000, **knobs: Any
    ) -> list[int]:
        """A segment, closed after `most` tokens."""
        segment = Segment(ids, done, SamplerSettings(**knobs), (), seed, limit, 20)
        found = self.stream.stream(segment)
        drawn = [one.id for one in islice((one for one in found if isinstance(one, Told)), most)]
        found.close()
        return drawn

    def ask(self, path: str, body: dict[str, Any], key: str | None = None) -> None:
        """What termchat itself does not ask so."""
        client = self.client if key is None else HttpClient(self.address, key)
        try:
            client.ask("POST", path, json.dumps(body).encode(), 1 << 23)
        except ServerError as error:
            print(path, error)

    def complete(self, **body: Any) -> None:
        self.ask("/v1/completions", {"model": self.stream.server.model.id, "prompt": [504, 2], "max_tokens": 4} | body)


CONSTRAINTS = (
    make_choice(["teal", "ochre"]), Constraint("regex", "[A-Z]{3}[0-9]{2}"),
    Constraint("gbnf", 'root ::= "a" ("b" | "c")+ "."'),
    Constraint("lark", 'start: "x" ("y" | "z")'),
    Constraint("json_schema", '{"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}'),
)  # fmt: skip
RUNS = (
    ("--temperature", "0", "--max-tokens", "24", "--seed", "7"),
    ("--temperature", "0.9", "--top-k", "30", "--max-tokens", "40", "--seed", "8", "--stop", "."),
)
STORY = "Tell me a very short story about a fox."


def _connect(scene: Scene) -> None:
    """What a session begins with; and texts taken apart, of which the replayed server has another way."""
    server = scene.stream.server
    for text in ("Hello <|im_end|> world", " naïve 😀\n\n\tx", "<|im_start|>user", "\ue000"):
        server.tokenize(text, strings=True)
    server.chat([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi <|im_end|> there"}])
    server.text_of([2, 504, 198, 185, 218, 504])


def _replies(scene: Scene) -> None:
    ids = scene.prompt(STORY)
    whole = scene.draw(ids, temperature=0.0, limit=24)
    scene.draw(ids, temperature=0.8, top_k=40, top_p=0.95, min_p=0.05, limit=24)
    scene.draw(ids, temperature=1.5, repeat_penalty=1.3, limit=16, logit_bias=(f"{whole[0]}=ban",))
    scene.draw(scene.prompt("Say only: hi"), temperature=0.0, limit=64)  # ends by itself


def _several(scene: Scene) -> None:
    """Four tokens a chunk, as servers send that speculate or were told to."""
    scene.recorder.more = {"stream_interval": 4}
    scene.draw(scene.prompt(STORY), temperature=0.0, limit=24)


def _changed(scene: Scene) -> None:
    """Closed in the middle, and gone on with from there with another temperature."""
    turned(StreamedSession(scene.stream, scene.client, lambda _: None), scene.prompt(STORY))


def _run(scene: Scene) -> None:
    for more in RUNS:
        asked = [sys.executable, "-m", "termchat", "run", "--engine", scene.recorder.url, "--json", *more, STORY]
        subprocess.run(asked, check=True, stdout=subprocess.DEVNULL)


def _questions(scene: Scene) -> None:
    ids = scene.prompt(STORY)
    scene.stream.listed(ids, 20, [])
    scene.stream.listed(ids, 5, [2, 40000, 504])


def _context(scene: Scene) -> None:
    scene.draw([504] * (scene.stream.capacity - 4), temperature=0.0, limit=24)
    scene.complete(prompt=[504] * (scene.stream.capacity + 1), stream=True)


def _stops(scene: Scene) -> None:
    asked = {"stream": True, "return_token_ids": True, "temperature": 0.0, "max_tokens": 24}
    scene.complete(**asked, stop=["year"])
    scene.complete(**asked, stop_token_ids=[29])
    scene.complete(**asked, structured_outputs={"choice": ["red", "green"]})
    scene.complete(**asked, structured_outputs={"regex": "[0-9]{4}"})


def _constrained(scene: Scene) -> None:
    ids = scene.prompt("Name a colour.")
    for constraint in CONSTRAINTS:
        found = scene.stream.stream(Segment(ids, 0, SamplerSettings(temperature=0.0), (), 7, 48, 20, constraint))
        list(found)


def _errors(scene: Scene) -> None:
    scene.ask("/v1/completions", {"model": "smol", "prompt": [504]}, key="wrong")
    scene.complete(model="another")
    scene.complete(prompt=[-1])
    scene.complete(prompt=[99_999_999])
    scene.complete(logprobs=1_000)
    scene.complete(temperature=9)
    scene.complete(seed=2**63)
    scene.complete(logprob_token_ids=list(range(200)), logprobs=200)


def _killed(scene: Scene) -> None:
    """The server is killed in mid-stream."""
    segment = Segment(scene.prompt(STORY), 0, SamplerSettings(temperature=0.0), (), 7, 200, 20)
    try:
        for count, _ in enumerate(scene.stream.stream(segment)):
            if count == 8:
                os.kill(scene.pid, signal.SIGKILL)
    except Exception as error:  # noqa: BLE001 - it is what was to be seen
        print(error)


def _drawn_from(scene: Scene) -> None:
    """The server tells something else than the model's log-probabilities."""
    scene.draw([504], temperature=0.8, limit=6)


SCENES: dict[str, Callable[[Scene], None]] = {
    "connect": _connect, "replies": _replies, "several": _several, "changed": _changed, "run": _run, "questions": _questions,
    "context": _context, "stops": _stops,
    "constrained": _constrained, "errors": _errors, "killed": _killed, "raw_logits": _drawn_from,
    "processed_logprobs": _drawn_from,
}  # fmt: skip
_WITH_BEGIN = ("connect", "raw_logits", "processed_logprobs")
"""Files that hold what a session begins with, too."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("names", nargs="+", choices=SCENES)
    parser.add_argument("--key", default="")
    parser.add_argument("--kill", type=int, default=0, help="the server's process, for killed")
    given = parser.parse_args()
    ANSWERS.mkdir(exist_ok=True)
    for name in given.names:
        recorder = Recorder(given.url, given.key)
        scene = Scene(recorder, given.key, given.kill)
        version = scene.stream.server.version()
        if name not in _WITH_BEGIN:
            recorder.exchanges.clear()
        SCENES[name](scene)
        recorder.shutdown()
        told = {"server": f"vLLM {version}", "recorded": str(date.today()), "exchanges": recorder.exchanges}
        lines = json.dumps(told, ensure_ascii=False, indent=None).replace('{"path"', '\n{"path"')
        (ANSWERS / f"{name}.json").write_text(lines + "\n", "utf-8")
        print(name, len(recorder.exchanges), "exchanges", len(lines), "bytes")


if __name__ == "__main__":
    main()
