"""A server that plays what a real vLLM once answered (`vllm_answers`), with its chunk borders or others.

A request must be one that was recorded: the same path, the same body. Texts are taken apart by the same tokenizer in llama.cpp,
since the vocabulary would be a megabyte of recordings; what was recorded of that is held against it in a test.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter, sleep
from typing import Any, Literal, NamedTuple

import jinja2

from termchat.decoding.conditions import Length
from termchat.decoding.records import Record, Token
from termchat.decoding.samplers import SamplerSettings
from termchat.engine.llama.model_session import ModelSession
from termchat.engine.port import Adjust, Steer
from termchat.engine.remote.streamed_session import StreamedSession
from tests.asking import ask_for, events_of
from tests.remote.twin_server import Handler, TwinServer, hangs_up

ANSWERS = Path(__file__).parent / "vllm_answers"
Cut = Literal["as it was", "bytes", "whole"]


class Exchange(NamedTuple):
    """A request, and the bytes that came back in their pieces, headers and all. `ended` says whether the server closed the
    connection behind them."""

    path: str
    asked: dict[str, Any]
    pieces: list[bytes]
    ended: bool


TURNED = SamplerSettings(temperature=1.2)
"""What the knobs of `turned` are turned to."""


def turned(session: StreamedSession, ids: list[int], at: int = 6) -> list[Record]:
    """The records of a reply whose temperature is turned up once it has `at` tokens."""
    told: list[Record] = []
    conditions = (Length(24),)
    command = ask_for(ids, SamplerSettings(temperature=0.0), conditions, 7)

    adjusts = [Adjust(TURNED, conditions)]

    def poll() -> Steer | None:
        tokens = sum(isinstance(record, Token) for record in told)
        return adjusts.pop() if adjusts and tokens == at else None

    told.extend(events_of(session, command, poll, perf_counter()))  # type: ignore[arg-type]
    return told


def recorded(name: str) -> list[Exchange]:
    """The exchanges of one file."""
    return [
        Exchange(one["path"], one["asked"], [piece.encode("latin-1") for _, piece in one["pieces"]], one["ended"])
        for one in json.loads((ANSWERS / f"{name}.json").read_text("utf-8"))["exchanges"]
    ]


class ReplayedVllm(TwinServer):
    """Plays the exchanges of these files, the longest one of a request that is there more than once (a client may have closed
    it); with `cut`, in other pieces. It is played to whoever has the `key`.

    With a `pause` it answers any prompt that begins with the recorded one: with the recorded tokens, from where the prompt ends
    in them, again and again, so many seconds apart; a question about it with the answer to one like it.
    """

    def __init__(
        self,
        session: ModelSession,
        *names: str,
        cut: Cut = "as it was",
        key: str = "",
        port: int = 0,
        pause: float = 0.0,
    ) -> None:
        self.cut: Cut = cut
        self.pause = pause
        known = [one for name in names for one in recorded(name)]
        known.sort(key=lambda one: sum(map(len, one.pieces)))
        self.exchanges = {_key(one.path, one.asked): one for one in known}
        self.missed: list[tuple[str, dict[str, Any]]] = []
        super().__init__(session, key=key, port=port)
        self.RequestHandlerClass = _Player

    def completions(self) -> list[dict[str, Any]]:
        return [body for path, body in self.asked if path == "/v1/completions"]


class _Player(Handler):
    server: ReplayedVllm

    def _do(self, body: dict[str, Any]) -> None:
        server = self.server
        server.asked.append((self.path, body))
        server.headers_seen.append(dict(self.headers))
        if self.path in server.muted:
            server.muted[self.path].wait(60)
        if server.faults and self.path == "/v1/completions" and server.faults[0](self):
            return
        if server.key and self.path.startswith("/v1") and self.headers.get("Authorization") != f"Bearer {server.key}":
            self.tell({"error": "Unauthorized"}, 401)
            return
        found = server.exchanges.get(_key(self.path, body))
        if found is None and server.pause and self.path == "/v1/completions":
            found = next((one for one in server.exchanges.values() if one.asked.keys() == body.keys()), None)
        if server.pause and body.get("stream"):
            self._stream_again(body)
        elif found is not None:
            self._play(found)
        elif self.path == "/tokenize":
            self.tell(self._apart(body))
        elif self.path == "/detokenize":
            self.tell({"prompt": self._together(body["tokens"])})
        else:
            server.missed.append((self.path, body))
            self.tell({"error": {"message": f"not recorded: {json.dumps(body)}", "type": "", "code": 500}}, 500)

    def _play(self, found: Exchange) -> None:
        for piece in _cut(found.pieces, self.server.cut):
            try:
                self.wfile.write(piece)
                self.wfile.flush()
            except OSError:  # nobody listens any more
                self.close_connection = True
                return
        if found.ended:
            hangs_up(self)

    def _stream_again(self, body: dict[str, Any]) -> None:
        streams = [one for one in self.server.exchanges.values() if one.asked.get("stream")]
        longest = max(streams, key=lambda one: sum(map(len, one.pieces)))
        lines = b"".join(longest.pieces).split(b"data: ")
        steps = [
            event for line in lines if line[:1] == b"{" and (event := json.loads(line.partition(b"\n")[0]))["choices"]
        ]
        prompt, count = body["prompt"], body["max_tokens"]
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        with contextlib.suppress(OSError):  # nobody listens any more
            for at in range(count):
                event = steps[(len(prompt) - len(longest.asked["prompt"]) + at) % len(steps)]
                event["choices"][0]["finish_reason"] = "length" if at == count - 1 else None
                self.event(event)
                sleep(self.server.pause)
            details = {"cached_tokens": 0}
            usage = {"prompt_tokens": len(prompt), "completion_tokens": count, "prompt_tokens_details": details}
            self.event({"choices": [], "usage": usage})
            self.chunk(b"data: [DONE]\n\n")
            self.wfile.write(b"0\r\n\r\n")
            self.wfile.flush()
        self.close_connection = True

    def _apart(self, body: dict[str, Any]) -> dict[str, Any]:
        model = self.server.session.model
        if "messages" in body:
            template = jinja2.Template(model.template or "", trim_blocks=True, lstrip_blocks=True)
            text = template.render(messages=body["messages"], add_generation_prompt=True)
        else:
            text = body["prompt"]
        ids = model.tokenize(text, special=True)
        return {"tokens": ids, "token_strs": [_spelled(model.spell_token(i)) for i in ids]}

    def _together(self, ids: list[int]) -> str:
        return b"".join(map(self.server.session.model.spell_token, ids)).decode("utf-8", "replace")


def _key(path: str, asked: dict[str, Any]) -> str:
    return path + json.dumps(asked, sort_keys=True)


def _cut(pieces: list[bytes], how: Cut) -> Iterator[bytes]:
    if how == "as it was":
        yield from pieces
    elif how == "whole":
        yield b"".join(pieces)
    else:
        whole = b"".join(pieces)
        yield from (whole[i : i + 1] for i in range(len(whole)))


def _alphabet() -> dict[int, str]:
    """GPT-2's characters for bytes, as its authors made them."""
    kept = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    characters = {byte: chr(byte) for byte in kept}
    for byte in range(256):
        if byte not in characters:
            characters[byte] = chr(256 + len(characters) - len(kept))
    return characters


_CHARACTERS = _alphabet()


def _spelled(piece: bytes) -> str:
    return "".join(_CHARACTERS[byte] for byte in piece)
