"""A real HTTP server on the loopback that serves GGUF files, and misbehaves where it is told to."""

from __future__ import annotations

import hashlib
import random
import re
import struct
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

HEADER_METADATA = 2


def gguf(size: int, seed: int = 1) -> bytes:
    """A whole GGUF file of one tensor, of about `size` bytes, different for every seed."""

    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value)) + value.encode()

    weights = size // 4
    head = b"GGUF" + struct.pack("<IQQ", 3, 1, HEADER_METADATA)
    head += text("general.architecture") + struct.pack("<I", 8) + text("llama")
    head += text("llama.block_count") + struct.pack("<II", 4, 1)
    head += text("token_embd.weight") + struct.pack("<IQIQ", 1, weights, 0, 0)
    return head + bytes(-len(head) % 32) + random.Random(seed).randbytes(weights * 4)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class Asked(NamedTuple):
    """A request as it came."""

    path: str
    headers: dict[str, str]


@dataclass
class Served:
    """What lies at a path, and how it is handed out."""

    data: bytes = b""
    etag: str = '"one"'
    headers: dict[str, str] = field(default_factory=dict)
    ranges: bool = True
    length: bool = True
    cut: list[int] = field(default_factory=list)
    """For each next request, after how many bytes the connection breaks."""
    first: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    """Statuses and headers to answer with before anything else."""
    redirect: str = ""
    hold: tuple[int, threading.Event] | None = None
    """After how many bytes to wait, and for what."""
    held: threading.Event = field(default_factory=threading.Event)


class FileServer(ThreadingHTTPServer):
    """The server. `files` by path; `asked` are the requests so far."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files: dict[str, Served] = {}
        self.asked: list[Asked] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def put(self, path: str, data: bytes, **how: object) -> str:
        """Lays a file at a path and returns its address."""
        self.files[path] = Served(data, **how)  # type: ignore[arg-type]
        return self.address + path

    def ranges(self) -> list[str]:
        return [asked.headers.get("range", "") for asked in self.asked]

    def handle_error(self, request: object, client_address: object) -> None:
        """Nothing: clients that are killed are what this is for."""


@contextmanager
def file_server() -> Iterator[FileServer]:
    """A server that runs."""
    with FileServer() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield server
        for served in server.files.values():
            if served.hold:
                served.hold[1].set()
        server.shutdown()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FileServer

    def do_GET(self) -> None:
        self.server.asked.append(Asked(self.path, {name.lower(): value for name, value in self.headers.items()}))
        served = self.server.files.get(self.path.partition("?")[0])
        if served is None:
            self._answer(404, {})
        elif served.first:
            self._answer(*served.first.pop(0))
        elif served.redirect:
            self._answer(302, {"Location": served.redirect, **served.headers})
        else:
            self._file(served)

    def _answer(self, status: int, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": "0", **headers}.items():
            self.send_header(name, value)
        self.end_headers()

    def _file(self, served: Served) -> None:
        start, status, total = 0, 200, len(served.data)
        headers = {"ETag": served.etag} if served.etag else {}
        found = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        if found and served.ranges and self.headers.get("If-Range", served.etag) == served.etag:
            start, status = int(found[1]), 206
            if start >= total:
                self._answer(416, {"Content-Range": f"bytes */{total}"})
                return
            headers["Content-Range"] = f"bytes {start}-{total - 1}/{total}"
        headers |= {"Content-Length": str(total - start)} if served.length else {"Connection": "close"}
        self.send_response(status)
        for name, value in {**headers, **served.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self._body(served, served.data[start:])

    def _body(self, served: Served, data: bytes) -> None:
        cut = served.cut.pop(0) if served.cut else None
        if cut is not None:
            data = data[:cut]
        with suppress(ConnectionError):
            if served.hold is not None:
                count, event = served.hold
                self.wfile.write(data[:count])
                served.held.set()
                event.wait(120)
                data = data[count:]
            self.wfile.write(data)
        if cut is not None or not served.length:
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""
