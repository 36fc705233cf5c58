"""llama.cpp's RPC: devices of other machines, on which ggml-rpc-server runs, beside this machine's own.

A build without it (-DGGML_RPC=ON) says so. A server that is not there would end this process without a word, so each is reached
first; one that dies later does end it, with SIGABRT.
"""

from __future__ import annotations

import ctypes
import re
import socket
from collections.abc import Sequence
from typing import Any

from termchat.engine.llama import offload
from termchat.engine.port import EngineError, Remark
from termchat.text import one_line

MOST = 16
"""Servers that llama.cpp takes."""
_CONNECT = 5.0
_SERVER = re.compile(r"(?P<host>\[[0-9A-Fa-f:.%\w]+\]|[^:\s\[\]]+):(?P<port>\d{1,5})")
_POINTER = ctypes.c_void_p
_BUILD = (
    "install it with: CMAKE_ARGS=-DGGML_RPC=ON pip install --no-cache-dir --force-reinstall llama-cpp-python;"
    " or run llama-server --rpc there, and use its URL"
)
_WARNING = (
    "llama.cpp's authors call it a proof of concept, fragile and insecure, not to be run on an open network: there is no"
    " password and no encryption"
)

_registered: set[str] = set()
"""A server counts once in this process."""


def register_servers(servers: Sequence[str], ggml: Any = None) -> list[Remark]:
    """Make the devices of these servers, each HOST:PORT, devices of llama.cpp; after its backends are ready and before a model
    is loaded. `ggml` is its library.

    Returns:
        What a person should know of it; nothing without servers.

    Raises:
        EngineError: of kind "rpc": one is no HOST:PORT, there are too many, the build has no RPC, or one cannot be reached.
    """
    if not servers:
        return []
    places: dict[str, tuple[str, int]] = {}
    for server in servers:
        match = _SERVER.fullmatch(server)
        if match is None or not 0 < int(match["port"]) < 65536:
            raise EngineError("rpc", f"rpc: not HOST:PORT: {one_line(server, 80)}", "for example lab:50052")
        places[server] = match["host"].strip("[]"), int(match["port"])
    if len(servers) > MOST:
        raise EngineError("rpc", f"{len(servers)} rpc servers are given; llama.cpp takes {MOST}", "give fewer")
    ggml = offload.load_library() if ggml is None else ggml
    backend = ggml.ggml_backend_reg_by_name(b"RPC")
    address = ggml.ggml_backend_reg_get_proc_address(backend, b"ggml_backend_rpc_add_server") if backend else None
    if not address:
        raise EngineError("rpc", "this llama-cpp-python was built without RPC", _BUILD)
    for server, place in places.items():
        try:
            socket.create_connection(place, timeout=_CONNECT).close()
        except OSError as error:
            why = error.strerror or str(error) or type(error).__name__
            raise EngineError(
                "rpc", f"the rpc server {server} cannot be reached: {why}", "run ggml-rpc-server there, with -H and -p"
            ) from None
    add = ctypes.CFUNCTYPE(_POINTER, ctypes.c_char_p)(address)
    for server in servers:
        if server not in _registered:
            if not (backend := add(server.encode())):
                raise EngineError("rpc", f"{server} is no rpc server of this llama.cpp", "run the same build on both")
            ggml.ggml_backend_register(backend)
            _registered.add(server)
    names = ", ".join(servers)
    return [Remark(f"layers may be computed on {names}: replies are not exact", _WARNING)]
