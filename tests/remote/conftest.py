"""A real llama.cpp server and its twin, and sessions on them."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter

import pytest

from termchat.decoding.records import Finished, Prefill, Record, Token
from termchat.engine.access_key import read_key
from termchat.engine.address import EngineAddress, address_of
from termchat.engine.llama.model_session import ModelSession
from termchat.engine.port import FirstToken, Generate, Message, ModelSpec, Noted, Paused, Prefilling, Render, Steer
from termchat.engine.remote.http_client import HttpClient
from termchat.engine.remote.llama_stream import LlamaStream
from termchat.engine.remote.server_session import ServerSession
from termchat.engine.remote.streamed_session import StreamedSession
from tests.asking import events_of
from tests.remote.chat_twin import Answer, ChatTwin, Serve
from tests.remote.twin_server import TwinServer

_SERVE = """
import sys, time, xllamacpp
params = xllamacpp.CommonParams()
params.model.path, params.model_alias = sys.argv[1], {"smollm2"}
params.hostnames = ["127.0.0.1"]
params.port, params.n_ctx, params.n_parallel = map(int, sys.argv[2:5])
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
server = xllamacpp.Server(params)
print("ready", flush=True)
sys.stdin.read()
"""


class RealServer:
    """llama.cpp's own server, in a child process, with one thread."""

    def __init__(self, model: Path, port: int = 0, context: int = 1024, slots: int = 1) -> None:
        self.port = port or free_port()
        self.process = subprocess.Popen(
            [sys.executable, "-c", _SERVE, str(model), str(self.port), str(context), str(slots)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"ready\n"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def on_server(url: str, **more: object) -> ServerSession:
    """A session with the model that is behind a URL."""
    address = EngineAddress(url=address_of(url).url, **more)  # type: ignore[arg-type]
    return ServerSession(HttpClient(address, read_key(address)), ModelSpec("", "", engine=address), lambda _: None)


def streamed_by(url: str, model: str = "") -> StreamedSession:
    """A session with the model behind a URL, which draws by itself."""
    address = EngineAddress(url=address_of(url).url, draws="server")
    client = HttpClient(address)
    return StreamedSession(LlamaStream(client, ModelSpec(model, "", engine=address)), client, lambda _: None)


Drawing = ModelSession | ServerSession | StreamedSession


def ids_of(session: Drawing, text: str) -> list[int]:
    """Prompt ids of one user message."""
    return session.render(Render([Message("user", text)])).ids


def drawn(session: Drawing, command: Generate, poll: Callable[[], Steer | None] = lambda: None) -> list[Record]:
    """The record stream of one reply."""
    made = events_of(session, command, poll, perf_counter())  # type: ignore[arg-type]
    return [record for record in made if not isinstance(record, (Prefilling, FirstToken, Paused, Noted))]


def tokens_of(stream: list[Record]) -> list[Token]:
    return [record for record in stream if isinstance(record, Token)]


def prefill_of(stream: list[Record]) -> Prefill:
    return next(record for record in stream if isinstance(record, Prefill))


def finished_of(stream: list[Record]) -> Finished:
    return next(record for record in stream if isinstance(record, Finished))


@pytest.fixture(scope="session")
def real(model_path: Path) -> Iterator[RealServer]:
    made = RealServer(model_path)
    yield made
    made.close()


@pytest.fixture(scope="session")
def served(real: RealServer) -> Iterator[ServerSession]:
    """A session on the real server."""
    made = on_server(real.url)
    yield made
    made.close()


@pytest.fixture(scope="session")
def streamed(real: RealServer) -> Iterator[StreamedSession]:
    """A session on the real server, which draws."""
    made = streamed_by(real.url)
    yield made
    made.close()


@pytest.fixture(scope="session")
def twin_session(made_model: Callable[[str], Path]) -> Iterator[ModelSession]:
    """What the twin computes with: what it says makes no sense, and it takes no time to say it."""
    made = ModelSession(ModelSpec(str(made_model("smol")), "smol", context=2048, threads=1), lambda _: None)
    yield made
    made.close()


@pytest.fixture
def twin(twin_session: ModelSession) -> Iterator[TwinServer]:
    made = TwinServer(twin_session)
    yield made
    made.close()


@pytest.fixture
def on_twin(twin: TwinServer) -> Iterator[ServerSession]:
    made = on_server(twin.url)
    yield made
    made.close()


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Begins servers of a chat API with their answers."""
    made: list[ChatTwin] = []

    def begin(*answers: Answer, **more: object) -> ChatTwin:
        made.append(ChatTwin(*answers, **more))  # type: ignore[arg-type]
        return made[-1]

    yield begin
    for one in made:
        one.close()
