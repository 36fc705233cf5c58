"""Devices of other machines over llama.cpp's RPC: what is checked before anything is loaded, and what is told when one dies."""

from __future__ import annotations

import ctypes
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from termchat.config.settings import load
from termchat.decoding.records import Failed
from termchat.engine.llama import rpc
from termchat.engine.local import LocalEngine
from termchat.engine.port import EngineError, Load, ModelSpec
from termchat.engine.worker_line import WorkerLine


@pytest.fixture
def listening() -> Iterator[str]:
    """A server that takes connections."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


class Ggml:
    """The part of ggml's library that is called; `built` with RPC or not."""

    def __init__(self, *, built: bool = True) -> None:
        self.added: list[bytes] = []
        self.registered: list[int] = []
        self._built = built
        self._add = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_char_p)(self._added)

    def _added(self, server: bytes) -> int:
        self.added.append(server)
        return 1000 + len(self.added)

    def ggml_backend_reg_by_name(self, name: bytes) -> int | None:
        assert name == b"RPC"
        return 7 if self._built else None

    def ggml_backend_reg_get_proc_address(self, backend: int, name: bytes) -> int | None:
        assert (backend, name) == (7, b"ggml_backend_rpc_add_server")
        return ctypes.cast(self._add, ctypes.c_void_p).value

    def ggml_backend_register(self, made: int) -> None:
        self.registered.append(made)


def test_each_server_is_registered_once_and_a_remark_warns(listening: str) -> None:
    ggml = Ggml()
    (remark,) = rpc.register_servers((listening,), ggml)
    assert remark.message == f"layers may be computed on {listening}: replies are not exact"
    assert "proof of concept, fragile and insecure" in remark.hint
    assert rpc.register_servers((listening,), ggml) == [remark]
    assert (ggml.added, ggml.registered) == ([listening.encode()], [1001])
    assert rpc.register_servers((), ggml) == []


@pytest.mark.parametrize(
    ("servers", "said"),
    [
        (("nonsense",), "rpc: not HOST:PORT: nonsense"),
        (("lab:0",), "rpc: not HOST:PORT: lab:0"),
        (("http://lab:50052",), "rpc: not HOST:PORT: http://lab:50052"),
        (tuple(f"lab:{port}" for port in range(1, 18)), "17 rpc servers are given; llama.cpp takes 16"),
    ],
)
def test_what_is_no_list_of_servers_is_refused(servers: tuple[str, ...], said: str) -> None:
    ggml = Ggml()
    with pytest.raises(EngineError) as refused:
        rpc.register_servers(servers, ggml)
    assert (refused.value.kind, refused.value.message) == ("rpc", said)
    assert ggml.added == []


def test_one_that_is_not_there_is_told_before_llama_cpp_is_asked(listening: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        gone = f"127.0.0.1:{closed.getsockname()[1]}"
    ggml = Ggml()
    with pytest.raises(EngineError, match=f"the rpc server {gone} cannot be reached: Connection refused"):
        rpc.register_servers((listening, gone), ggml)
    assert ggml.added == []


def test_a_build_without_it_says_how_to_have_one(listening: str) -> None:
    with pytest.raises(EngineError, match="this llama-cpp-python was built without RPC") as refused:
        rpc.register_servers((listening,), Ggml(built=False))
    for said in ("CMAKE_ARGS=-DGGML_RPC=ON", "--no-cache-dir", "llama-server --rpc"):
        assert said in refused.value.hint


def test_the_servers_are_settings_of_the_engine(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text('[engine]\nrpc = ["lab:50052", "[::1]:50053"]\n')
    found = load({}, {}, file)
    assert found.engine.rpc == ("lab:50052", "[::1]:50053")
    assert found.spec("m", Path("/m.gguf")).rpc == found.engine.rpc
    assert load({"rpc": "a:1, b:2"}, {}, file).engine.rpc == ("a:1", "b:2")
    assert load({}, {"TERMCHAT_RPC": "c:3"}, file).engine.rpc == ("c:3",)
    assert load({}, {"TERMCHAT_RPC": ""}, file).engine.rpc == ()


_DIES = """
import os, sys
sys.stdin.buffer.read(1)
print("ggml-rpc.cpp:566: Remote RPC server crashed or returned malformed response", file=sys.stderr, flush=True)
os.abort()
"""


def test_a_server_that_dies_ends_the_process_and_is_named(listening: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        gone = f"127.0.0.1:{closed.getsockname()[1]}"
    engine = LocalEngine(tmp_path / "log", WorkerLine([sys.executable, "-c", _DIES]))
    engine.send(Load(ModelSpec("m", "m", rpc=(listening, gone))))
    (failed,) = [event for _, event in engine.receive(60.0)]
    assert isinstance(failed, Failed)
    assert failed.message == f"the rpc server {gone} broke off, and the engine process ended with it"
    assert "start it again" in failed.hint
    assert not engine.alive
