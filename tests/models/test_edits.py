"""The real header with every number in it changed: llama.cpp survives each edit that we let through."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from termchat.models.errors import ModelError
from termchat.models.gguf.header import read_header

LOAD_EDITED = """
import json, os, resource, signal, struct, sys
import llama_cpp
source, path = sys.argv[1:]
LAYOUTS = {4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q"}
VALUES = {"<f": (0.0, -1.0, float("nan"), float("inf")), "<?": (True, False)}
WHOLE = (0, 1, 31, 513, 1 << 16, (1 << 32) - 1)

def load():
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.alarm(60)
    model = llama_cpp.llama_model_load_from_file(path.encode(), llama_cpp.llama_model_default_params())
    if model:
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = params.n_batch = params.n_ubatch = 32
        llama_cpp.llama_init_from_model(model, params)
    os._exit(0)

def numbers(data):
    position = 24
    (count,) = struct.unpack_from("<Q", data, 16)
    for _ in range(count):
        (length,) = struct.unpack_from("<Q", data, position)
        key = data[position + 8 : position + 8 + length].decode()
        position += 8 + length
        (kind,) = struct.unpack_from("<I", data, position)
        position += 4
        if key == "tokenizer.ggml.tokens":
            return
        if kind == 8:
            position += 8 + struct.unpack_from("<Q", data, position)[0]
        elif kind == 9:
            position += 12
            position += 8 + struct.unpack_from("<Q", data, position)[0]  # the one array before has one text
        else:
            yield key, position, LAYOUTS[kind]
            position += struct.calcsize(LAYOUTS[kind])

data = open(source, "rb").read(1 << 16)
llama_cpp.llama_backend_init()
with open(path, "r+b", buffering=0) as file:
    for key, at, layout in numbers(data):
        for value in VALUES.get(layout, WHOLE):
            file.seek(at)
            file.write(struct.pack(layout, value))
            child = os.fork()
            if not child:
                load()
            _, status = os.waitpid(child, 0)
            print(json.dumps([key, at, struct.pack(layout, value).hex(), os.waitstatus_to_exitcode(status)]))
        file.seek(at)
        file.write(data[at : at + struct.calcsize(layout)])
"""


def test_llama_cpp_survives_every_edit_that_we_let_through(model_path: Path, tmp_path: Path) -> None:
    """Weights are zeros: the file takes no more room than its header."""
    path = tmp_path / "edited.gguf"
    with model_path.open("rb") as file:
        head = file.read(read_header(model_path).header_size)
    path.write_bytes(head)
    with path.open("ab") as file:
        file.truncate(98_362_432)
    done = subprocess.run(
        [sys.executable, "-c", LOAD_EDITED, str(model_path), str(path)],
        capture_output=True,
        text=True,
        check=True,
        env={"GGML_NO_BACKTRACE": "1", "PATH": ""},
    )
    edits = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(edits) > 50
    died = []
    for key, at, data, code in edits:
        with path.open("r+b") as file:
            file.seek(at)
            file.write(bytes.fromhex(data))
        try:
            read_header(path)
        except ModelError:
            refused = True
        else:
            refused = False
        if code < 0 and not refused:
            died.append((key, data, code))
        with path.open("r+b") as file:
            file.seek(at)
            file.write(head[at : at + len(data) // 2])
    assert died == []
    assert any(code < 0 for *_, code in edits), "none ended the process: the refusals are needed no more"
